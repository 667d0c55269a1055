"""In which revisions each version of a package was in each stack, and how long after the first stack.

Also the period in which specs of one revision were present without interruption.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec import Struct
from msgspec.json import decode

from cachewatch.core.package_changes import spellings_of
from cachewatch.core.spack import version_key
from cachewatch.extensions.history.read import Index, IndexPoint, days_between

SCHEMA = "cachewatch.when/1"
# An interval that ends in a revision that is not completely indexed counts as open.
WHEN_QUERY = """
    SELECT b.versions, b.compiler, b.target, g.stacks, g.begin, g.over
    FROM (
        SELECT build, stacks, min(first) AS begin, max(coalesce(last, :open)) AS over FROM interval i
        WHERE package = :package AND tag = :tag AND first <= :newest GROUP BY build, stacks
    ) g JOIN build b ON b.id = g.build
"""
OPEN = 2**60

ChoosesStack = Callable[[str], bool]
Span = tuple[int, int]  # numbers of the first revision and of the first one after the span


class WhenRow(Struct, frozen=True, kw_only=True):
    """One version in one stack for one target."""

    version: str
    stack: str | None  # None: no stack builds it, so it may be pruned at any time
    target: str
    first: IndexPoint
    baseline: bool  # it was added in `first` or before
    last: IndexPoint | None  # the first revision without it; None while it is there
    lag_days: float | None  # after the first stack that had this version; None where `first` is not known exactly
    lag_is_minimum: bool = False  # the first stack had it at or before the beginning


class When(Struct, frozen=True, kw_only=True):
    """The answer to `cachewatch history when`."""

    schema: str = SCHEMA
    indexed: IndexPoint
    package: str
    tag: str
    rows: tuple[WhenRow, ...]


class Wanted(Struct, frozen=True, kw_only=True):
    """Filters: which versions, stacks, targets and compilers are requested."""

    version: ChoosesStack
    stack: ChoosesStack
    target: ChoosesStack
    compiler: ChoosesStack


class _WhenKey(NamedTuple):
    version: str
    stack: str
    target: str


def find_when(index: Index, package: str, tag: str, wanted: Wanted) -> When:
    """Return when each version of `package` was in each stack of `tag`, by target; `wanted` chooses the rows.

    Lags are relative to the first stack among the wanted targets and compilers. Specs that differ only in compiler,
    variants or the spelling of their version are one row.
    """
    numbers = {"package": index.package(package), "tag": index.tag(tag), "newest": index.newest, "open": OPEN}
    found = list(index.rows(WHEN_QUERY, numbers))
    spellings = spellings_of(version for row in found for version in decode(row[0]))
    spans: dict[_WhenKey, Span] = {}
    for versions, compiler, target, stacks, first, last in found:
        if not (wanted.target(target) and wanted.compiler(compiler)):
            continue
        for version in filter(wanted.version, {spellings.get(version, version) for version in decode(versions)}):
            for stack in index.stacks(stacks) or ("",):
                key = _WhenKey(version, stack, target)
                known = spans.get(key, (first, last))
                spans[key] = min(known[0], first), max(known[1], last)
    begins: dict[str, int] = {}  # in which revision the first stack had each version
    for key, (first, _) in spans.items():
        if key.stack:
            begins[key.version] = min(begins.get(key.version, first), first)
    baseline = baseline_of(index, numbers["tag"], numbers["package"])
    rows = [
        _row(index, key, span, begins.get(key.version), baseline)
        for key, span in sorted(spans.items(), key=_in_order)
        if wanted.stack(key.stack)
    ]
    return When(indexed=index.indexed, package=package, tag=tag, rows=tuple(rows))


def baseline_of(index: Index, tag: int, package: int) -> int | None:
    """Return the document's baseline: the number of a revision whose specs were added then or before; None if none."""
    query = "SELECT baseline FROM document WHERE tag = ? AND package = ?"
    return next((number for (number,) in index.rows(query, (tag, package))), None)


def _row(index: Index, key: _WhenKey, span: Span, begin: int | None, baseline: int | None) -> WhenRow:
    first, is_baseline = index.point(span[0]), span[0] == baseline
    is_known = begin is not None and bool(key.stack) and not is_baseline
    return WhenRow(
        version=key.version,
        stack=key.stack or None,
        target=key.target,
        first=first,
        baseline=is_baseline,
        last=index.point(span[1]) if span[1] <= index.newest else None,
        lag_days=days_between(index.point(begin), first) if is_known and begin is not None else None,
        lag_is_minimum=is_known and begin == baseline,
    )


def _in_order(item: tuple[_WhenKey, Span]) -> tuple[object, ...]:
    key, span = item
    return (version_key(key.version), not key.stack, span[0], key.stack, key.target)


PRESENCE_QUERY = """
    SELECT b.versions, b.target, g.stacks, g.first, g.last
    FROM (
        SELECT DISTINCT build, stacks, first, coalesce(last, :open) AS last FROM interval
        WHERE package = :package AND tag = :tag AND first <= :newest
    ) g JOIN build b ON b.id = g.build
"""

# Chooses specs by one of their versions, one of their stacks ("" if no stack builds them) and their target.
ChoosesSpecs = Callable[[str, str, str], bool]


class Presence(Struct, frozen=True):
    """A period of presence without interruption, as numbers of revisions."""

    first: int
    is_baseline: bool  # the period began in `first` or before
    last: int | None  # the first revision after the period; None if it has not ended as far as is indexed


def find_presence(index: Index, package: str, tag: str, number: int, chooses: ChoosesSpecs) -> Presence | None:
    """Return the period in which any of the chosen specs was present and that contains revision `number`, or None.

    `chooses` is called with version, stack ("" for none) and target.
    """
    values = {"package": index.id_of("package", package), "tag": index.id_of("tag", tag)}
    spans = [
        (first, last)
        for versions, target, stacks, first, last in index.rows(
            PRESENCE_QUERY, {**values, "newest": index.newest, "open": OPEN}
        )
        if any(chooses(v, stack, target) for v in decode(versions) for stack in index.stacks(stacks) or ("",))
    ]
    for first, last in joined(spans) if number <= index.newest else ():
        if first <= number < last:
            baseline = baseline_of(index, values["tag"], values["package"])
            return Presence(first, first == baseline, last if last <= index.newest else None)
    return None


def joined(spans: Iterable[Span]) -> list[Span]:
    """Merge spans that overlap or adjoin."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found
