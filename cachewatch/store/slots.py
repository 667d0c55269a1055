"""When each track is due next, and when it was."""

from datetime import datetime

from msgspec import Struct
from sqlalchemy import Connection, delete, select, update
from sqlalchemy.dialects.sqlite import insert

from cachewatch.store.moments import to_moment, to_text
from cachewatch.store.schema import slots


class Slot(Struct, frozen=True, kw_only=True):
    """A moment at which a track is due."""

    id: int
    subscription: str
    track: str
    schedule: str
    due: datetime


def pending(connection: Connection, subscription: str, track: str) -> Slot | None:
    """Return the slot that a track waits for."""
    row = connection.execute(
        select(slots).filter_by(subscription=subscription, track=track, done_at=None).order_by(slots.c.due).limit(1)
    ).one_or_none()
    if row is None:
        return None
    return Slot(
        id=row.id, subscription=row.subscription, track=row.track, schedule=row.schedule, due=to_moment(row.due)
    )


def plan(connection: Connection, subscription: str, track: str, schedule: str, due: datetime | None) -> None:
    """Let `due` be the next slot of a track, in place of any other that is pending."""
    connection.execute(delete(slots).filter_by(subscription=subscription, track=track, done_at=None))
    if due is not None:
        connection.execute(
            insert(slots)
            .values(subscription=subscription, track=track, schedule=schedule, due=to_text(due))
            .on_conflict_do_nothing()
        )


def forget(connection: Connection, before: datetime) -> None:
    """Delete slots that were done before a moment."""
    connection.execute(delete(slots).where(slots.c.done_at < to_text(before)))


def finish(connection: Connection, slot: Slot, digest: str | None, now: datetime) -> None:
    """Mark a slot as done, with the digest that it made, if any."""
    connection.execute(update(slots).filter_by(id=slot.id).values(done_at=to_text(now), digest=digest))
