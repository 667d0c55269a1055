"""The specs of an index in a temporary file, by package: in memory, a million of them are as large as their index."""

import os
import tempfile
import weakref
from array import array
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import IO

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from cachewatch.documents.graph_files import EncodedIngredients
from cachewatch.documents.writing import Binary
from cachewatch.errors import SourceError

_BUFFER = 2**20


class StoredSpec(Struct, frozen=True):
    """A binary, and what it was made of; None if nobody asked."""

    binary: Binary
    ingredients: EncodedIngredients | None = None


# A binary without its package, and what it was made of.
_Entry = tuple[str, str, str, str, str, str, tuple[str, ...], EncodedIngredients | None]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Entry).decode


class SpecStore:
    """Specs that are added one by one, and read package by package."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=_BUFFER)  # noqa: SIM115  closed with the store
        weakref.finalize(self, _close, self._file)
        self._ends = array("Q", [0])  # where each spec ends, and the next one begins
        self._positions: dict[str, array[int]] = {}

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def packages(self) -> Collection[str]:
        """The packages that have specs."""
        return self._positions.keys()

    def add(self, binary: Binary, ingredients: EncodedIngredients | None) -> None:
        """Add a spec; raises SourceError if there is no room for it."""
        package, *rest = astuple(binary)
        data = _encode((*rest, ingredients))
        try:
            self._file.write(data)
        except OSError as error:
            raise _failed(error) from error
        if (positions := self._positions.get(package)) is None:
            positions = self._positions[package] = array("I")
        positions.append(len(self))
        self._ends.append(self._ends[-1] + len(data))

    def read(self, package: str) -> Iterator[StoredSpec]:
        """Yield the specs of a package, in the order in which they were added."""
        return self._read(package, self._positions.get(package, ()))

    def _read(self, package: str, places: Iterable[int]) -> Iterator[StoredSpec]:
        try:
            self._file.flush()
            handle = self._file.fileno()
            for place in places:
                start, end = self._ends[place], self._ends[place + 1]
                *rest, ingredients = _decode(os.pread(handle, end - start, start))
                yield StoredSpec(Binary(package, *rest), ingredients)
        except OSError as error:
            raise _failed(error) from error


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # what there was no room for, and was said to have none
        file.close()


def _failed(error: OSError) -> SourceError:
    folder = tempfile.gettempdir()
    return SourceError(
        f"{folder}: {error.strerror}, so the index cannot be read; TMPDIR names another temporary folder"
    )
