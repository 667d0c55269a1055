"""A small world to be crashed in: an upstream, every kind of target, and what must hold afterwards."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from helpers import catalogue, history, records
from model.checks import by_message_id, different_copies
from model.mail import MailServer
from model.process import ForkingProcess
from postgres import Server

from cachewatch.config.value_types_and_secrets import PostgresAddress

HERE = Path(__file__).parent
CHANGES = ("change-one", "change-two", "change-three", "change-four")
READERS = ("ann", "bob")
_ONCE = (sys.executable, "-m", "cachewatch", "once")

_CONFIG = """\
version: 1
state: {state}
sources:
  upstream: {{git: {folder}/upstream.git}}
channels:
  mail:
    type: email
    from: cachewatch@example.org
    list_domain: cachewatch.example.org
    smtp: {{host: 127.0.0.1, port: {port}, security: none}}
  box: {{type: maildir, path: {folder}/out/Maildir, from: cachewatch@example.org, list_domain: cachewatch.example.org}}
  files: {{type: file, path: "{folder}/out/{{subscription}}/{{period}}.{{ext}}", formats: [json, txt]}}
  feed: {{type: feed, path: "{folder}/out/{{subscription}}.atom"}}
subscriptions:
  ml-team:
    to: [{readers}]
    when: each revision
    changes: [all]
    channels: [mail, box, files, feed]
"""


class Zygote(ForkingProcess):
    """A process that has loaded everything, and becomes one run after the other."""

    def __init__(self) -> None:
        super().__init__("crash.zygote")

    def run(self, case: "Case", *, hours: int = 0, inject: Sequence[str] = (), **request: Any) -> int:
        """Run one pass, with strace's hand on it where there is something to inject; return its wait status."""
        request |= {"config": str(case.config), "hours": hours, "trap": bool(inject), "log": str(case.folder / "log")}
        pid = self._begin(request)
        tracer = _hold(pid, inject) if inject else None
        answer = self._read()
        if tracer is not None:
            tracer.wait(30)
        return self._ended(answer)

    @contextmanager
    def stopped(self, case: "Case", **request: Any) -> Iterator[None]:
        """Run one pass until it stops itself, and end it the hard way afterwards."""
        pid = self._begin(request | {"config": str(case.config), "log": str(case.folder / "log")})
        _wait_for(pid, lambda status: "State:\tT" in status)
        yield
        os.killpg(pid, signal.SIGKILL)
        self._read()


@dataclass
class Case:
    """One copy of the world, to be crashed and recovered."""

    number: int
    folder: Path
    commits: list[str]
    post: MailServer
    server: Server | None = None  # which has the state, if it is not in the folder
    address: PostgresAddress | None = None

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.folder / "cachewatch.yaml"

    @property
    def readers(self) -> list[str]:
        """Whom mail goes to: addresses that no other case has."""
        return [f"{name}-{self.number}@example.org" for name in READERS]

    def publish(self, number: int) -> None:
        """Let upstream be at its `number`-th revision."""
        (self.folder / "upstream.git" / "refs" / "heads" / "main").write_text(self.commits[number] + "\n", "ascii")

    def begin(self) -> None:
        """Write the configuration, and make the folder that a Maildir needs."""
        (self.folder / "out").mkdir(exist_ok=True)
        own = f"{self.folder}/state"
        state = own if self.address is None else f"{self.address}\nstate_folder: {own}"
        readers = ", ".join(self.readers)
        text = _CONFIG.format(folder=self.folder, state=state, port=self.post.port, readers=readers)
        self.config.write_text(text, "utf-8")
        self.config.chmod(0o600)

    def problems(self) -> Iterator[str]:
        """Yield everything that must not be, after recovery."""
        for target, copies in self._copies().items():
            yield from _problems(target, copies)
        if self.address is None and (found := self._rows("PRAGMA integrity_check")) != [("ok",)]:
            yield f"the database: {found}"
        if waiting := self.waiting():
            yield f"not sent: {waiting}"
        for path in self._strays():
            yield f"left behind: {path.relative_to(self.folder)}"

    def waiting(self) -> list[tuple[object, ...]]:
        """Return every delivery that was not sent."""
        return self._rows("SELECT id, state, said FROM deliveries WHERE state != 'sent'")

    def remove(self) -> None:
        """Delete it."""
        shutil.rmtree(self.folder)
        if self.server is not None and self.address is not None:
            self.server.drop(self.address)

    def _rows(self, query: LiteralString) -> list[tuple[object, ...]]:
        if self.address is not None:
            with psycopg.connect(self.address.url) as server:
                return server.execute(query).fetchall()
        with closing(sqlite3.connect(self.folder / "state" / "cachewatch.db")) as connection:
            return list(connection.execute(query).fetchall())

    def _copies(self) -> dict[str, list[bytes]]:
        """Return what every target holds."""
        out = self.folder / "out"
        texts = {reader: self.post.taken[reader] for reader in self.readers}
        texts["maildir"] = [path.read_bytes() for path in sorted((out / "Maildir" / "new").glob("*"))]
        for kind in ("json", "txt"):
            texts[f"files {kind}"] = [path.read_bytes() for path in sorted((out / "ml-team").glob(f"*.{kind}"))]
        feed = out / "ml-team.atom"
        entries = feed.read_bytes().split(b"<entry>")[1:] if feed.exists() else []
        texts["feed"] = [b"<entry>" + entry for entry in entries]
        return texts

    def _strays(self) -> Iterator[Path]:
        out = self.folder / "out"
        known = re.compile(r"Maildir(/(cur|new|tmp)(/.*)?)?|ml-team(/[^.][^/]*\.(json|txt))?|ml-team\.atom")
        for path in sorted(out.rglob("*")):
            if not known.fullmatch(str(path.relative_to(out))) or (path.parent.name == "tmp" and path.is_file()):
                yield path
        for path in sorted((self.folder / "state").rglob("*")):
            if path.name.startswith(("tmp_", ".tmp")) or ".new-" in path.name or path.match("*.git/**/*.lock"):
                yield path


