"""Add revisions to a bare repository by git fast-import, each completely or not at all."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, cast

from cachewatch.errors import SourceError, UsageError, explained
from cachewatch.git.clone_locks_and_disk_space import RECORDING_LOCK, try_lock
from cachewatch.git.git_processes import Git, handing_on, init_repository
from cachewatch.git.local_repository import Object, Repository, check_no_hooks, is_made, object_id
from cachewatch.git.revision_names_and_times import time_of
from cachewatch.runtime.files_and_locks import open_lock

AUTHOR = "cachewatch <cachewatch@localhost>"
BRANCH = "main"
_BRANCHES = "refs/heads/"
_PACKING_SECONDS = 3600.0


def data_of(content: bytes) -> bytes:
    """Return the command of `git fast-import` that contains the data `content`."""
    return f"data {len(content)}\n".encode() + content + b"\n"


def quoted(path: str) -> str:
    """Return `path` quoted for `git fast-import`."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


# Lock files that a killed git may leave. All writers inherit our lock, so whoever gets it knows that no git uses them.
_LEFT = ("HEAD.lock", "config.lock", "refs/heads/**/*.lock")
_PATIENCE_SECONDS = 5.0
_MOST_PACKS = 30
_MOST_LOOSE = 2000


@contextmanager
def open_recording(folder: Path) -> Iterator["Recording"]:
    """Open or make a bare repository to add revisions to. Raises UsageError if unsuitable, SourceError if locked."""
    if (folder / ".git").exists():
        raise UsageError(f"{folder}: has a work tree, which would not follow; name a bare repository or a new folder")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is not a folder")
    is_ours = (folder / "HEAD").is_file() or (folder / RECORDING_LOCK).is_file()
    if folder.is_dir() and not is_ours and any(folder.iterdir()):
        raise UsageError(f"{folder}: is not a repository and not empty; name one, or a folder that does not exist yet")
    check_no_hooks(folder)
    with explained(SourceError, str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        with os.fdopen(open_lock(folder / RECORDING_LOCK, mode=0o666), "r+b") as lock, handing_on(lock.fileno()):
            if not try_lock(lock.fileno(), _PATIENCE_SECONDS):  # a git that was left behind may take a moment to end
                raise SourceError(f"{folder}: another cachewatch is recording here; try again later")
            for left in [path for pattern in _LEFT for path in folder.glob(pattern)]:
                left.unlink(missing_ok=True)
            if not is_made(folder):
                init_repository(folder, branch=BRANCH)
            with closing(Recording(folder)) as recording:
                yield recording


class Recording:
    """Reads the newest revision of a repository that cachewatch records, and writes the next one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._repository = Repository(folder)
        if Path(self._repository.git_dir).resolve() != folder.resolve():
            raise UsageError(f"{folder}: is not a bare repository; name one, or a folder that does not exist yet")
        self._stream = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115  closed by close()
        self._marks = 0
        self._changes: dict[str, int | None] = {}
        head_ref = (folder / "HEAD").read_text("utf-8").strip()
        if not head_ref.startswith(f"ref: {_BRANCHES}"):
            raise UsageError(f"{folder}: its HEAD is no branch, to which a revision could be added")
        self._branch = head_ref.removeprefix("ref: ")
        newest = self._read_head()
        if newest and f"\ncommitter {AUTHOR} ".encode() not in newest.content.partition(b"\n\n")[0]:
            self.close()
            raise UsageError(
                f"{folder}: its newest revision was not recorded by cachewatch; name a repository of its own"
            )

    def files(self, folder: str = "") -> Mapping[str, str]:
        """Return the ids of all files below `folder` in the newest revision, by path relative to `folder`."""
        found = self._repository.objects().get(f"{self.head}:{folder}") if self.head else None
        if found is None or found.type != "tree":
            return {}
        listed = self._repository.run(["ls-tree", "-r", "-z", found.id]).split(b"\0")
        entries = (entry.partition(b"\t") for entry in listed if entry)
        return {os.fsdecode(path): fields.split()[2].decode() for fields, _, path in entries}

    def read(self, ids: Sequence[str]) -> Iterator[bytes]:
        """Yield the contents of the documents `ids`, without those that are too large."""
        return (content for content in self._repository.objects().documents(ids) if content is not None)

    def file(self, path: str) -> bytes | None:
        """Return the content of the file `path` in the newest revision; None if there is no such file."""
        found = self._repository.objects().get(f"{self.head}:{path}") if self.head else None
        return found.content if found is not None and found.type == "blob" else None

    def id_of(self, content: bytes) -> str:
        """Return the id that git gives to a file with this content."""
        return object_id("blob", content, self.head or "")

    def write(self, path: str, content: bytes) -> None:
        """Add the file `path` with this content to the next revision, or replace it there."""
        self._marks += 1
        self._stream.write(f"blob\nmark :{self._marks}\n".encode())
        self._stream.write(data_of(content))
        self._changes[path] = self._marks

    def remove(self, path: str) -> None:
        """Remove the file `path` from the next revision."""
        self._changes[path] = None

    def commit(self, message: str, now: datetime) -> str | None:
        """Commit the next revision, dated `now` or later, and return its id; None if nothing was written or removed."""
        if not self._changes:
            return None
        # Dates of revisions are looked up, so that they never go backwards.
        seconds = int(max(now, self._time or now).timestamp())
        self._stream.write(f"commit {self._branch}\ncommitter {AUTHOR} {seconds} +0000\n".encode())
        self._stream.write(data_of(message.encode()))
        if self.head is not None:
            self._stream.write(f"from {self.head}\n".encode())
        for path, mark in sorted(self._changes.items()):
            change = f"D {quoted(path)}\n" if mark is None else f"M 100644 :{mark} {quoted(path)}\n"
            self._stream.write(change.encode())
        self._stream.write(b"\ndone\n")
        import_stream(self.folder, self._stream)
        self._changes = {}
        self._repository.close()  # git does not look for new packs while it runs
        self._read_head()
        with suppress(SourceError):  # the revision is there; the next one tidies up
            counted = dict(line.split(b": ") for line in self._repository.run(["count-objects", "-v"]).splitlines())
            if int(counted[b"packs"]) > _MOST_PACKS or int(counted[b"count"]) > _MOST_LOOSE:
                git = Git(git_dir=self._repository.git_dir, seconds=_PACKING_SECONDS)
                git.run(["repack", "--quiet", "-d", "-l", "--geometric=2"])
        return self.head

    def close(self) -> None:
        """End the git process, and discard everything that was not committed."""
        self._stream.close()
        self._repository.close()

    def _read_head(self) -> Object | None:
        """Return the newest commit, or None if there is none; remember its id and time."""
        newest = self._repository.objects().get(f"{self._branch}^{{commit}}")
        self.head, self._time = newest.id if newest else None, time_of(newest)
        return newest


def import_stream(folder: Path, stream: BinaryIO) -> None:
    """Import `stream` (input of `git fast-import`) into the repository `folder`, all or nothing; sync it to disk."""
    stream.flush()
    stream.seek(0)
    durable = [("core.fsync", "committed,reference")]
    git = Git(git_dir=folder.absolute(), what=str(folder), settings=durable, seconds=_PACKING_SECONDS)
    # It would look for deltas between files that follow each other, of different packages, which have little in common.
    git.execute(["git", "fast-import", "--quiet", "--done", "--depth=0"], stream)
