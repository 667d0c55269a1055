"""The daemon: it does the same things as a pass, when they are due, and never decides itself what is due.

SIGTERM and SIGINT stop it, SIGHUP reloads the configuration; systemd is notified if it gave a socket. Each way in
which a job fails is logged once, because a full disk would otherwise fill the log as well. APScheduler is only an
alarm clock: what is due lives in the state, so a wake-up that comes late or twice does no harm.
"""

import os
import re
import selectors
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Lock
from typing import Any

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, JobExecutionEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger
from msgspec.structs import replace

from cachewatch.config.model import Config
from cachewatch.config.sources import Source
from cachewatch.core.names import safe
from cachewatch.daemon import monitor
from cachewatch.daemon.monitor import MonitorPage, MonitorServer
from cachewatch.errors import CachewatchError, StateError
from cachewatch.git.gitpython import interrupt
from cachewatch.operators.metrics import DaemonStatus
from cachewatch.runtime.log import Log, said_of, traceback_of
from cachewatch.service.alerts import DAEMON, Alert, open_now, resolve_now
from cachewatch.service.context import Context
from cachewatch.service.passes import (
    HEARTBEAT,
    Leadership,
    clean_up,
    compare_with_leader,
    create_digests,
    ping,
    put_in_force,
)
from cachewatch.service.poll import ANSWERING, OTHERS, follow_poll, has_answered, poll
from cachewatch.service.recipients import recover, resume, say_obsolete_keys
from cachewatch.service.send import deliver, tell_of_gone, unblock
from cachewatch.store import health
from cachewatch.store.health import AlertKey, AlertKind

Job = Callable[[], None]


class Scheduler:
    """Runs jobs in threads, each at its interval and never twice at once."""

    def __init__(self, groups: dict[str, int], on_end: Callable[[str, BaseException | None], None]) -> None:
        """Prepare as many threads as `groups` says for each group of jobs, so that none holds up another.

        `on_end` hears of every job that ended, and of what it raised.
        """
        self._executors = {name: ThreadPoolExecutor(threads) for name, threads in groups.items()}
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors=self._executors,
            # However late, and once for many that were missed.
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        self._scheduler.add_listener(lambda event: _report(event, on_end), EVENT_JOB_ERROR | EVENT_JOB_EXECUTED)

    def start(self) -> None:
        """Begin to wake jobs."""
        self._scheduler.start()

    def add(
        self, name: str, group: str, job: Job, *, every: timedelta, jitter: timedelta = timedelta(0), first: datetime
    ) -> None:
        """Run `job` at `first` and then at its interval, in place of any job of that name."""
        trigger = IntervalTrigger(
            seconds=max(1, int(every.total_seconds())), jitter=int(jitter.total_seconds()) or None
        )
        self._scheduler.add_job(
            job, trigger, id=name, name=name, executor=group, next_run_time=first, replace_existing=True
        )

    def names(self) -> set[str]:
        """Name all jobs."""
        return {job.id for job in self._scheduler.get_jobs()}

    def remove(self, name: str) -> None:
        """Run a job no more."""
        self._scheduler.remove_job(name)

    def move(self, name: str, group: str) -> None:
        """Run a job among those of another group from now on; it is no matter if there is none of that name."""
        with suppress(JobLookupError):
            self._scheduler.modify_job(name, executor=group)

    def wake(self, name: str) -> None:
        """Run a job now; it is no matter if there is none of that name."""
        with suppress(JobLookupError):
            self._scheduler.modify_job(name, next_run_time=datetime.now(UTC))

    def wake_all(self) -> None:
        """Run every job now: the clock was set, and what was planned by the old one means nothing."""
        for name in self.names():
            self.wake(name)

    def stop(self) -> None:
        """Begin no more jobs, and wait for those that run."""
        # Not shutdown(wait=True): it waits with its locks held, which a job that wakes another needs to end.
        self._scheduler.shutdown(wait=False)
        for executor in self._executors.values():
            executor.shutdown(wait=True)


def _report(event: JobExecutionEvent, on_end: Callable[[str, BaseException | None], None]) -> None:
    on_end(event.job_id, event.exception)


# In a row, before a job is said to keep failing.
_MANY = 3
_MOST_KINDS = 20
_NUMBER = re.compile(r"\d+")


