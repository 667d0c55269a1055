"""A state that 0.1 left goes on: what waited is delivered, what was told is not told again, and nothing is lost.

tests/data/make_state_0_1.py says what is in it.
"""

import shutil
from datetime import timedelta
from email import message_from_bytes, policy
from pathlib import Path

import pytest
from conftest import Run
from data.make_state_0_1 import CONFIG, STATES
from mailservers import header, post
from sqlite_files import opened
from station import Site

from cachewatch.notify import operator_actions
from cachewatch.notify.recovery import resume
from cachewatch.notify.status import read_status
from cachewatch.store import health
from cachewatch.store.health import Counter
from cachewatch.store.outbox import State

pytestmark = pytest.mark.usefixtures("loopback")

OLD = Path(__file__).parents[1] / "data" / "state-0.1.db"
DAY = timedelta(days=1)
# The last pass of 0.1 was made on the sixth day.
LAST = 5


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """The site of 0.1, an hour after its last pass, with a new clone."""
    made = Site(tmp_path, STATES)
    made.publish(LAST)
    made.now += LAST * DAY + timedelta(hours=1)
    (tmp_path / "state").mkdir(mode=0o700)
    shutil.copy(OLD, tmp_path / "state" / "cachewatch.db")
    return made


def run_with(site: Site, port: int, later: timedelta = timedelta(0)) -> None:
    """Make a pass as a process does that begins."""
    site.configure(CONFIG.replace("{port}", str(port)))
    site.now += later
    resume(site.open())
    site.run()


def of(site: Site, reader: str) -> list[State]:
    return [each.state for each in site.deliveries() if each.target == f"{reader}@example.org"]


def test_what_waited_is_delivered_with_its_bytes_and_ids(site: Site) -> None:
    with opened(OLD) as connection:
        waiting = dict(
            connection.execute("SELECT target, message_id FROM deliveries WHERE state IN ('sending', 'deferred')")
        )
    with post() as server:
        run_with(site, server.port)
    sent = {received.recipient: header(received.content, "Message-ID") for received in server.received}
    assert sent == waiting
    assert set(waiting) == {"ann@example.org", "kim@example.org"}
    assert of(site, "ann")[-1] == of(site, "kim")[-1] == State.SENT
    assert of(site, "lee") == [State.DEAD] * 3 + [State.SUPPRESSED]
    (interrupted,) = [each for each in site.deliveries() if each.target == "ann@example.org" and each.may_have_arrived]
    assert interrupted.state == State.SENT


def test_what_was_held_can_be_released(site: Site) -> None:
    with post() as server:
        run_with(site, server.port)
        (held,) = site.held()
        assert held.subscription == "bulk"
        operator_actions.release(site.open(), "bulk")
        run_with(site, server.port)
    texts = [
        message_from_bytes(each.content, policy=policy.default).get_body(("plain",))
        for each in server.received
        if each.recipient == "max@example.org"
    ]
    (text,) = [text.get_content() for text in texts if text is not None]
    assert "many-0" in text


@pytest.mark.slow
def test_what_was_held_waits_for_an_answer_as_long_as_anything(site: Site) -> None:
    """Its time begins with the first pass, however long ago it was held."""
    with post() as server:
        run_with(site, server.port)
        (held,) = read_status(site.open()).held
        assert held.goes_out_at == site.now + DAY
        site.live(DAY - timedelta(hours=1))
        site.run()
        assert [each.subscription for each in site.held()] == ["bulk"]
        run_with(site, server.port, later=timedelta(hours=1))
    (mail,) = [each.content.decode() for each in server.received if each.recipient == "max@example.org"]
    assert "not confirmed by the operators" in mail
    assert site.held() == []


@pytest.mark.slow
def test_what_changed_since_is_told_and_nothing_twice(site: Site) -> None:
    """A document that 0.1 could not read is compared with its last readable version; a first tag of its kind is news."""
    with post() as server:
        run_with(site, server.port)
        operator_actions.drop_digest(site.open(), "bulk", "a test")
        site.publish(6)
        run_with(site, server.port, later=DAY)
        run_with(site, server.port, later=3 * DAY)
    told = {name: site.told(name) for name in ("ml", "weekly", "releases")}
    assert "hdf5" in told["ml"][-1]
    assert "1.14.5 -> 1.14.6" in told["ml"][-1]
    assert "last" in told["ml"][-1]
    assert "many-0" not in told["ml"][-1]
    (held,) = site.held()  # more changes again than `bulk` takes without asking
    assert held.subscription == "bulk"
    assert "1.14.5 -> 1.14.6" in held.rendered.text
    assert "many-0" not in held.rendered.text
    assert "1.14.5 -> 1.14.6" in told["weekly"][-1]
    assert "many-0" in told["weekly"][-1]
    (releases,) = told["releases"]
    assert "v1.0" in releases


def test_alerts_are_known_and_can_end(site: Site, run: Run) -> None:
    with post() as server:
        site.configure(CONFIG.replace("{port}", str(server.port)))
        before = len(site.notices())
        open_alerts = {(each.kind, each.name) for each in read_status(site.open()).alerts}
        assert {("source-failed", "away"), ("digest-held", "bulk")} <= open_alerts
        run_with(site, server.port)
        assert "the source away cannot be read" not in site.notices()[before:]
    for command in (["status"], ["deliveries", "list"], ["deliveries", "list", "--held"], ["preview", "ml"]):
        assert run(*command, "--config", site.folder / "cachewatch.yaml").exit_code == 0


def test_the_old_form_is_kept_aside(site: Site) -> None:
    site.configure(CONFIG.replace("{port}", "25"))
    site.open().database.close()
    aside = site.folder / "state" / "cachewatch.db.form-1"
    with opened(aside) as old, opened(OLD) as before:
        assert list(old.execute("SELECT * FROM deliveries")) == list(before.execute("SELECT * FROM deliveries"))


def test_counters_go_on(site: Site) -> None:
    """Their names in the database are as 0.1 wrote them, labels and all."""
    with post() as server:
        site.configure(CONFIG.replace("{port}", str(server.port)))
        context = site.open()
        with context.database.write() as connection:
            before = health.counters(connection)
            sent = Counter.of("deliveries_total", channel="mail", result="sent")
            health.count(connection, sent)
            assert health.counters(connection) == before | {sent: 10}
        context.database.close()
    assert before[Counter.of("digests_total", subscription="bulk", result="held")] == 1
    assert before[Counter.of("poll_failures_total", source="away")] == 6
    assert len(before) == 10
