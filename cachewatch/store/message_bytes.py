"""The bytes of messages: what several have in common is stored once, and what is read is what was stored.

A delivery has a part of its own, its `payload`, and behind it perhaps a row of `bodies`: of a
mail, everything after the headers; of any other message, all of it.
"""

import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, exists, select

from cachewatch.core.delivery import Message
from cachewatch.errors import DamagedRow
from cachewatch.store.checksums import of_message, of_parts
from cachewatch.store.schema import bodies, deliveries
from cachewatch.store.upserts import put

# The columns of a delivery that are of its message.
Columns = dict[str, Any]

_MAIL = "message/rfc822"


def columns_of(message: Message) -> Columns:
    """Return what a delivery has of a message that is stored as a whole."""
    return _columns(message, message.payload, None)


def share(connection: Connection, messages: Sequence[Message]) -> list[Columns]:
    """Store what several of `messages` have in common, and return what the delivery of each has of it."""
    places = [_body_of(message) for message in messages]
    # Views: copies of all bodies would take as much memory as the messages themselves.
    bodies_of = [memoryview(message.payload)[place:] for message, place in zip(messages, places, strict=True)]
    checksums = [of_parts([body]) for body in bodies_of]
    counts = Counter(checksums)
    shared = {
        checksum: body for checksum, body in zip(checksums, bodies_of, strict=True) if counts[checksum] > 1 and body
    }
    for checksum, body in shared.items():
        # One that is there may be damaged.
        put(connection, bodies, {"checksum": checksum}, {"content": zlib.compress(body)})
    return [
        _columns(message, message.payload[:place], checksum) if checksum in shared else columns_of(message)
        for message, place, checksum in zip(messages, places, checksums, strict=True)
    ]


def delete_unused(connection: Connection) -> None:
    """Delete what messages had in common that are gone."""
    connection.execute(delete(bodies).where(~exists().where(deliveries.c.body == bodies.c.checksum)))


def whole_deliveries() -> Select[Any]:
    """Return the query for deliveries with all of their bytes."""
    return select(deliveries, bodies.c.content).outerjoin(bodies, bodies.c.checksum == deliveries.c.body)


def message_of(row: Row[Any]) -> Message:
    """Return the message of a whole delivery, empty if its bytes were deleted; raise DamagedRow if it is not what was stored."""
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
    if row.payload and row.checksum != of_message(found):
        raise DamagedRow(f"delivery {row.id}: its stored bytes are damaged (they have another checksum)")
    return found


def _columns(message: Message, own: bytes, body: bytes | None) -> Columns:
    return {
        "content_type": message.content_type,
        "message_id": message.message_id,
        "payload": zlib.compress(own),
        "body": body,
        "checksum": of_message(message),
    }


def _body_of(message: Message) -> int:
    """Return where that begins which others may have in common with a message."""
    if message.content_type != _MAIL:
        return 0
    return max(message.payload.find(b"\n\n"), message.payload.find(b"\n\r\n"))
