"""When a version came to a stack, how long it stayed, and how much later than elsewhere that was."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from cachewatch.history.records import PackageHistory, Past

# What was there in the first revision that was read came at a time that nobody knows.
_BASELINE = 0
_DAY = 86400.0


class Stay(Struct, frozen=True):
    """One version in one stack, from the revision that brought it to the one that took it."""

    stack: str
    version: str
    first: int
    last: int | None  # None as long as it is there

    @property
    def is_dated(self) -> bool:
        """Whether its arrival was seen, rather than that it was there from the beginning."""
        return self.first > _BASELINE


class Lag(Struct, frozen=True):
    """How many days a version reached a stack after the first stack that had it."""

    package: str
    version: str
    stack: str
    revision: int
    days: float


def stays_of(history: PackageHistory) -> list[Stay]:
    """Return every stay of every version, as it came."""
    ended: list[Stay] = []
    begun: dict[tuple[str, str], int] = {}
    for step in history.steps:
        begun |= dict.fromkeys(step.came, step.revision)
        ended += [Stay(*place, begun.pop(place), step.revision) for place in step.went]
    return sorted([*ended, *(Stay(*place, first, None) for place, first in begun.items())], key=_in_time)


def lags_of(past: Past) -> Iterator[Lag]:
    """Yield the lag of each arrival in a stack that had the package when the version first came anywhere.

    Versions that were there from the beginning say nothing, and a stack that takes up a package
    late is not late with its versions.
    """
    times = [time for _, time in past.revisions]
    for history in past.packages:
        yield from _lags(history, times)


def _lags(history: PackageHistory, times: Sequence[datetime | None]) -> Iterator[Lag]:
    stays = stays_of(history)
    first: dict[str, int] = {}
    for stay in stays:
        first.setdefault(stay.version, stay.first)
    seen = set()
    for stay in stays:
        start = first[stay.version]
        began, came = times[start], times[stay.first]
        if start == _BASELINE or began is None or came is None or (stay.stack, stay.version) in seen:
            continue
        seen.add((stay.stack, stay.version))
        if any(other.stack == stay.stack and _had(other, start) for other in stays):
            days = max(0.0, (came - began).total_seconds() / _DAY)
            yield Lag(history.package, stay.version, stay.stack, stay.first, days)


def _had(stay: Stay, start: int) -> bool:
    """Tell whether this was there when something came in revision `start`, or was replaced by it."""
    return stay.first < start and (stay.last is None or stay.last >= start)


def _in_time(stay: Stay) -> tuple[int, str, str]:
    return (stay.first, stay.stack, stay.version)
