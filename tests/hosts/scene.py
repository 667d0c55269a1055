"""Two hosts with daemons, a database, a mail server and an upstream; and what can happen to the hosts and the database."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from postgres import Server, running
from station import wait_for
from tools import finding_tests, program

from hosts.networks import Network, inside
from hosts.plan import Fault, Kind
from hosts.post_office import READY, taken

_CONFIG = """\
version: 1
state: postgresql://cachewatch@{database}/{name}?connect_timeout=2&tcp_user_timeout=3000
state_folder: {folder}/{host}
sources: {public: {git: {folder}/upstream.git, stale_after: 4000d, poll: {every: 1s, jitter: 0s}}}
channels:
  mail: {type: email, from: c@example.org, attach: csv, smtp: {host: {mail}, port: 25, security: none, timeout: 1s}}
operators: {to: [ops@example.org], channels: [mail], after_failures: 1000}
subscriptions:
  all: {to: [ann@example.org, bob@example.org], channels: [mail], changes: [all], when: each revision}
  some: {to: [cat@example.org], match: {packages: ["p[ab]"]}, channels: [mail], changes: [all], when: each revision}
  minutes: {to: [dan@example.org], channels: [mail], changes: [all], when: {cron: "* * * * *"}}
"""
# The most that a mail server takes to answer, in seconds.
_MAIL_SECONDS = 0.4
# After which somebody starts a daemon again that ended, as systemd does.
_RESTART_SECONDS = 1.0
_NO_STATE = 5


class Host:
    """A host with a daemon, which is started again whenever it ends."""

    def __init__(self, space: str, config: Path, log: Path) -> None:
        self.space = space
        self.log = log
        self.ended = Counter[int]()  # by itself, by exit code
        self._line = [*inside(space), "unshare", "--uts", sys.executable, "-m", "hosts.service", space, "daemon"]
        self._line += ["--config", str(config)]
        self._process: subprocess.Popen[bytes] | None = None
        self._due = 0.0  # when it is to be started again

    def start(self) -> None:
        """Start the daemon, if it does not run."""
        if self._process is None or self._process.poll() is not None:
            with self.log.open("ab") as said:
                self._process = subprocess.Popen(self._line, stderr=said, start_new_session=True, env=finding_tests())
        self._due = 0.0

    def kill(self) -> None:
        """End whatever runs there at once; nobody starts it again."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(60)
            self._process = None

    def signal(self, number: int) -> None:
        """Send a signal to whatever runs there."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def look_after(self) -> None:
        """Start the daemon again if it ended by itself."""
        if self._process is None or self._process.poll() is None:
            return
        if not self._due:
            self.ended[self._process.returncode] += 1
            self._due = time.monotonic() + _RESTART_SECONDS
        elif time.monotonic() >= self._due:
            self.start()


class Scene:
    """Everything."""

    def __init__(self, folder: Path, cables: Network, database: Server) -> None:
        self.folder = folder
        self.post = folder / "post"
        self.post.mkdir()
        self.hosts: list[Host] = []
        self._cables = cables
        self._database = database
        self._name = database.new().url.partition("?")[0].rpartition("/")[2]
        self._cut = Counter[tuple[int, str]]()  # how many faults keep a host from a server

    @contextmanager
    def mail_server(self) -> Iterator[None]:
        """Run the mail server."""
        line = [*inside(self._cables.mail), sys.executable, "-m", "hosts.post_office"]
        line += [str(self.post), str(_MAIL_SECONDS)]
        with subprocess.Popen(line, env=finding_tests()) as process:
            try:
                wait_for((self.post / READY).exists)
                yield
            finally:
                process.kill()

    @contextmanager
    def daemons(self) -> Iterator[None]:
        """Run a daemon on each host; the first one works when there is something to do."""
        try:
            for space in self._cables.hosts:
                host = Host(space, self._config(space), self.folder / f"{space}.log")
                self.hosts.append(host)
                host.start()
                wait_for(lambda log=host.log: "daemon.started" in log.read_text())  # type: ignore[misc]
            wait_for(lambda: "stream.begun" in self.hosts[0].log.read_text())
            yield
        finally:
            for host in self.hosts:
                host.kill()

    def change(self, fault: Fault, *, is_begin: bool) -> None:
        """Let a fault begin, or be over."""
        host = self.hosts[fault.host]
        match fault.kind:
            case Kind.KILLED:
                host.kill() if is_begin else host.start()
            case Kind.PAUSED:
                host.signal(signal.SIGSTOP if is_begin else signal.SIGCONT)
            case Kind.CUT_FROM_DATABASE:
                self._change_cable(fault.host, self._cables.database, 1 if is_begin else -1)
            case Kind.CUT_FROM_MAIL:
                self._change_cable(fault.host, self._cables.mail, 1 if is_begin else -1)
            case Kind.DATABASE_KILLED:
                self._database.stop(signal.SIGQUIT) if is_begin else self._database.start()
            case Kind.DATABASE_RESTARTED:
                self._database.stop() if is_begin else self._database.start()

    def look_after(self) -> None:
        """Do what somebody does on each host who wants its daemon to run."""
        for host in self.hosts:
            host.look_after()

    def taken(self, reader: str) -> list[bytes]:
        """Return the mails of a reader, in the order in which they came."""
        return taken(self.post, reader)

    def wrong_ends(self) -> list[str]:
        """Return the daemons that ended by themselves, other than for want of the database."""
        ended = [(code, count) for host in self.hosts for code, count in host.ended.items() if code != _NO_STATE]
        return [f"a daemon ended with {code}, {count} times" for code, count in ended]

    def count(self, event: str) -> int:
        """Count the lines in the logs of all hosts that tell of an event."""
        return sum(host.log.read_text("utf-8", "replace").count(event) for host in self.hosts)

    def _change_cable(self, number: int, server: str, by: int) -> None:
        self._cut[number, server] += by
        host = self._cables.hosts[number]
        (self._cables.cut if self._cut[number, server] else self._cables.repair)(host, server)

    def _config(self, space: str) -> Path:
        path = self.folder / f"{space}.yaml"
        cables = self._cables
        database, mail = (cables.address(space, each) for each in (cables.database, cables.mail))
        own = {"name": self._name, "folder": str(self.folder), "host": space}
        values = own | {"database": database, "mail": mail}
        text = _CONFIG
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", value)
        path.write_text(text, "utf-8")
        path.chmod(0o600)
        return path


@contextmanager
def open_scene(folder: Path, cables: Network) -> Iterator[Scene]:
    """Run the servers; upstream has to be there before the daemons are."""
    programs = Path(program("postgres")).resolve().parent
    start = partial(running, programs, "listen_addresses=*", inside=inside(cables.database))
    with start() as database:
        scene = Scene(folder, cables, database)
        with scene.mail_server():
            yield scene
