"""The status of the service, for `status`, its JSON, readiness and metrics."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta

from msgspec import Struct

from cachewatch.config.model import Config, Silence
from cachewatch.core.schedule import quiet_until
from cachewatch.notify.digest_streams import Stream, streams_of
from cachewatch.notify.held_digests import goes_out_at
from cachewatch.notify.pass_context import Context
from cachewatch.store import alerts, digests, health, held, outbox, scheduled_runs, suppressions
from cachewatch.store.alerts import AlertKind, OpenAlert
from cachewatch.store.database import Connection
from cachewatch.store.digests import DigestSummary
from cachewatch.store.health import ChannelHealth, SourceHealth
from cachewatch.store.outbox import State
from cachewatch.store.scheduled_runs import Slot
from cachewatch.store.suppressions import Suppressed


class StreamStatus(Struct, frozen=True, kw_only=True):
    """When somebody is told next."""

    subscription: str
    stream: str
    schedule: str  # in words
    due: datetime | None  # None where revisions set the pace


class ChannelStatus(Struct, frozen=True, kw_only=True):
    """What waits for a channel, and its health."""

    health: ChannelHealth
    is_configured: bool
    queue: dict[str, int]  # by state
    oldest: datetime | None  # since when the oldest of what is open waits
    due_since: datetime | None  # since when what was due first should have been tried
    expired_leases: int  # deliveries of which nothing was heard since they were claimed
    suppressed: int  # addresses that get no more digests


class HeldDigest(Struct, frozen=True, kw_only=True):
    """A digest that waits for an operator to release or drop it, or for its time."""

    key: str
    subscription: str
    stream: str
    is_configured: bool  # the subscription, still
    since: datetime  # of the first digest in whose place it is
    title: str
    reason: str
    goes_out_at: datetime | None  # if nobody answers; None if it does not, or that is not known yet


class SilenceStatus(Struct, frozen=True, kw_only=True):
    """What nobody hears of, or may hear of again."""

    name: str
    until: date
    is_active: bool
    reason: str


class AlertStatus(Struct, frozen=True, kw_only=True):
    """What operators were notified of, and is not over."""

    kind: AlertKind
    name: str
    part: str
    since: datetime
    title: str
    detail: str


class Status(Struct, frozen=True, kw_only=True):
    """Everything that `status` shows."""

    sources: tuple[SourceHealth, ...]
    streams: tuple[StreamStatus, ...]
    quiet_until: datetime | None  # None where digests may be made now
    channels: tuple[ChannelStatus, ...]
    held: tuple[HeldDigest, ...]
    silences: tuple[SilenceStatus, ...]
    suppressed: tuple[Suppressed, ...]
    alerts: tuple[AlertStatus, ...]

    @property
    def dead(self) -> int:
        """How many deliveries failed for good and were not dealt with."""
        return sum(channel.queue.get(State.DEAD, 0) for channel in self.channels)


def read_status(context: Context) -> Status:
    """Look at everything in one moment."""
    config = context.config
    now = context.clock()
    is_over = quiet_until(config.quiet, now)
    with context.database.read() as connection:
        slots = scheduled_runs.all_pending(connection)
        return Status(
            sources=tuple(health.source(connection, name) for name in config.sources),
            streams=tuple(_stream(slots, stream) for stream in streams_of(config)),
            quiet_until=is_over if is_over > now else None,
            channels=tuple(_channels(connection, config, now)),
            held=tuple(_held(connection, stored, config) for stored in digests.all_held(connection)),
            silences=tuple(_silence(silence, context.today()) for silence in config.silences),
            suppressed=tuple(suppressions.all_suppressed(connection)),
            alerts=tuple(_alert(alert) for alert in alerts.all_open(connection)),
        )


def _stream(slots: Mapping[tuple[str, str], Slot], stream: Stream) -> StreamStatus:
    slot = None if stream.is_each_revision else slots.get((stream.subscription.name, stream.name))
    return StreamStatus(
        subscription=stream.subscription.name,
        stream=stream.name,
        schedule=stream.schedule.in_words(),
        # A slot of another schedule is one of a configuration that was: the next look replaces it.
        due=None if slot is None or slot.schedule != stream.schedule_text else slot.due,
    )


def _channels(connection: Connection, config: Config, now: datetime) -> Iterator[ChannelStatus]:
    queue, oldest = outbox.queue(connection), outbox.oldest_open(connection)
    due = {each.channel: each.due for each in reversed(outbox.overdue(connection, now, timedelta(0)))}
    expired = Counter(each.channel for each in outbox.expired_leases(connection))
    suppressed = Counter(each.channel for each in suppressions.all_suppressed(connection))
    for name in dict.fromkeys((*config.channels, *(channel for channel, _ in queue))):
        yield ChannelStatus(
            health=health.channel(connection, name),
            is_configured=name in config.channels,
            queue={state: count for (channel, state), count in queue.items() if channel == name},
            oldest=oldest.get(name),
            due_since=due.get(name),
            expired_leases=expired[name],
            suppressed=suppressed[name],
        )


def _held(connection: Connection, stored: DigestSummary, config: Config) -> HeldDigest:
    found = held.HeldDigest(
        key=stored.key,
        subscription=stored.subscription,
        stream=stored.stream,
        reason=stored.reason,
        holds=held.holds_of(connection, stored.subscription, stored.stream),
    )
    return HeldDigest(
        key=stored.key,
        subscription=stored.subscription,
        stream=stored.stream,
        is_configured=stored.subscription in config.subscriptions,
        since=min([stored.created, *(hold.counted_from for hold in found.holds if hold.counted_from)]),
        title=stored.title,
        reason=stored.reason,
        goes_out_at=goes_out_at(config, found),
    )


def _alert(alert: OpenAlert) -> AlertStatus:
    return AlertStatus(
        kind=alert.key.kind,
        name=alert.key.name,
        part=alert.key.part,
        since=alert.opened_at,
        title=alert.title,
        detail=alert.detail,
    )


def _silence(silence: Silence, day: date) -> SilenceStatus:
    return SilenceStatus(
        name=silence.name, until=silence.until, is_active=silence.is_active(day), reason=silence.reason
    )
