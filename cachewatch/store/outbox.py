"""Deliveries: written together with their digest, sent from here alone, and settled one by one."""

import zlib
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Row, and_, exists, func, select, update
from sqlalchemy.dialects.sqlite import insert

from cachewatch.deliveries import Parcel
from cachewatch.store.moments import to_moment, to_moment_or_none, to_text
from cachewatch.store.schema import attempts, deliveries
from cachewatch.store.suppressions import is_suppressed


class State(StrEnum):
    """What became of a delivery."""

    QUEUED = "queued"
    SENDING = "sending"
    DEFERRED = "deferred"
    SENT = "sent"
    DEAD = "dead"
    SUPPRESSED = "suppressed"
    HELD = "held"
    DROPPED = "dropped"


# Not yet at an end, in the order in which they wait.
OPEN = (State.QUEUED, State.SENDING, State.DEFERRED)


class Delivery(Struct, frozen=True, kw_only=True):
    """One parcel on its way, with all that is known of it but its bytes."""

    id: int
    digest: str
    channel: str
    target: str
    copy: int
    state: State
    created: datetime
    due: datetime
    give_up: datetime
    attempts: int
    may_have_arrived: bool
    settled_at: datetime | None
    said: str
    message_id: str | None


def add(
    connection: Connection, channel: str, parcel: Parcel, *, state: State, lasting: timedelta, copy: int = 0
) -> None:
    """Store a parcel to be delivered, unless it is there already."""
    if state is State.QUEUED and is_suppressed(connection, channel, parcel.target):
        state = State.SUPPRESSED
    moment = to_text(parcel.created)
    connection.execute(
        insert(deliveries)
        .values(
            digest=parcel.key,
            channel=channel,
            target=parcel.target,
            copy=copy,
            state=state,
            created=moment,
            due=moment,
            give_up=to_text(parcel.created + lasting),
            message_id=parcel.message_id,
            content_type=parcel.content_type,
            payload=zlib.compress(parcel.payload),
        )
        .on_conflict_do_nothing()
    )


def due_channels(connection: Connection, now: datetime) -> list[str]:
    """Name the channels that have something to deliver now."""
    query = select(deliveries.c.channel).where(_is_due(now)).distinct().order_by(deliveries.c.channel)
    return [row.channel for row in connection.execute(query)]


def claim(connection: Connection, channel: str, now: datetime) -> Delivery | None:
    """Take the next parcel of `channel` that is due, so that nobody else does.

    Parcels for one target go in the order of their digests: one that waits holds up those behind it.
    """
    earlier = deliveries.alias()
    waits = exists().where(
        earlier.c.channel == deliveries.c.channel,
        earlier.c.target == deliveries.c.target,
        earlier.c.id < deliveries.c.id,
        earlier.c.state.in_(OPEN),
    )
    row = connection.execute(
        select(deliveries)
        .where(deliveries.c.channel == channel, _is_due(now), ~waits)
        .order_by(deliveries.c.id)
        .limit(1)
    ).one_or_none()
    if row is None:
        return None
    connection.execute(
        update(deliveries).filter_by(id=row.id).values(state=State.SENDING, attempts=deliveries.c.attempts + 1)
    )
    return msgspec.structs.replace(_delivery(row), state=State.SENDING, attempts=row.attempts + 1)


def settle(
    connection: Connection,
    delivery: Delivery,
    state: State,
    *,
    now: datetime,
    said: str,
    due: datetime | None = None,
    may_have_arrived: bool = False,
    counts: bool = True,
) -> None:
    """Write down what became of an attempt; one that does not count leaves the number of attempts as it was."""
    connection.execute(
        update(deliveries)
        .filter_by(id=delivery.id)
        .values(
            state=state,
            said=said,
            due=to_text(due or now),
            attempts=delivery.attempts - (not counts),
            may_have_arrived=delivery.may_have_arrived or may_have_arrived,
            settled_at=None if state in OPEN else to_text(now),
        )
    )
    note(connection, delivery.id, state, said, now)


def hasten(connection: Connection, channel: str, now: datetime) -> None:
    """Let everything that waits for a channel be due now."""
    waiting = (State.QUEUED, State.DEFERRED)
    connection.execute(
        update(deliveries)
        .where(deliveries.c.channel == channel, deliveries.c.state.in_(waiting), deliveries.c.due > to_text(now))
        .values(due=to_text(now))
    )


def prolong(connection: Connection, number: int, give_up: datetime) -> None:
    """Let a delivery be tried until `give_up`."""
    connection.execute(update(deliveries).filter_by(id=number).values(give_up=to_text(give_up)))


def note(connection: Connection, delivery: int, event: str, said: str, now: datetime) -> None:
    """Add a line to the story of a delivery."""
    connection.execute(insert(attempts).values(delivery=delivery, at=to_text(now), event=event, said=said))


def requeue_interrupted(connection: Connection, now: datetime) -> int:
    """Give back what a process that is no more had claimed; only the holder of the state's lock may."""
    rows = connection.execute(select(deliveries.c.id).filter_by(state=State.SENDING)).all()
    for row in rows:
        connection.execute(update(deliveries).filter_by(id=row.id).values(state=State.QUEUED, may_have_arrived=True))
        note(connection, row.id, "interrupted", "it may have arrived: whoever sent it ended before the answer", now)
    return len(rows)


