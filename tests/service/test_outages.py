"""Time in which nothing ran: switched off, suspended, or run once a night by cron. No delivery is given up for it."""

from datetime import timedelta
from pathlib import Path

import pytest
from helpers import catalogue, records
from mailservers import free_port, post
from sqlalchemy import update
from station import Site

from cachewatch.service.recipients import LONGEST_PAUSE, recover
from cachewatch.service.send import deliver
from cachewatch.store.outbox import Delivery, DeliveryState
from cachewatch.store.schema import deliveries

pytestmark = pytest.mark.usefixtures("loopback")

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
BASE = {"zlib": records(range(3))}
STATES = [catalogue(BASE), catalogue(BASE | {"new": records([100])})]
GREYLISTED = {"kim@example.org": "451 4.7.1 greylisted"}
CONFIG = """\
version: 1
state: {folder}/state
sources: {public: {git: {folder}/upstream.git, stale_after: 400d}}
channels:
  mail: {type: email, from: cachewatch@example.org, smtp: {host: 127.0.0.1, port: {port}, security: none}}
  desk: {type: file, path: "{folder}/desk/{subscription}/{key}.{ext}", formats: [txt]}
operators: {channels: [desk]}
subscriptions: {ml: {to: [kim@example.org], channels: [mail], changes: [all]}}
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A digest waits for a server that was away once."""
    made = Site(tmp_path, STATES)
    configure(made, free_port())
    made.run()
    made.publish(1)
    made.run()
    return made


def configure(site: Site, port: int) -> None:
    site.configure(CONFIG.replace("{port}", str(port)))


def mail(site: Site) -> Delivery:
    (found,) = (each for each in site.deliveries() if each.channel == "mail")
    return found


@pytest.mark.both_states
def test_six_days_off_and_greylisted_once(site: Site) -> None:
    """It has as much time left as if one pause between two attempts had passed."""
    before = mail(site)
    with post(by_recipient=GREYLISTED) as server:
        configure(site, server.port)
        assert site.run(later=6 * DAY).dead == 0
        after = mail(site)
        assert (after.state, after.said) == (DeliveryState.DEFERRED, "RCPT: 451 4.7.1 greylisted")
        assert after.give_up - site.now == before.give_up - (site.now - 6 * DAY) - LONGEST_PAUSE
        server.by_recipient = {}
        site.run(later=HOUR)
    assert mail(site).state is DeliveryState.SENT
    (event,) = [event for event in site.events() if event["event"] == "outage.ended"]
    assert event["deliveries"] == 1


def test_a_daemon_that_was_suspended_gives_nothing_up(site: Site) -> None:
    """Its first job after that may be the one that delivers."""
    with post(by_recipient=GREYLISTED) as server:
        configure(site, server.port)
        context = site.open()
        deliver(context, "mail")
        site.now += 10 * DAY
        assert deliver(context, "mail") == 0
    assert mail(site).state is DeliveryState.DEFERRED
    assert mail(site).give_up <= site.now + 5 * DAY


@pytest.mark.slow
def test_a_pass_each_night_gives_up_in_the_end(site: Site) -> None:
    """Between two of them counts as much as the longest pause between two attempts: 5 days are 25 nights."""
    nights = 0
    with post(by_recipient=GREYLISTED) as server:
        configure(site, server.port)
        while mail(site).state is DeliveryState.DEFERRED:
            site.now += DAY
            deliver(site.open(), "mail")
            nights += 1
            assert nights < 40
    assert mail(site).state is DeliveryState.DEAD
    assert nights == 5 * DAY // LONGEST_PAUSE == 25


@pytest.mark.both_states
def test_what_was_made_within_an_outage_has_its_whole_time(site: Site) -> None:
    """Resent or released by hand while the service was off."""
    context = site.open()
    site.now += 6 * DAY
    with context.database.write() as connection:
        connection.execute(update(deliveries).values(created=site.now, give_up=site.now + 5 * DAY))
    recover(context)
    assert mail(site).give_up == site.now + 5 * DAY
