"""Write files atomically, open lock files, recognize network file systems, and find files of this package.

Readers see the old file or the whole new one, also after a power cut. Nothing is written through a symbolic link below
the folder that the operator named, and no lock is taken in a link or in anything but a regular file. The templates,
schemas and sample documents of cachewatch are beside the package in a checkout and inside it in a wheel. An extension
has `templates/` and `schemas/` in its package; its templates have its name as a prefix (`site/index.html.j2`).
"""

import errno
import os
import pwd
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from cachewatch.hooks import extensions

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def publish(path: Path, data: bytes, *, base: Path, mode: int, is_durable: bool = True) -> None:
    """Write `data` to the file `path` atomically, with permissions `mode`; an OSError leaves no temporary file.

    Make missing folders from `base` down; refuse links below `base`. If `is_durable`, wait until all is on disk.
    """
    with _opened(path.parent, base=base, mode=mode) as folder:
        temporary = f".cachewatch.{sha256(path.name.encode()).hexdigest()[:16]}.tmp"
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)  # of a run that was cut off
        try:
            with os.fdopen(os.open(temporary, _NEW, mode, dir_fd=folder), "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), mode)  # whatever the umask is
                if is_durable:
                    os.fsync(file.fileno())
            os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        if is_durable:
            os.fsync(folder)


def remove(path: Path, *, base: Path) -> None:
    """Remove the file `path` below `base`; do nothing if it is missing, or if a folder between the two is a link."""
    try:
        with entered(os.open(base, FOLDER), path.parent.relative_to(base).parts, open_below) as folder:
            os.unlink(path.name, dir_fd=folder)
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise


def open_lock(path: Path, *, mode: int = 0o600) -> int:
    """Open or make the lock file `path`; return its descriptor. Raises OSError if it is a link or no regular file."""
    try:
        handle = os.open(path, _LOCK, mode)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        message = "is a link, but a lock of cachewatch is a regular file; remove it"
        raise OSError(errno.ELOOP, message, str(path)) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a regular file, as a lock of cachewatch must be; remove it", str(path))
    return handle


def user_name(number: int) -> str:
    """Return the name of the user with the id `number`, or the id as text if it has no name."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


@contextmanager
def _opened(path: Path, *, base: Path, mode: int) -> Iterator[int]:
    """Yield a descriptor of the folder `path`; make it from `base` if missing, for files of `mode`; refuse links."""
    top = _made_and_opened(str(base), None, mode=mode)
    with entered(top, path.relative_to(base).parts, partial(_made_and_opened, mode=mode)) as folder:
        about = os.fstat(folder)
        if about.st_mode & stat.S_IWOTH and not about.st_mode & stat.S_ISVTX:
            raise PermissionError(errno.EPERM, f"everybody may write in it; run: chmod o-w {path}")
        yield folder


@contextmanager
def entered(folder: int, parts: Iterable[str], enter: Callable[[str, int], int]) -> Iterator[int]:
    """Open the nested folders `parts` below `folder`, by `enter(name, parent)`; yield the last, and close all."""
    try:
        for part in parts:
            below = enter(part, folder)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def open_below(name: str, folder: int) -> int:
    """Return a descriptor of the folder `name` in the open folder `folder`. Raises OSError if it is a link."""
    return os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=folder)


def read(path: Path) -> bytes | None:
    """Return the content of a file; None if it is missing, a link or no regular file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise
    with os.fdopen(handle, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(handle).st_mode) else None


def _made_and_opened(name: str, folder: int | None, *, mode: int) -> int:
    """Open or make the folder `name`, for files of `mode`, in `folder`; if that is None, `name` is a path."""
    flags = FOLDER if folder is None else FOLDER | os.O_NOFOLLOW
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=folder)
        handle = os.open(name, flags, dir_fd=folder)
        os.fchmod(handle, mode | (mode & 0o444) >> 2)  # who may read the files may enter
        above = os.open("..", FOLDER, dir_fd=handle)
        os.fsync(above)  # so that the name of the new folder lasts
        os.close(above)
        return handle
    except OSError as error:
        if folder is None or error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        raise OSError(error.errno, f"{name} is a link or a file, where a folder should be; remove it") from error


MOUNTS = Path("/proc/self/mountinfo")
_SHARED = re.compile(
    r"nfs4?|cifs|smb\w*|ceph|lustre|gpfs|mmfs|beegfs|9p|afs|coda|dvs|gfs2|ocfs2|orangefs|pvfs2|panfs|wekafs"
    r"|fuse\.(?!fuse-overlayfs|portal|lxcfs)[\w.-]+"
)
# The fields before the dash are as many as there are options; the fifth is where it is mounted.
_LINE = re.compile(r"(?:\S+ ){4}(\S+) .*? - (\S+) ")


def shared_kind(folder: Path) -> str:
    """Return the type of the network or cluster file system that holds `folder`; "" if its file system is local."""
    folder, best, kind = folder.resolve(), Path("/"), ""
    try:
        text = MOUNTS.read_text("utf-8", "surrogateescape")
    except OSError:
        return ""  # not Linux
    for mount in filter(None, map(_LINE.match, text.splitlines())):
        point = Path(re.sub(r"\\([0-7]{3})", lambda escaped: chr(int(escaped[1], 8)), mount[1]))
        # Of several file systems mounted at one path, the last one hides the others.
        if folder.is_relative_to(point) and point.is_relative_to(best):
            best, kind = point, mount[2]
    return kind if _SHARED.fullmatch(kind) else ""


_SCHEMA = ".schema.json"


def shipped_folder() -> Traversable:
    """Return the folder that contains templates/, config/ and the documents of the demo."""
    installed = files("cachewatch") / "_data"  # put there by pyproject.toml
    return installed if installed.is_dir() else Path(__file__).parents[2]


def cache_path(kind: str, address: str, suffix: str) -> Path:
    """Return the path below $XDG_CACHE_HOME or ~/.cache for data of a `kind` about `address`; it ends with `suffix`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111  which never fails
    name = re.sub(r"[^A-Za-z0-9.]+", "-", address.rpartition("://")[2]).strip("-.")[-60:]
    return cache / "cachewatch" / kind / f"{name}-{sha256(address.encode()).hexdigest()[:12]}{suffix}"


def shipped_template(name: str) -> str | None:
    """Return the text of the template `name` of cachewatch or of a loaded extension; None if there is none."""
    extension, _, rest = name.partition("/")
    package = extensions().loaded.get(extension) if rest else None
    file = files(package) / "templates" / rest if package else shipped_folder() / "templates" / name
    return file.read_text("utf-8") if file.is_file() else None


def shipped_schemas() -> Mapping[str, Traversable]:
    """Return the files of the JSON Schemas of command output, also those of loaded extensions, by name."""
    folders = [shipped_folder() / "config", *(files(package) / "schemas" for package in extensions().loaded.values())]
    found = {file.name: file for folder in folders if folder.is_dir() for file in folder.iterdir()}
    return {name.removesuffix(_SCHEMA): found[name] for name in sorted(found) if name.endswith(_SCHEMA)}


def demo_documents(week: str = "") -> dict[str, bytes]:
    """Return the bytes of the demo's documents by package, from the subfolder `week`; "" means as published."""
    folder = shipped_folder() / "demo" / week
    documents = (file for file in folder.iterdir() if file.name.endswith(".md"))
    return {file.name.removesuffix(".md"): file.read_bytes() for file in documents}
