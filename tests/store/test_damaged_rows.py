"""Bits that flip in the stored bytes of one delivery or digest: that one is set aside, the rest goes on."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from conftest import Run
from helpers import opened
from mailservers import Post, free_port, post
from station import MAIL_CONFIG, Site, growing

from cachewatch.errors import DamagedRow, UsageError
from cachewatch.operators import alerts_summary_actions
from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store import digests_and_holds as digests
from cachewatch.store.delivery_queue_and_order import DeliveryState

pytestmark = pytest.mark.usefixtures("loopback")

STATES = growing(4)
CONFIG = (
    MAIL_CONFIG.replace("400d", "30000d")
    .replace("  desk:", '  feed: {type: feed, path: "{folder}/feed/{subscription}.atom"}\n  desk:')
    .replace("[mail], changes: [all]", "[mail, feed], changes: [all], limit: {hold_above: {limit}}")
)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A digest for two readers waits for a mail server; it is in the feed."""
    made = told_of(Site(tmp_path, STATES), 1, limit=5000)
    assert {name: each.state for name, each in made.mails().items()} == {"kim": "deferred", "lee": "queued"}
    return made


@pytest.fixture
def held(tmp_path: Path) -> Site:
    made = told_of(Site(tmp_path, STATES), 2, limit=1)
    assert keys(made) != []
    return made


def told_of(site: Site, number: int, *, limit: int) -> Site:
    """Make two passes an hour ago, the second one of this revision."""
    site.now = datetime.now(UTC) - timedelta(hours=1)
    configure(site, limit=limit)
    site.run()
    site.run(number)
    site.now = datetime.now(UTC)  # as commands have it
    return site


@pytest.fixture
def server(site: Site) -> Iterator[Post]:
    with post() as running:
        configure(site, running.port)
        yield running


def configure(site: Site, port: int | None = None, *, limit: int = 5000) -> None:
    site.configure(CONFIG.replace("{port}", str(port or free_port())).replace("{limit}", str(limit)))


def keys(site: Site) -> list[str]:
    with site.open().database.read() as connection:
        return [record.key for record in digests.all_held(connection)]


def flip(site: Site, table: str, column: str, where: str, dice: random.Random | None = None) -> None:
    """Turn over one bit of a stored value."""
    dice = dice or random.Random(7)
    with opened(site.folder / "state" / "cachewatch.db") as connection:
        for number, value in connection.execute(f"SELECT rowid, {column} FROM {table} WHERE {where}").fetchall():
            damaged = bytearray(value)
            damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (bytes(damaged), number))


def execute(site: Site, statement: str) -> None:
    with opened(site.folder / "state" / "cachewatch.db") as connection:
        connection.execute(statement)


@pytest.mark.parametrize("what", ["deliveries", "bodies"])
def test_damaged_bytes_are_a_dead_letter(site: Site, server: Post, run: Run, what: str) -> None:
    """The others get theirs, and operators a notice; what several have in common damages all of them."""
    where = "target = 'kim@example.org'" if what == "deliveries" else "1"
    flip(site, what, "payload" if what == "deliveries" else "content", where)
    with site.open().database.read() as connection, pytest.raises(DamagedRow, match="delivery 1: its stored bytes are"):
        deliveries.message(connection, site.mails()["kim"].id)
    assert run("once", "--config", site.file).exit_code == 7
    lee = DeliveryState.SENT if what == "deliveries" else DeliveryState.DEAD
    assert {name: each.state for name, each in site.mails().items()} == {"kim": DeliveryState.DEAD, "lee": lee}
    assert "a digest could not be delivered to kim@example.org" in site.notices()
    config = ("--config", site.file)
    for command in (["list"], ["list", "--dead"], ["show", "1"]):
        assert run("deliveries", *command, *config).exit_code == 0
    for command in (["show", "1", "--raw"], ["retry", "1"]):
        assert "delivery 1: its stored bytes are damaged" in run("deliveries", *command, *config).error_of(5)
    assert run("deliveries", "drop", "1", "--reason", "damaged", *config).exit_code == 0


def test_what_was_dropped_is_not_retried_where_its_bytes_were_deleted(site: Site, server: Post) -> None:
    kim = site.mails()["kim"]
    execute(site, f"UPDATE deliveries SET state = 'dropped', payload = x'' WHERE id = {kim.id}")
    with pytest.raises(UsageError, match="its text was deleted"):
        alerts_summary_actions.retry(site.open(), kim.id)


