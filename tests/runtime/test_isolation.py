"""What ends a process is found among many others, which lose nothing by it."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cachewatch import __version__
from cachewatch.errors import OutOfTime, WorkFailed
from cachewatch.notify.crashing_documents import NAME, Suspects
from cachewatch.runtime import isolation
from cachewatch.runtime.isolation import INLINE, Budget, Isolated, Piece
from cachewatch.runtime.limited_process import Limits, Worker

MEGABYTE = 2**20


def shout(words: Sequence[str]) -> list[str]:
    """Return them in capitals, or end over those that say how."""
    for word in words:
        if word == "end":
            os._exit(3)
        if word == "wait":
            time.sleep(1.5)
    return [word.upper() for word in words]


def about(word: str) -> Piece:
    return Piece(word, (f"object of {word}",), MEGABYTE)


@pytest.fixture
def worker() -> Iterator[Worker]:
    """A worker."""
    with Worker(limits=Limits(seconds=30)) as made:
        yield made


def done(isolation: Isolated, words: Sequence[str]) -> list[list[str] | str]:
    """Return what became of each few words: what they are in capitals, or why there is nothing."""
    found = isolation.each(shout, words, about)
    return [str(each) if isinstance(each, WorkFailed) else each for _, each in found]


def test_without_isolation_it_is_done_here() -> None:
    """Some megabytes at a time."""
    found = list(INLINE.each(len, list("abcdef"), about))
    assert found == [(list("abcd"), 4), (list("ef"), 2)]


def test_what_ends_the_process_is_found(worker: Worker, tmp_path: Path) -> None:
    """All others are done, in their order."""
    isolated = Isolated(worker, Suspects(tmp_path).of("public"))
    ended = "the process that read it ended with exit code 3"
    assert done(isolated, ["a", "b", "end", "c", "d", "e"]) == [["A", "B"], ended, ["C"], ["D", "E"]]
    assert done(isolated, ["f", "end"]) == [["F"], ended]


def test_the_third_time_it_is_left_alone(worker: Worker, tmp_path: Path) -> None:
    """Twice is enough, in whichever process; another version of the document is tried."""
    words, ended = ["a", "end"], "the process that read it ended with exit code 3"
    for _ in range(2):
        assert done(Isolated(worker, Suspects(tmp_path).of("public")), words) == [["A"], ended]
    pid = worker.do(os.getpid)
    assert done(Isolated(worker, Suspects(tmp_path).of("public")), words) == [
        ["A"],
        f"{ended}, twice; it is tried again when it changes",
    ]
    assert worker.do(os.getpid) == pid, "nothing ended"
    assert done(Isolated(worker, Suspects(tmp_path).of("other")), words) == [["A"], ended]
    other = Isolated(worker, Suspects(tmp_path).of("public"))
    found = other.each(shout, ["end"], lambda word: about(word)._replace(versions=("another",)))
    assert [str(each) for _, each in found] == [ended]


def test_what_was_in_hand_when_we_ended_is_tried_alone(worker: Worker, tmp_path: Path) -> None:
    """And forgotten if nothing is wrong with it."""
    suspects = Suspects(tmp_path).of("public")
    suspects.begin([about("b"), about("c")])
    isolated = Isolated(worker, Suspects(tmp_path).of("public"))  # another process takes over
    assert done(isolated, ["a", "b", "c", "d"]) == [["A"], ["B"], ["C"], ["D"]]
    assert done(Isolated(worker, Suspects(tmp_path).of("public")), ["a", "b", "c", "d"]) == [["A", "B", "C", "D"]]


def test_what_we_ended_over_twice_is_left_alone(worker: Worker, tmp_path: Path) -> None:
    """The second time it was alone in hand."""
    Suspects(tmp_path).of("public").begin([about("b"), about("c")])
    Suspects(tmp_path).of("public").begin([about("c")])
    isolated = Isolated(worker, Suspects(tmp_path).of("public"))
    assert done(isolated, ["a", "b", "c"]) == [
        ["A"],
        ["B"],
        "cachewatch ended while it was read, twice; it is tried again when it changes",
    ]


def test_only_what_is_slow_is_written_down(worker: Worker, tmp_path: Path) -> None:
    """A pass in which nothing takes long writes no file."""
    isolated = Isolated(worker, Suspects(tmp_path).of("public"))
    done(isolated, ["a", "b"])
    assert not (tmp_path / NAME).exists()
    begin = suspects_in_hand(tmp_path)
    assert done(isolated, ["wait"]) == [["WAIT"]]
    assert begin != suspects_in_hand(tmp_path)


def suspects_in_hand(folder: Path) -> str:
    path = folder / NAME
    return path.read_text("utf-8") if path.exists() else ""


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": "0.0.1", "suspects": 1}'])
def test_a_damaged_memory_is_an_empty_one(worker: Worker, tmp_path: Path, content: str) -> None:
    """Everything is tried once more."""
    (tmp_path / NAME).write_text(content, "utf-8")
    assert done(Isolated(worker, Suspects(tmp_path).of("public")), ["a"]) == [["A"]]


def test_another_version_tries_everything_again(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may read what the one before could not."""
    for _ in range(2):
        done(Isolated(worker, Suspects(tmp_path).of("public")), ["end"])
    content = (tmp_path / NAME).read_text("utf-8")
    (tmp_path / NAME).write_text(content.replace(__version__, "0.0.1"), "utf-8")
    found = done(Isolated(worker, Suspects(tmp_path).of("public")), ["end"])
    assert found == ["the process that read it ended with exit code 3"]


