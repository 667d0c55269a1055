"""In which revisions each version of a package was in each stack, and how long after the first stack.

Also the period in which specs of one revision were present without interruption.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from cachewatch.core.names import Wanted
from cachewatch.core.package_changes import spellings_of
from cachewatch.core.spack import version_key
from cachewatch.extensions.history.read import Index, IndexPoint, days_between, names_of

SCHEMA = "cachewatch.when/1"
OPEN = 2**60  # also of an interval that ends in a revision that is not completely indexed

Span = tuple[int, int]  # numbers of the first revision and of the first one after the span


_ANY: Wanted = lambda _: True  # noqa: E731


class WhenRow(Struct, frozen=True, kw_only=True):
    """One version in one stack for one target, for as long as it was there without interruption."""

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


class _WhenKey(NamedTuple):
    version: str
    stack: str
    target: str


def find_when(
    index: Index,
    package: str,
    tag: str,
    *,
    versions: Wanted = _ANY,
    stacks: Wanted = _ANY,
    targets: Wanted = _ANY,
    compilers: Wanted = _ANY,
) -> When:
    """Return when each wanted version of `package` was in each wanted stack of `tag`, by target.

    Lags are relative to the first stack among the wanted targets and compilers. Specs that differ only in compiler,
    variants or the spelling of their version are one row.
    """
    ids = index.known_id("package", package), index.known_id("tag", tag)
    spans: defaultdict[_WhenKey, list[Span]] = defaultdict(list)
    for there in presences(index, *ids, index.newest):
        if targets(there.target) and compilers(there.compiler):
            for version in filter(versions, there.versions):
                for stack in there.stacks:
                    spans[_WhenKey(version, stack, there.target)].append(there.span)
    periods = {key: joined(found) for key, found in spans.items()}
    begins: dict[str, int] = {}  # in which revision the first stack had each version
    for key, ((first, _), *_) in periods.items():
        if key.stack:
            begins[key.version] = min(begins.get(key.version, first), first)
    baseline = baseline_of(index, *ids)
    wanted = [(key, span) for key, found in periods.items() if stacks(key.stack) for span in found]
    rows = [
        _row(index, key, span, begins.get(key.version) if span == periods[key][0] else None, baseline)
        for key, span in sorted(wanted, key=_in_order)
    ]
    return When(indexed=index.indexed, package=package, tag=tag, rows=tuple(rows))


def baseline_of(index: Index, package: int, tag: int) -> int | None:
    """Return the document's baseline: the number of a revision whose specs were added then or before; None if none."""
    query = "SELECT baseline FROM document WHERE package = ? AND tag = ?"
    return next((number for (number,) in index.rows(query, (package, tag))), None)


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


_PRESENCES = """
    SELECT b.versions, b.compiler, b.target, g.stacks, g.first, g.last
    FROM (
        SELECT DISTINCT build, stacks, first, coalesce(last, ?) AS last FROM interval
        WHERE package = ? AND tag = ? AND first <= ?
    ) g JOIN build b ON b.id = g.build
"""


class SpecsPresence(NamedTuple):
    """The period in which specs that were added together were present. One that has not ended lasts up to OPEN."""

    versions: frozenset[str]
    compiler: str
    target: str
    stacks: tuple[str, ...]  # "" if no stack builds them
    span: Span


def presences(index: Index, package: int, tag: int, until: int) -> Iterator[SpecsPresence]:
    """Yield when the specs of a document were present that were added up to revision `until`.

    A version that is spelled in several ways has one name.
    """
    rows = [(names_of(row[0]), *row[1:]) for row in index.rows(_PRESENCES, (OPEN, package, tag, until))]
    spellings = spellings_of(version for versions, *_ in rows for version in versions)
    for versions, compiler, target, stacks, first, last in rows:
        named = frozenset(spellings.get(version, version) for version in versions)
        yield SpecsPresence(named, compiler, target, index.stacks(stacks) or ("",), (first, last))


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
    ids = index.id_of("package", package), index.id_of("tag", tag)
    spans = [
        there.span
        for there in presences(index, *ids, index.newest)
        if any(chooses(version, stack, there.target) for version in there.versions for stack in there.stacks)
    ]
    for first, last in joined(spans) if number <= index.newest else ():
        if first <= number < last:
            return Presence(first, first == baseline_of(index, *ids), last if last <= index.newest else None)
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
