"""What is remembered: transactions that are whole, claims that are single, and a database that says what is wrong."""

import gc
import random
import shutil
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import create_engine, event, func, inspect, select, update

from cachewatch.core.delivery import Message, RenderedDigest
from cachewatch.errors import AnotherInstance, StateError
from cachewatch.store import alerts, cursors, digests, health, held, outbox, scheduled_runs, suppressions
from cachewatch.store.alerts import AlertKey, AlertKind
from cachewatch.store.cursors import Advance, Cursor, CursorUpdate, Unread
from cachewatch.store.database import NAME, Connection, Database, after_commit
from cachewatch.store.digests import DigestRecord, DigestState
from cachewatch.store.health import Counter
from cachewatch.store.held import Hold, HoldEvent, HoldKind
from cachewatch.store.lock import only_one
from cachewatch.store.migration_steps import STEPS
from cachewatch.store.migrations import migrate
from cachewatch.store.outbox import OPEN, Lease, State
from cachewatch.store.schema import digests as table
from cachewatch.store.schema import metadata
from cachewatch.store.timestamps import to_text

NOW = datetime(2026, 7, 27, 7, 30, tzinfo=UTC)
DAY = timedelta(days=1)
OLD = Path(__file__).parents[1] / "data" / "state-0.1.db"
HOUR = timedelta(hours=1)
LEASE = Lease(owner="here/1/a", lasting=HOUR)
OTHER = Lease(owner="there/1/b", lasting=HOUR)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "state", is_checked=True, clock=lambda: NOW)


def rendered(key: str) -> RenderedDigest:
    return RenderedDigest(
        key=key,
        subscription="ml",
        title="3 removed",
        period="2026-07-27",
        created=NOW,
        text="text",
        html="<p>html",
        markdown="md",
        json=b"{}",
    )


def stored(key: str, **changes: object) -> DigestRecord:
    plain = DigestRecord(
        key=key,
        subscription="ml",
        stream="regular",
        state=DigestState.READY,
        title="3 removed",
        period="2026-07-27",
        created=NOW,
        reason="",
        advances=(),
        rendered=rendered(key),
        short=rendered(key),
    )
    return msgspec.structs.replace(plain, **changes)


def message(key: str, target: str = "a@example.org") -> Message:
    return Message(
        key=key, target=target, payload=b"bytes of " + key.encode(), content_type="message/rfc822", created=NOW
    )


def queue(connection: Connection, key: str, *targets: str, channel: str = "mail", state: State = State.QUEUED) -> None:
    digests.add(connection, stored(key))
    for target in targets:
        outbox.add(connection, channel, message(key, target), state=state, lasting=5 * DAY)


def test_the_forms_of_a_digest_take_little_more_than_its_text(database: Database) -> None:
    """All of them say what the text says, however far one is from the next."""
    dice = random.Random(7)
    lines = [dice.randbytes(40).hex() for _ in range(1500)]
    text = "\n".join(lines)
    html, markdown = "".join(f"<li>{line}</li>" for line in lines), "".join(f"* {line}\n" for line in lines)
    whole = msgspec.structs.replace(
        rendered("one"), text=text, html=html, page=html, feed=html, markdown=markdown, json=msgspec.json.encode(lines)
    )
    with database.write() as connection:
        digests.add(connection, stored("one", rendered=whole, short=whole))
        taken = connection.execute(
            select(func.length(table.c.rendered) + func.length(table.c.short)).select_from(table)
        ).scalar_one()

    assert taken <= len(text) + 12_000
    with database.read() as connection:
        found = digests.get(connection, "one")
    assert found is not None
    assert (found.rendered, found.short) == (whole, whole)


def test_digests_of_the_first_form_can_be_read(database: Database) -> None:
    """As they were stored before both lengths were compressed together."""
    first, second = (zlib.compress(msgspec.msgpack.encode(rendered(key))) for key in ("one", "two"))
    with database.write() as connection:
        digests.add(connection, stored("one"))
        connection.execute(update(table).values(rendered=first, short=second, checksum=None, form=1))
    with database.read() as connection:
        found = digests.get(connection, "one")

    assert found is not None
    assert (found.rendered.key, found.short.key) == ("one", "two")


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
        assert not outbox.find(connection)
        assert digests.get(connection, "one") is None


