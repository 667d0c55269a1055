"""Answer `history blame` (when a hash was present) and `history best` (which tag had most hashes of a set at once)."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from msgspec import Struct

from cachewatch.core.comparison.kept_and_reused_hashes import NOTHING, describe_changes, is_same_spec, not_written
from cachewatch.core.filters_and_spec_patterns import Globs, Selection
from cachewatch.core.kinds_and_specs import Signature, grouped
from cachewatch.core.names_and_layouts import Wanted, in_order, is_mutable
from cachewatch.core.statement_kinds import Line, Statement
from cachewatch.errors import UsageError
from cachewatch.extensions.history.index_lookup import Index, IndexPoint
from cachewatch.extensions.history.package_questions import Span, baseline_of, facts_of, joined
from cachewatch.extensions.history.restored_documents import held_at
from cachewatch.extensions.history.schema_and_location import UNUSUAL, members, pack, prefix_range, prefixes, unpack
from cachewatch.report.tables_and_listings import Coloured, Row, Table
from cachewatch.report.words import number

_BLAME = """
    SELECT tag.name, package.name, i.build, i.stacks, i.first, nullif(min(ifnull(i.last, :open), :open), :open), i.hashes
    FROM (
        SELECT interval AS id FROM spec WHERE prefix BETWEEN :low AND :high
        UNION SELECT interval FROM spec WHERE prefix = :unusual
    ) JOIN interval i USING (id) JOIN tag ON tag.id = i.tag JOIN package ON package.id = i.package
    WHERE i.first < :open
"""
_FEWEST_LETTERS = 4
_MOST_NAMED = 20
_HOLDERS = """
    SELECT tag.name, i.first, min(ifnull(i.last, :end), :end), i.hashes
    FROM spec s JOIN interval i ON i.id = s.interval JOIN tag ON tag.id = i.tag WHERE s.prefix = :prefix AND i.first < :end
