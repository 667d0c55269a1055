"""The line that adds up: of how many packages it speaks, and what became of their specs."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Set

from cachewatch.core.model import Kind
from cachewatch.core.statements import Line, Statement
from cachewatch.core.statements.values import Counts
from cachewatch.render.statement_phrases import SHARES, number
from cachewatch.report.changes import Report

Wants = Callable[[Set[Kind]], bool]
Shares = Mapping[str, Counts]


def signed(counts: Counts) -> str:
    """Return how many specs came, went, and stayed with changed stacks: `+12 -3, 1 spec kept`."""
    changed = " ".join(f"{sign}{count:,}" for sign, count in (("+", counts.new), ("-", counts.vanished)) if count)
    return ", ".join(filter(None, (changed, f"{number(counts.kept, 'spec')} kept" if counts.kept else "")))


def total(report: Report, wants: Wants) -> str:
    """Add up the packages that have a kind of change that somebody wants: `2 of 5 packages changed; their specs: ...`."""
    lines = [line for one in report.statements for line in one.lines]
    wanted = {line.package for line in lines if wants(line.kinds)}
    whose = "their specs in your selection" if report.is_part else "their specs"
    specs = report.specs
    shares = shares_of(report.statements, wanted)
    told = f" ({_shares(shares)})" if shares else ""
    return f"{_packages(report, lines, wanted)}; {whose}: {specs.before:,} -> {specs.after:,}{told}"


def nothing(report: Report) -> str:
    """Say that there is nothing to say."""
    counts = report.packages
    if report.statements or (not report.is_part and (counts.changed or counts.added or counts.removed)):
        return "Nothing of what was asked for."
    seen = " in what could be compared" if report.losses else ""
    selected = " in your selection" if report.is_part else ""
    return f"No differences{selected}{seen} of {number(max(counts.before, counts.after), 'package')}."


def shares_of(statements: Iterable[Statement], packages: Set[str]) -> Shares:
    """Return what became of the specs of some packages, by the name of each share."""
    found: defaultdict[str, Counts] = defaultdict(Counts)
    for one in statements:
        for line in one.lines:
            if line.package in packages and line.counts.total:
                found[SHARES[one.kind]] += line.counts
    return found


def _packages(report: Report, lines: Iterable[Line], wanted: Set[str]) -> str:
    counts = report.packages
    new, gone = (
        {line.package for line in lines if kind in line.kinds} & wanted
        for kind in (Kind.PACKAGE_ADDED, Kind.PACKAGE_REMOVED)
    )
    parts = [f"{counts.changed:,} of {number(max(counts.before, counts.after), 'package')} changed"]
    parts += [f"{counts.rebuilt_only:,} of them only rebuilt"] if counts.rebuilt_only else []
    parts += [f"{len(new):,} new"] if new else []
    parts += [f"{len(gone):,} removed"] if gone else []
    return ", ".join(parts)


def _shares(shares: Shares) -> str:
    """Say of every spec that came, went or moved what became of it."""
    came, went, moved = ({name: getattr(c, side) for name, c in shares.items()} for side in ("new", "vanished", "kept"))
    if came == went:
        parts = [f"+{sum(came.values()):,} -{sum(went.values()):,}: {_listed(came)}"] if any(came.values()) else []
    else:
        parts = [f"+{sum(came.values()):,}: {_listed(came)}"] if any(came.values()) else []
        parts += [f"-{sum(went.values()):,}: {_listed(went)}"] if any(went.values()) else []
    parts += [f"{sum(moved.values()):,} kept with changed stacks: {_listed(moved)}"] if any(moved.values()) else []
    return "; ".join(parts)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
