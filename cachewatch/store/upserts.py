"""Insert a row, or change the one that is there: SQLAlchemy has no common form of it, the databases have."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from sqlalchemy import Connection, Table


def insert_new(connection: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Insert a row unless there is one with the same key, and tell whether it was new."""
    done = connection.execute(_insert(connection)(table).values(**values).on_conflict_do_nothing())
    return bool(done.rowcount > 0)


def put(
    connection: Connection,
    table: Table,
    key: Mapping[str, Any],
    values: Mapping[str, Any],
    changes: Mapping[str, Any] | None = None,
) -> None:
    """Insert a row, or let the row of this key have these values; `changes` says what it gets instead of them."""
    new = _insert(connection)(table).values(**key, **values)
    connection.execute(new.on_conflict_do_update(index_elements=list(key), set_=dict(changes or values)))


def put_all(connection: Connection, table: Table, key: Collection[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, all with the same columns, or let those of the same `key` have their values."""
    if rows:
        new = _insert(connection)(table)
        changes = {name: new.excluded[name] for name in rows[0] if name not in key}
        connection.execute(new.on_conflict_do_update(index_elements=list(key), set_=changes), list(rows))


def _insert(connection: Connection) -> Any:
    return _insert_of(connection.dialect.name)


@cache
def _insert_of(dialect: str) -> Any:
    return import_module(f"sqlalchemy.dialects.{dialect}").insert
