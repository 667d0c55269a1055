"""The index says of every revision what its documents say, however it came to be."""

import os
import re
import signal
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import Run
from indexes import Catalogue, build, by_brute_force, commits_of, dump, without_messages, write
from upstream import git

from cachewatch.errors import WorkFailed
from cachewatch.extensions.history import build as engines
from cachewatch.extensions.history.build import bring_up_to_date, on_cluster, transaction
from cachewatch.extensions.history.schema_and_location import open_for_writing
from cachewatch.extensions.history.versions_and_intervals import IndexedDocument
from cachewatch.git import remote_urls_and_fetch_errors
from cachewatch.git.git_processes import Git
from cachewatch.git.local_repository import Repository


def _go_to(folder: Path, commit: str) -> None:
    git(folder, "update-ref", "refs/heads/main", commit)


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
    commits = commits_of(folder)
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
        commits = commits_of(folder)
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


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    nights = Catalogue(7)
    return write(tmp_path / "c.git", [nights.night() for _ in range(60)], seed=7)


@pytest.fixture
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_VERSIONS_IN_UNIT", 5)


@pytest.mark.usefixtures("small_units")
def test_several_processes_make_the_same_index(catalogue: Path, tmp_path: Path) -> None:
    serial = build(catalogue, tmp_path / "serial.db")
    assert build(catalogue, tmp_path / "pool.db", jobs=2) == serial


@pytest.mark.usefixtures("small_units")
def test_a_killed_worker_costs_what_it_read(catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the documents, and the next build goes on from there."""
    answer, killed = engines._answer, tmp_path / "killed"

    def killing(repository: Repository, unit: engines.Unit) -> Sequence[IndexedDocument]:
        if any(task.package == "gcc" for task in unit) and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return answer(repository, unit)

    serial = build(catalogue, tmp_path / "serial.db")
    monkeypatch.setattr(engines, "_answer", killing)
    with pytest.raises(WorkFailed, match=r"gcc.*a worker process ended"):
        build(catalogue, tmp_path / "pool.db", jobs=2)
    assert build(catalogue, tmp_path / "pool.db", jobs=2) == serial


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.usefixtures("small_units", "loopback")
def test_a_cluster_with_a_killed_worker(catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    serial = build(catalogue, tmp_path / "serial.db")
    monkeypatch.setattr(engines, "_AT_ONCE", 4)
    repository = Repository(catalogue)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
    ) as cluster:
        inner = on_cluster(repository.git_dir, cluster.scheduler_address)
        first = next(iter(cluster.workers.values()))

        def engine(units: object) -> object:
            for number, answer in enumerate(inner(units)):  # type: ignore[arg-type]
                if number == 2:
                    os.kill(first.pid, signal.SIGKILL)
                yield answer

        bring_up_to_date(repository, tmp_path / "dask.db", engine)  # type: ignore[arg-type]
    assert dump(tmp_path / "dask.db") == serial


def test_what_is_absent_is_fetched_in_few_goes(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone without file contents says so first; the index is the same."""
    nights = Catalogue(3)
    folder = write(tmp_path / "c.git", [nights.night() for _ in range(20)], seed=3)
    for key in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        git(folder, "config", key, "true")
    fetches: list[int] = []
    inner = Git.ask

    def noting(git: Git, arguments: Iterable[str], lines: Iterable[str] = (), **values: Any) -> Any:
        arguments, lines = list(arguments), list(lines)
        if "fetch" in arguments and "--stdin" in arguments:
            fetches.append(len(lines))
        return inner(git, arguments, lines, **values)

    monkeypatch.setattr(Git, "ask", noting)
    monkeypatch.setattr(remote_urls_and_fetch_errors, "_MOST", 10)
    said = r"this clone lacks ([\d,]+) versions of documents, which are fetched now and stay in it"
    told = re.search(said, run("history", "build", "--repo", f"file://{folder}", "--db", tmp_path / "h.db").error_of(0))
    assert told
    assert fetches == [10] * (int(told[1]) // 10) + [int(told[1]) % 10] * bool(int(told[1]) % 10)
    assert dump(tmp_path / "h.db") == build(folder, tmp_path / "whole.db")
    assert "lacks" not in run("history", "build", "--repo", f"file://{folder}", "--db", tmp_path / "again.db").error
