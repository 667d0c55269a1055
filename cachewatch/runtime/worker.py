"""Run work in other processes: untrusted input with limits of memory and time, or items on several processors.

A worker process is forked if this process has no other threads, whose locks a fork would copy; otherwise
multiprocessing's fork server starts it. If work on a batch of items fails, it is repeated in halves, down to the single
items with which it fails; each of these is returned with the reason.
"""

import gc
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import ceil
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from msgspec import Struct

from cachewatch.errors import CachewatchError, OutOfTime, SourceError, WorkerEnded, WorkFailed

Result = TypeVar("Result")

_OUT_OF_MEMORY = 97  # exit code
_BEAT = 0.25  # seconds between two calls of `go_on`
# The wait for an answer, as a multiple of the processor time allowed: other processes may use the processor, too.
_PATIENCE = 4.0
_LEAST_PATIENCE = 20.0  # seconds
# Modules that every worker needs and that take long to load.
_PRELOADED = [
    "__main__",
    "cachewatch.comparison_flow",
    "cachewatch.core.comparison.package_changes",
    "cachewatch.report.diff_formats_and_alike_tags",
    "cachewatch.report.template_rendering",
    "cachewatch.environments",
    "cachewatch.service.passes_and_leadership",
]


class Limits(Struct, frozen=True, kw_only=True):
    """The memory and processor time that a worker may use."""

    megabytes: int = 1024  # of address space, beyond its initial size
    seconds: float = 10.0  # of processor time for one piece of work
    seconds_per_megabyte: float = 10.0  # in addition, for each megabyte of its input


class Worker:
    """Runs functions one after the other in another process, which is started when it is needed."""

    # A fork of a large process takes long, and makes it slower afterwards: each page is copied when it is written.
    may_fork = True

    def __init__(
        self, *, limits: Limits | None = None, go_on: Callable[[], None] = lambda: None, may_fork: bool = True
    ) -> None:
        """Start no process yet; later, fork it if `may_fork` and there are no threads, or else use a fork server.

        `go_on` is called several times a second during work; an error in it ends the work.
        """
        self._limits = limits or Limits()
        self.may_fork = may_fork and self.may_fork
        self._go_on = go_on
        self.used = 0.0  # seconds of processor time, of all work
        self._process: Any = None
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the process now if it can be forked; later there may be threads, which prevent that."""
        if self._forks():
            self._started()

    def seconds_for(self, size: int) -> float:
        """Return how many seconds of processor time work on `size` bytes of input may take."""
        return self._limits.seconds + self._limits.seconds_per_megabyte * size / 2**20

    def do(self, function: Callable[..., Result], *arguments: object, seconds: float | None = None) -> Result:
        """Return `function(*arguments)`, run in the process for at most `seconds` of processor time.

        All values must be picklable. Raises a CachewatchError of the function; WorkerEnded if the work crashed the
        process; WorkFailed if the process was killed or does not answer, or if the function raises another error.
        """
        seconds = self._limits.seconds if seconds is None else seconds
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
        """Kill the process, if there is one."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None and self._process.pid is not None:
            self._process.kill()
            self._process.join()
        self._process = self._connection = None

    def _asked(self, question: object, seconds: float) -> Any:
        connection, begun = self._started(), time.monotonic()
        patience = max(seconds * _PATIENCE, _LEAST_PATIENCE)
        try:
            connection.send(question)
            while not connection.poll(_BEAT):
                self._go_on()
                if time.monotonic() > begun + patience:
                    raise WorkFailed(f"reading it took more than {patience:.0f} seconds")
            return connection.recv()
        except (EOFError, ConnectionError):
            raise self._death(seconds, time.monotonic() - begun) from None
        except BaseException:
            self.close()
            raise

    def _forks(self) -> bool:
        return self.may_fork and threading.active_count() == 1

    def _started(self) -> Connection:
        if self._connection is not None:
            return self._connection
        context: Any = get_context("fork" if self._forks() else "forkserver")
        if not self._forks():
            context.set_forkserver_preload(_PRELOADED)
        try:
            self._connection, other = context.Pipe()
            self._process = context.Process(target=_serve, args=(other, self._limits.megabytes), daemon=True)
            self._process.start()
        except OSError as error:
            self.close()
            raise SourceError(f"no process can be started that reads documents: {error}") from error
        other.close()
        return self._connection

    def _death(self, seconds: float, elapsed: float) -> WorkFailed:
        """Return the error for a process that ended `elapsed` seconds after it began work that may take `seconds`."""
        process, self._process = self._process, None
        self.close()
        process.join()
        code: int = process.exitcode
        # The limit is in whole seconds; if it was not reached, it is unknown how much was used.
        self.used += ceil(seconds) if code == -signal.SIGXCPU else min(seconds, elapsed)
        if code == -signal.SIGKILL:
            return _KilledFromOutside("the process that read it was killed, perhaps for want of memory")
        if code == -signal.SIGXCPU:
            return WorkerEnded(f"reading it took more than {seconds:.0f} seconds of processor time")
        if code == _OUT_OF_MEMORY:
            return WorkerEnded(f"reading it took more than {self._limits.megabytes} MB of memory")
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return WorkerEnded(f"the process that read it ended with {name}")


