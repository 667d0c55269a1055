"""The past of packages, told from a repository."""

from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, history, record, records
from sites import read_site

from cachewatch.extensions.site.package_histories import PackageHistory, TagHistory

E4S, ML = ["e4s", "root"], ["ml", "root"]


def _past(folder: Path, since: str | None = None) -> TagHistory:
    return read_site(folder, since=since).past


def _only(past: TagHistory) -> PackageHistory:
    (package,) = past.packages
    return package


def _stays(package: PackageHistory) -> list[tuple[str, str, int, int | None, bool]]:
    return [(stay.stack, stay.version, stay.first, stay.last, stay.is_dated) for stay in package.stays]


@pytest.fixture
def zlib(tmp_path: Path) -> Path:
    """Five days of zlib: 1.0 in two stacks, then 1.1 in one, a day of nothing, then in the other."""
    states = [
        catalogue({"zlib": [record(1, stacks=E4S), record(2, stacks=ML)]}),
        catalogue({"zlib": [record(3, stacks=E4S, versions=["1.1"]), record(2, stacks=ML)]}),
        {},
        catalogue({"zlib": [record(3, stacks=E4S, versions=["1.1"]), record(4, stacks=ML, versions=["1.1"])]}),
    ]
    states[2] = states[1] | {"README": b"nothing of ours"}
    return history(tmp_path / "zlib.git", *states)


def test_a_version_may_be_written_in_another_way_while_it_stays(tmp_path: Path, run: Run) -> None:
    """A build of 1-2 that is built again as 1.2 and then goes was one version, in one stay; the site is made."""
    other = records([9], stacks=E4S)
    states = ([record(n, stacks=E4S, versions=[version])] for n, version in ((1, "1-2"), (2, "1.2"), (3, "1_2")))
    folder = history(tmp_path / "r.git", *(catalogue({"zlib": other + found}) for found in (*states, [])))
    made = run("site", tmp_path / "site", "--repo", folder)

    assert (made.exit_code, made.error.count("Traceback")) == (0, 0)
    assert _stays(_only(_past(folder))) == [("e4s", "1.0", 0, None, False), ("e4s", "1.2", 0, 3, False)]


@pytest.mark.parametrize("shown", [2, 4])
def test_a_site_goes_on_from_an_earlier_one(zlib: Path, shown: int) -> None:
    whole = read_site(zlib)
    known = read_site(zlib, revision=whole.past.revisions[shown - 1].revision)

    assert len(known.past.revisions) == shown
    assert read_site(zlib, known) == whole


def test_another_history_is_read_anew(zlib: Path, tmp_path: Path) -> None:
    other = history(tmp_path / "other.git", catalogue({"zlib": [record(9)]}), catalogue({"zlib": [record(8)]}))

    assert read_site(other, read_site(zlib)) == read_site(other)


def test_since_makes_a_baseline(zlib: Path) -> None:
    """What is before the first revision is not told, but for when a version came that was there already."""
    past = _past(zlib, since="HEAD~2")
    package = _only(past)

    assert len(past.revisions) == 3
    assert [(step.revision, step.specs) for step in package.steps] == [(0, 2), (2, 2)]
    assert _stays(package) == [("e4s", "1.1", 0, None, True), ("ml", "1.0", 0, 2, False), ("ml", "1.1", 2, None, True)]
    assert package.stays[0].since == _past(zlib).revisions[1]
    assert package.stays[2].lag == 2.0


def test_several_processes_tell_the_same(tmp_path: Path) -> None:
    states = [catalogue({"a": [record(n)], "b": records([n // 7, 1000])}) for n in range(70)]
    folder = history(tmp_path / "r.git", *states)

    assert read_site(folder, jobs=2) == read_site(folder, jobs=1)
