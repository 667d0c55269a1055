"""Causes in the index: those that `cachewatch why --between` names in each revision, added up."""

import itertools
import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from helpers import catalogue, history
from helpers import record as record_of
from indexes import build, commits_of, run_git
from truths import V3, History

from cachewatch.extensions.causes import explaining_reports_and_locks as rebuilds

Row = tuple[Any, ...]


@pytest.fixture
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilds, "_IN_RUN", 2)


def _why(run: Run, folder: Path, before: str, after: str) -> dict[str, Any]:
    done = run("why", "--between", before, after, "--repo", folder, "--format", "json")
    if done.exit_code == 2:
        assert "has no dependency graph" in done.error
        return {"recorded": False}
    assert done.exit_code == 0, done.error
    found: dict[str, Any] = json.loads(done.output)
    return found


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else " ".join(value)


def _added_up(run: Run, folder: Path, commits: list[str]) -> dict[Row, Row]:
    """Return (specs, attributed) by cause, of `why --between` for each revision."""
    specs: Counter[Row] = Counter()
    attributed: Counter[Row] = Counter()
    for before, after in itertools.pairwise(commits):
        found = _why(run, folder, before, after)
        for one in found["causes"] if found["recorded"] else ():
            key = (one["package"] or "", one["what"], _text(one["before"]), _text(one["after"]))
            specs[key] += one["specs"]
            attributed[key] += one["attributed"]
    return {key: (specs[key], attributed[key]) for key in specs}


def _asked(run: Run, folder: Path, *arguments: object) -> dict[str, Any]:
    done = run("history", "churn", "--by", "cause", "--repo", folder, "--format", "json", *arguments)
    assert done.exit_code == 0, done.error
    found: dict[str, Any] = json.loads(done.output)
    return found


def _rows(found: dict[str, Any]) -> dict[Row, Row]:
    fields = ("name", "what", "before", "after")
    return {tuple(row[f] for f in fields): (row["specs"], row["attributed"]) for row in found["rows"]}


@pytest.fixture
def recorded(histories: dict[str, History], tmp_path: Path) -> Path:
    """A copy of a recorded repository, whose index nobody else sees."""
    return Path(shutil.copytree(histories["v3"].folder, tmp_path / "recorded.git"))


def test_churn_by_cause_adds_up_what_why_says(run: Run, recorded: Path) -> None:
    """Of all revisions, and of ranges."""
    assert run("history", "build", "--repo", recorded, "--quiet").exit_code == 0
    commits = commits_of(recorded)
    for since, until in [(0, len(commits) - 1), (2, 6), (5, 6), (0, 3)]:
        found = _asked(run, recorded, "--since", commits[since], "--until", commits[until])
        expected = _added_up(run, recorded, commits[since : until + 1])
        assert _rows(found) == expected
        assert found["not_recorded"] == 0
    assert ("zlib", "version", "1.3", "1.3.1") in _rows(_asked(run, recorded))


@pytest.mark.usefixtures("small_runs")
def test_updates_and_force_pushes_leave_the_causes_of_a_full_build(recorded: Path, tmp_path: Path) -> None:
    """One revision at a time, then back, then on."""
    full, commits = build(recorded, tmp_path / "full.db"), commits_of(recorded)
    branch = run_git(recorded, "symbolic-ref", "HEAD").strip()
    found = full
    for commit in [*commits, commits[4], commits[-1]]:
        subprocess.run(["git", f"--git-dir={recorded}", "update-ref", branch, commit], check=True)
        found = build(recorded, tmp_path / "steps.db")
        assert {row[1] for row in found["night"]} == set(range(1, commits.index(commit) + 1))
    assert found == full


def test_without_a_graph_it_is_said_plainly(run: Run, tmp_path: Path) -> None:
    """The revision that brings the tag has nothing before it, so two of three are not recorded."""
    states = [catalogue({"zlib": [record_of(number)]}) for number in (1, 2, 3)]
    folder = history(tmp_path / "plain.git", {"README": b""}, *states)
    run("history", "build", "--repo", folder, "--quiet")
    text = run("history", "churn", "--by", "cause", "--repo", folder).output
    found = _asked(run, folder)

    assert "Not recorded: 2 of the 2 revisions that changed develop in that time." in text
    assert "`cachewatch record` keeps it from now on" in text
    assert (found["recorded"], found["not_recorded"], found["rows"]) == (0, 2, [])


def test_a_graph_that_begins_later_counts_from_there(run: Run, recorded: Path) -> None:
    """The revisions without one are named, and the others are counted."""
    folder = recorded
    stream = run_git(folder, "fast-export", "--no-data", "HEAD").splitlines()
    # The first three revisions lose their graphs, as an older cachewatch recorded them.
    kept, commit = [], 0
    for line in stream:
        commit += line.startswith("commit ")
        if not (commit <= 3 and line.startswith("M ") and line.endswith("graph.json")):
            kept.append(line)

    command = ["git", f"--git-dir={folder}", "fast-import", "--quiet", "--force"]
    subprocess.run(command, input="\n".join(kept).encode(), check=True)
    run("history", "build", "--repo", folder, "--quiet")
    found = _asked(run, folder)
    commits = commits_of(folder)
    known = [_why(run, folder, before, after)["recorded"] for before, after in itertools.pairwise(commits)]

    assert {True, False} == set(known)
    assert (found["recorded"], found["not_recorded"]) == (known.count(True), known.count(False))
    assert _rows(found) == _added_up(run, folder, commits)
    assert "Not recorded: " in run("history", "churn", "--by", "cause", "--repo", folder).output


def test_a_package_that_cannot_be_read_is_left_out(run: Run, recorded: Path, histories: dict[str, History]) -> None:
    """The graph of one package is damaged in the last revision: everything else is explained."""
    folder = recorded
    tip = histories["v3"].revisions[V3[6]]
    branch = run_git(folder, "symbolic-ref", "HEAD").strip()
    stream = (
        f"commit {branch}\ncommitter a <a@b> 1790000000 +0000\ndata 1\nx\nfrom {histories['v3'].revisions[V3[5]]}\n"
        f"M 040000 {run_git(folder, 'rev-parse', f'{tip}:_cache').strip()} _cache\n"
        "M 100644 inline _cache/develop/cw-stack/graph.json\ndata 5\n[cut \n"
    )
    command = ["git", f"--git-dir={folder}", "fast-import", "--quiet", "--force"]
    subprocess.run(command, input=stream.encode(), check=True)
    run("history", "build", "--repo", folder, "--quiet")
    found = _rows(_asked(run, folder, "--since", "HEAD~1"))

    assert sum(attributed for _, attributed in found.values()) == 5
