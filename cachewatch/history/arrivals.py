"""When a version came to a stack, how long it stayed, and how much later than elsewhere that was."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.versions import VersionKey, version_identity
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
    # By Spack's order of versions: the document may write 1-2 now and 1.2 later.
    begun: dict[tuple[str, VersionKey], Interval] = {}
    for step in history.steps:
        for stack, version in step.came:
            arrived = Interval(stack, version, step.revision, None, is_dated=not step.is_baseline)
            begun[stack, version_identity(version)] = arrived
        for stack, version in step.went:
            ended.append(replace(begun.pop((stack, version_identity(version))), last=step.revision))
    return sorted([*ended, *begun.values()], key=_in_time)


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
    first: dict[VersionKey, Interval] = {}
    for stay in stays:
        first.setdefault(version_identity(stay.version), stay)
    seen = set()
    for stay in stays:
        version = version_identity(stay.version)
        start = first[version].first
        began, came = times[start], times[stay.first]
        is_known = first[version].is_dated and (stay.stack, version) not in seen
        if not is_known or began is None or came is None:
            continue
        seen.add((stay.stack, version))
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
