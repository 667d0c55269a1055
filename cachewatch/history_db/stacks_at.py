"""The stacks of a tag in any revision, with their number of specs and since when there are any."""

from collections import defaultdict

from msgspec import Struct

from cachewatch.history_db.reading import Index, Point

SCHEMA = "cachewatch.stacks-at/1"


class StackAt(Struct, frozen=True, kw_only=True):
    """One stack."""

    stack: str
    specs: int
    since: Point  # the revision in which it began to have specs, without a break up to then
    baseline: bool  # it had some in that revision or before


class StacksAt(Struct, frozen=True, kw_only=True):
    """The answer."""

    schema: str = SCHEMA
    indexed: Point
    tag: str
    at: Point
    stacks: tuple[StackAt, ...]


# What the tally does not count: what the first readable version of a document has. There are few such revisions.
BASELINES = """
    SELECT i.stacks, i.first, sum(i.size)
    FROM (SELECT DISTINCT baseline FROM document WHERE tag = :tag AND baseline <= :until) b
    CROSS JOIN interval i INDEXED BY interval_by_first ON i.first = b.baseline AND i.tag = :tag
    CROSS JOIN document d ON d.tag = :tag AND d.package = i.package AND d.baseline = i.first
    GROUP BY i.stacks, i.first"""
_CHANGES = """
    SELECT stacks, revision, added - removed FROM tally
    WHERE tag = :tag AND revision <= :until AND added <> removed"""


def find_stacks_at(index: Index, tag: str, number: int) -> StacksAt:
    """Return the stacks of `tag` in revision `number`, by name."""
    values = {"tag": index.tag(tag), "until": number}
    changes: defaultdict[str, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    baselines = set()
    for query in (BASELINES, _CHANGES):
        for stacks, revision, specs in index.rows(query, values):
            for name in index.stacks(stacks):
                changes[name][revision] += specs
                if query is BASELINES:
                    baselines.add((name, revision))
    found = []
    for name in sorted(changes):
        specs, since = _last(sorted(changes[name].items()))
        if specs:
            is_baseline = (name, since) in baselines
            found.append(StackAt(stack=name, specs=specs, since=index.point(since), baseline=is_baseline))
    return StacksAt(indexed=index.indexed, tag=tag, at=index.point(number), stacks=tuple(found))


def _last(changes: list[tuple[int, int]]) -> tuple[int, int]:
    """Add up; return how many there are in the end, and in which revision they were last none before."""
    total, since = 0, 0
    for revision, change in changes:
        since = since if total else revision
        total += change
    return total, since
