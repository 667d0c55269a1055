"""The changes that each revision made, as statements, and the numbers of specs added and removed in a range.

These numbers are by package, by stack, or by the cause of rebuilds.
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
    """A document that could not be read, and the reason."""

    package: str
    message: str


class LogRevision(Struct, frozen=True, kw_only=True):
    """The changes of one revision."""

    revision: str
    time: str | None
    facts: tuple[str, ...]  # the statements in words, the most important first
    statements: tuple[dict[str, Any], ...]
    unreadable: tuple[UnreadVersion, ...]


class RevisionLog(Struct, frozen=True, kw_only=True):
    """The answer to `cachewatch log`, newest revision first."""

    schema: str = LOG_SCHEMA
    indexed: IndexPoint
    tag: str
    revisions: tuple[LogRevision, ...]
    earlier: int  # number of earlier revisions with changes, which were left out


class Range(NamedTuple):
    """The revisions after number `since` up to `until`, of which the newest `most` are listed."""

    since: int
    until: int
    most: int | None


def find_log(index: Index, tag: str, package: str | None, asked: Range) -> RevisionLog:
    """Return the changes to `tag`, or to its package `package`, in the newest revisions of the range `asked`."""
    package_id = None if package is None else index.known_id("package", package)
    values = {"since": asked.since, "until": asked.until, "tag": index.known_id("tag", tag), "package": package_id}
    numbers = sorted(_revisions(index, values), reverse=True)
    return RevisionLog(
        indexed=index.indexed,
        tag=tag,
        revisions=tuple(_logged(index, tag, number, package) for number in numbers[: asked.most]),
        earlier=len(numbers[asked.most :]) if asked.most else 0,
    )


def _revisions(index: Index, values: Mapping[str, int | None]) -> set[int]:
    """Return the numbers of the revisions in which specs changed or a document could not be read."""
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
    """Return the changes that revision `number` made to the selected part of `tag`, in words and as values for JSON."""
    if not number:
        return (), []
    _, report = TagStates(index, tag, number - 1, lambda _: True).tell_next(selection)
    clauses = clauses_of_statements(report.statements)
    return tuple(clause.line for clause in clauses), [statement_values(one) for one in report.statements]


def _logged(index: Index, tag: str, number: int, package: str | None) -> LogRevision:
    facts, statements = facts_of(index, tag, number, Selection(packages=Globs([package] if package else [])))
    query = (
        "SELECT name, message FROM diagnostic JOIN package ON id = package"
        " WHERE tag = ? AND revision = ? AND name = coalesce(?, name) ORDER BY name"
    )
    point, unread = index.point(number), index.rows(query, (index.known_id("tag", tag), number, package))
    return LogRevision(
        revision=point.revision,
        time=point.time,
        facts=facts,
        statements=tuple(statements),
        unreadable=tuple(UnreadVersion(*row) for row in unread),
    )


CHURN_SCHEMA = "cachewatch.churn/1"


class ChurnRow(Struct, frozen=True, kw_only=True):
    """The added and removed specs of one package or stack."""

    name: str
    added: int
    removed: int
    net_added: int  # without what was merely rebuilt
    net_removed: int


class CauseRow(Struct, frozen=True, kw_only=True):
    """One kind of change to a package, and how many specs were rebuilt because of it."""

    name: str  # the package that differs; "" where none is to blame
    what: str
    before: str
    after: str
    specs: int
    attributed: int  # how many are counted under no other cause, so that these numbers add up


class Churn(Struct, frozen=True, kw_only=True):
    """The answer to `cachewatch history churn`, the row with the most specs first."""

    schema: str = CHURN_SCHEMA
    indexed: IndexPoint
    tag: str
    by: str
    since: IndexPoint | None  # None: from the beginning
    until: IndexPoint
    revisions: int  # in that range
    rows: tuple[ChurnRow | CauseRow, ...]
    others: int  # number of rows that were left out
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
    """Return how many specs were added and removed after revision `since` up to `until`, in at most `most` rows.

    `by` is package, stack or cause. The content of the first revision of all does not count as added.
    """
    values = {"tag": index.known_id("tag", tag), "since": max(since, 0), "until": until}
    rows: Sequence[ChurnRow | CauseRow]
    if by == "cause":
        names = ("name", "what", "before", "after", "specs", "attributed")
        rows = [CauseRow(**dict(zip(names, row, strict=True))) for row in index.rows(QUERIES["cause"], values)]
        recorded, not_recorded = (count or 0 for count in next(index.rows(RECORDED, values)))
    else:
        counted = [
            ChurnRow(name=name, added=added, removed=removed, net_added=added - rebuilt, net_removed=removed - rebuilt)
            for name, added, removed, rebuilt in index.rows(QUERIES[by], values)
            if added or removed
        ]
        counted.sort(key=lambda row: (-row.added - row.removed, row.name))
        rows, recorded, not_recorded = counted, None, None
    return Churn(
        indexed=index.indexed,
        tag=tag,
        by=by,
        since=index.point(since) if since >= 0 else None,
        until=index.point(until),
        revisions=max(until - max(since, 0), 0),
        rows=tuple(rows[:most]),
        others=len(rows[most:]) if most else 0,
        recorded=recorded,
        not_recorded=not_recorded,
    )
