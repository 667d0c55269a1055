"""Queries and statements that the store shares: prepared queries, inserts that update, and checksums.

A query is made once: to make one takes longer than to run it. SQLAlchemy has no common form of an insert that updates.
The checksum of stored bytes finds a bit that flipped on a disk before anybody gets the message.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from importlib import import_module
from typing import Any

from sqlalchemy import ColumnElement, Connection, Delete, Select, Table, bindparam, delete, select

from cachewatch.report.values import Message


def insert_new(connection: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Insert a row unless there is one with the same key, and tell whether it was new."""
    done = connection.execute(_only_new(connection.dialect.name, table), dict(values))
    return bool(done.rowcount > 0)


def put(
    connection: Connection,
    table: Table,
    key: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    only_new: Collection[str] = (),
) -> None:
    """Insert a row, or let the row of this key have these values but those that are `only_new`."""
    changed = tuple(name for name in values if name not in only_new)
    connection.execute(_replacing(connection.dialect.name, table, tuple(key), changed), {**key, **values})


def put_all(connection: Connection, table: Table, key: Collection[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, all with the same columns, or let those of the same `key` have their values."""
    if rows:
        changed = tuple(name for name in rows[0] if name not in key)
        connection.execute(_replacing(connection.dialect.name, table, tuple(key), changed), list(rows))


def add_to(connection: Connection, table: Table, key: Mapping[str, Any], name: str, amount: float) -> None:
    """Let a column of a row grow, from nothing if there is no such row."""
    connection.execute(_growing(connection.dialect.name, table, tuple(key), name), {**key, name: amount})


# To make a statement takes longer than to execute it, so each is made once.


@cache
def _only_new(dialect: str, table: Table) -> Any:
    return _insert_of(dialect)(table).on_conflict_do_nothing()


@cache
def _replacing(dialect: str, table: Table, key: Iterable[str], changed: Iterable[str]) -> Any:
    new = _insert_of(dialect)(table)
    return new.on_conflict_do_update(index_elements=key, set_={name: new.excluded[name] for name in changed})


@cache
def _growing(dialect: str, table: Table, key: Iterable[str], name: str) -> Any:
    new = _insert_of(dialect)(table)
    return new.on_conflict_do_update(index_elements=key, set_={name: table.c[name] + new.excluded[name]})


def _insert_of(dialect: str) -> Any:
    return import_module(f"sqlalchemy.dialects.{dialect}").insert


@cache
def rows_of(table: Table, *names: str, order: tuple[str, ...] = ()) -> Select[Any]:
    """Return the query for the rows of `table` whose columns `names` have the values of parameters of these names."""
    return select(table).where(*same(table, *names)).order_by(*(table.c[name] for name in order))


@cache
def deletion_of(table: Table, *names: str) -> Delete:
    """Return what deletes the rows that `rows_of` returns."""
    return delete(table).where(*same(table, *names))


def same(table: Table, *names: str) -> list[ColumnElement[bool]]:
    """Return the conditions that columns have the values of parameters of their names."""
    return [table.c[name] == bindparam(name) for name in names]


BYTES = 16


def of_message(message: Message) -> bytes:
    """Return the checksum of a message: of its bytes, and of what says where and as what they go."""
    parts = (message.key, message.target, message.content_type, message.message_id or "")
    return of_parts((*(part.encode(errors="surrogatepass") for part in parts), message.payload))


def of_parts(parts: Iterable[bytes | memoryview]) -> bytes:
    """Return the checksum of several values, in their order."""
    found = blake2b(digest_size=BYTES)
    for part in parts:
        found.update(len(part).to_bytes(8))
        found.update(part)
    return found.digest()