"""


class SpecStay(Struct, frozen=True):
    """A period in which a tag had a spec without interruption, in the same stacks all the time."""

    life: int  # index in `Blame.lives` of the life that has this period
    tag: str
    package: str
    stacks: tuple[str, ...]
    first: IndexPoint
    last: IndexPoint | None  # the first revision after the period; None while it lasts
    facts: tuple[str, ...] = ()  # if revision `last` removed the spec: what else it did to the package in these stacks
    stays: tuple[str, ...] = ()  # if revision `last` removed the spec: stacks that have its version nevertheless


class Life(Struct, frozen=True):
    """The time during which a document lists a spec, gaps included. If a hash names several specs, each has a life."""

    tag: str
    package: str
    spec: Signature  # as the document had it last
    born: IndexPoint
    baseline: bool  # whether the spec may have been there before `born`, the first readable version of the document
    died: IndexPoint | None  # the first revision after the life; None while the document lists the spec
    facts: tuple[str, ...] = ()  # `facts` of its last period
    stays: tuple[str, ...] = ()  # `stays` of its last period


class Blame(Struct, frozen=True, tag_field="schema", tag="cachewatch.blame/2"):
    """The answer to `cachewatch history blame`. `died`: when the last document lost the hash; None while one has it."""

    indexed: IndexPoint
    hash: str
    package: str
    spec: Signature
    intervals: tuple[SpecStay, ...]
    lives: tuple[Life, ...]
    died: IndexPoint | None


class _Presence(NamedTuple):
    tag: str
    package: str
    spec: Signature
    first: int
    last: int | None  # the first revision without the spec; None if the newest indexed revision has it


def find_blame(index: Index, beginning: str, tags: Sequence[str] = ()) -> Blame:
    """Return when the only hash that begins with `beginning` was in `tags`; an empty `tags` means all tags.

    Raises UsageError if a tag is unknown, or if `beginning` fits no hash or several.
    """
    beginning = beginning.lower().removeprefix("/")
    for name in tags:
        index.known_id("tag", name)  # raises UsageError for an unknown tag
    spec_hash, rows = _rows_of_one(index, beginning, tags)
    lives: list[Life] = []
    stays: list[SpecStay] = []
    for own in _lives(index, rows):
        stays += _stays(index, len(lives), own)
        first, last, ending = own[0], own[-1], stays[-1]
        baseline = baseline_of(index, index.id_of("package", first.package), index.id_of("tag", first.tag))
        born, is_baseline = index.point(first.first), first.first == baseline
        lives.append(
            Life(first.tag, first.package, last.spec, born, is_baseline, ending.last, ending.facts, ending.stays)
        )
    latest, ends = max(rows, key=lambda row: row.first), {row.last for row in rows}
    died = None if None in ends else index.point(max(filter(None, ends)))
    return Blame(index.indexed, spec_hash, latest.package, latest.spec, tuple(stays), tuple(lives), died)


def _rows_of_one(index: Index, beginning: str, tags: Sequence[str]) -> tuple[str, list[_Presence]]:
    """Return the one hash in `tags` that begins with `beginning`, and its index rows. Raises UsageError if not one."""
    if len(beginning) < _FEWEST_LETTERS:
        raise UsageError(f"/{beginning}: write at least {_FEWEST_LETTERS} letters of the hash; 7 are usually enough")
    low, high = prefix_range(beginning)
    by_hash: defaultdict[str, list[_Presence]] = defaultdict(list)
    values = {"low": low, "high": high, "unusual": UNUSUAL, "open": index.newest + 1}
    for tag, package, build, stacks, first, last, hashes in index.rows(_BLAME, values):
        row = _Presence(tag, package, index.signature(build, stacks), first, last)
        for spec_hash in unpack(hashes) if not tags or row.tag in tags else ():
            if spec_hash.startswith(beginning):
                by_hash[spec_hash].append(row)
    if not by_hash:
        where = f"{' or '.join(tags) or 'the history index'} begins with it, up to {index.indexed.revision[:10]}"
        raise UsageError(f"/{beginning}: no hash of {where}; `cachewatch log {beginning}` tells of a package")
    if len(by_hash) == 1:
        return by_hash.popitem()
    lines = [f"/{beginning}: {len(by_hash):,} hashes begin with it; write more of the hash:"]
    for spec_hash in sorted(by_hash)[:_MOST_NAMED]:
        row = by_hash[spec_hash][-1]
        lines.append(f"  /{spec_hash}  {row.package} {', '.join(row.spec.versions)}  {row.spec.target}")
    if (more := len(by_hash) - _MOST_NAMED) > 0:
        lines.append(f"  and {more:,} more")
    raise UsageError("\n".join(lines))


def _lives(index: Index, rows: Iterable[_Presence]) -> Iterator[Sequence[_Presence]]:
    """Divide `rows`, all of one hash, by document and by the spec that the hash means there; yield the rows of each."""
    documents = grouped(((row.tag, row.package), row) for row in sorted(rows, key=lambda row: row.first))
    tags = list(in_order({tag for tag, _ in documents}))
    for own in sorted(documents.values(), key=lambda own: (tags.index(own[0].tag), own[0].first, own[0].package)):
        starts = [0, *(n for n in range(1, len(own)) if not _goes_on(index, own[n - 1], own[n]))]
        for start, end in pairwise([*starts, len(own)]):
            yield own[start:end]


def _goes_on(index: Index, before: _Presence, after: _Presence) -> bool:
    """Tell whether a hash means the same spec in `before` and `after`, two successive rows of one document."""
    if is_same_spec(before.spec, after.spec, NOTHING):
        return True
    # Values that the whole document did not give then, or does not give now, are no difference.
    last = (after.first if before.last is None else before.last) - 1
    sides = (held_at(index, after.tag, number, after.package) for number in (last, after.first))
    had, has = ({part.signature for part in side.get(after.package, ())} for side in sides)
    query = "SELECT sum(compilers_differ) FROM step WHERE tag = ? AND package = ? AND revision > ? AND revision <= ?"
    ids = index.id_of("tag", after.tag), index.id_of("package", after.package)
    ((differ,),) = index.rows(query, (*ids, last, after.first))
    return is_same_spec(before.spec, after.spec, not_written(had, has, is_compiler_unknown=bool(differ)))


def _stays(index: Index, life: int, rows: Sequence[_Presence]) -> Iterator[SpecStay]:
    """Yield the periods of unchanged stacks in `rows`, those of one Life; `life` is its index in `Blame.lives`."""
    start = rows[0]
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        adjoining = after if after is not None and after.first == row.last else None
        if adjoining is not None and adjoining.spec.stacks == row.spec.stacks:
            continue
        facts, kept = ((), ()) if adjoining or row.last is None else _what_happened(index, row, row.last)
        last = None if row.last is None else index.point(row.last)
        yield SpecStay(life, row.tag, row.package, row.spec.stacks, index.point(start.first), last, facts, kept)
        start = after or row


def _what_happened(index: Index, row: _Presence, end: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what else revision `end`, which removed the spec `row`, did to the package in the stacks of that spec.

    The second item is the stacks that still have the version of the spec.
    """
    spec = row.spec

    def concerns(one: Statement | Line) -> bool:
        places = one.places if isinstance(one, Statement) else one.story.places
        if not spec.stacks or not (places or one.stacks):
            return True
        return not (spec.places.isdisjoint(places) if places else {*spec.stacks}.isdisjoint(one.stacks))

    held = held_at(index, row.tag, end, row.package).get(row.package, ())
    kept = {stack for one in held if one.signature.versions == spec.versions for stack in one.signature.stacks}
    of_package = Selection(packages=Globs([row.package]))
    return facts_of(index, row.tag, end, of_package, concerns)[0], tuple(sorted(kept))


