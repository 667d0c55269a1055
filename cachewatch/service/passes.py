"""One pass: poll the sources, create the digests that are due, deliver what is queued; then maintenance and the ping.

`once` is one pass; the daemon does the same things as they fall due. The maintenance deletes pins without a cursor, old
digests and deliveries, and clones without a source. Of several hosts that share a state, one works (Leadership);
on a state of one host, its lock has decided that.
"""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from cachewatch.channels.chats import without_secret_url
from cachewatch.config.channels import FeedConfig
from cachewatch.config.model import Config
from cachewatch.config.sources import Source
from cachewatch.errors import AnotherInstance, CachewatchError, StateError
from cachewatch.http.client import post
from cachewatch.operators.review import review, summarize
from cachewatch.runtime.log import Log
from cachewatch.runtime.worker import Isolated, Worker
from cachewatch.service import recipients
from cachewatch.service.alerts import contained
from cachewatch.service.comparisons import Comparisons, kept_comparisons
from cachewatch.service.context import Context, EndingError
from cachewatch.service.create import create_digest, take_over_renamed
from cachewatch.service.poll import Polls, follow_poll
from cachewatch.service.recover import recover, set_aside_damaged
from cachewatch.service.send import deliver_all
from cachewatch.service.stream_state import streams_to_look_at
from cachewatch.service.streams import Stream, streams_of
from cachewatch.store import cursors, digests, health, messages, outbox
from cachewatch.store import digests as scheduled_runs
from cachewatch.store import health as alerts
from cachewatch.store import messages as suppressions
from cachewatch.store.database import LASTING, RENEWAL
from cachewatch.store.health import AlertKind


def clean_up(context: Context) -> None:
    """Do what nobody waits for; nothing here may stop anything else."""
    set_aside_damaged(context)
    for source in context.config.sources.values():
        with context.database.read() as connection:
            used = cursors.revisions_in_use(connection, source.name)
            used |= digests.revisions_held(connection, source.name)
        with contained(context, source.name, "maintenance"):
            try:
                context.watched(source).tidy(used)
            except CachewatchError as error:
                context.log.warning("source.untidy", source=source.name, error=str(error))
    _forget(context)
    context.database.tidy()


def _forget(context: Context) -> None:
    """Delete what the state keeps no longer; feeds are written anew from all of their entries, which stay."""
    retention = context.config.retention
    feeds = {name for name, channel in context.config.channels.items() if isinstance(channel, FeedConfig)}
    with context.database.write() as connection:
        now = recipients.certain(connection, context.clock())
        digests_gone = digests.forget_digests(connection, now - retention.metadata)
        payloads_gone = outbox.delete_payloads(connection, now - retention.payload, kept_channels=feeds)
        messages.delete_unused(connection)
        scheduled_runs.forget_slots(connection, now - retention.metadata)
        cursors.forget_vanished(connection, now - retention.metadata)
        cursors.forget(connection, now - retention.metadata)
    if digests_gone or payloads_gone:
        context.log.info("state.cleaned", digests=digests_gone or None, payloads=payloads_gone or None)


class Result(Struct, frozen=True, kw_only=True):
    """What a pass came to."""

    failed_sources: int
    failed_digests: int  # streams whose digests cannot be created
    dead: int
    suppressed: int  # deliveries for addresses that kept refusing
    blocked: int  # channels through which nothing is delivered until somebody repairs them

    @property
    def is_undelivered(self) -> bool:
        """Whether somebody does not get a digest, now or unless an operator acts."""
        return bool(self.dead or self.suppressed or self.blocked)


def run_pass(context: Context) -> Result:
    """Do all that is due now; a failing source or channel stops only itself, a hanging source what depends on it."""
    begun, untold, dead = context.clock(), list(streams_of(context.config)), 0
    with Worker(go_on=context.go_on) as worker:
        worker.start()  # before there are threads
        context.doing("polling")
        with Polls(context) as polls:
            for pending in polls:
                ready = [stream for stream in untold if not stream.depends_on(pending)]
                untold = [stream for stream in untold if stream.depends_on(pending)]
                _create_digests(context, ready, worker)
                if not pending:
                    summarize(context)
                context.doing("delivering")
                dead += deliver_all(context, is_last=not pending)
    for source in context.config.sources.values():
        follow_poll(context, source)
    clean_up(context)
    with context.database.read() as connection:
        suppressed = suppressions.count_since(connection, begun)
        kinds = Counter(alert.key.kind for alert in alerts.all_open(connection))
    return Result(
        failed_sources=polls.failed,
        failed_digests=kinds[AlertKind.DIGEST_FAILED],
        dead=dead,
        suppressed=suppressed,
        blocked=kinds[AlertKind.CHANNEL_DOWN],
    )


def create_digests(context: Context, beat: Callable[[], None] = lambda: None) -> None:
    """Make the digest of every stream that is due; `beat` hears that we live, after each of them and while one is made."""

    def go_on() -> None:
        context.go_on()
        beat()

    with Worker(go_on=go_on) as worker:
        _create_digests(context, streams_of(context.config), worker, beat)


