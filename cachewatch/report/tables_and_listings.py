"""Write tables as aligned text, names, CSV, Markdown or JSON; for tags, stacks, packages and single specs."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, astuple, replace

from cachewatch.core.escaping_and_mentions import markdown, safe, safe_name
from cachewatch.core.kinds_and_specs import Document, Side, Signature, facts_of, known_hash
from cachewatch.core.names_and_layouts import is_mutable
from cachewatch.core.statement_kinds import StatementKind
from cachewatch.core.versions_spellings_targets import NO_COMPILER, version_key
from cachewatch.report.diff_blocks_and_colours import ALL, COLOURS_OF_KINDS, Palette, fitted
from cachewatch.report.json_and_safe_csv import csv_rows, picked, pretty_json
from cachewatch.report.words import MOST_NAMES, NO_VERSION, first_of, number


class Coloured(str):
    """The text of a cell, with the colour that a terminal shows ("": none)."""

    __slots__ = ("colour",)
    colour: str

    def __new__(cls, text: str, colour: str) -> "Coloured":
        """Return `text` with a colour."""
        made = super().__new__(cls, text)
        made.colour = colour
        return made


# Several names are cut short for people only.
Cell = str | int | float | tuple[str, ...] | None
Row = tuple[Cell, ...]
_SHORT_CELL = 14
_WORDS = re.compile(r"(?<=\s)")  # where a cell may go on in the next line
# The columns whose values, unless they are 0, were added or removed.
_COLOURS = dict.fromkeys(("added", "net added", "after"), "green")
_COLOURS |= dict.fromkeys(("removed", "net removed", "before", "until"), "red")
_MAY_GO = COLOURS_OF_KINDS[StatementKind.UNREFERENCED]


class Table(Struct, frozen=True):
    """A table: columns, rows, and sentences before and after the rows, which CSV leaves out."""

    columns: tuple[str, ...]
    rows: Sequence[Row]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def write_table(table: Table, form: str, palette: Palette, width: int | None = None) -> Iterator[bytes]:
    """Yield `table` in `form` (text, csv or markdown); lines of text have at most `width` columns (None: any)."""
    if form == "csv":
        rows = ([" ".join(cell) if isinstance(cell, tuple) else cell for cell in row] for row in table.rows)
        yield csv_rows([table.columns, *rows])
        return
    lines = _markdown(table) if form == "markdown" else text_lines(table, palette, width)
    yield from (f"{line}\n".encode() for line in lines)


def text_lines(table: Table, palette: Palette, width: int | None) -> Iterator[str]:
    """Yield a table as aligned text; without room for them, the last columns go on lines below their row."""
    yield from fitted(map(safe, table.before), width)
    if table.rows:
        rows = [table.columns, *([_shown(cell) for cell in row] for row in table.rows)]
        numbers = [_are_numbers(column) for column in zip(*table.rows, strict=True)]
        beside, widths = len(numbers), _widths(rows, numbers, width)
        while widths is None:
            beside -= 1
            widths = _widths([row[:beside] for row in rows], numbers, width)
        names = table.columns[beside:]
        longest = max(map(len, names), default=0)
        for place, row in enumerate(rows):
            colours = list(map(_colour, table.columns, table.rows[place - 1])) if place else [""] * len(row)
            cells = [_folded(cell, most) for cell, most in zip(row, widths, strict=False)]
            for each in zip_longest(*cells, fillvalue=""):
                line = _line(each, widths, numbers, colours, palette)
                yield palette.paint(line, "" if place else "bold")
            if place:
                for name, cell, colour in zip(names, row[beside:], colours[beside:], strict=True):
                    below = fitted([f"    {name:<{longest}}  {cell}"], width)
                    yield from (palette.paint(line, colour) for line in below)
    yield from fitted(map(safe, table.after), width)


def _widths(rows: Sequence[Sequence[str]], numbers: Sequence[bool], most: int | None) -> list[int] | None:
    """Return the widths of columns of `rows` in lines of at most `most` characters; None if there is no room.

    `numbers` tells for each column whether it has numbers. `most` is None if lines may have any length.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    # Parts that are not broken: words, and a date with its time and zone.
    least = [
        max(
            len(each.rstrip())
            for cell in column
            for each in ([cell] if len(cell) <= _SHORT_CELL and not is_number else _WORDS.split(cell))
        )
        for column, is_number in zip(columns, numbers, strict=False)
    ]
    while most is not None and sum(widths) + 2 * (len(widths) - 1) > most:
        place = max(range(len(widths)), key=lambda each: (widths[each] > least[each], widths[each]))
        if widths[place] <= least[place]:
            return None
        widths[place] -= 1
    return widths


