"""Write rows into the history index, and take back revisions that a force-push removed from the branch.

The caller begins and ends the transactions.
"""

import fcntl
import os
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import astuple

from cachewatch.core.model import CompilerForm, Signature
from cachewatch.errors import AnotherInstance
from cachewatch.extensions.causes.rebuilds import CountedCause, Night
from cachewatch.extensions.history.document_versions import (
    ChainRevision,
    DocumentVersions,
    Version,
    find_versions,
    first_parents,
)
from cachewatch.extensions.history.read import IndexPoint, as_text
from cachewatch.extensions.history.schema import (
    check_may_be_removed,
    explained,
    make_folder,
    open_for_reading,
    unwritable,
)
from cachewatch.extensions.history.values import (
    BYTES,
    PREFIX_BYTES,
    IndexedDocument,
    Interval,
    Numbers,
    OpenInterval,
    StackTally,
    Task,
    pack,
    prefixes,
    unpack,
)
from cachewatch.git.repository import Repository
from cachewatch.runtime.files import open_lock

_TALLY = """INSERT INTO tally VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
SET added = added + excluded.added, removed = removed + excluded.removed, rebuilt = rebuilt + excluded.rebuilt"""

# SQLite cuts the prefixes out itself; of rows with more hashes, it would copy all of them for each one.
_MOST_AT_ONCE = 1000
_SPECS = f"""INSERT OR IGNORE INTO spec
    SELECT substr(hashes, start, {PREFIX_BYTES}), id FROM interval CROSS JOIN place
    WHERE start < {BYTES} * size AND size <= {_MOST_AT_ONCE} AND typeof(hashes) = 'blob' ORDER BY 1, 2"""  # noqa: S608  our own numbers


