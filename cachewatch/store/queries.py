"""Queries that are made once: to make one takes longer than to ask it."""

from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Delete, Select, Table, bindparam, delete, select


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