def _folded(cell: str, width: int) -> list[str]:
    """Return a cell as lines, each with as many words as fit into `width`."""
    lines = [""]
    for part in _WORDS.split(cell):
        if lines[-1] and len(f"{lines[-1]}{part}".rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return lines


def _colour(column: str, cell: Cell) -> str:
    if isinstance(cell, Coloured):
        return cell.colour
    return _COLOURS.get(column, "") if cell else _MAY_GO if cell == 0 and column == "specs" else ""


def _line(
    cells: Sequence[str], widths: Sequence[int], numbers: Sequence[bool], colours: Sequence[str], palette: Palette
) -> str:
    parts = []
    for cell, width, is_number, colour in zip(cells, widths, numbers, colours, strict=False):
        text = cell.rstrip()  # of a line that was broken
        space, painted = " " * (width - len(text)), palette.paint(text, colour)
        parts.append(f"{space}{painted}" if is_number else f"{painted}{space}")
    return "  ".join(parts).rstrip()


def _are_numbers(column: Sequence[Cell]) -> bool:
    return any(isinstance(cell, int | float) for cell in column)


def _shown(cell: Cell, most: int = MOST_NAMES) -> str:
    if isinstance(cell, tuple):
        cell = first_of(cell, most, " and {} more")
    if cell is None or cell == "":
        return "-"
    return safe(cell) if isinstance(cell, str) else f"{cell:,}"


def _markdown(table: Table) -> Iterator[str]:
    """Yield the table as Markdown, in paragraphs with empty lines between them."""
    before, after = ([markdown(one) for one in some if one] for some in (table.before, table.after))
    rules = ["---:" if _are_numbers(column) else "---" for column in zip(*table.rows, strict=True)]
    rows = [table.columns, rules, *([markdown(_shown(cell, ALL)) for cell in row] for row in table.rows)]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows) if table.rows else ""
    if paragraphs := [*before, *filter(None, [lines]), *after]:
        yield "\n\n".join(paragraphs)


class ListedTag(Struct, frozen=True):
    """A tag, its number of packages, and the stacks that a list in the tag itself declares."""

    tag: str
    packages: int
    stacks: tuple[str, ...] | None  # None if the tag has no such list


class ListedStack(Struct, frozen=True):
    """A stack of one tag, with its numbers of packages and specs, and its targets."""

    stack: str
    packages: int
    specs: int
    targets: tuple[str, ...]


class ListedPackage(Struct, frozen=True):
    """A package of one tag, with its versions, newest first."""

    package: str
    specs: int
    versions: tuple[str, ...]
    stacks: tuple[str, ...]
    targets: tuple[str, ...]


Listed = ListedTag | ListedStack | ListedPackage
# Names that are longer, and targets that are more, come from no build cache: one must not widen every line.
_WIDEST = 40
_MOST_TARGETS = 40


def write_listing(
    listed: Sequence[Listed], what: str, form: str, palette: Palette, width: int | None
) -> Iterator[bytes]:
    """Yield `listed` in `form` (text, names, json, csv or markdown); `what` is the name of the list in JSON."""
    columns = listed[0].__struct_fields__ if listed else ()
    rows: list[Row] = list(map(astuple, listed))
    if form == "json":
        yield pretty_json({"schema": f"cachewatch.{what}/1", what: listed})
    elif form == "names":
        yield from (f"{safe_name(str(row[0]))}\n".encode() for row in rows)
    elif form == "text":
        # Without _data/tags.yaml, nobody lists the stacks of tags.
        columns = columns[: -1 if columns and all(row[-1] is None for row in rows) else None]
        shown = [tuple(map(_listing_cell, columns, row)) for row in rows]
        after = [_SHARED] if what == "stacks" and len(rows) > 1 else []
        after += [_LISTED] if any(isinstance(each, ListedTag) and each.stacks for each in listed) else []
        after += [_EMPTY] if any(isinstance(each, ListedStack) and not each.specs for each in listed) else []
        yield from write_table(Table(columns, shown, after=tuple(after)), form, palette, width)
    else:
        yield from write_table(Table(columns, rows), form, palette)


