"""Read objects through one git process that stays open."""

import fcntl
import io
import os
import re
import select
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO, TypeVar, cast
from weakref import finalize

from msgspec import Struct

from cachewatch.errors import SourceError
from cachewatch.git.hardening import Command
from cachewatch.git.processes import Process, explain, last_words, lines_of, open_process, stop

_PIPE_BYTES = 2**20
# What an empty pipe takes on every system without anybody at its other end.
_PIPE_LEAST = 4096
_LARGEST = 32 * 2**20
_BUFFER_BYTES = 2**16
_ANSWER_SECONDS = 120.0
# A whole id, and what is reached from it, means the same for ever; a branch whose name only looks like one does not.
# Every subscription asks for the same commits and folders.
_FOREVER = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})(?=[~^:]|$)")
_REMEMBERED = 256
_REMEMBERED_BYTES = 16384

_Content = TypeVar("_Content")


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


class ObjectPipe:
    """One `git cat-file --batch`, asked for objects by name or, many at once, by id."""

    def __init__(self, command: Command, path: Path) -> None:
        self._path = path
        # A file, so that git never waits until somebody reads its messages.
        self._messages = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115
        try:
            self._process = open_process(command, messages=self._messages)
        except SourceError:
            self._messages.close()
            raise
        self._answers = io.BufferedReader(_Answers(self._process.stdout.fileno(), path), _BUFFER_BYTES)
        self._owner = os.getpid()
        # Who forgets the pipe without closing it leaves no process behind.
        self._stop = finalize(self, _stop, self._process, self._messages)
        _widen(self._process)
        self._known: dict[str, Object] = {}

    def get(self, name: str, *, most: int = _LARGEST) -> Object | None:
        """Return the object that `name` names in git's own notation, or None.

        Raises SourceError where it has more than `most` bytes, without holding them.
        """
        if "\n" in name or "\0" in name:
            return None
        known = self._known.get(name)
        if known is not None and len(known.content) <= most:
            return known
        self._write(lines_of([name]))
        header = self._header()
        if header is None:
            return None
        content = self._content(header, most)
        if content is None:
            raise SourceError(f"{self._path}: object {header.id} has {header.size:,} bytes; that is no catalogue")
        found = Object(header.id, header.type, content)
        whole = _FOREVER.match(name)
        if header.size <= _REMEMBERED_BYTES and whole is not None and len(whole[1]) == len(header.id):
            self._remember(name, found)
        return found

    def stream(self, ids: Iterable[str], *, kind: str) -> Iterator[bytes]:
        """Yield the contents of the objects with these ids, all of one kind, in their order."""
        for content in self.readable(ids, kind=kind, most=_LARGEST):
            if content is None:
                raise SourceError(f"{self._path}: a {kind} has more than {_LARGEST:,} bytes; that is no catalogue")
            yield content

    def readable(self, ids: Iterable[str], *, kind: str, most: int) -> Iterator[bytes | None]:
        """Do as `stream` does, but yield None for what has more than `most` bytes."""
        return self._read(ids, kind, lambda header: self._content(header, most))

    def beginnings(self, ids: Iterable[str], *, most: int) -> Iterator[bytes]:
        """Yield the first `most` bytes of each of these blobs."""
        return self._read(ids, "blob", lambda header: self._beginning(header, most))

    def _read(self, ids: Iterable[str], kind: str, content_of: Callable[[_Header], _Content]) -> Iterator[_Content]:
        wanted = list(ids)
        writer = self._ask(wanted)
        for object_id in wanted:
            header = self._header()
            if header is None or header.id != object_id or header.type != kind:
                raise SourceError(
                    f"{self._path}: {kind} {object_id} is missing; the repository is damaged or incomplete; "
                    "fetch what it lacks, or give --repo the URL"
                )
            yield content_of(header)
        if writer is not None:
            writer.join()

    def close(self) -> None:
        """End the process."""
        self._stop()

    def _remember(self, name: str, found: Object) -> None:
        if len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[name] = found

    def abandon(self) -> None:
        """Let go of git where it belongs to the process that we were forked from."""
        if self._owner == os.getpid():
            return
        self._stop.detach()  # or our end would be git's end there
        self._process.poll()  # which finds that it is no child of ours
        for pipe in (self._process.stdin, self._process.stdout, self._messages):
            with suppress(OSError):
                os.close(pipe.fileno())

    def _ask(self, names: Iterable[str]) -> Thread | None:
        """Ask for many objects; where it takes a thread, because git answers while we still ask, return that."""
        lines = lines_of(names)
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
        line = self._answers.readline()
        if not line:
            raise SourceError(f"{self._path}: {self._last_words()}")
        if line.endswith((b" missing\n", b" ambiguous\n")):
            return None
        object_id, object_type, size = line.decode().split()
        return _Header(object_id, object_type, int(size))

    def _content(self, header: "_Header", most: int) -> bytes | None:
        """Read an object, or pass over one of more than `most` bytes without holding it."""
        content = self._beginning(header, most if header.size <= most else 0)
        return content if header.size <= most else None

    def _beginning(self, header: _Header, most: int) -> bytes:
        """Read the first `most` bytes of an object, and pass over the others without holding them."""
        answers = self._answers
        content: bytes = answers.read(min(header.size, most))
        left = header.size - len(content)
        while left > 0 and (passed := answers.read(min(left, _PIPE_BYTES))):
            left -= len(passed)
        if answers.read(1) != b"\n":
            raise SourceError(f"{self._path}: {self._last_words()}")
        return content

    def _last_words(self) -> str:
        with suppress(OSError):  # what was not taken cannot be flushed
            self._process.stdin.close()
        return explain(last_words(self._process, self._messages))


class _Answers(io.RawIOBase):
    """What git prints; raises SourceError where it prints nothing for two minutes."""

    def __init__(self, handle: int, path: Path) -> None:
        self._handle, self._path = handle, path
        self._waiting = select.poll()
        self._waiting.register(handle, select.POLLIN)

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what there is, and wait where there is nothing yet."""
        if not self._waiting.poll(_ANSWER_SECONDS * 1000):
            raise SourceError(f"{self._path}: git did not answer within {_ANSWER_SECONDS:.0f} seconds")
        return os.readv(self._handle, [buffer])


def _stop(process: Process, messages: BinaryIO) -> None:
    stop(process)
    messages.close()


def _widen(process: Process) -> None:
    """Let git run ahead while we work on what it read before; only Linux can."""
    with suppress(AttributeError, OSError):
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
