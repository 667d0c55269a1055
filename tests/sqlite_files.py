"""A SQLite file, open for a moment: `sqlite3`'s own context manager does not close it, so files beside it would stay."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database; commit at the end, roll back after an exception, and close it in any case."""
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection
