"""Open files that others may have written: in a build cache, an environment, a folder of templates.

A link may lead elsewhere inside the folder, as the files of a mounted ConfigMap do, and never out of it:
else who may write in the folder could have everything read, and told, that this process may read.
A pipe or a device is never opened, so that nobody waits for it.
"""

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FEW = 16
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


class RefusedFile(OSError):
    """A file that is not read, for the reason in its `strerror`, which says nothing of the content."""

    def __init__(self, reason: str, path: Path | str) -> None:
        super().__init__(errno.EPERM, reason, str(path))


class LargeFile(RefusedFile):
    """A file of more bytes than are taken."""


def read_inside(folder: Path, name: str, *, most: int) -> bytes:
    """Return the content of the file `name` in `folder`; raises OSError where it is none, RefusedFile beyond `most` bytes."""
    return _content(_opened(folder / name, *_place(folder, name)), folder / name, most)


def folder_around(path: Path, folders: Iterable[Path]) -> Path | None:
    """Return the first of the folders in which `path` is by its name, wherever links lead."""
    place = Path(os.path.normpath(path))
    return next((folder for folder in folders if place.is_relative_to(os.path.normpath(folder))), None)


def read_regular(path: Path, *, most: int) -> bytes:
    """Do as `read_inside` does, wherever links lead: for what is used here, and told to nobody."""
    _check(path.stat(), path)
    return _content(os.open(path, _FILE & ~os.O_NOFOLLOW), path, most)


def read_beginning(name: str, most: int, *, opening: bytes = b"") -> bytes:
    """Return at most `most` bytes of a file, wherever links lead; only a few if it does not begin with `opening`."""
    handle = os.open(name, _FILE & ~os.O_NOFOLLOW)
    with os.fdopen(handle, "rb", buffering=0) as file:
        about = os.fstat(handle)
        _check(about, name)
        content = file.read(_FEW)
        # A byte order mark may be before it. Python sets memory aside for all that is asked for.
        left = min(most, about.st_size) - len(content)
        return content + file.read(left) if left > 0 and opening in content else content


def check_regular(path: Path) -> None:
    """Raise RefusedFile where `path` is a pipe, a device or a socket, or a link to one; what is not there is fine."""
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


def _place(folder: Path, name: str) -> tuple[Path, Path]:
    """Return the folder without its links, and where in it the file is, which every link leads to."""
    try:
        base = folder.resolve()
        return base, (base / name).resolve().relative_to(base)
    except ValueError as error:
        raise RefusedFile(
            "it is a link out of its folder, which is not followed; put the file itself there", folder / name
        ) from error
    except RuntimeError as error:  # so Python before 3.13 says that links lead in circles
        raise RefusedFile("it is a link that leads nowhere", folder / name) from error


def _opened(path: Path, base: Path, inside: Path) -> int:
    """Open a file from folder to folder, so that no link that is made meanwhile is followed."""
    folder = os.open(base, _FOLDER)
    try:
        for part in inside.parts[:-1]:
            below = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        _check(os.stat(inside.name, dir_fd=folder, follow_symlinks=False), path)
        return os.open(inside.name, _FILE, dir_fd=folder)
    finally:
        os.close(folder)


def _check(about: os.stat_result, path: Path | str) -> None:
    kind = stat.S_IFMT(about.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind != stat.S_IFREG:
        raise RefusedFile(f"it is {_KINDS.get(kind, 'a link')} and no file", path)
