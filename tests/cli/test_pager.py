"""The pager, seen through a real terminal: what goes through it, who chooses it, and what happens when it fails."""

import errno
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers import document, record
from tools import program

from cachewatch.cli import pager
from cachewatch.cli.pager import page, pager_command

# A pager that shows who it is, the settings it was given, and each line.
_MARKING = """#!/bin/sh
echo "BEGIN $(basename "$0") LESS=$LESS LV=$LV"
while IFS= read -r line; do echo "> $line"; done
echo END
"""


@dataclass(frozen=True)
class Seen:
    """What a terminal showed."""

    exit_code: int
    screen: str


Terminal = Callable[..., Seen]


@pytest.fixture(autouse=True)
def _no_pager_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CACHEWATCH_PAGER", "GIT_PAGER", "PAGER", "LESS", "LV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def terminal() -> Terminal:
    """Run the command line with a terminal of its own."""

    def run(*arguments: object, keys: bytes = b"", **variables: str) -> Seen:
        master, slave = pty.openpty()
        command = [sys.executable, "-m", "cachewatch", *map(str, arguments)]
        with subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, **variables}, start_new_session=True
        ) as process:
            os.close(slave)
            os.write(master, keys)
            screen = b"".join(_shown(master))
            os.close(master)
        return Seen(process.returncode, screen.decode().replace("\r\n", "\n"))

    return run


def _shown(master: int) -> Iterator[bytes]:
    while True:
        try:
            yield os.read(master, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # nobody has the terminal open any more
                raise
            return


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """Two documents between which a version is upgraded."""
    for name, version in (("a.md", "1.0"), ("b.md", "2.0")):
        (tmp_path / name).write_bytes(document([record(1 + (version == "2.0"), versions=[version])]))
    return tmp_path / "a.md", tmp_path / "b.md"


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str, str], str]:
    """Write a program."""

    def write(name: str, text: str = _MARKING) -> str:
        file = tmp_path / name
        file.write_text(text)
        file.chmod(0o755)
        return str(file)

    return write


Make = Callable[..., str]


def test_output_goes_through_the_pager(terminal: Terminal, sides: tuple[Path, Path], make: Make) -> None:
    """All of it, with colour, as to the terminal; the settings of less and lv are those of git."""
    seen = terminal("diff", *sides, CACHEWATCH_PAGER=make("mine"))

    assert seen.screen.startswith("BEGIN mine LESS=FRX LV=-c\n")
    assert seen.screen.endswith("END\n")
    assert "\x1b[32m2.0\x1b[0m" in seen.screen
    assert all(line.startswith("> ") for line in seen.screen.splitlines()[1:-1])


def test_settings_of_the_user_stay(terminal: Terminal, sides: tuple[Path, Path], make: Make) -> None:
    """LESS and LV are set only where they are not."""
    seen = terminal("diff", *sides, CACHEWATCH_PAGER=make("mine"), LESS="S", LV="")

    assert seen.screen.startswith("BEGIN mine LESS=S LV=\n")


@pytest.mark.parametrize("arguments", [("show", "{a}"), ("kinds",), ("diff", "{a}", "{b}", "--stat")])
def test_every_listing_is_paged(
    terminal: Terminal, sides: tuple[Path, Path], make: Make, arguments: tuple[str, ...]
) -> None:
    """Not only differences are long."""
    words = [word.format(a=sides[0], b=sides[1]) for word in arguments]

    assert terminal(*words, PAGER=make("mine")).screen.startswith("BEGIN mine")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--no-pager", "diff", "{a}", "{b}"),
        ("diff", "{a}", "{b}", "--format", "json"),
        ("diff", "{a}", "{b}", "--format", "csv"),
        ("diff", "{a}", "{b}", "--output", "-"),
        ("schema",),
    ],
)
def test_what_is_not_paged(
    terminal: Terminal, sides: tuple[Path, Path], make: Make, arguments: tuple[str, ...]
) -> None:
    """Data for programs, what has a place to go, and whatever the user wants without."""
    words = [word.format(a=sides[0], b=sides[1]) for word in arguments]
    seen = terminal(*words, PAGER=make("mine"))

    assert seen.exit_code == 0
    assert seen.screen
    assert "BEGIN" not in seen.screen


