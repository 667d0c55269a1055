"""Changesets as one page of HTML: nothing to fetch, nothing that needs a script, a little script for comfort."""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import asdict

from cachewatch.changesets import Changeset
from cachewatch.model import Kind
from cachewatch.render import words
from cachewatch.render.phrases import number
from cachewatch.render.reports import Wants, read_report
from cachewatch.render.templates import render
from cachewatch.report import Report, SectionReport
from cachewatch.report.cover import name_stacks
from cachewatch.report.rows import Row, Section
from cachewatch.safetext import safe

MOST_ROWS = 1000  # of a section: browsers take no pleasure in more
_LONGEST_WHERE = 300

_TILES = {
    Section.STACKS: "in other stacks",
    Section.COMPILERS: "recompiled",
    Section.VARIANTS: "reconfigured",
}

# What the two characters of a state mean, and whether that is bad.
_STATES: Mapping[str, tuple[str, str]] = {
    "R!": ("Lost", "bad"),
    "R ": ("Removed", ""),
    "r ": ("Removed", ""),
    "L ": ("Left over", "care"),
    "D ": ("Downgrade", "bad"),
    "U ": ("Upgrade", "good"),
    "A*": ("New", "good"),
    "A ": ("New", "good"),
    "a ": ("One more", ""),
    "M ": ("Moved", ""),
    "S ": ("Restacked", ""),
    "C ": ("Recompiled", ""),
    "V ": ("Reconfigured", ""),
}
# The note of these says it better.
_NOTED = ("R!", "R ", "r ", "A*", "A ", "a ")
_EVENTS = {
    Kind.TAG_REMOVED: "Gone",
    Kind.STACK_REMOVED: "Stack gone",
    Kind.SUSPICIOUS: "Suspicious",
    Kind.PRUNE: "Prune",
}


def write_page(changesets: Iterable[Changeset], *, most: int, wants: Wants) -> Iterator[bytes]:
    """Yield one page about all tags."""
    reports = [read_report(changeset, most, wants) for changeset in changesets]
    # Exactly what stands between <script> and </script>, so that a browser runs this and nothing else.
    script = "\n" + render("_page.js.j2")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = render(
        "page.html.j2",
        title=_title(reports),
        reports=[_values(report) for report in reports],
        script_hash=f"sha256-{digest}",
    )
    yield page.encode()


def _title(reports: list[Report]) -> str:
    names = [_name(report) for report in reports]
    return f"What changed in {names[0] if len(names) == 1 else words.number(len(names), 'tag')}"


def _name(report: Report) -> str:
    return safe(report.after.tag or report.before.tag or report.after.name)


def _values(report: Report) -> dict[str, Any]:
    return {
        "name": _name(report),
        "before": _side(report.before),
        "after": _side(report.after),
        "span": words.span(report),
        "nothing": words.nothing(report) if report.is_empty else "",
        "package_totals": words.package_totals(report.packages),
        "specs": asdict(report.specs),
        "tiles": [_tile(section) for section in report.sections],
        "events": [
            {
                "word": _EVENTS.get(event.kind, "Everywhere"),
                "sentence": words.event_sentence(event),
                "is_bad": event.kind in (Kind.TAG_REMOVED, Kind.STACK_REMOVED, Kind.SUSPICIOUS),
            }
            for event in report.events
        ],
        "sections": [_section(section) for section in report.sections],
        "warnings": [
            {"kind": fault.kind.value, "path": safe(fault.path), "message": safe(fault.message)}
            for fault in report.faults
        ],
    }


def _side(side: Any) -> dict[str, Any]:
    return {name: safe(value) if value else value for name, value in asdict(side).items()}


def _tile(section: SectionReport) -> dict[str, Any]:
    count = section.specs + section.explained_specs
    what = _TILES.get(section.section, section.section.value)
    return {
        "name": _slug(section.section),
        "count": count or len(section.rows) + section.hidden_lines,
        "words": f"{'spec' if count == 1 else 'specs'} {what}" if count else what,
    }


def _section(section: SectionReport) -> dict[str, Any]:
    name, _, total = words.section_heading(section).partition("  ")
    return {
        "name": _slug(section.section),
        "title": name.capitalize(),
        "total": total,
        "rows": [_row(row) for row in section.rows],
        "remainder": words.remainder(section),
    }


def _slug(section: Section) -> str:
    return section.value.replace(" ", "-")


def _row(row: Row) -> dict[str, Any]:
    word, grade = _STATES.get(row.state, ("", ""))
    note = safe(row.note)
    if row.state in _NOTED and note:
        word, note = note.capitalize(), ""
    return {
        "package": safe(row.package),
        "before": safe(row.before),
        "after": safe(row.after),
        "count": row.count,
        "where": safe(where_of(row, _LONGEST_WHERE).removeprefix("in ")),
        "word": word,
        "grade": grade,
        "note": note,
    }


_COMMA = re.compile(r",(?![^{}]*\})")  # outside of braces


def where_of(row: Row, longest: int) -> str:
    """Say where: `in e4s, radiuss on x86_64_v3`, `for aarch64`, or `joined e4s, left radiuss`."""
    if row.section is Section.STACKS:
        joined, left = (name_stacks(stacks) if stacks else "" for stacks in (row.cause.gained, row.cause.lost))
        return ", ".join(filter(None, (joined and f"joined {joined}", left and f"left {left}")))
    if not row.where:
        return ""
    stacks = {stack for _, found in row.spots for stack in found}
    where = ("in " if row.move or stacks else "for ") + _COMMA.sub(", ", row.where.replace("|", " on "))
    if len(where) <= longest or row.move:
        return where
    targets = number(len({target for target, _ in row.spots}), "target")
    return f"in {number(len(stacks), 'stack')} on {targets}" if stacks else f"for {targets}"