@dataclass
class World:
    """What every case begins with: upstream at its first revision, and a state that knows it."""

    folder: Path
    zygotes: list[Zygote]
    post: MailServer
    server: Server | None = None  # which has the states
    commits: list[str] = field(default_factory=list)
    # Shared by threads: no two cases may have one number, and so the same readers.
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def build(self) -> None:
        """Make upstream and its first revision known."""
        base = {"zlib": records(range(3)), "hdf5": records(range(10, 14))}
        states, packages = [catalogue(base)], dict(base)
        for number, name in enumerate(CHANGES):
            packages = packages | {name: records(range(100 + number, 101 + number))}
            states.append(catalogue(packages))
        history(self.folder / "first" / "upstream.git", *states)
        git = ["git", f"--git-dir={self.folder / 'first' / 'upstream.git'}"]
        listed = subprocess.run([*git, "rev-list", "--reverse", "main"], check=True, capture_output=True, text=True)
        self.commits = listed.stdout.split()
        self._state = None if self.server is None else self.server.new()
        first = self._case(0, self.folder / "first", self._state)
        first.publish(0)
        subprocess.run([*_ONCE, "--config", str(first.config)], check=True, capture_output=True)
        for zygote in self.zygotes:
            zygote.warm_up({"config": str(self.case().config)})

    def case(self) -> Case:
        """Return a copy of the world in which upstream has its second revision."""
        number = next(self.numbers)
        folder = self.folder / f"case-{number}"
        shutil.copytree(self.folder / "first", folder)
        case = self._case(number, folder, None if self.server is None else self.server.new(like=self._state))
        case.publish(1)
        return case

    def _case(self, number: int, folder: Path, address: PostgresAddress | None) -> Case:
        case = Case(number, folder, self.commits, self.post, self.server, address)
        case.begin()
        return case


def recover(zygote: Zygote, case: Case, *, hours: int = 0, **request: Any) -> None:
    """Let upstream go on, and run again, hours later; once more if something waits for that."""
    case.publish(len(CHANGES))
    zygote.run(case, hours=hours + 2, **request)
    if case.waiting():
        zygote.run(case, hours=hours + 8, **request)


def _problems(target: str, copies: list[bytes]) -> Iterator[str]:
    # Mail breaks long lines wherever it likes.
    whole = [copy.replace(b"=\r\n", b"").replace(b"=\n", b"") for copy in copies]
    told = {change for copy in whole for change in CHANGES if change.encode() in copy}
    if told != set(CHANGES):
        yield f"{target}: never told of {sorted(set(CHANGES) - told)}"
    if any(b"change-" in re.sub("|".join(CHANGES).encode(), b"", copy) for copy in whole):
        yield f"{target}: told of something that never was"
    if "@" not in target and target != "maildir":
        return
    by_id = by_message_id([copy.replace(b"\r\n", b"\n") for copy in copies])
    yield from (f"{target}: {problem}" for problem in different_copies(by_id))
    for change in CHANGES:
        ids = [name for name, bodies in by_id.items() if any(change.encode() in body for body in bodies)]
        if len(ids) > 1:
            yield f"{target}: told of {change} under {len(ids)} Message-IDs"


def _hold(pid: int, inject: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Let strace take hold of a process that waits for it, and let that go on."""
    _wait_for(pid, lambda status: "State:\tT" in status)
    tracer = subprocess.Popen(["strace", "-q", "-p", str(pid), *inject], stderr=subprocess.DEVNULL)
    _wait_for(pid, lambda status: "TracerPid:\t0" not in status)
    os.kill(pid, signal.SIGCONT)
    return tracer


def _wait_for(pid: int, holds: Any) -> None:
    end = time.monotonic() + 30
    while not holds(Path(f"/proc/{pid}/status").read_text("ascii", "replace")):
        assert time.monotonic() < end, "strace does not take hold"
        time.sleep(0.002)
