"""Open the database to read it, also where the state cannot be written: by another user, or on a read-only disk.

SQLite reads its log by way of a file of shared memory beside it, which it has to make where there
is none. Where it cannot, it uses what another process left or holds open there; and where
everything is in the database itself, it is told that nobody changes that.
"""

import os
import pwd
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DatabaseError

from cachewatch.errors import StateError
from cachewatch.store.migrations import check_form
from cachewatch.store.sqlite import SqliteDatabase, advice_for_missing, check_exists, form_in, make_engine
from cachewatch.store.timestamps import utc_now

# Where the header says what kind of journal there is, and how it says that it is a log.
_KIND, _LOG = slice(18, 20), b"\2\2"
_WRITABLE, _SHARED, _UNCHANGING = "mode=rw", "mode=ro&readonly_shm=1", "mode=ro&immutable=1"
# Who has written anything into the log has made its memory that large before.
_IN_USE_BYTES = 32 * 1024
_ATTEMPTS = 2


class SqliteToRead(SqliteDatabase):
    """The state's database, for who changes nothing: it is neither made nor upgraded."""

    def __init__(self, folder: Path) -> None:
        """Open the database in `folder`.

        Raises StateError where there is none, where it cannot be read, or where another version wrote it.
        """
        self._name(folder)
        self.is_new = False
        self.clock = utc_now
        _check_access(self.path)
        self._stamp: object = None  # what must stay as it is while we read
        with self._explained():
            engine, form = self._opened()
            self._engine = engine.execution_options(database_time=self._time)
        try:
            if form is None:
                raise StateError(f"{self.path}: {advice_for_missing(folder, 'is empty')}")
            check_form(form, self.place)
        except StateError:
            self.close()
            raise

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Offer a connection that sees one state of everything; raise StateError at the end where it did not."""
        with super().read() as connection:
            yield connection
        if self._stamp is not None and self._stamp != _stamp(self.path):
            raise StateError(f"{self.path}: was changed while it was read; try again")

    def _opened(self) -> tuple[Engine, int | None]:
        """Open it as its files ask for, which may come and go meanwhile, or as it can be where the disk is full."""
        for attempt in range(1, _ATTEMPTS + 1):
            mode = _mode(self.path, is_writable=_is_writable(self.path) and attempt == 1)
            self._stamp = _stamp(self.path) if mode == _UNCHANGING else None
            engine = make_engine(self.path, creator=partial(_connect, self.path, mode))
            try:
                with engine.connect() as connection:
                    return engine, form_in(connection, self.path)
            except StateError:
                engine.dispose()
                raise
            except DatabaseError:
                engine.dispose()
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt opens it or fails")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, check_same_thread=False)


def _is_writable(path: Path) -> bool:
    return os.access(path.parent, os.W_OK | os.X_OK) and os.access(path, os.W_OK)


def _mode(path: Path, *, is_writable: bool) -> str:
    """Return how SQLite has to open the database."""
    if is_writable:
        return _WRITABLE
    log, memory, journal = (path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm", "-journal"))
    if _size(log) and not memory.exists():
        raise StateError(
            f"{path}: the newest changes are in {log.name}, which can be read only where {memory.name} can be made; "
            "run this as a user who may write there, or copy both files into a folder of yours"
        )
    if _size(log) or _size(memory) >= _IN_USE_BYTES or _size(journal):
        return _SHARED
    with path.open("rb") as file:
        return _UNCHANGING if file.read(_KIND.stop)[_KIND] == _LOG else _SHARED


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _stamp(path: Path) -> object:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns, _size(path.with_name(f"{path.name}-wal"))


def _check_access(path: Path) -> None:
    check_exists(path)
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise StateError(
            f"{path}: {error.strerror} for user {_user()}; run this as the user that runs cachewatch, "
            "or let a group read the state"
        ) from error


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
