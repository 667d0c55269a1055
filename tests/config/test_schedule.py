"""When digests are due, held against every minute of a year."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from cachewatch.config.schedules_and_quiet_times import Schedule, check_zone, parse_days, parse_when, quiet_until
from cachewatch.config.settings_and_subscriptions import QuietTime
from cachewatch.errors import ConfigError

# A gap at 02:00 in the north, one of half an hour in the south, gaps and folds at midnight, none at all.
ZONES = ("Europe/Berlin", "Australia/Lord_Howe", "America/Havana", "Asia/Kolkata")
YEAR = 2026
START, END = datetime(YEAR, 1, 3, tzinfo=UTC), datetime(YEAR + 1, 1, 2, tzinfo=UTC)


@cache
def wall_clock(zone: str) -> dict[date, list[tuple[datetime, int]]]:
    """Every minute of the year as it is, and as the clock on the wall shows it: by days, in minutes of the day."""
    days: dict[date, list[tuple[datetime, int]]] = {}
    for number in range(int((END - START).total_seconds() // 60)):
        moment = START + timedelta(minutes=number)
        wall = moment.astimezone(ZoneInfo(zone))
        days.setdefault(wall.date(), []).append((moment, wall.hour * 60 + wall.minute))
    return days


def by_brute_force(zone: str, is_day: Callable[[date], bool], hour: int, minute: int) -> Iterator[datetime]:
    """Yield the first minute of each chosen day at which the clock shows the time, or has passed it."""
    for day, minutes in list(wall_clock(zone).items())[1:-1]:
        if is_day(day):
            yield next(moment for moment, shown in minutes if shown >= hour * 60 + minute)


def slots(schedule: Schedule, start: datetime, end: datetime) -> Iterator[datetime]:
    """Yield the slots from `start` (not itself) until `end`."""
    moment = schedule.next_after(start)
    while moment is not None and moment < end:
        yield moment
        moment = schedule.next_after(moment)


def is_last(day: date) -> bool:
    """Tell whether the next day is of another month."""
    return (day + timedelta(days=1)).month != day.month


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    ("when", "is_day", "hour", "minute"),
    [
        ("daily 00:00", lambda _: True, 0, 0),
        ("daily 00:30", lambda _: True, 0, 30),
        ("daily 02:15", lambda _: True, 2, 15),
        ("daily 23:30", lambda _: True, 23, 30),
        ("weekly sun 02:30", lambda day: day.weekday() == 6, 2, 30),
        ("weekly fri-mon,wed 00:15", lambda day: day.weekday() in (4, 5, 6, 0, 2), 0, 15),
        ("monthly 1 00:00", lambda day: day.day == 1, 0, 0),
        ("monthly 30 02:30", lambda day: day.day == 30 or (day.month == 2 and is_last(day)), 2, 30),
        ("monthly last 7:30", is_last, 7, 30),
        ("cron: 30 2 * * 7", lambda day: day.weekday() == 6, 2, 30),
        ("cron: 0 0 13 * fri", lambda day: day.day == 13 or day.weekday() == 4, 0, 0),
    ],
)
def test_slots_by_brute_force(zone: str, when: str, is_day: Callable[[date], bool], hour: int, minute: int) -> None:
    """A year of slots is what looking at the clock every minute gives: none missing, none twice."""
    expected = list(by_brute_force(zone, is_day, hour, minute))
    found = slots(parse_when(when, zone), expected[0] - timedelta(minutes=1), expected[-1] + timedelta(minutes=1))

    assert list(found) == expected
    assert len(expected) >= 11


@pytest.mark.slow_cases
@pytest.mark.parametrize("zone", ZONES)
def test_half_hours_follow_time_itself(zone: str) -> None:
    """What comes several times an hour comes in a repeated hour too, and not in a skipped one."""
    minutes = [minute for day in wall_clock(zone).values() for minute in day]
    expected = [moment for moment, shown in minutes if shown % 30 == 0]

    assert list(slots(parse_when("cron: */30 * * * *", zone), START - timedelta(minutes=1), END)) == expected


@pytest.mark.parametrize("zone", ZONES[:-1])
@pytest.mark.parametrize(
    ("when", "hour", "minute"), [("daily 00:30", 0, 30), ("daily 02:15", 2, 15), ("daily 23:30", 23, 30)]
)
def test_from_within_a_change_of_the_clock(zone: str, when: str, hour: int, minute: int) -> None:
    """Asked at any minute of a day with more or fewer hours, the next slot is the one that brute force finds."""
    expected = list(by_brute_force(zone, lambda _: True, hour, minute))
    schedule = parse_when(when, zone)
    changed = [minutes for minutes in list(wall_clock(zone).values())[1:-1] if len(minutes) != 24 * 60]
    assert len(changed) == 2
    for moment in (moment for minutes in changed for moment, _ in minutes[::7]):
        assert schedule.next_after(moment) == expected[bisect_right(expected, moment)], moment


def test_leap_years() -> None:
    """The 29th is the last of February only where there is one, and never comes twice."""
    ends = (datetime(year, month, 1, tzinfo=UTC) for year, month in ((2027, 1), (2028, 4)))
    found = list(slots(parse_when("monthly 29 00:00"), *ends))

    assert [slot.date() for slot in found if slot.month == 2] == [date(2027, 2, 28), date(2028, 2, 29)]
    assert all(one < other for one, other in pairwise(found))


def test_with_each_revision() -> None:
    for when in ("each revision", "at once", " Each  Revision "):
        schedule = parse_when(when, "Europe/Berlin")
        assert (schedule.next_after(START), schedule.in_words()) == (None, "with each new revision")


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("daily 7:30", "every day at 07:30"),
        ("weekly monday 07:30", "every Monday at 07:30"),
        ("weekly mon,thu 07:30", "every Monday and Thursday at 07:30"),
        ("monthly 1 07:30", "on day 1 of every month at 07:30"),
        ("monthly 30 07:30", "on day 30 (or the last) of every month at 07:30"),
        ("monthly 31 07:30", "on the last day of every month at 07:30"),
        ("cron: 30 7 * * 1", "at 07:30 on Monday"),
        ("cron: 30 7 * * 7", "at 07:30 on Sunday"),
    ],
)
def test_words(when: str, words: str) -> None:
    assert parse_when(when, "Europe/Berlin").in_words() == f"{words} (Europe/Berlin)"


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        ("", "not a schedule"),
        ("hourly", "daily 07:30"),
        ("daily", "not a schedule"),
        ("daily 24:00", "not a time of day"),
        ("daily 7.30", "not a time of day"),
        ("weekly mo 07:30", "not a day of the week"),
        ("weekly xyz 07:30", "not a day of the week"),
        ("weekly mon- 07:30", "not a day of the week"),
        ("monthly 0 07:30", "not a day of a month"),
        ("monthly 32 07:30", "not a day of a month"),
        ("monthly ² 07:30", "not a day of a month"),
        ("cron: 30 7 * *", "minute, hour"),
        ("cron: 0 30 7 * * 1", "minute, hour"),
        ("cron: 61 7 * * 1", "bad minute"),
        ("cron: 0 0 31 2 *", "bad day-of-month"),
        ("@weekly", "not a schedule"),
    ],
)
def test_mistakes(when: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_when(when)


def test_zones() -> None:
    assert check_zone("Europe/Berlin") == "Europe/Berlin"
    for name in ("Europe/Atlantis", "../../etc/passwd", ""):
        with pytest.raises(ConfigError, match="not a time zone"):
            check_zone(name)


WEEKEND = QuietTime(days=parse_days("sat-sun"))
MONDAYS = QuietTime(days=parse_days("mon"), start=START, end=datetime(2026, 1, 12, 6, tzinfo=UTC))
HOLIDAYS = QuietTime(start=datetime(2026, 12, 23, 23, tzinfo=UTC), end=datetime(2027, 1, 1, 23, tzinfo=UTC))


@pytest.mark.parametrize(
    ("quiets", "moment", "until"),
    [
        ([WEEKEND, HOLIDAYS], "2026-12-18T22:59", "2026-12-18T22:59"),  # Friday, in Berlin too
        ([WEEKEND, HOLIDAYS], "2026-12-18T23:00", "2026-12-20T23:00"),  # Saturday in Berlin
        ([WEEKEND, HOLIDAYS], "2026-12-20T22:59", "2026-12-20T23:00"),
        ([WEEKEND, HOLIDAYS], "2026-12-23T23:00", "2027-01-03T23:00"),  # the holidays end on a Saturday
        ([WEEKEND, HOLIDAYS], "2027-01-03T23:00", "2027-01-03T23:00"),
        ([WEEKEND, HOLIDAYS], "2026-03-28T12:00", "2026-03-29T22:00"),  # the clock goes forward
        ([MONDAYS], "2026-01-05T03:00", "2026-01-05T23:00"),  # to the end of Monday in Berlin
        ([MONDAYS], "2026-01-12T03:00", "2026-01-12T06:00"),  # to the end of the span
        ([MONDAYS], "2026-01-19T03:00", "2026-01-19T03:00"),  # after it
        ([], "2026-01-05T03:00", "2026-01-05T03:00"),
    ],
)
def test_quiet(quiets: list[QuietTime], moment: str, until: str) -> None:
    """Windows that touch or overlap are one, and end where all have ended; only days within a span are quiet."""
    start, end = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (moment, until))

    assert quiet_until(quiets, start, "Europe/Berlin") == end


def test_quiet_for_ever_ends() -> None:
    always = QuietTime(days=frozenset(range(7)))

    assert timedelta(days=3650) <= quiet_until([always], START, "UTC") - START <= timedelta(days=3652)
