"""Unpack what was packed with gzip, all of it or nothing, and never more than was asked for."""

import zlib

_EITHER = zlib.MAX_WBITS | 32  # with the head of gzip or of zlib
_STEP = 2**20


class NotInflated(ValueError):
    """The bytes are cut, damaged, or larger than allowed when unpacked; the message says which."""


def inflate(data: bytes, *, most: int) -> bytes:
    """Return what `data` was packed from, or raise NotInflated; beyond `most` bytes nothing is unpacked."""
    pieces: list[bytes] = []
    left = most
    while data:
        unpacker = zlib.decompressobj(_EITHER)
        while not unpacker.eof:
            try:
                piece = unpacker.decompress(data, min(_STEP, left + 1))
            except zlib.error as error:
                raise NotInflated("is not packed as it says it is, or damaged") from error
            data = unpacker.unconsumed_tail
            left -= len(piece)
            if left < 0:
                raise NotInflated(f"has more than {most:,} bytes when unpacked")
            if not piece and not unpacker.eof:
                raise NotInflated("is cut off")
            pieces.append(piece)
        data = unpacker.unused_data  # files of gzip may follow each other
    return b"".join(pieces)
