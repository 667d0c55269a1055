"""Run git. GitPython is used here and nowhere else, and only to start processes.

Its own diff loses every change of a commit when one file name is odd, and its objects are
not safe to share; see docs/design.md. Here every command is a list, every name from outside
goes through standard input or after `--end-of-options`, the environment is made from
nothing, and nothing is ever checked out or written to a repository that is not ours.
"""

import configparser
import fcntl
import logging
import os
import re
import selectors
import signal
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from copy import copy
from functools import cache
from pathlib import Path
from threading import Thread, Timer
from typing import Any, BinaryIO, cast

# Looking for git is our own business, with our own words.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
# It would run `git version` with our whole environment, and the secrets that nobody has taken out of it yet.
os.environ["GIT_PYTHON_GIT_EXECUTABLE"] = os.devnull

import git
from git.exc import GitError
from msgspec import Struct

from cachewatch.errors import SourceError
from cachewatch.git.hardening import Version, check_version, fetches_by_itself, git_command
from cachewatch.git.repository_checks import check_repository

del os.environ["GIT_PYTHON_GIT_EXECUTABLE"]
# At DEBUG it writes the whole environment of each process into the log, and a proxy's password with it.
logging.getLogger("git").setLevel(logging.WARNING)

_VERSION_SECONDS = 10.0
_READING_SECONDS = 120.0
_PACKING_SECONDS = 3600.0
_PIPE_BYTES = 2**20
# What an empty pipe takes on every system without anybody at its other end.
_PIPE_LEAST = 4096
_ENDING_SECONDS = 5.0
_LARGEST = 32 * 2**20
_LONGEST_WORDS = 65536
_running: set[int] = set()
_handed_on: ContextVar[tuple[int, ...]] = ContextVar("handed_on", default=())


