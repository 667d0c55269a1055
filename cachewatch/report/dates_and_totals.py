"""Put into words which days and revisions a report compares, how long things lasted, and how its numbers add up."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from cachewatch.core.changesets import Report
from cachewatch.core.escaping_and_mentions import safe, safe_name
from cachewatch.core.kinds_and_specs import Kind
from cachewatch.core.statement_kinds import Counts, Line, Statement, StatementKind
from cachewatch.core.statements import Wants, divided, is_wanted
from cachewatch.report.words import FEW_NAMES, names, number, tag_event
from cachewatch.report.words_file import words


def there_since(line: Line) -> str:
    """Return how long the removed builds of `line` were there, `was there since 2026-03-02, 9 days`; "" if unknown."""
    stay = line.stay
    if stay is None:
        return ""
    days = int(stay.days or 0)
    lasted = f", {'at least ' if stay.is_least else ''}{number(days, 'day')}" if days else ""
    return f"was there since {stay.day}{' or before' if stay.or_before else lasted}"


_MOST_SHARES = 6


def signed(counts: Counts) -> str:
    """Return `+12 -3, 1 spec kept`: added specs, removed ones, and kept ones with other stacks; "" if all are 0."""
    changed = " ".join(f"{sign}{count:,}" for sign, count in (("+", counts.new), ("-", counts.vanished)) if count)
    return ", ".join(filter(None, (changed, f"{number(counts.kept, 'spec')} kept" if counts.kept else "")))


def _shares(counted: Iterable[tuple[StatementKind, Counts]]) -> tuple[Counter[str], Counter[str]]:
    """Return two counters, of added and of removed specs, by words for the kind of statement, such as `in upgrades`."""
    counted = list(counted)
    added, removed = Counter[str](), Counter[str]()
    for kind, counts in counted:
        share = words().text(kind, "share") if counts.total else ""  # such as: in upgrades
        added[words().text(kind, "share_new") or share] += counts.new
        removed[share] += counts.vanished
    added["kept from outside your selection"] = sum(counts.entered for _, counts in counted)
    removed["kept outside your selection"] = sum(counts.left for _, counts in counted)
    return +added, +removed  # without those of none


def accounting(statements: Iterable[Statement]) -> str:
    """Return how many specs came and went, largest numbers first: `+79: 64 rebuilt, 15 in upgrades`; "" if none did."""
    statements = list(statements)
    added, removed = _shares((one.kind, one.counts) for one in statements)
    old = sum(max(0, one.counts.unbuilt - one.counts.left) for one in statements)  # without those that left
    moved = sum(one.counts.stayed for one in statements) - old
    parts = []
    for sign, shares in (("+", added), ("-", removed)):
        rows = sorted(((count, share) for share, count in shares.items()), reverse=True)
        named = [f"{count:,} {share}" for count, share in rows[:_MOST_SHARES]]
        rest = sum(count for count, _ in rows[_MOST_SHARES:])
        parts += [f"{sign}{shares.total():,}: {', '.join(named + [f'{rest:,} others'] * bool(rest))}"] if rows else []
    parts += [f"{number(old, 'old build')} that may be pruned at any time"] if old else []
    parts += [f"{number(moved, 'build')} kept, now in other stacks"] if moved else []
    return "; ".join(parts)


def chosen_lines(statement: Statement, wants: Wants) -> tuple[Line, ...]:
    """Return the lines of `statement`, or parts of lines, whose kinds of change `wants` accepts.

    If `wants` accepts the statement but none of its lines, return all lines. If the statement is about the whole tag,
    and `wants` does not accept it, return no lines.
    """
    is_whole = is_wanted(statement, wants)
    lines = tuple(filter(None, (divided(one, lambda part: is_wanted(part, wants))[0] for one in statement.lines)))
    return lines if lines and (is_whole or not statement.kind.is_of_tag) else statement.lines if is_whole else ()


def total(report: Report, wants: Wants) -> str:
    """Return the last line of `report`, sums of kinds of change that `wants` accepts: `2 of 5 packages changed ...`."""
    lines = [(one.kind, line) for one in report.statements for line in chosen_lines(one, wants)]
    came, went = _shares((kind, line.counts) for kind, line in lines)
    plus, minus = f"+{came.total():,}", f"-{went.total():,}"
    sides = [(f"{plus} {minus}", came)] if came == went else [(plus, came), (minus, went)]
    shares = [f"{head}: {', '.join(f'{n:,} {of}' for of, n in side.items())}" for head, side in sides if side]
    moved = sum(line.counts.stayed for _, line in lines)
    shares += [f"{moved:,} kept with changed stacks"] if moved else []
    suffix = f" ({'; '.join(shares)})" if shares else ""
    packages, specs = report.packages, report.specs
    unread = len({one.package for one in report.unreadable}) - report.uncounted  # that could not be compared
    if not wants(frozenset()):
        turned = (one.packages for one in report.statements if one.turnover and wants(one.kinds))
        changed = len({line.package for _, line in lines}.union(*turned))
        whole = number(packages.before + packages.added - unread, "package")
        # Of packages without changes it is not known whether they have selected specs.
        which = number(changed, "package") if report.is_part else f"{changed:,} of {whole}"
        return f"{which} {'has' if changed == 1 else 'have'} changes of these kinds{suffix}"
    new = len({line.package for _, line in lines if Kind.PACKAGE_ADDED in line.kinds})
    gone = len({line.package for _, line in lines if Kind.PACKAGE_REMOVED in line.kinds})
    rebuilt = f" ({packages.rebuilt_only:,} of them only rebuilt)" if packages.rebuilt_only else ""
    # Some of those that could not be compared are on one side only.
    unread -= (packages.removed - gone) + (packages.added - new)
    on_both_sides = packages.before - packages.removed - max(0, unread)
    counted = [f"{packages.changed:,} of {number(on_both_sides, 'package')} changed{rebuilt}"] if on_both_sides else []
    if report.is_part:  # of packages without changes it is not known whether they have selected specs
        is_said = packages.changed or not (new or gone)
        counted = [f"{number(packages.changed, 'package')} changed{rebuilt}"] if is_said else []
    for count, (one, many) in ((new, ("is new", "are new")), (gone, ("was removed", "were removed"))):
        if count:
            which = f"{count:,} more" if counted else number(count, "package")
            counted.append(f"{which} {one if count == 1 else many}")
    whose = "their specs in your selection" if report.is_part else "their specs"
    return f"{', '.join(counted)}; {whose}: {specs.before:,} -> {specs.after:,}{suffix}"


def nothing(report: Report) -> str:
    """Return a sentence for a report without any changes to show."""
    counts, tag = report.packages, tag_event(report)
    sentence = f"{tag[0].upper()}{tag[1:]}." if tag else ""
    if report.statements or (not report.is_part and (counts.changed or counts.added or counts.removed)):
        return sentence or "Nothing of what was asked for."
    unread = {one.package for one in report.unreadable}
    compared = max(counts.before, counts.after) + report.uncounted - len(unread)
    if report.losses and not compared:
        return f"{sentence} Nothing could be compared.".lstrip()
    of = number(compared, "package")
    if report.is_part:  # whether anything of it is selected is not known
        of = f"your selection; {of} {'was' if compared == 1 else 'were'} searched"
    seen = ", as far as documents could be compared" if report.losses else ""
    same = ": all documents are the same" if report.is_same and not report.losses else ""
    return f"{sentence} No differences in {of}{seen}{same}.".lstrip()


_SHORT = 7  # of a revision


def tags_named(reports: Sequence[Report]) -> str:
    """Return the names of the reports' tags: `develop and develop-2025-06-01`."""
    found = [safe_name(one.tag) for one in reports]
    return " and ".join(found) if len(found) == 2 else names(found, FEW_NAMES)


