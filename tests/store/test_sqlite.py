"""The state in SQLite: its forms, its plans, its files, and what it says of damage."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, event, inspect
from sqlite_files import opened
from stored import LEASE, NOW, next_form, queue

from cachewatch.errors import AnotherInstance, StateError
from cachewatch.store import alerts, digests, health, held, message_bytes, outbox, scheduled_runs, suppressions
from cachewatch.store.alerts import AlertKey, AlertKind
from cachewatch.store.database import Connection
from cachewatch.store.health import Counter
from cachewatch.store.held import Hold, HoldEvent, HoldKind
from cachewatch.store.lock import only_one
from cachewatch.store.migrations import REVISIONS, take_steps
from cachewatch.store.outbox import OPEN, State
from cachewatch.store.schema import FORM
from cachewatch.store.sqlite import NAME, SqliteDatabase
from cachewatch.store.sqlite_backup import draft_of
from cachewatch.store.sqlite_forms import bring_up, note, version_of
from cachewatch.store.sqlite_read_only import SqliteToRead
from cachewatch.store.timestamps import to_text

OLD = Path(__file__).parents[1] / "data" / "state-0.1.db"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    with closing(SqliteDatabase(tmp_path / "state", is_checked=True, clock=lambda: NOW)) as made:
        yield made


# Of what is asked on the way of a delivery, again and again: how SQLite looks for it.
_OPEN = "SCAN deliveries USING INDEX deliveries_open"


_OF_TARGET = "deliveries USING INDEX deliveries_by_target (channel=? AND target=? AND state=?"


_PLANS: dict[str, tuple[Callable[[Connection], object], list[str]]] = {
    "claim": (
        lambda connection: outbox.claim(connection, "mail", NOW, LEASE),
        [
            "SEARCH deliveries USING INDEX deliveries_open (channel=?)",
            "CORRELATED SCALAR SUBQUERY 1",
            f"SEARCH {_OF_TARGET.replace('deliveries ', 'deliveries_1 ', 1)} AND id<?)",
        ],
    ),
    "due_channels": (
        lambda connection: outbox.due_channels(connection, NOW),
        ["SCAN deliveries USING COVERING INDEX deliveries_open"],
    ),
    "oldest_open": (outbox.oldest_open, [_OPEN]),
    "expired_leases": (outbox.expired_leases, [_OPEN]),
    "queue": (outbox.queue, ["SCAN deliveries USING COVERING INDEX deliveries_by_state"]),
    "refusals_in_a_row": (
        lambda connection: suppressions.refusals_in_a_row(connection, "mail", "a@example.org"),
        [
            f"SEARCH {_OF_TARGET.replace('INDEX', 'COVERING INDEX')})",
            "USE TEMP B-TREE FOR count(DISTINCT)",
            f"SEARCH {_OF_TARGET} AND id>?)",
        ],
    ),
    "sent history": (
        lambda connection: outbox.sent_history(connection, "mail", "a@example.org", 1, lambda _: None),
        [f"SEARCH {_OF_TARGET})", "SEARCH bodies USING INDEX sqlite_autoindex_bodies_1 (checksum=?) LEFT-JOIN"],
    ),
    "bodies": (
        message_bytes.delete_unused,
        [
            "SCAN bodies",
            "CORRELATED SCALAR SUBQUERY 1",
            "SEARCH deliveries USING INDEX deliveries_by_body (body=?)",
        ],
    ),
    "end of a blockade": (
        lambda connection: outbox.find(connection, states=OPEN, channel="mail"),
        [
            "SEARCH deliveries USING INDEX deliveries_by_state (channel=? AND state=?)",
            "USE TEMP B-TREE FOR ORDER BY",
        ],
    ),
    "hasten": (
        lambda connection: outbox.hasten(connection, "mail", NOW),
        ["SEARCH deliveries USING INDEX deliveries_by_state (channel=? AND state=? AND due>?)"],
    ),
    "held": (
        lambda connection: digests.held(connection, "ml", "regular"),
        ["SEARCH digests USING INDEX digests_held (subscription=? AND stream=?)"],
    ),
    "all_held": (digests.all_held, ["SCAN digests USING INDEX digests_held"]),
    "last_created": (
        lambda connection: digests.last_created(connection, "ml", "regular"),
        ["SEARCH digests USING COVERING INDEX digests_by_stream (subscription=? AND stream=? AND created<?)"],
    ),
    "pending": (
        lambda connection: scheduled_runs.pending(connection, "ml", "regular"),
        ["SEARCH slots USING INDEX slots_pending (subscription=? AND stream=?)"],
    ),
}


@pytest.mark.parametrize("query", _PLANS)
def test_what_is_asked_again_and_again_does_not_look_through_history(database: SqliteDatabase, query: str) -> None:
    """A partial index has what is open, held or pending; the others begin with channel, target and state."""
    ask, expected = _PLANS[query]
    plan: list[str] = []

    def explain(connection: Connection, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        if statement.startswith(("SELECT", "UPDATE", "DELETE")) and "EXPLAIN" not in statement:
            found = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plan.extend(row.detail for row in found)

    with database.write() as connection:
        event.listen(database._engine, "before_cursor_execute", explain)
        ask(connection)
    assert plan == expected


@pytest.mark.slow
def test_a_claim_takes_as_many_steps_after_many_digests_as_after_few(database: SqliteDatabase) -> None:
    """Counted are the instructions of SQLite's machine, with ten and with a thousand old digests of each reader."""

    def steps(connection: Connection) -> int:
        count = 0

        def step() -> int:
            nonlocal count
            count += 1
            return 0

        driver: Any = connection.connection.dbapi_connection
        driver.set_progress_handler(step, 1)
        claimed = outbox.claim(connection, "mail", NOW, LEASE)
        driver.set_progress_handler(None, 0)
        assert claimed is not None
        assert outbox.settle(connection, claimed, State.SENT, now=NOW, said="250")
        return count

    found = []
    for old in (10, 1000):
        with database.write() as connection:
            for number in range(old):
                queue(connection, f"{old}-{number}", "a@example.org", "b@example.org")
            connection.exec_driver_sql("UPDATE deliveries SET state = 'sent'")
            queue(connection, f"{old}-new", "a@example.org", "b@example.org")
            found.append([steps(connection) for _ in range(2)])
    few, many = found
    assert few == pytest.approx(many, rel=0.1)


