"""The state in a PostgreSQL database, which several hosts may share.

Writers wait for each other as in SQLite, by a lock that the server releases when a transaction ends or its client is
gone. Readers see one state of everything, and block nobody. One host at a time has the lease and may write. Its number
grows whenever another host takes over: a host that was cut off has an old number, and so writes nothing.
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
    Column,
    ColumnElement,
    Connection,
    Engine,
    Integer,
    Interval,
    MetaData,
    Table,
    create_engine,
    event,
    func,
    literal,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import DatabaseError

from cachewatch.config.secrets import PostgresAddress
from cachewatch.errors import AnotherInstance, ConfigError, StateError
from cachewatch.store.database import LASTING, Database, bring_up, check_form, copy_rows, form_of
from cachewatch.store.queries import put_computed
from cachewatch.store.schema import Clock, Moment, Text, database_time, make_tables, utc_now

_UNREACHABLE = "the server cannot be reached, or ended the connection; what was confirmed is safe there"
_CERTIFICATE = (
    "check `sslmode` and `sslrootcert` in the address: the file of the authority that signed the server's certificate"
)
_CREDENTIALS = "check the user in `state:`, and `state_password_file:`"
# By the code of the error, or its class.
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


def advise(error: DatabaseError) -> str:
    """Return in one line what the server said, and what to do."""
    lines = str(error.orig or error).strip().splitlines()
    said = lines[0] if lines else type(error).__name__
    advice = _for_code(getattr(error.orig, "sqlstate", None)) or _for_text(str(error.orig), error)
    return f"{said}; {advice}" if advice else said


def _for_code(code: str | None) -> str | None:
    return next((_ADVICE[code[:length]] for length in (5, 3, 2) if code and code[:length] in _ADVICE), None)


def _for_text(text: str, error: DatabaseError) -> str | None:
    """Return the advice where the driver has no code: it has none for a connection that was not made."""
    if "certificate" in text:
        return _CERTIFICATE
    if "password" in text or "authentication" in text:
        return _CREDENTIALS
    if 'database "' in text and "does not exist" in text:
        return _ADVICE["3D"]
    return _UNREACHABLE if error.connection_invalidated or "connection" in text else None


# Of the one database, so that it neither moves nor is backed up.
leader_metadata = MetaData()
_leader = Table(
    "leader",
    leader_metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # one row: 1
    Column("owner", Text, nullable=False),  # HOST/PROCESS/NUMBER
    Column("until", Moment, nullable=False),  # by the database's clock
    Column("token", Integer, nullable=False),
)


def take(connection: Connection, owner: str) -> int:
    """Take the lease, or renew it, and return its number; raise AnotherInstance while another has it."""
    is_over = _leader.c.until <= database_time(connection)
    row = connection.execute(select(_leader, is_over.label("is_over"))).one_or_none()
    if row is not None and row.owner != owner and not row.is_over:
        raise AnotherInstance(f"{row.owner} works on this state; stop it, or wait until its lease is over")
    token = 1 if row is None else row.token + (row.owner != owner)
    put_computed(
        connection, _leader, {"id": 1}, {"owner": owner, "until": database_time(connection, LASTING), "token": token}
    )
    return int(token)


def give_back(connection: Connection, owner: str) -> None:
    """Let another take the lease at once."""
    connection.execute(update(_leader).filter_by(owner=owner).values(until=database_time(connection)))


def check(connection: Connection, token: int) -> None:
    """Raise StateError if another took over since the lease had this number."""
    row = connection.execute(select(_leader)).one_or_none()
    if row is None or row.token != token:
        raise StateError(f"{row.owner if row else 'nobody'} took over this state; this process stores nothing more")


def holder(connection: Connection) -> str | None:
    """Return who has the lease, unless it is over."""
    query = select(_leader.c.owner).where(_leader.c.until > database_time(connection))
    return connection.execute(query).scalar_one_or_none()


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
                check(connection, self._token)
            yield connection

    def lead(self, owner: str) -> None:
        """Take or renew the lease of the one who works on the state; raise AnotherInstance while another has it."""
        try:
            with super().write() as connection:
                self._token = take(connection, owner)
        except AnotherInstance as error:
            self._token = _NO_TOKEN
            raise AnotherInstance(f"{self.place}: {error}") from error

    def leader(self) -> str | None:
        """Return whose lease it is, if it is not over."""
        with self.read() as connection:
            return holder(connection)

    def step_down(self, owner: str) -> None:
        """Give the lease back."""
        self._token = _NO_TOKEN
        with super().write() as connection:
            give_back(connection, owner)

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


class ServerState:
    """The state at an address, which need not be there."""

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address

    def open(self, *, must_exist: bool, clock: Clock) -> Database:
        """Open it to work on it."""
        return PostgresDatabase(self._address, must_exist=must_exist, clock=clock)

    def open_to_read(self) -> Database:
        """Open it for who changes nothing."""
        return PostgresDatabase(self._address, may_write=False)

    def exists(self) -> bool:
        """Tell whether there is a state, perhaps one that we may not read."""
        engine = _make_engine(self._address, self._address.url)
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
    leader_metadata.create_all(connection)