def _create_digests(
    context: Context, streams: Iterable[Stream], worker: Worker, beat: Callable[[], None] = lambda: None
) -> None:
    recover(context)
    take_over_renamed(context)
    behind = _sources_behind(context)
    with context.database.read() as connection:
        ready = [stream for stream in streams if not stream.depends_on(behind)]
        ready = streams_to_look_at(connection, ready, context.clock())

    @cache
    def isolated(source: str) -> Isolated:
        with context.database.read() as connection:
            return Isolated(worker, cursors.blobs_not_to_read(connection, source))

    with (
        kept_comparisons(context.folder, ready) as kept,
        closing(Comparisons(isolated, kept)) as comparisons,
        suppress(EndingError),
    ):
        for stream in ready:
            context.go_on()
            context.doing(f"comparing for {stream.subscription.name}")
            create_digest(context, stream, comparisons)
            beat()
        review(context)


def _sources_behind(context: Context) -> frozenset[str]:
    """Name the sources whose newest revision another host fetched, and this one has yet to: they are polled first."""
    if not context.database.is_shared:
        return frozenset()
    return frozenset(name for name, source in context.config.sources.items() if _is_behind(context, source))


def _is_behind(context: Context, source: Source) -> bool:
    with context.database.read() as connection:
        newest = health.source(connection, source.name).revision
    try:
        return newest is not None and bool(context.watched(source).lacking({newest}))
    except StateError:
        raise
    except Exception:  # noqa: BLE001  its poll says what is wrong, and the other sources go on
        return True


class Leadership:
    """Whether this process works, or waits until the other one ends."""

    def __init__(self, context: Context, begin: Callable[[], None]) -> None:
        """Know nothing yet; `begin` is called whenever this process becomes the one that works."""
        self._context = context
        self._begin = begin
        self._has_begun = False  # and no other is known to have taken over since
        self._ends = 0.0  # by our own clock, and not later than by the database's
        self.other = "nobody"

    @property
    def is_ours(self) -> bool:
        """Tell whether this process works, as far as it knows."""
        return not self._context.database.is_shared or time.monotonic() < self._ends

    def renew(self) -> None:
        """Take or renew the lease, if no other process has it; raise StateError if the database cannot be asked."""
        context, began = self._context, time.monotonic()
        try:
            context.database.lead(context.owner)
        except AnotherInstance:
            self._lose(context.database.leader() or "nobody")
            return
        if not self._has_begun:
            self._begin()
            if context.database.is_shared:
                context.log.info("leader.began", database=context.database.place)
        self._has_begun, self._ends = True, began + LASTING.total_seconds()

    def give_back(self) -> None:
        """Let another process begin at once."""
        self._ends = 0.0
        with suppress(CachewatchError):  # or it begins when the lease is over
            self._context.database.step_down(self._context.owner)

    def _lose(self, other: str) -> None:
        if self._has_begun:
            self._context.log.warning("leader.lost", to=other)
        self.other, self._has_begun, self._ends = other, False, 0.0


@contextmanager
def leading(context: Context) -> Iterator[None]:
    """Be the one that works, for a single pass; raise AnotherInstance where another does."""
    database = context.database
    database.lead(context.owner)
    if not database.is_shared:
        yield
        return
    is_over = threading.Event()
    renewing = threading.Thread(target=_renew, args=(context, is_over), daemon=True)
    renewing.start()
    try:
        yield
    finally:
        is_over.set()
        renewing.join()
        with suppress(CachewatchError):
            database.step_down(context.owner)


def _renew(context: Context, is_over: threading.Event) -> None:
    while not is_over.wait(RENEWAL.total_seconds()):
        # If the lease is lost, the next transaction of the pass says so.
        with suppress(CachewatchError):
            context.database.lead(context.owner)


_SECONDS = 20
# A check of healthchecks.io, or of a server of one's own that runs its software: by its UUID, or by a key and a name.
_HEALTHCHECKS = re.compile(
    r"https?://(?:hc-ping\.com|[^/?#]+/ping)/(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[\w-]{22}/[\w-]+)/?"
)


def ping(config: Config, log: Log, *, is_whole: bool) -> None:
    """Ping the configured URL; after a pass that failed, tell healthchecks so, and others by silence."""
    url = config.monitor.ping_url
    address = url and (url.reveal() if is_whole else _of_failure(url.reveal()))
    if url is None or not address:
        return

    try:
        status = post(address, b"", seconds=_SECONDS).status
        said = f"the server answered {status}" if status >= 300 else ""
    except CachewatchError as error:
        said = without_secret_url(str(error), url.reveal())
    if said:
        log.warning("ping.failed", error=said)


def _of_failure(url: str) -> str:
    """Return the URL that says that something failed; empty for a service that knows none."""
    parts = urlsplit(url)
    plain = urlunsplit(parts._replace(query="", fragment=""))
    if not _HEALTHCHECKS.fullmatch(plain):
        return ""
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/fail"))
