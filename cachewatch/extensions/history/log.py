"""What each revision did, as a comparison with the one before says it, and how many specs came and went in a range.

The numbers of a range are by package, by stack, or by the cause of rebuilds.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from msgspec import Struct

from cachewatch.core.model import MatchKind, Signature
from cachewatch.core.spack import version_key
from cachewatch.extensions.history.read import DocumentStep, Index, IndexPoint, Part, Where, step_of

LOG_SCHEMA = "cachewatch.log/1"
UNREADABLE = "unreadable"
BEGIN = "SELECT first, package, build, stacks, hashes, 1 FROM interval"
END = "SELECT last, package, build, stacks, hashes, 0 FROM interval"


class LogRow(Struct, frozen=True, kw_only=True):
    """So many specs of one version to which the same thing happened in one revision."""

    revision: str
    time: str | None
    tag: str
    package: str
    change: str  # new, gone, rebuilt, upgraded, ..., restacked (kept, in other stacks), unreadable
    version: str  # of several, all; of what vanished, the one that it had
    before: str | None = None  # the version that this one took the place of, where it is another
    specs: int = 0
    stacks: tuple[str, ...] = ()  # all in which they are now, or were
    left: tuple[str, ...] = ()  # those in which they were and are not now, of what was kept, or built again elsewhere
    message: str | None = None  # why the document was not compared


class RevisionLog(Struct, frozen=True, kw_only=True):
    """The answer, newest revision first."""

    schema: str = LOG_SCHEMA
    indexed: IndexPoint
    tag: str
    rows: tuple[LogRow, ...]
    earlier: int  # so many revisions with changes, before these, were left out


class Range(NamedTuple):
    """Revisions after `since` up to `until`, and how many of them to list at most."""

    since: int
    until: int
    most: int | None


class _Item(NamedTuple):
    change: str
    version: str
    before: str | None


def find_log(index: Index, tag: str, package: str | None, asked: Range) -> RevisionLog:
    """Return what the newest revisions of `asked` did to `tag`, or to one package of it."""
    tag_id = index.tag(tag)
    package_id = None if package is None else index.package(package)
    numbers = sorted(_revisions(index, tag_id, package_id, asked), reverse=True)
    shown = numbers[: asked.most]
    if not shown:
        return RevisionLog(indexed=index.indexed, tag=tag, rows=(), earlier=len(numbers))
    names = dict(index.rows("SELECT id, name FROM package"))
    rows = [
        LogRow(revision=point.revision, time=point.time, tag=tag, package=names[package_id], **values)
        for number, package_id, values in _told(index, tag_id, package_id, Range(shown[-1] - 1, shown[0], None))
        for point in [index.point(number)]
    ]
    places = {index.point(number).revision: place for place, number in enumerate(shown)}
    rows.sort(
        key=lambda row: (places[row.revision], row.package, version_key(row.version), row.change, row.before or "")
    )
    return RevisionLog(indexed=index.indexed, tag=tag, rows=tuple(rows), earlier=len(numbers) - len(shown))


def _revisions(index: Index, tag: int, package: int | None, asked: Range) -> set[int]:
    """Return the revisions in which anything happened."""
    bounds = {"since": asked.since, "until": asked.until, "tag": tag, "package": package}
    if package is None:
        queries = ["SELECT DISTINCT revision FROM tally WHERE tag = :tag AND revision > :since AND revision <= :until"]
    else:
        where = "package = :package AND tag = :tag"
        queries = [
            f"SELECT DISTINCT first FROM interval WHERE {where} AND first > :since AND first <= :until",  # noqa: S608
            f"SELECT DISTINCT last FROM interval WHERE {where} AND +last > :since AND +last <= :until",  # noqa: S608
        ]
    found = {number for query in queries for (number,) in index.rows(query, bounds)} - {0}
    if package is not None:
        query = "SELECT baseline FROM document WHERE tag = :tag AND package = :package"
        found -= {number for (number,) in index.rows(query, bounds)}
    return found | {number for (number,) in index.rows(_DIAGNOSTICS.format(what="DISTINCT revision"), bounds)}


_DIAGNOSTICS = (
    "SELECT {what} FROM diagnostic WHERE tag = :tag AND revision > :since AND revision <= :until"
    " AND (:package IS NULL OR package = :package)"
)

_Told = Iterator[tuple[int, int, Mapping[str, Any]]]


def _told(index: Index, tag: int, package: int | None, shown: Range) -> _Told:
    """Yield (revision, package, values of a row)."""
    bounds = {"since": shown.since, "until": shown.until, "tag": tag, "package": package}
    baselines = dict(index.rows("SELECT package, baseline FROM document WHERE tag = ?", (tag,)))
    found = sorted(_parts(index, bounds), key=lambda row: row[:2])
    for (number, one), rows in groupby(found, key=lambda row: row[:2]):
        if baselines.get(one) != number:
            step = step_of(index, Where(tag, one, number), [Part(*row[2:]) for row in rows])
            yield from ((number, one, values) for values in _of_step(step))
    for number, one, message in index.rows(_DIAGNOSTICS.format(what="revision, package, message"), bounds):
        yield number, one, {"change": UNREADABLE, "version": "", "message": message}


def _parts(index: Index, bounds: Mapping[str, object]) -> Iterator[tuple[int, int, int, int, bytes | str, bool]]:
    """Yield what begins and ends in a range of revisions; of one package, by its own index."""
    where = "tag = :tag" if bounds["package"] is None else "package = :package AND tag = :tag"
    hint = "" if bounds["package"] is None else "+"
    yield from index.rows(f"{BEGIN} WHERE {where} AND first > :since AND first <= :until", bounds)
    yield from index.rows(f"{END} WHERE {where} AND {hint}last > :since AND {hint}last <= :until", bounds)


def _of_step(step: DocumentStep) -> Iterator[Mapping[str, Any]]:
    """Yield the values of rows: what happened to how many specs of a version, and in which stacks."""
    counts: defaultdict[_Item, int] = defaultdict(int)
    stacks: defaultdict[_Item, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for item, signature, was_in, count in _items(step):
        counts[item] += count
        for found, more in zip(stacks[item], (signature.stacks, was_in), strict=True):
            found.update(more)
    for item, count in counts.items():
        are, were = stacks[item]
        yield {**item._asdict(), "specs": count, "stacks": tuple(sorted(are)), "left": tuple(sorted(were - are))}


def _items(step: DocumentStep) -> Iterator[tuple[_Item, Signature, tuple[str, ...], int]]:
    """Yield what happened to specs, what they are, or were, the stacks that they moved from, and how many they are."""
    for pair in step.account.matches:
        before, after = _version(pair.before), _version(pair.after)
        item = _Item(pair.kind.value, after, before if before != after else None)
        yield item, pair.after, pair.before.stacks if pair.kind is MatchKind.MOVED else (), pair.count
    for signature, count in step.account.new:
        yield _Item("new", _version(signature), None), signature, (), count
    for signature, count in step.account.gone:
        yield _Item("gone", _version(signature), None), signature, (), count
    for (was, now), count in step.restacked.items():
        yield _Item("restacked", _version(now), None), now, was.stacks, count


def _version(signature: Signature) -> str:
    return ", ".join(signature.versions)


CHURN_SCHEMA = "cachewatch.churn/1"


class ChurnRow(Struct, frozen=True, kw_only=True):
    """One package, stack or cause."""

    name: str
    added: int
    removed: int
    net_added: int  # without what was merely rebuilt
    net_removed: int


class CauseRow(Struct, frozen=True, kw_only=True):
    """What changed in a package, and how many specs were rebuilt because of it."""

    name: str  # the package that differs; "" where none is to blame
    what: str
    before: str
    after: str
    specs: int
    attributed: int  # how many are counted under no other cause, so that these numbers add up


class Churn(Struct, frozen=True, kw_only=True):
    """The answer, most first."""

    schema: str = CHURN_SCHEMA
    indexed: IndexPoint
    tag: str
    by: str
    since: IndexPoint | None  # None: from the beginning
    until: IndexPoint
    revisions: int  # in that range
    rows: tuple[ChurnRow | CauseRow, ...]
    others: int  # so many more were left out
    # By cause, of the revisions that changed documents of the tag: how many have a dependency graph, and how many do not.
    recorded: int | None = None
    not_recorded: int | None = None


QUERIES = {
    # Each package by its own range of the key, so that a short range of revisions costs little.
    "package": """
        SELECT package.name, sum(added), sum(removed), sum(rebuilt)
        FROM package CROSS JOIN step ON step.tag = :tag AND step.package = package.id
        WHERE revision > :since AND revision <= :until GROUP BY package.id""",
    "stack": """
        SELECT stack.name, sum(added), sum(removed), sum(rebuilt)
        FROM (
            SELECT stacks, sum(added) AS added, sum(removed) AS removed, sum(rebuilt) AS rebuilt FROM tally
            WHERE tag = :tag AND revision > :since AND revision <= :until GROUP BY stacks
        ) JOIN stack USING (stacks) GROUP BY stack.name""",
    "cause": """
        SELECT package, what, before, after, sum(specs) AS total, sum(attributed) AS counted FROM cause
        WHERE tag = :tag AND revision > :since AND revision <= :until
        GROUP BY package, what, before, after ORDER BY total DESC, counted DESC, package, what, before, after""",
}
RECORDED = (
    "SELECT sum(recorded), sum(NOT recorded) FROM night WHERE tag = :tag AND revision > :since AND revision <= :until"
)


def find_churn(index: Index, tag: str, by: str, since: int, until: int, *, most: int | None = None) -> Churn:
    """Return what came and went after revision `since` up to `until`, at most so many rows.

    What the first revision has did not come in it.
    """
    values = {"tag": index.tag(tag), "since": max(since, 0), "until": until}
    rows = _causes(index, values) if by == "cause" else _counts(index, by, values)
    recorded, not_recorded = next(index.rows(RECORDED, values)) if by == "cause" else (None, None)
    return Churn(
        indexed=index.indexed,
        tag=tag,
        by=by,
        since=index.point(since) if since >= 0 else None,
        until=index.point(until),
        revisions=max(until - max(since, 0), 0),
        rows=tuple(rows[:most]),
        others=len(rows[most:]) if most else 0,
        recorded=(recorded or 0) if by == "cause" else None,
        not_recorded=(not_recorded or 0) if by == "cause" else None,
    )


def _causes(index: Index, values: Mapping[str, int]) -> Sequence[CauseRow]:
    found = index.rows(QUERIES["cause"], values)
    names = ("name", "what", "before", "after", "specs", "attributed")
    return [CauseRow(**dict(zip(names, row, strict=True))) for row in found]


def _counts(index: Index, by: str, values: Mapping[str, int]) -> Sequence[ChurnRow]:
    rows = [
        ChurnRow(name=name, added=added, removed=removed, net_added=added - rebuilt, net_removed=removed - rebuilt)
        for name, added, removed, rebuilt in index.rows(QUERIES[by], values)
        if added or removed
    ]
    return sorted(rows, key=lambda row: (-row.added - row.removed, row.name))
