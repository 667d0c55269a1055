"""One site in one folder: an upstream, a service with several subscriptions, a mail server, and a clock of our own."""

import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from helpers import START, opened
from upstream import Upstream

from cachewatch.core.filters_and_spec_patterns import Globs
from cachewatch.store import digests_and_holds as digests
from cachewatch.store.transactions_and_sqlite import open_database
from model.catalogue import Editor, Step, Tags, files_of, last_readable
from model.mail import RELAYING_DENIED, MailServer, Mood
from model.process import Zygote

NO_TIME = timedelta(0)
READERS = ("ann", "bob", "cat", "dan")
_FORGOTTEN = timedelta(days=390)  # a little less than digests are kept

CONFIG = """\
version: 1
state: {folder}/state
sources: {{public: {{git: {folder}/upstream.git, stale_after: 5000d}}}}
channels:
  mail:
    type: email
    from: cachewatch@example.org
    smtp: {{host: 127.0.0.1, port: {port}, security: none, timeout: 5s}}
  box: {{type: maildir, path: {folder}/out/box, from: cachewatch@example.org}}
  files: {{type: file, path: "{folder}/out/files/{{subscription}}-{{key}}.{{ext}}", formats: [json]}}
  feed: {{type: feed, path: "{folder}/out/{{subscription}}.atom"}}
  desk: {{type: file, path: "{folder}/desk/{{subscription}}-{{key}}.{{ext}}", formats: [txt]}}
operators: {{channels: [desk], after_failures: 1}}
subscriptions:
  all: {{to: [{ann}, {bob}], changes: [all], channels: [mail, files, feed], limit: {{rows: 1000, hold_above: 20}}}}
  daily: {{to: [{cat}], changes: [all], channels: [mail, box, files], when: daily 07:30, if_empty: send, limit: {{rows: 1000}}}}
  some:
    match: {{packages: ["p[ab]"]}}
    changes: [all]
    channels: [files]
    when: weekly mon 07:30
    urgent: {{changes: [removed], channels: [mail, files], to: [{dan}]}}
    limit: {{rows: 1000}}
  tags: {{match: {{tags: ["develop-*", "v*"]}}, changes: [all], channels: [feed, files], limit: {{rows: 1000}}}}
"""


class Stream(NamedTuple):
    """What a stream of digests is about, and where they go: channels with their targets; a key stands for {key}."""

    subscription: str
    name: str
    targets: tuple[tuple[str, str], ...]
    tags: tuple[str, ...] = ("*",)
    packages: tuple[str, ...] = ("*",)
    is_everything: bool = True  # of all that changes, or what is removed alone

    def selected(self, tags: Tags) -> Tags:
        """Return the part of a catalogue that it is about."""
        wanted, packages = Globs(self.tags), Globs(self.packages)
        return {
            tag: {package: found for package, found in listed.items() if packages(package)}
            for tag, listed in tags.items()
            if wanted(tag)
        }


class Told(NamedTuple):
    """A digest as it was stored."""

    key: str
    subscription: str
    stream: str
    json: bytes
    text: str


class Delivery(NamedTuple):
    """What became of a digest for one target."""

    number: int
    digest: str
    channel: str
    target: str
    state: str
    said: str
    message_id: str | None


@dataclass
class Figures:
    """What a run of the model came to."""

    examples: int = 0
    moves: int = 0
    passes: int = 0
    killed: int = 0
    digests: int = 0
    messages: int = 0
    copies: int = 0

    def __str__(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in vars(self).items())


