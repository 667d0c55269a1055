"""How the history index stores sets of hashes.

A hash is 32 letters of base32, which is 160 bits: sets of hashes are kept as 20 bytes each, sorted, one after the
other. If one of a set is another text, the whole set is kept as a JSON array, so SQLite's own type (BLOB or TEXT) tells
which of the two it is.
"""

import base64
import struct
from collections.abc import Iterable
from contextlib import suppress
from itertools import accumulate, chain, pairwise

from msgspec.json import decode, encode

_LETTERS, BYTES, PREFIX_BYTES = 32, 20, 5
# The prefix of each hash: its first eight letters.
_PREFIXES = struct.Struct("5s15x").iter_unpack
UNUSUAL = b""  # the prefix of every text that is not 32 letters of base32
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
_BASE32 = frozenset(_ALPHABET)
# Translates letters of base32 to digits of Python's numbers of base 32, and all other bytes to what is no digit.
_DIGITS = bytes(
    ord("0123456789abcdefghijklmnopqrstuv"[_ALPHABET.index(letter)]) if (letter := chr(byte)) in _BASE32 else ord("!")
    for byte in range(256)
)


def pack(hashes: Iterable[str]) -> bytes | str:
    """Return a set of hashes in the form in which it is stored."""
    return pack_all([hashes])[0]


def pack_all(sets: Iterable[Iterable[str]]) -> list[bytes | str]:
    """Return each set of hashes in its stored form; packing all at once takes a fifth of the time of `pack`."""
    found = [sorted(hashes) for hashes in sets]
    flat = list(chain.from_iterable(found))
    if {*map(len, flat)} <= {_LETTERS}:
        # Eight letters are five bytes, so 32 letters end where a byte does, and all of them are one number. Python's
        # base64 decodes base32 one letter at a time.
        with suppress(ValueError):
            digits = "".join(flat).encode().translate(_DIGITS)
            whole = int(digits or b"0", 32).to_bytes(BYTES * len(flat))
            ends = list(accumulate(map(len, found), initial=0))
            return [whole[BYTES * start : BYTES * end] for start, end in pairwise(ends)]
    if len(found) == 1:
        return [encode(found[0]).decode()]
    return [pack(hashes) for hashes in found]


def unpack(stored: bytes | str) -> list[str]:
    """Return the hashes that `pack` was given, as a sorted list."""
    if isinstance(stored, str):
        found: list[str] = decode(stored)
        return found
    together = base64.b32encode(stored).decode().lower()
    return [together[start : start + _LETTERS] for start in range(0, len(together), _LETTERS)]


def members(stored: bytes | str) -> list[bytes | str]:
    """Return each hash of a packed set in its own packed form, without decoding it: equal hashes have equal forms."""
    if isinstance(stored, str):
        return [pack([one]) for one in unpack(stored)]
    return [stored[start : start + BYTES] for start in range(0, len(stored), BYTES)]


def prefixes(stored: bytes | str) -> set[bytes]:
    """Return the prefixes under which the table `spec` lists these packed hashes."""
    if isinstance(stored, str):
        return {prefix_of(one) for one in unpack(stored)}
    return {prefix for (prefix,) in _PREFIXES(stored)}


def prefix_of(spec_hash: str) -> bytes:
    """Return the prefix of a whole hash: its first eight letters as five bytes, or UNUSUAL if it is another text."""
    if len(spec_hash) != _LETTERS or not _BASE32.issuperset(spec_hash):
        return UNUSUAL
    return base64.b32decode(spec_hash[:8].upper())


def prefix_range(beginning: str) -> tuple[bytes, bytes]:
    """Return the lowest and highest prefix of hashes that begin with `beginning`, of which eight letters count."""
    letters = beginning[:8]
    if not _BASE32.issuperset(letters):
        return UNUSUAL, UNUSUAL
    low, high = (base64.b32decode(letters.upper().ljust(8, filler)) for filler in "A7")
    return low, high