@pytest.mark.parametrize(
    ("topic", "key"),
    [
        ("source public", AlertKey(AlertKind.SOURCE_FAILED, "public")),
        ("part of public", AlertKey(AlertKind.SOURCE_INCOMPLETE, "public")),
        ("stale public", AlertKey(AlertKind.SOURCE_STALE, "public")),
        ("channel mail", AlertKey(AlertKind.CHANNEL_DOWN, "mail")),
        ("template ml", AlertKey(AlertKind.TEMPLATE_FAILED, "ml")),
        ("digest ml/urgent", AlertKey(AlertKind.DIGEST_FAILED, "ml", "urgent")),
        ("held ml/regular", AlertKey(AlertKind.DIGEST_HELD, "ml", "regular")),
        ("dead mail ann@example.org", AlertKey(AlertKind.DELIVERY_FAILED, "mail", "ann@example.org")),
        ("dead files /srv/a b/c.txt", AlertKey(AlertKind.DELIVERY_FAILED, "files", "/srv/a b/c.txt")),
    ],
)
def test_an_alert_of_0_1_stays_open(tmp_path: Path, topic: str, key: AlertKey) -> None:
    """Under the key by which it is found now, and not as news: operators were notified of it."""
    shutil.copy(OLD, tmp_path / NAME)
    with opened(tmp_path / NAME) as connection:
        connection.execute("DELETE FROM troubles")
        connection.execute("INSERT INTO troubles VALUES (?, ?, ?)", (topic, to_text(NOW), "what 0.1 said"))
    with closing(SqliteDatabase(tmp_path)) as database, database.read() as connection:
        (alert,) = alerts.all_open(connection)
    assert (alert.key, alert.opened_at, alert.notified_at, alert.title) == (key, NOW, NOW, "what 0.1 said")


