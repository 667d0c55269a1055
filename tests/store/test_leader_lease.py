"""One process works on a state that hosts share, and another only when the lease of the first is over."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from stored import NOW, queue

from cachewatch.config.secrets import PostgresAddress
from cachewatch.errors import AnotherInstance, StateError
from cachewatch.extensions.shared_state.postgresql import LASTING, PostgresDatabase
from cachewatch.store import health, outbox
from cachewatch.store.database import Database
from cachewatch.store.health import Counter
from cachewatch.store.sqlite import SqliteDatabase

HERE, THERE = "here/1/a", "there/1/b"


@pytest.fixture
def here(address: PostgresAddress) -> Iterator[PostgresDatabase]:
    with closing(PostgresDatabase(address, clock=lambda: NOW)) as opened:
        yield opened


@pytest.fixture
def there(here: PostgresDatabase, address: PostgresAddress) -> Iterator[PostgresDatabase]:
    with closing(PostgresDatabase(address, clock=lambda: NOW)) as opened:
        yield opened


def write(database: Database) -> None:
    with database.write() as connection:
        health.count(connection, Counter("written"))


def written(database: Database) -> float:
    with database.read() as connection:
        return health.counters(connection).get(Counter("written"), 0)


def test_one_leads_and_the_other_is_told_who(here: PostgresDatabase, there: PostgresDatabase) -> None:
    here.lead(HERE)
    with pytest.raises(AnotherInstance, match=r"test_\d+.*: here/1/a works on this state; stop it, or wait"):
        there.lead(THERE)
    assert there.leader() == HERE
    here.lead(HERE)
    write(here)


def test_who_asked_for_the_lease_in_vain_writes_nothing(here: PostgresDatabase, there: PostgresDatabase) -> None:
    here.lead(HERE)
    with pytest.raises(AnotherInstance):
        there.lead(THERE)
    with pytest.raises(StateError, match="here/1/a took over this state; this process stores nothing more"):
        write(there)
    assert written(here) == 0


def test_a_lease_is_over_by_the_clock_of_the_database(here: PostgresDatabase, there: PostgresDatabase) -> None:
    """Not a moment before, and renewed from then on."""
    here.lead(HERE)
    there.clock = lambda: NOW + LASTING - timedelta(microseconds=1)
    with pytest.raises(AnotherInstance):
        there.lead(THERE)
    there.clock = lambda: NOW + LASTING
    assert there.leader() is None
    there.lead(THERE)
    assert there.leader() == THERE


def test_a_host_that_was_stopped_for_longer_than_its_lease_writes_nothing_more(
    here: PostgresDatabase, there: PostgresDatabase
) -> None:
    """Neither a whole transaction, nor one delivery, nor after the other one has ended."""
    here.lead(HERE)
    write(here)
    there.clock = lambda: NOW + LASTING
    there.lead(THERE)
    write(there)
    for _ in range(2):
        with pytest.raises(StateError, match=r"there/1/b took over"):
            write(here)
        there.step_down(THERE)
    assert written(there) == 2


def test_a_lease_that_lasted_too_long_is_good_while_nobody_took_it(here: PostgresDatabase) -> None:
    here.lead(HERE)
    here.clock = lambda: NOW + 10 * LASTING
    write(here)
    here.lead(HERE)
    write(here)
    assert written(here) == 2


def test_who_was_overtaken_may_lead_again_and_then_writes(here: PostgresDatabase, there: PostgresDatabase) -> None:
    here.lead(HERE)
    there.clock = here.clock = lambda: NOW + LASTING
    there.lead(THERE)
    with pytest.raises(AnotherInstance):
        here.lead(HERE)
    there.step_down(THERE)
    here.lead(HERE)
    write(here)
    with pytest.raises(StateError, match=r"here/1/a took over"):
        write(there)


def test_a_command_writes_beside_the_one_who_leads(here: PostgresDatabase, there: PostgresDatabase) -> None:
    here.lead(HERE)
    with there.write() as connection:
        queue(connection, "one", "a@example.org")
    with here.write() as connection:
        assert [each.digest for each in outbox.find(connection)] == ["one"]


def test_a_folder_needs_no_lease(tmp_path: Path) -> None:
    with closing(SqliteDatabase(tmp_path)) as database:
        for owner in (HERE, THERE):
            database.lead(owner)
            write(database)
        assert database.leader() is None
