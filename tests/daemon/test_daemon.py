"""The daemon as it runs: what it tells systemd, its figures, its signals, and jobs that fail."""

import contextlib
import os
import re
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from helpers import secret
from mailservers import free_port
from servers import Says, ask, serving
from station import DAEMON_CONFIG as CONFIG
from station import Site, growing, log, running, wait_for

from cachewatch.config.reading_showing_warnings import read_config
from cachewatch.daemon import jobs_signals_and_health as daemon_module
from cachewatch.daemon.jobs_signals_and_health import Daemon, Scheduler, notify
from cachewatch.service.context_and_source_copies import Context
from cachewatch.store.schema import utc_now


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Upstream adds a package; nothing was fetched yet."""
    return Site(tmp_path, growing(2), CONFIG.replace("{port}", str(free_port())))


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Listen where systemd would, and return what was said."""
    monkeypatch.undo()  # the guard of the network knows no sockets of files
    said: list[str] = []
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(address)
        ear.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", address)

        def hear() -> list[str]:
            with contextlib.suppress(BlockingIOError):
                while True:
                    said.extend(ear.recv(4096).decode().splitlines())
            return said

        yield hear


@contextlib.contextmanager
def meanwhile(*steps: Callable[[], None]) -> Iterator[None]:
    """Do the steps in a thread, since signals are for the main one; stop the daemon whatever happens."""

    def go() -> None:
        try:
            for step in steps:
                step()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        with ThreadPoolExecutor() as pool:
            done = pool.submit(go)
            yield
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in kept.items():
            signal.signal(number, handler)
    done.result()


def open_daemon(site: Site) -> tuple[Daemon, Context]:
    context = site.open()
    context.clock, context.started = utc_now, utc_now()
    return Daemon(context, lambda: read_config(site.file)), context


def heard(site: Site, event: str) -> bool:
    return f'"event": "{event}"' in site.said.getvalue()


def fetch(site: Site, path: str) -> tuple[int, str]:
    return ask(read_config(site.file).monitor.listen or "", path)


def _restore(state: Path) -> None:
    shutil.copy(state / "cachewatch.db", state / "backup")
    (state / "backup").rename(state / "cachewatch.db")


def _delete(state: Path) -> None:
    while state.exists():  # the daemon may write there meanwhile
        shutil.rmtree(state, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "take",
    [
        pytest.param(lambda state: state.rename(state.with_name("elsewhere")), id="moved"),
        pytest.param(_delete, id="deleted", marks=pytest.mark.nightly),
        pytest.param(_restore, id="restored", marks=pytest.mark.nightly),
    ],
)
def test_a_daemon_ends_when_its_state_is_taken_away(site: Site, take: Callable[[Path], None]) -> None:
    """A second one may work on what is there now, and both would send."""
    with running(site, "daemon") as process:
        wait_for(lambda: "stream.begun" in log(site))
        take(site.folder / "state")
        assert process.wait(60) == 5
    assert "was moved, replaced or deleted while this process used it; start it again" in log(site)


def test_a_life(site: Site, systemd: Callable[[], list[str]]) -> None:
    """It is ready, well and stopping in systemd's words; it polls, tells, delivers and has figures for it."""
    found: dict[str, tuple[int, str]] = {}

    def look() -> None:
        found.update({path: fetch(site, path) for path in ("/healthz", "/metrics")})

    daemon, _ = open_daemon(site)
    with meanwhile(
        lambda: wait_for(lambda: heard(site, "stream.begun")),
        lambda: site.publish(1),
        lambda: wait_for(lambda: heard(site, "delivery.sent")),
        look,
        lambda: wait_for(lambda: "WATCHDOG=1" in systemd()),
    ):
        assert daemon.run() == 0

    assert systemd()[:2] == ["READY=1", "STATUS=waiting"]
    assert systemd()[-1] == "STOPPING=1"
    assert found["/healthz"][0] == 200
    assert 'cachewatch_outbox_rows{channel="files",state="sent"} 1' in found["/metrics"][1]
    assert 'cachewatch_source_last_success_timestamp_seconds{source="public"}' in found["/metrics"][1]
    assert len(site.told()) == 1