def blame_table(answer: Blame) -> Table:
    """Return a table with a row for each event in the life of a hash."""
    spec = answer.spec
    built = f"{spec.compiler}  {spec.platform}-{spec.os}-{spec.target}  {' '.join(spec.variants)}"
    title = f"/{answer.hash}  {answer.package} {', '.join(spec.versions)}  {built}".rstrip()
    rows: list[Row] = []
    for place, life in enumerate(answer.lives):
        for point, event in _events(life, [s for s in answer.intervals if s.life == place], answer.lives[:place]):
            day, revision = (point.day, point.revision[:10]) if point else (None, None)
            rows.append((life.tag, life.package, day, revision, event))
    return Table(("tag", "package", "date", "revision", "event"), rows, (title, ""), ("", answer.indexed.as_last))


def _events(
    life: Life, stays: Sequence[SpecStay], earlier: Sequence[Life]
) -> Iterator[tuple[IndexPoint | None, Coloured]]:
    """Yield revision and description of each event of `life`; `stays` are its periods, `earlier` the lives before."""

    def where(stacks: Sequence[str]) -> str:
        return f"in {', '.join(stacks)}" if stacks else "in no stack"

    def gone(end: SpecStay) -> Coloured:
        stay = f"no stack of {life.tag} has this version any more"
        if end.stays:
            kept = f"{', '.join(life.spec.versions)} stays in "
            is_said = any(kept in fact for fact in end.facts)
            stay = "" if is_said else f"{life.package} {kept}{number(len(end.stays), 'stack')}"
        return Coloured("; ".join(filter(None, ("gone", *end.facts, stay))), "red")

    other = ""
    if earlier and (earlier[-1].tag, earlier[-1].package) == (life.tag, life.package):
        other = f"; another spec than before: {describe_changes(earlier[-1].spec, life.spec)}"
    born = "born then or before" if life.baseline else "born"
    yield life.born, Coloured(f"{born} {where(stays[0].stacks)}{other}", "green")
    for before, after in pairwise(stays):
        if before.last != after.first:
            yield before.last, gone(before)
            yield after.first, Coloured(f"back {where(after.stacks)}", "green")
            continue
        joined_stacks, left = sorted({*after.stacks} - {*before.stacks}), sorted({*before.stacks} - {*after.stacks})
        moves = [f"{how} {', '.join(stacks)}" for how, stacks in (("joined", joined_stacks), ("left", left)) if stacks]
        unbuilt = "" if after.stacks else "; no stack builds it any more"
        colour = "yellow" if unbuilt else "red" if not joined_stacks else "" if left else "green"
        yield after.first, Coloured("; ".join(moves) + unbuilt, colour)
    if life.died is not None:
        yield life.died, gone(stays[-1])


