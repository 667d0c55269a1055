"""A PostgreSQL server of the tests: on a socket in a folder of its own, and gone when they end."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import psycopg
from psycopg import sql

from cachewatch.config.value_types_and_secrets import PostgresAddress

_USER = "cachewatch"
# Who has to give a password.
GUARDED, PASSWORD = "guarded", "correct horse"
# Nothing that a test stores outlives a power cut; a language's order shows who relies on that of bytes.
_FAST = ("fsync=off", "full_page_writes=off", "shared_buffers=32MB", "max_connections=300", "listen_addresses=")
_LOCALE = ("--locale-provider=icu", "--icu-locale=en-US", "--locale=C.UTF-8")
_INIT = ("--auth=trust", "--encoding=UTF8", *_LOCALE, "--no-sync")
_numbers = count(1)


class Server:
    """A server, and the databases that tests get."""

    def __init__(self, programs: Path, folder: Path, options: Sequence[str], inside: Sequence[str] = ()) -> None:
        self.folder = folder
        self._user = _unprivileged()
        self._data = folder / "data"
        settings = [part for option in (*_FAST, *options) for part in ("-c", option)]
        user = ("setpriv", f"--reuid={self._user}", "--clear-groups") if inside else ()  # which root is needed before
        self._inside = inside
        program: list[str | Path] = [*inside, *user, programs / "postgres"]
        self._line = [*program, "-D", self._data, "-k", folder, *settings]
        self._init: list[str | Path] = [programs / "initdb", "-D", self._data, "-U", _USER, *_INIT]
        self._process: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Make its files."""
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        subprocess.run(self._init, check=True, capture_output=True, user=self._user, cwd=self.folder)
        rules = self._data / "pg_hba.conf"
        # Others than on this machine come from the networks of tests.
        rules.write_text(f"local all {GUARDED} scram-sha-256\n{rules.read_text()}\nhost all all 10.77.0.0/16 trust\n")

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        with (self.folder / "log").open("ab") as log:
            user = None if self._inside else self._user
            self._process = subprocess.Popen(self._line, stderr=log, stdout=log, user=user, cwd=self.folder)
        _wait(self.folder, self._process)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Cut connections, roll back transactions and end it; by SIGQUIT at once, as in a crash: what it has in hand is lost."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)

    def cut_off(self, owner: str) -> None:
        """End the session of a process, as when its host is cut off or said nothing for too long."""
        query = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = {}"
        self.admin(sql.SQL(query).format(f"cachewatch {owner}"[:63]))

    def new(self, like: PostgresAddress | None = None) -> PostgresAddress:
        """Make an empty database, or a copy of one that nobody is connected to."""
        name = f"test_{next(_numbers)}"
        template = "template1" if like is None else _name(like)
        self.admin(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
        return PostgresAddress(f"postgresql://{_USER}@/{name}?host={self.folder}")

    def drop(self, address: PostgresAddress) -> None:
        """Delete a database, whoever is connected to it."""
        self.admin(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(_name(address))))

    def admin(self, statement: sql.Composed) -> None:
        """Execute a statement outside of any database of a test."""
        with psycopg.connect(host=str(self.folder), user=_USER, dbname="postgres", autocommit=True) as connection:
            connection.execute(statement)


@contextmanager
def running(programs: Path, *options: str, inside: Sequence[str] = ()) -> Iterator[Server]:
    """Run the server whose programs are in this folder, as a command `inside` another one; it refuses to be root."""
    folder = Path(tempfile.mkdtemp(prefix="cachewatch-pg-"))
    server = Server(programs, folder, options, inside)
    server.make()
    try:
        server.start()
        server.admin(sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD {}").format(sql.Identifier(GUARDED), PASSWORD))
        yield server
    finally:
        server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


def _name(address: PostgresAddress) -> str:
    return address.url.partition("?")[0].rpartition("/")[2]


def _unprivileged() -> str | None:
    if os.geteuid() != 0:
        return None
    return "postgres" if "postgres" in {entry.pw_name for entry in pwd.getpwall()} else "nobody"


def _wait(folder: Path, server: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + 60
    while True:
        with suppress(psycopg.OperationalError):
            psycopg.connect(host=str(folder), user=_USER, dbname="postgres").close()
            return
        assert server.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < end, "the server does not start"
        time.sleep(0.05)
