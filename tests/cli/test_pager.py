"""The pager, seen through a real terminal: what goes through it, and what does not."""

import errno
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers import document, record, write

# A pager that shows who it is, the settings it was given, and each line.
_MARKING = """#!/bin/sh
echo "BEGIN $(basename "$0") LESS=$LESS"
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
    for name in ("PAGER", "LESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def terminal() -> Terminal:
    """Run the command line with a terminal of its own."""

    def run(*arguments: object, program: Sequence[str] = ("-m", "cachewatch"), **variables: str) -> Seen:
        master, slave = pty.openpty()
        command = [sys.executable, *program, *map(str, arguments)]
        with subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, **variables}, start_new_session=True
        ) as process:
            os.close(slave)
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
    write(tmp_path, {"a.md": document([record(1)]), "b.md": document([record(2, versions=["2.0"])])})
    return tmp_path / "a.md", tmp_path / "b.md"


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str, str], str]:
    def write(name: str, text: str = _MARKING) -> str:
        file = tmp_path / name
        file.write_text(text)
        file.chmod(0o755)
        return str(file)

    return write


Make = Callable[..., str]


def test_output_goes_through_the_pager(terminal: Terminal, sides: tuple[Path, Path], make: Make) -> None:
    """All of it, with colour, as to the terminal; the settings of less are those of git."""
    seen = terminal("diff", *sides, PAGER=make("mine"))

    assert seen.screen.startswith("BEGIN mine LESS=FRX\n")
    assert seen.screen.endswith("END\n")
    assert "\x1b[32m2.0\x1b[0m" in seen.screen
    assert all(line.startswith("> ") for line in seen.screen.splitlines()[1:-1])


@pytest.mark.parametrize(
    "arguments",
    [
        ("--no-pager", "diff", "{a}", "{b}"),
        ("diff", "{a}", "{b}", "--format", "json"),
        ("diff", "{a}", "{b}", "--output", "-"),
    ],
)
def test_not_paged(terminal: Terminal, sides: tuple[Path, Path], make: Make, arguments: tuple[str, ...]) -> None:
    seen = terminal(*[word.format(a=sides[0], b=sides[1]) for word in arguments], PAGER=make("mine"))

    assert seen.exit_code == 0
    assert seen.screen
    assert "BEGIN" not in seen.screen


def test_exit_codes_stay(terminal: Terminal, sides: tuple[Path, Path], make: Make) -> None:
    early = make("early", "#!/bin/sh\nread -r line; echo $line\n")

    assert terminal("diff", *sides, "--exit-code", PAGER=make("mine")).exit_code == 1
    assert terminal("diff", *sides, "--fail-on", "upgraded", PAGER=early).exit_code == 1
    assert terminal("diff", *sides, "--fail-on", "downgraded", PAGER=early).exit_code == 0


def test_the_progress_line_is_gone_first(terminal: Terminal, tmp_path: Path, make: Make) -> None:
    """Nothing is drawn on the terminal once the pager has it."""
    program = (
        "import cachewatch.cli.terminal as progress, cachewatch.comparison_flow as pipeline; from cachewatch.__main__ import main;"
        "progress.LONG_BYTES = 0; pipeline._BATCH_BYTES = 1; main()"
    )
    for name, version in (("a", "1.0"), ("b", "2.0")):
        (tmp_path / name).mkdir()
        for package in range(5):
            content = document([record(package, versions=[version])], package=f"p{package}")
            (tmp_path / name / f"p{package}.md").write_bytes(content)
    arguments = ("diff", tmp_path / "a", tmp_path / "b", "--jobs", "1", "--package", "p[0-3]")
    seen = terminal(*arguments, program=("-c", program), PAGER=make("mine"))

    progress, _, paged = seen.screen.partition("BEGIN mine")
    assert seen.exit_code == 0
    assert "comparing [" in progress
    assert " 80%" in progress  # of all packages: those that are not selected are read, too
    assert progress.endswith("\x1b[K")
    assert "\r\x1b[K" not in paged
