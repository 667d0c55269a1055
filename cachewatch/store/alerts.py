"""Alerts: what operators have to know until it is over, each found by its kind and what it is about."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select, update

from cachewatch.store.queries import rows_of
from cachewatch.store.schema import alerts, unread


class AlertKind(StrEnum):
    """What happened. The comments say what an alert's name and part are."""

    SOURCE_FAILED = "source-failed"  # source
    SOURCE_INCOMPLETE = "source-incomplete"  # source
    SOURCE_EMPTY = "source-empty"  # source; it has no documents
    SOURCE_STALE = "source-stale"  # source
    SOURCE_LATE = "source-late"  # source; it is not polled
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


class AlertKey(Struct, frozen=True, order=True):
    """What an alert is about; the same event has the same key."""

    kind: AlertKind
    name: str
    part: str = ""


class OpenAlert(Struct, frozen=True, kw_only=True):
    """An alert that is not over, or of whose end operators do not know yet."""

    key: AlertKey
    opened_at: datetime
    notified_at: datetime | None  # when operators were notified of it last
    resolved_at: datetime | None  # when it was found to be over
    title: str
    detail: str


def put(connection: Connection, key: AlertKey, title: str, detail: str, now: datetime) -> bool:
    """Open an alert, or bring the sentences of an open one up to date; tell whether it is news."""
    before = get(connection, key)
    if before is not None and before.resolved_at is None:
        connection.execute(update(alerts).where(*_is(key)).values(title=title, detail=detail))
        return False
    remove(connection, key)
    values = {"kind": key.kind, "name": key.name, "part": key.part, "title": title, "detail": detail}
    connection.execute(insert(alerts).values(**values, opened_at=now))
    return True


def note_notified(connection: Connection, key: AlertKey, now: datetime) -> None:
    """Write down that operators were notified of an alert."""
    connection.execute(update(alerts).where(*_is(key)).values(notified_at=now))


def mark_resolved(connection: Connection, key: AlertKey, now: datetime) -> None:
    """Resolve an alert of which operators are to be notified later: commands have no secrets to do that with."""
    connection.execute(update(alerts).where(*_is(key)).values(resolved_at=now))


def believe_no_future(connection: Connection, now: datetime) -> None:
    """Put times that lie ahead, of a clock that was wrong, to the present."""
    for column in (alerts.c.opened_at, alerts.c.notified_at):
        connection.execute(update(alerts).where(column > now).values({column: now}))


def get(connection: Connection, key: AlertKey) -> OpenAlert | None:
    """Return an alert, open or just resolved."""
    row = connection.execute(rows_of(alerts, "kind", "name", "part"), asdict(key)).one_or_none()
    return None if row is None else _alert(row)


def has_any(connection: Connection) -> bool:
    """Tell whether there is any alert, open or just resolved."""
    return connection.execute(select(alerts).limit(1)).first() is not None


def all_open(connection: Connection) -> list[OpenAlert]:
    """Return every alert that is open, oldest first."""
    return _find(connection, alerts.c.resolved_at.is_(None))


def all_resolved(connection: Connection) -> list[OpenAlert]:
    """Return every alert that is over, and operators do not know yet."""
    return _find(connection, alerts.c.resolved_at.is_not(None))


def remove(connection: Connection, key: AlertKey) -> OpenAlert | None:
    """Take an alert away, and return it if there was one."""
    found = get(connection, key)
    if found is not None:
        connection.execute(delete(alerts).where(*_is(key)))
    return found


def unread_by(connection: Connection, source: str, tag: str) -> set[tuple[str, str]]:
    """Return the streams, each a subscription and a name, for which documents of a tag are still unreadable."""
    query = select(unread.c.subscription, unread.c.stream).filter_by(source=source, tag=tag, readable_at=None)
    return {(row.subscription, row.stream) for row in connection.execute(query)}


def _find(connection: Connection, condition: ColumnElement[bool]) -> list[OpenAlert]:
    query = select(alerts).where(condition).order_by(alerts.c.opened_at, *alerts.primary_key)
    return [_alert(row) for row in connection.execute(query)]


def _is(key: AlertKey) -> tuple[Any, ...]:
    return alerts.c.kind == key.kind, alerts.c.name == key.name, alerts.c.part == key.part


def _alert(row: Row[Any]) -> OpenAlert:
    return OpenAlert(
        key=AlertKey(AlertKind(row.kind), row.name, row.part),
        opened_at=row.opened_at,
        notified_at=row.notified_at,
        resolved_at=row.resolved_at,
        title=row.title,
        detail=row.detail,
    )
