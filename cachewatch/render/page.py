"""Changesets as one page of HTML: nothing to fetch, nothing that needs a script, a little script for comfort."""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import asdict

from cachewatch.core.changesets import Changeset
from cachewatch.core.model import Side
from cachewatch.core.statements import Severity, StatementKind
from cachewatch.core.untrusted_text import safe
from cachewatch.render import elapsed_time
from cachewatch.render.report_blocks import tell
from cachewatch.render.report_formats import read_report
from cachewatch.render.statement_phrases import number
from cachewatch.render.templates import render
from cachewatch.render.text_blocks import Block, Requested
from cachewatch.report.changes import Report

MOST_ROWS = 1000  # of a section: browsers take no pleasure in more

_GOOD = (StatementKind.UPGRADED, StatementKind.PACKAGE_ADDED, StatementKind.STACK_ADDED, StatementKind.TAG_ADDED)
_CARE = (StatementKind.UNREFERENCED, StatementKind.REBUILD_WAVE)


def write_page(changesets: Iterable[Changeset], *, asked: Requested) -> Iterator[bytes]:
    """Yield one page about all tags."""
    reports = [read_report(changeset, asked) for changeset in changesets]
    # Exactly what stands between <script> and </script>, so that a browser runs this and nothing else.
    script = "\n" + render("_page.js.j2")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = render(
        "page.html.j2",
        title=_title(reports),
        reports=[_values(report, asked) for report in reports],
        script_hash=f"sha256-{digest}",
    )
    yield page.encode()


def _title(reports: Sequence[Report]) -> str:
    names = [_name(report) for report in reports]
    return f"What changed in {names[0] if len(names) == 1 else number(len(names), 'tag')}"


def _name(report: Report) -> str:
    return safe(report.after.tag or report.before.tag or report.after.name)


def _values(report: Report, asked: Requested) -> dict[str, Any]:
    told = tell(report, asked)
    return {
        "name": _name(report),
        "before": _side(report.before),
        "after": _side(report.after),
        "span": elapsed_time.span(report),
        "total": told.total,
        "blocks": [_block(block) for block in told.blocks],
        "warnings": [
            {"kind": diagnostic.kind.value, "path": safe(diagnostic.path), "message": safe(diagnostic.message)}
            for diagnostic in report.diagnostics
        ],
    }


def _side(side: Side) -> dict[str, Any]:
    return {name: safe(value) if value else value for name, value in asdict(side).items()}


def _block(block: Block) -> dict[str, Any]:
    return {
        "kind": block.kind.value,
        "grade": _grade(block),
        "title": block.title,
        "name": block.name,
        "total": block.total,
        "notes": block.notes,
        "named": block.named,
        "packages": block.packages,
        "first": "Place" if block.is_by_place else "Package",
        "rows": [
            {
                "name": entry.name,
                "fact": entry.fact,
                "specs": entry.specs,
                "where": entry.where.removeprefix("in "),
            }
            for entry in block.entries
        ],
        "more": block.more,
    }


def _grade(block: Block) -> str:
    if block.severity is Severity.ATTENTION:
        return "bad"
    return "good" if block.kind in _GOOD else "care" if block.kind in _CARE else ""
