"""File systems that other machines may share are known, and the state is kept there without shared memory."""

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from helpers import catalogue, records
from station import CONFIG, Site

from cachewatch.runtime import files_and_locks
from cachewatch.runtime.files_and_locks import shared_kind
from cachewatch.store.transactions_and_sqlite import SqliteDatabase

NOTIFIED = CONFIG.replace("channels: []", "channels: [files]")
MOUNTS = r"""22 28 0:21 / /proc rw,nosuid shared:12 - proc proc rw
28 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
35 28 0:32 / /home rw,relatime shared:15 master:2 - autofs systemd-1 rw
61 35 0:50 / /home rw,relatime - nfs4 files:/home rw,vers=4.2
62 61 254:3 / /home/scratch\040disk rw - xfs /dev/vdb rw
63 28 0:51 /p /lustre/project rw - lustre 10.0.0.1@tcp:/fs rw
64 28 0:52 / /mnt/far rw - fuse.sshfs kim@far:/ rw
65 28 0:53 / /mnt/near rw - fuse.fuse-overlayfs x rw
66 28 0:54 / /gpfs rw - gpfs fs1 rw
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kernel's table of mounts."""
    monkeypatch.setattr(files_and_locks, "MOUNTS", tmp_path / "mountinfo")
    return tmp_path / "mountinfo"


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib/cachewatch", ""),
        ("/home/kim/.local/state/cachewatch", "nfs4"),
        ("/home", "nfs4"),
        ("/homestead", ""),
        ("/home/scratch disk/state", ""),
        ("/lustre/project/state", "lustre"),
        ("/mnt/far/state", "fuse.sshfs"),
        ("/mnt/near/state", ""),
        ("/gpfs/state", "gpfs"),
    ],
)
def test_the_table_says_what_is_shared(table: Path, folder: str, kind: str) -> None:
    table.write_text(MOUNTS)
    assert shared_kind(Path(folder)) == kind


@pytest.mark.slow
def test_a_shared_state_works_and_says_so(tmp_path: Path, table: Path, run: Run) -> None:
    """No memory is shared, commits are flushed, and whoever starts it or checks the file reads where it is."""
    site = Site(tmp_path, [catalogue({"zlib": records(range(2))}), catalogue({"zlib": records(range(3))})], NOTIFIED)
    table.write_text(f"61 35 0:50 / {tmp_path} rw,relatime - nfs4 files:/home rw,vers=4.2\n")
    path = tmp_path / "cachewatch.yaml"
    assert f"state: {tmp_path / 'state'} is on nfs4" in run("config", "check", "--config", path).error
    for number in (0, 1):
        site.publish(number)
        error = run("once", "--config", path, "--log-format", "json").error_of(0)
        (said,) = [each for each in map(json.loads, error.splitlines()) if each["event"] == "state.shared"]
        assert said["file_system"] == "nfs4"
    assert len(list((tmp_path / "out" / "ml").glob("*.txt"))) == 1
    files = sorted(each.name for each in (tmp_path / "state").glob("cachewatch.db*"))
    assert files == ["cachewatch.db", "cachewatch.db-journal"]
    assert _pragmas(tmp_path / "state") == {"journal_mode": "truncate", "synchronous": 2}


def test_a_state_moves_between_disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was made on a local disk opens on a shared one, and again on a local one."""
    SqliteDatabase(tmp_path).close()
    with monkeypatch.context() as moved:
        moved.setattr("cachewatch.store.transactions_and_sqlite.shared_kind", lambda _: "nfs4")
        assert _pragmas(tmp_path)["journal_mode"] == "truncate"
    assert _pragmas(tmp_path)["journal_mode"] == "wal"


def test_a_file_system_without_locks_is_refused(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Lustre is when mounted without `flock`."""
    Site(tmp_path, [catalogue({"zlib": records(range(2))})], NOTIFIED)
    monkeypatch.setattr(fcntl, "flock", _no_locks)
    error = run("once", "--config", tmp_path / "cachewatch.yaml").error_of(5)
    assert "no locks on this file system (Function not implemented)" in error


def _no_locks(*_: Any) -> None:
    raise OSError(38, "Function not implemented")


def _pragmas(folder: Path) -> dict[str, object]:
    database = SqliteDatabase(folder)
    with database.read() as connection:
        names = ("journal_mode", "synchronous")
        found = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names}
    database.close()
    return found
