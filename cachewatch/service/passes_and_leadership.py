"""One pass: poll the sources, create the digests that are due, and deliver; then clean up and ping the monitor.

The daemon does each of these steps when it is due. Of several hosts that share a state, only one works (Leadership).
"""

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, as_completed, wait
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.config.schedules_and_quiet_times import minute
from cachewatch.config.settings_and_subscriptions import Config
from cachewatch.config.sources_and_channels import FeedConfig, Source
from cachewatch.errors import AnotherInstance, CachewatchError, StateError
from cachewatch.git.git_processes import interrupt
from cachewatch.git.revision_names_and_times import is_there
from cachewatch.hooks import extensions
from cachewatch.http.allowed_addresses import without_secret_url
from cachewatch.operators.alerts_summary_actions import review, summarize
from cachewatch.runtime.files_and_locks import shared_kind
from cachewatch.runtime.log import Log, error_message, traceback_of
from cachewatch.runtime.worker import Isolation, Worker
from cachewatch.service import alerts_and_silent_sources as alerts
from cachewatch.service.alerts_and_silent_sources import DAEMON, Alert, OperatorNotice
from cachewatch.service.comparison_cache import Comparisons
from cachewatch.service.context_and_source_copies import Context, EndingError, News
from cachewatch.service.deciding_and_storing import create_digest, take_over_renamed
from cachewatch.service.sending_and_channel_faults import deliver_all
from cachewatch.service.streams_starts_silences import Stream, in_a_row, streams_of, streams_to_look_at
from cachewatch.store import cursors_and_remembered as cursors
from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store import digests_and_holds as digests
from cachewatch.store import health_and_alerts as health
from cachewatch.store.health_and_alerts import AlertKey, AlertKind, Counter, SourceHealth
from cachewatch.store.transactions_and_sqlite import Connection


def poll(context: Context, source: Source) -> bool:
    """Fetch the newest revision of `source` and store the result; return whether the source could be read."""
    if context.is_ending.is_set():
        return False
    try:
        _succeeded(context, source, context.watched(source).update())
    except StateError:
        raise  # the source is not to blame
    except Exception as error:  # noqa: BLE001  a bug that this source brings to light must not stop the others
        if not context.is_ending.is_set():  # else the poll was ended by us, and the next run polls again
            _failed(context, source, error)
        return False
    return True


def has_answered(context: Context, source: Source) -> bool:
    """Tell whether a source answered when it was last polled."""
    with context.database.read() as connection:
        source_health = health.source(connection, source.name)
    return source_health.succeeded_at is not None and not source_health.failures


def follow_poll(context: Context, source: Source) -> None:
    """Call the extensions' `after_poll` for `source`; an error becomes an alert."""
    with alerts.contained(context, source.name, "what follows a poll"):
        extensions().hook.after_poll(context=context, source=source)


def _failed(context: Context, source: Source, error: Exception) -> None:
    now, reason, name = context.clock(), error_message(error), source.name
    with context.database.write() as connection:
        before = health.source(connection, name)
        after = replace(before, polled_at=now, failures=before.failures + 1, error=reason)
        health.put_health(connection, after)
        health.count(connection, Counter.of("poll_failures_total", source=name))
        if after.failures >= context.config.operators.after_failures:
            kept = "Stored data is kept, and the source is polled again as configured."
            key, title = AlertKey(AlertKind.SOURCE_FAILED, name), f"the source {name} cannot be read"
            alert = Alert(key=key, title=title, lines=(reason, f"It {in_a_row(after.failures)}.", kept))
            alerts.open_within(connection, context, alert)
        alerts.review_source(connection, context, source, after)
    log = context.log.bind(source=name, failures=after.failures)
    log.error("source.failed", error=reason, traceback=traceback_of(error))


