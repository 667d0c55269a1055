"""What every step of a pass needs: the configuration, the state, and the clones or recorded histories of sources."""

import os
import shutil
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from datetime import date, datetime
from functools import partial
from pathlib import Path
from secrets import token_hex
from zoneinfo import ZoneInfo

from msgspec import Struct, field

from cachewatch.config.settings_and_subscriptions import Config
from cachewatch.config.sources_and_channels import GitSource, Source
from cachewatch.core.filters_and_spec_patterns import Globs
from cachewatch.core.names_and_layouts import ANYWHERE, Layout
from cachewatch.errors import SourceError, UnknownRevision
from cachewatch.git.clone_locks_and_disk_space import RECORDING_LOCK
from cachewatch.git.local_repository import Repository, is_made
from cachewatch.git.remote_urls_and_fetch_errors import Access, redact
from cachewatch.git.revision_names_and_times import resolve, resolve_upstream
from cachewatch.git.service_clone import ServiceClone
from cachewatch.git.trees import catalogue_of, nothing_found
from cachewatch.hooks import extensions, load
from cachewatch.report.digest_and_message_values import DeliveryResult
from cachewatch.runtime.files_and_locks import publish
from cachewatch.runtime.log import Log
from cachewatch.sources.folders_and_unreadable_files import is_plain, record_folder
from cachewatch.store.cursors_and_remembered import Advance
from cachewatch.store.delivery_queue_and_order import Delivery
from cachewatch.store.schema import Clock, utc_now
from cachewatch.store.transactions_and_sqlite import Connection, Database, after_commit


class News(Struct, frozen=True, kw_only=True):
    """The newest revision of a source after an update, and problems with the source, if any."""

    revision: str
    time: datetime | None  # when it was published
    warnings: tuple[str, ...]  # of which operators are notified once
    problem: str = ""  # while it lasts, an alert is open; there may be a new revision all the same
    no_documents: str = ""  # if the source has no documents: what was looked for, and what was found instead


class Watched(ABC):
    """The local copy of a source, in a folder of the state."""

    @abstractmethod
    def update(self) -> News:
        """Fetch and return the newest revision. Raises SourceError, and leaves the copy as it was, if that fails."""

    @abstractmethod
    def open(self) -> Repository:
        """Open the copy to read it."""

    def pin(self, revisions: Collection[str]) -> None:  # noqa: B027  a recorded history never loses a revision
        """Protect these revisions and their contents from deletion, even if the source removes them."""

    def tidy(self, used: Collection[str]) -> None:  # noqa: B027  it is packed when it is written
        """Undo `pin` for all revisions except those in `used`, and keep the copy small."""


class RecordedSource(Watched):
    """The history that cachewatch records, in a git repository, for a source that has none."""

    def __init__(self, folder: Path, address: str, layout: Layout = ANYWHERE) -> None:
        self._folder, self._address, self._layout = folder, address, layout

    def open(self) -> Repository:
        """Open the history to read it. Raises SourceError if nothing was recorded yet."""
        if not is_made(self._folder):  # another thread may be about to make it
            raise SourceError(f"{self._address}: nothing was recorded yet")
        return Repository(self._folder, self._layout)


_MOST_FAULTS = 5


class WatchedClone(Watched):
    """A clone of a git repository, which keeps pinned revisions even if upstream deletes them."""

    def __init__(self, source: GitSource, folder: Path) -> None:
        self._folder, self._address, self._since = folder, redact(source.address), source.since
        self._clone = ServiceClone(
            folder,
            source.address,
            branch=source.branch,
            timeout=source.poll.timeout.total_seconds(),
            access=Access(**source.credentials) if source.credentials else None,
            layout=source.layout,
            wanted_tag=Globs(source.tags),
        )

    def update(self) -> News:
        """Fetch and return the newest revision of the branch."""
        update = self._clone.update()
        path = self._folder / "cachewatch-address"  # stored beside the clone
        before = path.read_text("utf-8", "replace").strip() if path.is_file() else ""
        if before != self._address:
            publish(path, f"{self._address}\n".encode(), base=self._folder, mode=0o600, is_durable=False)
        with closing(self._clone.open()) as repository:
            newest = resolve(repository, update.after)
            if self._since is not None:
                with suppress(UnknownRevision):  # each stream that begins there reports the error
                    resolve_upstream(repository, self._since)
            is_empty = catalogue_of(repository, update.after) is None
            missing = nothing_found(repository, update.after, update.branch) if is_empty else ""
        warnings = []
        if before not in ("", self._address):
            warnings = [f"The address of the source was changed; it was {before}. Digests compare what the two have."]
        elif update.rewritten:
            warnings = [f"Upstream rewrote the history of {update.branch}; digests compare the two states anyway."]
        if update.set_aside is not None:
            where = f"the damaged one is kept in {update.set_aside}"
            warnings.append(f"Our clone was damaged and was cloned again; {where}.")
        if update.lost_pins:
            warnings.append(f"{len(update.lost_pins)} revisions from which digests start no longer exist anywhere.")
        return News(revision=update.after, time=newest.time, warnings=tuple(warnings), no_documents=missing)

    def open(self) -> Repository:
        """Open the clone to read it."""
        return self._clone.open()

    def pin(self, revisions: Collection[str]) -> None:
        """Protect these revisions and their contents from deletion, even if upstream deletes them."""
        for revision in sorted(set(revisions) - self._clone.pins()):
            self._clone.pin(revision)

    def tidy(self, used: Collection[str]) -> None:
        """Undo `pin` for all revisions that are not in `used`."""
        for revision in self._clone.pins().difference(used):
            self._clone.unpin(revision)


