"""The state in SQLite: its forms, its plans, its files, and what it says of damage."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from helpers import opened

from cachewatch.errors import AnotherInstance, StateError
from cachewatch.store import health_and_alerts as health
from cachewatch.store.health_and_alerts import Counter
from cachewatch.store.transactions_and_sqlite import NAME, SqliteDatabase, SqliteToRead, only_one


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    with closing(SqliteDatabase(tmp_path / "state", is_checked=True)) as made:
        yield made


def test_a_database_that_is_closed_or_cannot_be_used_holds_no_file_open(tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    SqliteDatabase(newer).close()
    with opened(newer / NAME) as connection:
        connection.execute("DROP TABLE alembic_version")

    def files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def use() -> None:
        with closing(SqliteDatabase(tmp_path)) as database, database.read() as connection:
            health.counters(connection)
        with pytest.raises(StateError):
            SqliteDatabase(newer)

    before = files()
    for _ in range(5):
        use()
    assert files() <= before


def test_the_log_is_cut_when_no_reader_needs_it(database: SqliteDatabase) -> None:
    """It grows while a reader looks at what was, and keeping house cuts it afterwards."""
    log = database.path.with_name(f"{NAME}-wal")
    with database.read() as reader:
        health.counters(reader)
        for _ in range(5):
            with database.write() as connection:
                health.count(connection, Counter("seen"))
        assert log.stat().st_size > 5 * 4096
    database.tidy()
    assert log.stat().st_size == 0


@pytest.mark.parametrize("table", ["customers", "sources"])
def test_a_database_of_another_program_is_left_alone(tmp_path: Path, table: str) -> None:
    """Also if a table has a name as one of ours; who reads refuses it as well."""
    path = tmp_path / NAME
    with opened(path) as connection:
        connection.execute(f"CREATE TABLE {table} (name)")
    before = path.read_bytes()
    for use in (SqliteDatabase, SqliteToRead):
        with pytest.raises(StateError, match="is not a state of cachewatch; name another folder in `state:`"):
            use(tmp_path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [NAME]


def test_damage_is_named_and_nothing_is_deleted(tmp_path: Path) -> None:
    SqliteDatabase(tmp_path).close()
    path = tmp_path / NAME
    path.write_bytes(b"x" * 4096)
    with pytest.raises(StateError, match=r"file is not a database; move it away"):
        SqliteDatabase(tmp_path, is_checked=True)
    assert path.read_bytes() == b"x" * 4096


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match=r"file/state: Not a directory; choose another folder"):
        SqliteDatabase(tmp_path / "file" / "state")


def test_the_state_is_private(database: SqliteDatabase) -> None:
    assert database.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_second_process_is_told_who_holds_the_state(tmp_path: Path) -> None:
    hold = "import sys,time; from pathlib import Path; from cachewatch.store.transactions_and_sqlite import only_one\n"
    hold += f"with only_one(Path({str(tmp_path)!r})): print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(AnotherInstance, match=f"process {holder.pid} on .* uses this state"), only_one(tmp_path):
            pass
        holder.kill()
    with only_one(tmp_path):
        pass
