"""Deliveries: written together with their digest, sent from here alone, and settled one by one."""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from msgspec import Struct
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Row,
    bindparam,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from cachewatch.errors import DamagedRow
from cachewatch.report.values import Message
from cachewatch.store import messages as message_bytes
from cachewatch.store.messages import is_suppressed
from cachewatch.store.schema import attempts, deliveries, insert_new, read_row


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

    @classmethod
    def _missing_(cls, value: object) -> "State":  # noqa: ARG003  the contract of an Enum
        return cls.DEAD  # which is what becomes of those whose state is damaged


# Not yet at an end, in the order in which they wait.
OPEN = (State.QUEUED, State.SENDING, State.DEFERRED)
# The partial index of schema.py is used where its condition is in the text of a query.
_OPEN: BindParameter[tuple[State, ...]] = bindparam("open", OPEN, expanding=True, literal_execute=True)


class Delivery(Struct, frozen=True, kw_only=True):
    """One message on its way, with all that is known of it but its bytes."""

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
    claimed_by: str | None  # HOST/PROCESS/NUMBER, of one run and no other


_ABOUT = tuple(deliveries.c[name] for name in Delivery.__struct_fields__)


def add(
    connection: Connection,
    channel: str,
    messages: Sequence[Message],
    *,
    state: State,
    lasting: timedelta,
    copy: int = 0,
) -> None:
    """Store the messages of one digest for a channel to be delivered, but those that are there already.

    What several have in common is stored once.
    """
    for message, columns in zip(messages, message_bytes.share(connection, messages), strict=True):
        is_left_out = state is State.QUEUED and is_suppressed(connection, channel, message.target)
        values = {
            "digest": message.key,
            "channel": channel,
            "target": message.target,
            "copy": copy,
            "state": State.SUPPRESSED if is_left_out else state,
            "created": message.created,
            "due": message.created,
            "give_up": message.created + lasting,
            **columns,
        }
        insert_new(connection, deliveries, values)


def due_channels(connection: Connection, now: datetime) -> list[str]:
    """Name the channels that have something to deliver now, or to give back."""
    is_waiting = or_(deliveries.c.state == State.SENDING, deliveries.c.due <= now)
    query = select(deliveries.c.channel).where(is_open(), is_waiting).distinct().order_by(deliveries.c.channel)
    return [row.channel for row in connection.execute(query)]


def claim(connection: Connection, channel: str, now: datetime, owner: str) -> Delivery | None:
    """Take the next message of `channel` that is due, to be sent by `owner`: one run, and no other.

    Messages for one target go in the order of their digests: one that waits holds up those behind it.
    """
    is_due = is_open(), deliveries.c.state != State.SENDING, deliveries.c.due <= now
    query = (
        select(deliveries.c.id, deliveries.c.attempts)
        .where(deliveries.c.channel == channel, *is_due, ~_waits_behind_another())
        .order_by(deliveries.c.id)
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    values = {"state": State.SENDING, "attempts": row.attempts + 1, "claimed_by": owner, "due": now}
    connection.execute(update(deliveries).filter_by(id=row.id).values(**values))
    return delivery(connection, row.id)


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
    event: str = "",
) -> bool:
    """Write down what became of an attempt; one that does not count leaves the number of attempts as it was.

    `event` stands in the story of the delivery, if it is another than the state.
    Nothing is written, and False returned, if somebody else claimed the delivery since `delivery` was read.
    """
    is_ours = deliveries.c.claimed_by.is_not_distinct_from(delivery.claimed_by)
    done = connection.execute(
        update(deliveries)
        .filter_by(id=delivery.id, attempts=delivery.attempts)
        .where(is_ours)
        .values(
            state=state,
            said=said,
            due=due or now,
            attempts=delivery.attempts - (not counts),
            may_have_arrived=delivery.may_have_arrived or may_have_arrived,
            settled_at=None if state in OPEN else now,
            claimed_by=None,
        )
    )
    if not done.rowcount:
        note(connection, delivery.id, "late", f"{state}: {said}".removesuffix(": "), now)
        return False
    note(connection, delivery.id, event or state, said, now)
    return True