@dataclass
class World:
    """Everything that one example plays with."""

    folder: Path
    number: int
    zygote: Zygote  # becomes the service
    operator: Zygote  # becomes the commands of those who run it
    mail: MailServer
    figures: Figures
    mutant: str = ""
    told: dict[str, Told] = field(default_factory=dict)  # in the order in which they were made
    states: dict[str, str] = field(default_factory=dict)  # of digests
    stored: set[str] = field(default_factory=set)  # the keys of digests that were not forgotten yet
    deliveries: dict[int, Delivery] = field(default_factory=dict)
    published: dict[str, Tags] = field(default_factory=dict)  # by commit
    last_read: dict[str, Tags] = field(default_factory=dict)  # the same, with what broken documents had before
    line: list[str] = field(default_factory=list)  # the commits of the branch
    silenced: list[str] = field(default_factory=list)  # what the refusal of everybody cost

    def __post_init__(self) -> None:
        self.now = self.earliest = START + timedelta(hours=1)
        self.seed = 0
        self.is_daemon = self.is_running = self.is_forgotten = False
        self.upstream = Upstream(self.folder / "upstream.git")
        names = {name: self.address(name) for name in READERS}
        self.config = self.folder / "cachewatch.yaml"
        self.config.write_text(CONFIG.format(folder=self.folder, port=self.mail.port, **names), "utf-8")
        self.config.chmod(0o600)
        for name in ("out", "desk"):
            (self.folder / name).mkdir()
        packages = ("pa", "pb", "pc", "pd", "pe", "pf", "pg", "ph")
        self.editor = Editor({"develop": {name: frozenset({10 * n, 10 * n + 1}) for n, name in enumerate(packages, 1)}})
        self.mail.forget()

    def begin(self, steps: Iterable[Step] = ()) -> None:
        """Let the service see upstream for the first time, which is silent; it is so many steps further by then."""
        for step in steps:
            self.editor.apply(step)
        self.publish()
        assert self.run() == 0, self.log()
        self.first = self.line[-1]

    def prepare_news(self) -> None:
        """Let the first pass have something to tell."""
        self.publish()
        self.editor.apply(Step("wave"))
        self.publish()
        text = self.config.read_text("utf-8")
        self.config.write_text(text.replace("stale_after:", "first_run: report, stale_after:"), "utf-8")

    def address(self, name: str) -> str:
        """Return an address that no other example has."""
        return f"{name}@n{self.number}.example.org"

    @property
    def streams(self) -> tuple[Stream, ...]:
        """All streams of the configuration."""
        ann, bob, cat, dan = map(self.address, READERS)
        out = self.folder / "out"

        def files(subscription: str) -> tuple[str, str]:
            """Return where the JSON goes of which the sums are made."""
            return "files", f"{out}/files/{subscription}-{{key}}.json"

        return (
            Stream(
                "all", "regular",
                (("mail", ann), ("mail", bob), files("all"), ("feed", f"{out}/all.atom")),
            ),
            Stream("daily", "regular", (("mail", cat), ("box", f"{out}/box"), files("daily"))),
            Stream("some", "regular", (files("some"),), packages=("p[ab]",)),
            Stream("some", "urgent", (("mail", dan), files("some")), packages=("p[ab]",), is_everything=False),
            Stream("tags", "regular", (("feed", f"{out}/tags.atom"), files("tags")), tags=("develop-*", "v*")),
        )  # fmt: skip

    def change(
        self, steps: Iterable[Step], back: int = 0, is_forgotten: bool = False, seconds: int | None = None
    ) -> None:
        """Let upstream commit a catalogue that is so many steps further; `back` commits before it are rewritten.

        The commit may have a date of its own, in seconds since 1970.
        """
        for step in steps:
            self.editor.apply(step)
        self.publish(back=back, seconds=seconds)
        if is_forgotten:
            self.upstream.forget()

    def publish(self, *, back: int = 0, seconds: int | None = None) -> None:
        """Commit the catalogue as it is, perhaps with a date of its own."""
        line = self.line[: max(1, len(self.line) - back)]
        date = f"{int(self.now.timestamp()) if seconds is None else seconds} +0000"
        commit = self.upstream.commit(files_of(self.editor.tags), *line[-1:], date=date)
        self.published[commit] = {tag: dict(packages) for tag, packages in self.editor.tags.items()}
        before = self.last_read[line[-1]] if line else {}
        self.last_read[commit] = last_readable(before, self.editor.tags)
        self.line = [*line, commit]

    def rewind(self, back: int) -> None:
        """Let upstream be at an older commit again."""
        self.line = self.line[: max(1, len(self.line) - back)]
        (self.upstream.path / "refs/heads/main").write_text(f"{self.line[-1]}\n", "ascii")
        self.editor.revert(self.published[self.line[-1]])

    def run(
        self,
        later: timedelta = NO_TIME,
        *,
        skew: timedelta = NO_TIME,
        kill: int | str = 0,
        locked: tuple[int, int] = (0, 0),
    ) -> int | None:
        """Let time pass, and do a pass, perhaps with a wrong clock; return the status of the process if it ended.

        The pass is killed at the call or in the function `kill`; of its transactions that write, the first number of
        `locked`, and so many from there on, find the database locked.
        """
        self.now += later
        moment = self.now + skew
        self.earliest = min(self.earliest, moment)
        if moment > self.earliest + _FORGOTTEN:
            self.collect()
            self.is_forgotten = True
        request = {**self._request(skew), "kill": kill, "locked": locked}
        is_daemon, dead = self.is_daemon, self._refused()
        self.mail.turned_away.clear()
        status = (self.zygote.go_on if self.is_running else self.zygote.start if is_daemon else self.zygote.run)(
            request
        )
        self.is_running = is_daemon and status is None
        self.figures.passes += 1
        self.figures.killed += status == signal.SIGKILL
        if len(self.mail.turned_away) > 1 and (lost := self._refused() - dead):
            refused = sorted(self.mail.turned_away)
            self.silenced.append(f"{lost} deliveries are dead, though the server refused {refused}")
        return status

    def _refused(self) -> int:
        """Count the deliveries that are dead because the server refused everybody, where it does."""
        if self.mail.mood is not Mood.REFUSES:
            return 0
        query = f"SELECT count(*) FROM deliveries WHERE state = 'dead' AND said LIKE '%{RELAYING_DENIED}%'"
        ((count,),) = self._rows(query)
        return int(count)

    def _request(self, skew: timedelta = NO_TIME) -> dict[str, Any]:
        self.seed += 1
        moment, log = (self.now + skew).isoformat(), str(self.folder / "log")
        request = {"config": str(self.config), "log": log, "moment": moment, "seed": self.seed}
        return request | {"kill": 0, "locked": (0, 0), "mutant": self.mutant}

    def change_process(self, *, is_daemon: bool) -> None:
        """Let passes be done by one process that stays, or each by one of its own."""
        if self.is_running:
            self.zygote.stop()
        self.is_running = False
        self.is_daemon = is_daemon

    def set_mood(self, mood: Mood) -> None:
        """Let the mail server behave otherwise."""
        self.mail.mood = mood

    def refuse(self, reader: str) -> None:
        """Let the mail server know a reader no more, or again."""
        self.mail.refused ^= {self.address(reader)}

    def recover(self) -> None:
        """Let all be well for long enough, with operators who release what is held."""
        self.mail.mood = Mood.ACCEPTS
        self.mail.refused.clear()
        self.open_archive()
        self.editor.repair()
        self.publish()
        for hours in _RECOVERY:
            self.run(timedelta(hours=hours))
            self.answer(is_released=True)

    def answer(self, *, is_released: bool) -> None:
        """Let operators release or drop whatever is held."""
        held = [key for (key,) in self._rows("SELECT key FROM digests WHERE state = 'held'")]
        for key in held:
            how = ["release", key] if is_released else ["drop", key, "--reason", "not wanted"]
            assert self.operator.run({**self._request(), "command": ["deliveries", *how]}) == 0, self.log()

    def close_archive(self) -> None:
        """Let files be written nowhere: something that is no folder is in their place."""
        archive = self.folder / "out" / "files"
        if not archive.is_file():
            archive.mkdir(exist_ok=True)
            archive.rename(self.folder / "aside")
            archive.touch()

    def open_archive(self) -> None:
        """Let files be written again."""
        aside = self.folder / "aside"
        if aside.exists():
            (self.folder / "out" / "files").unlink()
            aside.rename(self.folder / "out" / "files")

    def collect(self) -> None:
        """Read what the state says now: digests of long ago are forgotten there."""
        database = open_database(self.folder / "state")
        self.stored.clear()
        with database.read() as connection:
            for key, state in self._rows("SELECT key, state FROM digests ORDER BY rowid"):
                self.states[key] = state
                self.stored.add(key)
                stored = None if key in self.told else digests.get(connection, key)
                if stored is not None:
                    rendered = stored.rendered
                    self.told[key] = Told(key, stored.subscription, stored.stream, rendered.json, rendered.text)
        # A digest that is held is not forgotten before another one replaces it.
        held = {key for key, state in self.states.items() if state == "held"}
        self.states |= dict.fromkeys(held - self.stored, "superseded")
        database.close()
        for row in self._rows("SELECT id, digest, channel, target, state, said, message_id FROM deliveries"):
            self.deliveries[row[0]] = Delivery(*row)

    def log(self) -> str:
        """Return what the service said."""
        return (self.folder / "log").read_text("utf-8", "replace")

    def errors(self) -> list[str]:
        """Return the last errors in the log."""
        return [f"the log: {line}" for line in self.log().splitlines() if " error " in line or "Error" in line][-5:]

    def _rows(self, query: str) -> Iterator[Any]:
        with opened(self.folder / "state" / "cachewatch.db") as connection:
            yield from connection.execute(query).fetchall()


# A pass after so many hours each: retries are hours apart at most, schedules a week.
_RECOVERY = (0.1, 5, 24, 7 * 24, 5)