def test_what_is_to_follow_a_transaction_follows_if_it_was_committed(database: Database) -> None:
    done: list[str] = []

    def fail() -> None:
        with database.write() as connection:
            after_commit(connection, lambda: done.append("rolled back"))
            connection.exec_driver_sql("INSERT INTO attempts (delivery, at, event) VALUES (1, '', 'of no delivery')")

    with pytest.raises(StateError, match="FOREIGN KEY"):
        fail()
    with database.write() as connection:
        after_commit(connection, lambda: done.append("committed"))
        assert done == []
    assert done == ["committed"]


def test_the_same_digest_is_stored_once(database: Database) -> None:
    for _ in range(2):
        with database.write() as connection:
            queue(connection, "one", "a@example.org", "b@example.org")
    with database.read() as connection:
        assert [each.target for each in outbox.find(connection)] == ["b@example.org", "a@example.org"]


def advance(revision: str, *unread: Unread, **tags: str | None) -> Advance:
    updates = tuple(CursorUpdate(tag=tag, revision=place, unread=unread) for tag, place in tags.items())
    return Advance(subscription="ml", stream="regular", source="public", revision=revision, tags=updates)


def test_cursors_move_and_remember_what_is_gone(database: Database) -> None:
    with database.write() as connection:
        cursors.advance(connection, [advance("a" * 40, develop="a" * 40, old="a" * 40)], NOW)
        cursors.advance(connection, [advance("b" * 40, develop="b" * 40, old=None)], NOW + DAY)
    with database.read() as connection:
        position = cursors.position_of(connection, "ml", "regular", "public")
        assert position is not None
        assert position.revision == "b" * 40
        assert position.cursors == {"develop": Cursor("b" * 40), "old": Cursor("a" * 40, NOW + DAY)}
        assert cursors.revisions_in_use(connection, "public") == {"a" * 40, "b" * 40}
        assert cursors.position_of(connection, "ml", "urgent", "public") is None


def test_what_is_unread_is_kept_until_it_was_compared(database: Database) -> None:
    """Another stream that can read it says so, and goes on to wait for its own comparison."""
    entry = Unread(package="zlib", base="a" * 40, base_tag="develop", since="b" * 40, reason="not YAML")
    weekly = msgspec.structs.replace(advance("b" * 40, entry, develop="b" * 40), stream="weekly")
    with database.write() as connection:
        cursors.advance(connection, [advance("b" * 40, entry, develop="b" * 40), weekly], NOW)
        assert cursors.unreadable(connection) == {("public", "develop"): {"zlib": "not YAML"}}
        cursors.advance(connection, [advance("c" * 40, develop="c" * 40)], NOW)
        assert cursors.unreadable(connection) == {}
        for stream, unread in (("regular", {}), ("weekly", {"develop": (entry,)})):
            position = cursors.position_of(connection, "ml", stream, "public")
            assert position is not None
            assert position.unread == unread
        assert cursors.revisions_in_use(connection, "public") == {"a" * 40, "b" * 40, "c" * 40}


def test_parcels_for_one_target_go_in_order(database: Database) -> None:
    with database.write() as connection:
        queue(connection, "one", "a@example.org")
        queue(connection, "two", "a@example.org", "b@example.org")
        first = outbox.claim(connection, "mail", NOW, LEASE)
        assert first is not None
        assert (first.digest, first.attempts) == ("one", 1)
        outbox.settle(connection, first, State.DEFERRED, now=NOW, said="450 later", due=NOW + DAY)
        second = outbox.claim(connection, "mail", NOW, LEASE)
        assert second is not None
        assert (second.digest, second.target) == ("two", "b@example.org")
        assert outbox.claim(connection, "mail", NOW, LEASE) is None
        again = outbox.claim(connection, "mail", NOW + DAY, LEASE)
        assert again is not None
        assert (again.digest, again.attempts) == ("one", 2)
        outbox.settle(connection, again, State.DEAD, now=NOW, said="550 no")
        last = outbox.claim(connection, "mail", NOW + DAY, LEASE)
        assert last is not None
        assert (last.digest, last.target) == ("two", "a@example.org")


