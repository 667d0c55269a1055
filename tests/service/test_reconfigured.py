"""What waits or is held while the configuration changes: nothing is lost without a word, and nobody gets what is not theirs."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from conftest import Run
from mailservers import free_port, post
from msgspec.structs import replace
from station import HOUR, MAIL_CONFIG, Site, growing, running, wait_for

from cachewatch.config.reading_showing_warnings import read_config
from cachewatch.config.sources_and_channels import EmailConfig
from cachewatch.errors import UsageError
from cachewatch.operators import alerts_summary_actions
from cachewatch.store import digests_and_holds as digests
from cachewatch.store import health_and_alerts as health
from cachewatch.store.delivery_queue_and_order import DeliveryState

pytestmark = pytest.mark.usefixtures("loopback")

STATES = growing(3)
CONFIG = MAIL_CONFIG.replace("lee@", "Lee@").replace("[mail],", "[mail, desk],")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A digest for two readers waits for a server that is away."""
    made = Site(tmp_path, STATES)
    configure(made)
    made.run()
    made.run(1)
    assert states(made) == {"kim": DeliveryState.DEFERRED, "Lee": DeliveryState.QUEUED}
    return made


def configure(site: Site, *changes: tuple[str, str], port: int | None = None) -> None:
    """Write the configuration with some words in the place of others."""
    text = CONFIG.replace("{port}", str(port or free_port()))
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    site.configure(text)


def states(site: Site, channel: str = "mail") -> dict[str, DeliveryState]:
    """Return the state of the last delivery to each target."""
    return {each.target.partition("@")[0]: each.state for each in site.deliveries() if each.channel == channel}


def held(site: Site) -> list[str]:
    """Return the keys of what waits for an operator."""
    with site.open().database.read() as connection:
        return [stored.key for stored in digests.all_held(connection)]


@pytest.mark.only_sqlite
@pytest.mark.slow
def test_who_was_taken_out_gets_nothing_more(site: Site, run: Run) -> None:
    """What waited for her is dropped with the reason, and cannot be sent by hand either; the others get theirs."""
    with post() as server:
        configure(site, ("kim@example.org, Lee@example.org", "lee@example.org"), port=server.port)
        site.run(later=HOUR)
        kim = next(each for each in site.deliveries() if each.target.startswith("kim"))
        with pytest.raises(
            UsageError, match=r"kim@example.org is no longer a recipient of ml; see `channels:` and `to:`"
        ):
            alerts_summary_actions.retry(site.open(), kim.id)
    assert [received.recipient for received in server.received] == ["Lee@example.org"]
    assert states(site) == {"kim": DeliveryState.DROPPED, "Lee": DeliveryState.SENT}
    assert (kim.said, kim.attempts) == ("kim@example.org is no longer a recipient of ml", 0)
    assert '"delivery.dropped"' in site.said.getvalue()
    config = site.folder / "cachewatch.yaml"
    assert "no longer a recipient" in run("deliveries", "show", kim.id, "--config", config).output


def test_no_address_becomes_a_folder(site: Site) -> None:
    """A channel for mail servers that became one for Maildirs does not write to a folder named like an address."""
    text = re.sub(
        r"mail: \{.*smtp.*\}", f"mail: {{type: maildir, from: a@example.org, path: {site.folder / 'box'}}}", CONFIG
    )
    site.configure(text.replace("{port}", "25"))
    site.run(later=HOUR)
    assert states(site) == dict.fromkeys(("kim", "Lee"), DeliveryState.DROPPED)
    assert not list(Path().glob("*@*"))


@pytest.mark.slow
def test_what_was_sent_is_not_sent_again_to_who_was_taken_out(site: Site) -> None:
    """Nor through a channel that is gone; the command says why."""
    with post() as server:
        configure(site, port=server.port)
        site.run(later=HOUR)
        kim = next(each for each in site.deliveries() if each.target.startswith("kim"))
        configure(site, ("kim@example.org, Lee@example.org", "lee@example.org"), port=server.port)
        with pytest.raises(
            UsageError, match=r"kim@example.org is no longer a recipient of ml; see `channels:` and `to:`"
        ):
            alerts_summary_actions.resend(site.open(), kim.id)
        configure(site, ("  mail:", "  post:"), ("[mail,", "[post,"), port=server.port)
        with pytest.raises(UsageError, match="its channel mail is no longer configured"):
            alerts_summary_actions.resend(site.open(), kim.id)
        site.run(later=HOUR)
    assert len(server.received) == 2


def test_what_waits_for_a_channel_that_is_gone_is_shown_with_advice(site: Site, run: Run) -> None:
    """Operators are notified once; it goes out when the channel is back, and the alert is resolved."""
    path = site.folder / "cachewatch.yaml"
    with post() as server:
        configure(site, ("  mail:", "  post:"), ("[mail,", "[post,"), port=server.port)
        for _ in range(3):
            site.run(later=HOUR)
        assert site.notices() == ["the channel mail is no longer configured"]
        shown = run("status", "--config", path).output
        assert "mail  1 deferred, 1 queued" in shown
        assert "drop the deliveries in `cachewatch deliveries list --open --channel mail`" in shown
        listed = run("deliveries", "list", "--open", "--channel", "mail", "--config", path).output
        assert listed.count("(the channel is no longer configured)") == 2
        assert server.received == []
        configure(site, port=server.port)
        site.run(later=HOUR)
    assert states(site) == {"kim": DeliveryState.SENT, "Lee": DeliveryState.SENT}
    assert json.loads(run("status", "--format", "json", "--config", path).output)["alerts"] == []


@pytest.mark.only_sqlite
@pytest.mark.slow
def test_what_is_held_is_shown_and_released_under_another_configuration(site: Site, run: Run) -> None:
    """Also of a subscription that is no more: somebody has to decide, and who was removed gets nothing."""
    path = site.folder / "cachewatch.yaml"
    with post() as server:
        configure(site, ("changes: [all]", "changes: [all], limit: {hold_above: 1}"), port=server.port)
        site.run(2, later=HOUR)
        site.run(0, later=HOUR)
        (key,) = held(site)
        server.received.clear()
        configure(site, ("  ml:", "  ml2:"), ("kim@example.org, ", ""), port=server.port)
        site.run(later=HOUR)
        shown = run("status", "--config", path).output
        assert "a subscription that is no longer configured" in shown
        assert f"`cachewatch deliveries release {key[:12]}`" in shown
        alerts_summary_actions.release(site.open(), key[:12])
        site.run(later=HOUR)
    assert [received.recipient for received in server.received] == ["Lee@example.org"]
    assert states(site) == {"kim": DeliveryState.DROPPED, "Lee": DeliveryState.SENT}


@pytest.mark.slow
def test_a_restart_tries_what_rests_at_once(site: Site) -> None:
    """Whoever restarts the daemon has repaired something, or wants to see whether it was."""
    with site.open().database.write() as connection:
        channel_health = health.channel(connection, "mail")
        health.put_health(connection, replace(channel_health, blocked_until=datetime.now(UTC) + HOUR))
    channel = read_config(site.file).channels["mail"]
    assert isinstance(channel, EmailConfig)
    with post(port=channel.smtp.port) as server, running(site, "daemon"):
        wait_for(lambda: len(server.received) == 2)
    with site.open().database.read() as connection:
        assert health.channel(connection, "mail").blocked_until is None