def test_a_pipe_has_no_pager(sides: tuple[Path, Path], make: Make) -> None:
    """Who pipes has something else to read it."""
    command = [sys.executable, "-m", "cachewatch", "diff", *map(str, sides)]
    done = subprocess.run(
        command, capture_output=True, check=True, text=True, env={**os.environ, "PAGER": make("mine")}
    )

    assert "BEGIN" not in done.stdout
    assert "1.0 -> 2.0" in done.stdout


@pytest.mark.parametrize(
    ("variables", "chosen"),
    [
        ({}, "less"),
        ({"PAGER": "p"}, "p"),
        ({"PAGER": "p", "GIT_PAGER": "g"}, "g"),
        ({"PAGER": "p", "GIT_PAGER": "g", "CACHEWATCH_PAGER": "c -x"}, "c -x"),
        ({"PAGER": "p", "CACHEWATCH_PAGER": ""}, None),
        ({"PAGER": "p", "GIT_PAGER": "cat"}, None),
        ({"PAGER": "cat -A"}, "cat -A"),
    ],
)
def test_who_chooses_the_pager(
    monkeypatch: pytest.MonkeyPatch, make: Make, tmp_path: Path, variables: dict[str, str], chosen: str | None
) -> None:
    """The first variable that is set decides; nothing and `cat` are no pager."""
    make("less")
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert pager_command() == chosen


