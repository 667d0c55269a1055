"""Moments as SQLite keeps them, as UTC text of one width, which sorts as time does; and whose clock counts."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection

Clock = Callable[[], datetime]

# A form that one call reads in a sixteenth of the time of `strptime`; by itself, that call takes other forms as well.
_IS_OF_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII).fullmatch
# The same for GLOB.
PATTERN = "[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z"
UNKNOWN = datetime.fromtimestamp(0, UTC)


def utc_now() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)


def to_text(moment: datetime) -> str:
    """Return `moment` as the database keeps it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def to_datetime(text: str) -> datetime:
    """Return the moment that the database keeps as `text`; one that is damaged was long ago."""
    try:
        return datetime.fromisoformat(text) if _IS_OF_FORM(text) else UNKNOWN
    except (TypeError, ValueError):  # a bit that flipped may make another type of it
        return UNKNOWN


def database_time(connection: Connection, later: timedelta = timedelta(0)) -> ColumnElement[Any]:
    """Return what the database's own clock says, or will say so much later: hosts that share it have that in common."""
    return connection.get_execution_options()["database_time"](later)  # type: ignore[no-any-return]
