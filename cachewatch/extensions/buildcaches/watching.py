"""The recorded history of a live build cache, as a source that subscriptions can watch."""

from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from cachewatch.config.sources import Source
from cachewatch.core.selection import Globs
from cachewatch.errors import SourceError, UnknownRevision
from cachewatch.extensions.buildcaches.address import LARGEST_INDEX, patience
from cachewatch.extensions.buildcaches.opening import Cache
from cachewatch.extensions.buildcaches.recorder import record
from cachewatch.git.revisions import resolve
from cachewatch.service.watched import News, RecordedSource


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

    def update(self) -> News:
        """Record what the cache publishes now, unless it is what it was."""
        done = record(self._cache, self._folder)
        said = [f"{held.tag} is held back: {held.reason}." for held in done.held]
        said += [f"{failed.tag} was not recorded: {failed.message}." for failed in done.failed]
        with closing(self.open()) as repository:
            try:
                newest = resolve(repository, "HEAD")
            except UnknownRevision as error:
                raise SourceError(" ".join(said) or f"{self._address}: nothing was recorded yet") from error
        warnings = tuple(f"{diagnostic.path}: {diagnostic.message}." for diagnostic in done.diagnostics)
        return News(revision=newest.commit, time=newest.time, warnings=warnings, problem=" ".join(said))
