"""Write rows into the history index, in transactions of the caller; also remove it."""

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import astuple

from cachewatch.errors import AnotherInstance
from cachewatch.extensions.history.document_versions import ChainRevision
from cachewatch.extensions.history.schema_and_location import members, prefixes, unwritable
from cachewatch.extensions.history.spec_intervals import IndexedDocument, Interval, Task
from cachewatch.runtime.files_and_locks import open_lock

_TALLY = """INSERT INTO tally VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
SET added = added + excluded.added, removed = removed + excluded.removed, rebuilt = rebuilt + excluded.rebuilt"""


class Writer:
    """Writes results into the index through one connection."""

    def __init__(self, connection: sqlite3.Connection, *, has_specs: bool) -> None:
        """With `has_specs`, the table `spec` is already filled, and is updated; else `fill_specs` fills it later."""
        self._connection = connection
        self._known: dict[tuple[str, ...], int] = {}  # ids
        self._has_specs = has_specs

    def store(self, documents: Iterable[tuple[Task, IndexedDocument]]) -> None:
        """Write the results for documents and mark these as done; signatures get ids in sorted order."""
        results = list(documents)
        places = {}
        for signature in sorted({interval.signature for _, one in results for interval in one.intervals}):
            texts = {name: getattr(signature, name) for name in ("compiler", "os", "platform", "target")}
            lists = {name: json.dumps(getattr(signature, name)) for name in ("versions", "variants")}
            places[signature] = self._id("build", **lists, **texts), self._stacks(signature.stacks)
        start = self._connection.execute("SELECT coalesce(max(id), 0) + 1 FROM interval").fetchone()[0]
        # Rows are written together: a statement for each takes several times as long.
        rows: dict[str, list[tuple[object, ...]]] = {n: [] for n in ("document", "diagnostic", "step", "interval")}
        tallies: list[tuple[int, ...]] = []
        for task, result in results:
            key = self._id("tag", name=task.tag), self._id("package", name=task.package)
            if (d := result.document) is not None:
                rows["document"].append((*key, d.blob, d.revision, d.baseline, d.compiler_form))
            rows["diagnostic"] += [(*key, *each) for each in result.diagnostics]
            rows["step"] += [(*key, *astuple(step)) for step in result.steps]
            for i in self._new_intervals(task, result.intervals):
                number = start + len(rows["interval"])
                rows["interval"].append(
                    (number, *key, *places[i.signature], i.first, i.last, len(members(i.hashes)), i.hashes)
                )
                if self._has_specs:
                    found_by = [(prefix, number) for prefix in prefixes(i.hashes)]
                    self._connection.executemany("INSERT INTO spec VALUES (?, ?)", found_by)
            for revision, by_stacks in result.tallies:
                tallies += [(key[0], self._stacks(stacks), revision, *counts) for stacks, counts in by_stacks.items()]
        for name, some in rows.items():
            if some:
                marks = ", ".join("?" * len(some[0]))
                self._connection.executemany(f"INSERT OR REPLACE INTO {name} VALUES ({marks})", some)  # noqa: S608
        self._connection.executemany(_TALLY, tallies)
        self._connection.executemany("INSERT INTO unit VALUES (?)", [(task.name,) for task, _ in results])

    def _stacks(self, names: tuple[str, ...]) -> int:
        """Return the id of a set of stacks, and make sure that the table `stack` has its members."""
        number = self._id("stacks", names=json.dumps(names))
        self._connection.executemany("INSERT OR IGNORE INTO stack VALUES (?, ?)", [(number, name) for name in names])
        return number

    def _id(self, table: str, **values: str) -> int:
        """Return the id of the row of `table` with these values, which is inserted if it is new."""
        key = (table, *values.values())
        if key not in self._known:
            columns, marks = ", ".join(values), ", ".join(f":{column}" for column in values)
            self._connection.execute(f"INSERT OR IGNORE INTO {table}({columns}) VALUES ({marks})", values)  # noqa: S608
            query = f"SELECT id FROM {table} WHERE ({columns}) = ({marks})"  # noqa: S608
            self._known[key] = self._connection.execute(query, values).fetchone()[0]
        return self._known[key]

    def _new_intervals(self, task: Task, intervals: Iterable[Interval]) -> Iterator[Interval]:
        """Yield the intervals that need new rows; rows of `task.intervals` are closed, or deleted if they were divided."""
        opened = {(row.signature, row.first, row.hashes): row for row in task.intervals}
        for interval in intervals:
            row = opened.pop((interval.signature, interval.first, interval.hashes), None)
            if row is None:
                yield interval
            elif interval.last is not None:
                self._connection.execute("UPDATE interval SET last = ? WHERE id = ?", (interval.last, row.id))
        for row in opened.values():
            self._connection.execute("DELETE FROM interval WHERE id = ?", (row.id,))
            if self._has_specs:
                gone = [(prefix, row.id) for prefix in prefixes(row.hashes)]
                self._connection.executemany("DELETE FROM spec WHERE prefix = ? AND interval = ?", gone)


def fill_specs(connection: sqlite3.Connection) -> None:
    """Fill the table `spec` from all intervals, sorted by its key; that is faster and smaller than row by row."""
    connection.execute("DELETE FROM spec")
    connection.execute("CREATE TEMP TABLE unsorted(prefix, interval)")
    intervals = connection.execute("SELECT id, hashes FROM interval")
    rows = ((prefix, interval) for interval, hashes in intervals for prefix in prefixes(hashes))
    connection.executemany("INSERT INTO unsorted VALUES (?, ?)", rows)
    connection.execute("INSERT INTO spec SELECT * FROM unsorted ORDER BY 1, 2")
    connection.execute("DROP TABLE unsorted")


def common_length(connection: sqlite3.Connection, chain: Sequence[ChainRevision]) -> int:
    """Return how many revisions the index and `chain` have in common from the beginning."""
    rows = connection.execute('SELECT "commit" FROM revision ORDER BY n').fetchall()
    both = enumerate(zip(rows, chain, strict=False))
    return next((n for n, ((commit,), moment) in both if commit != moment.commit), min(len(rows), len(chain)))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock for writing the index at `path`. Raises AnotherInstance if another process holds it."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = open_lock(lock, mode=0o666)  # the umask determines who else may update the index
    except OSError as error:
        raise unwritable(error.filename or lock, error) from error
    try:
        # Not flock(), which workers forked from a killed build would still hold.
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise AnotherInstance(f"{path}: another process writes this index; wait until it is done") from error
    finally:
        os.close(handle)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit all changes at the end, or none if an error is raised."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        yield


def discard(path: Path) -> None:
    """Remove the index at `path` without reading it: it may be damaged."""
    with locked(path):
        for end in ("", "-wal", "-shm", "-journal"):
            path.with_name(path.name + end).unlink(missing_ok=True)