def test_what_was_interrupted_is_sent_again_with_the_same_bytes(database: Database) -> None:
    with database.write() as connection:
        queue(connection, "one", "a@example.org")
        assert outbox.claim(connection, "mail", NOW, LEASE) is not None
    with database.write() as connection:
        assert outbox.requeue_interrupted(connection, NOW) == 1
        again = outbox.claim(connection, "mail", NOW, LEASE)
        assert again is not None
        assert again.may_have_arrived
        assert outbox.message(connection, again.id) == message("one")
        assert [event for _, event, _ in outbox.story(connection, again.id)] == ["interrupted"]


def test_a_lease_that_is_over_is_given_back(database: Database) -> None:
    """Not before, and by the clock of the database alone."""
    with database.write() as connection:
        queue(connection, "one", "a@example.org")
        claimed = outbox.claim(connection, "mail", NOW, LEASE)
        assert claimed is not None
        assert (claimed.lease_owner, claimed.lease_until) == ("here/1/a", NOW + HOUR)
        database.clock = lambda: NOW + HOUR - timedelta(microseconds=1)
        assert outbox.requeue_expired(connection, NOW + DAY) == []
        assert outbox.expired_leases(connection) == []
        database.clock = lambda: NOW + HOUR
        assert [each.id for each in outbox.expired_leases(connection)] == [claimed.id]
        assert [each.id for each in outbox.requeue_expired(connection, NOW)] == [claimed.id]
        again = outbox.claim(connection, "mail", NOW, OTHER)
        assert again is not None
        assert (again.attempts, again.may_have_arrived, again.lease_owner) == (2, True, "there/1/b")
        assert outbox.message(connection, again.id) == message("one")
        (line,) = outbox.story(connection, again.id)
        assert line[1:] == ("expired", "it may have arrived: here/1/a never said")


def test_an_answer_is_written_by_the_owner_of_the_lease_alone(database: Database) -> None:
    with database.write() as connection:
        queue(connection, "one", "a@example.org")
        first = outbox.claim(connection, "mail", NOW, LEASE)
        database.clock = lambda: NOW + HOUR
        outbox.requeue_expired(connection, NOW)
        second = outbox.claim(connection, "mail", NOW, OTHER)
        assert first is not None
        assert second is not None
        assert not outbox.settle(connection, first, State.DEAD, now=NOW, said="550 no")
        assert outbox.delivery(connection, second.id) == second
        assert outbox.settle(connection, second, State.SENT, now=NOW, said="250 ok")
        assert not outbox.settle(connection, second, State.DEAD, now=NOW, said="550 no"), "it has no lease any more"
        assert [event for _, event, _ in outbox.story(connection, second.id)] == ["expired", "late", "sent", "late"]


def test_an_answer_that_comes_late_counts_while_nobody_took_over(database: Database) -> None:
    with database.write() as connection:
        queue(connection, "one", "a@example.org")
        claimed = outbox.claim(connection, "mail", NOW, LEASE)
        assert claimed is not None
        database.clock = lambda: NOW + HOUR
        outbox.requeue_expired(connection, NOW)
        assert outbox.settle(connection, claimed, State.SENT, now=NOW, said="250 ok")
        assert [each.state for each in outbox.find(connection)] == [State.SENT]


def test_at_a_start_only_what_is_certainly_over_is_taken_back(database: Database) -> None:
    """On a file system that hosts share, the lock may not be known to the others."""
    with database.write() as connection:
        queue(connection, "one", "a@example.org", "b@example.org", "c@example.org")
        for lease in (LEASE, OTHER, LEASE):
            assert outbox.claim(connection, "mail", NOW, lease) is not None
        connection.exec_driver_sql("UPDATE deliveries SET lease_owner = NULL, lease_until = NULL WHERE id = 3")
        assert outbox.requeue_interrupted(connection, NOW, "here") == 2
        assert [each.state for each in outbox.find(connection)] == [State.QUEUED, State.SENDING, State.QUEUED]
        assert outbox.requeue_interrupted(connection, NOW) == 1


