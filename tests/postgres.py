"""A PostgreSQL server of the tests: on a socket in a folder of its own, and gone when they end."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import psycopg
from psycopg import sql

from cachewatch.config.state_address import PostgresAddress

_USER = "cachewatch"
# Who has to give a password.
GUARDED, PASSWORD = "guarded", "correct horse"
# Nothing that a test stores outlives a power cut; a language's order shows who relies on that of bytes.
_FAST = ("fsync=off", "full_page_writes=off", "shared_buffers=32MB", "max_connections=300", "listen_addresses=")
_INIT = (
    "--auth=trust",
    "--encoding=UTF8",
    "--locale-provider=icu",
    "--icu-locale=en-US",
    "--locale=C.UTF-8",
    "--no-sync",
)
_numbers = count(1)


class Server:
    """A running server, and the databases that tests get."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def new(self) -> PostgresAddress:
        """Make an empty database."""
        name = f"test_{next(_numbers)}"
        self.admin(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return PostgresAddress(f"postgresql://{_USER}@/{name}?host={self.folder}")

    def drop(self, address: PostgresAddress) -> None:
        """Delete a database, whoever is connected to it."""
        name = address.url.partition("?")[0].rpartition("/")[2]
        self.admin(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def admin(self, statement: sql.Composed) -> None:
        """Execute a statement outside of any database of a test."""
        with psycopg.connect(host=str(self.folder), user=_USER, dbname="postgres", autocommit=True) as connection:
            connection.execute(statement)


@contextmanager
def running(programs: Path) -> Iterator[Server]:
    """Run the server whose programs are in this folder; it refuses to be root."""
    user = _unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="cachewatch-pg-"))
    if user is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    init: list[str | Path] = [programs / "initdb", "-D", data, "-U", _USER, *_INIT]
    subprocess.run(init, check=True, capture_output=True, user=user, cwd=folder)
    rules = data / "pg_hba.conf"
    rules.write_text(f"local all {GUARDED} scram-sha-256\n{rules.read_text()}")
    options = [part for option in _FAST for part in ("-c", option)]
    line: list[str | Path] = [programs / "postgres", "-D", data, "-k", folder, *options]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(line, stderr=log, stdout=log, user=user, cwd=folder) as server,
    ):
        try:
            _wait(folder, server)
            made = Server(folder)
            made.admin(sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD {}").format(sql.Identifier(GUARDED), PASSWORD))
            yield made
        finally:
            server.terminate()
            with suppress(subprocess.TimeoutExpired):
                server.wait(5)  # who is still connected keeps it
            server.kill()
    shutil.rmtree(folder, ignore_errors=True)


def _unprivileged() -> str | None:
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _wait(folder: Path, server: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + 60
    while True:
        with suppress(psycopg.OperationalError):
            psycopg.connect(host=str(folder), user=_USER, dbname="postgres").close()
            return
        assert server.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < end, "the server does not start"
        time.sleep(0.05)