class _KilledFromOutside(WorkFailed):
    """The process was killed by SIGKILL, perhaps not because of its work."""


def _serve(connection: Connection, megabytes: int) -> None:
    """Do the work that arrives on `connection`, with up to `megabytes` more memory, until the other end closes it."""
    _detach(connection.fileno())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError):  # not every system knows how much there is already, or counts it
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        limit = pages * resource.getpagesize() + megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with suppress(EOFError, ConnectionError):
        while True:
            try:
                function, arguments, seconds = connection.recv()
                _, most = resource.getrlimit(resource.RLIMIT_CPU)
                resource.setrlimit(resource.RLIMIT_CPU, (ceil(time.process_time() + seconds), most))
                begun = time.process_time()
                answer, error = _answer(function, arguments)
                connection.send((answer, error, time.process_time() - begun))
            except MemoryError:
                os._exit(_OUT_OF_MEMORY)


def _answer(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, Exception | None]:
    try:
        return function(*arguments), None
    except CachewatchError as error:
        return None, error
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  one document must not stop all others
        return None, WorkFailed(f"cachewatch failed on it: {error!r}; please report it")


def _detach(ours: int) -> None:
    """Close all inherited files but the descriptor `ours`, and reset signals: share nothing with the parent process."""
    gc.freeze()
    _reset_signals()
    signal.set_wakeup_fd(-1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):  # standard input, output and error
        os.dup2(nowhere, standard)
    os.closerange(3, ours)
    os.closerange(ours + 1, os.sysconf("SC_OPEN_MAX"))