class Failures:
    """The failures of each job since it succeeded last, and of all time."""

    def __init__(self, log: Log) -> None:
        self.totals: Counter[str] = Counter()
        self._log = log
        self._kinds: dict[str, set[str]] = {}  # of those that fail now
        self._in_a_row: Counter[str] = Counter()
        self._lock = Lock()

    def note(self, job: str, error: BaseException | None) -> None:
        """Note how a job ended."""
        with self._lock:
            if error is None:
                self._succeeded(job)
            else:
                self._failed(job, error)

    def lasting(self) -> list[str]:
        """Name the jobs that keep failing."""
        with self._lock:
            return sorted(job for job, count in self._in_a_row.items() if count >= _MANY)

    def _succeeded(self, job: str) -> None:
        self._kinds.pop(job, None)
        if count := self._in_a_row.pop(job, 0):
            self._log.info("job.recovered", job=job, failures=count)

    def _failed(self, job: str, error: BaseException) -> None:
        said = repr(error)
        self.totals[job] += 1
        self._in_a_row[job] += 1
        kinds = self._kinds.setdefault(job, set())
        kind = _NUMBER.sub("", said)
        if kind not in kinds and len(kinds) < _MOST_KINDS:
            kinds.add(kind)
            self._log.error("job.failed", job=job, error=said, traceback=traceback_of(error))


Handler = Callable[[int, Any], None]


def handle(*, stop: Handler, reload: Handler) -> int:
    """Handle the signals, and return a file descriptor that is readable once one arrived.

    The daemon waits for it instead of for a lock: a handler may take no lock that a waiter holds.
    """
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number, handler in ((signal.SIGTERM, stop), (signal.SIGINT, stop), (signal.SIGHUP, reload)):
        signal.signal(number, handler)
    return reader


