"""A site that runs cachewatch: an upstream that publishes, a configuration, a state, and a clock of our own."""

import io
import json
import logging
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from helpers import START, catalogue, history, records

from cachewatch.config.reading_showing_warnings import read_config
from cachewatch.config.value_types_and_secrets import PostgresAddress
from cachewatch.operators.status_problems_explanations import ProblemList, find_problems, read_status
from cachewatch.runtime.log import open_log
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.passes_and_leadership import Result, run_pass
from cachewatch.service.streams_starts_silences import Stream, StreamState, read_stream
from cachewatch.store import delivery_queue_and_order as outbox
from cachewatch.store import digests_and_holds as digests
from cachewatch.store.delivery_queue_and_order import Delivery
from cachewatch.store.digests_and_holds import DigestRecord
from cachewatch.store.transactions_and_sqlite import Connection, Database, open_database

State = Mapping[str, bytes]

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def config(rest: str) -> str:
    """Return a configuration with one source and this rest."""
    source = "{public: {git: {folder}/upstream.git, stale_after: 4000d}}"
    return f"version: 1\nstate: {{folder}}/state\nsources: {source}\n{rest}"


# One subscription, whose digests are files.
CONFIG = config("""\
channels: {files: {type: file, path: "{folder}/out/{subscription}/{key}.{ext}", formats: [txt]}}
operators: {channels: []}
subscriptions: {ml: {channels: [files], changes: [all]}}
""")
# One whose digests are mails for two readers, beside files for operators.
MAIL_CONFIG = config("""\
channels:
  mail: {type: email, from: cachewatch@example.org, smtp: {host: 127.0.0.1, port: {port}, security: none}}
  desk: {type: file, path: "{folder}/desk/{subscription}/{key}.{ext}", formats: [txt]}
operators: {channels: [desk]}
subscriptions:
  ml: {to: [kim@example.org, lee@example.org], channels: [mail], changes: [all]}
""").replace("4000d", "400d")
# Digests as data, beside texts for operators.
DESK_CONFIG = config("""\
channels:
  files: {type: file, path: "{folder}/out/{subscription}/{key}.{ext}", formats: [json]}
  desk: {type: file, path: "{folder}/desk/{subscription}/{key}.{ext}", formats: [txt]}
operators: {channels: [desk]}
subscriptions:
  ml: {channels: [files], changes: [all]}
""")
# The same in a daemon, whose monitor listens on a port.
DAEMON_CONFIG = DESK_CONFIG.replace("4000d", "4000d, poll: {every: 1s, jitter: 0s}").replace(
    "subscriptions:", 'monitor: {listen: "127.0.0.1:{port}"}\nsubscriptions:'
)
# One whose last subscription may have more keys.
OPEN_CONFIG = config("""\
channels:
  files: {type: file, path: "{folder}/out/{subscription}/{period}.{ext}", formats: [txt]}
  desk: {type: file, path: "{folder}/desk/{subscription}/{key}.{ext}", formats: [txt]}
operators: {channels: [desk], after_failures: 2}
subscriptions:
  ml:
    channels: [files]
    changes: [all]
""").replace("4000d", "400d")


def growing(count: int) -> list[dict[str, bytes]]:
    """Return so many states, each of which has one package more than the one before."""
    added = [{f"change-{number}": records([100 + number]) for number in range(each)} for each in range(count)]
    return [catalogue({"zlib": records(range(3))} | more) for more in added]