def hasten(connection: Connection, channel: str, now: datetime) -> None:
    """Let everything that waits for a channel be due now."""
    waiting = (State.QUEUED, State.DEFERRED)
    connection.execute(
        update(deliveries)
        .where(deliveries.c.channel == channel, deliveries.c.state.in_(waiting), deliveries.c.due > now)
        .values(due=now)
    )


def prolong(connection: Connection, number: int, give_up: datetime) -> None:
    """Let a delivery be tried until `give_up`."""
    connection.execute(update(deliveries).filter_by(id=number).values(give_up=give_up))


def note(connection: Connection, delivery: int, event: str, said: str, now: datetime) -> None:
    """Add a line to the story of a delivery."""
    connection.execute(insert(attempts).values(delivery=delivery, at=now, event=event, said=said))


def requeue(connection: Connection, number: int, due: datetime, now: datetime) -> None:
    """Give back what nobody here sends any more; an answer is still taken as long as nobody claims it again."""
    values = {"state": State.QUEUED, "may_have_arrived": True, "due": due}
    connection.execute(update(deliveries).filter_by(id=number).values(**values))
    note(connection, number, "interrupted", "it may have arrived: the sender ended before the reply", now)


def bury_unknown(connection: Connection, said: str, now: datetime) -> list[Delivery]:
    """Put deliveries into the dead letters whose state is damaged, and return them."""
    known = [deliveries.c.state != state for state in State]
    rows = connection.execute(select(deliveries.c.id).where(*known)).scalars().all()
    values = {"state": State.DEAD, "said": said, "settled_at": now}
    for number in rows:
        connection.execute(update(deliveries).filter_by(id=number).values(**values, claimed_by=None))
        note(connection, number, State.DEAD, said, now)
    return [found for number in rows if (found := delivery(connection, number)) is not None]


def all_open(connection: Connection) -> list[Delivery]:
    """Return everything that is on its way."""
    return [_delivery(row) for row in connection.execute(select(*_ABOUT).where(is_open()))]


def is_open() -> ColumnElement[bool]:
    """Return the condition that a delivery is on its way, as the partial index has it."""
    return deliveries.c.state.in_(_OPEN)


def overdue(connection: Connection, now: datetime, by: timedelta) -> list[Delivery]:
    """Return what should have been sent `by` so long ago, of each target the one that others wait behind."""
    is_late = is_open(), deliveries.c.due <= now - by, ~_waits_behind_another()
    query = select(*_ABOUT).where(*is_late).order_by(deliveries.c.due, deliveries.c.id)
    return [_delivery(row) for row in connection.execute(query)]


def find(
    connection: Connection,
    *,
    states: Iterable[State] = (),
    channel: str | None = None,
    target: str | None = None,
    digest_key: str | None = None,
    limit: int | None = None,
) -> list[Delivery]:
    """Return deliveries, newest first."""
    where = {"channel": channel, "target": target, "digest": digest_key}
    query = select(*_ABOUT).filter_by(**{name: value for name, value in where.items() if value is not None})
    if wanted := tuple(states):
        query = query.where(deliveries.c.state.in_(wanted))
    query = query.order_by(deliveries.c.id.desc()).limit(limit)
    return [_delivery(row) for row in connection.execute(query)]


def delivery(connection: Connection, number: int) -> Delivery | None:
    """Return one delivery by its number."""
    row = connection.execute(select(*_ABOUT).where(deliveries.c.id == number)).one_or_none()
    return None if row is None else _delivery(row)