@cache
def git_version(path: str) -> Version:
    """Return the version of the git that is found on `path`."""
    command = ["env", "-i", f"PATH={path}", "git", "version"]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_VERSION_SECONDS)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(rb"git version (\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return tuple(int(part or 0) for part in found.groups()) if found else ()


def works(command: Sequence[str]) -> bool:
    """Tell whether a short command succeeds here; it hears and says nothing."""
    try:
        done = subprocess.run(  # noqa: S603
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_VERSION_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _version() -> Version:
    return git_version(os.environ.get("PATH", os.defpath))


class Object(Struct, frozen=True):
    """One object out of a repository."""

    id: str
    type: str
    content: bytes


class _Header(Struct, frozen=True):
    """What git says before an object."""

    id: str
    type: str
    size: int


class Repository:
    """A repository on this machine, read through git's plumbing."""

    is_ours = False  # or nobody else writes in it

    def __init__(self, path: Path) -> None:
        """Find the repository that `path` is in or is; bare and shallow ones are fine."""
        self.path = path
        self.git_dir = _find(path, is_ours=self.is_ours)
        self._objects: ObjectPipe | None = None

    def run(self, arguments: Sequence[str], lines: Iterable[str] = ()) -> bytes:
        """Run a git command that reads, with `lines` as its input, and return what it prints."""
        with _input(lines) as stdin:
            return _execute([*self._command(), *arguments], stdin, what=str(self.path))

    def objects(self) -> "ObjectPipe":
        """Return the pipe that objects are read through, which stays open."""
        if self._objects is None:
            self._objects = ObjectPipe([*self._command(), "cat-file", "--batch"], self.path)
        return self._objects

    def again(self) -> "Repository":
        """Return the same repository for the forked process that we are in, with git processes of its own."""
        if self._objects is not None:
            self._objects.abandon()
        return self.another()

    def another(self) -> "Repository":
        """Return the same repository with git processes of its own."""
        twin = copy(self)
        twin._objects = None  # noqa: SLF001  it is one of us
        return twin

    def obtain(self, ids: Iterable[str], tell: Callable[[int], None] = lambda _: None) -> None:
        """Make sure that these objects are here, and `tell` first how many are not; one that is not ours is left as it is."""

    def close(self) -> None:
        """End the git process that is still open, if any."""
        if self._objects is not None:
            self._objects.close()
            self._objects = None

    def _command(self) -> list[str]:
        return [*git_command(), f"--git-dir={self.git_dir}"]


class ObjectPipe:
    """One `git cat-file --batch`, asked for objects by name or, many at once, by id."""

    def __init__(self, command: list[str], path: Path) -> None:
        self._path = path
        # -1 is subprocess.PIPE. GitPython's guard ends the process when it is forgotten itself.
        self._guard = git.Git().execute(command, istream=-1, as_process=True)
        self._process: Any = self._guard.proc
        _widen(self._process)

    def get(self, name: str, *, most: int = _LARGEST) -> Object | None:
        """Return the object that `name` names in git's own notation, or None.

        Raises SourceError where it has more than `most` bytes, without holding them.
        """
        if "\n" in name or "\0" in name:
            return None
        self._write(_lines([name]))
        header = self._header()
        if header is None:
            return None
        content = self._content(header, most)
        if content is None:
            raise SourceError(f"{self._path}: object {header.id} has {header.size:,} bytes; that is no catalogue")
        return Object(header.id, header.type, content)

    def stream(self, ids: Iterable[str], *, kind: str) -> Iterator[bytes]:
        """Yield the contents of the objects with these ids, all of one kind, in their order."""
        for content in self.readable(ids, kind=kind, most=_LARGEST):
            if content is None:
                raise SourceError(f"{self._path}: a {kind} has more than {_LARGEST:,} bytes; that is no catalogue")
            yield content

    def readable(self, ids: Iterable[str], *, kind: str, most: int) -> Iterator[bytes | None]:
        """Do as `stream` does, but yield None for what has more than `most` bytes."""
        wanted = list(ids)
        writer = self._ask(wanted)
        for object_id in wanted:
            header = self._header()
            if header is None or header.id != object_id or header.type != kind:
                raise SourceError(
                    f"{self._path}: {kind} {object_id} is missing; the repository is damaged or incomplete; "
                    "fetch what it lacks, or give --repo the URL"
                )
            yield self._content(header, most)
        if writer is not None:
            writer.join()

    def close(self) -> None:
        """End the process."""
        _stop(self._process)

    def abandon(self) -> None:
        """Let go of a process that belongs to the process that we were forked from."""
        self._guard.proc = None  # or its end here would be git's end there
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with suppress(OSError):
                os.close(pipe.fileno())

    def _ask(self, names: Iterable[str]) -> Thread | None:
        """Ask for many objects; where it takes a thread, because git answers while we still ask, return that."""
        lines = _lines(names)
        if len(lines) <= _PIPE_LEAST:
            self._write(lines)
            return None
        writer = Thread(target=self._write, args=(lines,), daemon=True)
        writer.start()
        return writer

    def _write(self, lines: bytes) -> None:
        try:
            self._process.stdin.write(lines)
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # git ended; the reading side says why

    def _header(self) -> "_Header | None":
        """Read what git says before an object, or None if it has none."""
        line = self._process.stdout.readline()
        if not line:
            raise SourceError(f"{self._path}: {self._last_words()}")
        if line.endswith((b" missing\n", b" ambiguous\n")):
            return None
        object_id, object_type, size = line.decode().split()
        return _Header(object_id, object_type, int(size))

    def _content(self, header: "_Header", most: int) -> bytes | None:
        """Read an object, or pass over one of more than `most` bytes without holding it."""
        stdout, left = self._process.stdout, header.size
        content: bytes | None = None
        if left <= most:
            content = stdout.read(left)
            left -= len(content)
        while left > 0 and (passed := stdout.read(min(left, _PIPE_BYTES))):
            left -= len(passed)
        if stdout.read(1) != b"\n":
            raise SourceError(f"{self._path}: {self._last_words()}")
        return content

    def _last_words(self) -> str:
        with suppress(OSError):  # what was not taken cannot be flushed
            self._process.stdin.close()
        return explain(self._process.stderr.read())


def _lines(names: Iterable[str]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")


class GitResult(Struct, frozen=True):
    """How a git command ended, and everything that it said."""

    code: int  # negative is the signal that ended it
    output: bytes
    error: str


def ask(
    command: Sequence[str], lines: Iterable[str] = (), *, seconds: float, silence: float | None = None
) -> GitResult:
    """Run a git command for at most `seconds`, and leave the judgement to the caller.

    One that reports its progress is ended where it says nothing for the seconds of `silence`.
    """
    with _input(lines) as stdin, _started(command, stdin, seconds) as process:
        said = b"" if silence is None else _heard(process, silence)
        output, error = process.communicate()
    error = said + error
    return GitResult(process.returncode, bytes(output), error.decode("utf-8", "replace"))


def _heard(process: Any, silence: float) -> bytes:
    """Return the last that a process says of its progress, and end it where it says nothing for too long."""
    said = b""
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stderr, selectors.EVENT_READ)
        while waiting.select(silence):
            chunk = process.stderr.read1()
            if not chunk:
                return said
            said = (said + chunk)[-_LONGEST_WORDS:]
    _end(process)
    return said


def fetch(
    command: Sequence[str],
    lines: Iterable[str] = (),
    *,
    what: str,
    seconds: float,
    report: Callable[[str], None] | None = None,
) -> None:
    """Run a git command that fetches, for at most `seconds`, and pass on what it says of its progress."""
    said = b""
    with _input(lines) as stdin, _started(command, stdin, seconds) as process:
        while chunk := process.stderr.read1():
            said = (said + chunk)[-_LONGEST_WORDS:]
            if report:
                for line in re.split(rb"[\r\n]+", chunk):
                    report(line.decode("utf-8", "replace"))
        process.wait()
    if process.returncode:
        raise SourceError(f"{what}: {explain(said)}")


def make_repository(folder: Path, stream: Iterable[bytes], *, branch: str) -> None:
    """Make a bare repository at `folder` out of a stream for `git fast-import`."""
    init_repository(folder, branch=branch)
    with tempfile.TemporaryFile() as stdin:
        stdin.writelines(stream)
        import_stream(folder, cast("BinaryIO", stdin))


def init_repository(folder: Path, *, branch: str, locks: Collection[int] = ()) -> None:
    """Make an empty bare repository at `folder`, or finish making one; git holds `locks` meanwhile."""
    with _input(()) as stdin:
        _execute(
            [*git_command(), "init", "--quiet", "--bare", f"--initial-branch={branch}", str(folder)],
            stdin,
            what=str(folder),
            locks=locks,
        )


def import_stream(folder: Path, stream: BinaryIO, *, locks: Collection[int] = ()) -> None:
    """Put a stream for `git fast-import` into a bare repository; all of it or nothing, and on the disk.

    `locks` are files that git holds as well, so that a lock lasts until git has ended, even if we do before.
    """
    stream.flush()
    stream.seek(0)
    command = [*git_command(), "-c", "core.fsync=committed,reference", f"--git-dir={folder}"]
    # It would look for deltas between files that follow each other, of different packages, which have little in common.
    command += ["fast-import", "--quiet", "--done", "--depth=0"]
    _execute(command, stream, what=str(folder), seconds=_PACKING_SECONDS, locks=locks)


def pack(folder: Path, *, locks: Collection[int] = ()) -> None:
    """Put what many imports have left into fewer and smaller packs."""
    with _input(()) as stdin:
        command = [*git_command(), f"--git-dir={folder}", "repack", "--quiet", "-d", "-l", "--geometric=2"]
        _execute(command, stdin, what=str(folder), seconds=_PACKING_SECONDS, locks=locks)


def _execute(
    command: Sequence[str],
    stdin: BinaryIO,
    *,
    what: str,
    seconds: float = _READING_SECONDS,
    locks: Collection[int] = (),
) -> bytes:
    with _started(command, stdin, seconds, locks) as process:
        stdout, stderr = process.communicate()
    if process.returncode:
        raise SourceError(f"{what}: {explain(stderr)}")
    return bytes(stdout)


@contextmanager
def _started(command: Sequence[str], stdin: BinaryIO, seconds: float, locks: Collection[int] = ()) -> Iterator[Any]:
    """Start a process through GitPython, which ends after `seconds`, or with us."""
    check_version(_version())
    guard = git.Git().execute(
        list(command), istream=stdin, as_process=True, start_new_session=True, pass_fds=(*locks, *_handed_on.get())
    )
    process: Any = guard.proc
    # GitPython's own watchdog outlives an interrupted command, and holds the interpreter until it is due.
    watchdog = Timer(seconds, _signal, (process.pid, signal.SIGKILL))
    watchdog.daemon = True
    watchdog.start()
    _running.add(process.pid)
    try:
        yield process
    except BaseException:
        _end(process)  # Ctrl-C: git and what it started end with us
        raise
    finally:
        _running.discard(process.pid)
        watchdog.cancel()
        _stop(process)


@contextmanager
def handing_on(lock: int) -> Iterator[None]:
    """Let every git command that this thread runs meanwhile inherit a lock, which then lasts until all have ended."""
    token = _handed_on.set((*_handed_on.get(), lock))
    try:
        yield
    finally:
        _handed_on.reset(token)


def interrupt() -> None:
    """Ask every git command that runs in another thread to end now, as a service must that is told to stop."""
    for pid in tuple(_running):
        _signal(pid, signal.SIGTERM)


@contextmanager
def _input(lines: Iterable[str]) -> Iterator[BinaryIO]:
    """Offer `lines` to a process; a file, so that git can never wait for us while we wait for it."""
    with tempfile.TemporaryFile() as stdin:
        stdin.write(_lines(lines))
        stdin.seek(0)
        yield cast("BinaryIO", stdin)


def explain(stderr: bytes | str) -> str:
    """Choose the part of git's complaint that tells a person what is wrong."""
    text = stderr.decode("utf-8", "replace") if isinstance(stderr, bytes) else stderr
    if "No such file or directory" in text and text.startswith("env:"):
        return "git is not installed, or not on the PATH"
    if "promisor remote" in text:
        return "this partial clone lacks the contents of documents; fetch them, or give --repo the URL"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:", "Timeout:"))]
    chosen = (fatal or lines or ["git failed without a message"])[0]
    return chosen.removeprefix("fatal: ").removeprefix("error: ").rstrip(".")


def _widen(process: Any) -> None:
    """Let git run ahead while we work on what it read before; only Linux can."""
    with suppress(AttributeError, OSError):
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _end(process: Any) -> None:
    """Ask a process and all that it started to clean up and end; make it if it takes too long."""
    _signal(process.pid, signal.SIGTERM)
    try:
        process.wait(_ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        _signal(process.pid, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _stop(process: Any) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    process.terminate()
    process.wait()


def _find(path: Path, *, is_ours: bool) -> str:
    if not path.exists():
        raise SourceError(f"{path}: there is no such folder")
    version = _version()
    check_version(version)
    if not is_ours:
        check_repository(path, may_be_partial=not fetches_by_itself(version))
    try:
        with git.Repo(path.absolute(), search_parent_directories=True, expand_vars=False) as repository:
            return str(Path(repository.git_dir).absolute())
    except (GitError, OSError, ValueError, AttributeError, configparser.Error) as error:
        raise SourceError(
            f"{path}: not a git repository, or a damaged one; a catalogue is a git repository with a folder _cache"
        ) from error
