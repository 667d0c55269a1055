"""The log: what each revision did, by package, version and kind of change, as a comparison with the one before says it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from msgspec import Struct

from cachewatch.core.model import Signature
from cachewatch.core.versions import version_key
from cachewatch.history_db.document_steps import DocumentStep, Part, Where, step_of
from cachewatch.history_db.reading import Index, Point

SCHEMA = "cachewatch.log/1"
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
    message: str | None = None  # why the document was not compared


class Log(Struct, frozen=True, kw_only=True):
    """The answer, newest revision first."""

    schema: str = SCHEMA
    indexed: Point
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


def find_log(index: Index, tag: str, package: str | None, asked: Range) -> Log:
    """Return what the newest revisions of `asked` did to `tag`, or to one package of it."""
    tag_id = index.tag(tag)
    package_id = None if package is None else index.package(package)
    numbers = sorted(_revisions(index, tag_id, package_id, asked), reverse=True)
    shown = numbers[: asked.most]
    if not shown:
        return Log(indexed=index.indexed, tag=tag, rows=(), earlier=len(numbers))
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
    return Log(indexed=index.indexed, tag=tag, rows=tuple(rows), earlier=len(numbers) - len(shown))


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
    stacks: defaultdict[_Item, set[str]] = defaultdict(set)
    for item, signature, count in _items(step):
        counts[item] += count
        stacks[item].update(signature.stacks)
    for item, count in counts.items():
        yield {**item._asdict(), "specs": count, "stacks": tuple(sorted(stacks[item]))}


def _items(step: DocumentStep) -> Iterator[tuple[_Item, Signature, int]]:
    for pair in step.account.matches:
        before, after = _version(pair.before), _version(pair.after)
        yield _Item(pair.kind.value, after, before if before != after else None), pair.after, pair.count
    for signature, count in step.account.new:
        yield _Item("new", _version(signature), None), signature, count
    for signature, count in step.account.gone:
        yield _Item("gone", _version(signature), None), signature, count
    for (_, now), count in step.restacked.items():
        yield _Item("restacked", _version(now), None), now, count


def _version(signature: Signature) -> str:
    return ", ".join(signature.versions)
