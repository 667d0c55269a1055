"""The clone of a git repository, or the recorded history of a folder, as a source that subscriptions can watch."""

from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from cachewatch.config.model import Source
from cachewatch.core.filter_patterns import Globs
from cachewatch.errors import SourceError, UnknownRevision
from cachewatch.git.arranged_trees import catalogue_of, nothing_found
from cachewatch.git.clone_locks import RECORDING_LOCK
from cachewatch.git.credentials import Access, redact
from cachewatch.git.repository import Repository
from cachewatch.git.resolving_revisions import resolve, resolve_upstream
from cachewatch.git.service_clone import Mirror, Update
from cachewatch.notify.watched_source import News, RecordedSource
from cachewatch.runtime.atomic_files import put
from cachewatch.sources.folder_recorder import record_folder
from cachewatch.sources.folders import is_plain

_ADDRESS_FILE = "cachewatch-address"
_MOST_FAULTS = 5


class WatchedClone:
    """A clone of a git repository, which keeps what upstream may take away."""

    def __init__(self, source: Source, folder: Path) -> None:
        self._folder, self._address, self._since = folder, redact(source.address), source.since
        self._mirror = Mirror(
            folder,
            source.address,
            branch=source.branch,
            timeout=source.poll.timeout.total_seconds(),
            access=Access.named(source.credentials) if source.credentials else None,
            layout=source.layout,
            wanted_tag=Globs(source.tags),
        )

    def update(self) -> News:
        """Fetch what is new."""
        update = self._mirror.update()
        other = self._other_address()
        with closing(self._mirror.open()) as repository:
            newest = resolve(repository, update.after)
            if self._since is not None:
                with suppress(UnknownRevision):  # which each stream says that begins there
                    resolve_upstream(repository, self._since)
            is_empty = catalogue_of(repository, update.after) is None
            missing = nothing_found(repository, update.after, update.branch) if is_empty else ""
        warnings = tuple(_warnings(update, other))
        return News(revision=update.after, time=newest.time, warnings=warnings, no_documents=missing)

    def _other_address(self) -> str:
        """Note from where the clone was fetched; return the other address that it was fetched from before, if any."""
        path = self._folder / _ADDRESS_FILE
        before = path.read_text("utf-8", "replace").strip() if path.is_file() else ""
        if before != self._address:
            put(path, f"{self._address}\n".encode(), base=self._folder, mode=0o600)
        return before if before != self._address else ""

    def open(self) -> Repository:
        """Open the clone to read it."""
        return self._mirror.open()

    def pin(self, revisions: Collection[str]) -> None:
        """Keep these revisions whole, whatever becomes of upstream."""
        kept = set(self._mirror.pins().values())
        for revision in revisions:
            if revision not in kept:
                self._mirror.pin(revision, revision)

    def lacking(self, revisions: Collection[str]) -> frozenset[str]:
        """Return those of these revisions that are not here."""
        return self._mirror.lacking(revisions)

    def tidy(self, used: Collection[str]) -> None:
        """Let go of the pins that are not in `used`."""
        for name, revision in self._mirror.pins().items():
            if revision not in used:
                self._mirror.unpin(name)


class RecordedFolder(RecordedSource):
    """The history that we record of a folder of documents."""

    def __init__(self, source: Source, folder: Path) -> None:
        super().__init__(folder, source.address, source.layout)

    @staticmethod
    def is_one(source: Source, folder: Path) -> bool:
        """Tell whether a source is a folder, or was one when it was there."""
        path = Path(source.address)
        return is_plain(path) or (not path.exists() and (folder / RECORDING_LOCK).exists())

    def update(self) -> News:
        """Record what is in the folder now, unless it is what it was."""
        if not Path(self._address).exists():
            raise SourceError(f"{self._address}: there is no such folder")
        faults = [
            each
            for each in record_folder(self._address, self._folder, self._layout, now=datetime.now(UTC))
            if each.is_loss
        ]
        said = [f"{each.path}: {each.message}." for each in faults[:_MOST_FAULTS]]
        if len(faults) > _MOST_FAULTS:
            said.append(f"And {len(faults) - _MOST_FAULTS:,} more.")
        with closing(self.open()) as repository:
            newest = resolve(repository, "HEAD")
        return News(revision=newest.commit, time=newest.time, warnings=(), problem=" ".join(said))


def _warnings(update: Update, other: str) -> Iterator[str]:
    if other:
        yield f"The address of the source was changed; it was {other}. Digests compare what the two have."
    elif update.rewritten:
        yield f"Upstream rewrote the history of {update.branch}; digests compare the two states anyway."
    if update.set_aside is not None:
        yield f"Our clone was damaged and was cloned again; the damaged one is kept in {update.set_aside}."
    if update.lost_pins:
        yield f"{len(update.lost_pins)} revisions from which digests start no longer exist anywhere."