def test_the_form_before_keeps_what_is_held(tmp_path: Path) -> None:
    """Its time begins with the first pass; what is not held any more needs none."""
    engine = create_engine(f"sqlite:///{tmp_path / NAME}")
    take_steps(engine, version_of, note, form=2)
    with opened(tmp_path / NAME) as connection:
        for key, state in (("one", "held"), ("two", "held"), ("three", "dropped")):
            values = (key, "ml", key, state, "title", "2026-07-27", to_text(NOW), "9 changed specs", b"", b"", b"")
            connection.execute(f"INSERT INTO digests VALUES ({', '.join('?' * 11)}, NULL, 1)", values)
        for key in ("one", "three"):
            connection.execute("INSERT INTO held_losses VALUES (?, 'public', 'develop', '40 -> 0 specs')", (key,))
    engine.dispose()
    with closing(SqliteDatabase(tmp_path)) as database, database.read() as connection:
        found = {(digest.stream, hold) for digest in held.all_held(connection) for hold in digest.holds}
    assert found == {
        ("one", Hold(event=HoldEvent("public", "develop", HoldKind.SUSPICIOUS), said="40 -> 0 specs")),
        ("two", Hold(event=HoldEvent("", "", HoldKind.LARGE), said="9 changed specs")),
    }


def test_the_database_is_durable_at_every_commit(database: SqliteDatabase) -> None:
    with database.read() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2}


def test_whoever_finds_the_database_locked_waits_for_ten_seconds(database: SqliteDatabase) -> None:
    with database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 10_000


