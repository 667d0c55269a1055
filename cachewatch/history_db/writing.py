"""Write what was found of documents into the index; the caller begins and ends the transactions."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec.structs import astuple

from cachewatch.causes.night_causes import CountedCause, Night
from cachewatch.core.model import Signature
from cachewatch.history_db.hashes import prefixes
from cachewatch.history_db.indexed_document import IndexedDocument, Interval, OpenInterval, Tally, Task
from cachewatch.history_db.names import Numbers

_INTERVAL = (
    "INSERT INTO interval(tag, package, build, stacks, first, last, size, hashes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_TALLY = """INSERT INTO tally VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
SET added = added + excluded.added, removed = removed + excluded.removed, rebuilt = rebuilt + excluded.rebuilt"""


class Writer:
    """Writes documents through one connection."""

    def __init__(self, connection: sqlite3.Connection, *, has_specs: bool) -> None:
        """Keep the table `spec` right if it `has_specs` already; `fill_specs` fills it otherwise."""
        self._connection = connection
        self._numbers = Numbers(connection)
        self._has_specs = has_specs

    def forget(self) -> None:
        """Take note that a transaction was rolled back."""
        self._numbers.forget()

    def store(self, documents: Iterable[tuple[Task, IndexedDocument]]) -> None:
        """Write documents, which are done then. Signatures are numbered in their order, not as they were met."""
        found = list(documents)
        for signature in sorted({interval.signature for _, one in found for interval in one.intervals}):
            self._numbers.build(signature)
            self._numbers.stacks(signature.stacks)
        for task, one in found:
            self._store(task, one)
        self._connection.executemany("INSERT INTO unit VALUES (?)", [(task.name,) for task, _ in found])

    def store_causes(self, nights: Iterable[tuple[Night, Iterable[CountedCause]]]) -> None:
        """Write the causes of a run of steps, which is done then."""
        found = list(nights)
        for night, causes in found:
            self.add_causes(night.tag, [(night.revision, cause) for cause in causes])
        self._connection.executemany("INSERT OR IGNORE INTO unit VALUES (?)", [(night.name,) for night, _ in found])

    def add_causes(self, tag: str, causes: Iterable[tuple[int, CountedCause]]) -> None:
        """Write the causes of revisions that changed a tag."""
        number = self._numbers.tag(tag)
        rows = [(number, revision, *astuple(cause)) for revision, cause in causes]
        self._connection.executemany("INSERT INTO cause VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def add_nights(self, tag: str, nights: Iterable[tuple[int, bool]]) -> None:
        """Write which revisions changed a tag, and whether its dependency graph is recorded there."""
        number = self._numbers.tag(tag)
        self._connection.executemany(
            "INSERT OR REPLACE INTO night VALUES (?, ?, ?)", [(number, *night) for night in nights]
        )

    def add_tallies(self, tag: str, tallies: Iterable[Tally]) -> None:
        """Add to the tallies of a tag."""
        number = self._numbers.tag(tag)
        rows = [(number, self._numbers.stacks(t.stacks), t.revision, t.added, t.removed, t.rebuilt) for t in tallies]
        self._connection.executemany(_TALLY, rows)

    def _store(self, task: Task, one: IndexedDocument) -> None:
        key = self._numbers.tag(task.tag), self._numbers.package(task.package)
        write = self._connection.executemany
        if one.document is not None:
            d = one.document
            row = (*key, d.blob, d.revision, d.baseline, d.has_old_compilers)
            write("INSERT OR REPLACE INTO document VALUES (?, ?, ?, ?, ?, ?)", [row])
        write("INSERT OR REPLACE INTO diagnostic VALUES (?, ?, ?, ?)", [(*key, *each) for each in one.diagnostics])
        write(
            "INSERT INTO step VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(*key, *astuple(step)) for step in one.steps],
        )
        self.add_tallies(task.tag, one.tallies)
        self._store_intervals(key, task, one)

    def _store_intervals(self, key: tuple[int, int], task: Task, one: IndexedDocument) -> None:
        """Write new intervals, and change the rows of those that were open."""
        of_row: defaultdict[tuple[Signature, int], list[Interval]] = defaultdict(list)
        rows = {(row.signature, row.first): row for row in task.intervals}
        for interval in one.intervals:
            if (interval.signature, interval.first) in rows:
                of_row[interval.signature, interval.first].append(interval)
            else:
                self._insert(key, interval)
        for place, row in rows.items():
            self._change(key, row, of_row[place])

    def _change(self, key: tuple[int, int], row: OpenInterval, parts: list[Interval]) -> None:
        """Let a row that was open be the largest part of what it became; the others are new rows."""
        largest = max(parts, key=lambda part: (part.size, part.last is None))
        for part in parts:
            if part is not largest:
                self._insert(key, part)
        if largest.last is None and largest.hashes == row.hashes:
            return
        self._connection.execute(
            "UPDATE interval SET last = ?, size = ?, hashes = ? WHERE id = ?",
            (largest.last, largest.size, largest.hashes, row.id),
        )
        if self._has_specs:
            gone = prefixes(row.hashes) - prefixes(largest.hashes)
            remove_specs(self._connection, row.id, gone)

    def _insert(self, key: tuple[int, int], interval: Interval) -> None:
        signature = interval.signature
        values = (self._numbers.build(signature), self._numbers.stacks(signature.stacks), interval.first, interval.last)
        row = self._connection.execute(_INTERVAL, (*key, *values, interval.size, interval.hashes)).lastrowid
        if self._has_specs:
            add_specs(self._connection, int(row or 0), prefixes(interval.hashes))


def add_specs(connection: sqlite3.Connection, interval: int, found: Iterable[int]) -> None:
    """Let hashes with these prefixes lead to an interval."""
    connection.executemany("INSERT OR IGNORE INTO spec VALUES (?, ?)", [(prefix, interval) for prefix in found])


def remove_specs(connection: sqlite3.Connection, interval: int, found: Iterable[int]) -> None:
    """Let hashes with these prefixes not lead to an interval any more."""
    connection.executemany("DELETE FROM spec WHERE prefix = ? AND interval = ?", [(p, interval) for p in found])


def fill_specs(connection: sqlite3.Connection) -> None:
    """Fill the table `spec` from the intervals, in its own order, which is faster and smaller than row by row."""
    connection.execute("DELETE FROM spec")
    connection.execute("CREATE TEMP TABLE unsorted(prefix INTEGER, interval INTEGER)")
    connection.executemany("INSERT INTO unsorted VALUES (?, ?)", _all_specs(connection))
    connection.execute("INSERT INTO spec SELECT DISTINCT prefix, interval FROM unsorted ORDER BY prefix, interval")
    connection.execute("DROP TABLE unsorted")


def _all_specs(connection: sqlite3.Connection) -> Iterator[tuple[int, int]]:
    for interval, hashes in connection.execute("SELECT id, hashes FROM interval"):
        for prefix in prefixes(hashes):
            yield prefix, interval
