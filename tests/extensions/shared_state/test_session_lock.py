"""One process works on a state that hosts share, and another only when the session of the first is over."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from postgres import Server
from stored import OTHER, OWNER, queue

from cachewatch.config.value_types_and_secrets import PostgresAddress
from cachewatch.errors import AnotherInstance, StateError
from cachewatch.extensions.shared_state import postgresql
from cachewatch.extensions.shared_state.postgresql import PostgresDatabase
from cachewatch.service.passes_and_leadership import HEARTBEAT
from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store import health_and_alerts as health
from cachewatch.store.health_and_alerts import Counter
from cachewatch.store.transactions_and_sqlite import Database


@pytest.fixture
def here(address: PostgresAddress, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresDatabase]:
    monkeypatch.setattr(postgresql, "_LEADERS_PATIENCE", "50ms")
    with closing(PostgresDatabase(address)) as opened:
        yield opened


@pytest.fixture
def there(here: PostgresDatabase, address: PostgresAddress) -> Iterator[PostgresDatabase]:
    with closing(PostgresDatabase(address)) as opened:
        yield opened


def write(database: Database) -> None:
    with database.write() as connection:
        health.count(connection, Counter("written"))


def written(database: Database) -> float:
    with database.read() as connection:
        return health.counters(connection).get(Counter("written"), 0)


def test_one_leads_and_the_other_is_told_who(here: PostgresDatabase, there: PostgresDatabase) -> None:
    assert here.lead(OWNER)
    with pytest.raises(AnotherInstance, match=r"test_\d+.*: here/1/a works on this state; stop it, or wait"):
        there.lead(OTHER)
    assert there.leader() == OWNER
    assert not here.lead(OWNER), "it did before"
    write(here)


def test_who_asked_in_vain_writes_nothing(here: PostgresDatabase, there: PostgresDatabase) -> None:
    here.lead(OWNER)
    with pytest.raises(AnotherInstance):
        there.lead(OTHER)
    with pytest.raises(StateError, match=r"does not hold the lock of the state, .* and stores nothing"):
        write(there)
    assert written(here) == 0


def test_a_lost_session_lets_another_lead(here: PostgresDatabase, there: PostgresDatabase, postgres: Server) -> None:
    """Who was cut off writes nothing more, neither while the other one leads nor after that has ended."""
    here.lead(OWNER)
    write(here)
    postgres.cut_off(OWNER)
    assert there.leader() is None
    assert there.lead(OTHER)
    write(there)
    for _ in range(2):
        with pytest.raises(StateError, match="stores nothing"):
            write(here)
        there.close()
    assert written(here) == 2


def test_a_silent_host(here: PostgresDatabase, there: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the clocks of the hosts say; while it does say something, it goes on."""
    assert timedelta(seconds=int(postgresql._LEADERS_PAUSE.removesuffix("s"))) > HEARTBEAT * 3
    monkeypatch.setattr(postgresql, "_LEADERS_PAUSE", "300ms")
    here.lead(OWNER)
    with there.read() as connection:
        connection.exec_driver_sql("SELECT pg_sleep(1)")
    assert there.lead(OTHER)


def test_a_pooler_that_gives_another_session_is_noticed(here: PostgresDatabase) -> None:
    here.lead(OWNER)
    leading = here._writers
    here._writers = postgresql._make_engine(PostgresAddress(here.place))
    with pytest.raises(StateError, match="a pooler of connections must keep sessions"):
        write(here)
    leading.dispose()


def test_a_command_writes_beside_the_one_who_leads(here: PostgresDatabase, there: PostgresDatabase) -> None:
    here.lead(OWNER)
    with there.write() as connection:
        queue(connection, "one", "a@example.org")
    with here.write() as connection:
        assert [each.digest for each in deliveries.find(connection)] == ["one"]
