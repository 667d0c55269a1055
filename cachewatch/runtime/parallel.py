"""Independent work in several processes, with the results in order.

Each process takes every n-th item and answers through a pipe of its own. A pipe holds at most
a megabyte, so a process that is ahead waits, and nothing piles up.
"""

import fcntl
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from cachewatch.runtime.worker import limit_memory, server

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess

Item = TypeVar("Item")
Result = TypeVar("Result")
_PIPE_BYTES = 2**20


class ProcessEnded(RuntimeError):
    """A process ended before it answered, as when the system kills it because memory is short."""


def in_processes(
    make_work: Callable[[], Callable[[Item], Result]], items: Sequence[Item], jobs: int
) -> Iterator[Result]:
    """Yield the result for each item, from `jobs` processes, each of which makes its own work.

    With one job all is done in this process. What the work raises is raised here, and ProcessEnded if a process is killed.
    """
    jobs = min(jobs, len(items))
    if jobs <= 1:
        yield from map(make_work(), items)
        return

    # Forked, so that nothing of what the work needs has to be sent.
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe(duplex=False) for _ in range(jobs)]
    for _, writer in pipes:
        with suppress(AttributeError, OSError):  # work goes on while an answer waits; only Linux can
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    processes = [
        context.Process(target=_serve, args=(make_work, items[number::jobs], number, pipes), daemon=True)
        for number in range(jobs)
    ]
    try:
        for process, (_, writer) in zip(processes, pipes, strict=True):
            process.start()
            writer.close()
        for number in range(len(items)):
            yield _receive(pipes[number % jobs][0])
    except BaseException:
        for process in filter(_is_started, processes):
            process.kill()
        raise
    finally:
        for reader, _ in pipes:
            reader.close()
        for process in filter(_is_started, processes):
            process.join()


def apart(function: Callable[..., Result], *arguments: object, seconds: float, megabytes: int) -> Result:
    """Return what `function` returns in a process of its own, which may neither last nor grow.

    Raises TimeoutError when the time is up and MemoryError when the memory is; what the function
    raises is raised here. Function and arguments must be picklable: nothing else gets there.
    """
    # Not forked from this process, which may have threads, whose locks a child would inherit, and has secrets.
    context = server()
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(writer, function, arguments, megabytes), daemon=True)
    with reader:
        try:
            process.start()
            writer.close()
            if not reader.poll(seconds):
                raise TimeoutError(f"it took longer than {seconds:g} seconds")
            result: Result = _receive(reader)
            return result
        finally:
            if process.pid is not None:
                process.kill()
                process.join()


def _answer(writer: "Connection", function: Callable[..., Any], arguments: tuple[object, ...], megabytes: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_memory(megabytes)
    with suppress(BrokenPipeError):
        try:
            writer.send((function(*arguments), None))
        except Exception as error:  # noqa: BLE001  whatever it is, it is raised where it can be told
            writer.send((None, error))


def _is_started(process: "ForkProcess") -> bool:
    return process.pid is not None


def _serve(
    make_work: Callable[[], Callable[[Any], Any]],
    items: Sequence[Any],
    number: int,
    pipes: Sequence[tuple["Connection", "Connection"]],
) -> None:
    # Ctrl-C is for the process that collects the results; it ends the others. What it
    # handles is not for us, and should it be killed, a pipe that nobody reads ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_DFL)
    for place, (reader, other) in enumerate(pipes):
        reader.close()
        if place != number and not other.closed:
            other.close()
    writer = pipes[number][1]
    with suppress(BrokenPipeError):
        try:
            for result in map(make_work(), items):
                writer.send((result, None))
        except Exception as error:  # noqa: BLE001  whatever it is, it is raised where it can be told
            writer.send((None, error))


def _receive(reader: "Connection") -> Any:
    try:
        result, error = reader.recv()
    except EOFError as end:
        raise ProcessEnded("a worker process ended before its work was done") from end
    if error is not None:
        raise error
    return result
