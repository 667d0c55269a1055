"""`--format json`: every command that lists or shows something takes it, and prints JSON."""

import io
import json
import sys
from pathlib import Path

import pytest
from conftest import Run

from cachewatch.cli.terminal import ProgressLine
from cachewatch.core.model import Kind
from cachewatch.extensions.buildcaches.published_tags import Cache
from cachewatch.extensions.buildcaches.recorder import record

CONFIG = "version: 1\nstate: {folder}/state\nsources: {{public: {{git: {repository}}}}}\n"


def test_commands_of_the_service(run: Run, tmp_path: Path, demo_repository: Path) -> None:
    """What people read as text, programs read as JSON."""
    config = tmp_path / "cachewatch.yaml"
    config.write_text(CONFIG.format(folder=tmp_path, repository=demo_repository))
    run("once", "--config", config)

    for words in ("status", "status --check", "deliveries list", "config explain py-keras", "config show"):
        found = json.loads(run(*words.split(), "--config", config, "--format", "json").output)
        assert found["schema"].startswith("cachewatch."), words


def test_lists_are_objects_that_name_their_schema(
    run: Run, demo_repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CACHEWATCH_REPO", str(demo_repository))
    for words in ("show py-build", "show /2gs7so6", "packages", "stacks", "tags", "help kinds"):
        found = json.loads(run(*words.split(), "--format", "json").output)
        assert found["schema"].startswith("cachewatch."), words


def test_a_quiet_diff_prints_no_report(run: Run, demo_repository: Path) -> None:
    """Its exit code says that something differs, or what `--fail-on` says."""
    monday = ("diff", "HEAD~1", "HEAD", "--tag", "develop", "--repo", demo_repository, "--quiet")
    done = run(*monday)
    assert (done.exit_code, done.output, done.error) == (1, "", "")
    assert run("diff", "HEAD", "HEAD", "--repo", demo_repository, "-q").exit_code == 0
    assert run(*monday, "--fail-on", "downgraded").exit_code == 0
    failed = run(*monday, "--fail-on", "upgraded")
    assert (failed.exit_code, failed.output) == (1, "")
    assert failed.error == (
        "cachewatch: --fail-on upgraded: py-ml-dtypes in e4s (x86_64_v3) and 1 more place, "
        "py-build in e4s-neoverse_v1 (neoverse_v1)\n"
    )


def test_kinds(run: Run) -> None:
    """Every kind with its meaning, and the groups."""
    found = json.loads(run("help", "kinds", "--format", "json").output)

    assert [each["kind"] for each in found["kinds"]] == [kind.value for kind in Kind]
    assert found["groups"]["lost"] == ["gone", "going", "other"]


def test_templates(run: Run, tmp_path: Path) -> None:
    """One's own are marked."""
    (tmp_path / "mine.html.j2").write_text("x")
    found = json.loads(run("config", "template", "list", "--templates-dir", tmp_path, "--format", "json").output)[
        "templates"
    ]

    assert {"name": "mine.html.j2", "purpose": "your own", "own": True} in found


def test_recordings(run: Run, buildcaches: Path, tmp_path: Path) -> None:
    """The revision and its counts."""
    source = buildcaches / "v2" / "1-initial"
    found = json.loads(run("record", source, "--into", tmp_path / "c.git", "--format", "json").output)

    assert len(found["commit"]) == 40
    assert [tag["tag"] for tag in found["tags"]] == ["develop"]


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