def _succeeded(context: Context, source: Source, news: News) -> None:
    now, name = context.clock(), source.name
    with context.database.write() as connection:
        before = health.source(connection, name)
        is_new = news.revision != before.revision
        after = SourceHealth(
            name=name,
            polled_at=now,
            succeeded_at=now,
            revision=news.revision,
            revision_time=news.time,
            changed_at=now if is_new else before.changed_at,
        )
        health.put_health(connection, after)
        key = AlertKey(AlertKind.SOURCE_FAILED, name)
        alerts.resolve_within(connection, context, key, f"the source {name} can be read again")
        for warning in news.warnings:
            notice = OperatorNotice(topic=f"source {name}", title=f"notice about the source {name}", lines=(warning,))
            alerts.notify_within(connection, context, notice)
        skipped, empty = f"a part of the source {name} was skipped", f"the source {name} has no documents"
        for kind, reason, title, solved in (
            (AlertKind.SOURCE_INCOMPLETE, news.problem, skipped, "is complete again"),
            (AlertKind.SOURCE_EMPTY, news.no_documents, empty, "has documents again"),
        ):
            if reason:
                event = f"source.{kind.removeprefix('source-')}"
                context.log_within(connection).warning(event, source=name, said=reason)
            alert = Alert(key=AlertKey(kind, name), title=title, lines=(reason,))
            alerts.settle_within(connection, context, alert, f"the source {name} {solved}", is_open=bool(reason))
        alerts.review_source(connection, context, source, after)
    context.log.info("source.polled", source=name, revision=news.revision[:12], is_new=is_new)


# How many sources are polled at once: of those that answered last time, and of the others, which may hang again.
ANSWERING, OTHERS = 8, 16
# Digests wait this long for slow sources, so that a usual pass makes all digests together.
_GRACE_SECONDS = 5.0
# So much less than TimeoutStopSec of the systemd units that the worker process and the lock can end, too.
_ENDING_SECONDS = 20.0


def end_threads(threads: Iterable[threading.Thread]) -> None:
    """Interrupt git until `threads` have ended, for at most 20 seconds: less than systemd waits for the process."""
    deadline = time.monotonic() + _ENDING_SECONDS
    for thread in threads:
        while thread.is_alive() and time.monotonic() < deadline:
            interrupt()  # again and again, since it may be about to start the next git
            thread.join(0.2)


