"""The line that adds up: of how many packages it speaks, and what became of their specs."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

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


def chosen_lines(statement: Statement, wants: Wants) -> tuple[Line, ...]:
    """Return the lines of the kinds that somebody wants; all of them if only the statement is of such a kind."""
    lines = tuple(line for line in statement.lines if wants(line.kinds))
    return lines or (statement.lines if wants(statement.kinds) else ())


def total(report: Report, wants: Wants) -> str:
    """Add up what somebody wants: `2 of 5 packages changed; their specs: ...`.

    Where only some kinds of change are wanted, the sum is that of their lines.
    """
    lines = [(SHARES[one.kind], line) for one in report.statements for line in chosen_lines(one, wants)]
    told = _shares(shares_of(lines))
    if not wants(frozenset()):
        packages = len({line.package for _, line in lines})
        counts = report.packages
        whole = number(max(counts.before, counts.after), "package")
        return f"{packages:,} of {whole} with changes of these kinds{f' ({told})' if told else ''}"
    whose = "their specs in your selection" if report.is_part else "their specs"
    specs = report.specs
    counted = _packages(report, [line for _, line in lines])
    return f"{counted}; {whose}: {specs.before:,} -> {specs.after:,}{f' ({told})' if told else ''}"


def nothing(report: Report) -> str:
    """Say that there is nothing to say."""
    counts = report.packages
    if report.statements or (not report.is_part and (counts.changed or counts.added or counts.removed)):
        return "Nothing of what was asked for."
    seen = " in what could be compared" if report.losses else ""
    selected = " in your selection" if report.is_part else ""
    return f"No differences{selected}{seen} of {number(max(counts.before, counts.after), 'package')}."


def shares_of(lines: Iterable[tuple[str, Line]]) -> Shares:
    """Return what became of the specs of some lines, by the name of each share."""
    found: defaultdict[str, Counts] = defaultdict(Counts)
    for name, line in lines:
        if line.counts.total:
            found[name] += line.counts
    return found


def _packages(report: Report, lines: Sequence[Line]) -> str:
    counts = report.packages
    new, gone = (
        {line.package for line in lines if kind in line.kinds} for kind in (Kind.PACKAGE_ADDED, Kind.PACKAGE_REMOVED)
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
