"""The database of the state, whichever it is: `sqlite.py` and `postgresql.py` have what differs.

A write is alone: it waits until any other is done. A read sees one state of everything, and holds nobody up.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, literal
from sqlalchemy.exc import DatabaseError, SQLAlchemyError

from cachewatch.errors import StateError
from cachewatch.store.column_types import Moment
from cachewatch.store.timestamps import Clock

__all__ = ["Connection", "Database", "after_commit"]


class Database(ABC):
    """The state's database; each `read` and `write` is one transaction."""

    place: str  # where it is, for messages; without secrets
    is_new: bool
    is_shared: bool  # by hosts, so that a lock of one of them says nothing of the others
    mended: tuple[str, ...] = ()  # names of values that were damaged, and were put right when it was opened

    def __init__(self, engine: Engine, clock: Clock) -> None:
        """Work with what `engine` connects to; statements know the time by `clock`."""
        self.clock = clock
        self._engine = engine.execution_options(database_time=self._time)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Offer a connection that sees one state of everything."""
        with self._explained(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Offer a connection whose changes are all there at the end, or none; then do what is to follow them."""
        following: list[Callable[[], None]] = []
        engine = self._engine.execution_options(writes=True, following=following)
        with self._explained(), engine.begin() as connection:
            yield connection
        for act in following:
            act()

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    def lead(self, owner: str) -> None:  # noqa: B027  where hosts share nothing, the lock of the folder is enough
        """Be the process that works on the state, for a while; raise AnotherInstance while another is.

        After the first call, `write` raises StateError if another took over.
        """

    def leader(self) -> str | None:
        """Return which process works on the state, if hosts share it and one does."""
        return None

    def step_down(self, owner: str) -> None:  # noqa: B027
        """Let another process work on the state at once."""

    def check_place(self) -> None:  # noqa: B027  a server keeps what it has open
        """Raise StateError if the state was moved, replaced or deleted since it was opened."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many bytes the database takes."""

    @abstractmethod
    def check(self) -> None:
        """Raise StateError if the files of the database are damaged."""

    @abstractmethod
    def back_up(self, target: Path) -> None:
        """Copy the whole database to `target`, which must not exist."""

    @abstractmethod
    def tidy(self) -> None:
        """Do what the database needs now and then, so that it does not grow for ever."""

    @abstractmethod
    def _advise(self, error: DatabaseError) -> str:
        """Return what is wrong, and what to do."""

    def _time(self, later: timedelta) -> ColumnElement[Any]:
        """Return what the database's own clock will say so much later."""
        return literal(self.clock() + later, Moment())

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DatabaseError as error:
            raise StateError(f"{self.place}: {self._advise(error)}") from error
        except SQLAlchemyError as error:
            raise StateError(f"{self.place}: {error}") from error


def after_commit(connection: Connection, act: Callable[[], None]) -> None:
    """Let `act` follow the commit of a `write`, such as a line in the log: what is rolled back did not happen."""
    connection.get_execution_options()["following"].append(act)
