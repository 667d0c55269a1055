"""A clock that was wrong once: by hours, days or a year, ahead or behind; later everything goes on as if it had not been.

Real processes run with the clock of libfaketime, `once` and a daemon.
"""

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from copy import copy
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from helpers import catalogue, records
from mailservers import free_port, post
from station import Site, wait_for
from tools import program

from cachewatch.service.recipients import LONGEST_PAUSE
from cachewatch.store import outbox
from cachewatch.store.outbox import DeliveryState
from cachewatch.store.schema import to_datetime, to_text
from cachewatch.store.sqlite import open_database

pytestmark = pytest.mark.usefixtures("loopback")

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SLACK = timedelta(minutes=5)  # a machine under load takes its time
SHIFTS = {
    "a year ahead": 365 * DAY,
    "30 days ahead": 30 * DAY,
    "an hour ahead": HOUR,
    "an hour behind": -HOUR,
    "30 days behind": -30 * DAY,
    "a year behind": -365 * DAY,
}
shifted = pytest.mark.parametrize("shift", SHIFTS.values(), ids=SHIFTS)

BASE = {"zlib": records(range(3))}
STATES = [
    catalogue(
        BASE
        | {f"change-{number}": records([100 + number]) for number in range(count)}
        | {f"noise-{number}": records([200 + number]) for number in range(count)}
    )
    for count in range(4)
]
CONFIG = """\
version: 1
state: {folder}/state
sources: {public: {git: {folder}/upstream.git, stale_after: 30000d, poll: {every: 1h, jitter: 0s}}}
channels:
  mail: {type: email, from: cachewatch@example.org, smtp: {host: 127.0.0.1, port: {port}, security: none}}
  files: {type: file, path: "{folder}/out/{subscription}/{key}.{ext}", formats: [txt]}
  latest: {type: file, path: "{folder}/latest/{subscription}.{ext}", overwrite: true, formats: [txt]}
operators: {channels: [files]}
silences: {noise: {match: {packages: ["noise-*"]}, until: {until}, reason: a test}}
subscriptions:
  ml: {to: [kim@example.org], channels: [mail, latest], changes: [all]}
  daily: {channels: [files], changes: [all], when: "daily {time}"}
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A digest waits for a mail server that is away, a daily one is due in two hours, and a silence lasts for ten days."""
    program("faketime")
    made = Site(tmp_path_factory.mktemp("prepared"), STATES)
    made.now = datetime.now(UTC)
    configure(made)
    once(made)
    made.publish(1)
    once(made)
    return made


@pytest.fixture
def site(tmp_path: Path, prepared: Site) -> Site:
    """A copy of it."""
    shutil.copytree(prepared.folder, tmp_path, dirs_exist_ok=True)
    made = copy(prepared)
    made.folder, made.upstream, made.said = tmp_path, tmp_path / "upstream.git", io.StringIO()
    if Site.address is not None:
        move = [sys.executable, "-m", "cachewatch", "state", "move", str(tmp_path / "state"), Site.address.url]
        subprocess.run(move, check=True, capture_output=True)
        (tmp_path / "state" / "cachewatch.db").unlink()
    configure(made)
    return made


def configure(site: Site, port: int | None = None) -> None:
    """Write the configuration, with a mail server that is there or is not."""
    words = {"port": port or free_port(), "time": f"{site.now + 2 * HOUR:%H:%M}", "until": f"{site.now + 10 * DAY:%F}"}
    text = CONFIG
    for name, value in words.items():
        text = text.replace(f"{{{name}}}", str(value))
    site.configure(text)


