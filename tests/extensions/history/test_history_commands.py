"""`cachewatch history`: what the commands say, and what they leave."""

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from conftest import Run, unprivileged
from helpers import catalogue, history, record, records
from upstream import git

from cachewatch.errors import AnotherInstance
from cachewatch.extensions.history import build
from cachewatch.extensions.history.schema_and_location import index_path, open_for_writing
from cachewatch.store.transactions_and_sqlite import open_database


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return history(tmp_path / "c.git", *(catalogue({"zlib": records(range(n, n + 4))}) for n in range(3)))


def test_an_index_is_built_and_removed(repository: Path, run: Run) -> None:
    path = index_path(None, repository)
    error = run("history", "when", "zlib", "--db", path).error_of(2)
    assert f"{path}: there is no history index; run `cachewatch history build`" in error

    built = run("history", "build", "--repo", repository)
    assert (built.exit_code, built.error) == (0, f"{path}: indexed 3 revisions, 3 versions of documents.\n")
    assert run("history", "build", "--repo", repository).error == f"{path}: up to date.\n"

    assert run("history", "drop", "--repo", repository).error == f"{path}: removed.\n"
    assert [file.name for file in path.parent.iterdir()] == [f"{path.name}.lock"]
    assert list(repository.glob("*.db*")) == []
    assert run("history", "drop", "--repo", repository).error == f"{path}: there is no history index.\n"


