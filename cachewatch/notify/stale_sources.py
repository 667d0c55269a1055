"""Stale sources: operators are notified when the newest data of a source is older than its `stale_after`."""

from datetime import datetime

from cachewatch.config.model import Source
from cachewatch.core.showing_times import minute
from cachewatch.notify import alerts
from cachewatch.notify.alerts import Alert, AlertKey, AlertKind
from cachewatch.notify.notice_sentences import days
from cachewatch.notify.pass_context import Context
from cachewatch.store.database import Connection
from cachewatch.store.health import SourceHealth


def review(connection: Connection, context: Context, source: Source, source_health: SourceHealth) -> None:
    """Open the alert of a source whose data is too old, and resolve it when there is newer data.

    How often a source publishes is not known before it was watched for that long: the age of what was fetched
    first says nothing yet.
    """
    key, now = AlertKey(AlertKind.SOURCE_STALE, source.name), context.clock()
    is_watched = source_health.changed_at is not None and now - source_health.changed_at > source.stale_after
    if not (is_watched and is_stale(source, source_health, now)):
        alerts.resolve_within(connection, context, key, f"the source {source.name} has news again")
        return
    lines = (
        f"{_capitalized(staleness(source_health, now, context.config.timezone))}; `stale_after` is {days(source.stale_after)}.",
        "It answers, but upstream may have stopped publishing."
        if not source_health.failures
        else "It cannot be read either.",
    )
    alert = Alert(key=key, title=f"the source {source.name} has no news", lines=lines)
    alerts.open_within(connection, context, alert)


def is_stale(source: Source, source_health: SourceHealth, now: datetime) -> bool:
    """Tell whether the newest data of a source is older than it should ever be."""
    newest = _newest(source_health)
    return newest is not None and now - newest > source.stale_after


def staleness(source_health: SourceHealth, now: datetime, zone: str) -> str:
    """Say how old the newest data is."""
    newest = _newest(source_health)
    if newest is None:
        return "no data yet"
    return f"nothing new published since {minute(newest, zone)} ({days(now - newest)})"


def _newest(source_health: SourceHealth) -> datetime | None:
    """Return when the newest data was published; it cannot be later than when we saw it, whatever its date says."""
    return min(filter(None, (source_health.revision_time, source_health.changed_at)), default=None)


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]
