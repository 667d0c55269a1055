"""Say in one line what is compared with what: `develop  25 May -> 1 June 2025  (6001b26 -> 1afa5ee, 1 revision)`."""

from collections.abc import Sequence
from datetime import UTC, datetime

from cachewatch.core.model import Side
from cachewatch.core.untrusted_text import safe_name
from cachewatch.render import elapsed_time
from cachewatch.render.statement_phrases import names
from cachewatch.report.changes import Report

_SHORT = 7  # of a revision
_FEW_TAGS, _MOST_TAGS = 2, 5


def tags_named(reports: Sequence[Report]) -> str:
    """Name the tags of reports: `develop and develop-2025-06-01`."""
    found = [safe_name(one.after.tag or one.before.tag or one.after.name) for one in reports]
    return " and ".join(found) if len(found) == _FEW_TAGS else names(found, _MOST_TAGS)


def heading(report: Report) -> tuple[str, str]:
    """Name the two sides of `report` with their days; then, in brackets, their revisions and how far they are apart."""
    before, after = report.before, report.after
    if not (before.revision and after.revision):
        return _of_files(before, after), ""
    name = _both(safe_name(before.tag or ""), safe_name(after.tag or ""))
    revisions = _both(before.revision[:_SHORT], after.revision[:_SHORT])
    apart = elapsed_time.span(report)
    return "  ".join(
        filter(None, (name, days(before.time, after.time)))
    ), f"({', '.join(filter(None, (revisions, apart)))})"


def _of_files(before: Side, after: Side) -> str:
    tags = {side.tag for side in (before, after) if side.tag}
    shared = tags.pop() if len(tags) == 1 else ""
    names = (_one(side, "" if shared else side.tag or "") for side in (before, after))
    return "  ".join(filter(None, (safe_name(shared), " -> ".join(names))))


def _one(side: Side, tag: str) -> str:
    day = days(side.time, side.time)
    revision = (side.revision or "")[:_SHORT]
    named = " ".join(filter(None, (revision or safe_name(side.name), day)))
    return f"{named} ({safe_name(tag)})" if tag else named


def _both(before: str, after: str) -> str:
    return after if before == after else f"{before} -> {after}"


def days(before: str | None, after: str | None) -> str:
    """Return two days as people write them, with times if it is one day: `25 May -> 1 Jun 2025`."""
    if not before or not after:
        return ""
    start, end = (datetime.fromisoformat(time).astimezone(UTC) for time in (before, after))
    last = f"{end.day} {end:%b %Y}"
    if start == end:
        return last
    if start.date() == end.date():
        clock = "%H:%M:%S" if (start.hour, start.minute) == (end.hour, end.minute) else "%H:%M"
        return f"{last}, {start:{clock}} -> {end:{clock}} UTC"
    first = f"{start.day} {start:%b}" if start.year == end.year else f"{start.day} {start:%b %Y}"
    return f"{first} -> {last}"