@pytest.mark.slow
def test_a_feed_leaves_out_an_entry_whose_bytes_are_damaged(site: Site) -> None:
    flip(site, "deliveries", "payload", "channel = 'feed'")
    site.run(2)
    feed = (site.folder / "feed" / "ml.atom").read_text()
    assert feed.count("<entry>") == 1
    assert "change-1" in feed


def test_a_held_digest_that_is_damaged_cannot_be_answered_and_is_made_anew(held: Site, run: Run) -> None:
    """Nobody can read how its cursors move."""
    (before,) = keys(held)
    flip(held, "digests", "moves", "state = 'held'")
    config = ("--config", held.folder / "cachewatch.yaml")
    for command in (["status"], ["deliveries", "list"], ["deliveries", "show", "1"]):
        assert run(*command, *config).exit_code == 0
    assert f"digest {before[:12]}: it is damaged" in run("deliveries", "release", "ml", *config).error
    assert run("once", *config).exit_code == 0
    (after,) = keys(held)
    assert after != before
    assert held.notices() == ["a large change in develop of public"]
    assert run("deliveries", "release", "ml", *config).exit_code == 0
    held.now = datetime.now(UTC)
    with post() as server:
        configure(held, server.port, limit=1)
        held.run()
    assert len(server.received) == 2
    assert b"change-0" in server.received[0].content
    assert {each.state for each in held.deliveries() if each.digest == before} == {DeliveryState.DROPPED}


def test_the_archive_leaves_out_what_is_damaged(site: Site) -> None:
    flip(site, "digests", "rendered", "subscription = 'ml'")
    assert site.told() == []


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("column", "value", "state"),
    [
        ("due", "'2026-11-21D21:19:57.734793Z'", DeliveryState.SENT),
        ("give_up", "'2026-99-99'", DeliveryState.SENT),
        ("target", "cast(x'6b696dff40' AS TEXT)", DeliveryState.DEAD),
        ("message_id", "'<other@example.org>'", DeliveryState.DEAD),
        ("created", "3.5", DeliveryState.SENT),
        ("digest", "'no such digest'", DeliveryState.DEAD),
        ("created", "''", DeliveryState.SENT),
    ],
)
def test_other_columns(site: Site, run: Run, column: str, value: str, state: DeliveryState) -> None:
    """A time that cannot be read was long ago; what it is sent to and as is known by the checksum."""
    with post() as server:
        configure(site, server.port)
        assert _play(site, server, run, f"{column} = {value}", state) == {"kim": state, "lee": DeliveryState.SENT}


def _play(site: Site, server: Post, run: Run, damage: str, state: DeliveryState) -> dict[str, DeliveryState]:
    """Damage the delivery to kim, go on, and return what became of both."""
    before = site.mails()
    execute(site, f"UPDATE deliveries SET {damage} WHERE id = {before['kim'].id}")
    config = ("--config", site.file)
    for command in (["status"], ["deliveries", "list"], ["deliveries", "show", "1"]):
        assert run(*command, *config).exit_code == 0
    done = run("once", *config)
    assert done.exit_code == (7 if state is DeliveryState.DEAD else 0), done.error
    after = {each.id: each for each in site.deliveries()}
    assert [received.recipient for received in server.received][-1] == "lee@example.org"
    assert len(server.received) == 1 + (state is DeliveryState.SENT)
    if state is DeliveryState.DEAD:
        assert any("kim" in title for title in site.notices()), site.notices()
    return {name: after[before[name].id].state for name in ("kim", "lee")}


def test_a_delivery_whose_state_is_damaged_failed_and_the_check_names_it(site: Site, run: Run) -> None:
    execute(site, "UPDATE deliveries SET state = 'queueD' WHERE target = 'kim@example.org'")
    config = ("--config", site.file)
    assert "1 delivery through mail failed for good" in run("status", "--check", *config).output
    checked = run("state", "check", *config)
    assert "delivery 1: its state is damaged" in checked.output + checked.error
    assert run("deliveries", "retry", "1", *config).exit_code == 0
    assert site.mails()["kim"].state is DeliveryState.QUEUED
