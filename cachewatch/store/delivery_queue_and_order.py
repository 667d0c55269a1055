"""Deliveries: stored together with their digest, claimed one by one for sending, and settled with the result.

A row of `deliveries` has the first part of a message, the `payload`, and refers to a row of `bodies` with the rest,
which several deliveries may share: of a mail, everything after the headers; of other messages, everything.
"""

import zlib
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, Row, bindparam, delete, exists, func, insert, or_, select, update

from cachewatch.errors import DamagedRow
from cachewatch.report.digest_and_message_values import Message
from cachewatch.store.schema import attempts, bodies, checksum_of, deliveries, filled, insert_new, put, suppressed


def _checksum(message: Message) -> bytes:
    parts = (message.key, message.target, message.content_type, message.message_id or "")
    return checksum_of((*(part.encode(errors="surrogatepass") for part in parts), message.payload))


def share(connection: Connection, messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Store the bodies of messages, equal bodies once; return the column values for the delivery of each message."""
    stored: set[bytes] = set()
    columns = []
    for message in messages:
        # Where the content begins that others may share: in a mail after the headers.
        is_mail, payload = message.content_type == "message/rfc822", message.payload
        place = max(payload.find(b"\n\n"), payload.find(b"\n\r\n")) if is_mail else 0
        # A view: copies of all bodies would take as much memory as the messages themselves.
        body = memoryview(payload)[place:]
        checksum = checksum_of([body])
        if checksum not in stored:
            stored.add(checksum)
            # A row that exists is overwritten, because it may be damaged.
            put(connection, bodies, ("checksum",), {"checksum": checksum, "content": zlib.compress(body)})
        own = {"payload": zlib.compress(payload[:place]), "body": checksum, "checksum": _checksum(message)}
        columns.append({"content_type": message.content_type, "message_id": message.message_id, **own})
    return columns


# Deliveries together with their shared content.
_WHOLE = select(deliveries, bodies.c.content).outerjoin(bodies, bodies.c.checksum == deliveries.c.body)


def _message_of(row: Row[Any]) -> Message:
    """Return the message in a row of `_WHOLE`; it is empty if its bytes were deleted. Raises DamagedRow if damaged."""
    try:
        payload = zlib.decompress(row.payload) if row.payload else b""
        if row.payload and row.body is not None:
            payload += zlib.decompress(row.content or b"")
    except (zlib.error, TypeError) as error:
        raise DamagedRow(f"delivery {row.id}: its stored bytes are damaged ({error})") from error
    message = filled(Message, row, key=row.digest, payload=payload)
    if row.payload and row.checksum != _checksum(message):
        raise DamagedRow(f"delivery {row.id}: its stored bytes are damaged (they have another checksum)")
    return message


class DeliveryState(StrEnum):
    """The state of a delivery."""

    QUEUED = "queued"
    SENDING = "sending"
    DEFERRED = "deferred"  # failed, and tried again later
    SENT = "sent"
    DEAD = "dead"  # failed for good
    SUPPRESSED = "suppressed"  # kept, because its address refused several digests
    HELD = "held"  # until an operator releases its digest
    DROPPED = "dropped"  # never sent

    @classmethod
    def _missing_(cls, value: object) -> "DeliveryState":  # noqa: ARG003  the contract of an Enum
        return cls.DEAD  # nobody knows whether it was sent


# No delivery and no channel ever waits for longer: a time further ahead was stored by a wrong clock, and is ignored.
LONGEST_WAIT = timedelta(days=1)
REFUSED = "refused"  # the entry in a delivery's history if the server refused its address
# The states of deliveries that are not finished, and of those that wait.
OPEN = (DeliveryState.QUEUED, DeliveryState.SENDING, DeliveryState.DEFERRED)
WAITING = (DeliveryState.QUEUED, DeliveryState.DEFERRED)
# The states are part of a query's text, so that the partial index of schema.py is used.
_OPEN: Any = bindparam("open", OPEN, expanding=True, literal_execute=True)
_IS_OPEN = deliveries.c.state.in_(_OPEN)


class Delivery(Struct, frozen=True, kw_only=True):
    """The delivery of one message to one recipient, and its state; without the bytes of the message."""

    id: int
    digest: str
    channel: str
    target: str
    copy: int  # 0, or a number that counts how often an operator sent it again
    state: DeliveryState
    created: datetime
    due: datetime  # when it is tried next, or since when it is being sent
    give_up: datetime  # until when it is retried
    attempts: int
    may_have_arrived: bool
    settled_at: datetime | None  # when it was sent, given up or dropped; None while it is open
    said: str  # the last reply of the server, or the reason for the state
    message_id: str | None
    claimed_by: str | None  # the run of the service that may send it, as HOST/PROCESS/NUMBER


_ABOUT = tuple(deliveries.c[name] for name in Delivery.__struct_fields__)
_earlier = deliveries.alias()
# Its address is suppressed.
IS_LEFT_OUT = exists().where(suppressed.c.channel == deliveries.c.channel, suppressed.c.target == deliveries.c.target)
# No earlier delivery to the same target is open.
_IS_FIRST = ~exists().where(
    _earlier.c.channel == deliveries.c.channel,
    _earlier.c.target == deliveries.c.target,
    _earlier.c.id < deliveries.c.id,
    _earlier.c.state.in_(_OPEN),
)


def add(
    connection: Connection,
    channel: str,
    messages: Sequence[Message],
    *,
    state: DeliveryState,
    lasting: timedelta,
    copy: int = 0,
) -> None:
    """Store new deliveries in `state`, to be retried for `lasting`; `copy` is 0 unless messages are sent again.

    Deliveries in the state QUEUED to suppressed addresses get the state SUPPRESSED instead.
    """
    for message, columns in zip(messages, share(connection, messages), strict=True):
        is_left_out = state is DeliveryState.QUEUED and is_suppressed(connection, channel, message.target)
        values = {
            "digest": message.key,
            "channel": channel,
            "target": message.target,
            "copy": copy,
            "state": DeliveryState.SUPPRESSED if is_left_out else state,
            "created": message.created,
            "due": message.created,
            "give_up": message.created + lasting,
            **columns,
        }
        insert_new(connection, deliveries, values)


def due_channels(connection: Connection, now: datetime) -> list[str]:
    """Return the names of channels that have a delivery which is due or being sent."""
    is_waiting = or_(deliveries.c.state == DeliveryState.SENDING, _is_due(now))
    query = select(deliveries.c.channel).where(_IS_OPEN, is_waiting).distinct().order_by(deliveries.c.channel)
    return [row.channel for row in connection.execute(query)]


def claim(connection: Connection, channel: str, now: datetime, owner: str) -> Delivery | None:
    """Claim and return the next due delivery of `channel` for `owner`; None if none is due. Old ones come first."""
    is_next = _IS_OPEN, deliveries.c.state != DeliveryState.SENDING, _is_due(now), _IS_FIRST
    query = select(*_ABOUT).where(deliveries.c.channel == channel, *is_next).order_by(deliveries.c.id).limit(1)
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    values = {"state": DeliveryState.SENDING, "attempts": row.attempts + 1, "claimed_by": owner, "due": now}
    connection.execute(update(deliveries).filter_by(id=row.id).values(values))
    return replace(_delivery(row), **values)


def settle(
    connection: Connection,
    delivery: Delivery,
    state: DeliveryState,
    *,
    now: datetime,
    said: str,
    due: datetime | None = None,
    may_have_arrived: bool = False,
    counts: bool = True,
    event: str = "",
) -> bool:
    """Store the result of an attempt to send, and return True. If not `counts`, the attempt is not counted.

    `said` is the reply or the reason; `due` is the time of the next attempt (None: now); `event`, by default the state,
    is the entry in the delivery's history. If another run has claimed the delivery since, write only the history and
    return False.
    """
    is_ours = deliveries.c.claimed_by.is_not_distinct_from(delivery.claimed_by)
    values = {
        "state": state,
        "said": said,
        "due": due or now,
        "attempts": delivery.attempts - (not counts),
        "may_have_arrived": delivery.may_have_arrived or may_have_arrived,
        "settled_at": None if state in OPEN else now,
        "claimed_by": None,
    }
    own = update(deliveries).filter_by(id=delivery.id, attempts=delivery.attempts).where(is_ours)
    if not connection.execute(own.values(values)).rowcount:
        note(connection, delivery.id, "late", f"{state}: {said}".removesuffix(": "), now)
        return False
    note(connection, delivery.id, event or state, said, now)
    return True


def hasten(connection: Connection, channel: str, now: datetime) -> None:
    """Make all waiting deliveries of a channel due now."""
    is_waiting = deliveries.c.channel == channel, deliveries.c.state.in_(WAITING), deliveries.c.due > now
    connection.execute(update(deliveries).where(*is_waiting).values(due=now))


def prolong(connection: Connection, number: int, give_up: datetime) -> None:
    """Retry the delivery with the id `number` until the time `give_up`."""
    connection.execute(update(deliveries).filter_by(id=number).values(give_up=give_up))


def note(connection: Connection, delivery: int, event: str, said: str, now: datetime) -> None:
    """Add the entry `event`, with the reply or reason `said`, to the history of the delivery with the id `delivery`."""
    connection.execute(insert(attempts).values(delivery=delivery, at=now, event=event, said=said))


def requeue(connection: Connection, number: int, due: datetime, now: datetime) -> None:
    """Queue delivery `number`, whose sender ended, again for `due`; a late result counts until it is claimed anew."""
    values = {"state": DeliveryState.QUEUED, "may_have_arrived": True, "due": due}
    connection.execute(update(deliveries).filter_by(id=number).values(**values))
    note(connection, number, "interrupted", "it may have arrived: the sender ended before the reply", now)


def overdue(connection: Connection, now: datetime, by: timedelta) -> list[Delivery]:
    """Return open deliveries late by at least `by`; for each target only the oldest, since the others wait for it."""
    is_late = _IS_OPEN, deliveries.c.due <= now - by, _IS_FIRST
    query = select(*_ABOUT).where(*is_late).order_by(deliveries.c.due, deliveries.c.id)
    return [_delivery(row) for row in connection.execute(query)]


def find(
    connection: Connection,
    *,
    states: Iterable[DeliveryState] = (),
    channel: str | None = None,
    target: str | None = None,
    digest_key: str | None = None,
    limit: int | None = None,
) -> list[Delivery]:
    """Return deliveries that match all conditions (None and () match any), newest first; at most `limit` if given."""
    where = {"channel": channel, "target": target, "digest": digest_key}
    query = select(*_ABOUT).filter_by(**{name: value for name, value in where.items() if value is not None})
    if wanted := tuple(states):
        query = query.where(deliveries.c.state.in_(wanted))
    return [_delivery(row) for row in connection.execute(query.order_by(deliveries.c.id.desc()).limit(limit))]


def delivery(connection: Connection, number: int) -> Delivery | None:
    """Return the delivery with the id `number`; None if there is none."""
    row = connection.execute(select(*_ABOUT).where(deliveries.c.id == number)).one_or_none()
    return None if row is None else _delivery(row)


def message(connection: Connection, number: int) -> Message:
    """Return the message of delivery `number`; it is empty if its bytes were deleted. Raises DamagedRow if damaged."""
    return _message_of(connection.execute(_WHOLE.where(deliveries.c.id == number)).one())


def sent_history(connection: Connection, channel: str, target: str, most: int) -> Sequence[Message]:
    """Return the last `most` messages sent to `target` through `channel`, newest first; damaged ones are left out."""
    was_sent_there = deliveries.c.channel == channel, deliveries.c.target == target, deliveries.c.state == "sent"
    messages = []
    for row in connection.execute(_WHOLE.where(*was_sent_there).order_by(deliveries.c.id.desc()).limit(most)).all():
        with suppress(DamagedRow):
            messages.append(_message_of(row))
    return messages


def history(connection: Connection, number: int) -> list[tuple[datetime, str, str]]:
    """Return the history of the delivery `number`, oldest first: time, event, and the server's reply or the reason."""
    query = select(attempts).filter_by(delivery=number).order_by(attempts.c.id)
    return [(row.at, row.event, row.said) for row in connection.execute(query)]


def replace_message(connection: Connection, number: int, new: Message) -> None:
    """Store `new` as the message of the delivery `number`, whose former message was refused as too large."""
    (columns,) = share(connection, [new])
    connection.execute(update(deliveries).filter_by(id=number).values(**columns))


def delete_payloads(connection: Connection, before: datetime, *, kept_channels: Collection[str]) -> int:
    """Delete bytes of messages sent or dropped before `before`, except in `kept_channels`; return how many messages."""
    done = connection.execute(
        update(deliveries)
        .where(
            deliveries.c.state.in_((DeliveryState.SENT, DeliveryState.DROPPED)),
            deliveries.c.settled_at < before,
            deliveries.c.channel.not_in(kept_channels),
            deliveries.c.payload != b"",
        )
        .values(payload=b"", body=None)
    )
    connection.execute(delete(bodies).where(~exists().where(deliveries.c.body == bodies.c.checksum)))
    return done.rowcount


def next_copy(connection: Connection, of: Delivery) -> int:
    """Return the copy number for sending the delivery `of` again: one more than the highest copy number so far."""
    query = select(func.max(deliveries.c.copy)).filter_by(digest=of.digest, channel=of.channel, target=of.target)
    return int(connection.execute(query).scalar_one()) + 1


def queue(connection: Connection) -> dict[tuple[str, DeliveryState], int]:
    """Return the number of deliveries by channel and state."""
    of = deliveries.c.channel, deliveries.c.state
    query = select(*of, func.count()).group_by(*of)
    return {(channel, DeliveryState(state)): count for channel, state, count in connection.execute(query)}


def oldest_open(connection: Connection) -> dict[str, datetime]:
    """Return the creation time of the oldest unfinished delivery of each channel."""
    query = select(deliveries.c.channel, func.min(deliveries.c.created)).where(_IS_OPEN).group_by(deliveries.c.channel)
    return dict(connection.execute(query).all())


def _is_due(now: datetime) -> ColumnElement[bool]:
    return or_(deliveries.c.due <= now, deliveries.c.due > now + LONGEST_WAIT)


def _delivery(row: Row[Any]) -> Delivery:
    return filled(Delivery, row, state=DeliveryState(row.state))


class Suppressed(Struct, frozen=True):
    """An address that gets no more messages, since when, and why."""

    channel: str
    target: str
    since: datetime
    said: str  # the last reply of its server


def is_suppressed(connection: Connection, channel: str, target: str) -> bool:
    """Tell whether the address `target` is suppressed in `channel` because it refused several digests."""
    return connection.execute(select(suppressed).filter_by(channel=channel, target=target)).first() is not None


def all_suppressed(connection: Connection) -> list[Suppressed]:
    """Return all suppressed addresses."""
    rows = connection.execute(select(suppressed).order_by(suppressed.c.channel, suppressed.c.target))
    return [filled(Suppressed, row) for row in rows]


def suppress_address(connection: Connection, channel: str, target: str, said: str, now: datetime) -> None:
    """Suppress the address `target` in `channel`; `said` is the reply of its server."""
    insert_new(connection, suppressed, {"channel": channel, "target": target, "since": now, "said": said})


def restore_address(connection: Connection, channel: str, target: str) -> bool:
    """End the suppression of the address `target` in `channel`; return whether it was suppressed."""
    return connection.execute(delete(suppressed).filter_by(channel=channel, target=target)).rowcount > 0


def failed_since(connection: Connection, since: datetime) -> tuple[int, int]:
    """Return the number of deliveries that failed for good since `since`, and of suppressed ones created since then."""
    dead = func.count().filter(deliveries.c.state == DeliveryState.DEAD, deliveries.c.settled_at >= since)
    kept = func.count().filter(deliveries.c.state == DeliveryState.SUPPRESSED, deliveries.c.created >= since)
    row = connection.execute(select(dead, kept)).one()
    return row[0], row[1]


def refusals(connection: Connection, channel: str, target: str) -> list[datetime]:
    """Return, for each digest that `target` refused after it last accepted one, when it last refused this digest."""
    of_target = deliveries.c.channel == channel, deliveries.c.target == target
    accepted = select(func.max(deliveries.c.settled_at)).where(*of_target, deliveries.c.state == DeliveryState.SENT)
    last_accepted = connection.execute(accepted).scalar()
    query = (
        select(func.max(attempts.c.at))
        .join(deliveries, deliveries.c.id == attempts.c.delivery)
        .where(*of_target, attempts.c.event == REFUSED)
        .group_by(deliveries.c.digest)
    )
    return [at for at in connection.execute(query).scalars() if last_accepted is None or at > last_accepted]