def test_a_build_that_was_interrupted_goes_on(repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("cachewatch.extensions.history.build.fill_specs", interrupted)
        assert run("history", "build", "--repo", repository).exit_code == 130
    question = ("history", "when", "zlib", "--db", index_path(None, repository))
    assert "the history index is not complete; `cachewatch history build`" in run(*question).error_of(2)
    assert run("history", "build", "--repo", repository).exit_code == 0
    assert f"indexed up to {_head(repository)[:10]}, 2025-06-03 04:00 UTC" in run(*question).output


def test_a_file_that_is_no_index_is_neither_changed_nor_removed(repository: Path, tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    notes = folder / "notes.txt"
    notes.write_text("mine" * 100)
    for command in ("build", "drop"):
        assert "name another file with --db" in run("history", command, "--repo", repository, "--db", notes).error_of(5)
    assert (notes.read_text(), [file.name for file in folder.iterdir()]) == ("mine" * 100, ["notes.txt"])


@pytest.mark.parametrize("content", ["state", "text", "short text", "another"])
def test_only_an_index_is_dropped(repository: Path, tmp_path: Path, run: Run, content: str) -> None:
    """Most databases, and many files, have zeros where SQLite says whose they are."""
    path = tmp_path / "precious.db"
    match content:
        case "state":
            open_database(path.parent).close()
            path = path.parent / "cachewatch.db"
        case "text":
            path.write_bytes(bytes(200) + b"important")
        case "short text":
            path.write_bytes(b"important")
        case _:
            with closing(sqlite3.connect(path)) as other:
                other.execute("CREATE TABLE precious(x)")
    before = path.read_bytes()
    told = run("history", "drop", "--repo", repository, "--db", path)
    assert (told.exit_code, path.read_bytes() == before) == (5, True)
    assert f"{path}: is no history index; name another file with --db" in told.error


def test_another_repositorys_index(repository: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """One variable may name it for several; that a force-push removed everything is another matter."""
    monkeypatch.setenv("CACHEWATCH_HISTORY", str(tmp_path / "h.db"))
    assert run("history", "build", "--repo", repository).exit_code == 0
    expected = run("history", "when", "zlib").output

    other = history(tmp_path / "other.git", catalogue({"hdf5": records([1])}), catalogue({"hdf5": records([2])}))
    assert "is the index of another repository" in run("history", "build", "--repo", other).error_of(2)
    assert run("history", "when", "zlib").output == expected

    _go_to(repository, git(repository, "commit-tree", "-m", "anew", "main^{tree}").strip())
    assert "a force-push removed 3 indexed revisions" in run("history", "build", "--repo", repository).error


def test_who_may_not_write_is_told_where(repository: Path, tmp_path: Path, run: Run) -> None:
    """A shared repository is somebody else's; questions need no permission to write."""
    path = tmp_path / "shared" / "h.db"
    assert run("history", "build", "--repo", repository, "--db", path).exit_code == 0
    path.parent.chmod(0o555)
    path.chmod(0o444)
    path.with_name("h.db.lock").unlink()
    options = ("--repo", repository, "--db", path)
    assert unprivileged("history", "when", "zlib", *options).exit_code == 0
    error = unprivileged("history", "build", *options).error_of(2)
    assert f"{path}.lock: Permission denied; name another file with --db" in error
    path.parent.chmod(0o755)


def test_what_cannot_be_read_is_said(tmp_path: Path, run: Run) -> None:
    """In the first revision, too."""
    broken = {**catalogue({"zlib": records([1])}), "_cache/develop/hdf5/specs.md": b"nothing"}
    folder = history(tmp_path / "b.git", broken, catalogue({"zlib": records([1]), "hdf5": records([2])}))
    assert "warning: 1 version of documents could not be read" in run("history", "build", "--repo", folder).error_of(0)
    assert "unreadable" in run("log", "--repo", folder).output
    assert "unreadable" in run("log", "hdf5", "--repo", folder).output
    assert "no changes of zlib in develop in that range" in run("log", "zlib", "--repo", folder).output
    assert "no changes of develop in that range" in run("log", "--since", "HEAD", "--repo", folder).output


def test_a_repository_without_commits_is_named(tmp_path: Path, run: Run) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "e.git"], check=True)
    for command in (("history", "build"), ("diff",), ("tags",), ("show", "zlib"), ("why", "zlib")):
        told = run(*command, "--repo", tmp_path / "e.git")
        assert told.exit_code in (2, 3)
        assert told.error.splitlines()[-1] == f"cachewatch: {tmp_path}/e.git: the repository has no commits yet"


def test_two_builds_of_one_index_do_not_meet(repository: Path, tmp_path: Path) -> None:
    """The second one is a process of its own: locks of one process do not exclude each other."""
    path = tmp_path / "h.db"
    with build.locked(path):
        code = f"from cachewatch.extensions.history.build import locked, Path\nwith locked(Path({str(path)!r})): pass"
        done = subprocess.run([".venv/bin/python", "-c", code], check=False, capture_output=True, text=True)
    assert AnotherInstance.__name__ in done.stderr
    open_for_writing(path).close()


def test_loose_objects_are_named(repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "loose objects" not in run("history", "build", "--repo", repository).error
    monkeypatch.setattr("cachewatch.extensions.history.commands._LOOSE_OBJECTS", 1)
    assert "loose objects; `git -C" in run("history", "build", "--repo", repository).error


def test_a_question_builds_the_index_in_the_cache_of_the_user(repository: Path, run: Run) -> None:
    """On first use, and brings it up to date; nothing is written into the git folder."""
    newest = _head(repository)
    _go_to(repository, "main~1")
    before = sorted(repository.rglob("*.db*"))
    first = run("log", "zlib", "--repo", repository)
    assert (first.exit_code, f"indexing the history of {repository}; this is done once" in first.error) == (0, True)
    assert f"indexed up to {_head(repository)[:10]}" in first.output
    _go_to(repository, newest)
    again = run("log", "zlib", "--repo", repository)
    assert (again.error, f"indexed up to {newest[:10]}" in again.output) == ("", True)
    assert sorted(repository.rglob("*.db*")) == before == []
    assert index_path(None, repository).is_relative_to(os.environ["XDG_CACHE_HOME"])


def test_a_shallow_clone_does_not_pass_for_a_quiet_history(repository: Path, tmp_path: Path, run: Run) -> None:
    """Nothing changed in the only revision that it has; others may lie before it, whose number is said as one."""
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository}", str(tmp_path / "shallow"))
    assert "shallow is a shallow clone: its history is cut off" in run("log", "--repo", tmp_path / "shallow").error
    whole = run("log", "--most", "1", "--repo", repository)
    assert "cut off" not in whole.error
    assert "1 earlier revision with changes" in whole.output


def test_a_version_that_left_is_said_to_have_left(tmp_path: Path, run: Run) -> None:
    """With the day, if the history is indexed; so is a package."""
    zlib = {"zlib": [record(3, versions=["1.3"])]}
    states = [{"zlib": [record(1, versions=["1.2"])], "zlib1": [record(2)]}, zlib, zlib | {"zlib1": [record(2)]}]
    folder = history(tmp_path / "c.git", *map(catalogue, states))
    last = git(folder, "rev-parse", "main").strip()
    git(folder, "update-ref", "refs/heads/main", "main~1")
    assert "until" not in run("show", "zlib@1.2", "--repo", folder).error
    run("log", "--repo", folder)
    assert "(there are 1.3); in develop until 2025-06-02\n" in run("show", "zlib@1.2", "--repo", folder).error
    shown = run("show", "zlib1", "--repo", folder).error
    assert "no package 'zlib1' in develop; in develop until 2025-06-02\n" in shown
    assert "until" not in run("show", "zlib@9", "--repo", folder).error
    git(folder, "update-ref", "refs/heads/main", last)
    for said in (run("diff", "--repo", folder).error, run("log", "--repo", folder).output):
        assert "zlib1 is back (1.0) in e4s: develop had the package until 2025-06-02\n" in said
    assert "is back" not in run("diff", "main~1", "main~2", "--repo", folder).error
    many, few = ({f"p{n}": [record(n, stacks=own)] for n in range(len(own) * 4)} for own in (["e4s", "ml"], ["e4s"]))
    v1 = catalogue(states[0], "v1")
    folder = history(tmp_path / "many.git", catalogue(many), catalogue(few) | v1, catalogue(many))
    logged = run("log", "--repo", folder).output
    assert [said in logged for said in ("Stack ml is new", "New: ")] == [False, False]
    for said in (logged, run("diff", "--repo", folder).error):
        assert "stack ml is back: develop had it until 2025-06-02\n" in said
        for n in range(4, 8):
            assert f"p{n} is back (1.0) in e4s, ml: develop had the package until 2025-06-02\n" in said
    assert "Missing since 2 June (" in logged
    told = run("log", "zlib", "--repo", folder, "--tag", "v1").output
    assert "  Tag v1 was removed, with 2 packages (the catalogue does not say why)\n" in told
    assert "  Tag v1 is new, with 2 packages\n" in told


def test_a_version_to_which_others_fall_is_said_once_to_have_been_there(tmp_path: Path, run: Run) -> None:
    old, newer, fell = (record(n, versions=[v]) for n, v in enumerate(["1.4", "1.5", "1.4"]))
    folder = history(tmp_path / "c.git", *(catalogue({"zlib": [old, other]}) for other in (newer, fell)))
    assert "zlib 1.5 -> 1.4 (1.4 was there; older)" in run("log", "--repo", folder).output


def _head(repository: Path) -> str:
    return git(repository, "rev-parse", "main")


def _go_to(repository: Path, revision: str) -> None:
    git(repository, "update-ref", "refs/heads/main", revision)


def test_a_value_that_vanishes_from_one_spec_is_a_change_and_from_all_is_none(tmp_path: Path, run: Run) -> None:
    """The index tells what `diff` does: a hash has another life if its record alone lost a value."""
    whole = [record(1), record(2)]
    states = (whole, [record(1, os=...), record(2)], whole, [record(n, os=...) for n in (1, 2)], whole)
    repository = history(tmp_path / "lacking.git", *(catalogue({"zlib": state}) for state in states))

    rows = json.loads(run("log", "--repo", repository, "--format", "json").output)["revisions"]
    steps = [(f"HEAD~{place + 1}", f"HEAD~{place}") for place in reversed(range(4))]
    compared = [run("diff", *step, "--exit-code", "--repo", repository).exit_code for step in steps]
    assert (len(rows), compared) == (2, [1, 1, 0, 0])
    blamed = run("history", "blame", f"/{record(1)['hash']}", "--repo", repository).output
    said = "another spec than before: operating system ubuntu22.04, now not given"
    assert (blamed.count("another spec than before"), said in blamed) == (2, True)
    assert "another spec" not in run("history", "blame", f"/{record(2)['hash']}", "--repo", repository).output
