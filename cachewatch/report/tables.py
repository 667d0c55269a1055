"""Answers as tables: aligned text, names, CSV, Markdown or JSON; for tags, stacks, packages and single specs."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from cachewatch.core.model import Document, Side, Signature, known_hash
from cachewatch.core.names import safe, safe_name
from cachewatch.core.spack import version_key
from cachewatch.report.data import ascii_only, csv_rows
from cachewatch.report.templates import markdown
from cachewatch.report.text import Palette, fitted, wrapped
from cachewatch.report.words import number

# Several names are cut short for people only.
Cell = str | int | float | tuple[str, ...] | None
Row = tuple[Cell, ...]
_MOST_NAMES_OF_ANSWERS = 3
_SHORT_CELL = 14


class Table(Struct, frozen=True):
    """Columns, rows, and sentences before and after them, which CSV leaves out."""

    columns: tuple[str, ...]
    rows: Sequence[Row]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def write_table(table: Table, form: str, palette: Palette, width: int | None = None) -> Iterator[bytes]:
    """Yield `table` in one of the forms text, csv and markdown; no line of text is wider than `width`."""
    if form == "csv":
        yield csv_rows([table.columns, *([_plain(cell) for cell in row] for row in table.rows)])
        return
    lines = _markdown(table) if form == "markdown" else text_lines(table, palette, width)
    yield from (f"{line}\n".encode() for line in lines)


def text_lines(table: Table, palette: Palette, width: int | None) -> Iterator[str]:
    """Yield a table as aligned text; what is too wide goes on in the lines below, in its column or else in its row."""
    yield from fitted(map(safe, table.before), width)
    if table.rows:
        rows = [[_shown(cell) for cell in row] for row in table.rows]
        numbers = [_are_numbers(column) for column in zip(*table.rows, strict=True)]
        widths = _widths([table.columns, *rows], numbers, width)
        for place, row in enumerate((table.columns, *rows)):
            if widths is None:
                lines: Iterable[str] = fitted(["  ".join(row)], width)
            else:
                cells = [wrapped(cell, most) for cell, most in zip(row, widths, strict=True)]
                lines = (_line(each, widths, numbers) for each in zip_longest(*cells, fillvalue=""))
            yield from (palette.paint(line, "" if place else "bold") for line in lines)
    yield from fitted(map(safe, table.after), width)


def _widths(rows: Sequence[Sequence[str]], numbers: Sequence[bool], most: int | None) -> list[int] | None:
    """Return how wide each column is, so that all of them fit; None where they do not without cutting words."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    least = [
        width if is_number else max(len(word) for cell in column for word in _parts(cell))
        for column, width, is_number in zip(columns, widths, numbers, strict=True)
    ]
    while most is not None and sum(widths) + 2 * (len(widths) - 1) > most:
        place = max(range(len(widths)), key=lambda each: (widths[each] > least[each], widths[each]))
        if widths[place] <= least[place]:
            return None
        widths[place] -= 1
    return widths


def _parts(cell: str) -> list[str]:
    """Return what of a cell stays in one line: its words, and a date with what belongs to it."""
    return [cell] if len(cell) <= _SHORT_CELL else cell.split()


def _line(cells: Sequence[str], widths: Sequence[int], numbers: Sequence[bool]) -> str:
    return "  ".join(
        cell.rjust(width) if is_number else cell.ljust(width)
        for cell, width, is_number in zip(cells, widths, numbers, strict=True)
    ).rstrip()


def _are_numbers(column: Sequence[Cell]) -> bool:
    return any(isinstance(cell, int | float) for cell in column)


def _shown(cell: Cell, most: int | None = _MOST_NAMES_OF_ANSWERS) -> str:
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
    for place, lines in enumerate(paragraphs):
        yield from ([""] * bool(place) + lines)


def _markdown_rows(table: Table, markdown: Callable[[str], str]) -> list[str]:
    numbers = [_are_numbers(column) for column in zip(*table.rows, strict=True)]
    return [
        f"| {' | '.join(table.columns)} |",
        f"| {' | '.join('---:' if is_number else '---' for is_number in numbers)} |",
        *(f"| {' | '.join(markdown(_shown(cell, None)) for cell in row)} |" for row in table.rows),
    ]


# Names that are longer come from no build cache: one must not widen every line.
_WIDEST = 40
_MOST_NAMES = 4


class ListedTag(Struct, frozen=True):
    """A tag, with how many packages it has and which stacks it says it has."""

    tag: str
    packages: int
    stacks: tuple[str, ...]


class ListedStack(Struct, frozen=True):
    """A stack of one tag."""

    stack: str
    packages: int
    specs: int
    targets: tuple[str, ...]


