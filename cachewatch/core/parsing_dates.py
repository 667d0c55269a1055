"""Dates and moments as people write them: 2025-06-01, yesterday, 3 days ago, last week."""

import re
from datetime import UTC, date, datetime, timedelta

_AGO = re.compile(r"(\d{1,4}) (minute|hour|day|week)s? ago")
_UNIT = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}


def as_datetime(text: str, now: datetime) -> datetime | None:
    """Return the last moment that `text` means, if it means a date at all."""
    text = text.strip().lower()
    if text in ("today", "yesterday"):
        return _end_of((now - timedelta(days=text == "yesterday")).date())
    if ago := _AGO.fullmatch(text):
        return now - int(ago[1]) * _UNIT[ago[2]]
    if text == "last week":
        return now - _UNIT["week"]
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d|\d{8}", text):
            return _end_of(date.fromisoformat(text))
        moment = datetime.fromisoformat(text.upper()) if re.match(r"\d{4}-\d\d-\d\d[t ]", text) else None
    except ValueError:
        return None
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)


def _end_of(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 23, 59, 59, tzinfo=UTC)
