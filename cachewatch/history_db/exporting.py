"""The index as Parquet files, for DuckDB, pandas or Spark: names instead of numbers, times beside revisions."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.json import decode

from cachewatch.errors import UsageError
from cachewatch.history_db.hashes import unpack
from cachewatch.history_db.reading import Index

_ROWS_AT_ONCE = 20_000
_NAMED = "JOIN tag ON tag.id = t.tag JOIN package ON package.id = t.package"
_INTERVALS = f"""
    SELECT t.id, tag.name, package.name, versions, compiler, os, platform, target, variants, names,
        t.first, begin.time, t.first IS d.baseline, iif(t.last <= :newest, t.last, NULL), over.time, size
    FROM interval t {_NAMED} JOIN build ON build.id = t.build JOIN stacks ON stacks.id = t.stacks
    JOIN document d ON d.tag = t.tag AND d.package = t.package
    JOIN revision begin ON begin.n = t.first LEFT JOIN revision over ON over.n = t.last AND over.n <= :newest
    WHERE t.first <= :newest ORDER BY t.id"""  # noqa: S608  only the line above
_SPECS = f"""
    SELECT t.hashes, t.id, tag.name, package.name FROM interval t {_NAMED}
    WHERE t.first <= :newest ORDER BY t.id"""  # noqa: S608
_STEPS = f"""
    SELECT tag.name, package.name, revision, time, added, removed, rebuilt
    FROM step t {_NAMED} JOIN revision ON n = revision WHERE revision <= :newest ORDER BY t.tag, t.package, revision"""  # noqa: S608
_CAUSES = """
    SELECT tag.name, package, revision, time, what, before, after, specs, attributed
    FROM cause t JOIN tag ON tag.id = t.tag JOIN revision ON n = revision WHERE revision <= :newest
    ORDER BY revision, t.tag, package, what, before, after"""
_REVISIONS = 'SELECT n, "commit", time FROM revision WHERE n <= :newest ORDER BY n'

Row = Sequence[Any]


class _File(Struct, frozen=True):
    """One Parquet file: the query for its rows, and what becomes of each of them."""

    query: str
    columns: str  # each with its type: `tag:text`
    rows: Callable[[Row], Iterable[Row]]


def _time(seconds: int | None) -> datetime | None:
    """Return a time in UTC that does not say so: for time zones, DuckDB needs an extension."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    except (OverflowError, ValueError, OSError):
        return None


def _interval(row: Row) -> Iterator[Row]:
    number, tag, package, versions, *build, variants, stacks, first, begin, is_baseline, last, end, size = row
    version = ", ".join(decode(versions))
    moments = (first, _time(begin), bool(is_baseline), last, _time(end))
    yield (number, tag, package, version, *build, decode(variants), decode(stacks), *moments, size)


def _timed(place: int) -> Callable[[Row], Iterable[Row]]:
    """Return what makes a time of the seconds at this place."""
    return lambda row: [(*row[:place], _time(row[place]), *row[place + 1 :])]


FILES = {
    "revisions": _File(_REVISIONS, "revision:number commit:text time:time", _timed(2)),
    "intervals": _File(
        _INTERVALS,
        "interval:number tag:text package:text version:text compiler:text os:text platform:text target:text "
        "variants:texts stacks:texts first:number first_time:time baseline:flag last:number last_time:time specs:number",
        _interval,
    ),
    "specs": _File(
        _SPECS,
        "hash:text interval:number tag:text package:text",
        lambda row: [(one, *row[1:]) for one in unpack(row[0])],
    ),
    "steps": _File(
        _STEPS,
        "tag:text package:text revision:number time:time added:number removed:number rebuilt:number",
        _timed(3),
    ),
    "causes": _File(
        _CAUSES,
        "tag:text package:text revision:number time:time what:text before:text after:text specs:number attributed:number",
        _timed(3),
    ),
}


def export(index: Index, folder: Path) -> dict[str, int]:
    """Write FILES into `folder`, and return how many rows each has; files of an earlier export are replaced."""
    load()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return {name: _write(index, file, folder / f"{name}.parquet") for name, file in FILES.items()}
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror or error}") from error


def load() -> Any:
    """Load pyarrow; raises UsageError with what to install where it is missing."""
    try:
        import pyarrow.parquet  # noqa: PLC0415  nothing else needs it, and it is large
    except ImportError as error:
        raise UsageError(
            "an export to Parquet needs pyarrow, which is not installed; install cachewatch[export]"
        ) from error
    return pyarrow


def _write(index: Index, file: _File, path: Path) -> int:
    """Write one file, which is there when it is whole."""
    pyarrow = load()
    schema = _schema(file.columns)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    count = 0
    try:
        with pyarrow.parquet.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for rows in _runs(
                one for row in index.rows(file.query, {"newest": index.newest}) for one in file.rows(row)
            ):
                columns = zip(*rows, strict=True)
                arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
                writer.write_batch(pyarrow.record_batch(arrays, schema=schema))
                count += len(rows)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def _schema(columns: str) -> Any:
    pyarrow = load()
    types = {
        "number": pyarrow.int64(),
        "text": pyarrow.string(),
        "texts": pyarrow.list_(pyarrow.string()),
        "time": pyarrow.timestamp("s"),
        "flag": pyarrow.bool_(),
    }
    pairs = [column.split(":") for column in columns.split()]
    return pyarrow.schema([(name, types[kind]) for name, kind in pairs])


def _runs(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Cut `rows` into lists of bounded size."""
    found: list[Row] = []
    for row in rows:
        found.append(row)
        if len(found) == _ROWS_AT_ONCE:
            yield found
            found = []
    if found:
        yield found
