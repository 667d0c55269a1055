"""The metrics of the service, as samples; label values are names from the configuration only."""

import os
import resource
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from cachewatch import __version__
from cachewatch.config.model import Config
from cachewatch.config.schedule import quiet_until
from cachewatch.operators.status import ChannelStatus, ServiceStatus, find_problems, read_status
from cachewatch.service.context import Context
from cachewatch.store import health
from cachewatch.store.digests import DigestState
from cachewatch.store.health import AlertKind, Counter, SourceHealth
from cachewatch.store.outbox import State


class Series(Struct, frozen=True):
    """What samples of one name say, and the names of their labels."""

    about: str
    labels: tuple[str, ...] = ()


# In the order in which they are printed; those that end in _total are counters, and all others gauges.
SERIES: Mapping[str, Series] = {
    "cachewatch_build_info": Series("Always 1; the version is a label.", ("version",)),
    "cachewatch_ready": Series("1 if /readyz finds no problem, else 0."),
    "cachewatch_problems": Series("Problems that /readyz finds, without warnings."),
    "cachewatch_last_tick_timestamp_seconds": Series("When the daemon last looked for digests that are due."),
    "cachewatch_source_poll_interval_seconds": Series(
        "The configured interval between polls of a source.", ("source",)
    ),
    "cachewatch_source_last_poll_timestamp_seconds": Series("When a source was polled last; 0 if never.", ("source",)),
    "cachewatch_source_last_success_timestamp_seconds": Series("When a source last answered; 0 if never.", ("source",)),
    "cachewatch_source_revision_timestamp_seconds": Series(
        "When the newest revision was published, if known.", ("source",)
    ),
    "cachewatch_source_failures": Series("Failed polls of a source in a row.", ("source",)),
    "cachewatch_poll_failures_total": Series("Failed polls of a source.", ("source",)),
    "cachewatch_stream_late_seconds": Series(
        "How long ago the digest of a schedule was due, if it is not made.", ("subscription", "stream")
    ),
    "cachewatch_digests_total": Series(
        "Digests that were made, by what became of them at first.", ("subscription", "result")
    ),
    "cachewatch_held_digests": Series("Digests that wait for an operator."),
    "cachewatch_outbox_rows": Series("Stored deliveries of a channel, by state.", ("channel", "state")),
    "cachewatch_outbox_oldest_seconds": Series("Age of the oldest delivery of a channel that is open.", ("channel",)),
    "cachewatch_outbox_overdue_seconds": Series(
        "How long ago a delivery of a channel should have been sent.", ("channel",)
    ),
    "cachewatch_deliveries_total": Series("Attempts to deliver through a channel, by result.", ("channel", "result")),
    "cachewatch_channel_blocked": Series(
        "1 while a channel is blocked because it does not work, else 0.", ("channel",)
    ),
    "cachewatch_channel_failures": Series("Failed attempts through a channel in a row.", ("channel",)),
    "cachewatch_suppressed_addresses": Series("Addresses of a channel that are suppressed.", ("channel",)),
    "cachewatch_open_alerts": Series("Problems and warnings that `status --check` lists, by kind.", ("kind",)),
    "cachewatch_job_failures_total": Series("Failures of a job of the daemon since it started.", ("job",)),
    "cachewatch_failing_jobs": Series("Jobs of the daemon that failed three times in a row or more."),
    "cachewatch_leader": Series("1 if this daemon works on the state, 0 if it waits for another host."),
    "process_start_time_seconds": Series("When the daemon was started."),
    "process_cpu_seconds_total": Series("Processor time that the daemon took."),
    "process_resident_memory_bytes": Series("Memory that the daemon takes."),
    "process_open_fds": Series("File descriptors that the daemon has open."),
    "process_threads": Series("Threads of the daemon."),
}
# What may become of a digest when it is made, and of an attempt to deliver.
_DIGESTS = (DigestState.READY, DigestState.HELD)
_ATTEMPTS = (State.SENT, State.DEFERRED, State.QUEUED, State.DEAD)

Sample = tuple[str, Mapping[str, str], float]  # name of the series, labels, value


class DaemonStatus(Struct, frozen=True, kw_only=True):
    """What only the daemon knows of itself."""

    tick: float  # the time of the last one, in seconds since 1970
    started: float
    job_failures: Mapping[str, int]  # since then, of every job
    failing_jobs: int
    is_leader: bool = True  # of the hosts that share the state


