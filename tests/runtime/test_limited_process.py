"""A process of our own works within limits, and its end is a sentence."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from cachewatch.errors import WorkFailed
from cachewatch.runtime import worker as workers
from cachewatch.runtime.worker import Limits, Worker

SMALL = Limits(megabytes=100, seconds=1, seconds_per_megabyte=0)


@contextmanager
def another_thread() -> Iterator[None]:
    """Let this process have one, so that it cannot fork."""
    is_over = threading.Event()
    with ThreadPoolExecutor() as pool:
        pool.submit(is_over.wait)
        try:
            yield
        finally:
            is_over.set()


@pytest.fixture(params=["forked", "from a server"])
def worker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """A worker with small limits, made in either way."""
    monkeypatch.setattr(Worker, "may_fork", request.param == "forked")
    monkeypatch.setattr(workers, "_LEAST_PATIENCE", 0.0)
    if request.param == "forked":
        # Threads that earlier tests left are idle: a fork takes no lock of theirs along.
        monkeypatch.setattr(threading, "active_count", lambda: 1)
        with Worker(limits=SMALL) as made:
            yield made
    else:
        with another_thread(), Worker(limits=SMALL) as made:
            yield made


def spin() -> None:
    while True:
        pass


def take(megabytes: int) -> int:
    return len(bytearray(megabytes * 2**20))


def fail() -> None:
    raise KeyError("a mistake of ours")


def end_by(number: int) -> None:
    os.kill(os.getpid(), number)


def end_the_first_time(marker: Path) -> str:
    if marker.exists():
        return "done"
    marker.touch()
    os.kill(os.getpid(), signal.SIGKILL)
    return "not reached"


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        (spin, (), "reading it took more than 1 seconds of processor time"),
        (time.sleep, (60,), "reading it took more than 4 seconds"),
        (take, (2000,), "reading it took more than 100 MB of memory"),
        (fail, (), "cachewatch failed on it: KeyError('a mistake of ours'); please report it"),
        (os._exit, (3,), "the process that read it ended with exit code 3"),
        (end_by, (signal.SIGSEGV,), "the process that read it ended with SIGSEGV"),
        (end_by, (signal.SIGKILL,), "the process that read it was killed, perhaps for want of memory"),
    ],
)
def test_what_ends_it_is_said(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, function: object, arguments: tuple[object, ...], said: str
) -> None:
    if function is spin:
        monkeypatch.setattr(workers, "_PATIENCE", 1_000)  # on a busy machine, a second of the processor takes long
    with pytest.raises(WorkFailed) as failure:
        worker.do(function, *arguments)  # type: ignore[arg-type]
    assert str(failure.value) == said
    assert worker.do(take, 10) == 10 * 2**20


def test_an_answer_that_has_no_room(worker: Worker) -> None:
    """Memory counts while an answer is sent, too."""
    with pytest.raises(WorkFailed, match="MB of memory"):
        worker.do(bytes, 60 * 2**20)


def test_who_was_killed_once_is_asked_again(worker: Worker, tmp_path: Path) -> None:
    """The system may have killed it for what others took."""
    assert worker.do(end_the_first_time, tmp_path / "marker") == "done"


def test_work_ends_when_we_do(worker: Worker) -> None:
    """Whoever waits is asked several times a second whether to go on, and nothing is left behind."""

    class Ending(Exception):
        """A signal came."""

    has_begun = threading.Event()

    def go_on() -> None:
        if has_begun.is_set():
            raise Ending

    with Worker(limits=Limits(), go_on=go_on) as other:
        pid = other.do(os.getpid)
        has_begun.set()
        with pytest.raises(Ending):
            other.do(time.sleep, 600)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_it_holds_no_files_of_ours(worker: Worker, tmp_path: Path) -> None:
    """A lock of ours would outlive us."""
    with (tmp_path / "file").open("w"):
        assert len(worker.do(os.listdir, "/proc/self/fd")) <= 6
