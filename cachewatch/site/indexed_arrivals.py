"""When versions came to stacks before the first revision that a site shows, where a history index knows it."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from cachewatch.core.versions import VersionKey
from cachewatch.errors import UnknownRevision
from cachewatch.history import TagHistory, intervals_of
from cachewatch.history_db.presence import Presence, find_stays
from cachewatch.history_db.reading import Index
from cachewatch.site.page_values import DatedRevision
from cachewatch.site.shared_phrases import dated_revision


class Arrival(Struct, frozen=True):
    """When something came."""

    moment: DatedRevision
    time: datetime | None
    is_dated: bool  # False if it came then or before


class Arrivals(Struct, frozen=True):
    """Of one package: what the first revision of the site has, and the first stack that ever had each version."""

    stays: Mapping[tuple[str, VersionKey], Arrival] = {}  # by stack and version
    begins: Mapping[VersionKey, Arrival] = {}  # by version


def read_arrivals(index: Index, past: TagHistory) -> Mapping[str, Arrivals]:
    """Return the arrivals of all packages that were there when the site begins; nothing if the index does not know that."""
    number = _begin(index, past)
    if number is None:
        return {}
    return {
        history.package: _arrivals(index, history.package, past.tag, number)
        for history in past.packages
        if any(not stay.is_dated for stay in intervals_of(history))
    }


def _begin(index: Index, past: TagHistory) -> int | None:
    """Return the place of the first revision in the chain; None if nothing comes before it, or it is not indexed."""
    try:
        number = index.number_of(past.revisions[0][0]) if past.revisions else 0
    except UnknownRevision:
        return None
    return number or None


def _arrivals(index: Index, package: str, tag: str, number: int) -> Arrivals:
    found = find_stays(index, package, tag, number)
    return Arrivals(
        {key: _arrival(index, one) for key, one in found.first.items()},
        {version: _arrival(index, one) for version, one in found.begins.items()},
    )


def _arrival(index: Index, one: Presence) -> Arrival:
    point = index.point(one.first)
    time = datetime.fromisoformat(point.time) if point.time else None
    return Arrival(dated_revision(point.revision, time), time, not one.is_baseline)
