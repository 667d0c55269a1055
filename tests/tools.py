"""Programs that some tests start: those that `make test-tools` installs, and modules of the tests themselves."""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from cachewatch.__main__ import cli

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cachewatch-tests"
# Where programs are that may not be in the PATH.
_SERVERS = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
_PLACES = {
    "exim4": Path("/usr/sbin/exim4"),
    "postgres": _SERVERS[-1] if _SERVERS else Path("/usr/lib/postgresql"),
    "promtool": CACHE / "promtool",
    "smtp-sink": CACHE / "postfix/usr/sbin/smtp-sink",
}
_MISSING = "missing: "
_TESTS = Path(__file__).parent


def program(name: str) -> str:
    """Return where a program is; without it the test is skipped."""
    elsewhere = _PLACES.get(name)
    found = shutil.which(name) or (str(elsewhere) if elsewhere and elsewhere.is_file() else None)
    if found is None:
        pytest.skip(_MISSING + name)
    return found


def need(file: Path, name: str) -> Path:
    """Return a file that a tool consists of; without it the test is skipped."""
    if not file.is_file():
        pytest.skip(_MISSING + name)
    return file


def all_commands(
    group: click.Group = cli, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command and group of commands below a group, by its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        if (command := group.get_command(context, name)) is not None:
            yield (*words, name), command
            if isinstance(command, click.Group):
                yield from all_commands(command, (*words, name))


def finding_commands() -> dict[str, str]:
    """Return the environment in which a shell finds the commands of this Python."""
    return os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def finding_tests() -> dict[str, str]:
    """Return the environment in which a new Python finds the modules of the tests; pytest sets it for its own process."""
    return os.environ | {"PYTHONPATH": os.pathsep.join((str(_TESTS), str(_TESTS.parent)))}


def summary(reasons: Sequence[str]) -> list[str]:
    """Sum up why tests were skipped: a line for missing tools, and one for everything else."""
    tools = [reason.removeprefix(_MISSING) for reason in reasons if reason.startswith(_MISSING)]
    others = [reason for reason in reasons if not reason.startswith(_MISSING)]
    lines = []
    if tools:
        names = ", ".join(sorted(set(tools)))
        lines.append(f"{_tests(tools)} skipped because tools are missing ({names}); `make test-tools` installs them")
    if others:
        lines.append(f"{_tests(others)} skipped: {'; '.join(sorted(set(others)))}")
    return lines


def _tests(reasons: Sequence[str]) -> str:
    return "1 test was" if len(reasons) == 1 else f"{len(reasons)} tests were"
