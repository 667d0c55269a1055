"""Times in the state that lie further ahead than a right clock could have put them, or that cannot be read at all."""

from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import Column, ColumnElement, Connection, or_, select, type_coerce, update

from cachewatch.store.column_types import Text
from cachewatch.store.timestamps import PATTERN


class AheadLimit(Struct, frozen=True, kw_only=True):
    """The latest time that a right clock leaves in a column, and what takes the place of a later one."""

    column: Column[Any]
    latest: datetime
    instead: datetime | None  # None is none at all
    only: tuple[ColumnElement[bool], ...] = ()  # the rows for which it holds


def is_exceeded(connection: Connection, limit: AheadLimit) -> bool:
    """Tell whether any time lies behind the latest that there can be."""
    return connection.execute(select(1).where(*_conditions(connection, limit)).limit(1)).first() is not None


def correct(connection: Connection, limit: AheadLimit) -> int:
    """Put every time right that lies behind the latest that there can be; return how many did."""
    changed = update(limit.column.table).where(*_conditions(connection, limit))
    changed = changed.values({limit.column.name: limit.instead})
    return connection.execute(changed).rowcount


def _conditions(connection: Connection, limit: AheadLimit) -> tuple[ColumnElement[bool], ...]:
    is_ahead = limit.column > limit.latest
    return (*limit.only, or_(is_ahead, _is_none(limit.column)) if connection.dialect.name == "sqlite" else is_ahead)


def _is_none(column: Column[Any]) -> ColumnElement[bool]:
    """Return the condition that a text is no time, because a bit of it flipped; other databases check their types."""
    return ~type_coerce(column, Text).op("GLOB", is_comparison=True)(PATTERN)
