"""The life of one hash, and the tag and revision that had most of a set of hashes at the same time.

A life is when the spec was born, which stacks it joined and left, and when it died, with what happened then.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct

from cachewatch.core import names as tag_names
from cachewatch.core.model import Signature
from cachewatch.core.names import in_order
from cachewatch.core.package_changes import NOTHING, is_same_spec, not_written
from cachewatch.core.selection import Globs, Selection
from cachewatch.errors import UsageError
from cachewatch.extensions.history.log import facts_of
from cachewatch.extensions.history.read import Index, IndexPoint
from cachewatch.extensions.history.states import held_at
from cachewatch.extensions.history.values import UNUSUAL, members, pack, prefix_of, prefix_range, unpack
from cachewatch.extensions.history.when import Span, baseline_of, joined

BLAME_SCHEMA = "cachewatch.blame/2"
BLAME_QUERY = """
    SELECT i.tag, i.package, i.build, i.stacks, i.first, i.last, i.hashes
    FROM (
        SELECT interval AS id FROM spec WHERE prefix BETWEEN :low AND :high
        UNION SELECT interval FROM spec WHERE prefix = :unusual
    ) JOIN interval i USING (id)
    WHERE i.first <= :newest
"""
_FEWEST_LETTERS = 4
_MOST_NAMED = 20


class SpecStay(Struct, frozen=True, kw_only=True):
    """A period in which the same stacks of a tag had a spec."""

    life: int  # the position in `lives` of the life that this period is part of
    tag: str
    package: str
    stacks: tuple[str, ...]
    first: IndexPoint
    last: IndexPoint | None  # the first revision after the period; None while it lasts


class Life(Struct, frozen=True, kw_only=True):
    """One spec in one document. A hash has several lives if its package is renamed or it names another spec later."""

    tag: str
    package: str
    spec: Signature  # as the document had it last
    born: IndexPoint
    baseline: bool  # it was born in the revision `born` or before
    died: IndexPoint | None
    facts: tuple[str, ...] = ()  # changes to its package in its stacks in the revision in which it died
    stays: tuple[str, ...] = ()  # stacks that had the same version of the package afterwards


class Blame(Struct, frozen=True, kw_only=True):
    """The answer to `cachewatch history blame`. `died` is when the last document lost the hash; None if any has it."""

    schema: str = BLAME_SCHEMA
    indexed: IndexPoint
    hash: str
    package: str
    spec: Signature
    intervals: tuple[SpecStay, ...]
    lives: tuple[Life, ...]
    died: IndexPoint | None


class _IndexRow(NamedTuple):
    tag: int
    package: int
    build: int
    stacks: int
    first: int
    last: int | None


class _DocumentName(NamedTuple):
    tag: str
    package: str


def find_blame(index: Index, beginning: str, tags: Sequence[str] = ()) -> Blame:
    """Return the life of the hash that begins with `beginning`, in `tags` or in all tags.

    Raises UsageError if no hash, or several, begin with it.
    """
    beginning = beginning.lower().removeprefix("/")
    found = _rows(index, beginning)
    if tags:
        ids = {index.tag(name) for name in tags}
        found = {h: kept for h, rows in found.items() if (kept := [row for row in rows if row.tag in ids])}
    if len(found) != 1:
        raise UsageError(_not_one(index, beginning, found, tags))
    ((spec_hash, rows),) = found.items()
    return _blame(index, spec_hash, rows)


def _rows(index: Index, beginning: str) -> dict[str, list[_IndexRow]]:
    """Return the intervals of each hash that begins with `beginning`."""
    if len(beginning) < _FEWEST_LETTERS:
        raise UsageError(f"/{beginning}: write at least {_FEWEST_LETTERS} letters of the hash; 7 are usually enough")
    low, high = prefix_range(beginning)
    found: defaultdict[str, list[_IndexRow]] = defaultdict(list)
    values = {"low": low, "high": high, "unusual": UNUSUAL, "newest": index.newest}
    for *row, hashes in index.rows(BLAME_QUERY, values):
        for spec_hash in unpack(hashes):
            if spec_hash.startswith(beginning):
                found[spec_hash].append(_IndexRow(*row))
    return found


def _not_one(index: Index, beginning: str, found: dict[str, list[_IndexRow]], tags: Sequence[str]) -> str:
    if not found:
        where = " or ".join(tags) or "the history index"
        up_to = f"up to {index.indexed.revision[:10]}"
        return (
            f"/{beginning}: no hash of {where} begins with it, {up_to}; `cachewatch log {beginning}` tells of a package"
        )
    lines = []
    for spec_hash in sorted(found)[:_MOST_NAMED]:
        row = found[spec_hash][-1]
        spec = index.signature(row.build, row.stacks)
        named = f"{name_of(index, 'package', row.package)} {', '.join(spec.versions)}  {spec.target}"
        lines.append(f"  /{spec_hash}  {named}")
    more = f"\n  and {len(found) - _MOST_NAMED:,} more" if len(found) > _MOST_NAMED else ""
    return f"/{beginning}: {len(found):,} hashes begin with it; write more of the hash:\n{chr(10).join(lines)}{more}"


def name_of(index: Index, table: str, number: int) -> str:
    """Return the name of the tag or package with the id `number` in `table`."""
    ((name,),) = index.rows(f"SELECT name FROM {table} WHERE id = ?", (number,))  # noqa: S608  our own two names
    return str(name)


def _blame(index: Index, spec_hash: str, rows: Sequence[_IndexRow]) -> Blame:
    lives: list[Life] = []
    stays: list[SpecStay] = []
    documents = _by_document(index, rows)
    for document, all_rows in documents.items():
        for own in _lives(index, document, all_rows):
            stays += _stays(index, len(lives), document, own)
            lives.append(_life(index, document, own))
    ends = [_end(index, all_rows[-1]) for all_rows in documents.values()]
    latest = max(rows, key=lambda row: row.first)
    return Blame(
        indexed=index.indexed,
        hash=spec_hash,
        package=name_of(index, "package", latest.package),
        spec=index.signature(latest.build, latest.stacks),
        intervals=tuple(stays),
        lives=tuple(lives),
        died=None if None in ends else index.point(max(end for end in ends if end is not None)),
    )


def _by_document(index: Index, rows: Iterable[_IndexRow]) -> Mapping[_DocumentName, Sequence[_IndexRow]]:
    """Return the rows by tag and package, oldest first; the tags are in the order of the catalogue."""
    found: defaultdict[_DocumentName, list[_IndexRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.first):
        found[_DocumentName(name_of(index, "tag", row.tag), name_of(index, "package", row.package))].append(row)
    places = {tag: place for place, tag in enumerate(in_order({document.tag for document in found}))}
    return dict(sorted(found.items(), key=lambda item: (places[item[0].tag], item[1][0].first, item[0].package)))


def _lives(index: Index, document: _DocumentName, rows: Sequence[_IndexRow]) -> Iterator[Sequence[_IndexRow]]:
    """Split the rows of one document where the hash names another spec than before."""
    starts = [0, *(n for n in range(1, len(rows)) if not _goes_on(index, document, rows[n - 1], rows[n]))]
    for start, end in pairwise([*starts, len(rows)]):
        yield rows[start:end]


def _goes_on(index: Index, document: _DocumentName, before: _IndexRow, after: _IndexRow) -> bool:
    """Tell whether a hash names the same spec in two rows of a document, one after the other."""
    old, new = (index.signature(row.build, row.stacks) for row in (before, after))
    if is_same_spec(old, new, NOTHING):
        return True
    # What the whole document did not give then, or does not give now, is no difference.
    last = (after.first if before.last is None else before.last) - 1
    sides = (held_at(index, document.tag, number, document.package) for number in (last, after.first))
    had, has = ({part.signature for part in side.get(document.package, ())} for side in sides)
    query = """
        SELECT sum(compilers_differ) FROM step WHERE tag = :tag AND package = :package AND revision > :last
        AND revision <= :first
    """
    values = {"tag": after.tag, "package": after.package, "last": last, "first": after.first}
    ((differ,),) = index.rows(query, values)
    unwritten = not_written(had, has, is_compiler_unknown=bool(differ))
    return is_same_spec(old, new, unwritten)


def _end(index: Index, row: _IndexRow) -> int | None:
    """Return the first indexed revision after the interval; None while it is open."""
    return None if row.last is None or row.last > index.newest else row.last


def _stays(index: Index, life: int, document: _DocumentName, rows: Sequence[_IndexRow]) -> Iterator[SpecStay]:
    """Yield the periods in which the spec was in the same stacks; another spelling of the spec ends no period."""
    start = rows[0]
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        if after is not None and after.first == row.last and after.stacks == row.stacks:
            continue
        end = _end(index, row)
        yield SpecStay(
            life=life,
            tag=document.tag,
            package=document.package,
            stacks=index.stacks(row.stacks),
            first=index.point(start.first),
            last=None if end is None else index.point(end),
        )
        start = after or row


def _life(index: Index, document: _DocumentName, rows: Sequence[_IndexRow]) -> Life:
    first, end = rows[0], _end(index, rows[-1])
    spec = index.signature(rows[-1].build, rows[-1].stacks)
    facts, stays = ((), ()) if end is None else _end_of(index, document, spec, end)
    return Life(
        tag=document.tag,
        package=document.package,
        spec=spec,
        born=index.point(first.first),
        baseline=first.first == baseline_of(index, first.tag, first.package),
        died=None if end is None else index.point(end),
        facts=facts,
        stays=stays,
    )


def _end_of(
    index: Index, document: _DocumentName, spec: Signature, number: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what revision `number`, in which `spec` died, did to its package, and which stacks kept its version.

    Which other spec took its place cannot be known.
    """
    selection = Selection(packages=Globs([document.package]), stacks=Globs(spec.stacks), targets=Globs([spec.target]))
    facts, _ = facts_of(index, document.tag, number, selection)
    held = held_at(index, document.tag, number, document.package).get(document.package, ())
    stays = {stack for one in held if one.signature.versions == spec.versions for stack in one.signature.stacks}
    return facts, tuple(sorted(stays))