def test_what_is_overdue_is_found_but_not_what_waits_behind_it(database: Database) -> None:
    with database.write() as connection:
        queue(connection, "one", "a@example.org", "b@example.org")
        queue(connection, "two", "a@example.org")
        assert outbox.overdue(connection, NOW + HOUR, by=2 * HOUR) == []
        found = outbox.overdue(connection, NOW + 2 * HOUR, by=2 * HOUR)
        assert [(each.digest, each.target) for each in found] == [("one", "a@example.org"), ("one", "b@example.org")]


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
        [f"SEARCH {_OF_TARGET})"],
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
def test_what_is_asked_again_and_again_does_not_look_through_history(database: Database, query: str) -> None:
    """A partial index has what is open, held or pending; the others begin with channel, target and state."""
    ask, expected = _PLANS[query]
    plan: list[str] = []

    def explain(connection: Connection, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        if statement.startswith(("SELECT", "UPDATE")) and "EXPLAIN" not in statement:
            found = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plan.extend(row.detail for row in found)

    with database.write() as connection:
        event.listen(database._engine, "before_cursor_execute", explain)
        ask(connection)
    assert plan == expected


@pytest.mark.slow
def test_a_claim_takes_as_many_steps_after_many_digests_as_after_few(database: Database) -> None:
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


def test_a_blocked_channel_uses_up_no_attempts(database: Database) -> None:
    with database.write() as connection:
        queue(connection, "one", "a@example.org")
        claimed = outbox.claim(connection, "mail", NOW, LEASE)
        assert claimed is not None
        outbox.settle(connection, claimed, State.QUEUED, now=NOW, said="535", due=NOW + DAY, counts=False)
        found = outbox.delivery(connection, claimed.id)
        assert found is not None
        assert (found.attempts, found.due) == (0, NOW + DAY)
        outbox.hasten(connection, "mail", NOW)
        assert outbox.due_channels(connection, NOW) == ["mail"]


def test_an_address_that_keeps_refusing_is_left_out_until_restored(database: Database) -> None:
    with database.write() as connection:
        for number, key in enumerate(("one", "two", "three"), 1):
            queue(connection, key, "a@example.org")
            claimed = outbox.claim(connection, "mail", NOW, LEASE)
            assert claimed is not None
            outbox.settle(connection, claimed, State.DEAD, now=NOW, said="550 unknown")
            assert suppressions.refusals_in_a_row(connection, "mail", "a@example.org") == number
        suppressions.suppress(connection, "mail", "a@example.org", "550 unknown", NOW)
        queue(connection, "four", "a@example.org", "b@example.org")
        assert [each.state for each in outbox.find(connection, digest_key="four")] == [State.QUEUED, State.SUPPRESSED]
        assert suppressions.restore(connection, "mail", "a@example.org")
        assert not suppressions.restore(connection, "mail", "a@example.org")


def test_held_digests_wait_and_go_together_with_their_deliveries(database: Database) -> None:
    advances = (advance("b" * 40, develop="b" * 40),)
    with database.write() as connection:
        digests.add(connection, stored("one", state=DigestState.HELD, advances=advances))
        outbox.add(connection, "mail", message("one"), state=State.HELD, lasting=DAY)
        assert digests.held(connection, "ml", "regular") == ["one"]
        assert digests.revisions_held(connection, "public") == {"b" * 40}
        assert outbox.due_channels(connection, NOW) == []
        digests.settle(connection, "one", DigestState.RELEASED, "by hand", NOW)
        assert outbox.due_channels(connection, NOW) == ["mail"]
        found = digests.get(connection, "on")
        assert found is not None
        assert (found.state, found.advances) == (DigestState.RELEASED, advances)


def test_slots_are_planned_anew_and_finished(database: Database) -> None:
    with database.write() as connection:
        scheduled_runs.plan(connection, "ml", "regular", "mon", NOW)
        scheduled_runs.plan(connection, "ml", "regular", "tue", NOW + DAY)
        slot = scheduled_runs.pending(connection, "ml", "regular")
        assert slot is not None
        assert (slot.schedule, slot.due) == ("tue", NOW + DAY)
        scheduled_runs.finish(connection, slot, "one", NOW)
        assert scheduled_runs.pending(connection, "ml", "regular") is None


def test_an_alert_is_news_once(database: Database) -> None:
    key = AlertKey(AlertKind.SOURCE_FAILED, "public")
    with database.write() as connection:
        assert alerts.put(connection, key, "down", "timeout", NOW)
        assert not alerts.put(connection, key, "still down", "refused", NOW + DAY)
        (alert,) = alerts.all_open(connection)
        assert (alert.key, alert.opened_at, alert.title, alert.detail) == (key, NOW, "still down", "refused")
        assert alerts.remove(connection, key) == alert
        assert alerts.remove(connection, key) is None
        assert alerts.put(connection, key, "down", "timeout", NOW)


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
    with sqlite3.connect(tmp_path / NAME) as connection:
        connection.execute("DELETE FROM troubles")
        connection.execute("INSERT INTO troubles VALUES (?, ?, ?)", (topic, to_text(NOW), "what 0.1 said"))
    with Database(tmp_path).read() as connection:
        (alert,) = alerts.all_open(connection)
    assert (alert.key, alert.opened_at, alert.notified_at, alert.title) == (key, NOW, NOW, "what 0.1 said")


def test_old_digests_are_forgotten_but_not_what_is_open(database: Database) -> None:
    with database.write() as connection:
        queue(connection, "one", "a@example.org")
        queue(connection, "two", "b@example.org")
        claimed = outbox.claim(connection, "mail", NOW, LEASE)
        assert claimed is not None
        outbox.settle(connection, claimed, State.SENT, now=NOW, said="250")
        assert digests.forget(connection, NOW + DAY) == 1
        assert [each.digest for each in outbox.find(connection)] == ["two"]
        assert outbox.story(connection, claimed.id) == []


def test_what_a_newer_digest_is_held_for_too_counts_from_its_first_hold(database: Database) -> None:
    loss, large = (HoldEvent("public", "develop", kind) for kind in HoldKind)
    with database.write() as connection:
        held.hold(connection, "ml", "regular", [Hold(event=loss, said="40 -> 0 specs", content=("a", "b"))], NOW)
        found = [Hold(event=loss, said="40 -> 1 specs"), Hold(event=large, said="many")]
        held.hold(connection, "ml", "regular", found, NOW + DAY)
        assert [(each.event, each.said, each.counted_from) for each in held.holds_of(connection, "ml", "regular")] == [
            (large, "many", NOW + DAY),
            (loss, "40 -> 1 specs", NOW),
        ]
        assert held.holds_of(connection, "ml", "urgent") == ()
        held.hold(connection, "ml", "regular", [Hold(event=large, said="many")], NOW + DAY)
        held.hold(connection, "ml", "regular", [Hold(event=loss, said="40 -> 0 specs")], NOW + 2 * DAY)
        (again,) = held.holds_of(connection, "ml", "regular")
        assert again.counted_from == NOW + 2 * DAY


def test_the_form_before_keeps_what_is_held(tmp_path: Path) -> None:
    """Its time begins with the first pass; what is not held any more needs none."""
    engine = create_engine(f"sqlite:///{tmp_path / NAME}")
    migrate(engine, tmp_path / NAME, STEPS[:2])
    with sqlite3.connect(tmp_path / NAME) as connection:
        for key, state in (("one", "held"), ("two", "held"), ("three", "dropped")):
            values = (key, "ml", key, state, "title", "2026-07-27", to_text(NOW), "9 changed specs", b"", b"", b"")
            connection.execute(f"INSERT INTO digests VALUES ({', '.join('?' * 11)}, NULL, 1)", values)
        for key in ("one", "three"):
            connection.execute("INSERT INTO held_losses VALUES (?, 'public', 'develop', '40 -> 0 specs')", (key,))
    with Database(tmp_path).read() as connection:
        found = {(digest.stream, hold) for digest in held.all_held(connection) for hold in digest.holds}
    assert found == {
        ("one", Hold(event=HoldEvent("public", "develop", HoldKind.SUSPICIOUS), said="40 -> 0 specs")),
        ("two", Hold(event=HoldEvent("", "", HoldKind.LARGE), said="9 changed specs")),
    }


def test_a_writer_waits_for_another(database: Database) -> None:
    with database.write() as connection:
        health.count(connection, Counter("seen"))
        with database.read() as other:
            assert health.counters(other) == {}  # and a reader does not wait
    with database.write() as connection:
        health.count(connection, Counter("seen"))
    with database.read() as connection:
        assert health.counters(connection) == {Counter("seen"): 2}


def test_the_database_is_durable_at_every_commit(database: Database) -> None:
    with database.read() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2}


