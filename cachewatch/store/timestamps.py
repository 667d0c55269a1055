"""Moments as the database keeps them: UTC text of one width, which sorts as time does."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, func

Clock = Callable[[], datetime]

_FORM = "%Y-%m-%dT%H:%M:%S.%fZ"
# The same for GLOB.
PATTERN = "[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z"
UNKNOWN = datetime.fromtimestamp(0, UTC)


def utc_now() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)


def to_text(moment: datetime) -> str:
    """Return `moment` as the database keeps it."""
    return moment.astimezone(UTC).strftime(_FORM)


def to_datetime(text: str) -> datetime:
    """Return the moment that the database keeps as `text`; one that is damaged was long ago."""
    try:
        return datetime.strptime(text, _FORM).replace(tzinfo=UTC)
    except ValueError:
        return UNKNOWN


def to_datetime_or_none(text: str | None) -> datetime | None:
    """Return the moment, if there is one."""
    return None if text is None else to_datetime(text)


def by_database(later: timedelta = timedelta(0)) -> ColumnElement[str]:
    """Return what the database's own clock says, or will say so much later: hosts that share it have that in common."""
    return func.moment_in(later.total_seconds())
