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
    parts = [_cut(message) for message in messages]
    counts = Counter(body for _, body in parts)
    shared = {body: of_parts([body]) for body, count in counts.items() if count > 1 and body}
    for body, checksum in shared.items():
        # One that is there may be damaged.
        put(connection, bodies, {"checksum": checksum}, {"content": zlib.compress(body)})
    return [
        _columns(message, own, shared[body]) if body in shared else columns_of(message)
        for message, (own, body) in zip(messages, parts, strict=True)
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
    except zlib.error as error:
        raise DamagedRow(f"delivery {row.id}: its stored bytes are damaged ({error})") from error
    found = Message(
        key=row.digest,
        target=row.target,
        payload=payload,
        content_type=row.content_type,
        message_id=row.message_id,
        created=row.created,
    )
    if row.payload and row.checksum is not None and row.checksum != of_message(found):
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


def _cut(message: Message) -> tuple[bytes, bytes]:
    """Cut a message into what is its own and what others may have in common with it."""
    if message.content_type != _MAIL:
        return b"", message.payload
    end = max(message.payload.find(b"\n\n"), message.payload.find(b"\n\r\n"))
    return message.payload[:end], message.payload[end:]
