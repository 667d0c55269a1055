"""How the service fares: for `status`, as JSON, and as Prometheus metrics."""

from datetime import date, datetime

from msgspec import Struct

from cachewatch import __version__
from cachewatch.config.model import Config, Silence
from cachewatch.schedule import quiet_until
from cachewatch.service.context import Context
from cachewatch.service.tracks import Track, tracks_of
from cachewatch.store import alerts, digests, health, outbox, slots
from cachewatch.store.alerts import AlertKind, OpenAlert
from cachewatch.store.database import Connection
from cachewatch.store.digests import Record
from cachewatch.store.health import ChannelHealth, SourceHealth
from cachewatch.store.outbox import State


class TrackStatus(Struct, frozen=True, kw_only=True):
    """When somebody is told next."""

    subscription: str
    track: str
    schedule: str  # in words
    due: datetime | None  # None where revisions set the pace


class ChannelStatus(Struct, frozen=True, kw_only=True):
    """What waits for a channel, and how it fares."""

    health: ChannelHealth
    is_configured: bool
    queue: dict[str, int]  # by state
    oldest: datetime | None  # since when the oldest of what is open waits


class HeldDigest(Struct, frozen=True, kw_only=True):
    """A digest that waits for an operator to release or drop it."""

    key: str
    subscription: str
    track: str
    is_configured: bool  # the subscription, still
    since: datetime
    title: str
    reason: str


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
    tracks: tuple[TrackStatus, ...]
    quiet_until: datetime | None  # None where digests may be made now
    channels: tuple[ChannelStatus, ...]
    held: tuple[HeldDigest, ...]
    silences: tuple[SilenceStatus, ...]
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
        queue, oldest = outbox.queue(connection), outbox.oldest_open(connection)
        names = dict.fromkeys((*config.channels, *(channel for channel, _ in queue)))
        return Status(
            sources=tuple(health.source(connection, name) for name in config.sources),
            tracks=tuple(_track(connection, track) for track in tracks_of(config)),
            quiet_until=is_over if is_over > now else None,
            channels=tuple(
                ChannelStatus(
                    health=health.channel(connection, name),
                    is_configured=name in config.channels,
                    queue={state: count for (channel, state), count in queue.items() if channel == name},
                    oldest=oldest.get(name),
                )
                for name in names
            ),
            held=tuple(_held(stored, config) for stored in digests.all_held(connection)),
            silences=tuple(_silence(silence, context.today()) for silence in config.silences),
            alerts=tuple(_alert(alert) for alert in alerts.all_open(connection)),
        )


def _track(connection: Connection, track: Track) -> TrackStatus:
    slot = slots.pending(connection, track.subscription.name, track.name)
    return TrackStatus(
        subscription=track.subscription.name,
        track=track.name,
        schedule=track.schedule.in_words(),
        # A slot of another schedule is one of a configuration that was: the next look replaces it.
        due=None if slot is None or track.is_each_revision or slot.schedule != track.schedule_text else slot.due,
    )


def _held(stored: Record, config: Config) -> HeldDigest:
    return HeldDigest(
        key=stored.key,
        subscription=stored.subscription,
        track=stored.track,
        is_configured=stored.subscription in config.subscriptions,
        since=stored.created,
        title=stored.title,
        reason=stored.reason,
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


def metrics(context: Context, tick_age: float) -> str:
    """Return the figures in Prometheus' text form; labels are names of the configuration alone."""
    status, now = read_status(context), context.clock()
    with context.database.read() as connection:
        figures = health.figures(connection)
    lines = [f'cachewatch_build_info{{version="{__version__}"}} 1']
    lines.append(f"cachewatch_last_tick_timestamp_seconds {now.timestamp() - tick_age:.0f}")
    for source in status.sources:
        for name, moment in (("last_success", source.succeeded_at), ("revision", source.revision_time)):
            if moment is not None:
                lines.append(
                    f'cachewatch_source_{name}_timestamp_seconds{{source="{source.name}"}} {moment.timestamp():.0f}'
                )
    for channel in status.channels:
        for state, count in channel.queue.items():
            lines.append(f'cachewatch_outbox_rows{{channel="{channel.health.name}",state="{state}"}} {count}')
        age = 0.0 if channel.oldest is None else (now - channel.oldest).total_seconds()
        lines.append(f'cachewatch_outbox_oldest_seconds{{channel="{channel.health.name}"}} {age:.0f}')
    lines += [f"cachewatch_{name} {value:g}" for name, value in figures.items()]
    return "".join(f"{line}\n" for line in lines)
