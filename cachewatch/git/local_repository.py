"""Open and read local repositories through git's plumbing commands, after checking that this is safe.

Nothing is ever checked out, and a user's repository is never written. Before git opens one, it is checked for pipes and
devices, on which git would hang. In a partial clone, a version of git is not started that would fetch missing objects
unasked, by whatever command the configuration names.
"""

import fcntl
import hashlib
import io
import os
import re
import select
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import copy
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any

from msgspec import Struct

from cachewatch.core.names_and_layouts import ANYWHERE, Layout
from cachewatch.documents.recognition_and_front_matter import MAX_BYTES
from cachewatch.errors import BrokenSource, SourceError
from cachewatch.git.git_processes import LONGEST_WORDS, Git, Process, check_version, explain, find_repository, lines_of
from cachewatch.runtime.files_and_locks import RefusedFile, check_regular, read_regular

_LARGEST_CONFIG = 2**20
_MOST_INCLUDED = 100
_INCLUDE = re.compile(r"\[\s*include", re.IGNORECASE)
_HOOK = re.compile(r"\[\s*hook[\s.\"\]]", re.IGNORECASE)
# Git obeys GIT_NO_LAZY_FETCH, so that it fetches no missing objects of a partial clone, from 2.45 on, and in older
# versions that were fixed in May 2024: 2.39.4, 2.40.2 and so on (second number: least third number).
_NOT_LAZY = {39: 4, 40: 2, 41: 1, 42: 2, 43: 4, 44: 1}
_PROMISE = re.compile(r"promisor|partialclone", re.IGNORECASE)
_TOO_OLD = (
    "and this git would run what its configuration says to fetch what it lacks; install git 2.45 or newer "
    "(or one fixed in May 2024, such as 2.39.4), or give --repo the URL"
)
_PATH = re.compile(r"path\s*=\s*(.*)", re.IGNORECASE)


def _check_repository(path: Path, version: tuple[int, ...]) -> None:
    """Raise BrokenSource if git of this `version` cannot safely open the repository at or above `path`."""
    # A git of this version may fetch missing objects of a partial clone by itself.
    is_lazy = not version or (version < (2, 45) and version[2] < _NOT_LAZY.get(version[1], 1000))
    try:
        for folder in _git_folders(path):
            _check_files(str(folder))
            texts = list(_configuration(folder))
            if is_lazy and any(map(_PROMISE.search, texts)):
                raise BrokenSource(f"{path}: is a partial clone, {_TOO_OLD}")
    except RefusedFile as error:
        raise BrokenSource(
            f"{error.filename}: {error.strerror}; git would wait for it for ever, and no git makes one"
        ) from error


def check_no_hooks(folder: Path) -> None:
    """Raise BrokenSource if the configuration of the bare repository `folder` names hooks, which git 2.54 would run."""
    try:
        if any(map(_HOOK.search, _configuration(folder))):
            raise BrokenSource(
                f"{folder}: its configuration names commands as hooks, which git 2.54 and newer would run; "
                "remove the sections [hook ...], or name another repository"
            )
    except RefusedFile as error:
        raise BrokenSource(f"{error.filename}: {error.strerror}; git would wait for it for ever") from error


def is_made(folder: Path) -> bool:
    """Tell whether `folder` is a complete repository, not one that a killed git was making."""
    return (folder / "HEAD").is_file() and (folder / "config").is_file() and (folder / "objects").is_dir()


def is_in_repository(path: Path) -> bool:
    """Tell, without starting git, whether `path` is or lies in a repository. Raises SourceError if it is unreadable."""
    try:
        return _git_folders(path) != []
    except RefusedFile:
        return True  # which opening it will explain
    except PermissionError as error:
        raise SourceError(f"{Path(error.filename).parent}: the folder cannot be read: {error.strerror}") from error


