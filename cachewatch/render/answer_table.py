"""An answer as a table: aligned for people, as CSV, or as Markdown."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from cachewatch.core.untrusted_text import safe
from cachewatch.render.colour import Palette
from cachewatch.render.csv import csv_rows
from cachewatch.render.filters import markdown

# Several names are cut short for people only.
Cell = str | int | float | tuple[str, ...] | None
Row = tuple[Cell, ...]
_MOST_NAMES = 3


class Table(Struct, frozen=True):
    """Columns, rows, and sentences before and after them, which CSV leaves out."""

    columns: tuple[str, ...]
    rows: Sequence[Row]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def write_table(table: Table, form: str, palette: Palette) -> Iterator[bytes]:
    """Yield `table` in one of the forms text, csv and markdown."""
    if form == "csv":
        yield csv_rows([table.columns, *([_plain(cell) for cell in row] for row in table.rows)])
        return
    lines = _markdown(table) if form == "markdown" else _text(table, palette)
    yield from (f"{line}\n".encode() for line in lines)


def _text(table: Table, palette: Palette) -> Iterator[str]:
    yield from map(safe, table.before)
    rows = [[_shown(cell) for cell in row] for row in table.rows]
    if rows:
        widths = [max(map(len, column)) for column in zip(table.columns, *rows, strict=True)]
        numbers = [_are_numbers(column) for column in zip(*table.rows, strict=True)]
        yield palette.paint(_line(table.columns, widths, numbers), "bold")
        yield from (_line(row, widths, numbers) for row in rows)
    yield from map(safe, table.after)


def _line(cells: Sequence[str], widths: Sequence[int], numbers: Sequence[bool]) -> str:
    return "  ".join(
        cell.rjust(width) if is_number else cell.ljust(width)
        for cell, width, is_number in zip(cells, widths, numbers, strict=True)
    ).rstrip()


def _are_numbers(column: Sequence[Cell]) -> bool:
    return any(isinstance(cell, int | float) for cell in column)


def _shown(cell: Cell, most: int | None = _MOST_NAMES) -> str:
    if isinstance(cell, tuple):
        more = f" and {len(cell) - most} more" if most is not None and len(cell) > most else ""
        cell = ", ".join(cell[:most]) + more
    if cell is None or cell == "":
        return "-"
    return safe(cell) if isinstance(cell, str) else f"{cell:,}"


def _plain(cell: Cell) -> str | int | float | None:
    return " ".join(cell) if isinstance(cell, tuple) else cell


def _markdown(table: Table) -> Iterator[str]:
    """Yield paragraphs, and empty lines between them."""
    before, after = ([[markdown(one)] for one in some if one] for some in (table.before, table.after))
    paragraphs = [*before, *([_markdown_rows(table, markdown)] if table.rows else []), *after]
    for number, lines in enumerate(paragraphs):
        yield from ([""] * bool(number) + lines)


def _markdown_rows(table: Table, markdown: Callable[[str], str]) -> list[str]:
    numbers = [_are_numbers(column) for column in zip(*table.rows, strict=True)]
    return [
        f"| {' | '.join(table.columns)} |",
        f"| {' | '.join('---:' if is_number else '---' for is_number in numbers)} |",
        *(f"| {' | '.join(markdown(_shown(cell, None)) for cell in row)} |" for row in table.rows),
    ]
