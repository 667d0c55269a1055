"""What ends a process is found among many others, which lose nothing by it."""

import os
import signal
import time
from collections.abc import Iterator, Sequence

import pytest

from cachewatch.errors import OutOfTime, WorkFailed
from cachewatch.runtime import worker as isolation
from cachewatch.runtime.worker import INLINE, Isolation, Limits, Piece, Worker

MEGABYTE = 2**20


def shout(words: Sequence[str]) -> list[str]:
    """Return them in capitals, or end over those that say how."""
    for word in words:
        if word == "end":
            os._exit(3)
        if word == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "raise":
            raise ZeroDivisionError
    return [word.upper() for word in words]


def about(word: str) -> Piece:
    return Piece((f"object of {word}",), MEGABYTE)


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker(limits=Limits(seconds=30)) as made:
        yield made


def done(isolation: Isolation, words: Sequence[str]) -> list[list[str] | str]:
    """Return what became of each few words: what they are in capitals, or why there is nothing."""
    found = isolation.each(shout, words, about)
    return [str(each) if isinstance(each, WorkFailed) else each for _, each in found]


def test_without_isolation_it_is_done_here() -> None:
    assert list(INLINE.each(len, list("abcdef"), about)) == [(list("abcd"), 4), (list("ef"), 2)]


def test_what_ends_the_process_is_found(worker: Worker) -> None:
    isolated = Isolation(worker)
    ended = "the process that read it ended with exit code 3"
    assert done(isolated, ["a", "b", "end", "c", "d", "e"]) == [["A", "B"], ended, ["C"], ["D", "E"]]
    assert isolated.refused == {"object of end": ended}


def test_what_ended_one_is_left_alone(worker: Worker) -> None:
    """With the reason of the first time; another version of the document is tried."""
    reason, pid = "it ended another one", worker.do(os.getpid)
    isolated = Isolation(worker, {"object of end": reason})
    assert done(isolated, ["a", "end", "b"]) == [["A"], reason, ["B"]]
    assert worker.do(os.getpid) == pid, "nothing ended"
    found = isolated.each(shout, ["end"], lambda word: about(word)._replace(versions=("another",)))
    assert [str(each) for _, each in found] == ["the process that read it ended with exit code 3"]


def test_what_did_not_end_it_is_tried_again(worker: Worker) -> None:
    """What failed in another way, or was killed from outside, may have nothing to do with the document."""
    isolated = Isolation(worker)
    assert "please report it" in done(isolated, ["raise"])[0]
    assert "killed" in done(isolated, ["kill"])[0]
    assert not isolated.refused


def test_of_several_documents_none_is_to_blame(worker: Worker) -> None:
    """Whoever asks about two has to find out which one it is."""
    isolated = Isolation(worker)
    list(isolated.each(shout, ["end"], lambda word: about(word)._replace(versions=("old", "new"))))
    assert not isolated.refused


def spin(seconds: Sequence[float]) -> list[float]:
    """Use so much processor time."""
    end = time.process_time() + sum(seconds)
    while time.process_time() < end:
        pass
    return list(seconds)


def about_seconds(seconds: float) -> Piece:
    return Piece((f"object of {seconds}",), 4 * MEGABYTE)


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a second of processor time to a source, and half a second with each piece, however long that takes."""
    monkeypatch.setattr(isolation, "_LEAST_PATIENCE", 600.0)
    monkeypatch.setattr(isolation, "_BUDGET_SECONDS", 1.0)
    monkeypatch.setattr(isolation, "_SECONDS_A_MEGABYTE", 0.0)


@pytest.mark.usefixtures("small_budget")
def test_what_takes_long_in_a_source_uses_up_its_time_only(worker: Worker) -> None:
    """The rest of its documents is left for later, and other sources have time of their own."""
    slow = Isolation(worker)
    found = [each for _, each in slow.each(spin, [1.05, *range(30, 50), 0.0], about_seconds)]
    assert found[0] == [1.05]
    assert isinstance(found[-1], OutOfTime)
    assert "other documents of its source took too long" in str(found[-1])
    assert [str(each) for _, each in slow.each(spin, [0.0], about_seconds)] == [str(found[-1])]
    assert [each for _, each in Isolation(worker).each(spin, [0.0, 0.1], about_seconds)] == [[0.0], [0.1]]


@pytest.mark.usefixtures("small_budget")
def test_usual_work_never_uses_up_the_time(worker: Worker) -> None:
    isolated = Isolation(worker)
    work = [0.2 + number / 1000 for number in range(6)]
    assert [each for _, each in isolated.each(spin, work, about_seconds)] == [[each] for each in work]


@pytest.mark.usefixtures("small_budget")
def test_what_comes_after_a_slow_document_still_has_a_little_time(worker: Worker) -> None:
    """Enough for any usual one."""
    found = [each for _, each in Isolation(worker).each(spin, [1.05, 30.0, 0.0], about_seconds)]
    assert (found[0], found[2]) == ([1.05], [0.0])
    assert "seconds of processor time" in str(found[1])