class Snapshot(Struct, frozen=True):
    """A tag, and the newest of the revisions in which it had its greatest number of wanted hashes."""

    tag: str
    revision: str
    time: str | None
    since: IndexPoint  # from this revision to `revision`, the tag had this number of wanted hashes without interruption
    is_current: bool  # `revision` is the newest indexed one, so that the hashes can be installed now
    found: int  # number of wanted hashes that the tag had
    of: int  # number of all wanted hashes
    missing: tuple[str, ...]  # the other wanted hashes, sorted


class BestSnapshots(Struct, frozen=True, tag_field="schema", tag="cachewatch.best-snapshot/1"):
    """The answer to `cachewatch history best`: the tags that ever had any of the hashes, the one with most first."""

    indexed: IndexPoint
    snapshots: tuple[Snapshot, ...]
    others: int = 0  # number of tags that were left out


def find_best(
    index: Index, hashes: Collection[str], *, most: int | None = None, takes_tag: Wanted = lambda _: True
) -> BestSnapshots:
    """Sort tags that `takes_tag` accepts by how many `hashes` they had at once; return the first `most` (None: all)."""
    wanted = set(hashes)
    spans: defaultdict[str, defaultdict[str, list[Span]]] = defaultdict(lambda: defaultdict(list))
    for spec_hash in wanted:
        stored = pack([spec_hash])
        (prefix,) = prefixes(stored)
        for tag, first, last, held in index.rows(_HOLDERS, {"prefix": prefix, "end": index.newest + 1}):
            if stored in members(held) and takes_tag(tag):
                spans[tag][spec_hash].append((first, last))
    snapshots = []
    for tag, of_tag in spans.items():
        count, (first, last) = _most(of_tag.values(), index.newest + 1)
        there = {h for h, found in of_tag.items() if any(start < last <= end for start, end in found)}
        newest, since, is_current = index.point(last - 1), index.point(first), last > index.newest
        missing = tuple(sorted(wanted - there))
        snapshots.append(Snapshot(tag, newest.revision, newest.time, since, is_current, count, len(wanted), missing))
    snapshots.sort(key=lambda s: (-s.found, not s.is_current, is_mutable(s.tag), -index.number_of(s.revision), s.tag))
    others = len(snapshots[most:]) if most else 0
    return BestSnapshots(index.indexed, tuple(snapshots[:most]), others)


def _most(spans: Iterable[list[Span]], end: int) -> tuple[int, Span]:
    """Return the greatest number of hashes that were there at once, and the last span in which so many were there.

    `spans` has a list for each hash; `end` is one more than the number of the newest revision.
    """
    changes = Counter[int]()
    for of_hash in spans:
        for first, last in joined(of_hash):
            changes[first] += 1
            changes[last] -= 1
    places = sorted(changes)
    counts = list(zip(accumulate(changes[place] for place in places), pairwise([*places, end]), strict=True))
    most = max(count for count, _ in counts)
    return most, joined(span for count, span in counts if count == most)[-1]


def snapshots_table(answer: BestSnapshots) -> Table:
    """Return a table with a row for each tag, best first."""
    now = (Coloured("no", "red"), Coloured("yes", "green"))
    rows = [
        (one.tag, one.found, one.of, one.revision[:10], (one.time or "unknown")[:10], now[one.is_current])
        for one in answer.snapshots
    ]
    columns = ("tag", "found", "of", "revision", "date", "now")
    more = (f"and {answer.others:,} more; --most N shows more",) if answer.others else ()
    return Table(columns, rows, after=(*more, "", answer.indexed.as_last))