def metrics(context: Context, daemon: DaemonStatus) -> list[Sample]:
    """Return a sample of every series for all that it is of."""
    status, now = read_status(context), context.clock()
    with context.database.read() as connection:
        counters = _zeros(context.config) | health.counters(connection)
    stored = [(f"cachewatch_{counter.name}", dict(counter.labels), value) for counter, value in counters.items()]
    return [*_samples(context.config, status, daemon, now), *stored]


def _zeros(config: Config) -> dict[Counter, float]:
    """Return the counters of all that is configured, as they are before anything happened."""
    found = [Counter.of("poll_failures_total", source=name) for name in config.sources]
    found += [
        Counter.of("digests_total", subscription=name, result=result)
        for name in config.subscriptions
        for result in _DIGESTS
    ]
    found += [
        Counter.of("deliveries_total", channel=name, result=result) for name in config.channels for result in _ATTEMPTS
    ]
    return dict.fromkeys(found, 0.0)


def _samples(config: Config, status: ServiceStatus, daemon: DaemonStatus, now: datetime) -> Iterator[Sample]:
    problems = find_problems(status, config, now)
    yield "cachewatch_build_info", {"version": __version__}, 1
    yield "cachewatch_ready", {}, problems.is_ready
    yield "cachewatch_problems", {}, len(problems.problems)
    yield "cachewatch_held_digests", {}, len(status.held)
    for kind in AlertKind:
        yield "cachewatch_open_alerts", {"kind": kind}, sum(each.kind is kind for each in problems.all)
    for source in status.sources:
        yield from _of_source(source, config)
    for stream in status.streams:
        if stream.due is not None:
            late = max(0.0, (now - quiet_until(config.quiet, stream.due)).total_seconds())
            yield "cachewatch_stream_late_seconds", {"subscription": stream.subscription, "stream": stream.stream}, late
    for channel in status.channels:
        yield from _of_channel(channel, now)
    yield from _of_daemon(daemon)


def _of_source(source: SourceHealth, config: Config) -> Iterator[Sample]:
    labels = {"source": source.name}
    every = config.sources[source.name].poll.every
    yield "cachewatch_source_poll_interval_seconds", labels, every.total_seconds()
    for name, moment in (("last_poll", source.polled_at), ("last_success", source.succeeded_at)):
        yield f"cachewatch_source_{name}_timestamp_seconds", labels, moment.timestamp() if moment else 0
    if source.revision_time is not None:
        yield "cachewatch_source_revision_timestamp_seconds", labels, source.revision_time.timestamp()
    yield "cachewatch_source_failures", labels, source.failures


def _of_channel(channel: ChannelStatus, now: datetime) -> Iterator[Sample]:
    labels = {"channel": channel.health.name}
    for state in State:
        yield "cachewatch_outbox_rows", {**labels, "state": state}, channel.queue.get(state, 0)
    for name, moment in (("oldest", channel.oldest), ("overdue", channel.due_since)):
        age = (now - moment).total_seconds() if moment else 0
        yield f"cachewatch_outbox_{name}_seconds", labels, max(0.0, age)
    until = channel.health.blocked_until
    yield "cachewatch_channel_blocked", labels, until is not None and until > now
    yield "cachewatch_channel_failures", labels, channel.health.failures
    yield "cachewatch_suppressed_addresses", labels, channel.suppressed


def _of_daemon(daemon: DaemonStatus) -> Iterator[Sample]:
    yield "cachewatch_last_tick_timestamp_seconds", {}, daemon.tick
    for job, count in sorted(daemon.job_failures.items()):
        yield "cachewatch_job_failures_total", {"job": job}, count
    yield "cachewatch_failing_jobs", {}, daemon.failing_jobs
    yield "cachewatch_leader", {}, daemon.is_leader
    yield "process_start_time_seconds", {}, daemon.started
    yield "process_cpu_seconds_total", {}, time.process_time()
    yield "process_threads", {}, threading.active_count()
    yield from _of_linux()


def _of_linux() -> Iterator[Sample]:
    statm, descriptors = Path("/proc/self/statm"), Path("/proc/self/fd")
    if statm.exists():
        yield "process_resident_memory_bytes", {}, int(statm.read_text("ascii").split()[1]) * resource.getpagesize()
        yield "process_open_fds", {}, len(os.listdir(descriptors))  # noqa: PTH208  names are enough
