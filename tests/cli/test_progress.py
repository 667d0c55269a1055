"""Lines that say how far long work is: on a terminal only, and gone at the end."""

import io
import sys
from pathlib import Path
from threading import Event

import pytest
from conftest import Run

from cachewatch.cli import terminal as waiting
from cachewatch.cli.terminal import ProgressLine
from cachewatch.extensions.buildcaches.opening import Cache
from cachewatch.extensions.buildcaches.recorder import record


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Let standard error be a terminal, and waiting begin at once; a fixture would do that too early."""
    screen = io.StringIO()
    screen.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(waiting, "_FIRST_SECONDS", 0.001)
    return screen


def test_work_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is being done is drawn while it lasts, without escapes, and erased then."""
    terminal = on_terminal(monkeypatch)
    drawn = Event()

    def describe() -> str:
        if "reading" in terminal.getvalue():
            drawn.set()
        return "reading \x1b[31mx"

    with waiting.waiting(describe):
        assert drawn.wait(30)

    assert "\r\x1b[Kreading \\x1b[31mx (0 s)" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_short_work_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends before the first second needs no line."""
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(waiting, "_FIRST_SECONDS", 3600.0)
    with waiting.waiting(lambda: "x"):
        pass

    assert terminal.getvalue() == ""


def test_files_are_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log or a pipe has no line that could be erased."""
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(waiting, "_FIRST_SECONDS", 0.001)
    with waiting.waiting(lambda: "x"):
        line = ProgressLine("writing pages")
        line.count(3)
        line.close()

    assert (screen.getvalue(), line.git_report) == ("", None)


def test_pieces_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody knows how many there are, the number that are done is shown."""
    terminal = on_terminal(monkeypatch)
    line = ProgressLine("writing pages")
    line.count(20)
    line.count(1_000)
    line.close()

    assert terminal.getvalue() == "\r\x1b[Kwriting pages: 20\r\x1b[Kwriting pages: 1,020\r\x1b[K"


def test_recording_tells_what_it_does(buildcaches: Path, tmp_path: Path) -> None:
    """From reading to writing."""
    told: list[str] = []
    cache = Cache(address=str(buildcaches / "v2" / "1-initial"))
    record(cache, tmp_path / "catalogue.git", tell=told.append)

    assert told[0] == f"reading the index of {cache.address}"
    assert told[1] == "comparing develop with what was recorded"
    assert told[-1] == f"writing the revision of {tmp_path / 'catalogue.git'}"


def test_the_site_counts_its_pages(
    demo_repository: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading and writing both have a line, and `--no-progress` has none."""
    terminal = on_terminal(monkeypatch)
    run("site", tmp_path / "one", "--repo", demo_repository, "--jobs", "1")
    assert "\r\x1b[Kwriting pages: " in terminal.getvalue()
    terminal.truncate(0)
    run("site", tmp_path / "two", "--repo", demo_repository, "--jobs", "1", "--no-progress")
    assert "\x1b" not in terminal.getvalue()