def _reset_signals() -> None:
    """Remove inherited signal handlers, and ignore Ctrl-C: this process ends when its parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


Item = TypeVar("Item")
Work = Callable[[Sequence[Item]], Result]
Done = Iterator[tuple[Sequence[Item], Result | WorkFailed]]

_BATCH_BYTES = 4 * 2**20
_ALONE_BYTES = 2**20  # larger documents are tried alone, so that no others use their time
# The processor time for all work on one source in a pass, beyond the allowance for each piece of it. Usual work takes a
# tenth of that; documents that take longer were made to do so.
_BUDGET_SECONDS = 20.0
_SECONDS_A_PIECE, _SECONDS_A_MEGABYTE = 0.5, 0.5


class Piece(NamedTuple):
    """The object ids and the total size of the documents in one item of work."""

    versions: tuple[str, ...]  # the object ids of its documents
    size: int  # bytes


class Isolation:
    """Runs work on batches of items of one source: in a worker, which has a time limit, or else in this process."""

    def __init__(self, worker: Worker | None = None, refused: Mapping[str, str] | None = None) -> None:
        self._worker = worker
        # Documents that ended a worker, by object id, with the reason: they are not read again.
        self.refused = dict(refused or {})
        self._left = _BUDGET_SECONDS  # of processor time, so that other sources are not kept waiting

    def each(
        self, work: Work[Item, Result], items: Iterable[Item], about: Callable[[Item], Piece]
    ) -> Done[Item, Result]:
        """Yield batches of `items` in order with the result of `work`, or a single item with the error if it fails.

        `about` returns the size of an item and its object ids. For a worker, work, items and results must be picklable.
        """
        for batch in self._batches(items, about):
            refusal = self._refusal(about(batch[0]))
            waiting: list[Sequence[Item]] = [batch]
            while waiting:
                part = waiting.pop()
                result = WorkerEnded(refusal) if refusal else self._tried(work, part, about)
                if isinstance(result, WorkFailed) and len(part) > 1:
                    half = len(part) // 2
                    waiting += (part[half:], part[:half])
                else:
                    yield part, result

    def _batches(self, items: Iterable[Item], about: Callable[[Item], Piece]) -> Iterator[list[Item]]:
        """Yield items in order, in batches of about 4 MB by `about(item).size`; large or refused items come alone."""
        batch, size = list[Item](), 0
        for item in items:
            piece = about(item)
            stands_alone = self._worker is not None and (piece.size > _ALONE_BYTES or bool(self._refusal(piece)))
            if batch and stands_alone:
                yield batch
                batch, size = [], 0
            batch.append(item)
            size += piece.size
            if stands_alone or size >= _BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _refusal(self, piece: Piece) -> str:
        return next((self.refused[version] for version in piece.versions if version in self.refused), "")

    def _tried(
        self, work: Work[Item, Result], items: Sequence[Item], about: Callable[[Item], Piece]
    ) -> Result | WorkFailed:
        if (worker := self._worker) is None:
            return work(items)
        pieces = [about(item) for item in items]
        size = sum(piece.size for piece in pieces)
        if self._left <= -_BUDGET_SECONDS:
            return OutOfTime("other documents of its source took too long to compare; it is compared later")
        allowance, used = _SECONDS_A_PIECE + _SECONDS_A_MEGABYTE * size / 2**20, worker.used
        usual = min(worker.seconds_for(size), _BUDGET_SECONDS + allowance)
        left = max(0.0, self._left) + allowance
        try:
            return worker.do(work, items, seconds=min(usual, left))
        except WorkFailed as failure:
            if left < usual and worker.used - used >= left:
                return OutOfTime(str(failure))  # with more time, it might not have failed
            versions = list(filter(None, pieces[0].versions))
            if isinstance(failure, WorkerEnded) and len(pieces) == 1 == len(versions):
                self.refused[versions[0]] = str(failure)
            return failure
        finally:
            self._left = min(_BUDGET_SECONDS, self._left + allowance) - (worker.used - used)


INLINE = Isolation()


class ProcessEnded(RuntimeError):
    """A process ended before it answered, for example killed by the system because memory was short."""


def in_processes(
    make_work: Callable[[], Callable[[Item], Result]], items: Sequence[Item], jobs: int
) -> Iterator[Result]:
    """Yield the result for each item in order, computed in `jobs` forked processes or, with one job, in this one.

    `make_work` is called in each process and returns the function for one item. Raises what that function raises, and
    ProcessEnded if a process was killed.
    """
    jobs = min(jobs, len(items))
    if jobs <= 1:
        yield from map(make_work(), items)
        return

    context = get_context("fork")  # forked, so that nothing has to be sent to them
    readers: list[Connection] = []
    processes: list[ForkProcess] = []
    try:
        for number in range(jobs):
            reader, writer = context.Pipe(duplex=False)
            readers.append(reader)
            arguments = (make_work, items[number::jobs], writer, readers)
            process = context.Process(target=_work_on, args=arguments, daemon=True)
            process.start()
            processes.append(process)
            writer.close()
        for number in range(len(items)):
            try:
                result, error = readers[number % jobs].recv()
            except EOFError as end:
                raise ProcessEnded("a worker process ended before its work was done") from end
            if error is not None:
                raise error
            yield result
    except BaseException:
        for process in processes:
            process.kill()
        raise
    finally:
        for reader in readers:
            reader.close()
        for process in processes:
            process.join()


def _work_on(
    make_work: Callable[[], Callable[[Any], Any]], items: Sequence[Any], writer: Connection, readers: list[Connection]
) -> None:
    _reset_signals()
    for reader in readers:  # so that writing ends us if the process that collects the results is killed
        reader.close()
    with suppress(BrokenPipeError):
        try:
            for result in map(make_work(), items):
                writer.send((result, None))
        except Exception as error:  # noqa: BLE001  the collecting process raises it
            writer.send((None, error))
