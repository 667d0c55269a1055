"""When each stream is due next, and when it was."""

from datetime import datetime
from functools import cache
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, Select, delete, func, select, update

from cachewatch.store.queries import same
from cachewatch.store.schema import slots
from cachewatch.store.upserts import put


class Slot(Struct, frozen=True, kw_only=True):
    """A moment at which a stream is due."""

    id: int
    subscription: str
    stream: str
    schedule: str
    due: datetime


def pending(connection: Connection, subscription: str, stream: str) -> Slot | None:
    """Return the slot that a stream waits for."""
    row = connection.execute(_pending(), {"subscription": subscription, "stream": stream}).one_or_none()
    return None if row is None else _slot(row)


@cache
def _pending() -> Select[Any]:
    of_stream = same(slots, "subscription", "stream")
    return select(slots).where(*of_stream, slots.c.done_at.is_(None)).order_by(slots.c.due).limit(1)


def all_pending(connection: Connection) -> dict[tuple[str, str], Slot]:
    """Return the slot that each stream waits for, by subscription and stream."""
    rows = connection.execute(select(slots).where(slots.c.done_at.is_(None)).order_by(slots.c.due.desc()))
    return {(row.subscription, row.stream): _slot(row) for row in rows}


def latest_pending(connection: Connection) -> dict[str, datetime]:
    """Return the latest pending slot of each schedule."""
    query = select(slots.c.schedule, func.max(slots.c.due)).where(slots.c.done_at.is_(None)).group_by(slots.c.schedule)
    return dict(connection.execute(query).all())


def pending_after(connection: Connection, schedule: str, moment: datetime) -> list[Slot]:
    """Return the pending slots of a schedule that lie behind `moment`."""
    query = select(slots).where(slots.c.done_at.is_(None), slots.c.schedule == schedule, slots.c.due > moment)
    return [_slot(row) for row in connection.execute(query)]


def plan(connection: Connection, subscription: str, stream: str, schedule: str, due: datetime | None) -> None:
    """Let `due` be the next slot of a stream, in place of any other that is pending.

    One that is done already was done too early, by a clock that was ahead: it is pending again.
    """
    connection.execute(delete(slots).filter_by(subscription=subscription, stream=stream, done_at=None))
    if due is not None:
        where = {"subscription": subscription, "stream": stream, "due": due}
        put(connection, slots, where, {"schedule": schedule, "done_at": None, "digest": None})


def forget(connection: Connection, before: datetime) -> None:
    """Delete slots that were done before a moment."""
    connection.execute(delete(slots).where(slots.c.done_at < before))


def hasten(connection: Connection, subscription: str, stream: str, now: datetime) -> None:
    """Let the pending slot of a stream be due now."""
    pending_one = update(slots).filter_by(subscription=subscription, stream=stream, done_at=None)
    connection.execute(pending_one.values(due=now))


def finish(connection: Connection, slot: Slot, digest: str | None, now: datetime) -> None:
    """Mark a slot as done, with the digest that it made, if any."""
    connection.execute(update(slots).filter_by(id=slot.id).values(done_at=now, digest=digest))


def _slot(row: Row[Any]) -> Slot:
    return Slot(id=row.id, subscription=row.subscription, stream=row.stream, schedule=row.schedule, due=row.due)
