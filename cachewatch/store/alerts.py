"""Alerts: what operators have to know until it is over, each found by its kind and what it is about."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, delete, select, update
from sqlalchemy.dialects.sqlite import insert

from cachewatch.store.moments import to_moment, to_moment_or_none, to_text
from cachewatch.store.schema import alerts


class AlertKind(StrEnum):
    """What happened. The comments say what an alert's name and part are."""

    SOURCE_FAILED = "source-failed"  # source
    SOURCE_INCOMPLETE = "source-incomplete"  # source
    SOURCE_STALE = "source-stale"  # source
    DOCUMENTS_UNREADABLE = "documents-unreadable"  # source, tag
    SUSPICIOUS_LOSS = "suspicious-loss"  # source, tag
    DIGEST_FAILED = "digest-failed"  # subscription, stream
    DIGEST_HELD = "digest-held"  # subscription, stream
    TEMPLATE_FAILED = "template-failed"  # subscription
    CHANNEL_DOWN = "channel-down"  # channel
    DELIVERY_FAILED = "delivery-failed"  # channel, target
    ADDRESS_SUPPRESSED = "address-suppressed"  # channel, target


class AlertKey(Struct, frozen=True, order=True):
    """What an alert is about; the same event has the same key."""

    kind: AlertKind
    name: str
    part: str = ""


class OpenAlert(Struct, frozen=True, kw_only=True):
    """An alert that is not over."""

    key: AlertKey
    opened_at: datetime
    notified_at: datetime | None  # when operators were notified of it last
    resolved_at: datetime | None  # it is over, and operators do not know yet
    title: str
    detail: str


def put(connection: Connection, key: AlertKey, title: str, detail: str, now: datetime) -> bool:
    """Open an alert, or bring the sentences of an open one up to date; tell whether it is news."""
    is_news = get(connection, key) is None
    words = {"title": title, "detail": detail, "resolved_at": None}
    values = {"kind": key.kind, "name": key.name, "part": key.part, "opened_at": to_text(now)}
    new = insert(alerts).values(**values, **words)
    connection.execute(new.on_conflict_do_update(index_elements=list(alerts.primary_key), set_=words))
    return is_news


def note_notified(connection: Connection, key: AlertKey, now: datetime) -> None:
    """Write down that operators were notified of an alert."""
    connection.execute(update(alerts).where(*_is(key)).values(notified_at=to_text(now)))


def get(connection: Connection, key: AlertKey) -> OpenAlert | None:
    """Return an alert if it is open."""
    row = connection.execute(select(alerts).where(*_is(key))).one_or_none()
    return None if row is None else _alert(row)


def all_open(connection: Connection) -> list[OpenAlert]:
    """Return every alert that is open, oldest first."""
    query = select(alerts).order_by(alerts.c.opened_at, *alerts.primary_key)
    return [_alert(row) for row in connection.execute(query)]


def remove(connection: Connection, key: AlertKey) -> OpenAlert | None:
    """Take an alert away, and return it if it was open."""
    found = get(connection, key)
    connection.execute(delete(alerts).where(*_is(key)))
    return found


def _is(key: AlertKey) -> tuple[Any, ...]:
    return alerts.c.kind == key.kind, alerts.c.name == key.name, alerts.c.part == key.part


def _alert(row: Row[Any]) -> OpenAlert:
    return OpenAlert(
        key=AlertKey(AlertKind(row.kind), row.name, row.part),
        opened_at=to_moment(row.opened_at),
        notified_at=to_moment_or_none(row.notified_at),
        resolved_at=to_moment_or_none(row.resolved_at),
        title=row.title,
        detail=row.detail,
    )
