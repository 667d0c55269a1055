"""Write revisions into a repository without a work tree, by git fast-import."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from cachewatch.git.making_repository import make_repository

AUTHOR = "cachewatch <cachewatch@localhost>"


class NewRevision(Struct, frozen=True, kw_only=True):
    """A revision to be: what it adds or replaces, and what it removes."""

    message: str
    time: datetime
    files: Mapping[str, bytes]
    removed: tuple[str, ...] = ()


def write_repository(folder: Path, revisions: Iterable[NewRevision]) -> None:
    """Make a bare repository at `folder` of these revisions; the same revisions give the same commits."""
    make_repository(folder, _stream(revisions), branch="main")


def _stream(revisions: Iterable[NewRevision]) -> Iterator[bytes]:
    for revision in revisions:
        yield b"commit refs/heads/main\n"
        yield f"committer {AUTHOR} {int(revision.time.timestamp())} +0000\n".encode()
        yield data_of(revision.message.encode())
        for path in revision.removed:
            yield f"D {quoted(path)}\n".encode()
        for path, content in sorted(revision.files.items()):
            yield f"M 100644 inline {quoted(path)}\n".encode()
            yield data_of(content)
        yield b"\n"
    yield b"done\n"


def data_of(content: bytes) -> bytes:
    """Return `content` as `git fast-import` takes it."""
    return f"data {len(content)}\n".encode() + content + b"\n"


def quoted(path: str) -> str:
    """Return `path` as `git fast-import` takes it."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
