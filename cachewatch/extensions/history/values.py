"""The values of the history index: packed hashes, ids of names, and what the readers of documents give to the writer.

A hash is 32 letters of base32, which is 160 bits: sets of hashes are kept as 20 bytes each, sorted, one after the
other. If one of a set is another text, the whole set is kept as a JSON array, so SQLite's own type (BLOB or TEXT) tells
which of the two it is. Tables have ids instead of tags, packages, builds and sets of stacks. What readers give to the
writer passes between processes: it is picklable, and has no such ids.
"""

import base64
import json
import sqlite3
import struct
from collections.abc import Iterable
from contextlib import suppress
from itertools import accumulate, chain, pairwise

from msgspec import Struct
from msgspec.json import decode, encode

from cachewatch.core.model import CompilerForm, Signature
from cachewatch.extensions.history.document_versions import Version

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


class Numbers:
    """Assigns ids to tags, packages, signatures and sets of stacks, and remembers them for one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[tuple[str, ...], int] = {}

    def tag(self, name: str) -> int:
        """Return the id of a tag, which is inserted if it is new."""
        return self._number("tag", name=name)

    def package(self, name: str) -> int:
        """Return the id of a package, which is inserted if it is new."""
        return self._number("package", name=name)

    def build(self, signature: Signature) -> int:
        """Return the id of a signature without its stacks, which is inserted if it is new."""
        s = signature
        versions, variants = json.dumps(s.versions), json.dumps(s.variants)
        return self._number(
            "build",
            versions=versions,
            compiler=s.compiler,
            os=s.os,
            platform=s.platform,
            target=s.target,
            variants=variants,
        )

    def stacks(self, names: tuple[str, ...]) -> int:
        """Return the id of a set of stacks, and make sure that the table `stack` has its members."""
        number = self._number("stacks", names=json.dumps(names))
        self._connection.executemany("INSERT OR IGNORE INTO stack VALUES (?, ?)", [(number, name) for name in names])
        return number

    def _number(self, table: str, **values: str) -> int:
        key = (table, *values.values())
        if key not in self._known:
            where = " AND ".join(f"{column} = :{column}" for column in values)
            found = self._connection.execute(f"SELECT id FROM {table} WHERE {where}", values).fetchone()  # noqa: S608
            if found is None:
                marks = ", ".join(f":{column}" for column in values)
                insert = f"INSERT INTO {table}({', '.join(values)}) VALUES ({marks}) RETURNING id"  # noqa: S608
                found = self._connection.execute(insert, values).fetchone()
            self._known[key] = found[0]
        return self._known[key]


def signature_of(row: tuple[str, ...]) -> Signature:
    """Return the signature from the columns of a row of `build`, from `versions` on, and the `names` of its stacks."""
    versions, compiler, os, platform, target, variants, stacks = row
    return Signature(names_of(versions), compiler, os, platform, target, names_of(variants), names_of(stacks))


def names_of(text: str) -> tuple[str, ...]:
    """Return the names in a column that holds a JSON array of names."""
    return tuple(json.loads(text))


class OpenInterval(Struct, frozen=True):
    """A row of the table `interval` whose specs are still present."""

    id: int
    signature: Signature
    first: int
    hashes: bytes | str


class KnownDocument(Struct, frozen=True):
    """A row of the table `document`: the last readable version of a document."""

    blob: str | None
    revision: int
    baseline: int | None
    compiler_form: CompilerForm


class Task(Struct, frozen=True):
    """One document whose new versions are to be read, and its state in the index."""

    tag: str
    package: str
    versions: tuple[Version, ...]
    known: KnownDocument | None = None
    # Whether no version of it was readable so far: the first readable version is then a baseline.
    is_unread: bool = False
    intervals: tuple[OpenInterval, ...] = ()

    @property
    def name(self) -> str:
        """The name of the document in the table `unit`: TAG/PACKAGE."""
        return f"{self.tag}/{self.package}"


class Interval(Struct, frozen=True, order=True):
    """Specs of one signature that were added by one revision and removed by one."""

    signature: Signature
    first: int
    last: int | None
    hashes: bytes | str
    size: int


class StepCounts(Struct, frozen=True):
    """How many specs of a document one revision added, removed and rebuilt."""

    revision: int
    added: int
    removed: int
    rebuilt: int
    is_compiler_unknown: bool  # see law 1 in docs/laws.md
    is_there: bool = True  # whether there is a document afterwards


class StackTally(Struct, frozen=True):
    """How many specs of a set of stacks one revision added, removed and rebuilt."""

    stacks: tuple[str, ...]
    revision: int
    added: int
    removed: int
    rebuilt: int


class IndexedDocument(Struct, frozen=True):
    """Everything that the new versions of a document add to the index."""

    document: KnownDocument | None  # None if no version was ever readable
    intervals: tuple[Interval, ...]  # those of `task.intervals` in their new state, and all new ones
    steps: tuple[StepCounts, ...] = ()
    tallies: tuple[StackTally, ...] = ()
    diagnostics: tuple[tuple[int, str], ...] = ()
