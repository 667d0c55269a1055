"""What every step of a pass works with."""

import os
import socket
import threading
from collections.abc import Callable, Collection
from datetime import date, datetime
from functools import partial
from pathlib import Path
from secrets import token_hex
from zoneinfo import ZoneInfo

from msgspec import Struct, field

from cachewatch.config.model import Config
from cachewatch.config.sources import GitSource, Source
from cachewatch.git.repository import Repository
from cachewatch.hooks import extensions, load
from cachewatch.report.values import DeliveryResult
from cachewatch.runtime.log import Log
from cachewatch.service.watched import RecordedFolder, Watched, WatchedClone
from cachewatch.store.cursors import Advance
from cachewatch.store.database import Connection, Database, after_commit
from cachewatch.store.outbox import Delivery
from cachewatch.store.schema import Clock, utc_now


def new_owner() -> str:
    """Return a name for one run, which no other has: HOST/PROCESS/NUMBER."""
    return f"{socket.gethostname()}/{os.getpid()}/{token_hex(4)}"


class EndingError(Exception):
    """Cachewatch is to end. It is no failure: what was not written down is done again next time."""


class Context(Struct, kw_only=True):
    """The configuration, the state, and how to say what happens."""

    config: Config
    database: Database
    log: Log
    clock: Clock = utc_now
    # Hears what is being done, for somebody who waits for it.
    doing: Callable[[str], None] = lambda _: None
    # Set when cachewatch is to end: the message in hand is finished, and no other begun.
    is_ending: threading.Event = field(default_factory=threading.Event)
    # By which name deliveries are claimed, and the answers that could not be written down yet, by delivery.
    owner: str = field(default_factory=new_owner)
    unwritten: dict[int, tuple[Delivery, DeliveryResult]] = field(default_factory=dict)
    # When this process began, by its clock, and when it last found written down that it runs.
    started: datetime | None = None
    ran: datetime | None = None
    notices: int = 0  # to operators, that it has queued

    def __post_init__(self) -> None:
        if self.started is None:
            self.started = self.clock()

    @property
    def folder(self) -> Path:
        """Where this host keeps its clones."""
        return self.config.folder

    def log_within(self, connection: Connection, delivery: Delivery | None = None) -> Log:
        """Return the log of a transaction, or of a delivery in one: its lines are written if and when that is committed."""
        log = self.log if delivery is None else self.log_of(delivery)
        return log.deferred(partial(after_commit, connection))

    def log_of(self, delivery: Delivery) -> Log:
        """Return the log of what becomes of a delivery."""
        return self.log.bind(id=delivery.id, channel=delivery.channel, target=delivery.target)

    def go_on(self) -> None:
        """Raise EndingError if cachewatch is to end; long work asks now and then."""
        if self.is_ending.is_set():
            raise EndingError

    def today(self) -> date:
        """Return the day that it is where the configuration says."""
        return self.clock().astimezone(ZoneInfo(self.config.timezone)).date()

    def watched(self, source: Source) -> Watched:
        """Return the copy of `source` that is ours, which need not be there yet."""
        return watched_copy(source, self.clone_folder(source.name))

    def open_repository(self, source: Source) -> Repository:
        """Open our copy of `source` to read it; whoever asks closes it."""
        return self.watched(source).open()

    def pin(self, advances: Collection[Advance]) -> None:
        """Keep the revisions that streams are to be compared with next, whatever upstream does."""
        for each in advances:
            self.watched(self.config.sources[each.source]).pin(each.revisions)

    def clone_folder(self, source: str) -> Path:
        """Return where the clone, or the recorded history, of a source is."""
        return self.folder / "sources" / f"{source}.git"


def watched_copy(source: Source, folder: Path) -> Watched:
    """Return the copy of `source` that is in `folder`."""
    if isinstance(source, GitSource):
        return RecordedFolder(source, folder) if RecordedFolder.is_one(source, folder) else WatchedClone(source, folder)

    kinds = {kind.type: kind for kind in extensions().source_kinds}
    watched: Watched = load(kinds[source.type].watched)(source, folder)
    return watched
