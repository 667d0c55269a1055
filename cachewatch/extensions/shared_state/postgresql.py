"""The state in a PostgreSQL database, which several hosts may share.

Writers wait for each other as in SQLite, by a lock that the server releases when a transaction ends or its client
disconnects. Readers block nobody. One host at a time leads. It writes through a single connection, whose session holds
a second lock; the server releases this lock when the session ends or is idle for 20 seconds. A host that loses the
connection loses both locks, and later writes by a host that no longer leads are refused.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import local
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DatabaseError

from cachewatch.config.value_types_and_secrets import PostgresAddress
from cachewatch.errors import AnotherInstance, ConfigError, StateError
from cachewatch.store.transactions_and_sqlite import (
    Database,
    SqliteDatabase,
    check_form,
    copy_rows,
    create_or_upgrade,
    form_of,
)

_UNREACHABLE = "the server cannot be reached, or ended the connection; what was confirmed is safe there"
_CERTIFICATE = (
    "check `sslmode` and `sslrootcert` in the address: the file of the authority that signed the server's certificate"
)
_CREDENTIALS = "check the user in `state:`, and `state_password_file:`"
# What to do, by the SQLSTATE code of an error or its first two or three characters.
_ADVICE = {
    "28": _CREDENTIALS,
    "3D": "create the database, and let the user own it",
    "42501": "let the user own the database, or create tables in it",
    "53100": "free some disk space on the server; nothing was lost",
    "53300": "let the server take more connections (`max_connections`)",
    "55P03": "another process is using it; try again",
    "25006": "this server is a standby, or read-only; use the primary",
    "25P03": "this process stopped for too long in the middle of a transaction; nothing of it was stored",
    "57P": "the server is stopping or starting; try again",
    "08": _UNREACHABLE,
    "XX": "the server's files are damaged; restore a backup",
}

# The keys of the two advisory locks: of the session that leads, two numbers; of a transaction that writes, one.
_LEADER = int.from_bytes(b"cach"), int.from_bytes(b"lead")
_WRITER = int.from_bytes(b"cachewat")
_HOLDERS = (
    "FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND (classid::bigint, objid::bigint) = (%s, %s)"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
# How long the leader's session, or a writing transaction, may be idle: a host that stopped must not block the others.
_LEADERS_PAUSE, _WRITERS_PAUSE = "20s", "15s"
# Long enough for the server to end the session of a process that ended.
_LEADERS_PATIENCE, _IS_LOCKED = "2s", "55P03"
# A host that is cut off is noticed within about half a minute, by it and by the server.
_NAME, _LONGEST_NAME = "cachewatch", 63
_CONNECTION = {
    "application_name": _NAME,
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
_SESSION = (
    "SET timezone = 'UTC'",
    "SET default_transaction_isolation = 'read committed'",  # a writer sees what the one before it stored
    "SET lock_timeout = '10s'",
    "SET idle_in_transaction_session_timeout = '60s'",  # of readers
    "SET tcp_keepalives_idle = 10",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 3",
    "SET tcp_user_timeout = '20s'",
    # A server may be set to lose what it confirmed; we are not.
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
)
_LOST = (
    "this process does not hold the lock of the state, which another one may have taken, and stores nothing; "
    "a pooler of connections must keep sessions"
)


class PostgresDatabase(Database):
    """The state's database on a PostgreSQL server."""

    is_shared = True

    def __init__(self, address: PostgresAddress, *, must_exist: bool = False, may_write: bool = True) -> None:
        """Connect; if `may_write`, upgrade the tables and, unless they `must_exist`, create them. Raises StateError."""
        self.place = address.url
        self._must_lead = False  # to write; the service must, a command need not
        self._times_taken = 0  # how often this process took the lock of the leader
        self._job = local()
        # The only connection for writing, for which writers wait: the lock of the leader is lost with it.
        self._writers = _make_engine(address, pool_size=1, max_overflow=0, pool_timeout=60)
        super().__init__(_make_engine(address, pool_size=4, max_overflow=32))
        try:
            with self._explained():
                form = _form_in(self._engine)
                if form is None and (must_exist or not may_write):
                    raise StateError(f"{self.place}: there is no state yet; run `cachewatch once` first")
                if form is not None and not may_write:
                    check_form(form, self.place)
                self.is_new = may_write and create_or_upgrade(self._engine, self.place)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection in a transaction. Raises StateError if this host lost the lead, even if it leads again."""
        with self._writing(self._writers) as connection:
            is_late = getattr(self._job, "times_taken", self._times_taken) != self._times_taken
            if is_late or (self._must_lead and not _leads(connection)):
                raise StateError(f"{self.place}: {_LOST}")
            yield connection

    @contextmanager
    def job(self) -> Iterator[None]:
        """Make `write` fail in this thread for the rest of the block if this host loses the lead, even for a while."""
        self._job.times_taken = self._times_taken
        try:
            yield
        finally:
            del self._job.times_taken

    def lead(self, owner: str) -> bool:
        """Take the lead as `owner`; return False if it was ours. Raises AnotherInstance if another process leads."""
        self._must_lead = True
        try:
            with self._explained(), self._writers.begin() as connection:
                if _leads(connection):
                    return False
                name = f"{_NAME} {owner}"[:_LONGEST_NAME]
                for setting, value in (("idle_session_timeout", _LEADERS_PAUSE), ("application_name", name)):
                    connection.exec_driver_sql("SELECT set_config(%s, %s, false)", (setting, value))
                connection.exec_driver_sql("SELECT set_config('lock_timeout', %s, true)", (_LEADERS_PATIENCE,))
                connection.exec_driver_sql("SELECT pg_advisory_lock(%s, %s)", _LEADER)
                self._times_taken += 1  # before any other thread gets this connection
        except StateError as error:
            if getattr(getattr(error.__cause__, "orig", None), "sqlstate", None) != _IS_LOCKED:
                raise
            who = self.leader() or "nobody"
            raise AnotherInstance(f"{self.place}: {who} works on this state; stop it, or wait until it ends") from error
        return True

    def leader(self) -> str | None:
        """Return who leads, the `owner` that some process passed to `lead`; None if nobody leads."""
        query = f"SELECT application_name FROM pg_stat_activity WHERE pid = (SELECT pid {_HOLDERS})"  # noqa: S608
        with self.read() as connection:
            name = connection.exec_driver_sql(query, _LEADER).scalar_one_or_none()
        return None if name is None else str(name).removeprefix(f"{_NAME} ")

    def close(self) -> None:
        """Close all connections; this releases the lock."""
        self._writers.dispose()
        super().close()

    def back_up(self, target: Path) -> None:
        """Copy the whole database to `target` as an SQLite database; `target` must not exist."""
        with (
            TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as folder,
            closing(SqliteDatabase(Path(folder))) as copy,
        ):
            with self.read() as source, copy.write() as connection:
                copy_rows(source, connection)
            copy.back_up(target)

    def _advise(self, error: DatabaseError) -> str:
        """Return the first line of the server's message on `error`, and advice if there is any for it."""
        text, code = str(error.orig or error), getattr(error.orig, "sqlstate", None) or ""
        message = (text.strip().splitlines() or [type(error).__name__])[0]
        advice = next((_ADVICE[code[:length]] for length in (5, 3, 2) if code[:length] in _ADVICE), "")
        if not advice:  # the driver has no code for a connection that was not made
            if "certificate" in text:
                advice = _CERTIFICATE
            elif "password" in text or "authentication" in text:
                advice = _CREDENTIALS
            elif 'database "' in text and "does not exist" in text:
                advice = _ADVICE["3D"]
            elif error.connection_invalidated or "connection" in text:
                advice = _UNREACHABLE
        return f"{message}; {advice}" if advice else message


