"""A report for a terminal: a fixed state column, aligned versions, and nothing but ASCII of our own."""

import re
import textwrap
from collections.abc import Iterable, Iterator

from cachewatch.model import Side
from cachewatch.render import words
from cachewatch.render.colour import Palette
from cachewatch.report import Report, SectionReport
from cachewatch.report.rows import Row
from cachewatch.safetext import safe

NARROWEST = 60
_WIDEST_PACKAGE = 28
_WIDEST_CHANGE = 30
_CONTINUATION = " " * 9
_COLOURS = {"R!": "red", "D ": "red", "L ": "yellow", "U ": "green", "A*": "green", "A ": "green"}


def render_text(report: Report, *, width: int, palette: Palette) -> Iterator[str]:
    """Yield the lines of `report`, at most `width` columns wide where words allow it."""
    width = max(width, NARROWEST)
    yield from _header(report, width, palette)
    yield ""
    if report.is_empty:
        yield words.nothing(report)
    if report.events:
        yield palette.paint("WHOLE TAG", "bold")
        for event in report.events:
            yield from textwrap.wrap(
                words.event_sentence(event), width, initial_indent="[! ] ", subsequent_indent="     "
            )
        yield ""
    columns = _Columns([row for section in report.sections for row in section.rows], width)
    for section in report.sections:
        yield from _section(section, columns, palette)
        yield ""
    if report.losses:
        yield f"{words.number(report.losses, 'document')} could not be compared, or not wholly; see the warnings."
    if not report.is_empty:
        totals = f"{words.package_totals(report.packages)}; {words.spec_totals(report.specs)}"
        yield from textwrap.wrap(totals, width, subsequent_indent="  ")


def _header(report: Report, width: int, palette: Palette) -> Iterator[str]:
    before, after = _name(report.before), _name(report.after)
    aligned = max(len(part) for part in (before[0], after[0]))
    apart = words.span(report)
    for sign, (what, rest), note in (("<<<", before, ""), (">>>", after, f"({apart})" if apart else "")):
        start = f"{palette.paint(sign, 'dim')} {palette.paint(what.ljust(aligned), 'bold')}  {rest}".rstrip()
        if note and 6 + aligned + len(rest) + 2 + len(note) > width:
            yield start
            yield f"    {note}"
        else:
            yield f"{start}  {note}".rstrip()


def _name(side: Side) -> tuple[str, str]:
    if side.revision is None:
        return safe(side.name), safe(side.tag or "")
    time = side.time.replace("T", " ")[:16] + "Z" if side.time else "no date"
    named = "" if side.revision.startswith(side.name) else f"  {safe(side.name)}"
    return side.revision[:10], f"{time}  {safe(side.tag or '')}{named}"


def _section(section: SectionReport, columns: "_Columns", palette: Palette) -> Iterator[str]:
    heading = words.section_heading(section)
    name, _, total = heading.partition("  ")
    yield f"{palette.paint(name.upper(), 'bold')}  {total}".rstrip()
    for row in section.rows:
        yield from columns.lines(row, palette)
    if remainder := words.remainder(section):
        yield f"     {remainder}"


class _Columns:
    """The widths that line up all rows of a report."""

    def __init__(self, rows: Iterable[Row], width: int) -> None:
        rows = list(rows)
        self._width = width
        self._package = min(_WIDEST_PACKAGE, max((len(safe(row.package)) for row in rows), default=0))
        fitting = [length for row in rows if (length := len(_change(row))) <= _WIDEST_CHANGE]
        self._change = max(fitting, default=0)
        self._count = max((len(_count(row)) for row in rows), default=0)

    def lines(self, row: Row, palette: Palette) -> Iterator[str]:
        """Yield one row, with what does not fit below it."""
        change = _change(row)
        state = palette.paint(f"[{row.state}]", _COLOURS.get(row.state, "")) if row.state.strip() else "    "
        start = f"{state} {safe(row.package).ljust(self._package)}"
        used = 5 + max(len(safe(row.package)), self._package)
        if change:
            start += f"  {_painted(row, palette)}{' ' * max(0, self._change - len(change))}"
        else:
            start += " " * (2 + self._change)
        used += 2 + max(self._change, len(change))
        start += f"  {_count(row).ljust(self._count)}"
        used += 2 + self._count
        tail = safe(row.where) + (f"  ({row.note})" if row.note else "")
        if used + 2 + len(tail) <= self._width:
            yield f"{start}  {tail}".rstrip()
            return
        yield start.rstrip()
        yield from _filled(tail, self._width)


def _filled(text: str, width: int) -> Iterator[str]:
    """Break `text` behind blanks and commas, below the line that it belongs to."""
    line = _CONTINUATION
    for word in _words(text, width - len(_CONTINUATION)):
        if len(line) + len(word.rstrip()) > width and line.strip():
            yield line.rstrip()
            line = _CONTINUATION
        line += word
    yield line.rstrip()


def _words(text: str, longest: int) -> Iterator[str]:
    # What stands in braces stays together as long as it can.
    for word in re.split(r"(?<=[ ,])(?![^{}]*\})", text):
        yield from [word] if len(word) <= longest else re.split(r"(?<=,)", word)


def _change(row: Row) -> str:
    return " -> ".join(safe(part) for part in (row.before, row.after) if part)


def _painted(row: Row, palette: Palette) -> str:
    """Paint only what differs between two versions, so that the eye falls on it."""
    before, after = safe(row.before), safe(row.after)
    if not (before and after):
        colour = "red" if before and row.state == "R!" else "green" if after else ""
        return palette.paint(before or after, colour)
    same = _common_prefix(before, after)
    return (
        f"{before[:same]}{palette.paint(before[same:], 'red')} -> {after[:same]}{palette.paint(after[same:], 'green')}"
    )


def _common_prefix(before: str, after: str) -> int:
    """Return the length of what both begin with, up to the last whole part of a version."""
    length = 0
    for match in re.finditer(r"[^.@_-]*[.@_-]?", before):
        if not match[0] or not after.startswith(before[: match.end()]):
            break
        length = match.end()
    return length if length < min(len(before), len(after)) else 0


def _count(row: Row) -> str:
    return "" if row.count is None else f"x{row.count:,}"