class RecordedFolder(RecordedSource):
    """The recorded history of a folder of documents."""

    def update(self) -> News:
        """Record the documents of the folder as a new revision, unless nothing changed; return the newest revision."""
        if not Path(self._address).exists():
            raise SourceError(f"{self._address}: there is no such folder")
        faults = [each for each in record_folder(self._address, self._folder, self._layout) if each.is_loss]
        messages = [f"{each.path}: {each.message}." for each in faults[:_MOST_FAULTS]]
        if len(faults) > _MOST_FAULTS:
            messages.append(f"And {len(faults) - _MOST_FAULTS:,} more.")
        with closing(self.open()) as repository:
            newest = resolve(repository, "HEAD")
        return News(revision=newest.commit, time=newest.time, warnings=(), problem=" ".join(messages))


def copy_for_now(folder: Path, copy: Path) -> None:
    """Make a clone at `copy` that uses the objects and indexes of the clone `folder`; do nothing without `folder`."""
    if not folder.exists():
        return
    indexes = [path.resolve() for path in folder.glob("*.db")]
    left_out = {"objects", *(path.name for path in folder.glob("*.db*"))}
    copy.parent.mkdir(parents=True, exist_ok=True)
    with suppress(shutil.Error):  # locks of a process that works on it, which vanished meanwhile
        shutil.copytree(folder, copy, ignore=lambda of, _: left_out if Path(of) == folder else ())
    for path in (copy, *copy.rglob("*")):  # a state may be read-only; this copy is ours
        path.chmod(0o700)
    (info := copy / "objects" / "info").mkdir(parents=True)
    (info / "alternates").write_text(f"{(folder / 'objects').resolve()}\n", "utf-8")
    for index in indexes:
        (copy / index.name).symlink_to(index)


class EndingError(Exception):
    """Raised to stop work because cachewatch is ending. Nothing is lost: the next run repeats what was not stored."""


class Context(Struct, kw_only=True):
    """The values for a pass: configuration, state, log and clock, and whether cachewatch is ending."""

    config: Config
    database: Database
    log: Log
    clock: Clock = utc_now
    # Set when cachewatch is to end: the current message is still sent, and no other is begun.
    is_ending: threading.Event = field(default_factory=threading.Event)
    # The name, unique to this run, with which deliveries are claimed; the results not stored yet, by delivery id.
    owner: str = field(default_factory=lambda: f"{socket.gethostname()}/{os.getpid()}/{token_hex(4)}")
    unwritten: dict[int, tuple[Delivery, DeliveryResult]] = field(default_factory=dict)
    started: datetime | None = None  # when this process began
    notices: int = 0  # how many notices to operators were queued
    beat: Callable[[], None] = lambda: None  # called from time to time as a sign of life

    def __post_init__(self) -> None:
        if self.started is None:
            self.started = self.clock()

    def log_within(self, connection: Connection, delivery: Delivery | None = None) -> Log:
        """Return a log, about `delivery` if given, whose lines are written when the transaction is committed."""
        of = {} if delivery is None else {"id": delivery.id, "channel": delivery.channel, "target": delivery.target}
        return self.log.bind(**of).deferred(partial(after_commit, connection))

    def go_on(self) -> None:
        """Raise EndingError if cachewatch is ending; long work calls this from time to time."""
        if self.is_ending.is_set():
            raise EndingError
        self.beat()

    def today(self) -> date:
        """Return today's date in the configured time zone."""
        return self.clock().astimezone(ZoneInfo(self.config.timezone)).date()

    def watched(self, source: Source) -> Watched:
        """Return this host's copy of `source`, which may not exist yet."""
        return watched_copy(source, self.clone_folder(source.name))

    def open_repository(self, source: Source) -> Repository:
        """Open this host's copy of `source` to read it; the caller closes it."""
        return self.watched(source).open()

    def pin(self, advances: Collection[Advance]) -> None:
        """Protect the revisions that later comparisons from `advances` need, even if upstream deletes them."""
        for each in advances:
            self.watched(self.config.sources[each.source]).pin(each.revisions)

    def clone_folder(self, source: str) -> Path:
        """Return the folder of the clone, or of the recorded history, of a source."""
        return self.config.folder / "sources" / f"{source}.git"


def watched_copy(source: Source, folder: Path) -> Watched:
    """Return the copy of `source` in `folder`; its class depends on the type of the source."""
    if isinstance(source, GitSource):
        path = Path(source.address)
        # A folder that vanished is still known by its recorded history.
        is_folder = is_plain(path) or (not path.exists() and (folder / RECORDING_LOCK).exists())
        return RecordedFolder(folder, source.address, source.layout) if is_folder else WatchedClone(source, folder)
    kinds = {kind.type: kind for kind in extensions().source_kinds}
    watched: Watched = load(kinds[source.type].watched)(source, folder)
    return watched
