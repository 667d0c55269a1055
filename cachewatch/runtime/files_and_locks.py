"""Write files atomically, read those that others may have written, open lock files, find files of this package.

Readers see the old file or the whole new one, also after a power cut. Nothing is written through a symbolic link below
the folder that the operator named, and no lock is taken in a link or in anything but a regular file.

Where others may write, a link may lead elsewhere inside its folder, as in a mounted ConfigMap, but never out of it;
otherwise they could make this process publish any file that it may read. A pipe or a device is never opened, so that
no read waits for it, and files and unpacked data have a size limit.

The templates, schemas and sample documents of cachewatch are beside the package in a checkout and inside it in a wheel.
An extension has `templates/` and `schemas/` in its package; its templates have its name as a prefix
(`site/index.html.j2`).
"""

import errno
import os
import pwd
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO
from pathlib import Path

from cachewatch.hooks import extensions

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
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
        with _entered(os.open(base, _FOLDER), path.parent.relative_to(base).parts, _open_below) as folder:
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
    """Yield a descriptor of the folder `path`; make missing folders from `base` down, for files of permissions `mode`.

    Raises OSError if a folder below `base` is a link.
    """
    top = _made_and_opened(str(base), None, mode=mode)
    with _entered(top, path.relative_to(base).parts, partial(_made_and_opened, mode=mode)) as folder:
        about = os.fstat(folder)
        if about.st_mode & stat.S_IWOTH and not about.st_mode & stat.S_ISVTX:
            raise PermissionError(errno.EPERM, f"everybody may write in it; run: chmod o-w {path}")
        yield folder


@contextmanager
def _entered(folder: int, parts: Iterable[str], enter: Callable[[str, int], int]) -> Iterator[int]:
    """Open the nested folders `parts` below the descriptor `folder` by `enter(name, parent)`; yield the last one."""
    try:
        for part in parts:
            below = enter(part, folder)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def _open_below(name: str, folder: int) -> int:
    return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)


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
    """Open or make the folder `name` in `folder` (None: `name` is a path), and return its descriptor.

    A new folder can be entered by everybody who may read files of `mode`.
    """
    flags = _FOLDER if folder is None else _FOLDER | os.O_NOFOLLOW
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=folder)
        handle = os.open(name, flags, dir_fd=folder)
        os.fchmod(handle, mode | (mode & 0o444) >> 2)  # who may read the files may enter
        above = os.open("..", _FOLDER, dir_fd=handle)
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
    """Return the bytes of the demo's documents, by package, from its subfolder `week` ("": the published documents)."""
    folder = shipped_folder() / "demo" / week
    documents = (file for file in folder.iterdir() if file.name.endswith(".md"))
    return {file.name.removesuffix(".md"): file.read_bytes() for file in documents}


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
    with _entered(os.open(base, _FOLDER | os.O_NOFOLLOW), inside.parts[:-1], _open_below) as place:
        _check(os.stat(inside.name, dir_fd=place, follow_symlinks=False), path)
        handle = os.open(inside.name, _FILE, dir_fd=place)
    return _content(handle, path, most)


def folder_around(path: Path, folders: Iterable[Path]) -> Path | None:
    """Return the first of `folders` that contains `path`, judged by names only, without following links."""
    place = Path(os.path.normpath(path))
    return next((folder for folder in folders if place.is_relative_to(os.path.normpath(folder))), None)


def read_regular(path: Path, *, most: int) -> bytes:
    """Return the content of `path` as `read_inside` does, but follow all links: the content must never be published."""
    _check(path.stat(), path)
    return _content(os.open(path, _FILE & ~os.O_NOFOLLOW), path, most)


def read_beginning(name: str, most: int, *, opening: bytes = b"") -> bytes:
    """Return the first `most` bytes of the file `name`, only 16 if `opening` is not in these. Links are followed."""
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
