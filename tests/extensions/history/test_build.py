"""The index says of every revision what its documents say, however it came to be."""

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from indexes import Catalogue, build, by_brute_force, dump, without_messages, write

from cachewatch.extensions.history.schema_and_location import open_for_writing
from cachewatch.extensions.history.write import transaction


def _commits(folder: Path) -> list[str]:
    asked = ["git", f"--git-dir={folder}", "rev-list", "--first-parent", "--reverse", "main"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()


def _go_to(folder: Path, commit: str) -> None:
    subprocess.run(["git", f"--git-dir={folder}", "update-ref", "refs/heads/main", commit], check=True)


@pytest.mark.slow_cases
@pytest.mark.parametrize("seed", range(8))
def test_the_index_says_what_all_documents_say(tmp_path: Path, seed: int) -> None:
    catalogue = Catalogue(seed)
    folder = write(tmp_path / "c.git", [catalogue.night() for _ in range(40)], seed=seed)
    assert without_messages(build(folder, tmp_path / "h.db")) == by_brute_force(folder)


@pytest.mark.slow_cases
@pytest.mark.parametrize("seed", range(20, 26))
def test_an_update_is_equal_to_a_full_build(tmp_path: Path, seed: int) -> None:
    """One revision at a time, and in jumps; whatever was a link for a while, or could not be read."""
    catalogue, random = Catalogue(seed), Random(seed)
    folder = write(tmp_path / "c.git", [catalogue.night() for _ in range(40)], seed=seed)
    commits = _commits(folder)
    for at_once in (1, 9):
        for place in [*range(0, len(commits), random.randint(1, at_once)), len(commits) - 1]:
            _go_to(folder, commits[place])
            build(folder, tmp_path / f"{at_once}.db")
        assert dump(tmp_path / f"{at_once}.db") == build(folder, tmp_path / f"full-{at_once}.db")


@pytest.mark.slow_cases
@pytest.mark.parametrize("seed", range(40, 46))
def test_a_force_push_leaves_what_a_full_build_would(tmp_path: Path, seed: int) -> None:
    """The branch goes back, forth again, and elsewhere; each time the index is that of its newest revision."""
    catalogue, random = Catalogue(seed), Random(seed)
    folder = write(tmp_path / "c.git", [catalogue.night() for _ in range(25)], seed=seed)
    path = tmp_path / "h.db"
    build(folder, path)
    for turn in range(4):
        commits = _commits(folder)
        fork = commits[random.randrange(len(commits))]
        _go_to(folder, fork)
        if turn % 2:
            write(folder, [catalogue.night() for _ in range(random.randrange(1, 6))], seed=seed + turn, onto=fork)
        found = build(folder, path)
        assert found == build(folder, tmp_path / f"{turn}.db")
    assert without_messages(dump(path)) == by_brute_force(folder)


def test_a_full_disk_is_what_is_said(tmp_path: Path) -> None:
    """SQLite ends the transaction itself then, and there is nothing left to roll back."""
    with closing(open_for_writing(tmp_path / "h.db")) as connection:
        connection.execute("PRAGMA cache_size = 10")
        connection.execute("PRAGMA max_page_count = 60")
        rows = [(number, f"{number}" * 2000) for number in range(200)]
        with pytest.raises(sqlite3.OperationalError, match="is full"), transaction(connection):
            connection.executemany("INSERT INTO tag VALUES (?, ?)", rows)
        assert connection.execute("SELECT count(*) FROM tag").fetchone() == (0,)
