"""A helper process that loads libraries while the main process finds out what there is to do.

Most of a small comparison is loading libraries. With two processors, what reads loads in one
process, and what compares in the other.
"""

import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, NoReturn, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Item], Result]
# Asks the other process; what takes time here is done while it works.
Ask = Callable[[Item, Callable[[], object]], Result]


@contextmanager
def preloaded_worker(
    make_work: Callable[[], Work[Item, Result]], *, is_wanted: bool
) -> Iterator[Ask[Item, Result] | None]:
    """Let another process make its work, and offer to send it items; offer None where there is no other process.

    What the work raises is raised here. At the end the other process is gone, ready or not.
    """
    # A fork takes no threads along, but the locks that they hold.
    if not is_wanted or threading.active_count() > 1:
        yield None
        return
    asking, answering = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        os.close(asking[1])
        os.close(answering[0])
        _serve(make_work, asking[0], answering[1])
    os.close(asking[0])
    os.close(answering[1])
    with suppress(BrokenPipeError), os.fdopen(asking[1], "wb") as questions, os.fdopen(answering[0], "rb") as answers:
        try:
            yield lambda item, meanwhile: _ask(item, questions, answers, meanwhile)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _ask(item: Any, questions: BinaryIO, answers: BinaryIO, meanwhile: Callable[[], object]) -> Any:
    try:
        pickle.dump(item, questions, pickle.HIGHEST_PROTOCOL)
        questions.flush()
        meanwhile()
        result, error = pickle.load(answers)  # noqa: S301  from a process of ours
    except (BrokenPipeError, EOFError) as end:
        raise RuntimeError("a worker process ended before its work was done") from end
    if error is not None:
        raise error
    return result


def _serve(make_work: Callable[[], Work[Any, Any]], asking: int, answering: int) -> NoReturn:
    try:
        # Ctrl-C is for the process that asks; it ends this one, as does its own end, however that comes.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        work = make_work()
        with (
            suppress(BrokenPipeError, EOFError),
            os.fdopen(asking, "rb") as questions,
            os.fdopen(answering, "wb") as answers,
        ):
            while True:
                answer = _answer(work, pickle.load(questions))  # noqa: S301  from the process that made us
                pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
                answers.flush()
    finally:
        os._exit(0)  # nothing of what the other process was about to do is ours to do


def _answer(work: Work[Any, Any], item: Any) -> tuple[Any, Exception | None]:
    try:
        return work(item), None
    except Exception as error:  # noqa: BLE001  whatever it is, it is raised where it can be told
        return None, error
