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

    name: str  # the package that differs; "" where none is to blame
    what: str
    before: str
    after: str
    specs: int
    attributed: int  # how many are counted under no other cause, so that these numbers add up


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
