"""What hangs holds up nobody else: a mail server after DATA, a git server in the middle of a pack, and many silent ones."""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gitservers import Faults, smart_http
from helpers import catalogue, history, records
from mailservers import scripted, talking
from station import Site, log, running, wait_for

pytestmark = pytest.mark.usefixtures("loopback")

CONFIG = """\
version: 1
state: {folder}/state
sources:
  public: {git: {folder}/upstream.git, stale_after: 4000d, poll: {every: 1s, jitter: 0s}}
  stuck: {git: {git}/stuck.git, poll: {every: 1s, jitter: 0s}}
channels:
  mail: {type: email, from: cachewatch@example.org, smtp: {host: 127.0.0.1, port: {port}, security: none}}
  box: {type: maildir, from: cachewatch@example.org, path: {folder}/box}
  files: {type: file, path: "{folder}/out/{subscription}/{key}.{ext}", formats: [txt]}
operators: {channels: [files]}
subscriptions:
  ml: {to: [kim@example.org, lee@example.org], channels: [mail, box, files], changes: [all], match: {sources: [public]}}
  theirs: {channels: [files], match: {sources: [stuck]}}
"""
STATES = [
    catalogue({"zlib": records([1])} | {f"new-{n}": records([10 + n]) for n in range(count)}) for count in range(3)
]


@pytest.mark.only_sqlite
def test_a_server_that_hangs_holds_up_only_its_own(tmp_path: Path) -> None:
    """Two digests arrive while the first waits for a mail server; who is removed meanwhile gets nothing when it answers."""
    site = Site(tmp_path, STATES)
    history(tmp_path / "stuck.git", STATES[0])
    has_message, may_answer = threading.Event(), threading.Event()

    def hang(_: bytes) -> bytes:
        """Have taken a message, and say nothing to its end."""
        has_message.set()
        may_answer.wait(300)
        return b"250 taken\r\n"

    diagnostics = Faults(stall=True)
    with smart_http(tmp_path, diagnostics) as git, talking(scripted(END=hang)) as port:
        site.configure(CONFIG.replace("{git}", git).replace("{port}", str(port)))
        with running(site, "daemon") as daemon:
            wait_for(lambda: "stream.begun" in log(site))
            wait_for(lambda: any("git-upload-pack" in seen and "POST" in seen for seen in diagnostics.seen))
            site.publish(1)
            assert has_message.wait(180)
            site.publish(2)
            wait_for(lambda: len(list((tmp_path / "out" / "ml").glob("*"))) == 2)
            wait_for(lambda: len(list((tmp_path / "box/new").glob("*"))) == 2)
            assert mail_states(site) == {"sending", "queued"}
            assert "source=stuck" not in log(site), "it is still being fetched"
            path = tmp_path / "cachewatch.yaml"
            path.write_text(path.read_text().replace(", lee@example.org", ""))
            daemon.send_signal(signal.SIGHUP)
            wait_for(lambda: "config.reloaded" in log(site))
            may_answer.set()
            wait_for(lambda: not mail_states(site) & {"sending", "queued"})
            daemon.send_signal(signal.SIGTERM)
            assert daemon.wait(120) == 0
    settled = [(each.target, each.state) for each in site.deliveries() if each.channel == "mail"]
    assert settled == [("kim@example.org", "sent"), ("lee@example.org", "dropped")] * 2, "lee was taken out meanwhile"


def mail_states(site: Site) -> set[str]:
    return {each.state for each in site.deliveries() if each.channel == "mail"}


# Sources of servers that take a connection and never answer.
SILENT = """\
version: 1
state: {folder}/state
sources:
  public: {git: {folder}/upstream.git, stale_after: 4000d, poll: {every: 1s, jitter: 0s}}
  {stuck}
channels:
  files: {type: file, path: "{folder}/out/{subscription}/{key}.{ext}", formats: [txt]}
operators: {channels: []}
subscriptions:
  ml: {channels: [files], changes: [all], match: {sources: [public]}}
  both: {channels: [files], changes: [all]}
"""


