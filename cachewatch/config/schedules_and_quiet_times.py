"""Times as people write and read them: schedules, quiet times, durations, sizes and dates.

A schedule is a set of crontab lines. The library cronsim evaluates them all, with their days, months and daylight
saving time. A time of day that the clock skips in spring is due at the end of the gap; one that occurs twice in autumn
is due once.
"""

import re
from calendar import monthrange
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from msgspec import Struct

from cachewatch.errors import ConfigError

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


class Schedule(Struct, frozen=True, kw_only=True):
    """When digests are due: at all times that match a crontab line; without lines, with each new revision."""

    lines: tuple[str, ...] = ()  # of a crontab; each of their moments is due
    words: str
    zone: str

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first due moment (UTC) after `moment`; None if digests are due with each revision."""
        found: list[datetime] = []
        for line in self.lines:
            slots = (slot.astimezone(UTC) for slot in CronSim(line, moment.astimezone(ZoneInfo(self.zone))))
            # In the repeated hour of autumn cronsim may begin with the first pass, which is over.
            found += islice((slot for slot in slots if slot > moment), 1)
        return min(found, default=None)

    def in_words(self) -> str:
        """Return the schedule in words, with its time zone."""
        return f"{self.words} ({self.zone})" if self.lines else self.words


class Quiet(Protocol):
    """A time in which no digest is made: `days` of the week (Monday is 0; none: all) from `start` to before `end`."""

    days: frozenset[int]
    start: datetime | None
    end: datetime | None


def quiet_until(quiets: Iterable[Quiet], moment: datetime, zone: str) -> datetime:
    """Return the first moment from `moment` on that is not quiet; days of the week are in the time zone `zone`."""
    quiets = tuple(quiets)
    limit = moment + timedelta(days=3650)  # so that nothing waits for ever if quiet times never end
    while moment < limit and (ends := [end for quiet in quiets if (end := _end_after(quiet, moment, zone))]):
        moment = max(ends)
    return moment


def _end_after(quiet: Quiet, moment: datetime, zone: str) -> datetime | None:
    """Return the end of the quiet time (or quiet day in `zone`) around `moment`; None if `moment` is not quiet."""
    if (quiet.start and moment < quiet.start) or (quiet.end and moment >= quiet.end):
        return None
    if not quiet.days:
        return quiet.end
    today = moment.astimezone(ZoneInfo(zone)).date()
    if today.weekday() not in quiet.days:
        return None
    midnight = datetime.combine(today + timedelta(days=1), time(), tzinfo=ZoneInfo(zone)).astimezone(UTC)
    return min(midnight, quiet.end) if quiet.end else midnight


def check_zone(name: str) -> str:
    """Return `name` unchanged if it is a known time zone. Raises ConfigError if not."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(f"{name!r} is not a time zone; write one such as Europe/Berlin or UTC") from error
    return name


def parse_when(text: str, zone: str = "UTC") -> Schedule:
    """Parse a value of `when:`; times of day are in the time zone `zone`. Raises ConfigError if it is no schedule."""
    text = " ".join(text.split())
    if text.lower() in ("each revision", "at once"):
        return Schedule(words="with each new revision", zone=zone)
    if text.startswith("cron:"):
        line = text.removeprefix("cron:").strip()
        if len(line.split()) != 5:
            fields = "minute, hour, day of month, month, day of week"
            raise ConfigError(f"{line!r} is not a crontab line: it needs {fields}")
        try:
            words = CronSim(line, datetime.now(UTC)).explain()
        except CronSimError as error:
            raise ConfigError(f"cron: {line}: {str(error).lower()}; write it as in a crontab: 30 7 * * 1") from error
        return Schedule(lines=(line,), words=words[:1].lower() + words[1:], zone=zone)
    match text.lower().split():
        case ["daily", at]:
            days, words = ["* * *"], "every day"
        case ["weekly", names, at]:
            chosen = sorted(parse_days(names))
            days = [f"* * {','.join(str(day + 1) for day in chosen)}"]  # crontab's Monday is 1, Sunday 7
            words = f"every {' and '.join(WEEKDAYS[day].capitalize() for day in chosen)}"
        case ["monthly", day, at]:
            days, words = _monthly(day)
        case _:
            schedules = "each revision, daily 07:30, weekly mon 07:30, monthly 1 07:30, or cron: 30 7 * * 1"
            raise ConfigError(f"{text!r} is not a schedule; write {schedules}")
    time_of_day = _TIME.fullmatch(at)
    if time_of_day is None:
        raise ConfigError(f"{at!r} is not a time of day; write it from 00:00 to 23:59")
    begin = f"{int(time_of_day[2])} {int(time_of_day[1])}"
    return Schedule(lines=tuple(f"{begin} {rest}" for rest in days), words=f"{words} at {at.zfill(5)}", zone=zone)


