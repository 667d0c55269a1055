"""The questions that are answered at once look things up: no table is read from one end to the other."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cachewatch.history_db import best_snapshot, blame, churn, log, stacks_at, when
from cachewatch.history_db.schema import add_indexes, open_for_writing

_PACKAGE = "package = 1 AND tag = 1"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """An empty index, of which SQLite knows nothing but the tables."""
    with closing(open_for_writing(tmp_path / "h.db")) as opened:
        add_indexes(opened)
        yield opened


def test_when_does_not_sort(connection: sqlite3.Connection) -> None:
    """The largest package has ten thousand intervals: the index has them in the order of the groups."""
    names = ("package", "tag", "newest", "open")
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {when.QUERY}", dict.fromkeys(names, 1))]
    assert not [step for step in plan if "TEMP B-TREE" in step]


@pytest.mark.parametrize(
    ("query", "lookups"),
    [
        (when.QUERY, ["SEARCH i USING COVERING INDEX interval_by_package (package=? AND tag=?)"]),
        (
            blame.QUERY,
            [
                "SEARCH spec USING PRIMARY KEY (prefix>? AND prefix<?)",
                "SEARCH spec USING PRIMARY KEY (prefix=?)",
                "SEARCH i USING INTEGER PRIMARY KEY (rowid=?)",
            ],
        ),
        (best_snapshot.QUERY, ["SEARCH s USING PRIMARY KEY (prefix=?)"]),
        (
            churn.QUERIES["package"],
            ["SEARCH step USING PRIMARY KEY (tag=? AND package=? AND revision>? AND revision<?)"],
        ),
        (churn.QUERIES["stack"], ["SEARCH tally USING PRIMARY KEY (tag=?)"]),
        (
            stacks_at.BASELINES,
            [
                "SEARCH i USING INDEX interval_by_first (first=?)",
                "SEARCH d USING PRIMARY KEY (tag=? AND package=?)",
            ],
        ),
        (f"{log.BEGIN} WHERE tag = 1 AND first > 1 AND first <= 2", ["INDEX interval_by_first (first>? AND first<?)"]),
        (f"{log.END} WHERE tag = 1 AND last > 1 AND last <= 2", ["INDEX interval_by_last (last>? AND last<?)"]),
        (f"{log.END} WHERE {_PACKAGE} AND +last > 1", ["INDEX interval_by_package (package=? AND tag=?)"]),
    ],
)
def test_no_scan(connection: sqlite3.Connection, query: str, lookups: list[str]) -> None:
    """Each large table is searched by a key or an index."""
    names = ("package", "tag", "newest", "open", "low", "high", "unusual", "since", "until")
    values = dict.fromkeys(names, 1) if ":" in query else (1,) * query.count("?")
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values)]
    for lookup in lookups:
        assert any(lookup in step for step in plan), plan
    large = ("i", "s", "spec", "interval", "step", "tally")
    assert not [step for step in plan if step.split()[0] == "SCAN" and step.split()[1] in large]