def message(connection: Connection, number: int) -> Message:
    """Return the bytes of a delivery, none if they were deleted; raise DamagedRow if they are not those that were stored."""
    query = message_bytes.whole_deliveries().where(deliveries.c.id == number)
    return message_bytes.message_of(connection.execute(query).one())


def sent_history(connection: Connection, channel: str, target: str, most: int) -> Sequence[Message]:
    """Return the messages that were sent to `target` before, newest first, without those that are damaged."""
    query = (
        message_bytes.whole_deliveries()
        .where(deliveries.c.channel == channel, deliveries.c.target == target, deliveries.c.state == State.SENT)
        .order_by(deliveries.c.id.desc())
        .limit(most)
    )
    found = []
    for row in connection.execute(query).all():
        with suppress(DamagedRow):
            found.append(message_bytes.message_of(row))
    return found


def story(connection: Connection, number: int) -> list[tuple[datetime, str, str]]:
    """Return what happened to a delivery, oldest first: when, what, and in whose words."""
    query = select(attempts).filter_by(delivery=number).order_by(attempts.c.id)
    return [(row.at, row.event, row.said) for row in connection.execute(query)]


def replace_message(connection: Connection, number: int, new: Message) -> None:
    """Put other bytes in the place of those that were refused as too large."""
    connection.execute(update(deliveries).filter_by(id=number).values(**message_bytes.columns_of(new)))


def delete_payloads(connection: Connection, before: datetime, *, kept_channels: Collection[str]) -> int:
    """Delete the bytes of what was sent or dropped before a moment, and return of how many deliveries."""
    done = connection.execute(
        update(deliveries)
        .where(
            deliveries.c.state.in_((State.SENT, State.DROPPED)),
            deliveries.c.settled_at < before,
            deliveries.c.channel.not_in(kept_channels),
            deliveries.c.payload != b"",
        )
        .values(payload=b"", body=None)
    )
    return done.rowcount


def next_copy(connection: Connection, of: Delivery) -> int:
    """Return the number of the next copy of a delivery."""
    query = select(func.max(deliveries.c.copy)).filter_by(digest=of.digest, channel=of.channel, target=of.target)
    return int(connection.execute(query).scalar_one()) + 1


def last_number(connection: Connection) -> int:
    """Return the number of the newest delivery, or 0."""
    return connection.execute(select(func.max(deliveries.c.id))).scalar() or 0


def queue(connection: Connection) -> dict[tuple[str, State], int]:
    """Count the deliveries of each channel and state."""
    of = deliveries.c.channel, deliveries.c.state
    query = select(*of, func.count()).group_by(*of)
    return {(channel, State(state)): count for channel, state, count in connection.execute(query)}


def oldest_open(connection: Connection) -> dict[str, datetime]:
    """Return since when the oldest delivery of each channel waits."""
    query = select(deliveries.c.channel, func.min(deliveries.c.created)).where(is_open()).group_by(deliveries.c.channel)
    return dict(connection.execute(query).all())


def has_any(connection: Connection, channel: str, target: str, states: Collection[State] = OPEN) -> bool:
    """Tell whether a delivery to a target is under way, or in one of these states."""
    query = select(deliveries.c.id).filter_by(channel=channel, target=target).where(deliveries.c.state.in_(states))
    return connection.execute(query.limit(1)).first() is not None


def first_deferral(connection: Connection, number: int) -> datetime | None:
    """Return when a delivery was deferred first by a channel that works."""
    query = select(func.min(attempts.c.at)).filter_by(delivery=number, event=State.DEFERRED)
    return connection.execute(query).scalar()


def _waits_behind_another() -> ColumnElement[bool]:
    earlier = deliveries.alias()
    return exists().where(
        earlier.c.channel == deliveries.c.channel,
        earlier.c.target == deliveries.c.target,
        earlier.c.id < deliveries.c.id,
        earlier.c.state.in_(_OPEN),
    )


def _delivery(row: Row[Any]) -> Delivery:
    return read_row(Delivery, row, state=State(row.state))
