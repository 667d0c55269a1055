"""Put a file into its place so that readers see the old one or the whole new one, also after a power cut.

Folders that others may write in are distrusted: nothing is written through a symbolic link
below the folder that the operator named.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from cachewatch.channels.clean import one_line
from cachewatch.deliveries import Answer, Verdict

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LEFTOVER = 24 * 3600.0  # seconds; nobody writes one file for so long
# What somebody has to mend, and no waiting will.
_OURS = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ELOOP,
    errno.EISDIR,
    errno.ENAMETOOLONG,
}


def publish(path: Path, data: bytes, *, base: Path, mode: int) -> None:
    """Write `data` to `path`, which lies below `base`; raises OSError and then leaves nothing behind.

    `base` and what is below it are made where they are missing; the folder of `base` must be there.
    """
    with opened(path.parent, base=base, mode=mode) as folder:
        sweep(folder)
        temporary = f".cachewatch.{sha256(path.name.encode()).hexdigest()[:16]}.tmp"
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)  # of a run that was cut off
        try:
            _write(folder, temporary, data, mode)
            os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        os.fsync(folder)


@contextmanager
def opened(path: Path, *, base: Path, mode: int) -> Iterator[int]:
    """Open the folder `path` at or below `base`, following no link below `base`."""
    folder = _make_and_open(str(base), None, mode, is_trusted=True)
    try:
        for name in path.relative_to(base).parts:
            below = _make_and_open(name, folder, mode, is_trusted=False)
            os.close(folder)
            folder = below
        _check_owner(folder, path)
        yield folder
    finally:
        os.close(folder)


def read(path: Path) -> bytes | None:
    """Return what is in the file, or None if there is no file or only a link to one."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise
    with os.fdopen(handle, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(handle).st_mode) else None


def sweep(folder: int) -> None:
    """Remove what runs left behind that were cut off and never came back to it."""
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.startswith(".cachewatch.") and entry.name.endswith(".tmp"):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mtime < time.time() - _LEFTOVER:
                        os.unlink(entry.name, dir_fd=folder)


def of_error(error: OSError, path: Path) -> Answer:
    """Return what it means that `path` cannot be written."""
    said = one_line(f"{path}: {error.strerror or error}", 300)
    if error.errno in _OURS:
        return Answer(verdict=Verdict.BLOCKED, said=f"{said}; make the folder and let cachewatch write there")
    return Answer(verdict=Verdict.DEFERRED, said=said)


def _write(folder: int, name: str, data: bytes, mode: int) -> None:
    with os.fdopen(os.open(name, _NEW, mode, dir_fd=folder), "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode)  # whatever the umask is
        os.fsync(file.fileno())


def _make_and_open(name: str, folder: int | None, mode: int, *, is_trusted: bool) -> int:
    flags = _FOLDER if is_trusted else _FOLDER | os.O_NOFOLLOW
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=folder)
        handle = os.open(name, flags, dir_fd=folder)
        os.fchmod(handle, mode | (mode & 0o444) >> 2)  # who may read the files may enter
        _sync_above(name, folder)
        return handle


def _sync_above(name: str, folder: int | None) -> None:
    """Make a new folder's name last."""
    if folder is not None:
        os.fsync(folder)
        return
    above = os.open(Path(name).parent, _FOLDER)
    try:
        os.fsync(above)
    finally:
        os.close(above)


def _check_owner(folder: int, path: Path) -> None:
    about = os.fstat(folder)
    if about.st_mode & stat.S_IWOTH and not about.st_mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, f"everybody may write in it; run: chmod o-w {path}")