def test_whoever_finds_the_database_locked_waits_for_ten_seconds(database: Database) -> None:
    with database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 10_000


def test_a_database_that_nobody_uses_any_more_holds_no_file_open(tmp_path: Path) -> None:
    def files() -> int:
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    def use() -> None:
        with Database(tmp_path).read() as connection:
            health.counters(connection)

    before = files()
    for _ in range(5):
        use()
    assert files() <= before


def test_the_log_is_cut_when_no_reader_needs_it(database: Database) -> None:
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


@pytest.mark.parametrize("value", ["public", "", 'a "b" \\', "x,y={z}", "ü\n"])
def test_a_counter_keeps_its_labels(database: Database, value: str) -> None:
    """Whatever a configuration may ever take for a name."""
    counter = Counter.of("seen_total", source=value, result="sent")
    with database.write() as connection:
        health.count(connection, counter, 2)
        health.count(connection, counter)
        assert health.counters(connection) == {counter: 3}


def test_a_newer_form_is_refused_and_left_alone(tmp_path: Path) -> None:
    Database(tmp_path).close()
    with sqlite3.connect(tmp_path / NAME) as connection:
        connection.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
    with pytest.raises(StateError, match="newer cachewatch"):
        Database(tmp_path)


def test_an_older_form_is_copied_aside_before_it_is_changed(database: Database, tmp_path: Path) -> None:
    with database.write() as connection:
        health.count(connection, Counter("seen"))

    def make(connection: Connection) -> None:
        connection.exec_driver_sql("CREATE TABLE half (x)")

    def fail(connection: Connection) -> None:
        make(connection)
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        migrate(database._engine, database.path, (*STEPS, fail))
    copy = database.path.with_name(f"{NAME}.form-{len(STEPS)}")
    with sqlite3.connect(copy) as old, sqlite3.connect(database.path) as now:
        for opened in (old, now):
            assert opened.execute("SELECT value FROM counters").fetchall() == [(1.0,)]
            assert opened.execute("PRAGMA user_version").fetchone() == (len(STEPS),)
        assert not now.execute("SELECT * FROM sqlite_master WHERE name = 'half'").fetchall()
    migrate(database._engine, database.path, (*STEPS, make))
    with sqlite3.connect(database.path) as now:
        assert now.execute("PRAGMA user_version").fetchone() == (len(STEPS) + 1,)