def spin(seconds: Sequence[float]) -> list[float]:
    """Use so much processor time."""
    end = time.process_time() + sum(seconds)
    while time.process_time() < end:
        pass
    return list(seconds)


def about_seconds(seconds: float) -> Piece:
    return Piece(f"{seconds}", (f"object of {seconds}",), 4 * MEGABYTE)


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a second to a source, and half a second with each piece."""
    monkeypatch.setattr(isolation, "_BUDGET_SECONDS", 1.0)
    monkeypatch.setattr(isolation, "_SECONDS_A_MEGABYTE", 0.0)


@pytest.mark.usefixtures("small_budget")
def test_what_takes_long_in_a_source_uses_up_its_time_only(worker: Worker, tmp_path: Path) -> None:
    """The rest of its documents is left for later, and other sources have time of their own."""
    suspects = Suspects(tmp_path)
    slow = Isolated(worker, suspects.of("slow"), budget := Budget())
    found = [each for _, each in slow.each(spin, [1.3, *range(30, 50), 0.0], about_seconds)]
    assert found[0] == [1.3]
    assert isinstance(found[-1], OutOfTime)
    assert "other documents of its source took too long" in str(found[-1])
    again = Isolated(worker, suspects.of("slow"), budget)
    assert [str(each) for _, each in again.each(spin, [0.0], about_seconds)] == [str(found[-1])]
    other = Isolated(worker, suspects.of("other"), Budget())
    assert [each for _, each in other.each(spin, [0.0, 0.1], about_seconds)] == [[0.0], [0.1]]


@pytest.mark.usefixtures("small_budget")
def test_usual_work_never_uses_up_the_time(worker: Worker, tmp_path: Path) -> None:
    """However much of it there is."""
    isolated = Isolated(worker, Suspects(tmp_path).of("public"))
    work = [0.2 + number / 1000 for number in range(10)]
    assert [each for _, each in isolated.each(spin, work, about_seconds)] == [[each] for each in work]


@pytest.mark.usefixtures("small_budget")
def test_what_comes_after_a_slow_document_still_has_a_little_time(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enough for any usual one."""
    isolated = Isolated(worker, Suspects(tmp_path).of("public"))
    found = [each for _, each in isolated.each(spin, [1.3, 30.0, 0.0], about_seconds)]
    assert (found[0], found[2]) == ([1.3], [0.0])
    assert "seconds of processor time" in str(found[1])