def parse_days(text: str) -> frozenset[int]:
    """Parse `mon`, `mon,thu` or `sat-sun` to numbers of days: Monday is 0. Raises ConfigError for other words."""
    days: set[int] = set()
    for part in text.lower().split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        start = _day(first)
        end = _day(last) if dash else start
        days |= {day % 7 for day in range(start, end + 1 if end >= start else end + 8)}
    return frozenset(days)


def _monthly(day: str) -> tuple[list[str], str]:
    """Return crontab fields (day, month, weekday) and words for `day` of each month (the last if it is shorter)."""
    if day != "last" and not (day.isascii() and day.isdigit() and 1 <= int(day) <= 31):
        raise ConfigError(f"{day!r} is not a day of a month; write 1 to 31, or last")
    if day in ("last", "31"):
        return ["L * *"], "on the last day of every month"
    number = int(day)
    leap = ["L 2 *"] if number in (29, 30) else []
    return [f"{number} * *", *leap], f"on day {number}{' (or the last)' if number > 28 else ''} of every month"


def _day(name: str) -> int:
    days = [number for number, full in enumerate(WEEKDAYS) if len(name) > 2 and full.startswith(name)]
    if not days:
        raise ConfigError(f"{name!r} is not a day of the week; write mon, tue, wed, thu, fri, sat or sun")
    return days[0]


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
_BYTES = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_PART = r"(\d{1,6})([smhdwy])"
DURATION = rf"^(0|({_PART})+)$"
SIZE = r"^\d{1,12} ?(B|kB|MB|GB|KiB|MiB|GiB)?$"


def parse_duration(text: str) -> timedelta:
    """Parse a duration such as 30s, 5m, 1h30m, 4d, 2w or 2y (of 365 days). Raises ConfigError for other texts."""
    if not re.fullmatch(DURATION, text, re.ASCII):
        raise ConfigError(f"{text!r} is not a duration; write 30s, 5m, 1h, 4d, 2w or 2y")
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in re.findall(_PART, text))
    if seconds > 100 * _SECONDS["y"]:
        raise ConfigError(f"{text!r} is longer than a hundred years")
    return timedelta(seconds=seconds)


def duration_in_words(duration: timedelta) -> str:
    """Return a duration in the form that `parse_duration` reads, such as 1h30m; 0 for none."""
    seconds = int(duration.total_seconds())
    text = ""
    for unit in "dhms":
        count, seconds = divmod(seconds, _SECONDS[unit])
        text += f"{count}{unit}" if count else ""
    return text or "0"


def parse_size(text: str) -> int:
    """Parse a size such as 90kB, 1MiB or 500; return the number of bytes. Raises ConfigError for other texts."""
    match = re.fullmatch(r"(\d{1,12}) ?([A-Za-z]*)", text, re.ASCII)
    if match is None or match[2] not in _BYTES:
        raise ConfigError(f"{text!r} is not a size; write 90kB, 2MB, 64KiB or a number of bytes")
    return int(match[1]) * _BYTES[match[2]]


_AGO = re.compile(r"(\d{1,4}) (minute|hour|day|week|month|year)s? ago")
_MONTHS = {"month": 1, "year": 12}


def as_datetime(text: str, now: datetime) -> datetime | None:
    """Return the time that `text` means at `now`: `3 days ago`, or the end of the day `10 Mar 2025`; or else None."""
    text = text.strip().lower()
    if text in ("today", "yesterday"):
        return _end_of((now - timedelta(days=text == "yesterday")).date())
    if ago := _AGO.fullmatch("1 week ago" if text == "last week" else text):
        count, unit = int(ago[1]), ago[2]
        year, month = divmod(max(12, now.year * 12 + now.month - 1 - count * _MONTHS.get(unit, 0)), 12)
        then = now.replace(year=year, month=month + 1, day=min(now.day, monthrange(year, month + 1)[1]))
        return then if unit in _MONTHS else now - timedelta(**{f"{unit}s": count})
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d|\d{8}", text):
            return _end_of(date.fromisoformat(text))
        if words := re.fullmatch(r"\d\d? ([a-z]+) \d{4}", text):
            return _end_of(datetime.strptime(f"{text} +0000", f"%d {'%b' if len(words[1]) == 3 else '%B'} %Y %z"))
        moment = datetime.fromisoformat(text.upper()) if re.match(r"\d{4}-\d\d-\d\d[t ]", text) else None
    except ValueError:
        return None
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)


def _end_of(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 23, 59, 59, tzinfo=UTC)


def minute(moment: datetime, zone: str = "UTC") -> str:
    """Return a time to the minute, with its zone: `2025-06-02 07:00 CEST`."""
    return f"{moment.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M %Z}"


def second(moment: datetime, zone: str = "UTC") -> str:
    """Return a time to the second, with its zone: `2025-06-02 07:00:12 CEST`."""
    return f"{moment.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M:%S %Z}"
