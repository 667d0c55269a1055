"""What cachewatch writes goes where it says, and to nobody else's file."""

import os
from pathlib import Path

import pytest
from conftest import Run

from cachewatch.errors import AnotherInstance, StateError
from cachewatch.runtime.files_and_locks import publish
from cachewatch.store.transactions_and_sqlite import SqliteDatabase, only_one

VICTIM = "a file of somebody else\n"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file that must stay what it is."""
    file = tmp_path / "victim"
    file.write_text(VICTIM)
    return file


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return folder


def test_a_lock_is_a_file_and_no_link(state: Path, victim: Path) -> None:
    """Else it would empty whatever file its target is; a pipe of that name is not waited for."""
    (state / "lock").symlink_to(victim)
    with pytest.raises(StateError, match=r"lock: is a link.*remove it"), only_one(state):
        pass
    assert victim.read_text() == VICTIM
    (state / "lock").unlink()
    os.mkfifo(state / "lock")
    with pytest.raises(StateError, match="lock: is not a regular file"), only_one(state):
        pass


@pytest.mark.parametrize("written", ["", f"{'17 on host':<99}\n", "\0" * 100])
def test_a_lock_that_was_left_is_taken(state: Path, written: str) -> None:
    (state / "lock").write_text(written)
    said = rf"process {os.getpid()} on \S+ uses this state"
    with only_one(state), pytest.raises(AnotherInstance, match=said), only_one(state):
        pass


def test_a_recording_writes_through_no_link(tmp_path: Path, victim: Path, run: Run) -> None:
    cache, into = tmp_path / "cache", tmp_path / "site.git"
    (cache / "build_cache").mkdir(parents=True)
    (cache / "build_cache" / "index.json").write_text('{"database": {"version": "8", "installs": {}}}')
    into.mkdir()
    (into / "cachewatch.lock").symlink_to(victim)
    assert "is a link" in run("record", cache, "--into", into, "--force").error_of(3)
    assert victim.read_text() == VICTIM


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o707])
def test_a_state_is_not_for_everybody(state: Path, mode: int) -> None:
    """Who may write there could replace the database, the lock and the clones."""
    state.chmod(mode)
    with pytest.raises(StateError, match=f"everybody may write in it; run: chmod o-w {state}"):
        SqliteDatabase(state)
    with pytest.raises(StateError, match="chmod o-w"), only_one(state):
        pass
    assert list(state.iterdir()) == []


def test_a_state_is_ours(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not another user's; root's is fine, and root may work on everybody's."""
    monkeypatch.setattr(os, "geteuid", lambda: state.stat().st_uid + 4711)
    if state.stat().st_uid == 0:
        os.chown(state, 4712, 0)
    with pytest.raises(StateError, match="belongs to another user"):
        SqliteDatabase(state)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    SqliteDatabase(state).close()


def test_a_site_stays_in_its_folder(demo_repository: Path, tmp_path: Path, run: Run) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    assert run("site", site, "--repo", demo_repository).exit_code == 0
    for folder in [folder for folder in site.iterdir() if folder.is_dir() and not folder.name.startswith(".")][:2]:
        folder.rename(elsewhere)
        folder.symlink_to(elsewhere)
        for file in elsewhere.iterdir():
            file.unlink()
        error = run("site", site, "--repo", demo_repository).error_of(3)
        assert f"{folder.name} is a link or a file, where a folder should be" in error
        assert list(elsewhere.iterdir()) == []
        folder.unlink()
        elsewhere.rename(folder)


def test_what_is_put_is_whole_and_has_its_mode(tmp_path: Path) -> None:
    """Whatever the umask is; a link of its name is replaced, and its target stays."""
    (tmp_path / "victim").write_text(VICTIM)
    (tmp_path / "page").symlink_to("victim")
    os.umask(0o077)
    publish(tmp_path / "page", b"new", base=tmp_path, mode=0o644, is_durable=False)
    publish(tmp_path / "sub" / "page", b"new", base=tmp_path, mode=0o644)

    assert (tmp_path / "victim").read_text() == VICTIM
    assert (tmp_path / "page").read_bytes() == (tmp_path / "sub/page").read_bytes() == b"new"
    assert (tmp_path / "page").lstat().st_mode & 0o777 == 0o644
