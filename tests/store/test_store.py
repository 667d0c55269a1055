"""What is remembered: transactions that are whole, claims that are single, and a database that says what is wrong."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import select
from stored import NOW, OTHER, OWNER, next_form, queue

from cachewatch.config.value_types_and_secrets import StatePlace
from cachewatch.core.advice.waits_and_reminders import (
    AnnouncedWave,
    Departure,
    DepartureKind,
    Memory,
    MetBinaries,
    OpenAction,
    Point,
    SeenPin,
    StillMissing,
)
from cachewatch.errors import StateError
from cachewatch.store import cursors_and_remembered as cursors
from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store import digests_and_holds as digests
from cachewatch.store import health_and_alerts as health
from cachewatch.store.cursors_and_remembered import Advance, CursorUpdate, Unread
from cachewatch.store.delivery_queue_and_order import DeliveryState
from cachewatch.store.health_and_alerts import Counter
from cachewatch.store.schema import FORM, remembered
from cachewatch.store.transactions_and_sqlite import Database, create_or_upgrade, form_of, open_database, open_to_read


@pytest.fixture(params=["sqlite", "postgresql"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> StatePlace:
    """Where each of the databases is."""
    return tmp_path / "state" if request.param == "sqlite" else request.getfixturevalue("address")


@pytest.fixture
def database(state: StatePlace) -> Iterator[Database]:
    """Each of the databases, which are alike."""
    with closing(open_database(state, is_checked=True)) as opened:
        yield opened


def test_older_forms_are_upgraded_whole(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there stays, and of several that upgrade at once, one does."""
    with database.write() as connection:
        health.count(connection, Counter("seen"))
    add = 'op.execute("ALTER TABLE counters ADD COLUMN since TEXT")'
    next_form(tmp_path, monkeypatch, add, 'raise RuntimeError("killed")')
    with pytest.raises(RuntimeError, match="killed"):
        create_or_upgrade(database._engine, database.place)
    with database.read() as connection:
        assert form_of(connection) == FORM
        assert "since" not in list(connection.exec_driver_sql("SELECT * FROM counters").keys())
    next_form(tmp_path, monkeypatch, add)
    with ThreadPoolExecutor(4) as pool:
        made = pool.map(lambda _: create_or_upgrade(database._engine, database.place), range(4))
    assert not any(made)
    with database.read() as connection:
        assert form_of(connection) == FORM + 1
        assert connection.exec_driver_sql("SELECT * FROM counters").all() == [('["seen",[]]', 1.0, None)]


@pytest.mark.parametrize("form", [FORM + 1, "of before"])
def test_a_state_of_another_form_is_refused_and_left_alone(state: StatePlace, database: Database, form: object) -> None:
    with database.write() as connection:
        change = f"UPDATE alembic_version SET version_num = '{form}'"
        connection.exec_driver_sql(change if isinstance(form, int) else "DROP TABLE alembic_version")
    for use in (open_database, open_to_read):
        said = r"has form \d, and .* reads form \d; use the cachewatch that wrote it, or"
        with pytest.raises(StateError, match=said):
            use(state)


def test_a_transaction_is_whole_or_nothing(database: Database) -> None:
    step = advance("a" * 40, develop="a" * 40)

    def fail_in_the_middle() -> None:
        with database.write() as connection:
            queue(connection, "one", "a@example.org")
            cursors.advance(connection, [step], NOW)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_in_the_middle()
    with database.read() as connection:
        assert cursors.position_of(connection, "ml", "regular", "public") is None
        assert not deliveries.find(connection)
        assert digests.get(connection, "one") is None


def test_the_same_digest_is_stored_once(database: Database) -> None:
    for _ in range(2):
        with database.write() as connection:
            queue(connection, "one", "a@example.org", "b@example.org")
    with database.read() as connection:
        assert [each.target for each in deliveries.find(connection)] == ["b@example.org", "a@example.org"]


def advance(revision: str, *unread: Unread, **tags: str | None) -> Advance:
    updates = tuple(CursorUpdate(tag=tag, revision=place, unread=unread) for tag, place in tags.items())
    return Advance(subscription="ml", stream="regular", source="public", revision=revision, tags=updates)


def test_what_is_remembered_keeps_its_kind(database: Database) -> None:
    """By a word that states of earlier versions have, too."""
    first, place = Point("a" * 40, "develop"), dict[str, Any](source="public", tag="develop")
    learned: dict[str, Memory] = {
        "action": OpenAction(source="public", verb="copy", subject="zlib", since="2026-07-26", last_repeated=NOW),
        "departure": Departure(**place, kind=DepartureKind.TAG, last=first, first=first, packages=("zlib",)),
        "met": MetBinaries(hashes=("a", "b")),
        "pin": SeenPin(**place, revision=first.revision),
        "still-missing": StillMissing(
            source="public", series="develop-*", stream="regular", packages=("zlib",), times=2
        ),
        "wave": AnnouncedWave(**place, revision=first.revision, day="2026-07-26", count=9),
    }
    with database.write() as connection:
        step = msgspec.structs.replace(advance(first.revision), learned=tuple(learned.values()))
        cursors.advance(connection, [step], NOW)
        assert cursors.remembered_by(connection, "ml").facts == step.learned
        stored = connection.execute(select(remembered.c.content).order_by(remembered.c.key)).scalars()
        assert [msgspec.msgpack.decode(one)["type"] for one in stored] == [*learned]


def test_an_answer_is_written_by_who_claimed_the_delivery_alone(database: Database) -> None:
    with database.write() as connection:
        queue(connection, "one", "a@example.org")
        first = deliveries.claim(connection, "mail", NOW, OWNER)
        assert first is not None
        deliveries.requeue(connection, first.id, NOW, NOW)
        second = deliveries.claim(connection, "mail", NOW, OTHER)
        assert second is not None
        assert not deliveries.settle(connection, first, DeliveryState.DEAD, now=NOW, said="550 no")
        assert deliveries.delivery(connection, second.id) == second
        assert deliveries.settle(connection, second, DeliveryState.SENT, now=NOW, said="250 ok")
        assert not deliveries.settle(connection, second, DeliveryState.SENT, now=NOW, said=""), "it is settled"
        history = [(event, said) for _, event, said in deliveries.history(connection, second.id)][1:]
        assert history == [("late", "dead: 550 no"), ("sent", "250 ok"), ("late", "sent")]


def test_an_answer_that_comes_late_counts_while_nobody_took_over(database: Database) -> None:
    with database.write() as connection:
        queue(connection, "one", "a@example.org")
        claimed = deliveries.claim(connection, "mail", NOW, OWNER)
        assert claimed is not None
        deliveries.requeue(connection, claimed.id, NOW, NOW)
        assert deliveries.settle(connection, claimed, DeliveryState.SENT, now=NOW, said="250 ok")
        assert [each.state for each in deliveries.find(connection)] == [DeliveryState.SENT]


def test_a_writer_waits_for_another(database: Database) -> None:
    with database.write() as connection:
        health.count(connection, Counter("seen"))
        with database.read() as other:
            assert health.counters(other) == {}  # and a reader does not wait
    with database.write() as connection:
        health.count(connection, Counter("seen"))
    with database.read() as connection:
        assert health.counters(connection) == {Counter("seen"): 2}


def test_a_counter_keeps_its_labels(database: Database) -> None:
    counter = Counter.of("seen_total", source='a "b" \\ x,y={z} ü\n', result="sent")
    with database.write() as connection:
        health.count(connection, counter, 2)
        health.count(connection, counter)
        assert health.counters(connection) == {counter: 3}
