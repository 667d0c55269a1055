"""Serial, in several processes, in parts and on a cluster: one index."""

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import Run
from indexes import Catalogue, Dump, build, dump, write

from cachewatch.documents import records as document_records
from cachewatch.documents.records import Known
from cachewatch.errors import WorkFailed
from cachewatch.git.repository import Repository
from cachewatch.history_db import build as building
from cachewatch.history_db import engines
from cachewatch.history_db.build import bring_up_to_date
from cachewatch.history_db.engines import in_jobs, on_cluster
from cachewatch.history_db.indexed_document import IndexedDocument, Task


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    nights = Catalogue(7)
    return write(tmp_path / "c.git", [nights.night() for _ in range(60)], seed=7)


@pytest.fixture
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_VERSIONS_IN_UNIT", 5)


def _in_parts(catalogue: Path, folder: Path, run: Run, of: int) -> Dump:
    for number in range(1, of + 1):
        assert run("history", "build", "--repo", catalogue, "--part", f"{number}/{of}", "--into", folder).exit_code == 0
    done = run("history", "merge", folder, "--db", folder / "merged.db")
    assert done.exit_code == 0, done.error
    return dump(folder / "merged.db")


@pytest.mark.usefixtures("small_units")
def test_all_ways_make_one_index(catalogue: Path, tmp_path: Path, run: Run) -> None:
    serial = build(catalogue, tmp_path / "serial.db")
    assert build(catalogue, tmp_path / "pool.db", jobs=2) == serial
    assert _in_parts(catalogue, tmp_path / "parts", run, 3) == serial


@pytest.mark.usefixtures("small_units")
def test_a_worker_that_is_killed_loses_nothing(
    catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow, killed = engines._follow_all, tmp_path / "killed"

    def killing(repository: Repository, unit: Sequence[Task], known: Known) -> list[IndexedDocument]:
        if any(task.package == "gcc" for task in unit) and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return follow(repository, unit, known)

    serial = build(catalogue, tmp_path / "serial.db")
    monkeypatch.setattr(engines, "_follow_all", killing)
    assert build(catalogue, tmp_path / "pool.db", jobs=2) == serial
    assert killed.exists()


@pytest.mark.usefixtures("small_units")
def test_a_document_that_kills_every_worker_is_named(
    catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = engines._follow_all

    def killing(repository: Repository, unit: Sequence[Task], known: Known) -> list[IndexedDocument]:
        if any(task.package == "gcc" for task in unit):
            os.kill(os.getpid(), signal.SIGKILL)
        return follow(repository, unit, known)

    monkeypatch.setattr(engines, "_follow_all", killing)
    with pytest.raises(WorkFailed, match=r"develop/\S*gcc.*3 worker processes ended"):
        build(catalogue, tmp_path / "pool.db", jobs=2)


def test_parts_that_do_not_belong_together_are_refused(catalogue: Path, tmp_path: Path, run: Run) -> None:
    parts = tmp_path / "parts"

    def refused(*arguments: object) -> str:
        done = run("history", *arguments)
        assert done.exit_code == 2
        return done.error

    assert "has no parts" in refused("merge", parts, "--db", tmp_path / "m.db")
    run("history", "build", "--repo", catalogue, "--part", "1/2", "--into", parts)
    assert "lacks part 2 of 2" in refused("merge", parts, "--db", tmp_path / "m.db")
    earlier = subprocess.run(
        ["git", f"--git-dir={catalogue}", "rev-parse", "main~3"], check=True, capture_output=True, text=True
    ).stdout.strip()
    subprocess.run(["git", f"--git-dir={catalogue}", "update-ref", "refs/heads/main", earlier], check=True)
    run("history", "build", "--repo", catalogue, "--part", "2/2", "--into", parts)
    assert "has other revisions than the first part" in refused("merge", parts, "--db", tmp_path / "m.db")
    assert "only part" in refused("build", "--repo", catalogue, "--db", parts / "part-1-of-2.db")
    assert "I/N" in refused("build", "--repo", catalogue, "--part", "3/2", "--into", parts)
    assert "belong together" in refused("build", "--repo", catalogue, "--part", "1/2")
    # What was wrong is put right, and the merge goes on.
    run("history", "build", "--repo", catalogue, "--part", "1/2", "--into", parts)
    run("history", "merge", parts, "--db", tmp_path / "m.db")
    assert dump(tmp_path / "m.db") == build(catalogue, tmp_path / "whole.db")


@pytest.mark.slow
@pytest.mark.usefixtures("small_units", "loopback")
def test_a_cluster_makes_the_same_index_though_a_worker_is_killed(
    catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.usefixtures("small_units")
def test_how_much_is_committed_at_once_changes_nothing(
    catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[list[int]] = []
    for most in (1, 10**9):
        monkeypatch.setattr(building, "_VERSIONS_AT_ONCE", most)
        commits.append([])
        repository = Repository(catalogue)
        progress = building.Progress(advance=commits[-1].append)
        bring_up_to_date(repository, tmp_path / f"{most}.db", in_jobs(repository, 1), progress=progress)
        repository.close()
    each, together = commits
    assert len(each) > 3
    assert together == [sum(each)]
    assert dump(tmp_path / "1.db") == dump(tmp_path / f"{10**9}.db")


@pytest.mark.usefixtures("small_units")
def test_a_process_that_forgets_what_records_mean_finds_the_same(
    catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembering = build(catalogue, tmp_path / "remembering.db")
    known: list[int] = []
    follow = engines._follow_all

    def counting(repository: Repository, unit: Sequence[Task], each: Known) -> list[IndexedDocument]:
        known.append(len(each.by_text))
        return follow(repository, unit, each)

    monkeypatch.setattr(engines, "_follow_all", counting)
    build(catalogue, tmp_path / "counting.db")
    assert any(known)
    known.clear()
    monkeypatch.setattr(document_records, "_MANY", 0)
    assert build(catalogue, tmp_path / "forgetting.db") == remembering
    assert not any(known)
