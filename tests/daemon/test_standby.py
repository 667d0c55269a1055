"""Two daemons with one state in PostgreSQL: one works, the other waits, and takes over whatever ends the first."""

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, records
from mailservers import Post, free_port, header, post
from servers import ask
from station import Site, wait_for

from cachewatch.config.value_types_and_secrets import PostgresAddress

pytestmark = pytest.mark.usefixtures("loopback")

READERS = ("ann@example.org", "kim@example.org")
STATES = [
    catalogue({"zlib": records(range(3))} | {f"change-{n}": records([100 + n]) for n in range(k)}) for k in range(5)
]
CONFIG = """\
version: 1
state: {folder}/STATE
sources: {public: {git: {folder}/upstream.git, stale_after: 4000d, poll: {every: 1s, jitter: 0s}}}
channels:
  mail: {type: email, from: c@example.org, smtp: {host: 127.0.0.1, port: {port}, security: none}}
operators: {channels: []}
monitor: {listen: "127.0.0.1:{listen}"}
subscriptions: {ml: {to: [ann@example.org, kim@example.org], channels: [mail], changes: [all], when: each revision}}
"""


class Host:
    """One of the hosts: its own folder, and a daemon that can be ended in any way."""

    def __init__(self, name: str, site: Site, server: Post) -> None:
        self.log = site.folder / f"{name}.log"
        self.listen = free_port()
        text = CONFIG.replace("{port}", str(server.port)).replace("{listen}", str(self.listen))
        site.configure(text.replace("STATE", name))
        self.config = site.file.rename(site.folder / f"{name}.yaml")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the daemon, and wait until it is ready to work or to wait."""
        line = [sys.executable, "-m", "cachewatch", "daemon", "--config", str(self.config)]
        with self.log.open("ab") as said:
            self.process = subprocess.Popen(line, stderr=said)
        wait_for(lambda: "daemon.started" in self.said())

    def signal(self, number: int) -> None:
        """Send the daemon a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def end(self) -> None:
        """End it the hard way, however it is."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def said(self) -> str:
        """Return the log."""
        return self.log.read_text() if self.log.exists() else ""

    def ask(self, path: str) -> str:
        """Return the status and the answer of the monitor."""
        return "{} {}".format(*ask(f"127.0.0.1:{self.listen}", path))


@pytest.fixture
def site(tmp_path: Path, address: PostgresAddress, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(Site, "address", address)
    return Site(tmp_path, STATES)


@contextmanager
def hosts(site: Site) -> Iterator[tuple[Host, Host, Post]]:
    """Run two hosts, of which the first works."""
    with post() as server:
        found = Host("one", site, server), Host("two", site, server)
        try:
            for host in found:
                host.start()
            wait_for(lambda: "stream.begun" in found[0].said())
            yield *found, server
        finally:
            for host in found:
                host.end()


def report(site: Site, server: Post, number: int) -> float:
    """Publish a revision, and return how many seconds later all readers know of it."""
    began = time.monotonic()
    site.publish(number)
    name = f"change-{number - 1}".encode()
    wait_for(lambda: all(name in mails(server, reader) for reader in READERS), 90)
    return time.monotonic() - began


def mails(server: Post, reader: str) -> bytes:
    return b"".join(each.content for each in list(server.received) if each.recipient == reader)


def check(server: Post, *, copies: int = 1) -> None:
    """Every reader heard of each change under one Message-ID, in order, and got no more copies of a message."""
    for reader in READERS:
        found = [each.content for each in server.received if each.recipient == reader]
        ids = [header(content, "Message-ID") for content in found]
        names = [f"change-{n}".encode() for n in range(4)]
        told = [name for content in found for name in names if name in content]
        assert Counter(ids).most_common(1)[0][1] <= copies
        assert len(set(ids)) == len(set(told))
        assert [name for i, name in enumerate(told) if name not in told[:i]] == sorted(set(told))


@pytest.mark.slow
def test_the_other_host_takes_over_from_one_that_is_killed(site: Site, run: Run) -> None:
    with hosts(site) as (one, two, server):
        assert one.ask("/readyz").startswith("200 ready")
        standby = two.ask("/readyz")
        assert standby.startswith("200 standby: ")
        assert f"/{one.process.pid if one.process else 0}/" in standby
        assert "cachewatch_leader 0" in two.ask("/metrics")
        assert two.ask("/healthz").startswith("200 ok")
        report(site, server, 1)
        third = Host("three", site, server)
        assert "works on this state; stop it, or wait" in run("once", "--config", third.config).error_of(75)
        one.end()
        assert report(site, server, 2) < 30 + 10, "30 s to take over, and a while to clone and to send"
        assert "leader.began" in two.said()
        assert two.ask("/readyz").startswith("200 ready")
        check(server)


@pytest.mark.slow
def test_a_host_that_ends_as_it_should_is_followed_at_once(site: Site) -> None:
    with hosts(site) as (one, two, server):
        report(site, server, 1)
        one.signal(signal.SIGTERM)
        assert one.process is not None
        assert one.process.wait(60) == 0
        wait_for(lambda: "leader.began" in two.said(), 15)
        report(site, server, 2)
        check(server)
