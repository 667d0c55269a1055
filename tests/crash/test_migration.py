"""An upgrade of the database that is killed, starved or failed by the disk anywhere: the old form or the new one opens."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlite_files import opened

from cachewatch.store.schema import FORM
from cachewatch.store.sqlite import NAME
from cachewatch.store.sqlite_backup import draft_of
from crash.faults import BROKEN, FULL, KILLED, Fault, calls, everywhere, injection
from crash.forms import NEXT_FORM
from crash.world import Case, World, Zygote

pytestmark = pytest.mark.crash

OLD, NEW = FORM, NEXT_FORM
# It opens the state to change it, and then finds that there is nothing to be dropped.
_NEWER: dict[str, Any] = {"command": ["deliveries", "drop", "999", "--reason", "none"], "next_form": True}
_NOTHING = 2
_EXPECTED = {_NOTHING, 3, 5}  # 3 is for what it prints, 5 for the state

Rows = dict[str, list[tuple[object, ...]]]


class Filled(NamedTuple):
    """A state that holds digests and deliveries; threads copy the folder, so nobody opens its database again."""

    folder: Path
    rows: Rows


@pytest.fixture(scope="module")
def filled(world: World) -> Filled:
    """A state, and what it holds."""
    case = world.case()
    assert world.zygotes[0].run(case) == 0
    filled = Filled(case.folder / "state", _rows(case.folder / "state" / NAME))
    assert filled.rows["deliveries"]
    return filled


@pytest.mark.parametrize(
    ("names", "action"),
    [(KILLED, "signal=SIGKILL"), (FULL, "error=ENOSPC"), (BROKEN, "error=EIO")],
    ids=["killed", "out of space", "input/output errors"],
)
def test_an_upgrade_is_done_or_not(world: World, filled: Filled, names: tuple[str, ...], action: str) -> None:
    faults = [(call, number, action) for call, number in calls(world, names, _copy(world, filled), **_NEWER)]

    def one(zygote: Zygote, fault: Fault) -> tuple[int, list[str]]:
        case = _copy(world, filled)
        status = zygote.run(case, inject=injection(fault), **_NEWER)
        problems = list(_problems(zygote, case, filled))
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) not in _EXPECTED:
            problems.append(f"ended with {os.WEXITSTATUS(status)}")
        problems = [f"{fault}: {problem}" for problem in problems]
        shutil.rmtree(case.folder)
        return int(os.waitstatus_to_exitcode(status) != _NOTHING), problems

    done = everywhere(world, faults, one)
    print(f"\nupgrade, {action}: {len(done)} cases, {sum(ended for ended, _ in done)} ended by it")
    assert not [problem for _, problems in done for problem in problems]


def _copy(world: World, filled: Filled) -> Case:
    case = world.case()
    shutil.rmtree(case.folder / "state")
    shutil.copytree(filled.folder, case.folder / "state")
    return case


def _problems(zygote: Zygote, case: Case, filled: Filled) -> Iterator[str]:
    """Yield what must not be: after the fault, and after the next start."""
    path, before = case.folder / "state" / NAME, filled.rows
    if _form(path) == OLD and zygote.run(case, command=["status"]):
        yield "the version of before does not open it"
    if _rows(path) != before:
        yield "something was lost"
    if os.waitstatus_to_exitcode(zygote.run(case, **_NEWER)) != _NOTHING:
        yield "the new version does not open it"
    aside = path.with_name(f"{NAME}.form-{OLD}")
    if (_form(path), _rows(path)) != (NEW, before):
        yield "it was not upgraded"
    if (_form(aside), _rows(aside)) != (OLD, before):
        yield "the copy aside is not what was"
    if draft_of(aside).exists():
        yield "half a copy is left"


def _form(path: Path) -> int:
    with opened(path) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _rows(path: Path) -> Rows:
    """Return all that the old form has a place for."""
    with opened(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return {
            table: connection.execute(
                f"SELECT {', '.join(columns)} FROM {table} ORDER BY {', '.join(columns)}"
            ).fetchall()
            for table, columns in _COLUMNS.items()
        }


# Of every table that has rows: what identifies a row, then what may not change.
_COLUMNS: dict[str, tuple[str, ...]] = {
    "counters": ("name", "value"),
    "cursors": ("subscription", "stream", "source", "tag", "revision"),
    "deliveries": ("id", "digest", "channel", "target", "state", "said", "message_id", "payload"),
    "attempts": ("id",),
    "digests": ("key", "title", "state", "rendered"),
    "sources": ("name", "revision"),
}
