"""What hangs holds up nobody else: a mail server after DATA, and a git server in the middle of a pack."""

import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from gitservers import Faults, smart_http
from helpers import catalogue, history, records
from mailservers import talking
from station import Site, log, running, wait_for

pytestmark = pytest.mark.usefixtures("loopback")

CONFIG = """\
version: 1
state: {folder}/state
sources:
  public: {git: {folder}/upstream.git, stale_after: 4000d, poll: {every: 1s, jitter: 0s}}
  stuck: {git: {git}/stuck.git, poll: {every: 1s, jitter: 0s}}
channels:
  mail:
    type: email
    from: cachewatch@example.org
    smtp: {host: 127.0.0.1, port: {port}, security: none}
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


def test_a_server_that_hangs_holds_up_only_its_own(tmp_path: Path) -> None:
    """Two digests arrive in files and a Maildir while the first one still waits for a mail server to answer.

    Who is taken out meanwhile gets nothing more when it does.
    """
    site = Site(tmp_path, STATES)
    history(tmp_path / "stuck.git", STATES[0])
    has_message, may_answer = threading.Event(), threading.Event()

    def hang(connection: socket.socket, read: Callable[[], bytes]) -> None:
        """Take a message, and say nothing to its end."""
        connection.sendall(b"220 here\r\n")
        while line := read():
            connection.sendall(b"354 go on\r\n" if line[:4] == b"DATA" else b"250 ok\r\n")
            if line[:4] == b"DATA":
                while read() not in (b".\r\n", b""):
                    pass
                has_message.set()
                may_answer.wait(20)
                connection.sendall(b"250 taken\r\n")

    faults = Faults(stall=True)
    with smart_http(tmp_path, faults) as git, talking(hang) as port:
        site.configure(CONFIG.replace("{git}", git).replace("{port}", str(port)))
        with running(site, "daemon") as daemon:
            wait_for(lambda: "track.begun" in log(site))
            wait_for(lambda: any("git-upload-pack" in seen and "POST" in seen for seen in faults.seen))
            site.publish(1)
            assert has_message.wait(30)
            site.publish(2)
            wait_for(
                lambda: (
                    len(list((tmp_path / "out" / "ml").glob("*"))) == 2
                    and len(list((tmp_path / "box/new").glob("*"))) == 2
                )
            )
            assert mail_states(site) == {"sending", "queued"}
            assert "source=stuck" not in log(site), "it is still being fetched"
            path = tmp_path / "cachewatch.yaml"
            path.write_text(path.read_text().replace(", lee@example.org", ""))
            daemon.send_signal(signal.SIGHUP)
            wait_for(lambda: "config.reloaded" in log(site))
            may_answer.set()
            wait_for(lambda: not mail_states(site) & {"sending", "queued"})
            daemon.send_signal(signal.SIGTERM)
            assert daemon.wait(25) == 0
    settled = [(each.target, each.state) for each in site.deliveries() if each.channel == "mail"]
    assert settled == [("kim@example.org", "sent"), ("lee@example.org", "dropped")] * 2, "lee was taken out meanwhile"


def mail_states(site: Site) -> set[str]:
    return {each.state for each in site.deliveries() if each.channel == "mail"}
