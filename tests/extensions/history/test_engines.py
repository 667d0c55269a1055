"""Serial, in several processes and on a cluster: one index."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from indexes import Catalogue, build, dump, write

from cachewatch.documents.records import KnownRecords
from cachewatch.errors import WorkFailed
from cachewatch.extensions.history import build as engines
from cachewatch.extensions.history.build import bring_up_to_date, on_cluster
from cachewatch.extensions.history.spec_intervals import Task
from cachewatch.git.local_repository import Repository


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
def test_a_worker_that_is_killed_costs_only_what_it_read(
    catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the documents, and the next build goes on from there."""
    answer, killed = engines._answer, tmp_path / "killed"

    def killing(repository: Repository, unit: engines.Unit, known: KnownRecords) -> Sequence[engines.Result]:
        if any(isinstance(task, Task) and task.package == "gcc" for task in unit) and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return answer(repository, unit, known)

    serial = build(catalogue, tmp_path / "serial.db")
    monkeypatch.setattr(engines, "_answer", killing)
    with pytest.raises(WorkFailed, match=r"gcc.*a worker process ended"):
        build(catalogue, tmp_path / "pool.db", jobs=2)
    assert build(catalogue, tmp_path / "pool.db", jobs=2) == serial


@pytest.mark.slow
@pytest.mark.nightly
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
