"""A site that begins later says when what was there came, where the history index knows it."""

import re
import subprocess
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, history, record
from indexes import build

from cachewatch.extensions.history.schema_and_location import VARIABLE, index_path

E4S, ML = ["e4s", "root"], ["ml", "root"]
Row = tuple[str, ...]


@pytest.fixture
def zlib(tmp_path: Path) -> Path:
    """1.0 from the beginning; 1.1 comes to e4s on day 1 and to ml on day 3; it goes from e4s on day 2 and is back on day 4."""
    old = [record(1, stacks=E4S), record(2, stacks=ML)]
    new, there = record(3, stacks=E4S, versions=["1.1"]), record(4, stacks=ML, versions=["1.1"])
    again = record(5, stacks=E4S, versions=["1.1"])
    third = record(6, stacks=E4S, versions=["1.2"])
    states = [old, [*old, new], old, [*old, there], [*old, there, again], [*old, there, again, third]]
    return history(tmp_path / "zlib.git", *(catalogue({"zlib": state}) for state in states))


def _arrivals(run: Run, repository: Path, folder: Path, *arguments: str) -> dict[Row, Row]:
    """Return (added, after the first stack, removed) by version and stack, the last stay of each."""
    done = run("site", folder, "--repo", repository, "--no-progress", *arguments)
    assert done.exit_code == 0, done.error
    page = (folder / "package" / "zlib.html").read_text()
    table = page[page.index('class="list arrivals"') :]
    rows: dict[Row, Row] = {}
    for line in table[: table.index("</table>")].splitlines():
        cells = [re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line)]
        if len(cells) == 5 and cells[0] != "version":
            rows.setdefault((cells[0], cells[1]), tuple(cells[2:]))
    assert rows
    return rows


def test_a_site_that_begins_later_says_what_the_whole_one_says(run: Run, zlib: Path, tmp_path: Path) -> None:
    whole = _arrivals(run, zlib, tmp_path / "whole")

    assert whole["1.1", "ml"] == ("2025-06-04", "2 days later", "")
    assert _arrivals(run, zlib, tmp_path / "later", "--since", "HEAD~1") == whole


def test_an_index_that_cannot_be_used_is_said(
    run: Run, zlib: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to do about it; the file is left as it is."""
    index = tmp_path / "other.db"
    build(history(tmp_path / "other.git", catalogue({"zlib": [record(9)]})), index)
    left = index.read_bytes()
    monkeypatch.setenv(VARIABLE, str(index))
    done = run("site", tmp_path / "after", "--repo", zlib, "--no-progress")

    assert (done.exit_code, index.read_bytes() == left) == (2, True)
    assert "other.db: is the index of another repository" in done.error


def test_another_branch_and_an_index_that_is_behind(run: Run, zlib: Path, tmp_path: Path) -> None:
    """The index of a repository follows HEAD; of another branch, a temporary one is built."""
    whole = _arrivals(run, zlib, tmp_path / "whole")
    subprocess.run(["git", f"--git-dir={zlib}", "branch", "other", "main"], check=True)
    subprocess.run(["git", f"--git-dir={zlib}", "update-ref", "refs/heads/main", "main~3"], check=True)
    assert run("history", "build", "--repo", zlib).exit_code == 0
    indexed = index_path(None, zlib).read_bytes()

    assert _arrivals(run, zlib, tmp_path / "other", "--rev", "other") == whole
    assert index_path(None, zlib).read_bytes() == indexed
    subprocess.run(["git", f"--git-dir={zlib}", "update-ref", "refs/heads/main", "other"], check=True)
    assert _arrivals(run, zlib, tmp_path / "main") == whole
    assert index_path(None, zlib).read_bytes() != indexed