class Silence:
    """Holds connections until it is over, or cuts them."""

    def __init__(self) -> None:
        self.held = 0
        self.is_over = threading.Event()

    def hold(self, _: socket.socket, __: Callable[[], bytes]) -> None:
        """Say nothing."""
        self.held += 1
        self.is_over.wait()


@contextmanager
def silence() -> Iterator[tuple[str, Silence]]:
    """Yield the address of a git server that says nothing, and how many wait for it."""
    server = Silence()
    with talking(server.hold) as port:
        try:
            yield f"git://127.0.0.1:{port}", server
        finally:
            server.is_over.set()


def watch(site: Site, address: str, count: int) -> None:
    """Let the configuration have so many sources at `address` beside the one that answers."""
    poll = "poll: {every: 1s, jitter: 0s, timeout: 5m}"
    stuck = [f"stuck-{number}: {{git: {address}/{number}.git, {poll}}}" for number in range(count)]
    site.configure(SILENT.replace("{stuck}", "\n  ".join(stuck)))


def told(site: Site, subscription: str) -> int:
    """Count the digests that arrived."""
    return len(list((site.folder / "out" / subscription).glob("*")))


@pytest.mark.slow
def test_a_pass_delivers_what_answered_and_waits_for_the_rest(tmp_path: Path) -> None:
    """Six sources hang side by side: whoever does not depend on them has the digest, and who does waits for them."""
    site = Site(tmp_path, STATES)
    stuck = history(tmp_path / "stuck.git", STATES[0])
    for number in range(6):
        (tmp_path / f"{number}.git").symlink_to(stuck)
    watch(site, str(tmp_path), 6)
    assert site.run().failed_sources == 0
    site.publish(1)
    with silence() as (address, server):
        watch(site, address, 6)
        with running(site, "once") as process:
            wait_for(lambda: (server.held, told(site, "ml")) == (6, 1))
            assert process.poll() is None
            assert told(site, "both") == 0
            server.is_over.set()
            assert process.wait(120) == 3
    assert told(site, "both") == 1, "what did not answer is not waited for when it is over"
    assert log(site).count("source.failed") == 6


@pytest.mark.slow
def test_what_waits_to_be_sent_does_not_wait_for_the_only_source(tmp_path: Path) -> None:
    """A digest of the day before, which could not be delivered then."""
    site = Site(tmp_path, STATES)
    watch(site, "", 0)
    assert site.run().failed_sources == 0
    site.publish(1)
    (tmp_path / "out").write_text("a file where a folder should be")
    site.run()
    assert {each.state for each in site.deliveries()} == {"queued"}
    (tmp_path / "out").unlink()
    with silence() as (address, server):
        path = tmp_path / "cachewatch.yaml"
        path.write_text(path.read_text().replace(f"{tmp_path}/upstream.git", f"{address}/upstream.git"))
        with running(site, "once") as process:
            wait_for(lambda: (server.held, told(site, "ml")) == (1, 1))
            assert process.poll() is None
            server.is_over.set()
            assert process.wait(120) == 3


def test_a_pass_that_is_ended_while_a_source_hangs(tmp_path: Path) -> None:
    """It ends at once, its git with it; that counts as no failure of the source, and nothing is lost."""
    site = Site(tmp_path, STATES)
    with silence() as (address, server):
        watch(site, address, 2)
        with running(site, "once") as process:
            wait_for(lambda: server.held == 2)
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 128 + signal.SIGTERM
        assert "source.failed" not in log(site)
    watch(site, str(tmp_path), 0)
    assert site.run().failed_sources == 0


@pytest.mark.slow
def test_sources_that_hang_leave_room_for_those_that_answered(tmp_path: Path) -> None:
    """However many hang, and for how long: the daemon goes on to ask whoever answered last time."""
    site = Site(tmp_path, STATES)
    with silence() as (address, server):
        watch(site, address, 18)
        with running(site, "daemon") as daemon:
            wait_for(lambda: server.held == 16)
            site.publish(1)
            wait_for(lambda: told(site, "ml") == 1)
            site.publish(2)
            wait_for(lambda: told(site, "ml") == 2)
            assert server.held == 16, "the others wait for their turn"
            daemon.send_signal(signal.SIGTERM)
            assert daemon.wait(120) == 0
        assert "source.failed" not in log(site)
