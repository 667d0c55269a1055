"""A delivery that is being sent belongs to one run: what that run cannot write down, or never says, comes back by itself."""

import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from mailservers import Post, free_port, header, mailing
from station import HOUR, MAIL_CONFIG, Site, begun, growing

from cachewatch.errors import StateError
from cachewatch.service import sending_and_channel_faults
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.recipients_and_retries import longest_attempt
from cachewatch.service.sending_and_channel_faults import deliver
from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store.delivery_queue_and_order import Delivery, DeliveryState

pytestmark = pytest.mark.usefixtures("loopback")

STATES = growing(3)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A digest for two readers waits for a server."""
    made = begun(tmp_path, STATES, MAIL_CONFIG.replace("{port}", str(free_port())))
    made.run(1)
    made.now += HOUR
    return made


@pytest.fixture
def server(site: Site) -> Iterator[Post]:
    """The server is there now."""
    with mailing(site, MAIL_CONFIG) as running:
        yield running


@contextmanager
def no_answer_can_be_written(site: Site) -> Iterator[None]:
    """Let SQLite refuse what a disk without room, or one that fails, would refuse; claims go on."""
    with closing(sqlite3.connect(site.folder / "state" / "cachewatch.db")) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE UPDATE OF state ON deliveries WHEN new.state = 'sent' "
            "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
        yield
        connection.execute("DROP TRIGGER full")


def claimed(context: Context) -> Delivery:
    """Begin to send a mail, and get no further."""
    with context.database.write() as connection:
        found = deliveries.claim(connection, "mail", context.clock(), context.owner)
    assert found is not None
    return found


@pytest.mark.only_sqlite
def test_an_answer_that_cannot_be_written_is_kept_and_written_when_it_can(
    site: Site, server: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No second copy is sent, and the log says it once."""
    monkeypatch.setattr(sending_and_channel_faults, "_PATIENCE", (0.01,))
    context = site.open()
    with no_answer_can_be_written(site):
        for _ in range(3):
            with pytest.raises(StateError, match="database or disk is full"):
                deliver(context, "mail")
        assert site.mails()["kim"].state is DeliveryState.SENDING
    deliver(context, "mail")
    assert [received.recipient for received in server.received].count("kim@example.org") == 1
    assert {each.state for each in site.deliveries()} == {DeliveryState.SENT}
    assert [event["event"] for event in site.events()].count("answer.unwritten") == 1


@pytest.mark.both_states
def test_what_a_process_that_ended_had_in_hand_goes_out_again_first(site: Site, server: Post) -> None:
    """The same bytes under the same Message-ID, then the next for the same reader."""
    lost = claimed(site.open())
    with site.open().database.read() as connection:
        bytes_then = deliveries.message(connection, lost.id).payload
    site.run(2)
    first, second = [received for received in server.received if received.recipient == "kim@example.org"]
    assert header(first.content, "Message-ID") == lost.message_id
    assert first.content.replace(b"\r\n", b"\n").strip() == bytes_then.replace(b"\r\n", b"\n").strip()
    assert header(second.content, "Message-ID") != lost.message_id
    with site.open().database.read() as connection:
        history = [event for _, event, _ in deliveries.history(connection, lost.id)]
    assert history[-2:] == ["interrupted", "sent"]
    assert site.mails()["kim"].may_have_arrived
    (event,) = [event for event in site.events() if event["event"] == "deliveries.interrupted"]
    assert (event["channel"], event["count"]) == ("mail", 1)


@pytest.mark.parametrize("_state", ["postgresql"], indirect=True)
def test_what_another_host_had_is_sent_later(site: Site, server: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the clock of that host said; the others get theirs at once, and nothing is late without a word."""
    context = site.open()
    monkeypatch.setattr(socket, "gethostname", lambda: "there")
    context.owner = "here/1/a"
    site.now += timedelta(days=30)
    claimed(context)
    site.now -= timedelta(days=30)
    longest = longest_attempt(context.config.channels["mail"])
    site.run(later=HOUR)
    assert {name: each.state for name, each in site.mails().items()} == {"kim": "queued", "lee": "sent"}
    assert site.mails()["kim"].due == site.now + longest
    site.run(later=longest - timedelta(seconds=1))
    assert site.mails()["kim"].state is DeliveryState.QUEUED
    site.run(later=timedelta(seconds=1))
    assert site.mails()["kim"].state is DeliveryState.SENT


def test_the_command_shows_who_sends_and_takes_force(site: Site, run: Run) -> None:
    with site.open().database.write() as connection:
        found = deliveries.claim(connection, "mail", site.now, "here/1/a")
        assert found is not None
    options: tuple[Any, ...] = (found.id, "--config", site.folder / "cachewatch.yaml")
    assert "  being sent by here/1/a since 2025-" in run("deliveries", "show", *options).output
    assert "is being sent by here/1/a" in run("deliveries", "retry", *options).error_of(2)
    assert run("deliveries", "retry", "--force", *options).output == f"{found.id}: due now\n"
    assert site.mails()["kim"].state is DeliveryState.QUEUED
