"""The health of sources and channels, counters and alerts."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

import msgspec
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import Connection, Row, delete, insert, select, update

from cachewatch.store import schema
from cachewatch.store.delivery_queue_and_order import LONGEST_WAIT
from cachewatch.store.schema import alerts, channels, filled, insert_into, put, sources, unread


class SourceHealth(Struct, frozen=True, kw_only=True):
    """The results of the last polls of a source."""

    name: str
    polled_at: datetime | None = None
    succeeded_at: datetime | None = None
    revision: str | None = None
    revision_time: datetime | None = None  # when its newest revision was published
    changed_at: datetime | None = None  # when we first saw that revision
    failures: int = 0  # in a row
    error: str = ""


class ChannelHealth(Struct, frozen=True, kw_only=True):
    """The results of the last deliveries through a channel."""

    name: str
    blocked_until: datetime | None = None
    failures: int = 0  # in a row
    error: str = ""
    error_at: datetime | None = None
    sent_at: datetime | None = None

    def is_blocked(self, now: datetime) -> bool:
        """Tell whether the channel is paused at `now`; ignore pauses of over a day, which only a wrong clock stores."""
        return self.blocked_until is not None and now < self.blocked_until < now + LONGEST_WAIT


class Counter(Struct, frozen=True, array_like=True):
    """The name and the labels of a number that only grows; as JSON, they are its key in the table."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, name: str, **labels: str) -> Self:
        """Return the counter with this name and these labels, in this order."""
        return cls(name, tuple(labels.items()))


def source(connection: Connection, name: str) -> SourceHealth:
    """Return the stored health of a source; for an unknown source, that of one which was never polled."""
    row = connection.execute(select(sources).filter_by(name=name)).one_or_none()
    return SourceHealth(name=name) if row is None else filled(SourceHealth, row)


def newest_revisions(connection: Connection) -> Mapping[str, str]:
    """Return the newest known revision of each source."""
    query = select(sources.c.name, sources.c.revision).where(sources.c.revision.is_not(None))
    return {row.name: row.revision for row in connection.execute(query)}


def channel(connection: Connection, name: str) -> ChannelHealth:
    """Return the stored health of a channel; for an unknown channel, that of one which was never used."""
    row = connection.execute(select(channels).filter_by(name=name)).one_or_none()
    return ChannelHealth(name=name) if row is None else filled(ChannelHealth, row)


def put_health(connection: Connection, health: SourceHealth | ChannelHealth) -> None:
    """Store the health of a source or a channel."""
    put(connection, sources if isinstance(health, SourceHealth) else channels, ("name",), asdict(health))


def count(connection: Connection, counter: Counter, amount: float = 1) -> None:
    """Add `amount` to the stored value of a counter; a new counter begins at zero."""
    new = insert_into(connection, schema.counters)
    grown = {"value": schema.counters.c.value + new.excluded.value}
    values = {"name": msgspec.json.encode(counter).decode(), "value": amount}
    connection.execute(new.on_conflict_do_update(index_elements=("name",), set_=grown), values)


def counters(connection: Connection) -> dict[Counter, float]:
    """Return the values of all counters."""
    table = schema.counters
    rows = connection.execute(select(table).order_by(table.c.name))
    return {msgspec.json.decode(row.name, type=Counter): row.value for row in rows}


class AlertKind(StrEnum):
    """The kinds of alerts. Each comment says what the `name` and `part` of such an alert's key are."""

    SOURCE_FAILED = "source-failed"  # source
    SOURCE_INCOMPLETE = "source-incomplete"  # source
    SOURCE_EMPTY = "source-empty"  # source; it has no documents
    SOURCE_STALE = "source-stale"  # source
    SOURCE_LATE = "source-late"  # source; it is not polled
    SOURCE_UNREADABLE = "source-unreadable"  # source; none of its documents can be read
    DOCUMENTS_UNREADABLE = "documents-unreadable"  # source, tag
    SUSPICIOUS_LOSS = "suspicious-loss"  # source, tag
    LARGE_CHANGE = "large-change"  # source, tag
    DIGEST_FAILED = "digest-failed"  # subscription, stream
    DIGEST_LATE = "digest-late"  # subscription, stream
    TEMPLATE_FAILED = "template-failed"  # subscription
    CHANNEL_DOWN = "channel-down"  # channel
    DELIVERY_FAILED = "delivery-failed"  # channel, target
    ADDRESS_SUPPRESSED = "address-suppressed"  # channel, target
    DELIVERY_LATE = "delivery-late"  # channel; one is not tried, or has no result
    WORK_FAILED = "work-failed"  # source or (daemon), what was being done
    CONFIG_REFUSED = "config-refused"  # (daemon)


