"""In which tag and revision most of a set of hashes was there at once."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from msgspec import Struct

from cachewatch.core import tag_names
from cachewatch.history_db.blame import name_of
from cachewatch.history_db.hashes import members, pack, prefix_of
from cachewatch.history_db.reading import Index, Point

SCHEMA = "cachewatch.best-snapshot/1"
QUERY = """
    SELECT i.tag, i.first, i.last, i.hashes FROM spec s JOIN interval i ON i.id = s.interval
    WHERE s.prefix = ? AND i.first <= ?"""

Span = tuple[int, int]  # from this revision up to, and without, that one


class Snapshot(Struct, frozen=True, kw_only=True):
    """A tag in its best revision, the newest of the best."""

    tag: str
    revision: str
    time: str | None
    since: Point  # from here on it had as many, up to `revision`
    is_current: bool  # the newest indexed revision has as many, so that they can be installed now
    found: int
    of: int
    missing: tuple[str, ...]  # hashes, sorted


class BestSnapshots(Struct, frozen=True, kw_only=True):
    """The answer: every tag that ever had any of the hashes, best first."""

    schema: str = SCHEMA
    indexed: Point
    snapshots: tuple[Snapshot, ...]
    others: int = 0  # so many more were left out


def find_best(
    index: Index, hashes: Collection[str], *, most: int | None = None, takes_tag: Callable[[str], bool] | None = None
) -> BestSnapshots:
    """Return the tags by how many of `hashes` they had at once; of equal ones, what was so last, then what stays as it is."""
    spans: defaultdict[int, defaultdict[str, list[Span]]] = defaultdict(lambda: defaultdict(list))
    for spec_hash in set(hashes):
        for tag, span in _spans(index, spec_hash):
            spans[tag][spec_hash].append(span)
    named = [(name_of(index, "tag", tag), of_tag) for tag, of_tag in spans.items()]
    found = [
        _best(index, tag, of_tag, frozenset(hashes)) for tag, of_tag in named if takes_tag is None or takes_tag(tag)
    ]
    found.sort(key=lambda one: _in_order(index, one))
    left = found[most:] if most else []
    return BestSnapshots(indexed=index.indexed, snapshots=tuple(found[:most]), others=len(left))


def _in_order(index: Index, one: Snapshot) -> tuple[object, ...]:
    return (-one.found, not one.is_current, tag_names.is_mutable(one.tag), -index.number_of(one.revision), one.tag)


def _spans(index: Index, spec_hash: str) -> Iterable[tuple[int, Span]]:
    stored = pack([spec_hash])
    for tag, first, last, hashes in index.rows(QUERY, (prefix_of(spec_hash), index.newest)):
        if stored in members(hashes):
            yield tag, (first, index.newest + 1 if last is None else min(last, index.newest + 1))


def _best(index: Index, tag: str, spans: dict[str, list[Span]], wanted: frozenset[str]) -> Snapshot:
    count, (first, last) = _most(spans.values(), index.newest + 1)
    there = {h for h, found in spans.items() if any(start < last <= end for start, end in found)}
    newest = index.point(last - 1)
    return Snapshot(
        tag=tag,
        revision=newest.revision,
        time=newest.time,
        since=index.point(first),
        is_current=last > index.newest,
        found=count,
        of=len(wanted),
        missing=tuple(sorted(wanted - there)),
    )


def _most(spans: Iterable[list[Span]], end: int) -> tuple[int, Span]:
    """Return how many were there at once at most, and from when to when that was last so."""
    changes: defaultdict[int, int] = defaultdict(int)
    for of_hash in spans:
        for first, last in _joined(of_hash):
            changes[first] += 1
            changes[last] -= 1
    places = sorted(changes)
    count, best, best_span = 0, 0, (0, end)
    for place, after in zip(places, [*places[1:], end], strict=True):
        count += changes[place]
        if count > best or (count == best and best_span[1] != place < end):
            best, best_span = count, (place, after)
        elif count == best:
            best_span = (best_span[0], after)
    return best, best_span


def _joined(spans: list[Span]) -> list[Span]:
    """Join what overlaps or follows at once."""
    joined: list[Span] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined
