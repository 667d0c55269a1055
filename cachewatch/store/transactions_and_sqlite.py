"""The database of the state: transactions, the version (form) of its tables, copying; and the state in SQLite.

A write is exclusive: it waits until any other is done. A read blocks nobody. The form of the tables is in
`alembic_version`. `extensions/shared_state/postgresql.py` implements the same for PostgreSQL.

In SQLite the state is a file in a folder, durable at every commit, used by one process at a time. A writing transaction
begins with BEGIN IMMEDIATE, because one that reads first may fail at once when it writes, whatever the timeout; readers
block nobody (WAL), except on a network file system.
"""

import errno
import fcntl
import os
import socket
import sqlite3
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Connection, Engine, Integer, Table, create_engine, event, func, insert, inspect, select
from sqlalchemy.exc import DatabaseError, SQLAlchemyError

from cachewatch.config.value_types_and_secrets import PostgresAddress, StatePlace
from cachewatch.errors import AnotherInstance, StateError
from cachewatch.hooks import extensions, lacking
from cachewatch.runtime.files_and_locks import open_lock, shared_kind, user_name
from cachewatch.store import schema
from cachewatch.store.schema import metadata

__all__ = ["Connection", "Database"]  # modules that only pass a connection on import it from here


class Database(ABC):
    """The database of the state; each `read` and `write` is one transaction."""

    place: str  # its path or URL, for messages; without secrets
    is_new: bool  # whether its tables were just created
    is_shared: bool  # whether several hosts may use it, so that a lock on one of them does not keep out the others

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection that sees one consistent state."""
        with self._explained(), self._engine.connect() as connection:
            yield connection

    def write(self) -> AbstractContextManager[Connection]:
        """Return a context manager with a connection in a transaction, which is committed at the end of the `with`."""
        return self._writing(self._engine)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def lead(self, owner: str) -> bool:  # noqa: ARG002  where hosts share nothing, the lock of the folder is enough
        """Make this process, `owner`, the leader; tell whether this is new. Raises AnotherInstance if another leads."""
        return False

    def job(self) -> AbstractContextManager[None]:
        """Make this thread's `write` raise StateError if another process may have led since the `with` block began."""
        return nullcontext()

    def leader(self) -> str | None:
        """Return the process that leads a shared state; None if no process leads it or the state is not shared."""
        return None

    # A server keeps what it has open, checks its files if it has checksums, and maintains them itself.
    def check_place(self) -> None:  # noqa: B027
        """Raise StateError if the state was moved, replaced or deleted since it was opened."""

    def check(self) -> None:  # noqa: B027
        """Raise StateError if the files of the database are damaged."""

    def tidy(self) -> None:  # noqa: B027
        """Do regular maintenance that keeps the database from growing."""

    @abstractmethod
    def back_up(self, target: Path) -> None:
        """Copy the whole database to `target`, which must not exist."""

    @abstractmethod
    def _advise(self, error: DatabaseError) -> str:
        """Return the message for a database error: what is wrong and what to do."""

    @contextmanager
    def _writing(self, engine: Engine) -> Iterator[Connection]:
        following: list[Callable[[], None]] = []
        with self._explained(), engine.execution_options(writes=True, following=following).begin() as connection:
            yield connection
        for act in following:
            act()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            reason = self._advise(error) if isinstance(error, DatabaseError) else error
            raise StateError(f"{self.place}: {reason}") from error


def after_commit(connection: Connection, act: Callable[[], None]) -> None:
    """Run `act`, for example to log an event, after the `write` of `connection` is committed; not after a rollback."""
    connection.get_execution_options()["following"].append(act)


_BATCH = 500


def copy_rows(source: Connection, target: Connection, *, but: Collection[str] = ()) -> int:
    """Copy the rows of all tables except `but` from `source` into empty tables of `target`; return their number."""
    count = 0
    for table in metadata.sorted_tables:
        if table.name in but:
            continue
        for rows in _batches(source, table):
            target.execute(insert(table), rows)
            count += len(rows)
        # PostgreSQL continues the automatic numbers after the copied ones.
        for column in table.primary_key if target.dialect.name == "postgresql" else ():
            if isinstance(column.type, Integer):
                sequence = func.pg_get_serial_sequence(table.name, column.name)
                last = select(func.max(column)).scalar_subquery()
                target.execute(select(func.setval(sequence, last)).where(select(column).exists()))
    return count


def has_rows(connection: Connection) -> bool:
    """Tell whether any table has a row."""
    return any(connection.execute(select(table).limit(1)).first() is not None for table in metadata.sorted_tables)