OF_HOLDS = (AlertKind.SUSPICIOUS_LOSS, AlertKind.LARGE_CHANGE)  # operators are asked before digests are sent


class AlertKey(Struct, frozen=True, order=True):
    """The identity of an alert: the same problem always has the same key."""

    kind: AlertKind
    name: str
    part: str = ""

    @property
    def topic(self) -> str:
        """The topic of notices to operators about the alert: its kind, name and part in one text."""
        return " ".join(filter(None, (self.kind, self.name, self.part)))


class OpenAlert(Struct, frozen=True, kw_only=True):
    """An alert that is open, or resolved but not yet reported as resolved."""

    key: AlertKey
    opened_at: datetime
    notified_at: datetime | None  # when operators were notified of it last
    resolved_at: datetime | None  # when it was resolved; None if it is open
    title: str
    detail: str


def put_alert(connection: Connection, key: AlertKey, title: str, detail: str, now: datetime) -> bool:
    """Open the alert `key`, or update it if it is open; return whether it was new, so that operators are notified."""
    before = get(connection, key)
    if before is not None and before.resolved_at is None:
        connection.execute(update(alerts).filter_by(**asdict(key)).values(title=title, detail=detail))
        return False
    remove(connection, key)
    values = {"title": title, "detail": detail, "opened_at": now, "notified_at": now}
    connection.execute(insert(alerts).values(**asdict(key), **values))
    return True


def note_notified(connection: Connection, key: AlertKey, now: datetime) -> None:
    """Store `now` as the time when operators were last notified of an alert."""
    connection.execute(update(alerts).filter_by(**asdict(key)).values(notified_at=now))


def mark_resolved(connection: Connection, alert: OpenAlert, now: datetime, end: str = "") -> None:
    """Mark `alert` as resolved, with `end` as its detail ("": unchanged); the service notifies operators later."""
    values = {"resolved_at": now, "detail": end or alert.detail}
    connection.execute(update(alerts).filter_by(**asdict(alert.key)).values(values))


def get(connection: Connection, key: AlertKey) -> OpenAlert | None:
    """Return an alert that is open or still to be reported as resolved; None if there is none."""
    row = connection.execute(select(alerts).filter_by(**asdict(key))).one_or_none()
    return None if row is None else _alert(row)


def all_alerts(connection: Connection) -> list[OpenAlert]:
    """Return all alerts that are open or still to be reported as resolved, oldest first."""
    query = select(alerts).order_by(alerts.c.opened_at, *alerts.primary_key)
    return [_alert(row) for row in connection.execute(query)]


def all_open(connection: Connection) -> list[OpenAlert]:
    """Return all open alerts, oldest first."""
    return [alert for alert in all_alerts(connection) if alert.resolved_at is None]


def remove(connection: Connection, key: AlertKey) -> OpenAlert | None:
    """Delete an alert, and return it; None if there was none."""
    alert = get(connection, key)
    if alert is not None:
        connection.execute(delete(alerts).filter_by(**asdict(key)))
    return alert


def unread_by(connection: Connection, source: str, tag: str) -> set[tuple[str, str]]:
    """Return the streams, as (subscription, stream), that cannot read some document of a tag."""
    query = select(unread.c.subscription, unread.c.stream).filter_by(source=source, tag=tag, readable_at=None)
    return {(row.subscription, row.stream) for row in connection.execute(query)}


def _alert(row: Row[Any]) -> OpenAlert:
    return filled(OpenAlert, row, key=AlertKey(AlertKind(row.kind), row.name, row.part))
