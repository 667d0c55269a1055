"""Checksums of what is stored for long: a bit that flips on a disk is found before anybody gets it."""

from collections.abc import Iterable
from hashlib import blake2b

from cachewatch.core.delivery import Message

BYTES = 16


def of_message(message: Message) -> bytes:
    """Return the checksum of a message: of its bytes, and of what says where and as what they go."""
    parts = (message.key, message.target, message.content_type, message.message_id or "")
    return of_parts((*(part.encode(errors="surrogatepass") for part in parts), message.payload))


def of_parts(parts: Iterable[bytes | memoryview]) -> bytes:
    """Return the checksum of several values, in their order."""
    found = blake2b(digest_size=BYTES)
    for part in parts:
        found.update(len(part).to_bytes(8))
        found.update(part)
    return found.digest()
