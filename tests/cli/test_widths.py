"""No line for people is wider than the terminal, and no help is longer than two screens."""

import re
from pathlib import Path

import pytest
from conftest import Run
from tools import all_commands

from cachewatch.report.diff_blocks_and_colours import Palette, wrapped

WIDTHS = (60, 80, 120)
MOST_LINES, MOST_LINES_AT_THE_TOP = 60, 45
CONFIG = """\
state: state
sources: {demo: {git: catalogue.git, since: HEAD~1, stale_after: 9999d}}
channels: {files: {type: file, path: "out/{subscription}-{period}.{ext}"}}
subscriptions:
  all: {channels: [files], changes: [all], when: each revision, description: what happened to everything that we have}
"""
COMMANDS = (
    *("diff HEAD~1 HEAD", "diff HEAD~1 HEAD --all", "diff HEAD~1 HEAD --stat", "packages", "stacks", "tags", "demo"),
    *("show py-build", "show py-keras py-build@1.2.1", "show /2", "show -l py-build@1.2.1 target=x86_64_v3"),
    *("show -l py-keras", "coverage catalogue.git/spack.lock", "coverage spack.yaml", "help kinds", "log"),
    *("log py-build", "history best catalogue.git/spack.lock", "history when py-build", "history blame 2gs7so6"),
    *("history churn", "history churn --by stack", "status", "state check", "deliveries list"),
    *("deliveries show 1", "config check", "config explain py-build", "config template list"),
)
# Folded on a terminal alone; elsewhere these are what is sent, and a file to use.
AS_THEY_ARE = ("preview all --since HEAD~1", "config show")
MISTAKES = (
    *("diff no-such-revision-or-date HEAD", "show py-build@9", "show py-build target=x86_64_v2", "why py-build"),
    *("packages --format yml", "config explain py-nothing-of-that-name", "diff --fail-on all", "history build"),
)
WITHOUT_COLOURS = {"help kinds", "config template list"}
COLOURED = {
    "status": "files  1 \x1b[32msent\x1b[0m\n",
    "deliveries list": " \x1b[32msent\x1b[0m ",
    "coverage spack.yaml": "\x1b[33mother ",
    "diff --stat": " \x1b[32m+3 -3 in upgrades\x1b[0m; 1.2.\x1b[31m0\x1b[0m -> 1.2.\x1b[32m1\x1b[0m\n",
    "preview all --since HEAD~1": "\n\x1b[32m\x1b[1mNEW\x1b[0m\x1b[0m  ",
    "show py-build": " 1!\x1b[0m\n",
    "stacks": "  \x1b[33m0\x1b[0m  -\n",
}


@pytest.mark.parametrize("width", WIDTHS)
def test_help_fits(run: Run, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for command in ((), *dict(all_commands())):
        text = run(*command, "--help").output
        assert max(map(len, text.splitlines())) <= width, command
        if width == 80:
            assert len(text.splitlines()) <= (MOST_LINES if command else MOST_LINES_AT_THE_TOP), command


@pytest.fixture
def _demo(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand beside the demo's catalogue, its index, and the state of a service that has read it."""
    monkeypatch.chdir(tmp_path)
    for name in ("CACHEWATCH_REPO", "CACHEWATCH_CONFIG", "CACHEWATCH_HISTORY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "spack.yaml").write_text("spack: {specs: [py-build@1.2.0, py-keras@3.9.2 target=x86_64_v3]}")
    run("demo", "catalogue.git")
    (tmp_path / "cachewatch.yaml").write_text(CONFIG)
    run("history", "build", "--repo", "catalogue.git")
    assert run("once").exit_code == 0


@pytest.mark.slow
@pytest.mark.usefixtures("_demo")
@pytest.mark.parametrize("width", WIDTHS)
def test_lines_fit(run: Run, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for command in COMMANDS:
        done = run(*command.split())
        assert done.output, (command, done.error)
        assert max(map(len, done.output.splitlines())) <= width, command


@pytest.mark.slow
@pytest.mark.usefixtures("_demo")
@pytest.mark.parametrize("width", WIDTHS)
def test_lines_on_a_terminal_fit(run: Run, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Also of texts that are used as they are elsewhere, and of messages."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("PAGER", "cat")
    monkeypatch.setenv("NO_COLOR", "1")
    plain = {command: run(*command.split()) for command in (*AS_THEY_ARE, *MISTAKES)}
    assert all(max(map(len, plain[command].output.splitlines())) > 60 for command in AS_THEY_ARE)
    assert all(max(map(len, plain[command].error.splitlines())) > 60 for command in MISTAKES)
    monkeypatch.setattr("cachewatch.cli.terminal.is_on_terminal", lambda: True)
    monkeypatch.setattr("cachewatch.cli.terminal.is_drawing", lambda: True)
    for command, other in plain.items():
        done = run(*command.split())
        lines = [*done.output.splitlines(), *re.sub("\r\x1b\\[K", "\n", done.error).splitlines()]
        assert max(map(len, lines)) <= width, command
        assert "".join((done.output + done.error).split()) == "".join((other.output + other.error).split())


@pytest.mark.slow
@pytest.mark.usefixtures("_demo")
def test_colours(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command can be told to colour a file, and colours no terminal where NO_COLOR is set; states have meanings."""
    for command, said in COLOURED.items():
        assert said in run("--color", "always", *command.split()).output, command
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("cachewatch.cli.terminal.is_on_terminal", lambda: True)
    monkeypatch.setenv("PAGER", "cat")
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b" in run("packages").output
    monkeypatch.setenv("NO_COLOR", "1")

    for command in COMMANDS:
        coloured, done = run("--color", "always", *command.split()), run(*command.split())
        assert ("\x1b" in coloured.output) == (command not in WITHOUT_COLOURS), command
        assert done.output, (command, done.error)
        plain = re.sub(r"\x1b\[\d+m", "", coloured.output)
        assert re.split(r"[\d\s]+", done.output) == re.split(r"[\d\s]+", plain), command  # seconds went by


def test_a_state_is_coloured_where_it_is_one() -> None:
    """In a column, behind a number or a sign; not in a name or a sentence, or where there is a colour already."""
    paint = Palette(is_on=True).states
    assert paint("  mail  2 sent, 1 held") == "  mail  2 \x1b[32msent\x1b[0m, 1 \x1b[33mheld\x1b[0m"
    assert paint("    failed twice: no host") == "    \x1b[31mfailed\x1b[0m twice: no host"
    for other in ("held-back 1.0", "a mail is sent", "\x1b[1m 1 dead\x1b[0m"):
        assert paint(other) == other
    assert Palette(is_on=False).states("1 dead") == "1 dead"
    bold = Palette(is_on=True).paint("one two", "bold")
    assert wrapped(f"a {bold} b", 6, "  ") == ["a \x1b[1mone\x1b[0m", "  \x1b[1mtwo\x1b[0m", "  b"]
