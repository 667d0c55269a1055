"""Write files: readers see the old one or the whole new one, also after a power cut; and lock files.

Folders that others may write in are not trusted: nothing is written through a symbolic link
below the folder that the operator named, and no lock is taken in a file that somebody else put there.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LEFTOVER = 24 * 3600.0  # seconds; nobody writes one file for so long


def publish(path: Path, data: bytes, *, base: Path, mode: int) -> None:
    """Write `data` to `path`, which lies below `base`; raises OSError and then leaves nothing behind.

    `base` and what is below it are made where they are missing; the folder of `base` must be there.
    """
    with opened(path.parent, base=base, mode=mode) as folder:
        sweep(folder)
        _replace(folder, path.name, data, mode, is_durable=True)
        os.fsync(folder)


def put(path: Path, data: bytes, *, base: Path, mode: int) -> None:
    """Do as `publish` does, but without waiting for the disk: for what can be made again."""
    with opened(path.parent, base=base, mode=mode) as folder:
        _replace(folder, path.name, data, mode, is_durable=False)


def remove(path: Path, *, base: Path) -> None:
    """Remove the file `path` below `base`, unless it is gone or only a link leads there."""
    folder = os.open(base, _FOLDER)
    try:
        for name in path.parent.relative_to(base).parts:
            below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = below
        os.unlink(path.name, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
    finally:
        os.close(folder)


def open_lock(path: Path, *, mode: int = 0o600) -> int:
    """Open the file that a lock is taken in, and make it where it is missing; what is in it stays.

    Raises OSError where it is a link or no file: it would be somebody else's.
    """
    try:
        handle = os.open(path, _LOCK, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(
                errno.ELOOP, "is a link, but a lock of cachewatch is a regular file; remove it", str(path)
            ) from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a regular file, as a lock of cachewatch must be; remove it", str(path))
    return handle


def check_private(folder: Path) -> None:
    """Raise PermissionError where others than root and ourselves could replace what is in `folder`."""
    about = folder.stat()
    if about.st_mode & stat.S_IWOTH:
        raise PermissionError(
            errno.EPERM, f"everybody may write in it; run: chmod o-w {folder}, or choose a folder in it", str(folder)
        )
    if os.geteuid() and about.st_uid not in (0, os.geteuid()):
        raise PermissionError(
            errno.EPERM,
            "it belongs to another user, who could replace what is in it; choose a folder of your own",
            str(folder),
        )


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


def _replace(folder: int, name: str, data: bytes, mode: int, *, is_durable: bool) -> None:
    temporary = f".cachewatch.{sha256(name.encode()).hexdigest()[:16]}.tmp"
    with suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=folder)  # of a run that was cut off
    try:
        _write(folder, temporary, data, mode, is_durable=is_durable)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _write(folder: int, name: str, data: bytes, mode: int, *, is_durable: bool) -> None:
    with os.fdopen(os.open(name, _NEW, mode, dir_fd=folder), "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode)  # whatever the umask is
        if is_durable:
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
    except OSError as error:
        if is_trusted or error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        raise OSError(error.errno, f"{name} is a link or a file, where a folder should be; remove it") from error


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