def test_the_steps_lead_to_the_tables_of_the_code(tmp_path: Path) -> None:
    Database(tmp_path).close()
    engine = create_engine("sqlite://")
    metadata.create_all(engine)
    with engine.connect() as made, create_engine(f"sqlite:///{tmp_path / NAME}").connect() as led:
        assert _shape(led) == _shape(made)


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
    opened = [Database(tmp_path) for _ in range(6)]
    copy = tmp_path / f"{NAME}.form-{len(STEPS)}"

    def fill(connection: Connection) -> None:
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000)"
        connection.exec_driver_sql(f"CREATE TABLE filled AS {numbers} SELECT i FROM n")

    with ThreadPoolExecutor(len(opened)) as pool:
        list(pool.map(lambda each: migrate(each._engine, each.path, (*STEPS, fill)), opened))
    with sqlite3.connect(copy) as old, sqlite3.connect(tmp_path / NAME) as now:
        assert old.execute("PRAGMA user_version").fetchone() == (len(STEPS),)
        assert now.execute("SELECT count(*) FROM filled").fetchone() == (20000,)


def test_damage_is_named_and_nothing_is_deleted(tmp_path: Path) -> None:
    Database(tmp_path).close()
    path = tmp_path / NAME
    path.write_bytes(b"x" * 4096)
    with pytest.raises(StateError, match=r"file is not a database; move it away"):
        Database(tmp_path, is_checked=True)
    assert path.read_bytes() == b"x" * 4096


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match=r"file/state: Not a directory; choose another folder"):
        Database(tmp_path / "file" / "state")


def test_the_state_is_private(database: Database) -> None:
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
