"""A process that gets ready beside this one."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, history, records

from cachewatch.runtime.preloaded_process import preloaded_worker

Answer = Callable[[int], tuple[int, float]]


def divides() -> Answer:
    """Return work that fails for 0, and that says who does it."""
    return lambda number: (os.getpid(), 12 / number)


def dies() -> Answer:
    """Return work that is the end of whoever does it."""
    return lambda number: (os.kill(os.getpid(), signal.SIGKILL), 0.0)  # type: ignore[func-returns-value, return-value]


def is_never_ready() -> Answer:
    """Take longer than anybody waits."""
    time.sleep(600)
    return divides()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take no notice of idle threads that libraries of other tests left behind; these tests have none."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)


def nothing() -> None:
    """What is done meanwhile, where there is nothing to do."""


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.usefixtures("alone")
def test_another_process_works() -> None:
    """It is asked as often as there is something to do, says what goes wrong, and then it is gone."""
    with preloaded_worker(divides, is_wanted=True) as ask:
        assert ask is not None
        done: list[int] = []
        pid, first = ask(3, lambda: done.append(os.getpid()))
        assert done == [os.getpid()]
        with pytest.raises(ZeroDivisionError):
            ask(0, nothing)
        assert (first, ask(4, nothing)) == (4, (pid, 3))
        assert pid != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.usefixtures("alone")
def test_a_process_that_ends_is_told() -> None:
    """Whatever ends it, nobody waits for an answer for ever."""
    with preloaded_worker(dies, is_wanted=True) as ask:
        assert ask is not None
        with pytest.raises(RuntimeError, match="ended before"):
            ask(1, nothing)


def test_nobody_waits_for_what_is_not_ready() -> None:
    """The end does not wait until the other process is ready."""
    start = time.monotonic()
    with preloaded_worker(is_never_ready, is_wanted=True):
        pass
    assert time.monotonic() - start < 60


def test_it_goes_with_the_process_that_asks() -> None:
    """A process that is killed leaves none behind."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        with preloaded_worker(divides, is_wanted=True) as ask:
            os.write(writer, b"%d\n" % (ask(1, nothing)[0] if ask else 0))
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        assert int(lines.readline()) not in (0, pid)
        assert lines.read() == ""  # the pipe ends when nobody holds it any more


def test_no_process_of_several_threads_is_forked() -> None:
    """Their locks would stay locked; nor is one that is not wanted."""
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        with preloaded_worker(divides, is_wanted=True) as ask:
            assert ask is None
    finally:
        stop.set()
        thread.join()
    with preloaded_worker(divides, is_wanted=False) as ask:
        assert ask is None


def test_one_answer_with_and_without(run: Run, tmp_path: Path) -> None:
    """What the worker compares is what this process would."""
    before = catalogue({"a": records([1, 2]), "b": records([3])})
    after = catalogue({"a": records([1, 4], versions=["2.0"]), "c": records([5, 5])})
    command = ("diff", "HEAD~1", "--repo", history(tmp_path / "x.git", before, after), "--jobs")
    alone, together = (run(*command, jobs) for jobs in (1, 2))

    assert alone == together
    assert alone.exit_code == 4
    assert "2.0" in alone.output
