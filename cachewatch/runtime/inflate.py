"""Decompress gzip data completely or not at all, and never more than a limit."""

import zlib
from io import BytesIO

# What real files never come near: an index of a build cache unpacks to some 15 times its size, zeros to 1,000 times.
MOST_RATIO = 200

_EITHER = zlib.MAX_WBITS | 32  # with the head of gzip or of zlib
_INPUT = 2**16
_STEP = 2**20
# So much may always come out: it harms nobody, and little files of one word are packed well.
_HARMLESS = 16 * 2**20


class NotInflated(ValueError):
    """The bytes are cut, damaged, or larger than allowed when unpacked; the message says which."""


class TooMuch(NotInflated):
    """The bytes are larger than allowed when unpacked."""


class TooPacked(NotInflated):
    """The bytes unpack to more than any honest file does."""


def inflate(data: bytes, *, most: int) -> bytes:
    """Return what `data` was packed from, or raise NotInflated; beyond `most` bytes, or 200 times its own, nothing is unpacked."""
    reader = _Inflater(most, max(_HARMLESS, MOST_RATIO * len(data)))
    for start in range(0, len(data), _INPUT):
        reader.take(data[start : start + _INPUT])
    return reader.end() if data else b""


class _Inflater:
    """Unpacks piece by piece into one buffer, so that memory holds little more than the result."""

    def __init__(self, most: int, most_of_ratio: int) -> None:
        self._most = most
        self._most_of_ratio = most_of_ratio
        self._unpacker = zlib.decompressobj(_EITHER)
        self._out = BytesIO()

    def take(self, data: bytes) -> None:
        is_more = True
        while data or is_more:
            if self._unpacker.eof:  # files of gzip may follow each other
                self._unpacker = zlib.decompressobj(_EITHER)
            try:
                piece = self._unpacker.decompress(data, _STEP)
            except zlib.error as error:
                raise NotInflated("is damaged, or not compressed as it says") from error
            self._put(piece)
            data = self._unpacker.unused_data if self._unpacker.eof else self._unpacker.unconsumed_tail
            is_more = len(piece) == _STEP and not self._unpacker.eof

    def end(self) -> bytes:
        if not self._unpacker.eof:
            raise NotInflated("is cut off")
        return self._out.getvalue()

    def _put(self, piece: bytes) -> None:
        size = self._out.tell() + len(piece)
        if size > self._most:
            raise TooMuch(f"has more than {self._most:,} bytes when unpacked")
        if size > self._most_of_ratio:
            raise TooPacked(f"unpacks to more than {MOST_RATIO} times its size, as only a decompression bomb does")
        self._out.write(piece)
