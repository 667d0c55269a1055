"""`state check` and `state move`, and a backup of a state in PostgreSQL."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from helpers import catalogue, opened, records, secret
from sqlalchemy import select
from station import Site, begun

from cachewatch.config.value_types_and_secrets import PostgresAddress, StatePlace
from cachewatch.store.schema import metadata
from cachewatch.store.transactions_and_sqlite import NAME, only_one, open_database, open_to_read

CONFIG = """\
version: 1
state: {folder}/state
sources: {public: {git: {folder}/upstream.git, stale_after: 4000d}, away: {git: {folder}/none.git}}
channels: {files: {type: file, path: "{folder}/out/{subscription}/{key}.{ext}", formats: [txt]}}
operators: {channels: [files], after_failures: 1}
retention: {payload: 4000d, metadata: 4000d}  # the site is of another year than the clock
subscriptions:
  ml: {channels: [files], changes: [all]}
  weekly: {channels: [files], changes: [all], when: weekly mon 07:30}
  bulk: {channels: [files], changes: [all], limit: {hold_above: 1}}
"""
Rows = dict[str, list[Any]]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A state with rows in most of its tables."""
    first = {"zlib": records([1])}
    second = first | {"new": records([2]), "other": records([3])}
    made = begun(tmp_path, [catalogue(each) for each in (first, second, second | {"later": records([4])})], CONFIG)
    made.run(1)
    return made


def dump(state: StatePlace) -> Rows:
    """Return all rows of all tables, sorted by their keys."""
    with closing(open_to_read(state)) as database, database.read() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]
            for table in metadata.sorted_tables
        }


def password(folder: Path) -> Path:
    return secret(folder / "password", "not asked for\n")


@pytest.mark.slow
def test_a_state_that_moved_there_and_back_is_the_same(site: Site, address: PostgresAddress, run: Run) -> None:
    before = dump(site.folder / "state")
    assert sum(1 for rows in before.values() if rows) >= 10
    there = run("state", "move", site.folder / "state", address.url, "--password-file", password(site.folder))
    assert (there.exit_code, "rows copied and compared" in there.error) == (0, True), there.error
    assert dump(address) == before
    back = run("state", "move", address.url, site.folder / "back")
    assert (back.exit_code, dump(site.folder / "back")) == (0, before), back.error


@pytest.mark.slow
def test_a_service_goes_on_where_it_moved_to(site: Site, address: PostgresAddress, run: Run) -> None:
    """Its next deliveries have numbers of their own, and what was reported is not reported again."""
    before = dump(site.folder / "state")["deliveries"]
    assert run("state", "move", site.folder / "state", address.url).exit_code == 0
    site.file.write_text(site.file.read_text().replace("state: ", f"state: {address.url}\nstate_folder: "))
    site.publish(2)
    done = run("once", "--config", site.file)
    assert done.exit_code == 3, done.error  # the source that is away
    after = dump(address)["deliveries"]
    assert [row[:4] for row in after[: len(before)]] == [row[:4] for row in before]
    assert [row[0] for row in after] == list(range(1, len(after) + 1))
    (newest,) = (path for path in (site.folder / "out" / "ml").iterdir() if "later" in path.read_text())
    assert "other" not in newest.read_text()
    assert run("state", "check", "--config", site.file).exit_code == 0


def test_what_is_not_empty_is_not_overwritten(site: Site, address: PostgresAddress, run: Run) -> None:
    assert run("state", "move", site.folder / "state", address.url).exit_code == 0
    before = dump(address)
    again = run("state", "move", site.folder / "state", address.url)
    assert (again.exit_code, "is not empty; choose another database" in again.error) == (2, True)
    assert dump(address) == before


def test_a_state_that_is_worked_on_does_not_move(site: Site, address: PostgresAddress, run: Run) -> None:
    with only_one(site.folder / "state"):
        assert run("state", "move", site.folder / "state", address.url).exit_code == 75


def test_a_row_that_the_target_cannot_keep_moves_nothing(site: Site, address: PostgresAddress, run: Run) -> None:
    """PostgreSQL has no place for NUL in a text."""
    with closing(sqlite3.connect(site.folder / "state" / NAME)) as connection, connection:
        connection.execute("UPDATE attempts SET said = 'a' || char(0) WHERE id = 1")
    error = run("state", "move", site.folder / "state", address.url).error_of(5)
    assert "keeps a row of `attempts` (1) otherwise; nothing was copied" in error
    assert not any(dump(address).values())


def test_a_backup_of_a_database_is_a_file_that_can_be_restored(site: Site, address: PostgresAddress, run: Run) -> None:
    before = dump(site.folder / "state")
    assert run("state", "move", site.folder / "state", address.url).exit_code == 0
    config, copy = site.file, site.folder / "copy.db"
    config.write_text(config.read_text().replace("state: ", f"state: {address.url}\nstate_folder: "))
    done = run("state", "backup", copy, "--config", config)
    assert (done.exit_code, copy.stat().st_mode & 0o777) == (0, 0o600), done.error
    assert [path.name for path in site.folder.iterdir() if "copy" in path.name] == ["copy.db"]
    with closing(open_database(address)) as database, database.write() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
    restored = run("state", "move", copy, address.url)
    assert (restored.exit_code, dump(address)) == (0, before), restored.error


def test_what_is_no_state_does_not_move(tmp_path: Path, run: Run) -> None:
    target = tmp_path / "target"
    (tmp_path / "empty.db").touch()
    (tmp_path / "text.db").write_text("no database\n" * 100)
    for name, statement in (("other.db", "CREATE TABLE customers (name)"), ("bare.db", "PRAGMA application_id = 7")):
        with opened(tmp_path / name) as connection:
            connection.execute(statement)
    for name in ("empty.db", "text.db", "other.db", "bare.db"):
        refused = run("state", "move", tmp_path / name, target)
        assert (refused.exit_code, f"{tmp_path / name}: " in refused.error) == (5, True), refused.error
        assert "cachewatch once" not in refused.error
    assert "nowhere: there is no such state" in run("state", "move", tmp_path / "nowhere", target).error_of(2)
    assert not target.exists()


def test_a_state_does_not_move_to_itself(tmp_path: Path, run: Run) -> None:
    state, link = tmp_path / "state", tmp_path / "link"
    open_database(state).close()
    link.symlink_to(state)
    for source, target in ((state, state), (link, state), (state / NAME, state)):
        assert "source and target are the same" in run("state", "move", source, target).error_of(2)


def test_a_check_names_what_is_damaged(site: Site, run: Run) -> None:
    assert "no damage" in run("state", "check", "--config", site.file).output_of(0)
    with closing(sqlite3.connect(site.folder / "state" / NAME)) as connection, connection:
        connection.execute("UPDATE deliveries SET payload = x'789c00' WHERE id = 1")
        connection.execute("UPDATE digests SET moves = x'00' WHERE subscription = 'bulk'")
    error = run("state", "check", "--config", site.file).error_of(5)
    assert "delivery 1: its stored bytes are damaged" in error
    assert "it is damaged (its cursors have another checksum)" in error
