"""The recorded history of a live build cache, as a source that subscriptions can watch."""

from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from cachewatch.config.model import Source
from cachewatch.config.sources import Push
from cachewatch.core.filter_patterns import Globs
from cachewatch.errors import CachewatchError, SourceError, UnknownRevision
from cachewatch.git.credentials import Access
from cachewatch.git.resolving_revisions import resolve
from cachewatch.git.shared_recording import SharedRecording
from cachewatch.notify.watched_source import News, RecordedSource, Sharing
from cachewatch.sources.buildcache.address import LARGEST_INDEX, patience
from cachewatch.sources.buildcache.opening import Cache
from cachewatch.sources.cache_recorder import record


class RecordedHistory(RecordedSource):
    """The history that we record of a build cache."""

    def __init__(self, source: Source, folder: Path) -> None:
        files = {name: Path(file) for name, file in source.credentials.items()}
        seconds = source.poll.timeout.total_seconds()
        self._cache = Cache(
            address=source.address,
            is_catalogue=source.type == "catalogue",
            wanted_tag=Globs(source.tags),
            limits=replace(patience(seconds), total=seconds),
            token_file=files.get("token_file"),
            login_file=files.get("login_file"),
            max_index=source.max_index or LARGEST_INDEX,
            **source.options,
        )
        super().__init__(folder, source.address)
        self._shared = self._shared_in(source.push, seconds) if source.push else None

    def update(self) -> News:
        """Record what the cache publishes now, unless it is what it was.

        Where hosts share the history, what they recorded is fetched before, and the new revision is pushed.
        """
        fetched = self._fetch()
        try:
            done = record(self._cache, self._folder)
        finally:
            sharing = self._push(fetched)
        said = [f"{held.tag} is held back: {held.reason}." for held in done.held]
        said += [f"{failed.tag} was not recorded: {failed.message}." for failed in done.failed]
        with closing(self.open()) as repository:
            try:
                newest = resolve(repository, "HEAD")
            except UnknownRevision as error:
                raise SourceError(" ".join(said) or f"{self._address}: nothing was recorded yet") from error
        warnings = tuple(f"{diagnostic.path}: {diagnostic.message}." for diagnostic in done.diagnostics)
        return News(
            revision=newest.commit, time=newest.time, warnings=warnings, problem=" ".join(said), sharing=sharing
        )

    def recall(self, revisions: Collection[str]) -> frozenset[str]:
        """Return those that are lacking: what another host recorded is here by now if it shares that."""
        if self._shared is not None and self.lacking(revisions):
            self._shared.fetch()  # says whether that can be known
        return self.lacking(revisions)

    def _shared_in(self, push: Push, seconds: float) -> SharedRecording:
        access = Access.named(push.credentials) if push.credentials else None
        return SharedRecording(self._folder, push.address, access, seconds=seconds)

    def _fetch(self) -> Sharing | None:
        """Go on from what other hosts recorded; where that cannot be had, this host records on its own for a while."""
        if self._shared is None:
            return None
        try:
            return Sharing(fetched=self._shared.fetch())
        except CachewatchError as error:
            return Sharing(problem=str(error))

    def _push(self, sharing: Sharing | None) -> Sharing | None:
        """Push what was recorded, now or before, if the shared repository can be reached."""
        if self._shared is None or sharing is None or sharing.problem:
            return sharing
        try:
            return replace(sharing, pushed=self._shared.push())
        except CachewatchError as error:
            return replace(sharing, problem=str(error))
