"""The disk of the state is full, or read-only, and later it is not: seen with a small disk in memory."""

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, records
from mailservers import free_port, talking
from servers import ask
from station import CONFIG, Site, log, running, wait_for

_MEBI = 1 << 20
# A poll leaves 512 MiB to others.
_SIZE = 540 * _MEBI
DISK = CONFIG.replace("/state", "/disk/state")
MAIL = (
    DISK.replace("stale_after: 4000d", "stale_after: 4000d, poll: {every: 1s, jitter: 0s}")
    .replace(
        "{files: {",
        "{mail: {type: email, from: c@example.org, smtp: {host: 127.0.0.1, port: {port}, security: none}}, files: {",
    )
    .replace("{ml: {channels: [files]", "{ml: {to: [kim@example.org, lee@example.org], channels: [mail]")
)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk in memory takes root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def site(tmp_path: Path, disk: Path) -> Site:
    """Upstream adds a package after the first pass."""
    base = {"zlib": records([1])}
    return Site(tmp_path, [catalogue(base), catalogue(base | {"new": records([2])})], DISK)


def test_a_full_disk_delays_and_loses_nothing(site: Site, disk: Path, run: Run) -> None:
    config, ballast = site.file, disk / "ballast"
    assert run("once", "--config", config).exit_code == 0
    site.publish(1)
    fill(ballast, disk)
    for command in (["once"], ["daemon"]):
        assert "free some disk space; nothing was lost" in run(*command, "--config", config).error_of(5)
    assert "free some disk space; nothing was lost" in run("status", "--config", config).error_of(5)
    os.truncate(ballast, _SIZE - 4 * _MEBI)
    assert run("once", "--config", config).exit_code == 3, "the database has room, and a fetch would have none"
    ballast.unlink()
    assert run("once", "--config", config).exit_code == 0
    assert len(list((site.folder / "out" / "ml").glob("*.txt"))) == 1


@pytest.mark.slow
def test_a_disk_that_fills_up_while_a_mail_is_sent(site: Site, disk: Path, run: Run) -> None:
    """The daemon keeps the server's answer until there is room: the mail is not sent twice, and the next one goes out."""
    ballast = disk / "ballast"

    def receive(connection: socket.socket, read: Callable[[], bytes]) -> None:
        """Take messages, and leave no room before the first answer."""
        connection.sendall(b"220 here\r\n")
        while line := read():
            if line[:4] == b"DATA":
                connection.sendall(b"354 go on\r\n")
                taken.append(b"".join(iter(read, b".\r\n")))
                if len(taken) == 1:
                    fill(ballast, disk)
            connection.sendall(b"250 ok\r\n")

    taken: list[bytes] = []
    assert run("once", "--config", site.file).exit_code == 0
    database = disk / "state" / "cachewatch.db"
    with talking(receive) as port, closing(sqlite3.connect(database, isolation_level=None)) as reader:
        site.configure(MAIL.replace("{port}", str(port)))
        with running(site, "daemon") as daemon:
            wait_for(lambda: "daemon.started" in log(site))
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM deliveries").fetchone() == (0,)  # so that the log only grows
            site.publish(1)
            wait_for(lambda: "answer.unwritten" in log(site))
            assert len(taken) == 1
            ballast.unlink()
            wait_for(lambda: log(site).count("delivery.sent") == 2, 60)
            daemon.terminate()
            assert daemon.wait(120) == 0
        reader.execute("COMMIT")
        found = reader.execute("SELECT state, may_have_arrived, attempts FROM deliveries").fetchall()
    assert len(taken) == len(set(taken)) == 2
    assert found == [("sent", 0, 1)] * 2


@pytest.mark.slow
@pytest.mark.usefixtures("loopback")
def test_a_full_disk_under_a_daemon_is_said_once_for_each_job(site: Site, disk: Path) -> None:
    """However often they are tried; with room they recover, and everything is told."""
    listen = f"127.0.0.1:{free_port()}"
    polls = "stale_after: 4000d, poll: {every: 1s, jitter: 0s}"
    more = f"operators: {{channels: [files]}}\nmonitor: {{listen: '{listen}'}}"
    site.configure(DISK.replace("stale_after: 4000d", polls).replace("operators: {channels: []}", more))
    with running(site, "daemon") as daemon:
        wait_for(lambda: "stream.begun" in log(site))
        fill(disk / "ballast", disk)
        site.publish(1)
        wait_for(lambda: "failing: poll public" in ask(listen, "/healthz")[1])
        seen = [line.split(" ", 1)[1] for line in log(site).splitlines() if "source.polled" not in line]
        (disk / "ballast").unlink()
        wait_for(lambda: len(list((site.folder / "out" / "ml").glob("*.txt"))) == 1, seconds=60)
        wait_for(lambda: ask(listen, "/healthz")[1].startswith("ok"))
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(120) == 0
    assert len(seen) == len(set(seen))
    assert "free some disk space; nothing was lost" in log(site)
    assert "job.recovered" in log(site)
    assert "raised an exception" not in log(site)
    assert "digest.failed" not in log(site), "it is no fault of a digest, and nobody could be told"


def fill(ballast: Path, disk: Path) -> None:
    """Leave no byte, though somebody else writes."""
    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        os.posix_fallocate(file.fileno(), 0, os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize - _MEBI)
        while True:
            file.write(b"x" * 4096)


def test_a_read_only_disk_is_named(site: Site, disk: Path, run: Run) -> None:
    assert run("once", "--config", site.file).exit_code == 0
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    for command in (["once"], ["daemon"]):
        assert "Read-only file system" in run(*command, "--config", site.file).error_of(5)
    assert "SQLite needs cachewatch.db-shm beside it" in run("status", "--config", site.file).error_of(5)
    assert run("diff", "HEAD", "HEAD", "--repo", site.upstream).exit_code == 0
