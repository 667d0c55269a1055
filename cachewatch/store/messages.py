"""The stored bytes of messages, and suppressed addresses.

Content that several messages share is stored once. A delivery stores a part of its own, its `payload`, and perhaps refers
to a row of `bodies` with the rest: the rest of a mail is everything after its headers, of any other message all of it.
"""

import zlib
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, Select, delete, func, select

from cachewatch.errors import DamagedRow
from cachewatch.report.values import Message
from cachewatch.store.schema import (
    attempts,
    bodies,
    checksum_of,
    deliveries,
    insert_new,
    message_checksum,
    put,
    suppressed,
)

# The columns of a delivery that describe its message, by name.
Columns = dict[str, Any]

_MAIL = "message/rfc822"


def columns_of(message: Message, own: bytes | None = None, body: bytes | None = None) -> Columns:
    """Return the columns for a message: with all its bytes, or with `own` and the checksum `body` of the shared rest."""
    return {
        "content_type": message.content_type,
        "message_id": message.message_id,
        "payload": zlib.compress(message.payload if own is None else own),
        "body": body,
        "checksum": message_checksum(message),
    }


def share(connection: Connection, messages: Sequence[Message]) -> list[Columns]:
    """Store the content that several of `messages` share, and return the columns of the delivery for each message."""
    # Where the content begins that others may share: in a mail after the headers.
    places = [
        max(message.payload.find(b"\n\n"), message.payload.find(b"\n\r\n")) if message.content_type == _MAIL else 0
        for message in messages
    ]
    # Views: copies of all bodies would take as much memory as the messages themselves.
    bodies_of = [memoryview(message.payload)[place:] for message, place in zip(messages, places, strict=True)]
    checksums = [checksum_of([body]) for body in bodies_of]
    counts = Counter(checksums)
    shared = {
        checksum: body for checksum, body in zip(checksums, bodies_of, strict=True) if counts[checksum] > 1 and body
    }
    for checksum, body in shared.items():
        # A row that exists is overwritten, because it may be damaged.
        put(connection, bodies, {"checksum": checksum}, {"content": zlib.compress(body)})
    return [
        columns_of(message, message.payload[:place], checksum) if checksum in shared else columns_of(message)
        for message, place, checksum in zip(messages, places, checksums, strict=True)
    ]


def whole_deliveries() -> Select[Any]:
    """Return the query for deliveries together with their shared content."""
    return select(deliveries, bodies.c.content).outerjoin(bodies, bodies.c.checksum == deliveries.c.body)


def message_of(row: Row[Any]) -> Message:
    """Return the message in a row of `whole_deliveries`, empty if its bytes were deleted.

    Raises DamagedRow if the bytes do not have the stored checksum.
    """
    try:
        payload = zlib.decompress(row.payload) if row.payload else b""
        if row.payload and row.body is not None:
            payload += zlib.decompress(row.content or b"")
    except (zlib.error, TypeError) as error:
        raise DamagedRow(f"delivery {row.id}: its stored bytes are damaged ({error})") from error
    found = Message(
        key=row.digest,
        target=row.target,
        payload=payload,
        content_type=row.content_type,
        message_id=row.message_id,
        created=row.created,
    )
    if row.payload and row.checksum != message_checksum(found):
        raise DamagedRow(f"delivery {row.id}: its stored bytes are damaged (they have another checksum)")
    return found


# The event in a delivery's history that its address refused it.
REFUSED = "refused"


class Suppressed(Struct, frozen=True):
    """An address that gets no more messages."""

    channel: str
    target: str
    since: datetime
    said: str  # the last reply of its server


def is_suppressed(connection: Connection, channel: str, target: str) -> bool:
    """Tell whether an address is suppressed because it refused several digests."""
    return connection.execute(select(suppressed).filter_by(channel=channel, target=target)).first() is not None


def all_suppressed(connection: Connection) -> list[Suppressed]:
    """Return all suppressed addresses."""
    rows = connection.execute(select(suppressed).order_by(suppressed.c.channel, suppressed.c.target))
    return [Suppressed(row.channel, row.target, row.since, row.said) for row in rows]


def suppress(connection: Connection, channel: str, target: str, said: str, now: datetime) -> None:
    """Suppress an address; `said` is the reply of its server."""
    values = {"channel": channel, "target": target, "since": now, "said": said}
    insert_new(connection, suppressed, values)


def restore(connection: Connection, channel: str, target: str) -> bool:
    """End the suppression of an address; return whether it was suppressed."""
    return connection.execute(delete(suppressed).filter_by(channel=channel, target=target)).rowcount > 0


def count_since(connection: Connection, since: datetime) -> int:
    """Count the deliveries created since `since` that were not sent because their address was suppressed."""
    query = select(func.count()).where(deliveries.c.state == "suppressed", deliveries.c.created >= since)
    return int(connection.execute(query).scalar_one())


def refusals_in_a_row(connection: Connection, channel: str, target: str) -> list[datetime]:
    """Return when an address refused digests since it last accepted one: for each digest, the last time."""
    of_target = (deliveries.c.channel == channel, deliveries.c.target == target)
    taken = select(func.max(deliveries.c.settled_at)).where(*of_target, deliveries.c.state == "sent")
    last = connection.execute(taken).scalar()
    query = (
        select(func.max(attempts.c.at))
        .join(deliveries, deliveries.c.id == attempts.c.delivery)
        .where(*of_target, attempts.c.event == REFUSED, *([attempts.c.at > last] if last else []))
        .group_by(deliveries.c.digest)
    )
    return list(connection.execute(query).scalars())


def last_attempt(connection: Connection, channel: str, target: str) -> datetime | None:
    """Return the time of the last event in any delivery to an address; None if there is none."""
    query = (
        select(func.max(attempts.c.at))
        .join(deliveries, deliveries.c.id == attempts.c.delivery)
        .where(deliveries.c.channel == channel, deliveries.c.target == target)
    )
    return connection.execute(query).scalar()