def _listing_cell(column: str, value: Cell) -> Cell:
    """Return `value`, of `column`, for display: text is cut; lists, except versions and targets, become lengths."""
    if isinstance(value, tuple) and column not in ("versions", "targets"):
        return len(value)
    return tuple(map(_cut, value)) if isinstance(value, tuple) else _cut(value) if isinstance(value, str) else value


def _cut(text: str) -> str:
    shown = safe_name(text)
    return shown if len(shown) <= _WIDEST else f"{shown[: _WIDEST - 3]}..."


_NO_STACK = "(no stack)"
_EMPTY = "A stack with 0 specs is in the catalogue's list of stacks, but the tag has no spec of it."
_LISTED = "Stacks are counted as the catalogue lists them; `cachewatch stacks` says which have specs."
_SHARED = "Specs that several stacks share are counted in each of them."
_SHARED_MATCHING = "Only specs that match are counted; those that several stacks share, in each of them."
_MARKS = {
    "!": "the last copy of this version in this stack for this target",
    "U": "unreferenced: no stack builds these any more: they may be pruned at any time",
}

_Cell = tuple[str, str, str]  # version, stack, target


def render_inventory(shown: "ShownPackage", *, palette: Palette, width: int | None) -> Iterator[str]:
    """Yield a table of numbers of specs by version, stack and target; marks show single and unreferenced builds."""
    cells = _cells(shown.document.specs.counts)
    # Of what is shown, the last copies are those of which the whole document has one.
    everything = _cells(shown.counts) if shown.counts else cells
    marks = {cell: "!" for cell in cells if everything[cell] == 1 and cell[1] != _NO_STACK}
    if is_mutable(shown.side.tag):
        marks |= {cell: "U" for cell in cells if cell[1] == _NO_STACK}
    yield from fitted(_heading(shown.document, shown.side, shown.unchanged_since, palette), width)
    if cells:
        yield ""
        yield from _matrix(cells, marks, palette, width)
        is_shared = any(len(signature.stacks) > 1 for signature in shown.document.specs.counts)
        notes = [palette.paint(f"{mark}  {_MARKS[mark]}", _MAY_GO) for mark in _MARKS if mark in marks.values()]
        notes += [_SHARED_MATCHING if shown.counts else _SHARED] if is_shared else []
        yield from fitted(["", *notes] if notes else [], width)


def _cells(counts: Counter[Signature]) -> Counter[_Cell]:
    cells = Counter[_Cell]()
    for signature, count in counts.items():
        for version in signature.versions or (NO_VERSION,):
            for stack in signature.stacks or (_NO_STACK,):
                cells[version, stack, signature.target] += count
    return cells


def _heading(document: Document, side: Side, since: Side | None, palette: Palette) -> Iterator[str]:
    yield f"{palette.paint(safe_name(document.package), 'bold')}  {safe_name(_where(side))}".rstrip()
    signatures = set(document.specs.values())
    facts = facts_of(signatures)
    counted = [number(len(facts[f"{noun}s"]), noun) for noun in ("version", "stack", "target")]
    compilers = len(set(facts["compilers"]) - {NO_COMPILER})
    counted += [number(compilers, "compiler") if compilers else "no compiler"]
    configurations = number(len({replace(one, stacks=(), versions=()) for one in signatures}), "configuration")
    yield ", ".join([number(len(document.specs), "spec"), *counted, configurations])
    if since is not None and since.revision:
        yield f"document last changed {(since.time or '')[:10]} ({since.revision[:10]})"


def _where(side: Side) -> str:
    return " ".join(filter(None, (side.tag, (side.revision or "")[:10], (side.time or "")[:10])))


