"""The database of the state (SQLite or PostgreSQL): transactions, the version (form) of its tables, and copying.

`sqlite_and_process_lock.py` and `extensions/shared_state/postgresql.py` implement the differences. A write is
exclusive: it waits until any other is done. A read blocks nobody. The form of the tables is in `alembic_version`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Integer, Table, func, insert, inspect, select
from sqlalchemy.exc import DatabaseError, SQLAlchemyError

from cachewatch.errors import StateError
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
        """Make this process (`owner`) lead a shared state; return True if it just began to. Raises AnotherInstance."""
        return False

    def job(self) -> AbstractContextManager[None]:
        """In a `with`, make `write` of this thread raise StateError if another process may have led since it began."""
        return nullcontext()

    def leader(self) -> str | None:
        """Return the process that leads a shared state; None if no process leads it or the state is not shared."""
        return None

    def check_place(self) -> None:  # noqa: B027  a server keeps what it has open
        """Raise StateError if the state was moved, replaced or deleted since it was opened."""

    @abstractmethod
    def check(self) -> None:
        """Raise StateError if the files of the database are damaged."""

    @abstractmethod
    def back_up(self, target: Path) -> None:
        """Copy the whole database to `target`, which must not exist."""

    @abstractmethod
    def tidy(self) -> None:
        """Do regular maintenance that keeps the database from growing."""

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
    """Return the form of the tables; None if there are no tables of cachewatch, 0 if they are older than form 1."""
    tables = set(inspect(connection).get_table_names())
    if not tables >= {"cursors", "digests", "deliveries"}:  # which every form has
        return None
    if _VERSION not in tables:
        return 0
    return int(connection.exec_driver_sql(f"SELECT version_num FROM {_VERSION}").scalar_one())  # noqa: S608


def check_form(form: int, place: str) -> None:
    """Raise StateError, with advice, if the state at `place` has a `form` other than that of this cachewatch."""
    if form == schema.FORM:
        return
    advice = "use the cachewatch that wrote it, or name another place in `state:` to begin a new one"
    if 0 < form < schema.FORM:
        advice = "make a backup with the version that wrote it; `cachewatch once` or the daemon of this one upgrades it"
    raise StateError(f"{place}: has form {form}, and this cachewatch reads form {schema.FORM}; {advice}")


def create_or_upgrade(engine: Engine, place: str) -> bool:
    """Create or upgrade the tables in one transaction; return whether they were missing. `place`: for errors."""
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