def _batches(source: Connection, table: Table) -> Iterator[list[dict[str, Any]]]:
    query = select(table).order_by(*table.primary_key).execution_options(yield_per=_BATCH)
    with source.execute(query) as found:
        for rows in found.mappings().partitions():
            yield [dict(row) for row in rows]


def check_same(source: Connection, target: Connection, place: str) -> None:
    """Raise StateError, with `place` as the name of the target, unless both databases have the same rows."""
    for table in metadata.sorted_tables:
        rows = (chain.from_iterable(_batches(each, table)) for each in (source, target))
        for before, after in zip_longest(*rows):
            if before != after:
                row = before or after or {}
                key = ", ".join(str(row[column.name]) for column in table.primary_key)
                raise StateError(f"{place}: keeps a row of `{table.name}` ({key}) otherwise; nothing was copied")


# The folders with migrations; a test adds one.
FOLDERS = [Path(__file__).with_name("revisions")]
_VERSION = "alembic_version"


def form_of(connection: Connection) -> int | None:
    """Return the form (version) of the tables; None if there are none of cachewatch, 0 if older than form 1."""
    tables = set(inspect(connection).get_table_names())
    if not tables >= {"cursors", "digests", "deliveries"}:  # which every form has
        return None
    if _VERSION not in tables:
        return 0
    return int(connection.exec_driver_sql(f"SELECT version_num FROM {_VERSION}").scalar_one())  # noqa: S608


def check_form(form: int, place: str) -> None:
    """Raise StateError, with advice, if the tables at `place` have another `form` (version) than this cachewatch."""
    if form == schema.FORM:
        return
    advice = "use the cachewatch that wrote it, or name another place in `state:` to begin a new one"
    if 0 < form < schema.FORM:
        advice = "make a backup with the version that wrote it; `cachewatch once` or the daemon of this one upgrades it"
    raise StateError(f"{place}: has form {form}, and this cachewatch reads form {schema.FORM}; {advice}")


