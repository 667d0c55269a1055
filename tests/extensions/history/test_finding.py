"""Several processes find the versions of documents that one finds."""

import os
import signal
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from indexes import Catalogue, write

from cachewatch.extensions.history import build as finding
from cachewatch.extensions.history.build import find_in_jobs
from cachewatch.extensions.history.document_versions import DocumentVersions, find_versions, first_parents
from cachewatch.git.repository import Repository


@pytest.fixture
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return one in which links replace documents, packages and tags for a while."""
    monkeypatch.setattr(finding, "_FEWEST", 1)
    nights = Catalogue(11)
    return write(tmp_path / "c.git", [nights.night() for _ in range(40)], seed=11)


@pytest.mark.parametrize(("start", "runs"), [(0, 4), (0, 100), (17, 3), (37, 4)])
def test_processes_find_what_one_finds(catalogue: Path, monkeypatch: pytest.MonkeyPatch, start: int, runs: int) -> None:
    monkeypatch.setattr(finding, "_RUNS_OF_JOB", runs)
    with closing(Repository(catalogue)) as repository:
        commits = [moment.commit for moment in first_parents(repository)]
        found = find_versions(repository, commits, start)
        assert found
        assert find_in_jobs(repository, commits, start, 2) == found


def test_a_process_that_is_killed_loses_nothing(catalogue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.getpid()

    def killing(repository: Repository, commits: Sequence[str], start: int = 0) -> list[DocumentVersions]:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return find_versions(repository, commits, start)

    monkeypatch.setattr(finding, "find_versions", killing)
    with closing(Repository(catalogue)) as repository:
        commits = [moment.commit for moment in first_parents(repository)]
        assert find_in_jobs(repository, commits, 0, 2) == find_versions(repository, commits)
