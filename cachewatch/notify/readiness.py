"""Whether the service works, judged by its status: for `status --check` and /readyz."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec import Struct

from cachewatch.config.model import Config
from cachewatch.core.schedule import quiet_until
from cachewatch.notify.notice_sentences import in_a_row
from cachewatch.notify.status import ChannelStatus, Status, StreamStatus
from cachewatch.render.elapsed_time import how_long
from cachewatch.render.statement_phrases import number
from cachewatch.store.alerts import AlertKind
from cachewatch.store.health import SourceHealth
from cachewatch.store.outbox import State

_MISSED_POLLS = 3
_LEAST_PATIENCE = timedelta(hours=1)
# What these alerts are about is judged by itself, or counted with the deliveries that failed.
_JUDGED = frozenset({AlertKind.SOURCE_FAILED, AlertKind.CHANNEL_DOWN, AlertKind.DELIVERY_FAILED})


class Finding(Struct, frozen=True, kw_only=True):
    """Something that is not as it should be."""

    what: str  # with no names but those of the configuration
    detail: str = ""  # perhaps in the words of a server


class Readiness(Struct, frozen=True, kw_only=True):
    """What keeps the service from doing its work, and what somebody should look at though it does."""

    problems: tuple[Finding, ...]
    warnings: tuple[Finding, ...]

    @property
    def is_ready(self) -> bool:
        """Whether nothing keeps the service from doing its work."""
        return not self.problems


def judge(status: Status, config: Config, now: datetime) -> Readiness:
    """Say what is wrong with a service of this status, at this moment."""
    patience = max(
        _LEAST_PATIENCE, min((source.poll.every for source in config.sources.values()), default=timedelta(0))
    )
    return Readiness(
        problems=(
            *(found for source in status.sources for found in _of_source(source, config, now)),
            *(found for stream in status.streams for found in _of_stream(stream, config, now - patience, now)),
            *(
                Finding(what=f"digests cannot be created for {alert.name}", detail=alert.detail)
                for alert in status.alerts
                if alert.kind is AlertKind.DIGEST_FAILED
            ),
            *(found for channel in status.channels for found in _of_channel(channel, now - patience, now)),
        ),
        warnings=tuple(_warnings(status)),
    )


def _of_source(source: SourceHealth, config: Config, now: datetime) -> Iterator[Finding]:
    every = config.sources[source.name].poll.every
    if source.polled_at is None:
        yield Finding(what=f"the source {source.name} was never polled")
    elif now - source.polled_at > _MISSED_POLLS * every:
        yield Finding(
            what=f"the source {source.name} was polled {_ago(source.polled_at, now)}, "
            f"but should be polled every {how_long(every.total_seconds())}"
        )
    if source.failures >= config.operators.after_failures:
        yield Finding(what=f"the source {source.name} {in_a_row(source.failures)}", detail=source.error)


def _of_stream(stream: StreamStatus, config: Config, limit: datetime, now: datetime) -> Iterator[Finding]:
    # What is due while all is quiet is due at the end of that.
    if stream.due is not None and (due := quiet_until(config.quiet, stream.due)) < limit:
        yield Finding(what=f"the digest of {stream.subscription} was due {_ago(due, now)}")


def _of_channel(channel: ChannelStatus, limit: datetime, now: datetime) -> Iterator[Finding]:
    name, health = channel.health.name, channel.health
    if not channel.is_configured:
        if channel.oldest is not None:
            yield Finding(what=f"deliveries wait for the channel {name}, which is no longer configured")
        return
    if health.blocked_until is not None and health.blocked_until > now:
        until = how_long((health.blocked_until - now).total_seconds())
        yield Finding(what=f"the channel {name} does not work; next attempt in {until}", detail=health.error)
    elif channel.due_since is not None and channel.due_since < limit:
        yield Finding(what=f"a delivery through {name} was due {_ago(channel.due_since, now)}, but was not attempted")
    if channel.expired_leases:
        count = number(channel.expired_leases, "delivery", "deliveries")
        yield Finding(what=f"{count} through {name} were claimed, but have no result since")


def _warnings(status: Status) -> Iterator[Finding]:
    for channel in status.channels:
        if dead := channel.queue.get(State.DEAD, 0):
            yield Finding(
                what=f"{number(dead, 'delivery', 'deliveries')} through {channel.health.name} failed for good",
                detail="see `cachewatch deliveries list --dead`, and retry or drop them",
            )
    for alert in status.alerts:
        if alert.kind not in {*_JUDGED, AlertKind.DIGEST_FAILED}:
            yield Finding(what=f"an alert is open: {alert.kind} {alert.name}", detail=alert.title)


def _ago(moment: datetime, now: datetime) -> str:
    return f"{how_long((now - moment).total_seconds())} ago"
