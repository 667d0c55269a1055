"""Since when something that was there in a revision had been there, without a break."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.json import decode

from cachewatch.core.versions import VersionKey, version_identity
from cachewatch.history_db.reading import Index
from cachewatch.history_db.when import baseline_of

QUERY = """
    SELECT b.versions, b.target, g.stacks, g.first, g.last
    FROM (
        SELECT DISTINCT build, stacks, first, coalesce(last, :open) AS last FROM interval
        WHERE package = :package AND tag = :tag AND first <= :newest
    ) g JOIN build b ON b.id = g.build
"""
_OPEN = 2**60

Span = tuple[int, int]  # from this revision up to, and without, that one
# Chooses specs by one of their versions, one of their stacks ("" if no stack builds them) and their target.
Chooses = Callable[[str, str, str], bool]


class Presence(Struct, frozen=True):
    """A stay without a break, by numbers of revisions."""

    first: int
    is_baseline: bool  # it began in `first` or before
    last: int | None  # the first revision without it; None if that is not indexed yet


def find_presence(index: Index, package: str, tag: str, number: int, chooses: Chooses) -> Presence | None:
    """Return the stay of the chosen specs that covers revision `number`; None if none of them was there."""
    ids = _ids(index, package, tag)
    if ids is None or number > index.newest:
        return None
    values = {"package": ids[0], "tag": ids[1], "newest": index.newest, "open": _OPEN}
    span = covering(_chosen(index, index.rows(QUERY, values), chooses), number)
    if span is None:
        return None
    first, last = span
    return Presence(first, first == baseline_of(index, ids[1], ids[0]), last if last <= index.newest else None)


class Stays(Struct, frozen=True):
    """The versions of a package in its stacks ("" for no stack), by numbers of revisions."""

    first: Mapping[tuple[str, VersionKey], Presence]  # by stack and version, of the stays that cover a revision
    begins: Mapping[VersionKey, Presence]  # by version, of the first stack that ever had it


def find_stays(index: Index, package: str, tag: str, number: int) -> Stays:
    """Return since when each version was in each stack that has it in revision `number`, whatever its target."""
    ids = _ids(index, package, tag)
    if ids is None or number > index.newest:
        return Stays({}, {})
    spans: defaultdict[tuple[str, VersionKey], list[Span]] = defaultdict(list)
    values = {"package": ids[0], "tag": ids[1], "newest": index.newest, "open": _OPEN}
    for versions, _, stacks, first, last in index.rows(QUERY, values):
        for version in map(version_identity, decode(versions)):
            for stack in index.stacks(stacks) or ("",):
                spans[stack, version].append((first, last))
    baseline = baseline_of(index, ids[1], ids[0])
    there = {key: span for key, found in spans.items() if (span := covering(found, number)) is not None}
    begins: dict[VersionKey, int] = {}
    for (stack, version), found in spans.items():
        if stack:
            first = min(found)[0]
            begins[version] = min(begins.get(version, first), first)
    return Stays(
        {
            key: Presence(first, first == baseline, last if last <= index.newest else None)
            for key, (first, last) in there.items()
        },
        {version: Presence(first, first == baseline, None) for version, first in begins.items()},
    )


def covering(spans: Iterable[Span], number: int) -> Span | None:
    """Join spans that overlap or follow at once, and return what then covers `number`."""
    joined: Span | None = None
    for first, last in sorted(spans):
        if joined is not None and first <= joined[1]:
            joined = joined[0], max(joined[1], last)
        elif first > number:
            break
        else:
            joined = first, last
    return joined if joined is not None and joined[0] <= number < joined[1] else None


def _chosen(index: Index, rows: Iterable[tuple[str, str, int, int, int]], chooses: Chooses) -> Iterable[Span]:
    known: dict[tuple[str, str, int], bool] = {}
    for versions, target, stacks, first, last in rows:
        key = versions, target, stacks
        if key not in known:
            names: Sequence[str] = index.stacks(stacks) or ("",)
            known[key] = any(chooses(version, stack, target) for version in decode(versions) for stack in names)
        if known[key]:
            yield first, last


def _ids(index: Index, package: str, tag: str) -> tuple[int, int] | None:
    """Return the ids of a package and a tag; None where the index never had one of them."""
    found: Mapping[str, int] = {
        table: number
        for table, name in (("package", package), ("tag", tag))
        for (number,) in index.rows(f"SELECT id FROM {table} WHERE name = ?", (name,))  # noqa: S608  our own two names
    }
    return (found["package"], found["tag"]) if len(found) == 2 else None