class ListedPackage(Struct, frozen=True):
    """A package of one tag; its versions begin with the newest."""

    package: str
    specs: int
    versions: tuple[str, ...]
    stacks: tuple[str, ...]
    targets: tuple[str, ...]


Listed = ListedTag | ListedStack | ListedPackage
# The fields that stay names in a table; all others are counted there.
_NAMED = ("versions", "targets")


def write_listing(
    listed: Sequence[Listed], what: str, form: str, palette: Palette, width: int | None
) -> Iterator[bytes]:
    """Yield `listed`, which are `what`, in one of the forms text, names, json, csv and markdown."""
    if form == "json":
        yield _json({"schema": f"cachewatch.{what}/1", what: listed})
    elif form == "names":
        yield from (f"{safe_name(_name(each))}\n".encode() for each in listed)
    elif form == "text":
        yield from write_table(_listing_table(listed), form, palette, width)
    else:
        columns = listed[0].__struct_fields__ if listed else ()
        yield from write_table(Table(columns, list(map(astuple, listed))), form, palette)


def _name(each: Listed) -> str:
    return str(getattr(each, each.__struct_fields__[0]))


def _listing_table(listed: Sequence[Listed]) -> Table:
    """Return a table that counts what people do not want to read the names of."""
    names = listed[0].__struct_fields__ if listed else ()
    return Table(names, [tuple(_listing_cell(name, getattr(each, name)) for name in names) for each in listed])


def _listing_cell(name: str, value: Cell) -> Cell:
    if isinstance(value, tuple):
        return tuple(map(_cut, value)) if name in _NAMED else len(value)
    return _cut(value) if isinstance(value, str) else value


def _cut(text: str) -> str:
    shown = safe_name(text)
    return shown if len(shown) <= _WIDEST else f"{shown[: _WIDEST - 3]}..."


_NO_STACK = "(no stack)"
# Names that are longer, and targets that are more, come from no build cache: one must not widen every line.
_MOST_TARGETS = 40

Cells = Counter[tuple[str, str, str]]  # version, stack, target


def render_inventory(
    document: Document,
    side: Side,
    *,
    unchanged_since: Side | None,
    is_pruned: bool,
    palette: Palette,
    width: int | None,
) -> Iterator[str]:
    """Yield the table of `document` with its counts and marks.

    `unchanged_since` is the revision that wrote the document last; `is_pruned` tells whether
    specs that no stack builds will go.
    """
    cells = _count(document)
    yield from fitted(_heading(document, side, unchanged_since, palette), width)
    if cells:
        yield ""
        yield from _show_table(cells, is_pruned=is_pruned, palette=palette, width=width)
        yield ""
        yield from fitted(_legend(cells, is_pruned=is_pruned), width)


def _count(document: Document) -> Cells:
    cells: Cells = Counter()
    for signature in document.specs.values():
        for version in signature.versions or ("(no version)",):
            for stack in signature.stacks or (_NO_STACK,):
                cells[version, stack, signature.target] += 1
    return cells


def _heading(document: Document, side: Side, since: Side | None, palette: Palette) -> Iterator[str]:
    where = " ".join(filter(None, (side.tag, side.revision and side.revision[:10], _day(side))))
    yield f"{palette.paint(safe_name(document.package), 'bold')}  {safe_name(where)}".rstrip()
    signatures = set(document.specs.values())
    numbers = (
        number(len(document.specs), "spec"),
        number(len({version for s in signatures for version in s.versions}), "version"),
        number(len({stack for s in signatures for stack in s.stacks}), "stack"),
        number(len({s.target for s in signatures}), "target"),
        number(len({s.compiler for s in signatures}), "compiler"),
        number(len(signatures), "configuration"),
    )
    yield ", ".join(numbers)
    if since is not None and since.revision:
        yield f"last changed {_day(since)} ({since.revision[:10]})"


def _show_table(cells: Cells, *, is_pruned: bool, palette: Palette, width: int | None) -> Iterator[str]:
    targets = sorted({target for _, _, target in cells})
    if len(targets) > _MOST_TARGETS:
        rest = f"{len(targets) - _MOST_TARGETS + 1:,} more"
        cells = _joined_targets(cells, set(targets[_MOST_TARGETS - 1 :]), rest)
        targets = [*targets[: _MOST_TARGETS - 1], rest]
    rows = sorted({(version, stack) for version, stack, _ in cells}, key=lambda row: row[1])
    rows.sort(key=lambda row: version_key(row[0]), reverse=True)
    columns = ("version", "stack", *(_cut(target).rjust(6) for target in targets))
    shown: list[tuple[str, ...]] = []
    listed: list[Row] = []
    for place, (version, stack) in enumerate(rows):
        name = " " if place and rows[place - 1][0] == version else _cut(version)
        counts = [_show_cell(cells[version, stack, target], stack, is_pruned=is_pruned) for target in targets]
        aligned = (each.rjust(len(title)) for each, title in zip(counts, columns[2:], strict=True))
        shown.append((name, _cut(stack), *aligned))
        named = (f"{_cut(target)} {each.strip()}" for target, each in zip(targets, counts, strict=True) if each != ".")
        listed.append((name, _cut(stack), ", ".join(named)))
    if _widths([columns, *shown], [True] * len(columns), width):
        yield from text_lines(Table(columns, shown), palette, None)
        return
    yield from text_lines(Table(("version", "stack", "specs for each target"), listed), palette, width)


