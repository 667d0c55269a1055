"""All rows of one database into another, of either kind: to back up, and to move."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from sqlalchemy import Column, Connection, Integer, Table, func, insert, select

from cachewatch.errors import StateError
from cachewatch.store.schema import metadata

_BATCH = 500


def copy_rows(source: Connection, target: Connection) -> int:
    """Copy all rows into tables that are empty, and return how many there were."""
    count = 0
    for table in metadata.sorted_tables:
        for rows in _batches(source, table):
            target.execute(insert(table), rows)
            count += len(rows)
        _go_on_counting(target, table)
    return count


def has_rows(connection: Connection) -> bool:
    """Tell whether there is anything in any table."""
    return any(connection.execute(select(table).limit(1)).first() is not None for table in metadata.sorted_tables)


def _batches(source: Connection, table: Table) -> Iterator[list[dict[str, Any]]]:
    query = select(table).order_by(*table.primary_key).execution_options(yield_per=_BATCH)
    with source.execute(query) as found:
        for rows in found.mappings().partitions():
            yield [dict(row) for row in rows]


def _go_on_counting(target: Connection, table: Table) -> None:
    """Let the next number follow those that were copied; SQLite sees to that itself."""
    if target.dialect.name != "postgresql":
        return
    for column in filter(_is_numbered, table.primary_key):
        sequence = func.pg_get_serial_sequence(table.name, column.name)
        last = select(func.max(column)).scalar_subquery()
        target.execute(select(func.setval(sequence, last)).where(select(column).exists()))


def _is_numbered(column: Column[Any]) -> bool:
    return isinstance(column.type, Integer)


def check_same(source: Connection, target: Connection, place: str) -> None:
    """Raise StateError unless both have the same rows."""
    for table in metadata.sorted_tables:
        for before, after in zip_longest(_rows(source, table), _rows(target, table)):
            if before != after:
                row = before or after or {}
                key = ", ".join(str(row[column.name]) for column in table.primary_key)
                raise StateError(f"{place}: keeps a row of `{table.name}` ({key}) otherwise; nothing was copied")


def _rows(connection: Connection, table: Table) -> Iterator[dict[str, Any]]:
    return (row for rows in _batches(connection, table) for row in rows)