def once(site: Site, shift: timedelta = timedelta(0)) -> str:
    """Run a pass as a process whose clock is wrong by `shift`; return what it logged."""
    clock = ["faketime", "-f", f"{shift.total_seconds():+.0f}s"] if shift else []
    command = [*clock, sys.executable, "-m", "cachewatch", "once", "--config", str(site.folder / "cachewatch.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def mails(site: Site) -> list[outbox.Delivery]:
    return [each for each in site.deliveries() if each.channel == "mail"]


def row(site: Site, query: str) -> tuple[str | None, ...]:
    """Return the first row that a query finds, with times as SQLite has them."""
    with closing(open_database(site.address or site.folder / "state")) as database, database.read() as connection:
        found = connection.exec_driver_sql(query).one()
    return tuple(to_text(value) if isinstance(value, datetime) else value for value in found)


@pytest.mark.slow_cases
@shifted
def test_a_pass_with_a_wrong_clock_has_no_lasting_effect(site: Site, shift: timedelta) -> None:
    """Slots, polls, pauses, the end of a delivery and a silence are what they would be without it; it is said once."""
    wrong = once(site, shift)
    assert [each.state for each in mails(site)] == [DeliveryState.DEFERRED], "it is not given up"
    site.publish(2)
    with post() as server:
        configure(site, server.port)
        right = once(site)
        now = datetime.now(UTC)
        (due,) = row(site, "SELECT due FROM slots WHERE done_at IS NULL")
        polled, succeeded, changed = row(site, "SELECT polled_at, succeeded_at, changed_at FROM sources")
        (rests,) = row(site, "SELECT blocked_until FROM channels WHERE name = 'mail'")
        assert to_datetime(str(due)) <= now + DAY
        for moment in (polled, succeeded, changed):
            assert abs(to_datetime(str(moment)) - now) < SLACK or moment == changed
            assert to_datetime(str(moment)) <= now
        assert rests is None or to_datetime(rests) <= now + LONGEST_PAUSE + SLACK
        assert all(each.due <= now + LONGEST_PAUSE + SLACK for each in mails(site))
        later = once(site, 3 * HOUR)
    assert len(server.received) == 2
    assert {each.state for each in mails(site)} == {DeliveryState.SENT}
    told = "".join(path.read_text() for path in (site.folder / "out" / "daily").glob("*.txt"))
    assert "change-1" in told, "the daily digest came within the day"
    assert b"noise-1" not in server.received[-1].content, "the silence holds"
    assert (wrong + right + later).count("alert.opened kind=clock-wrong") == 1
    assert site.notices().count("the clock of this machine was wrong") == 1
    newest = (site.folder / "latest" / "ml.txt").read_text()
    assert "change-1" in newest, "a file of the latest digest is not held up by one of next year"


@pytest.mark.slow
def test_a_daemon_whose_clock_is_set_back_goes_on(site: Site) -> None:
    """It is 30 days ahead for a while; what it did then holds up nothing."""
    offset = site.folder / "offset"
    offset.write_text("+30d\n")
    with daemon(site, FAKETIME_TIMESTAMP_FILE=str(offset), FAKETIME_NO_CACHE="1") as log:
        wait_for(lambda: "source.polled" in log.read_text())
        assert to_datetime(str(*row(site, "SELECT polled_at FROM sources"))) > datetime.now(UTC) + 29 * DAY
        site.publish(2)
        offset.write_text("+0\n")
        wait_for(lambda: "clock-wrong" in log.read_text(), 60)
        wait_for(lambda: (row(site, "SELECT polled_at FROM sources")[0] or "9999") < to_text(datetime.now(UTC)))
    assert to_datetime(str(*row(site, "SELECT value FROM service WHERE name = 'ran'"))) <= datetime.now(UTC)


def test_a_monthly_sign_of_life_comes_after_one_of_next_year(tmp_path: Path) -> None:
    site = Site(tmp_path, STATES)
    site.configure(
        CONFIG.replace("daily {time}", "daily 07:30").replace("{until}", "2020-01-01").replace("{port}", "1")
    )
    path = tmp_path / "cachewatch.yaml"
    path.write_text(path.read_text().replace('when: "daily', 'if_empty: monthly, when: "daily'))
    begin = site.now
    site.run()
    site.run(later=DAY)
    assert len(site.told("daily")) == 1
    site.now = begin + 365 * DAY
    site.run()
    site.now = begin + 2 * DAY
    site.run()
    for _ in range(2):
        site.run(later=20 * DAY)
    assert len(site.told("daily")) == 3, "the one of next year has come as well"


@contextmanager
def daemon(site: Site, **environment: str) -> Iterator[Path]:
    """Run a daemon, with another clock if its environment says so; yield its log."""
    if environment:
        shown = subprocess.run(["faketime", "-f", "+0", "env"], capture_output=True, text=True, check=True).stdout
        (library,) = re.findall("^LD_PRELOAD=(.*)$", shown, re.MULTILINE)
        environment |= {"LD_PRELOAD": library, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    command = [sys.executable, "-m", "cachewatch", "daemon", "--config", str(site.folder / "cachewatch.yaml")]
    log = site.folder / "log"
    with log.open("wb") as said, subprocess.Popen(command, stderr=said, env=os.environ | environment) as process:
        try:
            yield log
        finally:
            process.kill()
