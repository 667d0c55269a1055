"""What each revision did, in the statements of every report, and how many specs came and went in a range.

The numbers of a range are by package, by stack, or by the cause of rebuilds.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from cachewatch.core.selection import Globs, Selection
from cachewatch.extensions.history.read import Index, IndexPoint
from cachewatch.extensions.history.states import TagStates
from cachewatch.report.data import statement_values
from cachewatch.report.headline import clauses_of_statements

LOG_SCHEMA = "cachewatch.log/2"


class UnreadVersion(Struct, frozen=True):
    """A document that could not be compared, and why."""

    package: str
    message: str


class LogRevision(Struct, frozen=True, kw_only=True):
    """What one revision did."""

    revision: str
    time: str | None
    facts: tuple[str, ...]  # the statements in clauses, the most important first
    statements: tuple[dict[str, Any], ...]
    unreadable: tuple[UnreadVersion, ...]


class RevisionLog(Struct, frozen=True, kw_only=True):
    """The answer, newest revision first."""

    schema: str = LOG_SCHEMA
    indexed: IndexPoint
    tag: str
    revisions: tuple[LogRevision, ...]
    earlier: int  # so many revisions with changes, before these, were left out


class Range(NamedTuple):
    """Revisions after `since` up to `until`, and how many of them to list at most."""

    since: int
    until: int
    most: int | None


def find_log(index: Index, tag: str, package: str | None, asked: Range) -> RevisionLog:
    """Return what the newest revisions of `asked` did to `tag`, or to one package of it."""
    package_id = None if package is None else index.package(package)
    values = {"since": asked.since, "until": asked.until, "tag": index.tag(tag), "package": package_id}
    numbers = sorted(_revisions(index, values), reverse=True)
    return RevisionLog(
        indexed=index.indexed,
        tag=tag,
        revisions=tuple(_told(index, tag, number, package) for number in numbers[: asked.most]),
        earlier=len(numbers[asked.most :]) if asked.most else 0,
    )


def _revisions(index: Index, values: Mapping[str, int | None]) -> set[int]:
    """Return the revisions in which anything happened, or a document could not be read."""
    if values["package"] is None:
        queries = ["SELECT DISTINCT revision FROM tally WHERE tag = :tag AND revision > :since AND revision <= :until"]
    else:
        where = "package = :package AND tag = :tag"
        queries = [
            f"SELECT DISTINCT first FROM interval WHERE {where} AND first > :since AND first <= :until",  # noqa: S608
            f"SELECT DISTINCT last FROM interval WHERE {where} AND +last > :since AND +last <= :until",  # noqa: S608
        ]
    found = {number for query in queries for (number,) in index.rows(query, values)} - {0}
    if values["package"] is not None:
        query = "SELECT baseline FROM document WHERE tag = :tag AND package = :package"
        found -= {number for (number,) in index.rows(query, values)}
    unread = (
        "SELECT DISTINCT revision FROM diagnostic WHERE tag = :tag AND revision > :since AND revision <= :until"
        " AND (:package IS NULL OR package = :package)"
    )
    return found | {number for (number,) in index.rows(unread, values)}


def facts_of(index: Index, tag: str, number: int, selection: Selection) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """Return what a revision did to what is selected of a tag, in clauses and as values for JSON."""
    if not number:
        return (), []
    _, report = TagStates(index, tag, number - 1, lambda _: True).tell_next(selection)
    clauses = clauses_of_statements(report.statements)
    return tuple(clause.line for clause in clauses), [statement_values(one) for one in report.statements]


def _told(index: Index, tag: str, number: int, package: str | None) -> LogRevision:
    facts, statements = facts_of(index, tag, number, Selection(packages=Globs([package] if package else [])))
    query = (
        "SELECT name, message FROM diagnostic JOIN package ON id = package"
        " WHERE tag = ? AND revision = ? AND name = coalesce(?, name) ORDER BY name"
    )
    point, unread = index.point(number), index.rows(query, (index.tag(tag), number, package))
    return LogRevision(
        revision=point.revision,
        time=point.time,
        facts=facts,
        statements=tuple(statements),
        unreadable=tuple(UnreadVersion(*row) for row in unread),
    )


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
