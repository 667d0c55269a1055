"""How many specs came and went in a range of revisions: by package, by stack, or by the cause of rebuilds."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from cachewatch.history_db.reading import Index, Point

SCHEMA = "cachewatch.churn/1"


class ChurnRow(Struct, frozen=True, kw_only=True):
    """One package, stack or cause."""

    name: str
    added: int
    removed: int
    net_added: int  # without what was merely rebuilt
    net_removed: int


class CauseRow(Struct, frozen=True, kw_only=True):
    """What changed in a package, and how many specs were rebuilt because of it."""

    name: str  # the package
    what: str
    before: str
    after: str
    specs: int


class Churn(Struct, frozen=True, kw_only=True):
    """The answer, most first."""

    schema: str = SCHEMA
    indexed: Point
    tag: str
    by: str
    since: Point | None  # None: from the beginning
    until: Point
    revisions: int  # in that range
    rows: tuple[ChurnRow | CauseRow, ...]
    others: int  # so many more were left out


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
        SELECT package.name, what, before, after, sum(specs) AS total
        FROM cause JOIN package ON package.id = cause.package
        WHERE cause.tag = :tag AND revision > :since AND revision <= :until
        GROUP BY package.id, what, before, after ORDER BY total DESC, package.name, what, before, after""",
}


def find_churn(index: Index, tag: str, by: str, since: int, until: int, *, most: int | None = None) -> Churn:
    """Return what came and went after revision `since` up to `until`, at most so many rows.

    What the first revision has did not come in it.
    """
    values = {"tag": index.tag(tag), "since": max(since, 0), "until": until}
    rows = _causes(index, values) if by == "cause" else _counts(index, by, values)
    return Churn(
        indexed=index.indexed,
        tag=tag,
        by=by,
        since=index.point(since) if since >= 0 else None,
        until=index.point(until),
        revisions=max(until - max(since, 0), 0),
        rows=tuple(rows[:most]),
        others=len(rows[most:]) if most else 0,
    )


def _causes(index: Index, values: Mapping[str, int]) -> Sequence[CauseRow]:
    found = index.rows(QUERIES["cause"], values)
    return [CauseRow(name=name, what=what, before=b, after=a, specs=count) for name, what, b, a, count in found]


def _counts(index: Index, by: str, values: Mapping[str, int]) -> Sequence[ChurnRow]:
    rows = [
        ChurnRow(name=name, added=added, removed=removed, net_added=added - rebuilt, net_removed=removed - rebuilt)
        for name, added, removed, rebuilt in index.rows(QUERIES[by], values)
        if added or removed
    ]
    return sorted(rows, key=lambda row: (-row.added - row.removed, row.name))