class ServerState(Struct, frozen=True):
    """The state in the PostgreSQL database at an address; the state may not exist yet."""

    address: PostgresAddress

    def open(self, *, must_exist: bool) -> Database:
        """Connect to read and write; create a missing state or, if it `must_exist`, raise StateError."""
        return PostgresDatabase(self.address, must_exist=must_exist)

    def open_to_read(self) -> Database:
        """Connect only to read, without creating or upgrading tables."""
        return PostgresDatabase(self.address, may_write=False)

    def exists(self) -> bool:
        """Tell whether there is a state; return True if the server does not answer."""
        engine = _make_engine(self.address)
        try:
            return _form_in(engine) is not None
        except DatabaseError:
            return True
        finally:
            engine.dispose()


def _make_engine(address: PostgresAddress, **pool: Any) -> Engine:
    url = make_url(address.url).set(drivername="postgresql+psycopg")
    url = url.update_query_dict({name: str(value) for name, value in _CONNECTION.items() if name not in url.query})
    try:
        if address.password is not None:
            url = url.set(password=address.password.reveal())
        engine = create_engine(url, pool_pre_ping=True, hide_parameters=True, **pool)
    except ConfigError as error:
        raise StateError(f"state_password: {error}") from error
    except ModuleNotFoundError as error:
        raise StateError(f"{address.url}: requires psycopg; install cachewatch[postgresql]") from error
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: Any, _: object) -> None:
    connection.autocommit = True
    for statement in _SESSION:
        connection.execute(statement)
    connection.autocommit = False


def _begin(connection: Connection) -> None:
    if connection.get_execution_options().get("writes"):
        connection.exec_driver_sql(
            "SELECT set_config('idle_in_transaction_session_timeout', %s, true), pg_advisory_xact_lock(%s)",
            (_WRITERS_PAUSE, _WRITER),
        )
    else:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def _form_in(engine: Engine) -> int | None:
    with engine.connect() as connection:
        return form_of(connection)


def _leads(connection: Connection) -> bool:
    """Tell whether the session of this connection holds the leader's lock."""
    query = f"SELECT EXISTS (SELECT {_HOLDERS} AND pid = pg_backend_pid())"
    return bool(connection.exec_driver_sql(query, _LEADER).scalar_one())
