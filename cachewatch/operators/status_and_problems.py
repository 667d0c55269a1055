"""The status of the service, and the only list of its problems, for `status`, /readyz, metrics and alerts."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.config.settings_and_subscriptions import Config, quiet_until
from cachewatch.report.words import number
from cachewatch.service.alerts_and_silent_sources import OPERATORS
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.digest_assembly_and_holds import goes_out_at
from cachewatch.service.recipients_and_retries import is_operator, last_addresses
from cachewatch.service.streams_and_silences import Stream, days, streams_of
from cachewatch.store import deliveries
from cachewatch.store import digests_and_holds as digests
from cachewatch.store import health_and_alerts as health
from cachewatch.store.deliveries import DeliveryState, Suppressed
from cachewatch.store.digests_and_holds import HeldDigest, Slot
from cachewatch.store.health_and_alerts import AlertKey, AlertKind, ChannelHealth, SourceHealth
from cachewatch.store.schema import filled
from cachewatch.store.transactions_and_sqlite import Connection


class StreamStatus(Struct, frozen=True, kw_only=True):
    """When the next digest of a stream is due."""

    subscription: str
    stream: str
    schedule: str  # in words
    due: datetime | None  # None if digests are due with each new revision


class ChannelStatus(Struct, frozen=True, kw_only=True):
    """The deliveries that wait for a channel, and its health."""

    health: ChannelHealth
    is_configured: bool
    queue: dict[str, int]  # by state
    oldest: datetime | None  # when the oldest open delivery was created
    due_since: datetime | None  # when the first overdue delivery should have been sent
    suppressed: int  # the number of suppressed addresses


class HeldDigestStatus(Struct, frozen=True, kw_only=True):
    """A digest that is held until an operator releases or drops it, or until its time is over."""

    key: str
    subscription: str
    stream: str
    is_configured: bool  # whether the subscription is still configured
    since: datetime  # since when it, or a digest that it replaced, was held
    title: str
    reason: str
    goes_out_at: datetime | None  # when it is sent if no operator answers; None if never or not known yet


class SilenceStatus(Struct, frozen=True):
    """A configured silence, and whether it is active today."""

    name: str
    until: date
    is_active: bool
    reason: str


class Problem(Struct, frozen=True):
    """A problem of the service, or an open alert; a problem has the kind, name and part of the alert about it."""

    kind: AlertKind
    name: str
    what: str  # a sentence; that of a problem has only names from the configuration, and no addresses of people
    part: str = ""
    detail: str = ""  # such as the error message of a server
    since: datetime | None = None

    @property
    def key(self) -> AlertKey:
        """The key of the alert about the problem."""
        return AlertKey(self.kind, self.name, self.part)


class ServiceStatus(Struct, frozen=True, kw_only=True):
    """Everything that `status` shows."""

    sources: tuple[SourceHealth, ...]
    streams: tuple[StreamStatus, ...]
    quiet_until: datetime | None  # None if digests may be created now
    channels: tuple[ChannelStatus, ...]
    held: tuple[HeldDigestStatus, ...]
    silences: tuple[SilenceStatus, ...]
    suppressed: tuple[Suppressed, ...]
    alerts: tuple[Problem, ...]
    leader: str | None = None  # the process that works on a state that hosts share

    @property
    def dead(self) -> int:
        """The number of deliveries that failed permanently and were neither retried nor dropped."""
        return sum(channel.queue.get(DeliveryState.DEAD, 0) for channel in self.channels)


def read_status(context: Context) -> ServiceStatus:
    """Read the whole status in one transaction."""
    config, now, day = context.config, context.clock(), context.today()
    is_over, leader = quiet_until(config.quiet, now, config.timezone), context.database.leader()
    with context.database.read() as connection:
        slots = digests.pending(connection)
        return ServiceStatus(
            sources=tuple(health.source(connection, name) for name in config.sources),
            streams=tuple(_stream(slots, stream) for stream in streams_of(config)),
            quiet_until=is_over if is_over > now else None,
            channels=tuple(_channels(connection, config, now)),
            held=tuple(_held(config, stored) for stored in digests.all_held(connection)),
            silences=tuple(SilenceStatus(s.name, s.until, s.is_active(day), s.reason) for s in config.silences),
            suppressed=tuple(deliveries.all_suppressed(connection)),
            alerts=tuple(
                Problem(each.key.kind, each.key.name, each.title, each.key.part, each.detail, each.opened_at)
                for each in health.all_open(connection)
            ),
            leader=leader,
        )


def _stream(slots: Mapping[tuple[str, str], Slot], stream: Stream) -> StreamStatus:
    slot = None if stream.is_each_revision else slots.get((stream.subscription.name, stream.name))
    # A slot of another schedule is from an earlier configuration: the next pass replaces it.
    due = None if slot is None or slot.schedule != stream.schedule_text else slot.due
    name, schedule = stream.subscription.name, stream.schedule.in_words()
    return StreamStatus(subscription=name, stream=stream.name, schedule=schedule, due=due)


def _held(config: Config, stored: HeldDigest) -> HeldDigestStatus:
    since = min([stored.created, *(hold.counted_from for hold in stored.holds)])
    is_configured, end = stored.subscription in config.subscriptions, goes_out_at(config, stored)
    return filled(HeldDigestStatus, stored, is_configured=is_configured, since=since, goes_out_at=end)


def _channels(connection: Connection, config: Config, now: datetime) -> Iterator[ChannelStatus]:
    queue, oldest = deliveries.queue(connection), deliveries.oldest_open(connection)
    due = {each.channel: each.due for each in reversed(deliveries.overdue(connection, now, timedelta(0)))}
    suppressed = Counter(each.channel for each in deliveries.all_suppressed(connection))
    for name in dict.fromkeys((*config.channels, *(channel for channel, _ in queue))):
        yield ChannelStatus(
            health=health.channel(connection, name),
            is_configured=name in config.channels,
            queue={state: count for (channel, state), count in queue.items() if channel == name},
            oldest=oldest.get(name),
            due_since=due.get(name),
            suppressed=suppressed[name],
        )


# Problems that arise as time passes; their alerts are opened and resolved to agree with this list.
LATE = frozenset({AlertKind.SOURCE_LATE, AlertKind.DIGEST_LATE, AlertKind.DELIVERY_LATE})
# Alerts that are problems, since the service does not do its work; all others are warnings.
_ERRORS = LATE | {AlertKind.SOURCE_FAILED, AlertKind.SOURCE_EMPTY, AlertKind.SOURCE_UNREADABLE}
_ERRORS |= {AlertKind.DIGEST_FAILED, AlertKind.CHANNEL_DOWN, AlertKind.WORK_FAILED}
_MISSED_POLLS = 3
PATIENCE = timedelta(hours=1)


class ProblemList(Struct, frozen=True, kw_only=True):
    """The problems that keep the service from working, and the warnings that somebody should check."""

    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]

    @property
    def is_ready(self) -> bool:
        """Whether there are no problems; warnings do not count."""
        return not self.problems

    @property
    def all(self) -> tuple[Problem, ...]:
        """Problems and warnings, problems first."""
        return (*self.problems, *self.warnings)


def find_problems(status: ServiceStatus, config: Config, now: datetime) -> ProblemList:
    """Return the problems and warnings of a service that has this status at the time `now`."""
    since = {alert.key: alert.since for alert in status.alerts}
    shown = [replace(each, since=since.get(each.key, each.since)) for each in _shown_by_state(status, config, now)]
    keys, warnings = {problem.key for problem in shown}, []
    for channel in status.channels:
        if dead := channel.queue.get(DeliveryState.DEAD, 0):
            what = f"{number(dead, 'delivery', 'deliveries')} through {channel.health.name} failed for good"
            advice = "see `cachewatch deliveries list --dead`, and retry or drop them"
            warnings.append(Problem(AlertKind.DELIVERY_FAILED, channel.health.name, what, detail=advice))
    for alert in status.alerts:
        if alert.key in keys:
            continue
        if alert.kind is not AlertKind.DELIVERY_FAILED:
            (shown if alert.kind in _ERRORS else warnings).append(alert)
        elif is_operator(config, alert.name, alert.part):  # all others are counted by channel
            what = f"operators cannot be reached through the channel {alert.name}"
            shown.append(replace(alert, what=what, detail=f"{alert.what}: {alert.detail}"))
    return ProblemList(problems=tuple(shown), warnings=tuple(warnings))


def late(status: ServiceStatus, config: Config, now: datetime) -> Iterator[Problem]:
    """Yield the problems of kinds LATE: polls, digests and deliveries that are overdue."""
    return (problem for problem in _shown_by_state(status, config, now) if problem.kind in LATE)


def _shown_by_state(status: ServiceStatus, config: Config, now: datetime) -> Iterator[Problem]:
    """Yield the problems that the state shows, whether or not there are alerts about them."""
    every = min((source.poll.every for source in config.sources.values()), default=timedelta(0))
    limit = now - max(PATIENCE, every)
    for source in status.sources:
        name, interval = source.name, config.sources[source.name].poll.every
        if source.polled_at is None:
            yield Problem(AlertKind.SOURCE_LATE, name, f"the source {name} was never polled")
        elif now - source.polled_at > _MISSED_POLLS * interval:
            what = f"the source {name} was polled {_ago(source.polled_at, now)}, but should be polled every {days(interval)}"
            yield Problem(AlertKind.SOURCE_LATE, name, what, since=source.polled_at)
    for stream in status.streams:
        # A digest that is due in quiet hours is due at their end.
        if stream.due is not None and (due := quiet_until(config.quiet, stream.due, config.timezone)) < limit:
            name, what = stream.subscription, f"the digest of {stream.subscription} was due {_ago(due, now)}"
            yield Problem(AlertKind.DIGEST_LATE, name, what, stream.stream, since=stream.due)
    for channel in status.channels:
        yield from _of_channel(channel, limit, now)
    # The suppressed addresses without which nobody is reached.
    needed = last_addresses(config, {(each.channel, each.target) for each in status.suppressed})
    for one in status.suppressed:
        if whose := needed.get((one.channel, one.target)):
            who = "an operator is" if whose == OPERATORS else f"all recipients of {whose} are"
            what, said = f"{who} suppressed in the channel {one.channel}", f"{one.target} refused: {one.said}"
            yield Problem(AlertKind.ADDRESS_SUPPRESSED, one.channel, what, one.target, said, one.since)


def _of_channel(channel: ChannelStatus, limit: datetime, now: datetime) -> Iterator[Problem]:
    name, health = channel.health.name, channel.health
    if not channel.is_configured:
        if channel.oldest is not None:
            what = f"deliveries wait for the channel {name}, which is no longer configured"
            yield Problem(AlertKind.CHANNEL_DOWN, name, what, since=channel.oldest)
    elif health.blocked_until is not None and health.is_blocked(now):
        until = days(health.blocked_until - now)
        what = f"the channel {name} does not work; next attempt in {until}"
        yield Problem(AlertKind.CHANNEL_DOWN, name, what, detail=health.error, since=health.error_at)
    elif channel.due_since is not None and channel.due_since < limit:
        what = f"a delivery through {name} was due {_ago(channel.due_since, now)}, but has no result"
        yield Problem(AlertKind.DELIVERY_LATE, name, what, since=channel.due_since)


def _ago(moment: datetime, now: datetime) -> str:
    return f"{days(now - moment)} ago"