def _matrix(cells: Counter[_Cell], marks: Mapping[_Cell, str], palette: Palette, width: int | None) -> Iterator[str]:
    """Yield `cells`, the numbers of specs, in a line for each version and stack, with a column for each target.

    Without room for columns, targets are listed. Numbers get the `marks` of their cells.
    """
    targets = sorted({target for _, _, target in cells})
    rows = sorted({(version, stack) for version, stack, _ in cells}, key=lambda row: row[1])
    rows.sort(key=lambda row: version_key(row[0]), reverse=True)
    columns = ("version", "stack", *(_cut(target).rjust(6) for target in targets))
    shown: list[tuple[str, ...]] = []
    listed: list[Row] = []
    for place, (version, stack) in enumerate(rows):
        name = " " if place and rows[place - 1][0] == version else _cut(version)
        counts = [
            f"{cells[cell]}{marks.get(cell, ' ')}" if cells[cell] else "."
            for cell in ((version, stack, target) for target in targets)
        ]
        aligned = (
            Coloured(each.rjust(len(title)), "" if each == "." or each[-1] == " " else _MAY_GO)
            for each, title in zip(counts, columns[2:], strict=True)
        )
        shown.append((name, _cut(stack), *aligned))
        named = (f"{_cut(target)} {each.strip()}" for target, each in zip(targets, counts, strict=True) if each != ".")
        listed.append((name, _cut(stack), ", ".join(named)))
    widest = sum(max(map(len, column)) + 2 for column in zip(columns, *shown, strict=True)) - 2
    if len(targets) <= _MOST_TARGETS and (width is None or widest <= width):
        yield from text_lines(Table(columns, shown), palette, None)
    else:
        yield from text_lines(Table(("version", "stack", "specs for each target"), listed), palette, width)


class ShownPackage(Struct, frozen=True):
    """The specs of a package, their source, and the revision that last changed the document, if known."""

    document: Document
    side: Side
    unchanged_since: Side | None = None
    counts: Counter[Signature] | None = None  # of all specs, where `document` has only some


class ShownSpec(Struct, frozen=True):
    """One spec, and the tag or revision that has it."""

    package: str
    hash: str
    signature: Signature
    side: Side


def render_spec(spec: ShownSpec, palette: Palette) -> Iterator[str]:
    """Yield everything known about a spec, one fact on a line."""
    signature = spec.signature
    version = ",".join(map(safe_name, signature.versions))
    named = f" /{safe_name(spec.hash)}" if known_hash(spec.hash) else ""
    yield palette.paint(f"{safe_name(spec.package)}@{version}{named}", "bold")
    facts = {
        "in": _where(spec.side),
        "stacks": ", ".join(signature.stacks) or "none: no stack builds it any more",
        "target": f"{signature.target} ({signature.os}, {signature.platform})",
        "compiler": signature.compiler,
        "variants": " ".join(signature.variants),
    }
    colours = {} if signature.stacks else {"stacks": _MAY_GO}
    for name, value in facts.items():
        if value:
            yield f"  {name:<8}  {palette.paint(safe(value), colours.get(name, ''))}"


def specs_table(packages: Sequence[ShownPackage]) -> Table:
    """Return a table with a row for each spec of these packages."""
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


def packages_json(packages: Iterable[ShownPackage]) -> bytes:
    """Return these packages as JSON, each with its specs in the order of hashes."""
    values = [
        {
            "package": shown.document.package,
            **picked(shown.side, "tag", "revision", "time"),
            "unchanged_since": shown.unchanged_since and shown.unchanged_since.revision,
            "specs": [_spec(*each) for each in shown.document.specs.in_order()],
        }
        for shown in packages
    ]
    return pretty_json({"schema": "cachewatch.packages-shown/1", "packages": values})


def specs_json(specs: Iterable[ShownSpec]) -> bytes:
    """Return these specs as JSON."""
    values = [
        {"package": one.package, **picked(one.side, "tag", "revision", "time"), **_spec(one.hash, one.signature)}
        for one in specs
    ]
    return pretty_json({"schema": "cachewatch.specs/1", "specs": values})


def _spec(spec_hash: str, signature: Signature) -> dict[str, Any]:
    return {"hash": known_hash(spec_hash), **asdict(signature)}