def _git_folders(path: Path) -> list[Path]:
    """Return the git folder at or above `path`, then the main one of a linked work tree; [] if there is none."""
    # Without links and `..`: where git would be if it were started there. `resolve` fails where links go in circles.
    path = Path(os.path.realpath(path))
    for folder in (path, *path.parents):
        dot_git = folder / ".git"
        for place in (folder, dot_git):
            for name in (".git", "HEAD", "commondir", "gitdir", "config"):
                check_regular(place / name)
        if dot_git.is_file():
            found = folder / _word(dot_git).removeprefix("gitdir: ")
        elif dot_git.is_dir():
            found = dot_git
        # The git folder of a linked work tree has no objects; it lies in that of the main one, which has another HEAD.
        elif (folder / "HEAD").is_file() and ((folder / "objects").is_dir() or (folder / "commondir").is_file()):
            found = folder
        else:
            continue
        shared = found / "commondir"
        check_regular(shared)
        return [found, found / _word(shared)] if shared.is_file() else [found]
    return []


def _word(path: Path) -> str:
    return os.fsdecode(read_regular(path, most=_LARGEST_CONFIG)).rstrip("\r\n")


def _check_files(folder: str) -> None:
    """Raise RefusedFile if any entry below `folder` is neither a file nor a folder."""
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                entries = list(found)
        except OSError:
            continue  # which git will say, if it needs it
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif not entry.is_file(follow_symlinks=False):
                check_regular(Path(entry.path))


def _configuration(folder: Path) -> Iterator[str]:
    """Yield the texts of the configuration files of the git folder `folder` and of all files that they include."""
    waiting, seen = [folder / "config", folder / "config.worktree"], set[Path]()
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        if len(seen) > _MOST_INCLUDED:
            raise BrokenSource(f"{folder}: its configuration includes more than {_MOST_INCLUDED} files; remove some")
        check_regular(file)
        if file.is_file():
            text = read_regular(file, most=_LARGEST_CONFIG).decode("utf-8", "replace")
            text = text.replace("\r\n", "\n").replace("\\\n", "")
            waiting += islice(_included(text, file.parent), _MOST_INCLUDED + 1)
            yield text


def _included(text: str, folder: Path) -> Iterator[Path]:
    """Yield the path of every file that `text`, a configuration in `folder`, includes, and perhaps of some others."""
    if not _INCLUDE.search(text):
        return
    for value in _PATH.findall(text.replace('"', "").replace("\\\\", "\\")):
        for name in {value.strip(), re.split("[;#]", value)[0].strip()} - {""}:
            if "\0" not in name:
                yield folder / os.path.expanduser(name)  # noqa: PTH111  a user that is not known is no error


_PIPE_BYTES = 2**20
_PIPE_LEAST = 4096  # the bytes that an empty pipe takes on every system before anybody reads them
_BUFFER_BYTES = 2**16
_ANSWER_SECONDS = 120.0
_ENDING_SECONDS = 5.0
FULL_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# Small objects by names that begin with a full id are kept: every subscription reads the same commits and folders.
_FULL_ID_FIRST = re.compile(rf"(?:{FULL_ID.pattern})(?=[~^:]|$)")
_MOST_KEPT, _KEPT_BYTES = 256, 16384


class Object(Struct, frozen=True):
    """One git object: a blob, tree or commit."""

    id: str
    type: str
    content: bytes


