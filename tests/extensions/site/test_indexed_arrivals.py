"""A site that begins later says when what was there came, where the history index knows it."""

import re
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, history, record
from indexes import build

from cachewatch.extensions.history.schema import NAME

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
    without = _arrivals(run, zlib, tmp_path / "without", "--since", "HEAD~1")
    build(zlib, zlib / NAME)
    found = _arrivals(run, zlib, tmp_path / "with", "--since", "HEAD~1")

    assert without["1.1", "ml"] == ("by 2025-06-05", "", "")
    assert whole["1.1", "ml"] == ("2025-06-04", "2 days later", "")
    assert found == whole


@pytest.mark.parametrize("trouble", ["behind", "damaged", "whole site"])
def test_what_the_index_does_not_know_is_left_as_it_is(run: Run, zlib: Path, tmp_path: Path, trouble: str) -> None:
    since = () if trouble == "whole site" else ("--since", "HEAD~1")
    before = _arrivals(run, zlib, tmp_path / "before", *since)
    if trouble == "behind":
        other = history(tmp_path / "other.git", catalogue({"zlib": [record(9)]}))
        build(other, zlib / NAME)
    else:
        build(zlib, zlib / NAME)
    if trouble == "damaged":
        whole = (zlib / NAME).read_bytes()
        (zlib / NAME).write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))

    assert _arrivals(run, zlib, tmp_path / "after", *since) == before