def _joined_targets(cells: Cells, targets: set[str], name: str) -> Cells:
    """Return `cells` with one column for all of `targets`."""
    joined: Cells = Counter()
    for (version, stack, target), count in cells.items():
        joined[version, stack, name if target in targets else target] += count
    return joined


def _show_cell(count: int, stack: str, *, is_pruned: bool) -> str:
    if not count:
        return "."
    if stack == _NO_STACK:
        return f"{count}U" if is_pruned else f"{count} "
    return "1!" if count == 1 else f"{count} "


def _legend(cells: Cells, *, is_pruned: bool) -> Iterator[str]:
    if any(count == 1 for (_, stack, _), count in cells.items() if stack != _NO_STACK):
        yield "!  the last copy of this version in this stack for this target"
    if is_pruned and any(stack == _NO_STACK for _, stack, _ in cells):
        yield "U  unreferenced: no stack builds these any more: they may be pruned at any time"


def _day(side: Side) -> str:
    return side.time[:10] if side.time else ""


class ShownPackage(Struct, frozen=True):
    """The document of a package, where it is from, and the revision that wrote it last, if that is known."""

    document: Document
    side: Side
    unchanged_since: Side | None = None


class ShownSpec(Struct, frozen=True):
    """One spec, and where it is from."""

    package: str
    hash: str
    signature: Signature
    side: Side


def render_spec(spec: ShownSpec, palette: Palette) -> Iterator[str]:
    """Yield all that is known of a spec, a fact a line."""
    signature = spec.signature
    version = ",".join(map(safe_name, signature.versions))
    yield palette.paint(
        f"{safe_name(spec.package)}@{version}{f' /{safe_name(spec.hash)}' if known_hash(spec.hash) else ''}", "bold"
    )
    facts = {
        "in": " ".join(filter(None, (spec.side.tag, spec.side.revision and spec.side.revision[:10], _day(spec.side)))),
        "stacks": ", ".join(signature.stacks) or "none: no stack builds it any more",
        "target": f"{signature.target} ({signature.os}, {signature.platform})",
        "compiler": signature.compiler,
        "variants": " ".join(signature.variants),
    }
    yield from (f"  {name:<8}  {safe(value)}" for name, value in facts.items() if value)


def specs_table(packages: Sequence[ShownPackage]) -> Table:
    """Return a row for each spec of these packages: which binary one gets."""
    rows: list[Row] = [
        (
            (known_hash(key) or "")[:7],
            f"{each.document.package}@{','.join(signature.versions)}",
            signature.compiler,
            f"{signature.os}-{signature.target}",
            ", ".join(signature.stacks),
            " ".join(signature.variants),
        )
        for each in packages
        for key, signature in each.document.specs.in_order()
    ]
    return Table(("hash", "spec", "compiler", "machine", "stacks", "variants"), rows)


def packages_json(packages: Sequence[ShownPackage]) -> bytes:
    """Return every spec of these packages, by hash."""
    return _json({"schema": "cachewatch.packages-shown/1", "packages": [_package(each) for each in packages]})


def specs_json(specs: Iterable[ShownSpec]) -> bytes:
    """Return these specs."""
    return _json(
        {
            "schema": "cachewatch.specs/1",
            "specs": [{"package": s.package, **_side(s.side), **_spec(s.hash, s.signature)} for s in specs],
        }
    )


def _package(shown: ShownPackage) -> dict[str, Any]:
    since = shown.unchanged_since
    return {
        "package": shown.document.package,
        **_side(shown.side),
        "unchanged_since": since.revision if since else None,
        "specs": [_spec(*each) for each in shown.document.specs.in_order()],
    }


def _side(side: Side) -> dict[str, str | None]:
    return {"tag": side.tag, "revision": side.revision, "time": side.time}


def _spec(spec_hash: str, signature: Signature) -> dict[str, Any]:
    return {"hash": known_hash(spec_hash), **msgspec.to_builtins(signature)}


def _json(value: object) -> bytes:
    return ascii_only(msgspec.json.format(msgspec.json.encode(value))) + b"\n"
