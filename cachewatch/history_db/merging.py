"""Merge the parts of an index that several machines built, each a file of its own, into one."""

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from cachewatch.causes.night_causes import CountedCause
from cachewatch.core.model import CompilerForm
from cachewatch.errors import UsageError
from cachewatch.history_db.build import finish, locked, named, transaction
from cachewatch.history_db.indexed_document import IndexedDocument, Interval, KnownDocument, Step, Tally, Task
from cachewatch.history_db.names import names_of, signature_of
from cachewatch.history_db.schema import check_is_index, open_for_writing
from cachewatch.history_db.writing import Writer

_OF_TAG = "{} JOIN tag ON tag.id = tag"
_FILE = re.compile(r"part-(\d+)-of-(\d+)\.db")


class Merged(Struct, frozen=True):
    """What was merged."""

    parts: int
    documents: int
    revisions: int


class _PartFile(Struct, frozen=True):
    path: Path
    number: int
    of: int


def part_path(folder: Path, number: int, of: int) -> Path:
    """Return where a part is built."""
    return folder / f"part-{number}-of-{of}.db"


def merge(folder: Path, path: Path) -> Merged:
    """Merge all parts in `folder` into the index at `path`, which must be new; all of it is there at the end, or nothing.

    Raises UsageError if a part is missing, not complete, or of other revisions.
    """
    parts = _parts(folder)
    check_is_index(path)
    with locked(path), closing(open_for_writing(path)) as connection, named(path), transaction(connection):
        if connection.execute("SELECT max(n) FROM revision").fetchone()[0] is not None:
            raise UsageError("has an index already; name another file with --db, or run `cachewatch history drop`")
        writer = Writer(connection, has_specs=False)
        documents = 0
        for part in parts:
            with closing(_opened(part)) as source:
                _take_revisions(connection, source, part)
                documents += _merge_part(writer, source)
        finish(connection)
        revisions = connection.execute("SELECT count(*) FROM revision").fetchone()[0]
    return Merged(len(parts), documents, revisions)


def _parts(folder: Path) -> Sequence[_PartFile]:
    """Return all parts, by number."""
    names = sorted(folder.glob("part-*-of-*.db")) if folder.is_dir() else []
    found = [_PartFile(path, int(m[1]), int(m[2])) for path in names if (m := _FILE.fullmatch(path.name))]
    numbers = {part.number for part in found}
    of = {part.of for part in found}
    if not found:
        raise UsageError(
            f"{folder}: has no parts; build them with `cachewatch history build --part I/N --into {folder}`"
        )
    if len(of) > 1:
        raise UsageError(f"{folder}: has parts of {' and of '.join(map(str, sorted(of)))}; keep one of the sets here")
    missing = sorted(set(range(1, max(of) + 1)) - numbers)
    if missing:
        raise UsageError(f"{folder}: lacks part {_listed(missing)} of {max(of)}; build it, then merge again")
    return sorted(found, key=lambda part: part.number)


def _listed(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
    return ", ".join(map(str, numbers[:5])) + more


def _opened(part: _PartFile) -> sqlite3.Connection:
    source = open_for_writing(part.path)
    indexed, newest, name = source.execute(
        "SELECT indexed, (SELECT max(n) FROM revision), part FROM progress"
    ).fetchone()
    if name != f"{part.number}/{part.of}" or newest is None or indexed < newest:
        source.close()
        raise UsageError(
            f"{part.path}: is not complete; run `cachewatch history build --part {part.number}/{part.of} "
            f"--into {part.path.parent}` again"
        )
    return source


def _take_revisions(connection: sqlite3.Connection, source: sqlite3.Connection, part: _PartFile) -> None:
    """Take over the revisions of the first part; all others must have the same."""
    query = 'SELECT n, "commit", time FROM revision ORDER BY n'
    have, has = (each.execute(query).fetchall() for each in (connection, source))
    if not have:
        connection.executemany("INSERT INTO revision VALUES (?, ?, ?)", has)
    elif have != has:
        raise UsageError(
            f"{part.path}: has other revisions than the first part; build all parts again from one state of the repository"
        )


def _merge_part(writer: Writer, source: sqlite3.Connection) -> int:
    """Write all of a part; return how many documents that were."""
    count = 0
    for document in _documents(source):
        writer.store([document])
        count += 1
    for tag, tallies in _tallies(source):
        writer.add_tallies(tag, tallies)
    for tag, revision, is_recorded in source.execute(f"SELECT name, revision, recorded FROM {_OF_TAG.format('night')}"):  # noqa: S608
        writer.add_nights(tag, [(revision, bool(is_recorded))])
    query = f"SELECT name, revision, package, what, before, after, specs, attributed FROM {_OF_TAG.format('cause')}"  # noqa: S608
    for tag, revision, *cause in source.execute(query):
        writer.add_causes(tag, [(revision, CountedCause(*cause))])
    return count


def _documents(source: sqlite3.Connection) -> Iterator[tuple[Task, IndexedDocument]]:
    query = """SELECT t.name, p.name, t.id, p.id FROM (SELECT tag, package FROM document UNION SELECT tag, package FROM diagnostic)
        JOIN tag t ON t.id = tag JOIN package p ON p.id = package ORDER BY 1, 2"""
    for tag, package, *key in source.execute(query).fetchall():
        yield Task(tag, package, ()), _document(source, key)


def _document(source: sqlite3.Connection, key: Sequence[int]) -> IndexedDocument:
    def rows(table: str, columns: str) -> list[tuple[int, ...]]:
        query = f"SELECT {columns} FROM {table} WHERE tag = ? AND package = ? ORDER BY revision"  # noqa: S608  ours
        return source.execute(query, key).fetchall()

    query = "SELECT blob, revision, baseline, old_compilers FROM document WHERE tag = ? AND package = ?"
    row = source.execute(query, key).fetchone()
    return IndexedDocument(
        document=None if row is None else KnownDocument(row[0], row[1], row[2], CompilerForm(row[3])),
        intervals=tuple(_intervals(source, key)),
        steps=tuple(
            Step(n, added, removed, rebuilt, bool(differ))
            for n, added, removed, rebuilt, differ in rows(
                "step", "revision, added, removed, rebuilt, compilers_differ"
            )
        ),
        diagnostics=tuple((n, str(message)) for n, message in rows("diagnostic", "revision, message")),
    )


def _intervals(source: sqlite3.Connection, key: Sequence[int]) -> Iterator[Interval]:
    query = """SELECT first, last, hashes, size, versions, compiler, os, platform, target, variants, names
        FROM interval JOIN build ON build.id = build JOIN stacks ON stacks.id = stacks WHERE tag = ? AND package = ?"""
    for first, last, hashes, size, *values in source.execute(query, key):
        yield Interval(signature_of(tuple(values)), first, last, hashes, size)


def _tallies(source: sqlite3.Connection) -> Iterator[tuple[str, list[Tally]]]:
    query = """SELECT tag.name, names, revision, added, removed, rebuilt FROM tally
        JOIN tag ON tag.id = tag JOIN stacks ON stacks.id = stacks"""
    by_tag: defaultdict[str, list[Tally]] = defaultdict(list)
    for tag, names, *values in source.execute(query):
        by_tag[tag].append(Tally(names_of(names), *values))
    yield from by_tag.items()
