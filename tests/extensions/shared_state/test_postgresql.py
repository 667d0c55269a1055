"""The state in PostgreSQL: what it says of a server that cannot be used, its order, its clock, its writers."""

import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from postgres import GUARDED, PASSWORD
from stored import NOW, queue

from cachewatch.config.value_types_and_secrets import PostgresAddress, Secret
from cachewatch.errors import StateError
from cachewatch.extensions.shared_state import postgresql
from cachewatch.extensions.shared_state.postgresql import PostgresDatabase
from cachewatch.store import digests_and_holds as digests
from cachewatch.store import health_and_alerts as health
from cachewatch.store.health_and_alerts import AlertKey, AlertKind, Counter
from cachewatch.store.schema import FORM
from cachewatch.store.transactions_and_sqlite import has_state, open_database, open_to_read


@pytest.fixture
def database(address: PostgresAddress) -> Iterator[PostgresDatabase]:
    with closing(PostgresDatabase(address)) as opened:
        yield opened


def guarded(address: PostgresAddress, password: str) -> PostgresAddress:
    return PostgresAddress(address.url.replace("cachewatch@", f"{GUARDED}@"), Secret(password))


def test_the_password_is_used_and_never_shown(address: PostgresAddress) -> None:
    open_database(guarded(address, PASSWORD)).close()
    wrong = "a wrong secret"
    with pytest.raises(StateError, match=r"failed.*; check the user in `state:`, and `state_password_file:`") as error:
        open_database(guarded(address, wrong))
    assert wrong not in "".join(map(str, (error.value, error.value.__cause__, error.value.__context__)))


def test_a_server_or_database_that_is_not_there_is_named(tmp_path: Any, address: PostgresAddress) -> None:
    away = PostgresAddress(f"postgresql://cachewatch@/cachewatch?host={tmp_path}")
    with pytest.raises(StateError, match=r"postgresql://cachewatch@/cachewatch.*the server cannot be reached"):
        open_database(away)
    assert has_state(away), "perhaps one that cannot be read now"
    other = PostgresAddress(address.url.replace("?", "_else?"))
    with pytest.raises(StateError, match=r"does not exist; create the database, and let the user own it"):
        open_database(other)


def test_a_server_whose_certificate_cannot_be_checked_is_not_unreachable(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_offer_encryption, args=(server,), daemon=True).start()
        place = f"127.0.0.1:{server.getsockname()[1]}/cachewatch"
        address = PostgresAddress(f"postgresql://me@{place}?sslmode=verify-full&sslrootcert={tmp_path}/ca.crt")
        with pytest.raises(StateError, match=r"ca\.crt.*; check `sslmode` and `sslrootcert` in the address"):
            open_database(address)


def _offer_encryption(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(8)
        connection.sendall(b"S")
        connection.recv(1)


def test_without_the_driver_it_says_what_to_install(address: PostgresAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StateError, match=r"requires psycopg; install cachewatch\[postgresql\]"):
        open_database(address)


def test_who_only_reads_makes_no_tables(address: PostgresAddress) -> None:
    assert not has_state(address)
    for open_it in (open_to_read, lambda each: open_database(each, must_exist=True)):
        with pytest.raises(StateError, match="there is no state yet; run `cachewatch once` first"):
            open_it(address)
    assert not has_state(address)
    open_database(address).close()
    assert has_state(address)


def test_who_only_reads_cannot_write(address: PostgresAddress) -> None:
    open_database(address).close()
    with (
        closing(open_to_read(address)) as database,
        pytest.raises(StateError, match="read-only transaction"),
        database.read() as connection,
    ):
        health.count(connection, Counter("seen"))


def test_several_that_make_the_tables_at_once_take_turns(address: PostgresAddress) -> None:
    with ThreadPoolExecutor(4) as pool:
        for database in pool.map(lambda _: open_database(address), range(4)):
            with database.read() as connection:
                assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").all() == [(str(FORM),)]
            database.close()


def test_text_sorts_by_its_bytes_whatever_the_locale_of_the_server(database: PostgresDatabase) -> None:
    names = ["Zebra", "apple", "ml-a", "ml_a", "mla", "éclair"]
    with database.write() as connection:
        for name in reversed(names):
            health.put_alert(connection, AlertKey(AlertKind.SOURCE_FAILED, name), "down", "", NOW)
            queue(connection, name)
        assert [each.key.name for each in health.all_open(connection)] == names
        found = digests.find(connection, "ml-")
        assert found is not None
        assert found.key == "ml-a"


def test_times_are_moments_in_utc(database: PostgresDatabase) -> None:
    moment = datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)
    with database.write() as connection:
        digests.plan(connection, "ml", "regular", "mon", moment.astimezone())
        slot = digests.pending(connection)["ml", "regular"]
        types = connection.exec_driver_sql(
            "SELECT DISTINCT data_type FROM information_schema.columns WHERE column_name IN ('due', 'created', 'at')"
        ).all()
    assert (slot.due, slot.due.utcoffset()) == (moment, timedelta(0))
    assert types == [("timestamp with time zone",)]


def test_a_writer_that_waits_too_long_is_told_why(address: PostgresAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(PostgresDatabase(address)) as first:
        monkeypatch.setattr(postgresql, "_SESSION", [each.replace("10s", "50ms") for each in postgresql._SESSION])
        said = pytest.raises(StateError, match="lock timeout; another process is using it; try again")
        with closing(PostgresDatabase(address)) as second, first.write(), said, second.write():
            pass


def test_a_writer_sees_what_the_one_before_it_stored(address: PostgresAddress) -> None:
    """Also if it waited for it: no count is lost."""
    with closing(PostgresDatabase(address)) as database:
        began = threading.Barrier(4)

        def count(_: int) -> None:
            began.wait(30)
            for _ in range(10):
                with database.write() as connection:
                    (found,) = [*health.counters(connection).values(), 0][:1]
                    health.count(connection, Counter("seen"), found + 1 - found)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(count, range(4)))
        with database.read() as connection:
            assert health.counters(connection) == {Counter("seen"): 40}


def test_a_stopped_host_holds_up_others_for_a_while(address: PostgresAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "_WRITERS_PAUSE", "300ms")
    with closing(PostgresDatabase(address)) as paused, closing(PostgresDatabase(address)) as other:

        def pause() -> None:
            with paused.write() as connection:
                health.count(connection, Counter("paused"))
                with other.write() as instead:  # which waits until the server ends the other one
                    health.count(instead, Counter("other"))
                health.count(connection, Counter("paused"))

        with pytest.raises(StateError, match=r"stopped for too long in the middle of a transaction|the server cannot"):
            pause()
        with other.read() as connection:
            assert health.counters(connection) == {Counter("other"): 1}
