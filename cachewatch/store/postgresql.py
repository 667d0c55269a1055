"""The state in a PostgreSQL database, which several hosts may share.

Writers wait for each other as in SQLite, by a lock that the server gives back when a transaction ends, and takes
from a host that stops in the middle of one. Readers see one state of everything, and hold nobody up.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import (
    TIMESTAMP,
    URL,
    ColumnElement,
    Connection,
    Engine,
    Interval,
    create_engine,
    event,
    func,
    literal,
    make_url,
)
from sqlalchemy.exc import DatabaseError

from cachewatch.config.state_address import PostgresAddress
from cachewatch.errors import AnotherInstance, ConfigError, StateError
from cachewatch.store import leader_lease
from cachewatch.store.copying import copy_rows
from cachewatch.store.database import Database
from cachewatch.store.migrations import bring_up, check_form, form_of
from cachewatch.store.postgresql_errors import advise
from cachewatch.store.schema import make_tables
from cachewatch.store.timestamps import Clock, utc_now

_NO_TOKEN = 0  # no lease has that number
# Of the advisory lock of writers: "cachewat".
_LOCK = int.from_bytes(b"cachewat")
# The server ends a transaction of a writer that did nothing for so long: a host that stopped there must hold up the
# others for less than its lease.
_WRITERS_PAUSE = "15s"
# A host that is cut off is noticed within about half a minute, by it and by the server.
_CONNECTION = {
    "application_name": "cachewatch",
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
    # A server may be set to lose what it confirmed; we are not.
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
)


class PostgresDatabase(Database):
    """The state's database on a server."""

    is_shared = True

    def __init__(
        self,
        address: PostgresAddress,
        *,
        must_exist: bool = False,
        may_write: bool = True,
        clock: Clock = utc_now,
    ) -> None:
        """Open the database, and make its tables if there are none and they need not exist.

        Raises StateError if it cannot be used.
        """
        self.place = address.url
        self._has_own_clock = clock is utc_now
        self._token: int | None = None  # of the lease; none if this process never asked for it, such as a command
        super().__init__(_make_engine(address, self.place), clock)
        try:
            with self._explained():
                self._open(must_exist=must_exist or not may_write, may_write=may_write)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Offer a connection whose changes are all there at the end, or none; refuse it to who leads no more."""
        with super().write() as connection:
            if self._token is not None:
                leader_lease.check(connection, self._token)
            yield connection

    def lead(self, owner: str) -> None:
        """Take or renew the lease of the one who works on the state; raise AnotherInstance while another has it."""
        try:
            with super().write() as connection:
                self._token = leader_lease.take(connection, owner)
        except AnotherInstance as error:
            self._token = _NO_TOKEN
            raise AnotherInstance(f"{self.place}: {error}") from error

    def leader(self) -> str | None:
        """Return whose lease it is, if it is not over."""
        with self.read() as connection:
            return leader_lease.holder(connection)

    def step_down(self, owner: str) -> None:
        """Give the lease back."""
        self._token = _NO_TOKEN
        with super().write() as connection:
            leader_lease.give_back(connection, owner)

    @property
    def size(self) -> int:
        """How many bytes the database takes."""
        with self.read() as connection:
            return int(connection.execute(func.pg_database_size(func.current_database()).select()).scalar_one())

    def check(self) -> None:
        """Do nothing: the server looks at its own files, if it has checksums."""

    def back_up(self, target: Path) -> None:
        """Copy the whole database to `target`, an SQLite database; it must not exist."""
        from cachewatch.store.sqlite import SqliteDatabase  # noqa: PLC0415  who makes no backup needs one database

        with (
            TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as folder,
            closing(SqliteDatabase(Path(folder))) as copy,
        ):
            with self.read() as source, copy.write() as connection:
                copy_rows(source, connection)
            copy.back_up(target)

    def tidy(self) -> None:
        """Do nothing: the server does it."""

    def _open(self, *, must_exist: bool, may_write: bool) -> None:
        form = _form_in(self._engine)
        if form is None and must_exist:
            raise StateError(f"{self.place}: there is no state yet; run `cachewatch once` first")
        if form is not None and not may_write:
            check_form(form, self.place)
        self.is_new = may_write and bring_up(self._engine, self.place, _make)

    def _advise(self, error: DatabaseError) -> str:
        return advise(error)

    def _time(self, later: timedelta) -> ColumnElement[Any]:
        """Return what the server's clock will say so much later; tests have a clock of their own."""
        if not self._has_own_clock:
            return super()._time(later)
        return func.clock_timestamp(type_=TIMESTAMP(timezone=True)) + literal(later, Interval())


def has_tables(address: PostgresAddress) -> bool:
    """Tell whether there is a state on the server, perhaps one that we may not read."""
    engine = _make_engine(address, address.url)
    try:
        return _form_in(engine) is not None
    except DatabaseError:
        return True
    finally:
        engine.dispose()


def _make_engine(address: PostgresAddress, place: str) -> Engine:
    try:
        engine = create_engine(_url(address), pool_size=4, max_overflow=32, pool_pre_ping=True, hide_parameters=True)
    except ModuleNotFoundError as error:
        raise StateError(f"{place}: requires psycopg; install cachewatch[postgresql]") from error
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _url(address: PostgresAddress) -> URL:
    url = make_url(address.url).set(drivername="postgresql+psycopg")
    missing = {name: str(value) for name, value in _CONNECTION.items() if name not in url.query}
    url = url.update_query_dict(missing)
    try:
        return url if address.password is None else url.set(password=address.password.reveal())
    except ConfigError as error:
        raise StateError(f"state_password: {error}") from error


def _prepare(connection: Any, _: object) -> None:
    connection.autocommit = True
    for statement in _SESSION:
        connection.execute(statement)
    connection.autocommit = False


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("writes"):
        connection.exec_driver_sql(
            "SELECT set_config('idle_in_transaction_session_timeout', %s, true), pg_advisory_xact_lock(%s)",
            (_WRITERS_PAUSE, _LOCK),
        )
    else:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def _form_in(engine: Engine) -> int | None:
    with engine.connect() as connection:
        return form_of(connection)


def _make(connection: Connection) -> None:
    make_tables(connection)
    leader_lease.leader_metadata.create_all(connection)
