"""The Parquet files say what the index says, and the queries of the documentation run on them."""

import importlib.util
import re
import subprocess
import sys
from collections import Counter
from contextlib import closing
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Run
from helpers import catalogue, history, records
from history_questions import Everything
from indexes import Catalogue, build, write

from cachewatch.history_db.reading import Index

QUERIES = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/history.md").read_text(), re.DOTALL)

# By the three states of one package below, of which two specs lasted a day, and three were rebuilt.
ANSWERS = [
    "('e4s', 2, 1.0)",
    "('zlib', 3)",
    "(datetime.datetime(2025, 6, 2, 0, 0), 7, 3)",
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a repository with everything that happens to a catalogue, and its export."""
    pytest.importorskip("pyarrow")
    from cachewatch.history_db.exporting import export  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("export")
    catalogue = Catalogue(3)
    repository = write(folder / "c.git", [catalogue.night() for _ in range(30)], seed=3)
    build(repository, folder / "h.db")
    with closing(Index(folder / "h.db")) as index:
        export(index, folder / "parquet")
    return repository, folder / "parquet"


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file."""
    parquet = pytest.importorskip("pyarrow.parquet")
    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return rows


def test_the_files_say_what_all_documents_say(folders: tuple[Path, Path]) -> None:
    """Which specs were there in each revision, as what they were built, and which came and went."""
    repository, folder = folders
    everything = Everything(repository)
    intervals = {row["interval"]: row for row in read(folder / "intervals.parquet")}
    specs = read(folder / "specs.parquet")
    assert Counter(row["interval"] for row in specs) == {key: row["specs"] for key, row in intervals.items()}
    for number in range(len(everything.timeline)):
        found = {
            (row["tag"], row["package"], row["hash"], one["version"], one["target"], tuple(one["stacks"]))
            for row in specs
            for one in [intervals[row["interval"]]]
            if one["first"] <= number and (one["last"] is None or one["last"] > number)
        }
        assert found == {
            (tag, package, spec_hash, ", ".join(s.versions), s.target, s.stacks)
            for tag in everything.tags()
            for package, spec_hash, s in everything.specs(number, tag)
        }
    steps = {(row["tag"], row["package"], row["revision"]): row["added"] for row in read(folder / "steps.parquet")}
    assert steps == {(tag, package, number): added for tag, package, number, added, *_ in everything.steps}
    revisions = read(folder / "revisions.parquet")
    assert [row["commit"] for row in revisions] == everything.commits
    assert [int(row["time"].replace(tzinfo=UTC).timestamp()) for row in revisions] == everything.times


@pytest.mark.parametrize(("query", "found"), list(zip(QUERIES, ANSWERS, strict=True)))
def test_the_queries_of_the_documentation(tmp_path: Path, query: str, found: str) -> None:
    """Each runs, and finds what there is."""
    pytest.importorskip("pyarrow")
    if importlib.util.find_spec("duckdb") is None:
        pytest.skip("duckdb is not installed")
    # In a process of its own: at the end of one, DuckDB says on standard error what it did not free.
    from cachewatch.history_db.exporting import export  # noqa: PLC0415

    states = [{"zlib": records([1, 2])}, {"zlib": records([1, 3, 4])}, {"zlib": records([1, 5, 6])}]
    folder = history(tmp_path / "c.git", *map(catalogue, states))
    build(folder, tmp_path / "h.db")
    with closing(Index(tmp_path / "h.db")) as index:
        export(index, tmp_path)
    code = "import sys, duckdb\nprint(*duckdb.sql(sys.argv[1]).fetchall())"
    command = [sys.executable, "-c", code, query]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == found


def test_there_are_three_queries() -> None:
    """None is lost to a change of the form of the page."""
    assert len(QUERIES) == 3


def test_the_command(run: Run, demo_repository: Path, tmp_path: Path) -> None:
    """It names the files with their rows, and replaces those of an earlier export."""
    pytest.importorskip("pyarrow")
    index = tmp_path / "h.db"
    build(demo_repository, index)
    assert run("history", "export", tmp_path / "out", "--db", index).exit_code == 0
    told = run("history", "export", tmp_path / "out", "--db", index)
    assert told.exit_code == 0
    assert [line.rpartition("/")[2] for line in told.output.splitlines()[:-1]] == [
        "revisions.parquet: 2 rows",
        "intervals.parquet: 129 rows",
        "specs.parquet: 1,196 rows",
        "steps.parquet: 10 rows",
        "causes.parquet: 0 rows",
    ]
    assert told.output.splitlines()[-1] == "indexed up to f9449d145a, 2025-06-01 04:00 UTC"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        f"{name}.parquet" for name in ("causes", "intervals", "revisions", "specs", "steps")
    ]


def test_without_pyarrow(demo_repository: Path, tmp_path: Path) -> None:
    """The sentence names what to install, and nothing is written."""
    index = tmp_path / "h.db"
    build(demo_repository, index)
    code = "import sys\nsys.modules['pyarrow'] = None\nfrom cachewatch.cli import main\nmain()"
    command = [sys.executable, "-c", code, "history", "export", str(tmp_path / "out"), "--db", str(index)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "install cachewatch[export]" in done.stderr) == (2, True)
    assert not (tmp_path / "out").exists()