def find(
    connection: Connection,
    *,
    states: Iterable[State] = (),
    channel: str | None = None,
    digest_key: str | None = None,
    limit: int | None = None,
) -> list[Delivery]:
    """Return deliveries, newest first."""
    query = select(deliveries).order_by(deliveries.c.id.desc()).limit(limit)
    wanted = tuple(states)
    if wanted:
        query = query.where(deliveries.c.state.in_(wanted))
    if channel is not None:
        query = query.filter_by(channel=channel)
    if digest_key is not None:
        query = query.where(deliveries.c.digest == digest_key)
    return [_delivery(row) for row in connection.execute(query)]


def delivery(connection: Connection, number: int) -> Delivery | None:
    """Return one delivery by its number."""
    row = connection.execute(select(deliveries).filter_by(id=number)).one_or_none()
    return None if row is None else _delivery(row)


def parcel(connection: Connection, number: int) -> Parcel:
    """Return the bytes of a delivery; none if they were deleted since it was sent."""
    return _parcel(connection.execute(select(deliveries).filter_by(id=number)).one())


def shelf(connection: Connection, channel: str, target: str, most: int) -> Sequence[Parcel]:
    """Return the parcels that were sent to `target` before, newest first."""
    query = (
        select(deliveries)
        .filter_by(channel=channel, target=target, state=State.SENT)
        .order_by(deliveries.c.id.desc())
        .limit(most)
    )
    return [_parcel(row) for row in connection.execute(query)]


def story(connection: Connection, number: int) -> list[tuple[datetime, str, str]]:
    """Return what happened to a delivery, oldest first: when, what, and in whose words."""
    query = select(attempts).filter_by(delivery=number).order_by(attempts.c.id)
    return [(to_moment(row.at), row.event, row.said) for row in connection.execute(query)]


def replace_parcel(connection: Connection, number: int, shorter: Parcel) -> None:
    """Put a shorter form in the place of bytes that were refused as too large."""
    connection.execute(
        update(deliveries)
        .filter_by(id=number)
        .values(payload=zlib.compress(shorter.payload), content_type=shorter.content_type)
    )


def delete_payloads(connection: Connection, before: datetime, *, kept_channels: Collection[str]) -> int:
    """Delete the bytes of what was sent or dropped before a moment, and return of how many deliveries."""
    done = connection.execute(
        update(deliveries)
        .where(
            deliveries.c.state.in_((State.SENT, State.DROPPED)),
            deliveries.c.settled_at < to_text(before),
            deliveries.c.channel.not_in(kept_channels),
            deliveries.c.payload != b"",
        )
        .values(payload=b"")
    )
    return done.rowcount


def next_copy(connection: Connection, of: Delivery) -> int:
    """Return the number of the next copy of a delivery."""
    query = select(func.max(deliveries.c.copy)).filter_by(digest=of.digest, channel=of.channel, target=of.target)
    return int(connection.execute(query).scalar_one()) + 1


def queue(connection: Connection) -> dict[tuple[str, State], int]:
    """Count the deliveries of each channel and state."""
    query = select(deliveries.c.channel, deliveries.c.state, func.count()).group_by(
        deliveries.c.channel, deliveries.c.state
    )
    return {(channel, State(state)): count for channel, state, count in connection.execute(query)}


def oldest_open(connection: Connection) -> dict[str, datetime]:
    """Return since when the oldest delivery of each channel waits."""
    query = (
        select(deliveries.c.channel, func.min(deliveries.c.created))
        .where(deliveries.c.state.in_(OPEN))
        .group_by(deliveries.c.channel)
    )
    return {channel: to_moment(moment) for channel, moment in connection.execute(query)}


def has_failed(connection: Connection, channel: str, target: str) -> bool:
    """Tell whether a delivery to a target failed for good and was not dropped, or is under way."""
    states = (State.DEAD, *OPEN)
    query = select(deliveries.c.id).filter_by(channel=channel, target=target).where(deliveries.c.state.in_(states))
    return connection.execute(query.limit(1)).first() is not None


def _is_due(now: datetime) -> ColumnElement[bool]:
    return and_(deliveries.c.state.in_((State.QUEUED, State.DEFERRED)), deliveries.c.due <= to_text(now))


def _delivery(row: Row[Any]) -> Delivery:
    return Delivery(
        id=row.id,
        digest=row.digest,
        channel=row.channel,
        target=row.target,
        copy=row.copy,
        state=State(row.state),
        created=to_moment(row.created),
        due=to_moment(row.due),
        give_up=to_moment(row.give_up),
        attempts=row.attempts,
        may_have_arrived=bool(row.may_have_arrived),
        settled_at=to_moment_or_none(row.settled_at),
        said=row.said,
        message_id=row.message_id,
    )


def _parcel(row: Row[Any]) -> Parcel:
    return Parcel(
        key=row.digest,
        target=row.target,
        payload=zlib.decompress(row.payload) if row.payload else b"",
        content_type=row.content_type,
        message_id=row.message_id,
        created=to_moment(row.created),
    )