def object_id(kind: str, content: bytes, like: str) -> str:
    """Return the id that git gives to `content` of the type `kind`; any other id, `like`, tells the kind of hash."""
    algorithm = "sha256" if len(like) == 64 else "sha1"
    return hashlib.new(algorithm, f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()


class ObjectPipe:
    """A running `git cat-file --batch`, which returns single objects by name, or many objects by id."""

    def __init__(self, git: Git, path: Path) -> None:
        self._path = path
        self._process: Process = git.start(["cat-file", "--batch"])
        # A larger pipe lets git read ahead while we work; only Linux can set its size.
        with suppress(AttributeError, OSError):
            fcntl.fcntl(self._process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._requests = self._process.stdin
        self._said = _Answers(self._process, path)
        self._answers = io.BufferedReader(self._said, _BUFFER_BYTES)
        self._owner = os.getpid()
        self._kept: dict[str, Object] = {}

    def get(self, name: str, *, most: int = MAX_BYTES) -> Object | None:
        """Return the object that `name` means to git; None if there is none. Raises SourceError above `most` bytes."""
        if name in self._kept or "\n" in name or "\0" in name:
            return self._kept.get(name)
        self._write(lines_of([name]))
        header = self._header()
        if header is None:
            return None
        object_id, kind, size = header
        content = self._content(size, most)
        if len(content) < size:
            raise SourceError(f"{self._path}: object {object_id} has {size:,} bytes; that is no catalogue")
        found = Object(object_id, kind, content)
        begin = _FULL_ID_FIRST.match(name)
        if size <= _KEPT_BYTES and begin and len(begin[0]) == len(object_id):  # a branch may be called like a longer id
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[name] = found
        return found

    def stream(self, ids: Iterable[str], *, kind: str) -> Iterator[bytes]:
        """Yield the contents of the objects `ids`, all of type `kind`. Raises SourceError if one is missing."""
        for size, content in self._read(ids, kind, MAX_BYTES):
            if len(content) < size:
                raise SourceError(f"{self._path}: a {kind} has more than {MAX_BYTES:,} bytes; that is no catalogue")
            yield content

    def documents(self, ids: Iterable[str]) -> Iterator[bytes | None]:
        """Yield the contents of the blobs `ids`; None in place of one that is larger than documents may be."""
        return (content if len(content) == size else None for size, content in self._read(ids, "blob", MAX_BYTES))

    def beginnings(self, ids: Iterable[str], *, most: int) -> Iterator[bytes]:
        """Yield the beginning of each of the blobs `ids`: at most `most` bytes."""
        return (content for _, content in self._read(ids, "blob", most))

    def _read(self, ids: Iterable[str], kind: str, most: int) -> Iterator[tuple[int, bytes]]:
        """Yield size and first `most` bytes of each object in `ids`, of type `kind`. Raises SourceError if not here."""
        wanted = list(ids)
        # In a thread, because git answers while we still ask; but few names fit into an empty pipe.
        lines = lines_of(wanted)
        writer = Thread(target=self._write, args=(lines,), daemon=True)
        (writer.start if len(lines) > _PIPE_LEAST else writer.run)()
        for object_id in wanted:
            header = self._header()
            if header is None or header[:2] != (object_id, kind):
                raise SourceError(
                    f"{self._path}: {kind} {object_id} is missing; the repository is damaged or incomplete; "
                    "fetch what it lacks, or give --repo the URL"
                )
            yield header[2], self._content(header[2], most)
        if writer.is_alive():
            writer.join()

    def close(self) -> None:
        """End the git process."""
        self._process.end()

    def abandon(self) -> None:
        """In a forked process, close the pipes to git, which is the parent's child; otherwise do nothing."""
        if self._owner == os.getpid() or self._process.proc is None:
            return
        self._process.poll()  # which finds that it is no child of ours
        with Path(os.devnull).open("r+b") as nothing:
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                os.dup2(nothing.fileno(), pipe.fileno(), inheritable=False)

    def _write(self, lines: bytes) -> None:
        with suppress(BrokenPipeError, ValueError):  # git ended; reading its output raises the error
            self._requests.write(lines)
            self._requests.flush()

    def _header(self) -> tuple[str, str, int] | None:
        """Read and return the id, type and size that git prints before an object; None if it has no such object."""
        line = self._answers.readline()
        if not line:
            raise SourceError(f"{self._path}: {self._last_words()}")
        if line.endswith((b" missing\n", b" ambiguous\n")):
            return None
        object_id, object_type, size = line.decode().split()
        return object_id, object_type, int(size)

    def _content(self, size: int, most: int) -> bytes:
        """Read an object's content of `size` bytes; return the first `most` bytes, and skip the rest."""
        content: bytes = self._answers.read(min(size, most))
        left = size - len(content)
        while left > 0 and (passed := self._answers.read(min(left, _PIPE_BYTES))):
            left -= len(passed)
        if self._answers.read(1) != b"\n":
            raise SourceError(f"{self._path}: {self._last_words()}")
        return content

    def _last_words(self) -> str:
        if self._process.proc is not None:
            with suppress(OSError):  # buffered input cannot be flushed to an ended process
                self._requests.close()
            self._process.seconds = _ENDING_SECONDS
            self._said.messages += self._process.listen().error
        return explain(self._said.messages)


class _Answers(io.RawIOBase):
    """The output of git as a stream. Collects git's messages meanwhile, so that git never waits for a reader."""

    def __init__(self, process: Process, path: Path) -> None:
        self._process, self._path, self.messages = process, path, ""
        self._answers, self._errors = process.stdout.fileno(), process.stderr.fileno()
        self._waiting = select.poll()
        for handle in (self._answers, self._errors):
            self._waiting.register(handle, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read git's output into `buffer`; return how many bytes. Raises SourceError after two silent minutes."""
        if self._process.proc is None:
            return 0  # it has ended, and the numbers of its pipes may be those of other files
        while ready := dict(self._waiting.poll(_ANSWER_SECONDS * 1000)):
            if self._errors in ready:
                messages = os.read(self._errors, _BUFFER_BYTES).decode("utf-8", "replace")
                self.messages = (self.messages + messages)[-LONGEST_WORDS:]
                if not messages:
                    self._waiting.unregister(self._errors)
            if self._answers in ready:
                return os.readv(self._answers, [buffer])
        raise SourceError(f"{self._path}: git did not answer within {_ANSWER_SECONDS:.0f} seconds")


class Repository:
    """A local repository, read through git's plumbing commands."""

    def __init__(
        self,
        path: Path,
        layout: Layout = ANYWHERE,  # of its documents
        *,
        is_ours: bool = False,  # only cachewatch writes it
        folder: Path | None = None,  # a plain folder whose files this temporary repository has; messages name it
        # Takes ids and a function; calls the function with the number of missing objects, and fetches these.
        obtain: Callable[..., None] = lambda *_: None,
        fetch_tag: Callable[[str], bool] = lambda _: False,  # fetches a git tag; tells whether there is one
    ) -> None:
        """Open the repository at or above `path`. Raises SourceError if there is none, or if git must not open it."""
        if not path.exists():
            raise SourceError(f"{path}: there is no such folder")
        version = check_version()
        if not is_ours:
            _check_repository(path, version)
        self.path, self.is_folder, self.layout = folder or path, folder is not None, layout
        self.obtain, self.fetch_tag = obtain, fetch_tag
        found = find_repository(path, is_inside=not is_ours)
        self.git_dir = os.path.realpath(found.git_dir)
        self.shared_git_dir = Path(found.common_dir).resolve()  # of all work trees
        self._git = Git(git_dir=self.git_dir, what=str(self.path))
        self.run = self._git.run  # only commands that read
        self._objects: ObjectPipe | None = None

    @property
    def prefix(self) -> str:
        """The beginning of messages about this repository; "" if it is the current folder."""
        return "" if self.path == Path() else f"{self.path}: "

    def objects(self) -> ObjectPipe:
        """Return the pipe that reads objects; it is started once and stays open."""
        if self._objects is None:
            self._objects = ObjectPipe(self._git, self.path)
        return self._objects

    def reopened(self) -> "Repository":
        """Return a copy with a git of its own. A forked process calls this, as it must not share its parent's git."""
        if self._objects is not None:
            self._objects.abandon()
        twin = copy(self)
        twin._objects = None  # noqa: SLF001  it is one of us
        return twin

    def close(self) -> None:
        """End the git process, if one is running."""
        if self._objects is not None:
            self._objects.close()
            self._objects = None
