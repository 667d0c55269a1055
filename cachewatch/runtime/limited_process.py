"""A process that works within limits of memory and time, and is replaced when it ends.

It is forked where this process has no other threads, whose locks a fork would take along; else it
comes from a server of multiprocessing, which has none.
"""

import gc
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import ceil
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

from msgspec import Struct

from cachewatch.errors import CachewatchError, SourceError, WorkerEnded, WorkFailed

Result = TypeVar("Result")

_OUT_OF_MEMORY = 97  # exit code
_BEAT = 0.25  # seconds between two looks whether we are to end
# Others may use the processor too.
_PATIENCE = 4.0
_LEAST_PATIENCE = 20.0  # seconds
_STANDARD = range(3)
# What every worker needs and takes long to load.
_PRELOADED = [
    "__main__",
    "cachewatch.diff",
    "cachewatch.core.compare.added_and_removed",
    "cachewatch.render.digest_collector",
    "cachewatch.environments.revision_changes",
]


class Limits(Struct, frozen=True, kw_only=True):
    """What a worker may take."""

    megabytes: int = 1024  # of address space, beyond what it begins with
    seconds: float = 10.0  # of processor time for one piece of work
    seconds_per_megabyte: float = 10.0  # more, for each megabyte of it

    def processor_seconds(self, size: int) -> float:
        """Return how long work on so many bytes may take."""
        return self.seconds + self.seconds_per_megabyte * size / 2**20


class Worker:
    """Does one thing after the other in another process, which begins when it is needed."""

    # A fork of a large process takes long, and makes it slower afterwards: each page is copied when it is written.
    may_fork = True

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        go_on: Callable[[], None] = lambda: None,
    ) -> None:
        """Make nothing yet.

        `go_on` is called here, several times a second while work is done, and may raise to end it.
        """
        self._limits = limits or Limits()
        self._go_on = go_on
        self.used = 0.0  # seconds of processor time, of all work
        self._process: Any = None
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Begin at once where that is cheap, which it is no more when there are threads."""
        if self._forks():
            self._started()

    def seconds_for(self, size: int) -> float:
        """Return how many seconds of processor time work on so many bytes may take."""
        return self._limits.processor_seconds(size)

    def do(
        self,
        function: Callable[..., Result],
        *arguments: object,
        size: int = 0,
        seconds: float | None = None,
    ) -> Result:
        """Return what `function` returns for `arguments`, about `size` bytes; all of it must be picklable.

        It may take so many `seconds` of processor time, by default as many as its size allows.
        Raises WorkerEnded where it ended the process, and WorkFailed where it raised something unexpected,
        or where something else may have kept or ended the process; what it raises as a CachewatchError is raised here.
        """
        seconds = self.seconds_for(size) if seconds is None else seconds
        try:
            answer, error, used = self._asked((function, arguments, seconds), seconds)
        except _KilledFromOutside:
            answer, error, used = self._asked((function, arguments, seconds), seconds)
        self.used += used
        if error is not None:
            raise error
        result: Result = answer
        return result

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None and self._process.pid is not None:
            self._process.kill()
            self._process.join()
        self._process = self._connection = None

    def _asked(self, question: object, seconds: float) -> Any:
        connection = self._started()
        begun = time.monotonic()
        try:
            connection.send(question)
            self._wait(connection, max(seconds * _PATIENCE, _LEAST_PATIENCE))
            return connection.recv()
        except (EOFError, ConnectionError):
            self.used += min(seconds + 1, time.monotonic() - begun)  # nobody knows how much it was
            raise self._death(seconds) from None
        except BaseException:
            self.close()
            raise

    def _started(self) -> Connection:
        if self._connection is None:
            try:
                self._begin()
            except OSError as error:
                self.close()
                raise SourceError(f"no process can be started that reads documents: {error}") from error
        assert self._connection is not None
        return self._connection

    def _forks(self) -> bool:
        return self.may_fork and threading.active_count() == 1

    def _begin(self) -> None:
        method = "fork" if self._forks() else "forkserver"
        context: Any = get_context(method)
        if method == "forkserver":
            context.set_forkserver_preload(_PRELOADED)
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self._limits.megabytes), daemon=True)
        self._process.start()
        other.close()

    def _wait(self, connection: Connection, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not connection.poll(_BEAT):
            self._go_on()
            if time.monotonic() > end:
                raise WorkFailed(f"reading it took more than {seconds:.0f} seconds")

    def _death(self, seconds: float) -> WorkFailed:
        """Bury the process, and say what it died of."""
        process, self._process = self._process, None
        self.close()
        process.join()
        code: int = process.exitcode
        if code == -signal.SIGKILL:
            return _KilledFromOutside("the process that read it was killed, perhaps for want of memory")
        if code == -signal.SIGXCPU:
            return WorkerEnded(f"reading it took more than {seconds:.0f} seconds of processor time")
        if code == _OUT_OF_MEMORY:
            return WorkerEnded(f"reading it took more than {self._limits.megabytes} MB of memory")
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return WorkerEnded(f"the process that read it ended with {name}")


class _KilledFromOutside(WorkFailed):
    """Perhaps it had nothing to do with the work."""


def _serve(connection: Connection, megabytes: int) -> None:
    """Do what is asked for until nobody is there to ask."""
    _leave_alone(connection.fileno())
    _limit_memory(megabytes)
    with suppress(EOFError, ConnectionError):
        while True:
            try:
                function, arguments, seconds = connection.recv()
                _limit_time(seconds)
                begun = time.process_time()
                answer, error = _answer(function, arguments)
                connection.send((answer, error, time.process_time() - begun))
            except MemoryError:
                _end(_OUT_OF_MEMORY)


def _answer(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, Exception | None]:
    try:
        return function(*arguments), None
    except CachewatchError as error:
        return None, error
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  one document must not stop all others
        return None, WorkFailed(f"cachewatch failed on it: {error!r}; please report it")


def _leave_alone(ours: int) -> None:
    """Let go of what a fork took along: nothing of it is ours to use, close properly, or keep open."""
    gc.freeze()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the process that asks; its end ends this one
    signal.set_wakeup_fd(-1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in _STANDARD:
        os.dup2(nowhere, standard)
    os.closerange(len(_STANDARD), ours)
    os.closerange(ours + 1, os.sysconf("SC_OPEN_MAX"))


def _limit_memory(megabytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError):  # not every system knows how much there is already, or counts it
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        limit = pages * resource.getpagesize() + megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _limit_time(seconds: float) -> None:
    """Let the system end this process when it has used so much more processor time."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (ceil(time.process_time() + seconds), most))


def _end(code: int) -> NoReturn:
    os._exit(code)