def test_a_reload(site: Site, systemd: Callable[[], list[str]]) -> None:
    """A good file counts from now on, a bad one not; neither ends the daemon, nor does another state folder."""
    good = site.file.read_text()

    def reload(text: str, event: str, count: int = 1) -> None:
        site.file.write_text(text)
        os.kill(os.getpid(), signal.SIGHUP)
        wait_for(lambda: site.said.getvalue().count(f'"event": "{event}"') == count)

    daemon, context = open_daemon(site)
    with meanwhile(
        lambda: wait_for(lambda: heard(site, "daemon.started")),
        lambda: reload(good.replace("  ml: {", "  other: {"), "config.reloaded"),
        lambda: reload("version: 1\nsauces: {}\n", "config.refused"),
        lambda: reload(good.replace("/state\n", "/elsewhere\n"), "config.refused", 2),
    ):
        assert daemon.run() == 0

    assert list(context.config.subscriptions) == ["other"]
    assert context.config.state == site.folder / "state"
    assert "did you mean" in site.said.getvalue()
    assert "STATUS=configuration reloaded" in systemd()
    assert "STATUS=the new configuration was refused, the old one stays" in systemd()
    assert "a new configuration was refused" in site.notices()


def said(site: Site) -> list[str]:
    return site.said.getvalue().splitlines()


@pytest.mark.slow
@pytest.mark.usefixtures("loopback")
def test_a_reload_begins_what_is_new(site: Site) -> None:
    """The monitor moves; a source, a channel and a subscription begin, though it began with fewer."""
    old = read_config(site.file).monitor.listen or ""
    text = CONFIG.replace("{port}", str(free_port()))
    second = "second: {git: {folder}/upstream.git, poll: {every: 1s, jitter: 0s}}"
    text = text.replace("sources: {public:", f"sources: {{{second}, public:")
    text = text.replace("channels:\n", "channels:\n  late: {type: feed, path: '{folder}/{subscription}.atom'}\n", 1)

    def reload() -> None:
        site.configure(text + "  new: {channels: [late], changes: [all], match: {sources: [second]}}\n")
        os.kill(os.getpid(), signal.SIGHUP)
        wait_for(lambda: heard(site, "config.reloaded"))

    def look() -> None:
        assert fetch(site, "/healthz")[0] == 200
        with pytest.raises(ConnectionRefusedError):
            ask(old, "/healthz")

    daemon, _ = open_daemon(site)
    with meanwhile(
        lambda: wait_for(lambda: heard(site, "stream.begun")),
        lambda: wait_for(lambda: fetch(site, "/healthz")[0] == 200),
        reload,
        look,
        lambda: wait_for(lambda: '"source": "second", "revision"' in site.said.getvalue()),
        # What is published before it has begun is not its news.
        lambda: wait_for(lambda: any("stream.begun" in line and '"new"' in line for line in said(site))),
        lambda: site.publish(1),
        lambda: wait_for((site.folder / "new.atom").exists),
    ):
        assert daemon.run() == 0


def test_a_port_that_is_taken_stops_nothing_else(site: Site) -> None:
    port = int((read_config(site.file).monitor.listen or "").rpartition(":")[2])
    daemon, _ = open_daemon(site)
    with socket.create_server(("127.0.0.1", port)), meanwhile(lambda: wait_for(lambda: heard(site, "source.polled"))):
        assert daemon.run() == 0
    assert heard(site, "monitor.failed")