@contextmanager
def polling(context: Context) -> Iterator[Mapping[Future[bool], str]]:
    """Poll all sources in threads; yield the names of the sources by poll. End the threads if the block raises."""
    # Those that answered last time come first, and wait for none that hangs.
    sources = sorted(context.config.sources.values(), key=lambda each: not has_answered(context, each))
    waiting = deque((Future[bool](), source) for source in sources)
    polls = {future: source.name for future, source in waiting}

    def work() -> None:
        while waiting and not context.is_ending.is_set():
            with suppress(IndexError):
                future, source = waiting.popleft()
                try:
                    future.set_result(poll(context, source))
                except BaseException as error:  # noqa: BLE001  raised again when the others are done
                    future.set_exception(error)

    # As daemons: a hanging thread must not keep the process alive.
    count = min(ANSWERING + OTHERS, len(waiting))
    threads = [threading.Thread(target=work, name="poll", daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield polls
    except BaseException:
        context.is_ending.set()
        end_threads(threads)
        raise


def _unanswered(polls: Mapping[Future[bool], str]) -> Iterator[frozenset[str]]:
    """Yield the sources whose polls have not ended: after 5 seconds, then at each answer."""
    _, late = wait(polls, _GRACE_SECONDS)
    yield frozenset(polls[each] for each in late)
    for future in as_completed(late):
        late.discard(future)
        yield frozenset(polls[each] for each in late)


def resume(context: Context) -> None:
    """Prepare to work on a state: resolve alerts of an earlier daemon; report a lost state or a shared file system."""
    with context.database.write() as connection:
        # Alerts of an earlier daemon: it may have read another file, and its jobs have ended.
        for alert in health.all_open(connection):
            if alert.key.name == DAEMON:
                health.mark_resolved(connection, alert, context.clock())
    context.database.check_place()
    if kind := shared_kind(context.config.folder):
        context.log.warning("state.shared", folder=context.config.folder, file_system=kind)
    # Clones without a database mean that somebody deleted it, or that another disk is mounted.
    if not context.database.is_new or not any(context.clone_folder(name).exists() for name in context.config.sources):
        return
    place = context.database.place
    context.log.warning("state.lost", database=place)
    notice = OperatorNotice(
        topic="state",
        title="the state was lost and starts empty",
        lines=(
            f"{place} was missing or empty, although the clones beside it exist.",
            "Sources start again as on their first run: changes since the last digest are not reported.",
            "Deliveries that were waiting are lost.",
            "If you have a copy (`cachewatch state backup`), stop cachewatch, put the copy in that place, and start again.",
        ),
    )
    with context.database.write() as connection:
        alerts.notify_within(connection, context, notice)


def clean_up(context: Context) -> None:
    """Remove old rows, and unused pins of each source; an error in a source becomes an alert."""
    # Deletes what `retention:` allows, but no entries of feeds, which are written from all of them.
    now, retention, sources = context.clock(), context.config.retention, context.config.sources
    feeds = {name for name, channel in context.config.channels.items() if isinstance(channel, FeedConfig)}
    with context.database.write() as connection:
        digests_gone = digests.forget_digests(connection, now - retention.metadata)
        payloads_gone = deliveries.delete_payloads(connection, now - retention.payload, kept_channels=feeds)
        cursors.forget(connection, now - retention.metadata)
        used = {
            name: cursors.revisions_in_use(connection, name) | digests.revisions_held(connection, name)
            for name in sources
        }
    if digests_gone or payloads_gone:
        context.log.info("state.cleaned", digests=digests_gone or None, payloads=payloads_gone or None)
    for name, source in sources.items():
        with alerts.contained(context, name, "maintenance"):
            try:
                context.watched(source).tidy(used[name])
            except CachewatchError as error:
                context.log.warning("source.untidy", source=name, error=str(error))
    context.database.tidy()


class Result(Struct, frozen=True, kw_only=True):
    """The result of a pass."""

    failed_sources: int
    failed_digests: int  # streams whose digests cannot be created
    dead: int  # deliveries that failed for good
    suppressed: int  # deliveries for addresses that kept refusing
    blocked: int  # channels through which nothing is delivered until somebody repairs them


def run_pass(context: Context) -> Result:
    """Poll every source now, and create and send what is due; a source delays only the digests that depend on it."""
    begun, untold = context.clock(), list(streams_of(context.config))
    with Worker(go_on=context.go_on) as worker:
        worker.start()  # before there are threads
        with polling(context) as polls:
            for pending in _unanswered(polls):
                ready = [stream for stream in untold if not stream.depends_on(pending)]
                untold = [stream for stream in untold if stream.depends_on(pending)]
                if ready or not pending:
                    _create_digests(context, ready, worker, is_last=not pending)
                deliver_all(context, is_last=not pending)
            failed = sum(not future.result() for future in polls)  # raises errors of storing
    for source in context.config.sources.values():
        follow_poll(context, source)
    clean_up(context)
    with context.database.read() as connection:
        dead, suppressed = deliveries.failed_since(connection, begun)
        kinds = [alert.key.kind for alert in health.all_open(connection)]
        _log_what_waits(connection, context, begun)
    return Result(
        failed_sources=failed,
        failed_digests=kinds.count(AlertKind.DIGEST_FAILED),
        dead=dead,
        suppressed=suppressed,
        blocked=kinds.count(AlertKind.CHANNEL_DOWN),
    )


def _log_what_waits(connection: Connection, context: Context, begun: datetime) -> None:
    """Log each channel that failed before `begun`, with up to ten waiting deliveries and the next attempt."""
    for name in context.config.channels:
        state = health.channel(connection, name)
        waiting = deliveries.find(connection, states=deliveries.OPEN, channel=name)
        if waiting and state.blocked_until is not None and state.error_at is not None and state.error_at < begun:
            context.log.error(
                "channel.waiting",
                channel=name,
                ids=", ".join(str(each.id) for each in waiting[:10]),
                next_attempt=minute(state.blocked_until, context.config.timezone),
                error=state.error,
                advice=f"cachewatch deliveries retry {waiting[0].id}",
            )


def create_digests(context: Context) -> None:
    """Create the digest of every due stream; for the daemon, which polls and sends in other jobs."""
    with Worker(go_on=context.go_on) as worker:
        _create_digests(context, streams_of(context.config), worker)


def _create_digests(context: Context, streams: Iterable[Stream], worker: Worker, *, is_last: bool = True) -> None:
    """Create due digests and review alerts; if `is_last` in the pass, send the summary unless all is well."""
    context.database.check_place()
    take_over_renamed(context)
    # Another host fetched the newest revision of these sources, and this one has yet to: they are polled first.
    shared = context.config.sources if context.database.is_shared else {}
    behind = {name for name, source in shared.items() if _is_behind(context, source)}
    with context.database.read() as connection:
        ready = [stream for stream in streams if not stream.depends_on(behind)]
        ready = streams_to_look_at(connection, ready, context.clock())
        not_to_read = cursors.blobs_not_to_read(connection)
    isolated: dict[str, Isolation] = {}  # by the name of a source or an environment

    def isolate(name: str) -> Isolation:
        return isolated.setdefault(name, Isolation(worker, not_to_read.get(name, {})))

    with closing(Comparisons(isolate, context.config.folder, context.go_on)) as comparisons, suppress(EndingError):
        # First the urgent ones: the regular digest then omits recipients who get the same from the urgent one.
        for stream in sorted(ready, key=lambda stream: not stream.is_urgent):
            context.go_on()
            create_digest(context, stream, comparisons)
        if not review(context) and is_last:
            summarize(context)


def _is_behind(context: Context, source: Source) -> bool:
    with context.database.read() as connection:
        newest = health.source(connection, source.name).revision
    if newest is None:
        return False
    try:
        with closing(context.open_repository(source)) as repository:
            return not is_there(repository, newest)
    except StateError:
        raise
    except Exception:  # noqa: BLE001  its poll says what is wrong, and the other sources go on
        return True


# Between two requests to a shared database, which ends sessions that are silent for longer.
HEARTBEAT = timedelta(seconds=5)


class Leadership:
    """Decides whether this process works on a shared state, or is a standby until the working process ends."""

    def __init__(self, context: Context, begin: Callable[[], None]) -> None:
        self._context = context
        self._begin = begin  # called whenever this process becomes the one that works
        self._has_begun = False  # and no other is known to have taken over since
        self.is_ours = not context.database.is_shared  # as far as this process knows
        self.other = "nobody"

    def look(self) -> None:
        """Ask for the lead; call `begin` if this process gets it. Raises StateError if the database does not answer."""
        database, log = self._context.database, self._context.log
        try:
            if database.lead(self._context.owner) or not (self.is_ours and self._has_begun):
                self._begin()
                if database.is_shared:
                    log.info("leader.began", database=database.place)
        except AnotherInstance:
            if self._has_begun:
                log.warning("leader.lost")
            self.is_ours = self._has_begun = False
            self.other = database.leader() or "nobody"
        except BaseException:
            self.is_ours = False
            raise
        else:
            self.is_ours = self._has_begun = True

    def do(self, job: Callable[[], object]) -> None:
        """Do `job`, unless this is a standby; once another host leads, `job` can store nothing more."""
        with self._context.database.job():
            if self.is_ours:
                job()


@contextmanager
def leading(context: Context) -> Iterator[None]:
    """Hold the lead during a single pass. Raises AnotherInstance if another process has it."""
    context.database.lead(context.owner)
    if not context.database.is_shared:
        yield
        return
    is_over = threading.Event()

    def beat() -> None:
        while not is_over.wait(HEARTBEAT.total_seconds()):
            # If the lock is lost, the next transaction of the pass says so.
            with suppress(CachewatchError), context.database.write():
                pass

    beating = threading.Thread(target=beat, daemon=True)
    beating.start()
    try:
        yield
    finally:
        is_over.set()
        beating.join()


# A check at healthchecks.io, or at another server that runs its software: named by its UUID, or by a key and a name.
_HEALTHCHECKS = re.compile(
    r"https?://(?:hc-ping\.com|[^/?#]+/ping)/(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[\w-]{22}/[\w-]+)/?"
)


def ping(config: Config, log: Log, *, is_whole: bool) -> None:
    """Ping the monitor's URL if a pass had no failure (`is_whole`); report failures only to healthchecks servers."""
    url = config.monitor.ping_url
    if url is None:
        return
    parts = urlsplit(url.reveal())
    if not is_whole:
        if not _HEALTHCHECKS.fullmatch(urlunsplit(parts._replace(query="", fragment=""))):
            return
        parts = parts._replace(path=f"{parts.path.rstrip('/')}/fail")
    from cachewatch.http.client import post  # noqa: PLC0415  an HTTP client is large, and few ask for pings

    try:
        status = post(urlunsplit(parts), b"", seconds=20).status
        problem = f"the server answered {status}" if status >= 300 else ""
    except CachewatchError as error:
        problem = without_secret_url(str(error), url.reveal())
    if problem:
        log.warning("ping.failed", error=problem)
