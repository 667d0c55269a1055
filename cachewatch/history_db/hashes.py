"""Hashes as the index keeps them: 20 bytes each, sorted, one after the other.

A hash is 32 letters of base32, which is 160 bits. If one of a set is another text, the whole set is kept as a JSON array, so
SQLite's own type (BLOB or TEXT) says which of the two it is.
"""

import base64
from collections.abc import Iterable
from contextlib import suppress
from itertools import accumulate, chain, pairwise
from struct import Struct

from msgspec.json import decode, encode

_LETTERS, BYTES, PREFIX_BYTES = 32, 20, 5
# The prefix of each hash: its first eight letters.
_PREFIXES = Struct("5s15x").iter_unpack
UNUSUAL = b""
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
_BASE32 = frozenset(_ALPHABET)
# The letters of base32 as the digits of a number to the base of 32; all other bytes as what is no digit of any number.
_DIGITS = bytes(
    ord("0123456789abcdefghijklmnopqrstuv"[_ALPHABET.index(letter)]) if (letter := chr(byte)) in _BASE32 else ord("!")
    for byte in range(256)
)


def pack(hashes: Iterable[str]) -> bytes | str:
    """Return `hashes` as they are stored."""
    return pack_all([hashes])[0]


def pack_all(sets: Iterable[Iterable[str]]) -> list[bytes | str]:
    """Return each set of hashes as it is stored; all together, because each by itself takes five times as long."""
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
    """Return what `pack` was given, sorted as text."""
    if isinstance(stored, str):
        found: list[str] = decode(stored)
        return found
    together = base64.b32encode(stored).decode().lower()
    return [together[start : start + _LETTERS] for start in range(0, len(together), _LETTERS)]


def members(stored: bytes | str) -> list[bytes | str]:
    """Return each hash by itself, as `pack` would store it: equal hashes are equal, and nothing is decoded in vain."""
    if isinstance(stored, str):
        return [pack([one]) for one in unpack(stored)]
    return [stored[start : start + BYTES] for start in range(0, len(stored), BYTES)]


def prefixes(stored: bytes | str) -> set[bytes]:
    """Return under which prefixes the table `spec` has these hashes."""
    if isinstance(stored, str):
        return {prefix_of(one) for one in unpack(stored)}
    return {prefix for (prefix,) in _PREFIXES(stored)}


def prefix_of(spec_hash: str) -> bytes:
    """Return the prefix of one whole hash."""
    if len(spec_hash) != _LETTERS or not _BASE32.issuperset(spec_hash):
        return UNUSUAL
    return base64.b32decode(spec_hash[:8].upper())


def prefix_range(beginning: str) -> tuple[bytes, bytes]:
    """Return the lowest and the highest prefix of hashes that begin so; more than eight letters count as eight."""
    letters = beginning[:8].upper()
    low, high = (base64.b32decode(letters.ljust(8, filler)) for filler in "A7")
    return low, high
