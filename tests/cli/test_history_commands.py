"""`cachewatch history`: what the commands say, and what they leave."""

import json
import subprocess
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, history, records

from cachewatch.errors import AnotherInstance
from cachewatch.history_db import build
from cachewatch.history_db.schema import NAME, open_for_writing


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return history(tmp_path / "c.git", *(catalogue({"zlib": records(range(n, n + 4))}) for n in range(3)))


def test_an_index_is_built_looked_at_and_removed(repository: Path, run: Run) -> None:
    path = repository / NAME
    missing = run("history", "status", "--repo", repository)
    assert (
        missing.exit_code,
        f"{path}: there is no history index; run `cachewatch history build`" in missing.error,
    ) == (2, True)
    assert run("history", "update", "--repo", repository).exit_code == 2

    built = run("history", "build", "--repo", repository)
    assert (built.exit_code, built.error) == (0, f"{path}: indexed 3 revisions, 3 versions of documents.\n")
    shown = run("history", "status", "--repo", repository)
    assert (shown.exit_code, shown.output.splitlines()[1:]) == (
        0,
        ["state     up to date", f"indexed up to {_head(repository)[:10]}, 2025-06-03 04:00 UTC"],
    )
    assert run("history", "update", "--repo", repository).error == f"{path}: up to date.\n"

    assert run("history", "drop", "--repo", repository).error == f"{path}: removed.\n"
    assert [file.name for file in repository.glob("*.db*")] == [f"{NAME}.lock"]
    assert run("history", "drop", "--repo", repository).error == f"{path}: there is no history index.\n"


def test_the_status_tells_what_is_not_indexed(repository: Path, run: Run) -> None:
    newest = _head(repository)
    _go_to(repository, "main~1")
    run("history", "build", "--repo", repository, "--quiet")
    _go_to(repository, newest)

    done = run("history", "status", "--repo", repository, "--format", "json")

    assert done.exit_code == 1
    found = json.loads(done.output)
    assert (found["schema"], found["behind"], found["rewritten"]) == ("cachewatch.history-status/1", 1, 0)
    assert found["newest"] == {"revision": newest, "time": "2025-06-03T04:00:00Z"}
    assert "1 revision behind" in run("history", "status", "--repo", repository).output

    _go_to(repository, f"{newest}~2")
    assert "1 indexed revision was removed by a force-push" in run("history", "status", "--repo", repository).output
    assert "1 revision was taken out" in run("history", "update", "--repo", repository).error
    assert run("history", "status", "--repo", repository).exit_code == 0


def test_the_status_of_a_build_that_was_interrupted(
    repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "finish", interrupted)
    assert run("history", "build", "--repo", repository).exit_code == 130
    monkeypatch.undo()
    shown = run("history", "status", "--repo", repository)
    assert (shown.exit_code, "building  1 of 1 documents are done" in shown.output) == (1, True)
    assert "not complete yet" in shown.output
    assert run("history", "build", "--repo", repository).exit_code == 0
    assert run("history", "status", "--repo", repository).exit_code == 0


def test_a_file_that_is_no_index_is_neither_changed_nor_removed(repository: Path, tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    notes = folder / "notes.txt"
    notes.write_text("mine" * 100)
    for command in ("build", "status", "drop"):
        done = run("history", command, "--repo", repository, "--db", notes)
        assert (done.exit_code, "name another file with --db" in done.error) == (5, True), done.error
    assert (notes.read_text(), [file.name for file in folder.iterdir()]) == ("mine" * 100, ["notes.txt"])


def test_two_builds_of_one_index_do_not_meet(repository: Path, tmp_path: Path) -> None:
    """The second one is a process of its own: locks of one process do not exclude each other."""
    path = tmp_path / "h.db"
    with build.locked(path):
        code = f"from cachewatch.history_db.build import locked, Path\nwith locked(Path({str(path)!r})): pass"
        done = subprocess.run([".venv/bin/python", "-c", code], check=False, capture_output=True, text=True)
    assert AnotherInstance.__name__ in done.stderr
    open_for_writing(path).close()


def test_loose_objects_are_named(repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "loose objects" not in run("history", "build", "--repo", repository).error
    monkeypatch.setattr("cachewatch.cli.history._LOOSE_OBJECTS", 1)
    assert "loose objects; `git -C" in run("history", "build", "--repo", repository).error


def test_the_index_is_where_the_environment_says(
    repository: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CACHEWATCH_HISTORY", str(tmp_path / "elsewhere.db"))
    assert run("history", "build", "--repo", repository).exit_code == 0
    assert (tmp_path / "elsewhere.db").exists()
    assert not (repository / NAME).exists()


def _head(repository: Path) -> str:
    asked = ["git", f"--git-dir={repository}", "rev-parse", "main"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def _go_to(repository: Path, revision: str) -> None:
    commit = subprocess.run(
        ["git", f"--git-dir={repository}", "rev-parse", revision], check=True, capture_output=True, text=True
    ).stdout.strip()
    subprocess.run(["git", f"--git-dir={repository}", "update-ref", "refs/heads/main", commit], check=True)
