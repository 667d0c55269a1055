"""Lists of tags, stacks and packages: as a table for people, as names, JSON, CSV or Markdown."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from cachewatch.core.untrusted_text import safe_name
from cachewatch.render.answer_table import Table, write_table
from cachewatch.render.ascii_json import ascii_only
from cachewatch.render.colour import Palette

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


def write_listing(listed: Sequence[Listed], form: str, palette: Palette) -> Iterator[bytes]:
    """Yield `listed` in one of the forms text, names, json, csv and markdown."""
    if form == "json":
        yield ascii_only(msgspec.json.format(msgspec.json.encode(listed))) + b"\n"
        return
    if form in ("csv", "markdown"):
        columns = listed[0].__struct_fields__ if listed else ()
        yield from write_table(Table(columns, list(map(astuple, listed))), form, palette)
        return
    lines = (safe_name(_name(each)) for each in listed) if form == "names" else _table(listed, palette)
    yield from (f"{line}\n".encode() for line in lines)


def _name(each: Listed) -> str:
    return str(getattr(each, each.__struct_fields__[0]))


def _table(listed: Sequence[Listed], palette: Palette) -> Iterator[str]:
    if not listed:
        return
    names = listed[0].__struct_fields__
    rows = [{name: _cell(name, getattr(each, name)) for name in names} for each in listed]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    yield palette.paint(_line(dict(zip(names, names, strict=True)), widths), "bold")
    yield from (_line(row, widths) for row in rows)


def _cell(name: str, value: object) -> str:
    if isinstance(value, tuple):
        return (_joined(value) if name in _NAMED else f"{len(value):,}") if value else "-"
    return f"{value:,}" if isinstance(value, int) else _cut(str(value))


def _joined(values: tuple[str, ...]) -> str:
    more = f", {len(values) - _MOST_NAMES:,} more" if len(values) > _MOST_NAMES else ""
    return ", ".join(map(_cut, values[:_MOST_NAMES])) + more


def _cut(text: str) -> str:
    shown = safe_name(text)
    return shown if len(shown) <= _WIDEST else f"{shown[: _WIDEST - 3]}..."


def _line(cells: Mapping[str, str], widths: Mapping[str, int]) -> str:
    """Return one line: the name and lists of names from the left, numbers from the right."""
    first = next(iter(cells))
    return "  ".join(
        text.ljust(widths[name]) if name == first or name in _NAMED else text.rjust(widths[name])
        for name, text in cells.items()
    ).rstrip()
