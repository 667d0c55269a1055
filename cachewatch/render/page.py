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
from cachewatch.render.report_formats import ToldReport, told_reports
from cachewatch.render.statement_phrases import number
from cachewatch.render.templates import render
from cachewatch.render.text_blocks import Block, Requested

MOST_ROWS = 1000  # of a section: browsers take no pleasure in more

_GOOD = (StatementKind.UPGRADED, StatementKind.PACKAGE_ADDED, StatementKind.STACK_ADDED, StatementKind.TAG_ADDED)
_CARE = (StatementKind.UNREFERENCED, StatementKind.REBUILD_WAVE)


def write_page(changesets: Iterable[Changeset], *, asked: Requested) -> Iterator[bytes]:
    """Yield one page about all tags."""
    found = told_reports(changesets, asked)
    # Exactly what stands between <script> and </script>, so that a browser runs this and nothing else.
    script = "\n" + render("_page.js.j2")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = render(
        "page.html.j2",
        title=_title(found),
        reports=[_values(told) for told in found],
        script_hash=f"sha256-{digest}",
    )
    yield page.encode()


def _title(found: Sequence[ToldReport]) -> str:
    count = sum(len(told.reports) for told in found)
    return f"What changed in {found[0].name if len(found) == 1 else number(count, 'tag')}"


def _values(told: ToldReport) -> dict[str, Any]:
    return {
        "name": told.name,
        "spans": [
            {"before": _side(report.before), "after": _side(report.after), "between": elapsed_time.span(report)}
            for report in told.reports
        ],
        "total": told.shown.total,
        "blocks": [_block(block) for block in told.shown.blocks],
        "warnings": [
            {"kind": diagnostic.kind.value, "path": safe(diagnostic.path), "message": safe(diagnostic.message)}
            for report in told.reports
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
