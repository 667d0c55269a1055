"""Answers of the history as tables for people, each with a line that tells up to which revision the index goes.

The modules of the answers are imported for their types only, so no question loads what another one needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec.structs import astuple

from cachewatch.core.names import safe
from cachewatch.core.package_changes import describe_changes
from cachewatch.extensions.history.hashes import BestSnapshots, Blame, Life, SpecStay
from cachewatch.extensions.history.log import Churn, RevisionLog
from cachewatch.extensions.history.read import IndexPoint
from cachewatch.extensions.history.when import When
from cachewatch.report.tables import Cell, Row, Table
from cachewatch.report.words import number

_NO_STACK = "(no stack)"
_LOG_COLUMNS = ("date", "revision", "what happened")
_NOT_RECORDED = (
    "Causes are known where the dependency graph is recorded, which Spack's public catalogue does not have: "
    "`cachewatch record` keeps it from now on."
)


def indexed_up_to(point: IndexPoint) -> str:
    """Return the line that ends every answer: the last indexed revision and its time."""
    return f"indexed up to {_named(point)}"


def _named(point: IndexPoint) -> str:
    minute = f"{point.time[:10]} {point.time[11:16]} UTC" if point.time else "date unknown"
    return f"{safe(point.revision[:10])}, {minute}"


def _day(point: IndexPoint | None) -> str | None:
    return None if point is None else (point.time or "unknown")[:10]


def when_table(answer: When, *, is_for_people: bool) -> Table:
    """Return a table with a row for each version, stack and target.

    With `is_for_people`, stacks that differ in nothing else share a row.
    """
    columns: tuple[str, ...] = ("version", "stack", "target", "first", "revision", "lag (days)", "until")
    rows: list[Row] = [
        (
            row.version,
            row.stack or _NO_STACK,
            row.target,
            f"<= {_day(row.first)}" if row.baseline else _day(row.first),
            row.first.revision[:10],
            f">= {row.lag_days}" if row.lag_is_minimum else row.lag_days,
            _day(row.last),
        )
        for row in answer.rows
    ]
    if is_for_people:
        stacks: dict[Row, list[Cell]] = {}
        for version, stack, target, first, _, lag, until in rows:
            stacks.setdefault((version, target, first, lag, until), []).append(stack)
        columns = ("version", "target", "first", "lag (days)", "until", "stacks")
        rows = [(*same, ", ".join(map(str, names))) for same, names in stacks.items()]
    return Table(columns, rows, after=("",) * bool(rows) + (indexed_up_to(answer.indexed),))


def log_table(answer: RevisionLog, *, is_for_people: bool) -> Table:
    """Return a table with a row for each change of each revision.

    With `is_for_people`, the date and revision are only in the first of its rows.
    """
    more: tuple[str, ...] = (
        (f"{answer.earlier:,} earlier revisions with changes; --most N shows more",) if answer.earlier else ()
    )
    rows: list[Row] = []
    for one in answer.revisions:
        unread = [f"{document.package} is unreadable: {document.message}" for document in one.unreadable]
        for place, fact in enumerate((*one.facts, *unread)):
            is_told = place and is_for_people
            rows.append((" ", " ", fact) if is_told else ((one.time or "")[:10], one.revision[:10], fact))
    more += () if rows else (f"no changes of {answer.tag} in that range",)
    return Table(_LOG_COLUMNS, rows, after=("",) * bool(rows) + (*more, indexed_up_to(answer.indexed)))


def blame_table(answer: Blame) -> Table:
    """Return a table with a row for each event in the life of a hash."""
    spec = answer.spec
    title = (
        f"/{answer.hash}  {answer.package} {', '.join(spec.versions)}  {spec.compiler}  "
        f"{spec.platform}-{spec.os}-{spec.target}  {' '.join(spec.variants)}"
    ).rstrip()
    rows = [
        row
        for place, life in enumerate(answer.lives)
        for row in _life_rows(life, [s for s in answer.intervals if s.life == place], answer.lives[:place])
    ]
    columns = ("tag", "package", "date", "revision", "event")
    return Table(columns, rows, (title, ""), ("", indexed_up_to(answer.indexed)))


def _life_rows(life: Life, stays: Sequence[SpecStay], earlier: Sequence[Life]) -> list[Row]:
    other = "".join(
        f"; another spec than before: {describe_changes(one.spec, life.spec)}"
        for one in earlier[-1:]
        if (one.tag, one.package) == (life.tag, life.package)
    )
    birth = f"{'born then or before' if life.baseline else 'born'} {_in(stays[0].stacks)}"
    rows = [_event(life, life.born, birth + other)]
    for before, after in pairwise(stays):
        if before.last == after.first:
            rows.append(_event(life, after.first, _moved(before, after)))
        else:
            rows += [_event(life, before.last, "gone"), _event(life, after.first, f"back {_in(after.stacks)}")]
    if life.died is not None:
        rows.append(_event(life, life.died, _death(life)))
    return rows


def _event(life: Life, point: IndexPoint | None, text: str) -> Row:
    return (life.tag, life.package, _day(point), None if point is None else point.revision[:10], text)


def _in(stacks: Sequence[str]) -> str:
    return f"in {', '.join(stacks)}" if stacks else "in no stack"


def _moved(before: SpecStay, after: SpecStay) -> str:
    joined = sorted(set(after.stacks) - set(before.stacks))
    left = sorted(set(before.stacks) - set(after.stacks))
    parts = [f"joined {', '.join(joined)}"] * bool(joined) + [f"left {', '.join(left)}"] * bool(left)
    return "; ".join(parts) + ("; no stack builds it any more" if not after.stacks else "")


def _death(life: Life) -> str:
    stays = "no stack has this version any more"
    if life.stays:
        stays = f"{life.package} {', '.join(life.spec.versions)} stays in {number(len(life.stays), 'stack')}"
    return "; ".join(("gone", *life.facts, stays))


def churn_table(answer: Churn) -> Table:
    """Return a table with a row for each package, stack or cause."""
    since = "the beginning" if answer.since is None else _named(answer.since)
    title = f"{answer.tag}: {answer.revisions:,} revision{'s' * (answer.revisions != 1)}, from {since} to {_named(answer.until)}"
    if answer.by == "cause":
        columns: tuple[str, ...] = ("package", "what changed", "before", "after", "specs", "attributed")
    else:
        columns = (answer.by, "added", "removed", "net added", "net removed")
    more = (f"and {answer.others:,} more; --most N shows more",) if answer.others else ()
    after = (*more, *_cause_notes(answer), "", indexed_up_to(answer.indexed))
    return Table(columns, [astuple(row) for row in answer.rows], (title, ""), after)


def _cause_notes(answer: Churn) -> tuple[str, ...]:
    """Return the lines below the table: for how many revisions no causes are recorded, or that nothing changed."""
    changed = (answer.recorded or 0) + (answer.not_recorded or 0)
    if answer.not_recorded:
        of = f"{answer.not_recorded:,} of the {changed:,} revisions that changed {answer.tag}"
        return (f"Not recorded: {of} in that time. {_NOT_RECORDED}",)
    if answer.rows:
        return ()
    return ("Nothing was rebuilt." if answer.by == "cause" else "Nothing changed.",)


def snapshots_table(answer: BestSnapshots) -> Table:
    """Return a table with a row for each tag, best first."""
    rows = [
        (one.tag, one.found, one.of, one.revision[:10], (one.time or "unknown")[:10], "yes" if one.is_current else "no")
        for one in answer.snapshots
    ]
    columns = ("tag", "found", "of", "revision", "date", "now")
    more = (f"and {answer.others:,} more; --most N shows more",) if answer.others else ()
    return Table(columns, rows, after=(*more, "", indexed_up_to(answer.indexed)))