class Writer:
    """Writes documents through one connection."""

    def __init__(self, connection: sqlite3.Connection, *, has_specs: bool) -> None:
        """Keep the table `spec` right if it `has_specs` already; `fill_specs` fills it otherwise."""
        self._connection = connection
        self._numbers = Numbers(connection)
        self._has_specs = has_specs

    def store(self, documents: Iterable[tuple[Task, IndexedDocument]]) -> None:
        """Write documents, which are done then. Signatures are numbered in their order, not as they were met."""
        found = list(documents)
        numbers = self._numbers
        places = {
            signature: (numbers.build(signature), numbers.stacks(signature.stacks))
            for signature in sorted({interval.signature for _, one in found for interval in one.intervals})
        }
        rows = _Rows(places, self._connection.execute("SELECT coalesce(max(id), 0) + 1 FROM interval").fetchone()[0])
        for task, one in found:
            rows.add((numbers.tag(task.tag), numbers.package(task.package)), one)
            self._add_intervals(rows, task, one)
        self._write(rows)
        tallies: defaultdict[str, list[StackTally]] = defaultdict(list)
        for task, one in found:
            tallies[task.tag] += one.tallies
        for tag, of_tag in tallies.items():
            self._add_tallies(tag, of_tag)
        self._connection.executemany("INSERT INTO unit VALUES (?)", [(task.name,) for task, _ in found])

    def store_causes(self, nights: Iterable[tuple[Night, Iterable[CountedCause]]]) -> None:
        """Write the causes of a run of steps, which is done then."""
        found = list(nights)
        for night, causes in found:
            tag = self._numbers.tag(night.tag)
            rows = [(tag, night.revision, *astuple(cause)) for cause in causes]
            self._connection.executemany("INSERT INTO cause VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        self._connection.executemany("INSERT OR IGNORE INTO unit VALUES (?)", [(night.name,) for night, _ in found])

    def add_nights(self, tag: str, nights: Iterable[tuple[int, bool]]) -> None:
        """Write which revisions changed a tag, and whether its dependency graph is recorded there."""
        number = self._numbers.tag(tag)
        self._connection.executemany(
            "INSERT OR REPLACE INTO night VALUES (?, ?, ?)", [(number, *night) for night in nights]
        )

    def _add_tallies(self, tag: str, tallies: Iterable[StackTally]) -> None:
        """Add to the tallies of a tag."""
        number, stacks = self._numbers.tag(tag), self._numbers.stacks
        sums: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
        for tally in tallies:
            counts = sums[stacks(tally.stacks), tally.revision]
            counts[0] += tally.added
            counts[1] += tally.removed
            counts[2] += tally.rebuilt
        self._connection.executemany(_TALLY, [(number, *place, *counts) for place, counts in sorted(sums.items())])

    def _add_intervals(self, rows: "_Rows", task: Task, one: IndexedDocument) -> None:
        """Take in new intervals, and change the rows of those that were open."""
        if not task.intervals:
            rows.add_intervals(one.intervals)
            return
        of_row: defaultdict[tuple[Signature, int], list[Interval]] = defaultdict(list)
        opened = {(row.signature, row.first): row for row in task.intervals}
        for interval in one.intervals:
            of_row[interval.signature, interval.first].append(interval)
        for place, intervals in of_row.items():
            if place in opened:
                intervals.remove(self._change(opened[place], intervals))
            rows.add_intervals(intervals)

    def _change(self, row: OpenInterval, parts: Sequence[Interval]) -> Interval:
        """Let a row that was open be the largest part of what it became, and return that; the others are new rows."""
        largest = max(parts, key=lambda part: (part.size, part.last is None))
        if largest.last is None and largest.hashes == row.hashes:
            return largest
        self._connection.execute(
            "UPDATE interval SET last = ?, size = ?, hashes = ? WHERE id = ?",
            (largest.last, largest.size, largest.hashes, row.id),
        )
        if self._has_specs:
            gone = prefixes(row.hashes) - prefixes(largest.hashes)
            remove_specs(self._connection, row.id, gone)
        return largest

    def _write(self, rows: "_Rows") -> None:
        write = self._connection.executemany
        write("INSERT OR REPLACE INTO document VALUES (?, ?, ?, ?, ?, ?)", rows.documents)
        write("INSERT OR REPLACE INTO diagnostic VALUES (?, ?, ?, ?)", rows.diagnostics)
        write("INSERT INTO step VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows.steps)
        write("INSERT INTO interval VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows.intervals)
        if self._has_specs:
            for number, *_, hashes in rows.intervals:
                add_specs(self._connection, number, prefixes(hashes))


class _Rows:
    """Rows to write together: a statement a row takes several times as long."""

    def __init__(self, places: Mapping[Signature, tuple[int, int]], start: int) -> None:
        """`places` has the numbers of signatures, and `start` is that of the first new interval."""
        self.documents: list[tuple[object, ...]] = []
        self.diagnostics: list[tuple[object, ...]] = []
        self.steps: list[tuple[object, ...]] = []
        self.intervals: list[tuple[int, int, int, int, int, int, int | None, int, bytes | str]] = []
        self._places = places
        self._start = start
        self._key = (0, 0)

    def add(self, key: tuple[int, int], one: IndexedDocument) -> None:
        """Take in all of a document but its intervals."""
        self._key = key
        d = one.document
        if d is not None:
            self.documents.append((*key, d.blob, d.revision, d.baseline, d.compiler_form))
        self.diagnostics += [(*key, *each) for each in one.diagnostics]
        self.steps += [
            (*key, s.revision, s.added, s.removed, s.rebuilt, s.is_compiler_unknown, s.is_there) for s in one.steps
        ]

    def add_intervals(self, intervals: Iterable[Interval]) -> None:
        """Take in new intervals of that document."""
        key, places = self._key, self._places
        self.intervals += [
            (number, *key, *places[i.signature], i.first, i.last, i.size, i.hashes)
            for number, i in enumerate(intervals, self._start + len(self.intervals))
        ]


def add_specs(connection: sqlite3.Connection, interval: int, found: Iterable[bytes]) -> None:
    """Let hashes with these prefixes lead to an interval."""
    connection.executemany("INSERT OR IGNORE INTO spec VALUES (?, ?)", [(prefix, interval) for prefix in found])


def remove_specs(connection: sqlite3.Connection, interval: int, found: Iterable[bytes]) -> None:
    """Let hashes with these prefixes not lead to an interval any more."""
    connection.executemany("DELETE FROM spec WHERE prefix = ? AND interval = ?", [(p, interval) for p in found])


def fill_specs(connection: sqlite3.Connection) -> None:
    """Fill the table `spec` from the intervals, in its own order, which is faster and smaller than row by row."""
    connection.execute("DELETE FROM spec")
    connection.execute("CREATE TEMP TABLE place(start INTEGER PRIMARY KEY)")
    connection.executemany("INSERT INTO place VALUES (?)", [(1 + BYTES * n,) for n in range(_MOST_AT_ONCE)])
    connection.execute(_SPECS)
    connection.execute("DROP TABLE place")
    query = "SELECT id, hashes FROM interval WHERE size > ? OR typeof(hashes) = 'text'"
    for interval, hashes in connection.execute(query, (_MOST_AT_ONCE,)):
        add_specs(connection, interval, sorted(prefixes(hashes)))


# Tells how a blob writes compilers.
FormOf = Callable[[str, str, str], CompilerForm]


def common_length(connection: sqlite3.Connection, chain: Sequence[ChainRevision]) -> int:
    """Return how many of the revisions in the index are the first ones of `chain`."""
    rows = connection.execute('SELECT "commit" FROM revision ORDER BY n').fetchall()
    for place, ((commit,), moment) in enumerate(zip(rows, chain, strict=False)):
        if commit != moment.commit:
            return place
    return min(len(rows), len(chain))


def cut(
    connection: sqlite3.Connection, newest: int, versions: Callable[[int], Sequence[DocumentVersions]], form_of: FormOf
) -> None:
    """Bring the index back to revision number `newest`, or to an earlier one up to which everything was indexed.

    `versions` finds those up to a revision. The caller begins and ends the transaction.
    """
    indexed = connection.execute("SELECT indexed FROM progress").fetchone()[0]
    _remember(connection, newest)
    newest = min(newest, indexed)
    _cut_intervals(connection, newest)
    for table in ("step", "tally", "night", "cause"):
        connection.execute(f"DELETE FROM {table} WHERE revision > ?", (newest,))  # noqa: S608  our own names
    _cut_documents(connection, newest, versions, form_of)
    connection.execute("DELETE FROM diagnostic WHERE revision > ?", (newest,))
    connection.execute("DELETE FROM unit")
    connection.execute("DELETE FROM revision WHERE n > ?", (newest,))
    connection.execute("UPDATE progress SET indexed = ?", (newest,))


def _remember(connection: sqlite3.Connection, newest: int) -> None:
    connection.execute('INSERT OR REPLACE INTO rewritten SELECT "commit", time, n FROM revision WHERE n > ?', (newest,))


def _cut_intervals(connection: sqlite3.Connection, newest: int) -> None:
    """Delete what came later, and open what ended later."""
    for number, hashes in connection.execute("SELECT id, hashes FROM interval WHERE first > ?", (newest,)).fetchall():
        remove_specs(connection, number, prefixes(hashes))
    connection.execute("DELETE FROM interval WHERE first > ?", (newest,))
    reopened = connection.execute(
        "SELECT tag, package FROM interval WHERE last > ? GROUP BY 1, 2", (newest,)
    ).fetchall()
    connection.execute("UPDATE interval SET last = NULL WHERE last > ?", (newest,))
    for tag, package in reopened:
        _merge_open(connection, tag, package)


def _merge_open(connection: sqlite3.Connection, tag: int, package: int) -> None:
    """Make one row of the open rows of a document that are alike: they were parted when some of their specs went."""
    alike: defaultdict[tuple[int, int, int], list[tuple[int, bytes | str]]] = defaultdict(list)
    query = "SELECT build, stacks, first, id, hashes FROM interval WHERE package = ? AND tag = ? AND last IS NULL"
    for build, stacks, first, number, hashes in connection.execute(query, (package, tag)):
        alike[build, stacks, first].append((number, hashes))
    for rows in alike.values():
        if len(rows) > 1:
            _merge(connection, rows)


def _merge(connection: sqlite3.Connection, rows: Sequence[tuple[int, bytes | str]]) -> None:
    (kept, _), *others = rows
    together = [one for _, hashes in rows for one in unpack(hashes)]
    connection.execute("UPDATE interval SET size = ?, hashes = ? WHERE id = ?", (len(together), pack(together), kept))
    for number, hashes in others:
        remove_specs(connection, number, prefixes(hashes))
        add_specs(connection, kept, prefixes(hashes))
        connection.execute("DELETE FROM interval WHERE id = ?", (number,))


def _cut_documents(
    connection: sqlite3.Connection, newest: int, versions: Callable[[int], Sequence[DocumentVersions]], form_of: FormOf
) -> None:
    """Let each document be again what its last readable version was then."""
    query = """SELECT tag.name, package.name, tag, package FROM document JOIN tag ON tag.id = tag
        JOIN package ON package.id = package WHERE revision > ?"""
    affected = {(tag, package): key for tag, package, *key in connection.execute(query, (newest,))}
    if not affected:
        return
    found: Mapping[tuple[str, str], Sequence[Version]] = {
        (one.tag, one.package): one.versions for one in (versions(newest) if newest >= 0 else ())
    }
    for names, (tag, package) in affected.items():
        last = _last_readable(connection, tag, package, found.get(names, ()))
        if last is None:
            connection.execute("DELETE FROM document WHERE tag = ? AND package = ?", (tag, package))
        else:
            form = form_of(*names, last.blob) if last.blob is not None else CompilerForm.NEW
            connection.execute(
                "UPDATE document SET blob = ?, revision = ?, old_compilers = ? WHERE tag = ? AND package = ?",
                (last.blob, last.revision, form, tag, package),
            )


def _last_readable(
    connection: sqlite3.Connection, tag: int, package: int, versions: Sequence[Version]
) -> Version | None:
    query = "SELECT revision FROM diagnostic WHERE tag = ? AND package = ?"
    unread = {revision for (revision,) in connection.execute(query, (tag, package))}
    readable = [version for version in versions if version.revision not in unread]
    return readable[-1] if readable else None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Be the only process that writes the index at `path`."""
    make_folder(path)
    lock = path.with_name(f"{path.name}.lock")
    try:
        # The umask says who else may update the index.
        handle = open_lock(lock, mode=0o666)
    except OSError as error:
        raise unwritable(lock, error) from error
    try:
        # Not flock(), which the workers that were forked from a killed build would go on holding.
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise AnotherInstance(f"{path}: another process writes this index; wait until it is done") from error
    finally:
        os.close(handle)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Let all changes be there at the end, or none."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite ends it itself where the disk is full
            connection.execute("ROLLBACK")
        raise


class IndexStatus(Struct, frozen=True):
    """How far an index is."""

    path: str
    bytes: int
    indexed: IndexPoint | None  # None if no build was ever complete
    newest: IndexPoint | None  # None in an empty repository
    behind: int  # revisions that are not indexed
    rewritten: int  # revisions that are, and that a force-push removed from the chain
    documents_done: int  # of the build or update that was interrupted, or is running
    documents: int  # it has in all; 0 if there is none


def read_status(repository: Repository, path: Path) -> IndexStatus | None:
    """Return how far the index at `path` is, or None if there is none."""
    if not path.exists() or not path.stat().st_size:
        return None  # of no bytes, it is where a build ended before its first commit
    chain = first_parents(repository)
    with explained(path), closing(open_for_reading(path, must_be_complete=False)) as connection:
        indexed = connection.execute("SELECT indexed FROM progress").fetchone()[0]
        stored = connection.execute("SELECT count(*) FROM revision").fetchone()[0]
        common = common_length(connection, chain)
        row = connection.execute('SELECT "commit", time FROM revision WHERE n = ?', (indexed,)).fetchone()
        done = connection.execute("SELECT count(*) FROM unit").fetchone()[0]
        documents = 0
        if stored - 1 > indexed and common == stored:
            commits = [moment.commit for moment in chain[:stored]]
            documents = len(find_versions(repository, commits, indexed + 1))
    return IndexStatus(
        path=str(path),
        bytes=sum(file.stat().st_size for file in _files(path)),
        indexed=_revision(row),
        newest=_revision(chain[-1] if chain else None),
        behind=len(chain) - min(indexed + 1, common),
        rewritten=max(indexed + 1 - common, 0),
        documents_done=done,
        documents=documents,
    )


def drop(path: Path) -> bool:
    """Remove the index at `path`; tell whether there was one. Raises StateError if the file is something else."""
    if not path.exists():
        return False
    check_may_be_removed(path)
    discard(path)
    return True


def discard(path: Path) -> None:
    """Remove the index at `path` without reading it: it may be damaged."""
    with locked(path):
        for file in _files(path):
            file.unlink(missing_ok=True)


def _files(path: Path) -> list[Path]:
    return [file for end in ("", "-wal", "-shm", "-journal") if (file := path.with_name(path.name + end)).exists()]


def _revision(row: tuple[str, int | None] | None) -> IndexPoint | None:
    return None if row is None else IndexPoint(row[0], as_text(row[1]))
