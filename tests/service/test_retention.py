"""How long the state keeps what is done: bytes for a month, what became of them for a year, what waits for good."""

from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, opened, records
from mailservers import mailing
from station import DAY, MAIL_CONFIG, Site, growing

from cachewatch.errors import UsageError
from cachewatch.operators import alerts_summary_actions
from cachewatch.store.delivery_queue_and_order import DeliveryState, suppress_address

pytestmark = pytest.mark.usefixtures("loopback")

STATES = growing(5)
CONFIG = (
    MAIL_CONFIG.replace("400d", "4000d")
    .replace("  desk:", '  feed: {type: feed, path: "{folder}/out/{subscription}.atom"}\n  desk:')
    .replace("kim@example.org, lee@example.org], channels: [mail]", "kim@example.org], channels: [mail, feed]")
)


def payloads(site: Site) -> dict[str, list[int]]:
    """Return how many bytes are kept of each delivery, by channel."""
    found: dict[str, list[int]] = {}
    with opened(site.folder / "state" / "cachewatch.db") as connection:
        for channel, size in connection.execute("SELECT channel, length(payload) FROM deliveries ORDER BY id"):
            found.setdefault(channel, []).append(size)
    return found


def play(site: Site, *, config: str = CONFIG, replies: dict[str, str] | None = None) -> None:
    """Publish and deliver two revisions, a day apart."""
    with mailing(site, config, by_recipient=replies or {}):
        site.run()
        for number in (1, 2):
            site.run(number, later=DAY)


def wait(site: Site, days: int) -> None:
    """Let days pass in which the service runs, and make a pass at their end."""
    site.run(later=days * DAY)


@pytest.mark.slow
@pytest.mark.only_sqlite
def test_a_tag_that_was_gone_for_longer_than_anything_is_kept_is_forgotten(tmp_path: Path) -> None:
    """Its cursor goes with the digest that said so."""
    both = STATES[0] | catalogue({"zlib": records([900])}, "v1.0")
    site = Site(tmp_path, [both, STATES[0]])

    def vanished() -> int:
        with opened(site.folder / "state" / "cachewatch.db") as connection:
            (count,) = connection.execute("SELECT count(*) FROM cursors WHERE vanished_at IS NOT NULL").fetchone()
        return int(count)

    with mailing(site, CONFIG + "retention: {metadata: 40d}\n"):
        site.run()
        site.run(1, later=DAY)
        assert vanished() == 1
        wait(site, 45)

    assert vanished() == 0


@pytest.mark.slow
def test_bytes_go_after_a_month_and_the_rest_later(tmp_path: Path, run: Run) -> None:
    site = Site(tmp_path, STATES)
    play(site, config=CONFIG + "retention: {metadata: 60d}\n")
    assert all(all(sizes) for sizes in payloads(site).values())
    wait(site, 29)
    assert all(payloads(site)["mail"])
    wait(site, 2)
    assert payloads(site)["mail"] == [0, 0]
    assert all(payloads(site)["feed"])
    first = site.deliveries()[0]
    assert "change-0" in run("deliveries", "show", first.id, "--config", tmp_path / "cachewatch.yaml").output
    error = run("deliveries", "show", first.id, "--raw", "--config", tmp_path / "cachewatch.yaml").error_of(2)
    assert "retention: payload" in error
    with pytest.raises(UsageError, match="retention: payload"):
        alerts_summary_actions.resend(site.open(), first.id)
    wait(site, 60)
    assert [each.channel for each in site.deliveries() if each.channel != "desk"] == []


@pytest.mark.slow
def test_what_waits_or_can_be_retried_keeps_its_bytes(tmp_path: Path) -> None:
    site = Site(tmp_path, STATES)
    play(site, replies={"kim@example.org": "550 5.1.1 no such user"})
    wait(site, 40)
    assert {each.state for each in site.deliveries() if each.channel == "mail"} == {DeliveryState.DEAD}
    assert all(payloads(site)["mail"])


def test_bytes_are_not_kept_longer_than_what_they_belong_to(tmp_path: Path, run: Run) -> None:
    Site(tmp_path, STATES[:1], CONFIG.replace("{port}", "25") + "retention: {payload: 30d, metadata: 20d}\n")
    assert "metadata" in run("config", "check", "--config", tmp_path / "cachewatch.yaml").error_of(2)


@pytest.mark.slow
def test_who_is_suppressed_gets_nothing_of_a_digest_that_is_released(tmp_path: Path, run: Run) -> None:
    """The address kept refusing while the digest was held; `once` says with its exit code that nobody got it."""
    config = CONFIG.replace("channels: [mail, feed]", "channels: [mail]")
    values = "channels: [mail], changes: [all], limit: {hold_above: 1}, when: weekly mon 07:30"
    held = config + f"  bulk: {{to: [kim@example.org], {values}}}\n"
    site = Site(tmp_path, STATES)
    with mailing(site, held, by_recipient={"kim@example.org": "550 5.1.1 no such user"}) as server:
        site.run()
        for number in (1, 2, 3):
            site.run(number, later=DAY / 2)
        with site.open().database.write() as connection:
            suppress_address(connection, "mail", "kim@example.org", "550 5.1.1 no such user", site.now)
        (waiting,) = site.held()
        alerts_summary_actions.release(site.open(), waiting.key)
        received = server.commands.count("RCPT")
        result = site.run()
        assert server.commands.count("RCPT") == received
    assert [each.state for each in site.deliveries() if each.digest == waiting.key] == [DeliveryState.SUPPRESSED]
    site.publish(4)
    result = site.run(later=DAY)
    assert (result.dead, result.suppressed) == (0, 1)
    assert run("deliveries", "list", "--dead", "--config", tmp_path / "cachewatch.yaml").exit_code == 0