@pytest.mark.slow
@pytest.mark.usefixtures("loopback")
def test_a_job_that_fails_stops_no_other(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[int, str]] = []

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(daemon_module, "create_digests", fail)
    daemon, _ = open_daemon(site)
    with meanwhile(
        lambda: wait_for(lambda: site.said.getvalue().count('"event": "source.polled"') >= 3),
        lambda: wait_for(lambda: fetch(site, "/healthz")[0] == 503),
        lambda: found.append(fetch(site, "/healthz")),
    ):
        assert daemon.run() == 0
    assert site.said.getvalue().count('"event": "job.failed"') == 1, "the same failure is news once"
    assert "ZeroDivisionError" in site.said.getvalue()
    assert "digests" in found[0][1]


def that_pings(site: Site, url: str) -> Daemon:
    """Return a daemon that polls once a day."""
    secret(site.folder / "ping", url)
    text = site.file.read_text().replace("every: 1s", "every: 1d")
    site.file.write_text(re.sub(r"monitor: \{(?!ping)", "monitor: {ping_url_file: ping, ", text))
    return open_daemon(site)[0]


@pytest.mark.usefixtures("loopback")
def test_a_ping_that_fails_is_said_without_its_address(site: Site) -> None:
    """Whoever knows the address can keep the alarm silent."""
    site.run(at=datetime.now(UTC))
    with serving({}) as server:
        for address in (server.url, f"http://127.0.0.1:{free_port()}"):
            that_pings(site, f"{address}/canary-8f31c2")._ping()
        assert server.paths == ["/canary-8f31c2"]
    said = [event["error"].partition("(")[0] for event in site.events() if event["event"] == "ping.failed"]
    assert said == ["the server answered 404", f"{address}***: no connection "]


@pytest.mark.usefixtures("loopback")
def test_a_ping_says_what_readyz_says(site: Site) -> None:
    """Never that all is well beside a 503; healthchecks is told that it is not, others by silence."""
    check = "/ping/01234567-89ab-cdef-0123-456789abcdef"
    site.now = datetime.now(UTC)
    with serving({check: Says(), f"{check}/fail": Says(), "/other": Says()}) as server:
        for is_polled in (False, True):
            if is_polled:
                site.run()
            for place in (check, "/other"):
                daemon = that_pings(site, f"{server.url}{place}")
                assert (daemon._readyz().status == 200) is is_polled
                daemon._ping()
        assert server.paths == [f"{check}/fail", check, "/other"]


def test_a_daemon_whose_digests_hang_says_so_and_feeds_no_watchdog(
    site: Site, systemd: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So systemd starts it anew; what it had not written down is done again."""
    daemon, _ = open_daemon(site)
    daemon._look_around()
    assert systemd() == ["WATCHDOG=1"]
    monkeypatch.setattr(daemon, "_beat", time.monotonic() - 1000)
    daemon._look_around()
    assert systemd() == ["WATCHDOG=1"]
    assert daemon._healthz().status == 503


def test_a_job_that_wakes_another_does_not_keep_us() -> None:
    """A poll that ends while we are told to stop ends like any other."""
    has_begun, may_end = threading.Event(), threading.Event()

    def poll() -> None:
        has_begun.set()
        may_end.wait(120)
        time.sleep(0.3)  # now somebody waits for us
        scheduler.wake("digests")

    scheduler = Scheduler({"default": 2}, lambda *_: None)
    scheduler.add("digests", "default", lambda: None, every=daemon_module._TICK, first=utc_now())
    scheduler.add("poll", "default", poll, every=daemon_module._TICK, first=utc_now())
    scheduler.start()
    assert has_begun.wait(120)
    stopper = threading.Thread(target=scheduler.stop, daemon=True)
    stopper.start()
    may_end.set()
    stopper.join(120)
    assert not stopper.is_alive()


def test_a_status_cannot_forge_another_message(systemd: Callable[[], list[str]]) -> None:
    """Line breaks of an error are not those of the protocol."""
    notify(status="refused\nMAINPID=1")
    (line,) = systemd()
    assert line.startswith("STATUS=refused")


def test_without_systemd_nothing_is_said(
    systemd: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither where there is no socket, nor where it is gone."""
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    notify("READY=1")
    assert systemd() == []
