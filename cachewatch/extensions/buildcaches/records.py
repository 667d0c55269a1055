"""Where the records of an index are, found without decoding the index as a whole: that would take twice its size.

Each record is cut out of the text where it begins as Spack writes it: `"hash":{"spec"`. The cuts are right if every
piece is valid JSON, and so is the index with all pieces replaced by one, because JSON can be read in one way only.
Where anything is otherwise, the index is decoded as a whole.
"""

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Set
from itertools import pairwise
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from cachewatch.core.causes import NAME_LETTERS, shared_names

_BEGIN = b'{"spec"'
_KEY = re.compile(rb'"([a-z0-9]{16,64})"[ \t\r\n]*:[ \t\r\n]*\Z')
_LONGEST_KEY = 100
_TAIL = re.compile(rb'\}[ \t\r\n]*(?:,[ \t\r\n]*"version"[ \t\r\n]*:[^{}]{1,40})?\}[ \t\r\n]*\}[ \t\r\n]*\Z')
_LONGEST_TAIL = 200
_BLANKS = b" \t\r\n"
_COMMA = ord(",")

# What stands in the place of all records where the rest of the index is decoded.
_NO_KEY, _NO_RECORD = "", b"null"

# A number holds some bits of the hash of the name of a key, and below them the position of the record.
_POSITION_BITS = 28
_POSITION = (1 << _POSITION_BITS) - 1
# So many keys may begin alike; where more do, they are found in a mapping.
_MOST_ALIKE = 1000
_KEY_BITS = (1 << 64 - _POSITION_BITS) - 1


class Database(Struct):
    """An index as JSON."""

    version: str | int | float
    installs: dict[str, Raw]


class _File(Struct):
    database: Database


decode_file = msgspec.json.Decoder(_File).decode
_decode_raw = msgspec.json.Decoder(Raw).decode


class NotSliced(Exception):
    """The index is not written as Spack writes it, or is no JSON."""


class Records(Protocol):
    """The records of an index, by hash."""

    @property
    def shared(self) -> frozenset[str]:
        """The names that several of the hashes have in common."""

    def __len__(self) -> int: ...

    def items(self) -> Iterator[tuple[str, bytes | Raw]]:
        """Yield all keys and records, in their order."""

    def find(self, key: str) -> bytes | Raw | None:
        """Return the record with that key."""

    def check(self, record: bytes | Raw) -> None:
        """Raise NotSliced where a record that cannot be read was cut out wrongly."""


class DecodedRecords:
    """The records of an index that was decoded as a whole."""

    def __init__(self, installs: Mapping[str, Raw]) -> None:
        self._installs = installs
        self.shared: frozenset[str] = shared_names(installs)

    def __len__(self) -> int:
        return len(self._installs)

    def items(self) -> Iterator[tuple[str, bytes | Raw]]:
        """Yield all keys and records, in their order."""
        yield from self._installs.items()

    def find(self, key: str) -> bytes | Raw | None:
        """Return the record with that key."""
        return self._installs.get(key)

    def check(self, record: bytes | Raw) -> None:
        """Nothing was cut out."""


class RecordSlices:
    """The records of an index as slices of its text; raises NotSliced where it cannot be cut, or a key stands twice.

    Whether each record is valid JSON is known when it is decoded.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._starts = array("Q")
        self._sorted = array("Q")
        self._find_records()
        self._end = self._find_end()
        self.version = self._read_version()
        alike = [self._at(number & _POSITION)[0] for number in self._alike()]
        if len(set(alike)) < len(alike):
            raise NotSliced
        self.shared: frozenset[str] = shared_names(alike)

    def __len__(self) -> int:
        return len(self._starts)

    def items(self) -> Iterator[tuple[str, bytes | Raw]]:
        """Yield all keys and records, in their order."""
        return map(self._at, range(len(self._starts)))

    def find(self, key: str) -> bytes | Raw | None:
        """Return the record with that key."""
        bits = _bits(key)
        place = bisect_left(self._sorted, bits)
        while place < len(self._sorted) and self._sorted[place] & ~_POSITION == bits:
            found, record = self._at(self._sorted[place] & _POSITION)
            if found == key:
                return record
            place += 1
        return None

    def check(self, record: bytes | Raw) -> None:
        """Raise NotSliced where a record that cannot be read was cut out wrongly."""
        try:
            _decode_raw(record)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise NotSliced from error

    def _find_records(self) -> None:
        content, numbers = self._content, array("Q")
        place = content.find(_BEGIN)
        while place >= 0:
            first = max(0, place - _LONGEST_KEY)
            start = content.rfind(b'"', first, max(first, content.rfind(b'"', first, place)))
            if start >= 0 and (match := _KEY.match(content, start, place)):
                numbers.append(_bits(match[1].decode()) | len(numbers))
                self._starts.append(start)
            place = content.find(_BEGIN, place + 1)
        if not 0 < len(numbers) <= _POSITION:
            raise NotSliced
        self._sorted = array("Q", sorted(numbers))

    def _find_end(self) -> int:
        first = max(self._starts[-1], len(self._content) - _LONGEST_TAIL)
        match = _TAIL.search(self._content[first:])
        if match is None:
            raise NotSliced
        return first + match.start()

    def _read_version(self) -> str:
        rest = (
            self._content[: self._starts[0]] + b'"%s":%s' % (_NO_KEY.encode(), _NO_RECORD) + self._content[self._end :]
        )
        try:
            database = decode_file(rest).database
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise NotSliced from error
        if {key: bytes(record) for key, record in database.installs.items()} != {_NO_KEY: _NO_RECORD}:
            raise NotSliced
        return str(database.version)

    def _alike(self) -> Set[int]:
        """Return the numbers that have the same bits as others: of keys that begin alike, and of very few others."""
        alike = {number for pair in pairwise(self._sorted) if pair[0] ^ pair[1] <= _POSITION for number in pair}
        if len(alike) > _MOST_ALIKE:
            raise NotSliced
        return alike

    def _at(self, position: int) -> tuple[str, bytes]:
        content, start = self._content, self._starts[position]
        colon = content.index(b":", start)
        key = content[start:colon].rstrip(_BLANKS)[1:-1].decode()
        if position + 1 == len(self._starts):
            return key, content[colon + 1 : self._end]
        end = self._starts[position + 1]
        if content[end - 1] != _COMMA:
            end = colon + 1 + len(content[colon + 1 : end].rstrip(_BLANKS))
        if content[end - 1] != _COMMA:
            raise NotSliced
        return key, content[colon + 1 : end - 1]


def _bits(key: str) -> int:
    return (hash(key[:NAME_LETTERS]) & _KEY_BITS) << _POSITION_BITS
