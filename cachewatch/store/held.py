"""Digests that wait for an operator, what they are held for, and since when."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, select, update

from cachewatch.store.digests import IS_HELD
from cachewatch.store.queries import deletion_of, rows_of
from cachewatch.store.schema import digests, holds
from cachewatch.store.upserts import insert_new


class HoldKind(StrEnum):
    """Why operators are asked first."""

    SUSPICIOUS = "suspicious"  # so much is gone that publishing may have failed
    LARGE = "large"  # more changed specs than `hold_above`

    @classmethod
    def _missing_(cls, value: object) -> "HoldKind":  # noqa: ARG003  the contract of an Enum
        return cls.LARGE  # its row is damaged


class HoldEvent(Struct, frozen=True, order=True):
    """Something in one tag of a source that operators have to look at, whoever is to be told of it."""

    source: str
    tag: str  # empty if it concerns several
    kind: HoldKind


class Hold(Struct, frozen=True, kw_only=True):
    """An event for which the digest of a stream is held."""

    event: HoldEvent
    said: str
    content: tuple[str, ...] = ()  # what happened, for operators, a fact each
    counted_from: datetime | None = None  # its first hold, moved on by time without service; None before it is stored


class HeldDigest(Struct, frozen=True, kw_only=True):
    """What has to be known of a held digest to ask operators about it; its contents are not read."""

    key: str
    subscription: str
    stream: str
    reason: str
    holds: tuple[Hold, ...]


def hold(connection: Connection, subscription: str, stream: str, found: Iterable[Hold], now: datetime) -> None:
    """Write down what the digest of a stream is held for from now on; what it was held for before counts on."""
    known = holds_of(connection, subscription, stream)
    let_go(connection, subscription, stream)
    for each in found:
        values = {
            "subscription": subscription,
            "stream": stream,
            "source": each.event.source,
            "tag": each.event.tag,
            "kind": each.event.kind,
            "said": each.said,
            "content": "\n".join(each.content),
            "counted_from": first_held(known, each.event) or each.counted_from or now,
        }
        insert_new(connection, holds, values)


def first_held(known: Iterable[Hold], event: HoldEvent) -> datetime | None:
    """Return from when the time of an event is counted, if it is known."""
    times = [each.counted_from for each in known if each.event == event]
    return min((time for time in times if time is not None), default=None)


def let_go(connection: Connection, subscription: str, stream: str) -> None:
    """Forget what the digest of a stream was held for."""
    connection.execute(deletion_of(holds, "subscription", "stream"), {"subscription": subscription, "stream": stream})


def holds_of(connection: Connection, subscription: str, stream: str) -> tuple[Hold, ...]:
    """Return what the digest of a stream is held for."""
    query = rows_of(holds, "subscription", "stream", order=("source", "tag", "kind"))
    return tuple(map(_hold, connection.execute(query, {"subscription": subscription, "stream": stream})))


def all_holds(connection: Connection) -> list[tuple[str, str, Hold]]:
    """Return what digests are held for, each with the subscription and stream."""
    return [(row.subscription, row.stream, _hold(row)) for row in connection.execute(select(holds))]


def count_from(connection: Connection, subscription: str, stream: str, event: HoldEvent, moment: datetime) -> None:
    """Let the time of a hold be counted from `moment`."""
    where = {"source": event.source, "tag": event.tag, "kind": event.kind}
    changed = update(holds).filter_by(subscription=subscription, stream=stream, **where)
    connection.execute(changed.values(counted_from=moment))


def all_held(connection: Connection, subscription: str | None = None) -> list[HeldDigest]:
    """Return every held digest, or those of one subscription, oldest first."""
    table = digests.c
    query = select(table.key, table.subscription, table.stream, table.reason).where(IS_HELD)
    if subscription is not None:
        query = query.where(table.subscription == subscription)
    rows = connection.execute(query.order_by(table.created, table.subscription, table.stream)).all()
    return [
        HeldDigest(
            key=row.key,
            subscription=row.subscription,
            stream=row.stream,
            reason=row.reason,
            holds=holds_of(connection, row.subscription, row.stream),
        )
        for row in rows
    ]


def _hold(row: Row[Any]) -> Hold:
    return Hold(
        event=HoldEvent(row.source, row.tag, HoldKind(row.kind)),
        said=row.said,
        content=tuple(row.content.splitlines()),
        counted_from=row.counted_from,
    )