def notify(*, status: str = "", is_ready: bool = False, is_stopping: bool = False, is_alive: bool = False) -> bool:
    """Send what is known, and tell whether somebody took it; see sd_notify(3). A socket that is gone is no error."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    lines = ["READY=1"] if is_ready else []
    lines += ["STOPPING=1"] if is_stopping else []
    lines += ["WATCHDOG=1"] if is_alive else []
    # A line break would begin another assignment.
    lines += [f"STATUS={' '.join(safe(status).split())}"] if status else []
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as client:
        client.connect("\0" + address[1:] if address.startswith("@") else address)
        client.sendall("\n".join(lines).encode())
        return True
    return False


_TICK = timedelta(seconds=30)
_CLEANUP = timedelta(hours=1)
_PING = timedelta(minutes=5)
_BEAT_SECONDS = 5.0
_CLOCK_SECONDS = 60.0
# At most so many at once, however often the configuration changes; a thread begins when it is needed.
_THREADS = {"lead": 1, "default": 1, "after polls": 1, "sources": ANSWERING, "other sources": OTHERS, "channels": 32}
_REFUSED = AlertKey(AlertKind.CONFIG_REFUSED, DAEMON)
# Less than the unit's TimeoutStopSec, which ends us the hard way.
_ENDING_SECONDS = 25.0
_INTERRUPT_SECONDS = 0.2


class Daemon:
    """Polls, tells and delivers until it is told to stop."""

    def __init__(self, context: Context, reload: Callable[[], Config]) -> None:
        self._context = context
        self._reload = reload
        self._is_reloading = False
        self._is_resumed = False
        self._beat = time.monotonic()
        self._started = time.time()
        self._offset = time.time() - time.monotonic()
        self._failures = Failures(context.log)
        self._scheduler = Scheduler(_THREADS, self._note)
        self._leadership = Leadership(context, self._begin)
        self._monitor: MonitorServer | None = None
        self._listens = ""  # where the monitor does

    def run(self) -> int:
        """Run until a signal says stop; return the exit code."""
        context = self._context
        bell = handle(stop=self._stop, reload=self._ask_reload)
        self._leadership.look()
        self._plan()
        self._scheduler.start()
        self._listen()
        notify(is_ready=True, status="waiting" if self._leadership.is_ours else "standby")
        context.log.info("daemon.started", pid=os.getpid(), sources=len(context.config.sources))
        with selectors.DefaultSelector() as waiting:
            waiting.register(bell, selectors.EVENT_READ)
            while not context.is_ending.is_set():
                if waiting.select(_BEAT_SECONDS):
                    os.read(bell, 64)
                try:
                    context.database.check_place()
                except StateError as error:
                    return self._end(error)
                self._look_around()
        return self._end()

    def _begin(self) -> None:
        """Take over a state, from whoever had it before; what this process was sending itself is no work of another."""
        if self._is_resumed:
            recover(self._context)
        else:
            resume(self._context)
        self._is_resumed = True
        put_in_force(self._context)
        self._take_up()
        for name in self._scheduler.names():
            self._scheduler.wake(name)

    def _lead(self) -> None:
        """Say that we work, or see whether the other host still does; while it does, that is all that there is to do."""
        self._leadership.look()
        if not self._leadership.is_ours:
            self._live()
            compare_with_leader(self._context)

    def _snapshot(self) -> Context:
        """Return the context of one job: a reload in the middle of it changes nothing under its hands."""
        return replace(self._context)

    def _plan(self) -> None:
        """Plan a job for every source and channel, and for the digests; drop those that are gone."""
        config, now, if_ours = self._context.config, datetime.now(UTC), self._leadership.if_ours
        wanted = {"digests", "cleanup"}
        if self._context.database.is_shared:
            wanted.add("lead")
            self._scheduler.add("lead", "lead", self._lead, every=HEARTBEAT, first=now + HEARTBEAT)
        self._scheduler.add("digests", "default", if_ours(self._create_digests), every=_TICK, first=now)
        if config.monitor.ping_url is not None:
            wanted.add("ping")
            self._scheduler.add("ping", "default", if_ours(self._ping), every=_PING, first=now + _PING)
        self._scheduler.add(
            "cleanup", "default", if_ours(partial(self._with_snapshot, clean_up)), every=_CLEANUP, first=now + _CLEANUP
        )
        for source in config.sources.values():
            name = f"poll {source.name}"
            wanted.add(name)
            first = max(now, last + source.poll.every) if (last := self._last_poll(source)) <= now else now
            job, group = if_ours(partial(self._poll, source)), self._group(source)
            self._scheduler.add(name, group, job, every=source.poll.every, jitter=source.poll.jitter, first=first)
            wanted.add(f"after poll {source.name}")
            job = if_ours(partial(self._with_snapshot, follow_poll, source))
            self._scheduler.add(f"after poll {source.name}", "after polls", job, every=source.poll.every, first=first)
        for channel in config.channels:
            name = f"deliver {channel}"
            wanted.add(name)
            self._scheduler.add(name, "channels", if_ours(partial(self._deliver, channel)), every=_TICK, first=now)
        for name in self._scheduler.names() - wanted:
            self._scheduler.remove(name)

    def _last_poll(self, source: Source) -> datetime:
        with self._context.database.read() as connection:
            return health.source(connection, source.name).polled_at or datetime(1970, 1, 1, tzinfo=UTC)

    def _group(self, source: Source) -> str:
        """Name the threads for a source: what hung last time must not keep those that answered from theirs."""
        return "sources" if has_answered(self._context, source) else "other sources"

    def _poll(self, source: Source) -> None:
        poll(self._snapshot(), source)
        self._scheduler.move(f"poll {source.name}", self._group(source))
        self._scheduler.wake("digests")
        self._scheduler.wake(f"after poll {source.name}")

    def _with_snapshot(self, work: Callable[..., object], *more: Any) -> None:
        work(self._snapshot(), *more)

    def _create_digests(self) -> None:
        self._live()
        context = self._snapshot()
        create_digests(context, self._live)
        tell_of_gone(context)
        for channel in context.config.channels:
            self._scheduler.wake(f"deliver {channel}")

    def _live(self) -> None:
        self._beat = time.monotonic()

    def _deliver(self, channel: str) -> None:
        deliver(self._context, channel)  # who is taken out while it waits for a server gets nothing more

    def _ping(self) -> None:
        """Tell a dead man's switch how we are: it rings where nobody does any more."""
        ping(self._context.config, self._context.log, is_whole=self._readyz("").status == 200)

    def _look_around(self) -> None:
        """Reload if asked to, notice a clock that was set, and tell the watchdog that we live."""
        if self._is_reloading:
            self._is_reloading = False
            self._load_again()
        offset = time.time() - time.monotonic()
        if abs(offset - self._offset) > _CLOCK_SECONDS:
            self._context.log.warning("clock.set", seconds=round(offset - self._offset))
            self._scheduler.wake_all()
        self._offset = offset
        if time.monotonic() - self._beat < monitor.STUCK_SECONDS:
            notify(is_alive=True)

    def _load_again(self) -> None:
        log = self._context.log
        try:
            config = self._reload()
        except CachewatchError as error:
            self._refuse(str(error))
            return
        if (config.state, config.folder) != (self._context.config.state, self._context.config.folder):
            self._refuse("another state requires a restart")
            return
        self._context.config = config
        with suppress(CachewatchError):
            if self._leadership.is_ours:
                put_in_force(self._context)
            resolve_now(self._context, _REFUSED, "the configuration was reloaded")
        if self._leadership.is_ours:
            self._take_up()
        self._plan()
        self._listen()
        log.info("config.reloaded", sources=len(config.sources), subscriptions=len(config.subscriptions))
        say_obsolete_keys(self._context)
        notify(status="configuration reloaded")

    def _refuse(self, said: str) -> None:
        """Go on with the old configuration, and say why."""
        self._context.log.error("config.refused", error=said)
        notify(status="the new configuration was refused, the old one stays")
        lines = (*said.splitlines(), "The daemon goes on with the configuration that it had.")
        alert = Alert(
            key=_REFUSED, title="a new configuration was refused", lines=lines, commands=("cachewatch config check",)
        )
        if self._leadership.is_ours:
            with suppress(CachewatchError):
                open_now(self._context, alert)

    def _take_up(self) -> None:
        """Look at what waits with the eyes of this configuration, which may have repaired a channel."""
        try:
            unblock(self._context)
        except CachewatchError as error:
            self._context.log.error("state.failed", error=str(error))  # a disk that is full now is no reason to end

    def _listen(self) -> None:
        """Let the monitor listen where the configuration says, if it does not yet."""
        listen = self._context.config.monitor.listen or ""
        if listen == self._listens:
            return
        self._stop_listening()
        if not listen:
            return
        host, _, port = listen.rpartition(":")
        try:
            pages = {"/healthz": self._healthz, "/readyz": self._readyz, "/metrics": self._metrics}
            self._monitor = MonitorServer(host, int(port), pages)
        except OSError as error:
            self._context.log.error("monitor.failed", listen=listen, error=str(error))
            return
        self._listens = listen
        self._monitor.start()

    def _stop_listening(self) -> None:
        if self._monitor is not None:
            self._monitor.stop()
        self._monitor, self._listens = None, ""

    def _note(self, job: str, error: BaseException | None) -> None:
        """Note how a job ended; operators hear of one that keeps failing."""
        was_failing = job in self._failures.lasting()
        self._failures.note(job, error)
        if was_failing == (job in self._failures.lasting()) or not self._leadership.is_ours:
            return
        key = AlertKey(AlertKind.WORK_FAILED, DAEMON, job)
        with suppress(CachewatchError):  # where nothing can be stored, /healthz says so
            if error is None:
                resolve_now(self._context, key, f"the job `{job}` of the daemon works again")
            else:
                alert = Alert(key=key, title=f"the job `{job}` of the daemon keeps failing", lines=(said_of(error),))
                open_now(self._context, alert)

    def _healthz(self, _accept: str = "") -> MonitorPage:
        return monitor.healthz(time.monotonic() - self._beat, self._failures.lasting())

    def _readyz(self, _accept: str) -> MonitorPage:
        if self._leadership.is_ours:
            return monitor.readyz(self._snapshot(), self._healthz())
        return monitor.standby(self._leadership.other, self._healthz())

    def _metrics(self, accept: str) -> MonitorPage:
        daemon = DaemonStatus(
            tick=time.time() - (time.monotonic() - self._beat),
            started=self._started,
            job_failures=dict.fromkeys(self._scheduler.names(), 0) | self._failures.totals,
            failing_jobs=len(self._failures.lasting()),
            is_leader=self._leadership.is_ours,
        )
        return monitor.figures(self._snapshot(), daemon, accept)

    def _stop(self, number: int, _: Any) -> None:
        if self._context.is_ending.is_set():
            os._exit(128 + number)  # asked twice: nothing is lost that way either
        self._context.is_ending.set()

    def _ask_reload(self, *_: Any) -> None:
        self._is_reloading = True

    def _end(self, error: StateError | None = None) -> int:
        """Let the messages in hand be finished; whatever takes longer is interrupted, and safe. Return the exit code."""
        code = error.exit_code if error else 0
        self._context.is_ending.set()
        notify(is_stopping=True)
        if error:
            self._context.log.error("state.failed", error=str(error))
        self._context.log.info("daemon.stopping")
        stopper = threading.Thread(target=self._scheduler.stop, daemon=True)
        stopper.start()
        deadline = time.monotonic() + _ENDING_SECONDS
        while stopper.is_alive() and time.monotonic() < deadline:
            interrupt()  # again and again, since a job may be about to start the next git; what it fetches is fetched again
            stopper.join(_INTERRUPT_SECONDS)
        self._stop_listening()
        self._context.log.info("daemon.stopped", is_clean=not stopper.is_alive())
        if stopper.is_alive():
            os._exit(code)  # threads that wait for a server would keep us
        return code
