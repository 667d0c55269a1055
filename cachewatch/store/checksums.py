"""Checksums of what is stored for long: a bit that flips on a disk is found before anybody gets it."""

from collections.abc import Iterable
from hashlib import blake2b

from cachewatch.core.delivery import Parcel

BYTES = 16


def of_parcel(parcel: Parcel) -> bytes:
    """Return the checksum of a parcel: of its bytes, and of what says where and as what they go."""
    parts = (parcel.key, parcel.target, parcel.content_type, parcel.message_id or "")
    return of_parts((*(part.encode(errors="surrogatepass") for part in parts), parcel.payload))


def of_parts(parts: Iterable[bytes]) -> bytes:
    """Return the checksum of several values, in their order."""
    found = blake2b(digest_size=BYTES)
    for part in parts:
        found.update(len(part).to_bytes(8))
        found.update(part)
    return found.digest()
