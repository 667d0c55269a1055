"""Do independent work in several processes, and get the results in order."""

import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# What the processes work with. They are forked, so that nothing of it has to be sent.
_work: Callable[[Any], Any] | None = None


def in_processes(
    make_work: Callable[[], Callable[[Item], Result]], items: Iterable[Item], jobs: int
) -> Iterator[Result]:
    """Yield the result for each item, from `jobs` processes, each of which makes its own work.

    With one job all is done in this process.
    """
    if jobs <= 1:
        yield from map(make_work(), items)
        return
    import multiprocessing  # noqa: PLC0415  small work needs one process only

    context = multiprocessing.get_context("fork")
    with context.Pool(jobs, initializer=_begin, initargs=(make_work,)) as pool:
        yield from pool.imap(_do, items)


def _begin(make_work: Callable[[], Callable[[Any], Any]]) -> None:
    global _work  # noqa: PLW0603  one for the life of a process
    # Ctrl-C is for the process that collects the results; it ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _work = make_work()


def _do(item: Any) -> Any:
    if _work is None:
        raise RuntimeError("the process was not begun")
    return _work(item)
