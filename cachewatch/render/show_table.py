"""What there is of one package: a table of versions and stacks by targets."""

from collections import Counter
from collections.abc import Iterator

from cachewatch.core.model import Document, Side
from cachewatch.core.untrusted_text import safe_name
from cachewatch.core.versions import version_key
from cachewatch.render.colour import Palette
from cachewatch.render.statement_phrases import number

_NO_STACK = "(no stack)"
# Names that are longer, and targets that are more, come from no build cache: one must not widen every line.
_WIDEST = 40
_MOST_TARGETS = 40

Cells = Counter[tuple[str, str, str]]  # version, stack, target


def render_inventory(
    document: Document, side: Side, *, unchanged_since: Side | None, is_pruned: bool, palette: Palette
) -> Iterator[str]:
    """Yield the table of `document` with its counts and marks.

    `unchanged_since` is the revision that wrote the document last; `is_pruned` tells whether
    specs that no stack builds will go.
    """
    cells = _count(document)
    yield from _heading(document, side, unchanged_since, palette)
    if cells:
        yield ""
        yield from _table(cells, is_pruned=is_pruned, palette=palette)
        yield ""
        yield from _legend(cells, is_pruned=is_pruned)


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


def _table(cells: Cells, *, is_pruned: bool, palette: Palette) -> Iterator[str]:
    targets = sorted({target for _, _, target in cells})
    if len(targets) > _MOST_TARGETS:
        rest = f"{len(targets) - _MOST_TARGETS + 1:,} more"
        cells = _joined(cells, set(targets[_MOST_TARGETS - 1 :]), rest)
        targets = [*targets[: _MOST_TARGETS - 1], rest]
    rows = sorted({(version, stack) for version, stack, _ in cells}, key=lambda row: row[1])
    rows.sort(key=lambda row: version_key(row[0]), reverse=True)
    version_width = min(_WIDEST, max(len("version"), *(len(safe_name(version)) for version, _ in rows)))
    stack_width = min(_WIDEST, max(len("stack"), *(len(safe_name(stack)) for _, stack in rows)))
    heading = "  ".join(safe_name(target).rjust(6) for target in targets)
    widths = [min(_WIDEST, max(6, len(safe_name(target)))) for target in targets]
    yield palette.paint(f"{'version'.ljust(version_width)}  {'stack'.ljust(stack_width)}  {heading}", "bold")
    shown = None
    for version, stack in rows:
        name = safe_name(version) if version != shown else ""
        shown = version
        numbers = "  ".join(
            _cell(cells[version, stack, target], stack, is_pruned=is_pruned).rjust(width)
            for target, width in zip(targets, widths, strict=True)
        )
        yield f"{name.ljust(version_width)}  {safe_name(stack).ljust(stack_width)}  {numbers}".rstrip()


def _joined(cells: Cells, targets: set[str], name: str) -> Cells:
    """Return `cells` with one column for all of `targets`."""
    joined: Cells = Counter()
    for (version, stack, target), count in cells.items():
        joined[version, stack, name if target in targets else target] += count
    return joined


def _cell(count: int, stack: str, *, is_pruned: bool) -> str:
    if not count:
        return "."
    if stack == _NO_STACK:
        return f"{count}U" if is_pruned else f"{count} "
    return "1!" if count == 1 else f"{count} "


def _legend(cells: Cells, *, is_pruned: bool) -> Iterator[str]:
    if any(count == 1 for (_, stack, _), count in cells.items() if stack != _NO_STACK):
        yield "!  the last copy of this version in this stack for this target"
    if is_pruned and any(stack == _NO_STACK for _, stack, _ in cells):
        yield "U  unreferenced: no stack builds these any more, the next prune takes them"


def _day(side: Side) -> str:
    return side.time[:10] if side.time else ""
