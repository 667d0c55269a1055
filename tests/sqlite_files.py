"""A SQLite file, open for a moment.

`sqlite3`'s own context manager commits but does not close: the files beside the database (`-wal`, `-shm`) then stay until
the garbage collector comes along, and vanish in the middle of whatever another thread does with the folder.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database; commit at the end, roll back after an exception, and close it in any case."""
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection


def flip_type(path: Path, table: str, column: str) -> None:
    """Turn over the bit of a row's header that makes bytes of text, or text of bytes: the content stays as it is."""
    with opened(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        number = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")].index(column)
    data = bytearray(path.read_bytes())
    start = (page - 1) * (size := int.from_bytes(data[16:18], "big"))
    while data[start] == 5:  # the first page below
        at = start + int.from_bytes(data[start + 12 : start + 14], "big")
        start = (int.from_bytes(data[at : at + 4], "big") - 1) * size
    at = start + int.from_bytes(data[start + 8 : start + 10], "big")
    for _ in ("size", "rowid", "size of the header", *range(number)):
        at = _behind(data, at)
    last = _behind(data, at) - 1
    assert data[last] >= 12, "neither text nor bytes"
    data[last] ^= 1
    path.write_bytes(data)


def _behind(data: bytearray, at: int) -> int:
    """Return where a number of SQLite's ends, whose last byte is below 128."""
    while data[at] & 128:
        at += 1
    return at + 1