def test_without_less(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without less has no pager, and nobody is told so."""
    monkeypatch.setenv("PATH", str(tmp_path))

    assert pager_command() is None


def test_exit_codes_stay(terminal: Terminal, sides: tuple[Path, Path], make: Make) -> None:
    """A gate is a gate with a pager, also with one that is left early."""
    early = make("early", "#!/bin/sh\nread -r line; echo $line\n")

    assert terminal("diff", *sides, "--exit-code", PAGER=make("mine")).exit_code == 1
    assert terminal("diff", *sides, "--fail-on", "upgraded", PAGER=early).exit_code == 1
    assert terminal("diff", *sides, "--fail-on", "downgraded", PAGER=early).exit_code == 0


def test_quitting_early_is_no_error(terminal: Terminal, tmp_path: Path, make: Make) -> None:
    """Far more than a pipe holds, and a user who reads one line of it."""
    many = [record(number, versions=[f"{number}.0"]) for number in range(3000)]
    (tmp_path / "many.md").write_bytes(document(many))
    early = make("early", "#!/bin/sh\nread -r line\necho seen\n")

    assert terminal("show", tmp_path / "many.md", PAGER=early) == Seen(0, "seen\n")


@pytest.mark.parametrize("script", ["exit 1", "exec /nonsense", "kill -9 $$", "head -c 3 >/dev/null; exit 2"])
def test_a_pager_that_fails_loses_nothing(
    terminal: Terminal, sides: tuple[Path, Path], make: Make, script: str
) -> None:
    """The output comes plainly, after a sentence about the pager."""
    plain = terminal("--no-pager", "diff", *sides, "--exit-code")
    seen = terminal("diff", *sides, "--exit-code", PAGER=make("broken", f"#!/bin/sh\n{script}\n"))

    assert seen.exit_code == plain.exit_code == 1
    assert seen.screen.endswith(plain.screen)
    assert "warning: the pager" in seen.screen
    assert "Traceback" not in seen.screen


def test_a_pager_that_is_not_there(terminal: Terminal, sides: tuple[Path, Path]) -> None:
    """The same, with the name that was looked for."""
    seen = terminal("diff", *sides, CACHEWATCH_PAGER="no-such-pager --fast")

    assert seen.exit_code == 0
    assert "the pager 'no-such-pager --fast' failed (exit code 127)" in seen.screen
    assert "UPGRADED" in seen.screen


def test_a_pager_that_is_stopped_late(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Who has read for a while is not shown everything again."""
    monkeypatch.setattr(pager, "_SOON_SECONDS", 0.0)

    assert list(page(iter([b"a\n", b"b\n"]), "cat; exit 3")) == []
    assert capfd.readouterr() == ("a\nb\n", "")


def test_pieces_are_shown_as_they_come(tmp_path: Path) -> None:
    """The first piece is on the screen while the second is being made."""
    shown = tmp_path / "shown"

    def pieces() -> Iterator[bytes]:
        assert not shown.exists()  # no pager for nothing
        yield b"first\n"
        for _ in range(500):
            if shown.exists() and shown.read_bytes() == b"first\n":
                break
            time.sleep(0.01)
        else:
            pytest.fail("the first piece was not passed on")
        yield b"second\n"

    assert list(page(pieces(), f"cat > {shown}")) == []
    assert shown.read_bytes() == b"first\nsecond\n"


def test_an_error_in_the_middle(tmp_path: Path) -> None:
    """What is there is shown, and the error goes on."""
    shown = tmp_path / "shown"

    def pieces() -> Iterator[bytes]:
        yield b"first\n"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        page(pieces(), f"cat > {shown}")
    assert shown.read_bytes() == b"first\n"


def test_nothing_needs_no_pager(tmp_path: Path) -> None:
    """An empty listing starts nothing."""
    assert list(page([], f"touch {tmp_path / 'begun'}")) == []
    assert not (tmp_path / "begun").exists()


def test_a_mistake_needs_no_pager(terminal: Terminal, sides: tuple[Path, Path], make: Make) -> None:
    """What was asked wrongly is said where it can be read."""
    seen = terminal("diff", *sides, "--stack", "no-such-stack", PAGER=make("mine"))

    assert seen.exit_code == 2
    assert "BEGIN" not in seen.screen


def test_the_progress_line_is_gone_first(terminal: Terminal, tmp_path: Path, make: Make) -> None:
    """Nothing is drawn on the terminal once the pager has it."""
    program = (
        "import cachewatch.cli.progress as progress, cachewatch.diff as pipeline; from cachewatch.cli import main;"
        "progress.LONG_BYTES = 0; pipeline._BATCH_BYTES = 1; main()"
    )
    for name, version in (("a", "1.0"), ("b", "2.0")):
        (tmp_path / name).mkdir()
        for package in range(5):
            (tmp_path / name / f"p{package}.md").write_bytes(
                document([record(package, versions=[version])], package=f"p{package}")
            )
    master, slave = pty.openpty()
    command = [sys.executable, "-c", program, "diff", str(tmp_path / "a"), str(tmp_path / "b"), "--jobs", "1"]
    environment = {**os.environ, "PAGER": make("mine")}
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        screen = b"".join(_shown(master)).decode()
        os.close(master)

    progress, _, paged = screen.partition("BEGIN mine")
    assert process.returncode == 0
    assert "comparing [" in progress
    assert progress.endswith("\x1b[K")
    assert "\r\x1b[K" not in paged


def test_less_itself(terminal: Terminal, sides: tuple[Path, Path], tmp_path: Path) -> None:
    """Short output just stays on the screen; of long output one page is shown, and q ends it."""
    program("less")
    many = [record(number, versions=[f"{number}.0"]) for number in range(500)]
    (tmp_path / "many.md").write_bytes(document(many))

    short = terminal("diff", *sides)
    long = terminal("show", tmp_path / "many.md", keys=b"q")
    assert short.exit_code == long.exit_code == 0
    assert "UPGRADED" in short.screen
    assert len(long.screen.splitlines()) < 100


def test_json_stays_json(terminal: Terminal, sides: tuple[Path, Path], make: Make) -> None:
    """Also on a terminal."""
    assert json.loads(terminal("diff", *sides, "--format", "json", PAGER=make("mine")).screen)
