"""Two hosts and a database, with real networks between them: whoever is cut off stops, and the other one goes on."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from functools import partial
from pathlib import Path

import pytest
from helpers import catalogue, records
from postgres import running
from station import Site, wait_for
from tools import program

from hosts.networks import Network, inside, network

CHANGES = tuple(f"change-{number}" for number in range(4))
STATES = [catalogue({"zlib": records(range(3))} | {CHANGES[n]: records([100 + n]) for n in range(k)}) for k in range(5)]
CONFIG = """\
version: 1
state: postgresql://cachewatch@{address}/{name}
state_folder: {folder}/{host}
sources: {public: {git: {folder}/upstream.git, stale_after: 4000d, poll: {every: 1s, jitter: 0s}}}
channels: {box: {type: maildir, path: "{folder}/Maildir", from: c@example.org}}
operators: {channels: []}
subscriptions: {ml: {to: [kim@example.org], channels: [box], changes: [all], when: each revision}}
"""


class Host:
    """A host with a daemon."""

    def __init__(self, site: Site, name: str, address: str, database: str) -> None:
        self.name = name
        self._log = site.folder / f"{name}.log"
        text = CONFIG.replace("{address}", address).replace("{name}", database).replace("{host}", name)
        site.configure(text)
        config = (site.folder / "cachewatch.yaml").rename(site.folder / f"{name}.yaml")
        line = [*inside(name), sys.executable, "-m", "cachewatch", "daemon", "--config", str(config)]
        with self._log.open("wb") as said:
            self.process = subprocess.Popen(line, stderr=said)

    def said(self) -> str:
        """Return the log."""
        return self._log.read_text()


def is_running(host: Host) -> bool:
    """Tell whether the daemon works or waits; one that ended never will."""
    assert host.process.poll() is None, host.said()
    return "daemon.started" in host.said()


@contextmanager
def hosts(site: Site, cables: Network) -> Iterator[tuple[Host, Host]]:
    """Run a database and two hosts, of which the first works."""
    programs = Path(program("postgres")).resolve().parent
    with running(programs, "listen_addresses=*", inside=inside(cables.database)) as database:
        name = database.new().url.partition("?")[0].rpartition("/")[2]
        found: list[Host] = []
        try:
            for space in cables.hosts:
                found.append(made := Host(site, space, cables.address(space), name))
                wait_for(partial(is_running, made))
            wait_for(lambda: "stream.begun" in found[0].said())
            yield found[0], found[1]
        finally:
            for host in found:
                host.process.kill()
                host.process.wait()


def mails(site: Site) -> list[bytes]:
    folder = site.folder / "Maildir" / "new"
    return [path.read_bytes() for path in folder.iterdir()] if folder.exists() else []


def report(site: Site, number: int) -> None:
    """Publish a revision, and wait until it is in the mailbox."""
    site.publish(number)
    wait_for(lambda: any(CHANGES[number - 1].encode() in mail for mail in mails(site)), 120)


@pytest.mark.slow
def test_a_host_that_is_cut_off_from_the_database_stops_and_the_other_one_goes_on(tmp_path: Path) -> None:
    """Each of them once; whoever returns waits. Every change is in the mailbox, under one Message-ID and once."""
    site = Site(tmp_path, STATES)
    with network() as cables, hosts(site, cables) as (one, two):
        report(site, 1)
        cables.cut(one.name)
        report(site, 2)
        assert "leader.began" in two.said()
        cables.repair(one.name)
        wait_for(lambda: "leader.lost" in one.said())
        began = one.said().count("leader.began")
        cables.cut(two.name)
        report(site, 3)
        assert one.said().count("leader.began") == began + 1
        cables.repair(two.name)
        wait_for(lambda: "leader.lost" in two.said())
        report(site, 4)
        found = mails(site)
    ids = [str(message_from_bytes(mail, policy=policy.default)["Message-ID"]) for mail in found]
    assert sorted(change for change in CHANGES for mail in found if change.encode() in mail) == list(CHANGES)
    assert len(set(ids)) == len(ids) == len(CHANGES)
