"""A build that is killed goes on where it was, whatever it was doing."""

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from helpers import catalogue, records
from indexes import Catalogue, build, dump, write

KILLS = 5
# Builds, and kills the whole process group before the statement of that number, counted from the first that contains a
# text; two processes read.
KILLED = """
import itertools, os, signal, sys
from cachewatch.extensions.history import build as building
from cachewatch.git.local_repository import Repository

folder, path, number, text = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
open_for_writing, count, seen = building.schema.open_for_writing, itertools.count(), []

def trace(statement):
    if seen or text in statement:
        seen.append(1)
        next(count) == number and os.killpg(0, signal.SIGKILL)

def counted(path):
    connection = open_for_writing(path)
    connection.set_trace_callback(trace)
    return connection

building._VERSIONS_IN_UNIT = 1
building.schema.open_for_writing = counted
repository = Repository(building.Path(folder))
building.bring_up_to_date(repository, building.Path(path), building.in_jobs(repository, 2))
print(next(count))
"""

# The statement before the first document is written.
WRITING = "SELECT name FROM unit"


def _run(folder: Path, path: Path, number: int, text: str = WRITING) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", KILLED, str(folder), str(path), str(number), text]
    return subprocess.run(command, check=False, capture_output=True, text=True, start_new_session=True)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_kills_leave_what_an_undisturbed_build_makes(tmp_path: Path, seed: int) -> None:
    nights, random = Catalogue(seed), Random(seed)
    # Small documents, so that there are many units.
    small = [{f"small-{m}": records(range(100 * m, 100 * m + 1 + n // 9)) for m in range(60)} for n in range(40)]
    folder = write(tmp_path / "c.git", [{**nights.night(), **catalogue(each)} for each in small], seed=seed)
    undisturbed = build(folder, tmp_path / "undisturbed.db")
    whole = int(_run(folder, tmp_path / "counted.db", -1).stdout)
    path = tmp_path / "h.db"
    for number in range(KILLS):
        # Each time soon enough that something is left to do; now and then before anything is written.
        text, soon = ("", 50) if number % 3 == 0 else (WRITING, whole // KILLS)
        at = soon - 1 if number == KILLS - 1 else random.randrange(soon)  # at last so late that something is done
        killed = _run(folder, path, at, text)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM unit").fetchone()[0]
    assert build(folder, path) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4])
def test_kills_while_it_is_brought_up_to_date(tmp_path: Path, seed: int) -> None:
    """Revisions come, and some are rewritten, between builds that are killed."""
    nights, random = Catalogue(seed), Random(seed)
    folder = write(tmp_path / "c.git", [nights.night() for _ in range(30)], seed=seed)
    path = tmp_path / "h.db"
    build(folder, path)
    for turn in range(KILLS):
        onto = f"refs/heads/main~{random.randrange(4)}"
        write(folder, [nights.night() for _ in range(3)], seed=seed + turn, onto=f"{onto}^0")
        killed = _run(folder, path, random.randrange(60))
        assert killed.returncode in (0, -signal.SIGKILL), killed.stderr
    build(folder, path)
    assert dump(path) == build(folder, tmp_path / "full.db")
