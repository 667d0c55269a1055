"""Queries that are made once: to make one takes longer than to ask it."""

from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Delete, Select, Table, bindparam, delete, select


@cache
def rows_of(table: Table, *names: str, order: tuple[str, ...] = ()) -> Select[Any]:
    """Return the query for the rows of `table` whose columns `names` have the values of parameters of these names."""
    return select(table).where(*_same(table, names)).order_by(*(table.c[name] for name in order))


@cache
def deletion_of(table: Table, *names: str) -> Delete:
    """Return what deletes the rows that `rows_of` returns."""
    return delete(table).where(*_same(table, names))


def _same(table: Table, names: tuple[str, ...]) -> list[ColumnElement[bool]]:
    return [table.c[name] == bindparam(name) for name in names]