BEST_SCHEMA = "cachewatch.best-snapshot/1"
HOLDERS_QUERY = """
    SELECT i.tag, i.first, i.last, i.hashes FROM spec s JOIN interval i ON i.id = s.interval
    WHERE s.prefix = ? AND i.first <= ?"""


class Snapshot(Struct, frozen=True, kw_only=True):
    """A tag in the newest of the revisions in which it had most of the hashes."""

    tag: str
    revision: str
    time: str | None
    since: IndexPoint  # the first of these revisions without interruption up to `revision`
    is_current: bool  # the newest indexed revision has as many, so that they can be installed now
    found: int
    of: int
    missing: tuple[str, ...]  # hashes, sorted


class BestSnapshots(Struct, frozen=True, kw_only=True):
    """The answer to `cachewatch history best`: every tag that ever had any of the hashes, best first."""

    schema: str = BEST_SCHEMA
    indexed: IndexPoint
    snapshots: tuple[Snapshot, ...]
    others: int = 0  # number of tags that were left out


def find_best(
    index: Index, hashes: Collection[str], *, most: int | None = None, takes_tag: Callable[[str], bool] | None = None
) -> BestSnapshots:
    """Return the tags by how many of `hashes` they had at the same time, at most `most` tags that `takes_tag` accepts.

    Of equal ones, those come first that have as many now, then those that never change, then the newest.
    """
    spans: defaultdict[int, defaultdict[str, list[Span]]] = defaultdict(lambda: defaultdict(list))
    for spec_hash in set(hashes):
        for tag, span in _spans(index, spec_hash):
            spans[tag][spec_hash].append(span)
    named = [(name_of(index, "tag", tag), of_tag) for tag, of_tag in spans.items()]
    found = [
        _best(index, tag, of_tag, frozenset(hashes)) for tag, of_tag in named if takes_tag is None or takes_tag(tag)
    ]
    found.sort(
        key=lambda one: (
            -one.found,
            not one.is_current,
            tag_names.is_mutable(one.tag),
            -index.number_of(one.revision),
            one.tag,
        )
    )
    left = found[most:] if most else []
    return BestSnapshots(indexed=index.indexed, snapshots=tuple(found[:most]), others=len(left))


def _spans(index: Index, spec_hash: str) -> Iterable[tuple[int, Span]]:
    stored = pack([spec_hash])
    for tag, first, last, hashes in index.rows(HOLDERS_QUERY, (prefix_of(spec_hash), index.newest)):
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
    """Return the greatest number of hashes present at the same time, and the last span in which there were that many.

    Each list in `spans` is of one hash; open spans end at `end`.
    """
    changes: defaultdict[int, int] = defaultdict(int)
    for of_hash in spans:
        for first, last in joined(of_hash):
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
