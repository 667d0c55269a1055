"""The daemon: it does the work of a pass when that is due; the stored state, not the daemon, says what is due.

SIGTERM and SIGINT stop it, SIGHUP reloads the configuration. APScheduler only wakes it, so a wake-up that comes late or
twice does no harm.
"""

import collections
import os
import re
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger
from msgspec.structs import replace

from cachewatch.config.settings_and_subscriptions import Config
from cachewatch.config.sources_and_channels import Source
from cachewatch.core.escaping_and_mentions import safe
from cachewatch.daemon.monitor_server import DaemonStatus, MonitorPage, MonitorServer, figures, readyz
from cachewatch.errors import CachewatchError, StateError, UsageError
from cachewatch.runtime.log import error_message, traceback_of
from cachewatch.service import passes_and_leadership as passes
from cachewatch.service.alerts_and_silent_sources import DAEMON, Alert, open_now, resolve_now
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.passes_and_leadership import ANSWERING, HEARTBEAT, OTHERS, Leadership, create_digests
from cachewatch.service.sending_and_channel_faults import deliver, report_removed_channels, unblock
from cachewatch.store import health_and_alerts as health
from cachewatch.store.health_and_alerts import AlertKey, AlertKind

Job = Callable[[], object]


class Scheduler(BackgroundScheduler):  # type: ignore[misc]  # its library has no types
    """Runs jobs in threads, each at its own interval; a job never runs twice at the same time."""

    def __init__(self, groups: dict[str, int], on_end: Callable[[str, BaseException | None], None]) -> None:
        """`groups`: numbers of threads by group. `on_end` gets the name and error (or None) of each job that ended."""
        self._pools = {name: ThreadPoolExecutor(threads) for name, threads in groups.items()}
        super().__init__(
            timezone=UTC,
            executors=self._pools,
            # Run a missed job however late it is, and once even if it was missed several times.
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        self.add_listener(lambda event: on_end(event.job_id, event.exception), EVENT_JOB_ERROR | EVENT_JOB_EXECUTED)

    def add(
        self, name: str, group: str, job: Job, *, every: timedelta, jitter: timedelta = timedelta(0), first: datetime
    ) -> None:
        """Run `job` in `group` at `first`, then at intervals `every` varied by `jitter`; replace a job of this name."""
        seconds, most = max(1, int(every.total_seconds())), int(jitter.total_seconds()) or None
        trigger = IntervalTrigger(seconds=seconds, jitter=most)
        self.add_job(job, trigger, id=name, name=name, executor=group, next_run_time=first, replace_existing=True)

    def names(self) -> set[str]:
        """Return the names of all jobs."""
        return {job.id for job in self.get_jobs()}

    def wake(self, *names: str) -> None:
        """Run the jobs with these names now; ignore names without a job."""
        for name in names:
            with suppress(JobLookupError):
                self.modify_job(name, next_run_time=datetime.now(UTC))

    def stop(self) -> None:
        """Start no more jobs, and wait for running ones."""
        # Not shutdown(wait=True): it waits with its locks held, which a job that wakes another needs to end.
        self.shutdown(wait=False)
        for pool in self._pools.values():
            pool.shutdown(wait=True)


def notify(*lines: str, status: str = "") -> None:
    """Send systemd these lines and the status, if it listens (see sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # A line break would begin another assignment.
    assignments = [*lines, *([f"STATUS={' '.join(safe(status).split())}"] if status else [])]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as client:
        client.connect("\0" + address[1:] if address.startswith("@") else address)
        client.sendall("\n".join(assignments).encode())


_TICK = timedelta(seconds=30)
_CLEANUP = timedelta(hours=1)
_PING = timedelta(minutes=5)
_BEAT_SECONDS = 5.0
_STUCK_SECONDS = 900.0  # since the last tick
# The most threads of each group of jobs; a thread begins when it is needed.
_THREADS = {"lead": 1, "default": 1, "after polls": 1, "sources": ANSWERING, "other sources": OTHERS, "channels": 32}
_REFUSED = AlertKey(AlertKind.CONFIG_REFUSED, DAEMON)


class Daemon:
    """Polls sources, creates digests and delivers them until a signal stops it."""

    def __init__(self, context: Context, reload: Callable[[], Config]) -> None:
        self._context = context
        self._reload = reload
        self._is_reloading = False
        self._is_resumed = False
        self._beat = time.monotonic()
        self._failures: collections.Counter[str] = collections.Counter()  # of each job since the start
        self._in_a_row: collections.Counter[str] = collections.Counter()  # since its last success
        self._logged: dict[str, str] = {}  # the error that was logged last, of jobs that fail now
        self._scheduler = Scheduler(_THREADS, self._note)
        self._leadership = Leadership(context, self._begin)
        self._monitor: MonitorServer | None = None
        self._listens = ""  # the address on which the monitor listens

    def run(self) -> int:
        """Run until a signal stops the daemon; return the exit code."""
        context = self._context
        # The loop waits for a file descriptor, not for a lock, since a signal handler must not take a lock.
        bell, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGHUP, self._ask_reload)
        self._leadership.look()
        self._plan()
        self._scheduler.start()
        self._listen(context.config.monitor.listen or "")
        notify("READY=1", status="waiting" if self._leadership.is_ours else "standby")
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
        """Run all jobs, because this process now leads; the first time, also recover what a crash interrupted."""
        if self._is_resumed:
            self._context.database.check_place()
        else:
            passes.resume(self._context)
        self._is_resumed = True
        self._retry_channels()
        self._scheduler.wake(*self._scheduler.names())

    def _lead(self) -> None:
        self._leadership.look()
        if not self._leadership.is_ours:
            self._live()

    def _snapshot(self) -> Context:
        """Return a copy of the context for one job, so that a reload during the job does not affect it."""
        return replace(self._context)

    def _plan(self) -> None:
        """Plan a job for every source and channel, and for the digests; remove jobs that are no longer configured."""
        config, now, wanted = self._context.config, datetime.now(UTC), set[str]()

        def plan(name: str, group: str, job: Job, every: timedelta, first: datetime, **more: timedelta) -> None:
            wanted.add(name)
            self._scheduler.add(name, group, partial(self._leadership.do, job), every=every, first=first, **more)

        if self._context.database.is_shared:
            wanted.add("lead")
            self._scheduler.add("lead", "lead", self._lead, every=HEARTBEAT, first=now + HEARTBEAT)
        plan("digests", "default", self._create_digests, _TICK, now)
        if config.monitor.ping_url is not None:
            plan("ping", "default", self._ping, _PING, now + _PING)
        plan("cleanup", "default", lambda: passes.clean_up(self._snapshot()), _CLEANUP, now + _CLEANUP)
        for source in config.sources.values():
            every, group = source.poll.every, self._group(source)
            with self._context.database.read() as connection:
                last = health.source(connection, source.name).polled_at
            first = max(now, last + every) if last is not None and last <= now else now
            plan(f"poll {source.name}", group, partial(self._poll, source), every, first, jitter=source.poll.jitter)
            follow = partial(lambda which: passes.follow_poll(self._snapshot(), which), source)
            plan(f"after poll {source.name}", "after polls", follow, every, first)
        for channel in config.channels:
            # With the current context: a recipient that is removed while the job waits for a server gets nothing more.
            plan(f"deliver {channel}", "channels", partial(deliver, self._context, channel), _TICK, now)
        for name in self._scheduler.names() - wanted:
            self._scheduler.remove_job(name)

    def _group(self, source: Source) -> str:
        """Return the name of the threads that poll `source`; silent sources have their own, and so block no others."""
        return "sources" if passes.has_answered(self._context, source) else "other sources"

    def _poll(self, source: Source) -> None:
        passes.poll(self._snapshot(), source)
        with suppress(JobLookupError):
            self._scheduler.modify_job(f"poll {source.name}", executor=self._group(source))
        self._scheduler.wake("digests", f"after poll {source.name}")

    def _create_digests(self) -> None:
        self._live()
        context = replace(self._snapshot(), beat=self._live)
        create_digests(context)
        report_removed_channels(context)
        self._scheduler.wake(*(f"deliver {channel}" for channel in context.config.channels))

    def _live(self) -> None:
        self._beat = time.monotonic()

    def _ping(self) -> None:
        passes.ping(self._context.config, self._context.log, is_whole=self._readyz().status == 200)

    def _look_around(self) -> None:
        if self._is_reloading:
            self._is_reloading = False
            self._load_again()
        if time.monotonic() - self._beat < _STUCK_SECONDS:
            notify("WATCHDOG=1")

    def _load_again(self) -> None:
        try:
            config = self._reload()
            if (config.state, config.folder) != (self._context.config.state, self._context.config.folder):
                raise UsageError("another state requires a restart")
        except CachewatchError as error:
            self._refuse(str(error))
            return
        self._context.config = config
        with suppress(CachewatchError):
            resolve_now(self._context, _REFUSED, "the configuration was reloaded")
        if self._leadership.is_ours:
            self._retry_channels()
        self._plan()
        self._listen(config.monitor.listen or "")
        count = len(config.subscriptions)
        self._context.log.info("config.reloaded", sources=len(config.sources), subscriptions=count)
        notify(status="configuration reloaded")

    def _refuse(self, reason: str) -> None:
        self._context.log.error("config.refused", error=reason)
        notify(status="the new configuration was refused, the old one stays")
        lines = (*reason.splitlines(), "The daemon goes on with the configuration that it had.")
        title, commands = "a new configuration was refused", ("cachewatch config check",)
        if self._leadership.is_ours:
            with suppress(CachewatchError):
                open_now(self._context, Alert(key=_REFUSED, title=title, lines=lines, commands=commands))

    def _retry_channels(self) -> None:
        try:
            unblock(self._context)
        except CachewatchError as error:
            self._context.log.error("state.failed", error=str(error))  # a disk that is full now is no reason to end

    def _listen(self, listen: str) -> None:
        """Make the server of health pages and metrics listen on the address `listen` (HOST:PORT); "" stops it."""
        if listen == self._listens:
            return
        if self._monitor is not None:
            self._monitor.stop()
        self._monitor, self._listens = None, ""
        if listen:
            host, _, port = listen.rpartition(":")
            pages = {"/healthz": self._healthz, "/readyz": self._readyz, "/metrics": self._metrics}
            try:
                self._monitor, self._listens = MonitorServer(host, int(port), pages), listen
            except OSError as error:
                self._context.log.error("monitor.failed", listen=listen, error=str(error))

    def _note(self, job: str, error: BaseException | None) -> None:
        """Log a new `error` of `job`, or its recovery (None); open or resolve the alert that the job keeps failing."""
        was_failing, log = job in self._failing(), self._context.log
        if error is None:
            self._logged.pop(job, None)
            if count := self._in_a_row.pop(job, 0):
                log.info("job.recovered", job=job, failures=count)
        else:
            self._failures[job] += 1
            self._in_a_row[job] += 1
            kind = re.sub(r"\d+", "", repr(error))
            if self._logged.get(job) != kind:
                self._logged[job] = kind
                log.error("job.failed", job=job, error=repr(error), traceback=traceback_of(error))
        if was_failing == (job in self._failing()) or not self._leadership.is_ours:
            return
        key = AlertKey(AlertKind.WORK_FAILED, DAEMON, job)
        with suppress(CachewatchError):  # where nothing can be stored, /healthz says so
            if error is None:
                resolve_now(self._context, key, f"the job `{job}` of the daemon works again")
            else:
                title = f"the job `{job}` of the daemon keeps failing"
                open_now(self._context, Alert(key=key, title=title, lines=(error_message(error),)))

    def _failing(self) -> list[str]:
        return sorted(job for job, count in list(self._in_a_row.items()) if count >= 3)

    def _healthz(self) -> MonitorPage:
        age = time.monotonic() - self._beat
        if failing := self._failing():
            return MonitorPage(503, f"failing: {', '.join(failing)}\n")
        if age >= _STUCK_SECONDS:
            return MonitorPage(503, f"stuck for {age:.0f} s\n")
        return MonitorPage(200, f"ok: last tick {age:.0f} s ago\n")

    def _readyz(self) -> MonitorPage:
        health_page = self._healthz()
        if self._leadership.is_ours:
            return readyz(self._snapshot(), health_page)
        standby = MonitorPage(200, f"standby: {self._leadership.other} works on the state\n")
        return standby if health_page.status == 200 else health_page

    def _metrics(self) -> MonitorPage:
        tick, is_leader = time.time() - (time.monotonic() - self._beat), self._leadership.is_ours
        failures, failing = dict.fromkeys(self._scheduler.names(), 0) | self._failures, len(self._failing())
        return figures(self._snapshot(), DaemonStatus(tick, failures, failing, is_leader))

    def _stop(self, number: int, _: Any) -> None:
        if self._context.is_ending.is_set():
            os._exit(128 + number)  # asked twice: nothing is lost that way either
        self._context.is_ending.set()

    def _ask_reload(self, *_: Any) -> None:
        self._is_reloading = True

    def _end(self, error: StateError | None = None) -> int:
        """End the daemon after a signal or an `error`: finish messages that are being sent; return the exit code."""
        code = error.exit_code if error else 0
        self._context.is_ending.set()
        notify("STOPPING=1")
        if error:
            self._context.log.error("state.failed", error=str(error))
        self._context.log.info("daemon.stopping")
        stopper = threading.Thread(target=self._scheduler.stop, daemon=True)
        stopper.start()
        passes.end_threads([stopper])
        self._listen("")
        self._context.log.info("daemon.stopped", is_clean=not stopper.is_alive())
        if stopper.is_alive():
            os._exit(code)  # threads that wait for a server would keep us
        return code
