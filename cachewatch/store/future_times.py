"""Times in the state that lie further ahead than a right clock could have put them, or that cannot be read at all."""

from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import Column, ColumnElement, Connection, or_, select, update

from cachewatch.store.timestamps import PATTERN, to_text


class AheadLimit(Struct, frozen=True, kw_only=True):
    """The latest time that a right clock leaves in a column, and what takes the place of a later one."""

    column: Column[Any]
    latest: datetime
    instead: datetime | None  # None is none at all
    only: tuple[ColumnElement[bool], ...] = ()  # the rows for which it holds


def is_exceeded(connection: Connection, limit: AheadLimit) -> bool:
    """Tell whether any time lies behind the latest that there can be."""
    return connection.execute(select(1).where(*_conditions(limit)).limit(1)).first() is not None


def correct(connection: Connection, limit: AheadLimit) -> int:
    """Put every time right that lies behind the latest that there can be; return how many did."""
    value = None if limit.instead is None else to_text(limit.instead)
    changed = update(limit.column.table).where(*_conditions(limit)).values({limit.column.name: value})
    return connection.execute(changed).rowcount


def _conditions(limit: AheadLimit) -> tuple[ColumnElement[bool], ...]:
    is_none = ~limit.column.op("GLOB", is_comparison=True)(PATTERN)  # a bit of it flipped
    return (*limit.only, or_(limit.column > to_text(limit.latest), is_none))
