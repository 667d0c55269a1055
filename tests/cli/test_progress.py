"""Lines that say how far long work is: on a terminal only, and gone at the end."""

import io
import sys
from pathlib import Path

import pytest
from conftest import Run

from cachewatch.cli.terminal import ProgressLine
from cachewatch.extensions.buildcaches.published_tags import Cache
from cachewatch.extensions.buildcaches.recorder import record


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Let standard error be a terminal; a fixture would do that too early."""
    screen = io.StringIO()
    screen.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


def test_pieces_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody knows how many there are, the number that are done is shown."""
    terminal = on_terminal(monkeypatch)
    line = ProgressLine("writing pages")
    line.count(20)
    line.count(1_000)
    line.show("reading \x1b[31mx")
    line.close()

    drawn = ("writing pages: 20", "writing pages: 1,020", "reading \\x1b[31mx", "")
    assert terminal.getvalue() == "".join(f"\r\x1b[K{text}" for text in drawn)


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