def heading(report: Report) -> tuple[str, str]:
    """Return two texts: what is compared, with days; and `(REVISION -> REVISION, ...)`, "" if a side has none."""
    before, after = report.before, report.after
    if before.revision and after.revision:
        name = " -> ".join(dict.fromkeys(safe_name(side.tag or "") for side in (before, after)))
        if before.tag != after.tag and (new := tag_event(report)):
            name = f"{safe_name(before.tag or '')} -> {new}"
        revisions = " -> ".join(dict.fromkeys((before.revision[:_SHORT], after.revision[:_SHORT])))
        sides = "  ".join(filter(None, (name, days(before.time, after.time))))
        return sides, f"({', '.join(filter(None, (revisions, span(report))))})"
    tags = {side.tag for side in (before, after) if side.tag}
    shared = safe_name(tags.pop()) if len(tags) == 1 else ""
    files = []
    for side in (before, after):
        name = (side.revision or "")[:_SHORT] or safe(side.name)
        tag = f"({safe_name(side.tag)})" if side.tag and not shared else ""
        files.append(" ".join(filter(None, (name, days(side.time, side.time), tag))))
    return "  ".join(filter(None, (shared, " -> ".join(files)))), ""


def days(before: str | None, after: str | None) -> str:
    """Return the days of two ISO times, `25 May -> 1 Jun 2025` (with times for the same day); "" if one is None."""
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


def span(report: Report) -> str:
    """Return how far the two revisions are apart, `3 revisions, 2 days later`; "" if the distance is unknown."""
    before, after = report.before, report.after
    parts = []
    if report.revisions_between is not None and before.revision != after.revision:
        parts.append(number(report.revisions_between, "revision"))
    if before.time and after.time and before.time != after.time:
        start, end = (datetime.fromisoformat(time).astimezone(UTC) for time in (before.time, after.time))
        passed = end.date() - start.date() if abs(end - start) >= timedelta(hours=36) else end - start  # as `days`
        parts.append(f"{how_long(abs(passed))} {'later' if end > start else 'earlier'}")
    return ", ".join(parts)


def how_long(duration: timedelta) -> str:
    """Return a duration in its most natural unit: 5 days, 3 hours, 20 minutes, 7 seconds."""
    seconds = duration.total_seconds()
    if seconds >= 36 * 3600 or abs(seconds - 86400) < 1800:
        return number(max(1, int(seconds / 86400)), "day")
    if seconds >= 90 * 60:
        return number(round(seconds / 3600), "hour")
    if seconds >= 90:
        return number(round(seconds / 60), "minute")
    return number(max(1, round(seconds)), "second")