def create_or_upgrade(engine: Engine, place: str) -> bool:
    """Create or upgrade the tables in one transaction; return whether they were missing. Errors name `place`."""
    with engine.connect() as connection:
        if form_of(connection) == schema.FORM:
            return False
    with engine.execution_options(writes=True).begin() as connection:
        form = form_of(connection)  # another process may have been faster
        if form is None:
            schema.make_tables(connection)
            connection.exec_driver_sql(f"CREATE TABLE {_VERSION} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
            connection.exec_driver_sql(f"INSERT INTO {_VERSION} VALUES ('{schema.FORM}')")  # noqa: S608
        elif 0 < form < schema.FORM:
            from alembic.operations import Operations  # noqa: PLC0415
            from alembic.runtime.migration import MigrationContext  # noqa: PLC0415
            from alembic.script import ScriptDirectory  # noqa: PLC0415

            scripts = ScriptDirectory(str(FOLDERS[0]), version_locations=[str(folder) for folder in FOLDERS])
            with Operations.context(MigrationContext.configure(connection)):
                for script in reversed(list(scripts.iterate_revisions(str(schema.FORM), str(form)))):
                    script.module.upgrade()
            connection.exec_driver_sql(f"UPDATE {_VERSION} SET version_num = '{schema.FORM}'")  # noqa: S608
        else:
            check_form(form, place)
    return form is None


def make_private(folder: Path) -> None:
    """Make the folder of a state if it is missing. Raises StateError if it is not writable or others may change it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
    except OSError as error:
        raise StateError(f"{folder}: {error.strerror}; choose another folder with `state:`") from error
    if about.st_mode & stat.S_IWOTH:
        raise StateError(f"{folder}: everybody may write in it; run: chmod o-w {folder}, or choose a folder in it")
    refusal = None  # a cause, since a PermissionError ends with an exit code of its own
    if not os.access(folder, os.W_OK | os.X_OK):
        code = errno.EROFS if os.statvfs(folder).f_flag & os.ST_RDONLY else errno.EACCES
        refusal = OSError(code, os.strerror(code))
    if os.geteuid() and about.st_uid not in (0, os.geteuid()):
        why = "it belongs to another user, who could replace what is in it"
        raise StateError(f"{folder}: {why}; choose a folder of your own") from refusal
    if refusal:
        raise StateError(f"{folder}: {refusal.strerror}; choose another folder with `state:`") from refusal


NAME = "cachewatch.db"
# The cache is in KiB for each connection: a daemon has several, for months.
_PRAGMAS = ("busy_timeout = 10000", "foreign_keys = ON", "cache_size = -256")
_SCARCE_BYTES = 256 * 1024
_ADVICE = {
    sqlite3.SQLITE_FULL: "free some disk space; nothing was lost",
    sqlite3.SQLITE_IOERR: "the disk is failing; no confirmed data is lost",
    sqlite3.SQLITE_CORRUPT: "move it away and restore a backup: nothing was changed",
    sqlite3.SQLITE_NOTADB: "move it away and restore a backup: nothing was changed",
    sqlite3.SQLITE_READONLY: "the folder must be writable",
    sqlite3.SQLITE_CANTOPEN: "the folder must be writable",
    sqlite3.SQLITE_BUSY: "another process is using it; try again",
}


class SqliteDatabase(Database):
    """The state in an SQLite file in a folder."""

    is_shared = False

    def __init__(self, folder: Path, *, must_exist: bool = False, is_checked: bool = False) -> None:
        """Open the database in `folder`, or create it unless it `must_exist`; if `is_checked`, search it for damage."""
        self.path = folder / NAME
        self.place = str(self.path)
        if must_exist and not has_state(folder):
            raise _missing(self.path)
        make_private(folder)
        if self.path.exists() and self.path.stat().st_size:
            self._engine = _make_engine(self.path)
            try:
                self._form()  # before a pragma changes the file of another program
            finally:
                self.close()
        # WAL needs memory that all users of the file share, which machines with a common file system do not have.
        journal = "TRUNCATE" if shared_kind(folder) else "WAL"
        super().__init__(_make_engine(self.path, [f"journal_mode = {journal}", "synchronous = FULL"]))
        try:
            with self._explained():
                self.is_new = create_or_upgrade(self._engine, self.place)
            if is_checked:
                self.check("quick_check")
        except BaseException:
            self.close()
            raise
        self._file = _identity(self.path)

    def check_place(self) -> None:
        """Raise StateError if the file was replaced after it was opened; another process may use the new one."""
        if _identity(self.path) != self._file:
            raise StateError(f"{self.path}: was moved, replaced or deleted while this process used it; start it again")

    def check(self, how: str = "integrity_check") -> None:
        """Run SQLite's check `how`; `quick_check` leaves out the indexes. Raises StateError if the file is damaged."""
        with self.read() as connection:
            found = connection.exec_driver_sql(f"PRAGMA {how}(1)").scalar()
        if found != "ok":
            raise StateError(f"{self.path}: damaged ({found}); move it away and restore a backup: nothing was changed")

    def back_up(self, target: Path) -> None:
        """Copy the whole database to `target`, which must not exist; a failure leaves no file there."""
        draft = target.with_name(f".{target.name}.cachewatch-draft")  # a name that nobody else uses
        try:
            draft.unlink(missing_ok=True)  # of a run that was killed
            draft.touch()  # if that is refused, the system says why, and SQLite does not
            # VACUUM cannot run in a transaction, and does not flush the file that it writes.
            self._execute("VACUUM INTO ?", (str(draft),))
            _flush(draft)
            if os.path.lexists(target):
                raise StateError(f"{target}: already exists; choose another file name")
            draft.replace(target)
            _flush(target.parent)
        except OSError as error:
            raise StateError(f"{target}: {error.strerror}; nothing else was changed") from error
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)

    def tidy(self) -> None:
        """Move the write-ahead log into the database, so that it does not grow for ever."""
        self._execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _execute(self, statement: str, values: tuple[str, ...] = ()) -> None:
        engine = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        with self._explained(), engine.connect() as connection:
            connection.exec_driver_sql(statement, values)

    def _form(self) -> int | None:
        """Return the form of the tables; None if the file is empty. Raises StateError if another program wrote it."""
        with self.read() as connection:
            form = form_of(connection)
            if form is None and connection.exec_driver_sql("SELECT 1 FROM sqlite_master").first() is not None:
                raise StateError(f"{self.path}: is not a state of cachewatch; name another folder in `state:`")
        return form

    def _advise(self, error: DatabaseError) -> str:
        message = str(error.orig or error)
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF  # the higher bits only detail it
        with suppress(OSError):
            disk = os.statvfs(self.path.parent)
            if code == sqlite3.SQLITE_IOERR and disk.f_bavail * disk.f_frsize < _SCARCE_BYTES:
                code = sqlite3.SQLITE_FULL  # SQLite reports another error when its -shm file cannot grow
        advice = _ADVICE.get(code)
        return f"{message}; {advice}" if advice else message


