"""A report for a terminal: a heading says what happened, a line says to whom, and nothing but ASCII of our own."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from cachewatch.core.statements import Severity, StatementKind
from cachewatch.render.colour import Palette
from cachewatch.render.compared_revisions import heading, tags_named
from cachewatch.render.statement_phrases import number
from cachewatch.render.text_blocks import Block, BlockEntry, Shown
from cachewatch.report.changes import Report

NARROWEST = 60
_WIDEST_NAME = 32
_WIDEST_FACT = 34
_INDENT = "  "
_CONTINUATION = " " * 6
_COLOURS = {
    StatementKind.PACKAGE_REMOVED: "red",
    StatementKind.DOWNGRADED: "red",
    StatementKind.PLACE_LOST: "red",
    StatementKind.UNREFERENCED: "yellow",
    StatementKind.PACKAGE_ADDED: "green",
    StatementKind.UPGRADED: "green",
}
_REPLACED = re.compile(r"(\S+) -> ([^\s,]+)(.*)", re.DOTALL)


def render_text(reports: Sequence[Report], told: Shown, *, width: int, palette: Palette) -> Iterator[str]:
    """Yield the lines of reports on tags that changed alike, at most `width` columns wide where words allow it."""
    width = max(width, NARROWEST)
    report, *others = reports
    if others:
        yield from _wrapped(f"{tags_named(reports)}: the same changes", width, rest=_INDENT)
    for one in reports:
        yield from _sides(one, width, _INDENT if others else "")
    yield ""
    for block in told.blocks:
        yield from _block(block, width, palette)
        yield ""
    if report.losses:
        yield f"{number(report.losses, 'document')} could not be compared, or not wholly; see the warnings."
    yield from _wrapped(told.total, width, rest=_INDENT)


def _sides(report: Report, width: int, indent: str) -> Iterator[str]:
    sides, revisions = heading(report)
    is_short = len(indent) + len(sides) + 2 + len(revisions) <= width
    for line in (f"{sides}  {revisions}".rstrip(),) if is_short else (sides, f"{_INDENT}{revisions}"):
        yield from _wrapped(line, width, first=indent, rest=indent + _INDENT)


def _wrapped(text: str, width: int, *, first: str = "", rest: str = "") -> Iterator[str]:
    yield from textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _block(block: Block, width: int, palette: Palette) -> Iterator[str]:
    yield from _heading(block, width, palette)
    for note in block.notes:
        yield from _wrapped(note, width, first=_INDENT, rest=_INDENT * 2)
    if block.named:
        yield from _wrapped(block.named, width, first=_INDENT, rest=_INDENT)
    columns = _Columns(block.entries, width)
    for entry in block.entries:
        yield from columns.lines(entry, "" if entry.is_harmless else _COLOURS.get(block.kind, ""), palette)
    if block.more:
        yield f"{_INDENT}{block.more}"


def _heading(block: Block, width: int, palette: Palette) -> Iterator[str]:
    title = palette.paint(block.title.upper(), "bold")
    if block.severity is Severity.ATTENTION:
        title = palette.paint(title, "red")
    text = "  ".join(filter(None, (block.title.upper(), block.name, block.total)))
    if len(text) <= width:
        yield text.replace(block.title.upper(), title, 1)
        return
    yield from _wrapped(f"{block.title.upper()}  {block.name}".strip(), width, rest=_INDENT)
    yield from _wrapped(block.total, width, first=_INDENT, rest=_INDENT)


class _Columns:
    """The widths that line up the lines of a block."""

    def __init__(self, entries: Iterable[BlockEntry], width: int) -> None:
        entries = list(entries)
        self._width = width
        self._name = _widest((entry.name for entry in entries), _WIDEST_NAME)
        self._fact = _widest((entry.fact for entry in entries), _WIDEST_FACT)
        self._count = _widest((entry.specs for entry in entries), _WIDEST_FACT)

    def lines(self, entry: BlockEntry, colour: str, palette: Palette) -> Iterator[str]:
        """Yield one entry, with what does not fit below it."""
        start = f"{_INDENT}{entry.name:<{self._name}}"
        middle = f"  {entry.fact:<{self._fact}}  " if self._fact or entry.fact else "  "
        line = f"{start}{middle}{entry.specs:<{self._count}}"
        if len(line) > self._width:
            yield start.rstrip()
            yield from _filled("  ".join(filter(None, (entry.fact, entry.specs, entry.where))), self._width)
            return
        painted = (
            f"{start}{middle.replace(entry.fact, _painted(entry.fact, colour, palette), 1)}{entry.specs:<{self._count}}"
        )
        if len(line) + 2 + len(entry.where) <= self._width:
            yield f"{painted}  {entry.where}".rstrip()
            return
        yield painted.rstrip()
        yield from _filled(entry.where, self._width)


def _widest(texts: Iterable[str], most: int) -> int:
    return max((len(text) for text in texts if len(text) <= most), default=0)


def _filled(text: str, width: int) -> Iterator[str]:
    """Break `text` behind blanks, below the line that it belongs to."""
    yield from _wrapped(text, width, first=_CONTINUATION, rest=_CONTINUATION)


def _painted(fact: str, colour: str, palette: Palette) -> str:
    """Paint only what differs between two versions, so that the eye falls on it."""
    match = _REPLACED.fullmatch(fact)
    if match is None:
        return palette.paint(fact, colour)
    before, after, rest = match.groups()
    same = _common_prefix(before, after)
    old, new = palette.paint(before[same:], "red"), palette.paint(after[same:], "green")
    return f"{before[:same]}{old} -> {after[:same]}{new}{rest}"


def _common_prefix(before: str, after: str) -> int:
    """Return the length of what both begin with, up to the last whole part of a version."""
    length = 0
    for match in re.finditer(r"[^.@_-]*[.@_-]?", before):
        if not match[0] or not after.startswith(before[: match.end()]):
            break
        length = match.end()
    return length if length < min(len(before), len(after)) else 0