class Site:
    """Everything in one folder, or the state in a database; time stands still until a test moves it."""

    address: ClassVar[PostgresAddress | None] = None
    opened: ClassVar[list[Database]] = []  # which are closed when the test ends

    def __init__(self, folder: Path, states: Sequence[State], config: str = "") -> None:
        self.folder, self.file = folder, folder / "cachewatch.yaml"  # its configuration
        self.now = START + timedelta(hours=1)
        self.upstream = history(folder / "upstream.git", *states)
        self.commits = self._git("rev-list", "--reverse", "main").split()
        self.said = io.StringIO()
        self.publish(0)
        if config:
            self.configure(config)

    def publish(self, number: int) -> None:
        """Let upstream's newest revision be its `number`-th; they are a day apart."""
        self._git("update-ref", "refs/heads/main", self.commits[number])

    def rewrite(self, number: int) -> None:
        """Let upstream's whole history be one revision, with the contents of its `number`-th, and forget all others."""
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        commit = self._git(*identity, "commit-tree", "-m", "anew", f"{self.commits[number]}^{{tree}}").strip()
        self._git("update-ref", "refs/heads/main", commit)
        self._git("reflog", "expire", "--expire=now", "--all")
        self._git("gc", "--quiet", "--prune=now")

    def configure(self, text: str) -> None:
        """Write the configuration; {folder} is filled in."""
        if self.address is not None:
            in_database = rf"state: {self.address.url}\nstate_folder: \1"
            text = re.sub(r"^state: (?!postgresql:)(.*)$", in_database, text, flags=re.MULTILINE)
        self.file.write_text(text.replace("{folder}", str(self.folder)), "utf-8")
        self.file.chmod(0o600)

    def open(self) -> Context:
        """Open the state as a new process would."""
        config = read_config(self.file)
        database = open_database(config.database)
        self.opened.append(database)
        return Context(
            config=config, database=database, log=open_log("json", self.said, logging.INFO), clock=self.clock
        )

    def clock(self) -> datetime:
        """Return the time that it is here."""
        return self.now

    def run(self, number: int | None = None, *, later: timedelta = timedelta(0), at: datetime | None = None) -> Result:
        """Do one pass, `at` a moment or so much later, after upstream has published its `number`-th revision, if given."""
        if number is not None:
            self.publish(number)
        self.now = (at or self.now) + later
        context = self.open()
        with closing(context.database):
            return run_pass(context)

    def digests(self) -> list[DigestRecord]:
        """Return what was made, oldest first."""
        with self._read() as connection:
            return list(reversed(digests.archive(connection)))

    def held(self) -> list[DigestRecord]:
        """Return the digests that wait for an operator."""
        with self._read() as connection:
            found = [digests.get(connection, record.key) for record in digests.all_held(connection)]
        return [stored for stored in found if stored is not None]

    def told(self, subscription: str = "ml") -> list[str]:
        """Return the text of every digest that went to readers of `subscription`, oldest first."""
        return [stored.rendered.text for stored in self.digests() if stored.subscription == subscription]

    def notices(self) -> list[str]:
        """Return the titles of what operators were told."""
        return [stored.rendered.title for stored in self.digests() if stored.subscription == "(operators)"]

    def mails(self) -> dict[str, Delivery]:
        """Return the first delivery by mail to each reader."""
        return {each.target.partition("@")[0]: each for each in reversed(self.deliveries()) if each.channel == "mail"}

    def deliveries(self) -> list[Delivery]:
        """Return every delivery, oldest first."""
        with self._read() as connection:
            return list(reversed(outbox.find(connection)))

    def events(self) -> list[dict[str, Any]]:
        """Return what was logged."""
        return [json.loads(line) for line in self.said.getvalue().splitlines()]

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        state = self.address or self.folder / "state"
        with closing(open_database(state)) as database, database.read() as connection:
            yield connection

    def _git(self, *arguments: str) -> str:
        git = ["git", f"--git-dir={self.upstream}", *arguments]
        return subprocess.run(git, check=True, capture_output=True, text=True).stdout


def begun(folder: Path, states: Sequence[State], config: str) -> Site:
    """Return a site whose first pass was made."""
    site = Site(folder, states, config)
    site.run()
    return site


def notice(site: Site, title: str) -> str:
    """Return the text of the one notice of this title, in one line."""
    (text,) = [stored.rendered.text for stored in site.digests() if stored.rendered.title == title]
    return " ".join(text.split())


def judged(site: Site) -> ProblemList:
    """Return the problems and warnings of a site."""
    context = site.open()
    with closing(context.database):
        return find_problems(read_status(context), context.config, site.now)


def day(number: int, hour: int = 5) -> datetime:
    """Return an hour of the day on which the `number`-th revision was published, an hour before."""
    return (START + timedelta(days=number)).replace(hour=hour, tzinfo=UTC)


@contextmanager
def running(site: Site, command: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command as a process of its own, and end it."""
    line = [sys.executable, "-m", "cachewatch", command, "--config", str(site.file)]
    with (site.folder / "log").open("wb") as said, subprocess.Popen(line, stderr=said) as process:
        try:
            yield process
        finally:
            process.kill()


def log(site: Site) -> str:
    return (site.folder / "log").read_text()


def wait_for(holds: Callable[[], object], seconds: float = 180) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it does not come to pass"
        time.sleep(0.1)


def state_of(context: Context, stream: Stream) -> StreamState:
    """Return what the state knows of a stream."""
    with context.database.read() as connection:
        return read_stream(connection, stream)