def test_a_database_that_is_closed_or_cannot_be_used_holds_no_file_open(tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    SqliteDatabase(newer).close()
    with opened(newer / NAME) as connection:
        connection.execute(f"PRAGMA user_version = {FORM + 1}")

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


def test_a_newer_form_is_refused_and_left_alone(tmp_path: Path) -> None:
    SqliteDatabase(tmp_path).close()
    with opened(tmp_path / NAME) as connection:
        connection.execute(f"PRAGMA user_version = {FORM + 1}")
    with pytest.raises(StateError, match="newer cachewatch"):
        SqliteDatabase(tmp_path)


@pytest.mark.parametrize("form", [0, 3, FORM, FORM + 1])
@pytest.mark.parametrize("table", ["customers", "sources"])
def test_a_database_of_another_program_is_left_alone(tmp_path: Path, form: int, table: str) -> None:
    """Whatever form it seems to have, and if a table has a name as one of ours; who reads refuses it as well."""
    path = tmp_path / NAME
    with opened(path) as connection:
        connection.execute(f"CREATE TABLE {table} (name)")
        connection.execute(f"PRAGMA user_version = {form}")
    before = path.read_bytes()
    for use in (SqliteDatabase, SqliteToRead):
        with pytest.raises(StateError, match="is not a state of cachewatch; name another folder in `state:`"):
            use(tmp_path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [NAME]


def test_an_older_form_is_copied_aside_before_it_is_changed(database: SqliteDatabase, tmp_path: Path) -> None:
    with database.write() as connection:
        health.count(connection, Counter("seen"))

    half = 'op.execute("CREATE TABLE half (x)")'
    folders = next_form(tmp_path / "broken", half, 'raise RuntimeError("killed")')
    with pytest.raises(RuntimeError, match="killed"):
        bring_up(database._engine, database.path, FORM + 1, folders)
    copy = database.path.with_name(f"{NAME}.form-{FORM}")
    with opened(copy) as old, opened(database.path) as now:
        for reader in (old, now):
            assert reader.execute("SELECT value FROM counters").fetchall() == [(1.0,)]
            assert reader.execute("PRAGMA user_version").fetchone() == (FORM,)
        assert not now.execute("SELECT * FROM sqlite_master WHERE name = 'half'").fetchall()
    bring_up(database._engine, database.path, FORM + 1, next_form(tmp_path / "right", half))
    with opened(database.path) as now:
        assert now.execute("PRAGMA user_version").fetchone() == (FORM + 1,)


def test_what_is_copied_aside_replaces_nothing(database: SqliteDatabase, tmp_path: Path) -> None:
    """A copy of something else keeps its name, one of the same is enough, and a draft that was cut off is removed."""
    copy = database.path.with_name(f"{NAME}.form-{FORM}")
    other = copy.with_name(f"{copy.name}.new")
    for path in (copy, other):
        path.write_text("of somebody else\n")
    draft_of(copy).write_text("half a copy")
    broken = next_form(tmp_path / "broken", 'raise RuntimeError("killed")')
    for _ in range(2):
        with pytest.raises(RuntimeError, match="killed"):
            bring_up(database._engine, database.path, FORM + 1, broken)
    assert [path.read_text() for path in (copy, other)] == ["of somebody else\n"] * 2
    names = {path.name for path in copy.parent.iterdir() if ".form-" in path.name}
    assert names == {copy.name, other.name, f"{copy.name}.2"}
    with opened(copy.with_name(f"{copy.name}.2")) as old:
        assert old.execute("PRAGMA user_version").fetchone() == (FORM,)


def test_the_steps_lead_to_the_tables_of_the_code(database: SqliteDatabase, tmp_path: Path) -> None:
    """A database that went through all forms is what a new one is."""
    engine = create_engine(f"sqlite:///{tmp_path / NAME}")
    take_steps(engine, version_of, note, form=FORM)
    with engine.connect() as led, database.read() as made:
        assert _shape(led) == _shape(made)
    engine.dispose()


def test_the_newest_form_is_the_last_revision() -> None:
    newest = max(int(path.stem.removeprefix("form_")) for path in REVISIONS.glob("form_*.py"))
    assert newest == FORM


def test_a_start_without_an_upgrade_loads_neither_alembic_nor_the_other_database(tmp_path: Path) -> None:
    """Which takes half a second and 150 ms: neither a new state nor one of this form needs them."""
    code = (
        "import sys; from pathlib import Path; from cachewatch.store.opening import open_database, open_to_read\n"
        f"for opened in (open_database, open_database, open_to_read): opened(Path({str(tmp_path)!r})).close()\n"
        "print({'alembic', 'psycopg', 'sqlalchemy.dialects.postgresql'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "set()\n"


def _shape(connection: Connection) -> dict[str, object]:
    """Return what a database has: the columns, keys and indexes of each table."""
    found = inspect(connection)
    return {
        table: (
            {(each["name"], str(each["type"]), each["nullable"]) for each in found.get_columns(table)},
            found.get_pk_constraint(table)["constrained_columns"],
            {tuple(each["column_names"]) for each in found.get_unique_constraints(table)},
            {
                (each["name"], tuple(each["column_names"]), str(each.get("dialect_options", {}).get("sqlite_where")))
                for each in found.get_indexes(table)
            },
        )
        for table in found.get_table_names()
    }


def test_several_that_upgrade_at_once_take_turns(tmp_path: Path) -> None:
    """One does it; the others find it done, and what was copied aside is the old form."""
    databases = [SqliteDatabase(tmp_path) for _ in range(6)]
    copy = tmp_path / f"{NAME}.form-{FORM}"

    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000)"
    folders = next_form(tmp_path / "next", f'op.execute("CREATE TABLE filled AS {numbers} SELECT i FROM n")')
    with ThreadPoolExecutor(len(databases)) as pool:
        list(pool.map(lambda each: bring_up(each._engine, each.path, FORM + 1, folders), databases))
    for database in databases:
        database.close()
    with opened(copy) as old, opened(tmp_path / NAME) as now:
        assert old.execute("PRAGMA user_version").fetchone() == (FORM,)
        assert now.execute("SELECT count(*) FROM filled").fetchone() == (20000,)


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
    hold = "import sys,time; from pathlib import Path; from cachewatch.store.lock import only_one\n"
    hold += f"with only_one(Path({str(tmp_path)!r})): print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(AnotherInstance, match=f"process {holder.pid} on .* uses this state"), only_one(tmp_path):
            pass
        holder.kill()
    with only_one(tmp_path):
        pass
