"""When a version came to a stack, how long it stayed, and how much later than elsewhere that was."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from cachewatch.history.values import PackageHistory, TagHistory

_DAY = 86400.0


class Interval(Struct, frozen=True):
    """One version in one stack, from the revision that brought it to the one that took it."""

    stack: str
    version: str
    first: int
    last: int | None  # None as long as it is there
    is_dated: bool = True  # its arrival was seen, rather than that it was there from the beginning


class Lag(Struct, frozen=True):
    """How many days a version reached a stack after the first stack that had it."""

    package: str
    version: str
    stack: str
    revision: int
    days: float


def intervals_of(history: PackageHistory) -> list[Interval]:
    """Return every stay of every version, as it came."""
    ended: list[Interval] = []
    begun: dict[tuple[str, str], tuple[int, bool]] = {}
    for step in history.steps:
        begun |= dict.fromkeys(step.came, (step.revision, not step.is_baseline))
        for place in step.went:
            first, is_dated = begun.pop(place)
            ended.append(Interval(*place, first, step.revision, is_dated))
    there = [Interval(*place, first, None, is_dated) for place, (first, is_dated) in begun.items()]
    return sorted([*ended, *there], key=_in_time)


def lags_of(past: TagHistory) -> Iterator[Lag]:
    """Yield the lag of each arrival in a stack that had the package when the version first came anywhere.

    Versions that were there from the beginning say nothing, and a stack that takes up a package
    late is not late with its versions.
    """
    times = [time for _, time in past.revisions]
    for history in past.packages:
        yield from _lags(history, times)


def _lags(history: PackageHistory, times: Sequence[datetime | None]) -> Iterator[Lag]:
    stays = intervals_of(history)
    first: dict[str, Interval] = {}
    for stay in stays:
        first.setdefault(stay.version, stay)
    seen = set()
    for stay in stays:
        start = first[stay.version].first
        began, came = times[start], times[stay.first]
        is_known = first[stay.version].is_dated and (stay.stack, stay.version) not in seen
        if not is_known or began is None or came is None:
            continue
        seen.add((stay.stack, stay.version))
        if any(other.stack == stay.stack and _had(other, start) for other in stays):
            days = max(0.0, (came - began).total_seconds() / _DAY)
            yield Lag(history.package, stay.version, stay.stack, stay.first, days)


def _had(stay: Interval, start: int) -> bool:
    """Tell whether this was there when something came in revision `start`, or was replaced by it."""
    return stay.first < start and (stay.last is None or stay.last >= start)


def _in_time(stay: Interval) -> tuple[int, str, str]:
    return (stay.first, stay.stack, stay.version)


def lost_by(history: PackageHistory) -> Mapping[str, int]:
    """Return the stacks that had the package and have it no more, with the revision that took it."""
    found = {stack: step.revision for step in history.steps for stack, _ in step.went if stack}
    return {stack: revision for stack, revision in found.items() if stack not in history.present.stacks}
