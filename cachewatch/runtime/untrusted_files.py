"""Read files that others may have written, and unpack data of strangers: what is refused, and above which size.

A link may lead elsewhere inside its folder, as in a mounted ConfigMap, but never out of it; otherwise somebody who may
write in the folder could make this process publish any file that the process may read. A pipe or a device is never
opened, so that no read waits for it.
"""

import errno
import os
import stat
import zlib
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

from cachewatch.runtime.files_and_locks import FOLDER, entered, open_below

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FEW = 16
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


class RefusedFile(OSError):
    """A file that must not be read; its `strerror` has the reason without any content."""

    def __init__(self, reason: str, path: Path | str) -> None:
        super().__init__(errno.EPERM, reason, str(path))


class LargeFile(RefusedFile):
    """A file that is larger than allowed."""


def read_inside(folder: Path, name: str, *, most: int) -> bytes:
    """Return the content of the file `name` in `folder`; links may not lead out of the folder.

    Raises OSError if there is no such file, RefusedFile if it is no regular file, leads out or has over `most` bytes.
    """
    path = folder / name
    try:
        base = folder.resolve()
        inside = (base / name).resolve().relative_to(base)
    except ValueError as error:
        reason = "it is a link out of its folder, which is not followed; put the file itself there"
        raise RefusedFile(reason, path) from error
    except RuntimeError as error:  # so Python before 3.13 says that links lead in circles
        raise RefusedFile("it is a link that leads nowhere", path) from error
    # From folder to folder, so that no link that is made meanwhile is followed.
    with entered(os.open(base, FOLDER | os.O_NOFOLLOW), inside.parts[:-1], open_below) as place:
        _check(os.stat(inside.name, dir_fd=place, follow_symlinks=False), path)
        handle = os.open(inside.name, _FILE, dir_fd=place)
    return _content(handle, path, most)


def folder_around(path: Path, folders: Iterable[Path]) -> Path | None:
    """Return the first of `folders` that contains `path`, judged by names only, without following links."""
    place = Path(os.path.normpath(path))
    return next((folder for folder in folders if place.is_relative_to(os.path.normpath(folder))), None)


def read_regular(path: Path, *, most: int) -> bytes:
    """Return the content of the file `path`, never to be published: like `read_inside`, but all links are followed."""
    _check(path.stat(), path)
    return _content(os.open(path, _FILE & ~os.O_NOFOLLOW), path, most)


def read_beginning(name: str, most: int, *, opening: bytes = b"") -> bytes:
    """Return the first `most` bytes of the file `name`, or only 16 if these lack `opening`; links are followed."""
    handle = os.open(name, _FILE & ~os.O_NOFOLLOW)
    with os.fdopen(handle, "rb", buffering=0) as file:
        about = os.fstat(handle)
        _check(about, name)
        content = file.read(_FEW)
        # A byte order mark may be before it. Python sets memory aside for all that is asked for.
        left = min(most, about.st_size) - len(content)
        return content + file.read(left) if left > 0 and opening in content else content


def check_regular(path: Path) -> None:
    """Raise RefusedFile if `path` is a pipe, device or socket, or a link to one; a missing file is accepted."""
    try:
        about = path.stat()
    except OSError:
        return
    if stat.S_IFMT(about.st_mode) in _KINDS:
        _check(about, path)


def _content(handle: int, path: Path, most: int) -> bytes:
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        _check(about, path)
        if about.st_size > most:
            raise LargeFile(f"it has more than {most:,} bytes", path)
        content = file.read(about.st_size + 1)
    if len(content) > about.st_size:
        raise RefusedFile("it grew while it was read", path)
    return content


def _check(about: os.stat_result, path: Path | str) -> None:
    kind = stat.S_IFMT(about.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind != stat.S_IFREG:
        raise RefusedFile(f"it is {_KINDS.get(kind, 'a link')} and no file", path)


# Real files stay far below this ratio: an index of a build cache unpacks to some 15 times its size, zeros to 1,000 times.
MOST_RATIO = 200

_EITHER = zlib.MAX_WBITS | 32  # with the head of gzip or of zlib
_INPUT = 2**16
_STEP = 2**20
# Any file may unpack to this size, which is harmless; small files of one repeated word have a high ratio.
_HARMLESS = 16 * 2**20


class NotInflated(ValueError):
    """The bytes are incomplete, damaged, or too large when unpacked; the message tells which."""


class TooMuch(NotInflated):
    """The bytes are too large when unpacked."""


class TooPacked(NotInflated):
    """The bytes unpack to a larger multiple of their size than any honest file does."""


def inflate(data: bytes, *, most: int) -> bytes:
    """Return the unpacked `data` (gzip or zlib). Raises NotInflated if damaged, over `most` bytes or a likely bomb."""
    out = BytesIO()  # which gives its bytes away without a copy
    most_of_ratio = max(_HARMLESS, MOST_RATIO * len(data))
    unpacker = zlib.decompressobj(_EITHER)
    for start in range(0, len(data), _INPUT):
        rest, is_more = data[start : start + _INPUT], True
        while rest or is_more:
            if unpacker.eof:  # files of gzip may follow each other
                unpacker = zlib.decompressobj(_EITHER)
            try:
                piece = unpacker.decompress(rest, _STEP)
            except zlib.error as error:
                raise NotInflated("is damaged, or not compressed as it says") from error
            if out.tell() + len(piece) > most:
                raise TooMuch(f"has more than {most:,} bytes when unpacked")
            if out.tell() + len(piece) > most_of_ratio:
                raise TooPacked(f"unpacks to more than {MOST_RATIO} times its size, as only a decompression bomb does")
            out.write(piece)
            rest = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
            is_more = len(piece) == _STEP and not unpacker.eof
    if data and not unpacker.eof:
        raise NotInflated("is cut off")
    return out.getvalue()