class SqliteToRead(SqliteDatabase):
    """The state in an SQLite file, opened for reading only; it is neither created nor upgraded."""

    def __init__(self, folder: Path) -> None:
        """Open the database in `folder`. Raises StateError if it is missing, not readable, or of another version."""
        self.path = folder / NAME
        self.place = str(self.path)
        self.is_new = False
        if not has_state(folder):
            raise _missing(self.path)
        try:
            self.path.open("rb").close()
        except OSError as error:
            advice = "run this as the user that runs cachewatch, or let a group read the state"
            raise StateError(f"{self.path}: {error.strerror} for user {user_name(os.geteuid())}; {advice}") from error
        place = f"{self.path.absolute().as_uri()}?mode=ro"
        self._engine = _make_engine(
            self.path, creator=lambda: sqlite3.connect(place, uri=True, check_same_thread=False)
        )
        try:
            form = self._form()
            if form is None:
                raise _missing(self.path, "is empty")
            check_form(form, self.place)
        except BaseException:
            self.close()
            raise

    def _advise(self, error: DatabaseError) -> str:
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}:
            advice = "run this while the daemon runs, or as a user who may write there"
            return f"{error.orig}; to read it, SQLite needs {NAME}-shm beside it: {advice}"
        return super()._advise(error)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode, which identify the file; None if it is missing."""
    with suppress(FileNotFoundError, NotADirectoryError):
        about = path.stat()
        return about.st_dev, about.st_ino
    return None


def _missing(path: Path, problem: str = "there is no state yet") -> StateError:
    """Return the error that `path` has no state: `problem` or, if clones are beside it, that the state is lost."""
    advice = "run `cachewatch once` first"
    if any(path.parent.glob("sources/*.git")):
        problem, again = "the state is lost, but its clones are there", "which may report again what was reported"
        advice = f"restore a backup of it, or run `cachewatch once` to begin anew, {again}"
    return StateError(f"{path}: {problem}; {advice}")


def _make_engine(path: Path, pragmas: Iterable[str] = (), **options: Any) -> Engine:
    """Return an SQLAlchemy engine for the database at `path`; each new connection executes `_PRAGMAS` and `pragmas`."""
    # Connections stay open in a pool: SQLite copies its log into the database whenever the last one closes.
    engine = create_engine(f"sqlite:///{path}", pool_size=4, max_overflow=32, hide_parameters=True, **options)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        # A damaged character in a text is replaced, so that it makes no query fail.
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        for pragma in (*_PRAGMAS, *pragmas):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        if options.get("isolation_level") != "AUTOCOMMIT":
            connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writes") else "BEGIN")

    return engine


def open_database(state: StatePlace, *, must_exist: bool = False, is_checked: bool = False) -> Database:
    """Open the state for writing, or create it unless it `must_exist`; `is_checked` makes SQLite look for damage."""
    if isinstance(state, Path):
        return SqliteDatabase(state, must_exist=must_exist, is_checked=is_checked)
    return cast("Database", _in_database(state).open(must_exist=must_exist))


def open_to_read(state: StatePlace) -> Database:
    """Open the state for reading only; neither create nor upgrade it."""
    return SqliteToRead(state) if isinstance(state, Path) else cast("Database", _in_database(state).open_to_read())


def has_state(state: StatePlace) -> bool:
    """Return whether there is a state; True also if that cannot be found out."""
    if not isinstance(state, Path):
        return bool(_in_database(state).exists())
    try:
        return (state / NAME).exists()
    except OSError:
        return True


def _in_database(address: PostgresAddress) -> Any:
    state = extensions().hook.open_state(address=address)
    if state is None:
        raise StateError(lacking(f"a state at {address.url}", "shared_state"))
    return state


_SIGNATURE = 100  # bytes of the line that the holder writes into the lock file


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold the lock of the state in `folder` during the `with`. Raises AnotherInstance if another process holds it."""
    make_private(folder)
    path = folder / "lock"
    try:
        handle = open_lock(path)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}; fix that, or choose another folder with `state:`") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(handle, _SIGNATURE, 0).decode("ascii", "replace").strip("\0 \n") or "unknown"
            advice = "stop it, or wait until it is done"
            raise AnotherInstance(f"{folder}: process {holder} uses this state; {advice}") from error
        except OSError as error:  # Lustre that was mounted without `flock`, NFS without a lock server
            advice = "choose a local folder"
            raise StateError(f"{folder}: no locks on this file system ({error.strerror}); {advice}") from error
        # As long as any other: nothing is ever cut off.
        word = f"{os.getpid()} on {socket.gethostname()}".ljust(_SIGNATURE - 1).encode()[: _SIGNATURE - 1] + b"\n"
        try:
            os.pwrite(handle, word, 0)
        except OSError as error:
            raise StateError(f"{folder}: {error.strerror}; nothing was changed") from error
        yield
    finally:
        os.close(handle)
