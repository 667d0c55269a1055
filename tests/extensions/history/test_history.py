"""The past of packages, told from a repository."""

import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, history, record, records

from cachewatch.extensions.site.past import (
    NO_STACK,
    Interval,
    PackageHistory,
    TagHistory,
    intervals_of,
    lags_of,
    totals_of,
    walk,
)
from cachewatch.extensions.site.trails import FileHistories, find_trails
from cachewatch.git.repository import Repository
from cachewatch.git.revisions import resolve

E4S, ML = ["e4s", "root"], ["ml", "root"]


def _trails(folder: Path, since: str | None = None, tag: str = "develop") -> FileHistories:
    repository = Repository(folder)
    return find_trails(
        repository,
        resolve(repository, "HEAD"),
        tag=tag,
        since=resolve(repository, since) if since else None,
        wanted_package=lambda _: True,
    )


def _only(past: TagHistory) -> PackageHistory:
    (package,) = past.packages
    return package


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


def test_each_revision_is_told(zlib: Path) -> None:
    """What came, what went and what it was, revision by revision."""
    past = walk(_trails(zlib))
    first, second, third = _only(past).steps

    assert len(past.revisions) == 4
    assert (first.revision, first.specs, first.came) == (0, 2, (("e4s", "1.0"), ("ml", "1.0")))
    assert (second.revision, second.counts) == (1, {"upgraded": 1})
    assert (second.came, second.went) == ((("e4s", "1.1"),), (("e4s", "1.0"),))
    assert third.revision == 3
    assert _only(past).present.versions == {"1.1"}


def test_stays_begin_and_end(zlib: Path) -> None:
    """A version stays in a stack until something replaces it."""
    stays = intervals_of(_only(walk(_trails(zlib))))

    assert stays == [
        Interval("e4s", "1.0", 0, 1, is_dated=False),
        Interval("ml", "1.0", 0, 3, is_dated=False),
        Interval("e4s", "1.1", 1, None),
        Interval("ml", "1.1", 3, None),
    ]


def test_a_version_may_be_written_in_another_way_while_it_stays(tmp_path: Path, run: Run) -> None:
    """A build of 1-2 that is built again as 1.2 and then goes was one version, in one stay; the site is made."""
    other = records([9], stacks=E4S)
    states = ([record(n, stacks=E4S, versions=[version])] for n, version in ((1, "1-2"), (2, "1.2"), (3, "1_2")))
    folder = history(tmp_path / "r.git", *(catalogue({"zlib": other + found}) for found in (*states, [])))
    made = run("site", tmp_path / "site", "--repo", folder)
    stays = intervals_of(_only(walk(_trails(folder))))

    assert (made.exit_code, made.error.count("Traceback")) == (0, 0)
    assert stays == [Interval("e4s", "1-2", 0, 3, is_dated=False), Interval("e4s", "1.0", 0, None, is_dated=False)]
    assert list(lags_of(walk(_trails(folder)))) == []


def test_a_lag_is_behind_the_first_stack(zlib: Path) -> None:
    """The stack ml had 1.1 two days after e4s; of 1.0 nobody knows when it came."""
    lags = {(lag.version, lag.stack): lag.days for lag in lags_of(walk(_trails(zlib)))}

    assert lags == {("1.1", "e4s"): 0.0, ("1.1", "ml"): 2.0}


def test_a_new_stack_is_not_late(tmp_path: Path) -> None:
    """A stack that takes up a package does not lag behind with the versions that it finds."""
    old, new = record(1, stacks=E4S), record(2, stacks=E4S, versions=["1.1"])
    folder = history(
        tmp_path / "r.git",
        catalogue({"zlib": [old]}),
        catalogue({"zlib": [old, new]}),
        catalogue({"zlib": [old, new, record(3, stacks=ML, versions=["1.1"])]}),
    )

    assert [lag.stack for lag in lags_of(walk(_trails(folder)))] == ["e4s"]


def test_totals_carry_on(tmp_path: Path) -> None:
    """A package that did not change still counts; one that went does not."""
    many = records(range(10, 13), stacks=E4S)
    folder = history(
        tmp_path / "r.git",
        catalogue({"a": many, "b": records(range(2), stacks=ML)}),
        catalogue({"a": many, "b": records(range(2, 4), stacks=ML), "c": records([5], stacks=["root"])}),
        catalogue({"a": many, "c": records([5], stacks=["root"])}),
    )
    totals = totals_of(walk(_trails(folder)))

    assert totals.specs == [5, 6, 4]
    assert totals.packages == [2, 3, 2]
    assert totals.changed == [0, 2, 1]
    assert totals.stacks == {"e4s": [3, 3, 3], "ml": [2, 2, 0]}
    assert totals.unreferenced == [0, 1, 1]
    assert totals.churn == {"rebuilt": [0, 2, 0], "new": [0, 1, 0], "gone": [0, 0, 2]}


def test_the_demo_adds_up(demo_repository: Path) -> None:
    """Changes summed from the beginning are what is there in the end, stack by stack."""
    past = walk(_trails(demo_repository))
    totals = totals_of(past)
    present: Counter[str] = Counter()
    for package in past.packages:
        for copies in package.present.copies:
            present[copies.stack] += copies.count

    assert totals.specs[-1] == sum(package.present.specs for package in past.packages) > 0
    assert {stack: counts[-1] for stack, counts in totals.stacks.items() if counts[-1]} == {
        stack: count for stack, count in present.items() if stack != NO_STACK
    }
    for package in past.packages:
        assert package.steps[0].is_baseline == (package.steps[0].revision == 0)
        for before, step in pairwise(package.steps):
            assert before.specs + step.counts.get("new", 0) - step.counts.get("gone", 0) == step.specs


def test_a_walk_goes_on_from_an_earlier_one(zlib: Path) -> None:
    """It finds what a walk through everything finds."""
    whole = walk(_trails(zlib))

    def point_at(commit: str) -> None:
        subprocess.run(["git", f"--git-dir={zlib}", "update-ref", "refs/heads/main", commit], check=True)

    point_at(whole.revisions[1][0])
    half = walk(_trails(zlib))
    point_at(whole.revisions[3][0])

    assert walk(_trails(zlib), half) == whole
    assert walk(_trails(zlib), whole) == whole


def test_what_comes_back(tmp_path: Path) -> None:
    """A document is put back as it was."""
    one, two = catalogue({"zlib": [record(1)]}), catalogue({"zlib": [record(1), record(2)]})
    package = _only(walk(_trails(history(tmp_path / "r.git", one, two, one, two))))

    assert [step.specs for step in package.steps] == [1, 2, 1, 2]


def test_another_history_is_read_anew(zlib: Path, tmp_path: Path) -> None:
    """After a force-push nothing of the old history is believed."""
    other = history(tmp_path / "other.git", catalogue({"zlib": [record(9)]}), catalogue({"zlib": [record(8)]}))
    known = walk(_trails(zlib))

    assert walk(_trails(other), known) == walk(_trails(other))


def test_since_makes_a_baseline(zlib: Path) -> None:
    """What is before the first revision that was asked for is not told."""
    past = walk(_trails(zlib, since="HEAD~2"))

    assert len(past.revisions) == 3
    assert [step.revision for step in _only(past).steps] == [0, 2]
    assert _only(past).steps[0].specs == 2


def test_several_processes_tell_the_same(demo_repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many processes there are."""
    monkeypatch.setattr("cachewatch.extensions.site.past._WORTH_TWO_PROCESSES", 0)
    monkeypatch.setattr("cachewatch.extensions.site.past._RUN_BYTES", 1)

    assert walk(_trails(demo_repository), jobs=2) == walk(_trails(demo_repository), jobs=1)


def test_a_damaged_version_is_passed_over(tmp_path: Path) -> None:
    """The revision that damaged a document is named, and the next one is compared with what was before."""
    good, path = catalogue({"zlib": [record(1)]}), "_cache/develop/zlib/specs.md"
    later = catalogue({"zlib": [record(1), record(2)]})
    folder = history(tmp_path / "r.git", good, {path: b"---\ncut off"}, later)
    package = _only(walk(_trails(folder)))

    assert [kind for kind, _ in package.diagnostics] == ["unreadable"]
    assert [(step.revision, dict(step.counts)) for step in package.steps] == [(0, {}), (2, {"new": 1})]
    assert walk(_trails(folder), walk(_trails(folder))) == walk(_trails(folder))


def test_what_cannot_be_compared_is_no_news(tmp_path: Path, documents: Path) -> None:
    """The first document that names hashes, after those of 2022, brought nothing: nobody knows when it all came."""
    path = "_cache/develop/aml/specs.md"
    old, new = sorted((documents / "aml").glob("*.md"))
    folder = history(tmp_path / "r.git", {path: old.read_bytes()}, {path: new.read_bytes()})
    past = walk(_trails(folder))
    (step,) = _only(past).steps

    assert [kind for kind, _ in _only(past).diagnostics] == ["not-comparable"]
    assert (step.revision, step.is_baseline, step.counts) == (1, True, {})
    assert step.specs > 0
    assert totals_of(past).churn == {}
    assert not any(stay.is_dated for stay in intervals_of(_only(past)))


def test_a_package_can_go_and_return(tmp_path: Path) -> None:
    """The document of a package vanishes, and comes back as it was."""
    with_it, without = catalogue({"a": [record(1)], "b": [record(2)]}), catalogue({"a": [record(1)]})
    past = walk(_trails(history(tmp_path / "r.git", with_it, without, with_it)))
    package = past.packages[1]

    assert [(step.revision, step.is_gone, step.specs) for step in package.steps] == [
        (0, False, 1),
        (1, True, 0),
        (2, False, 1),
    ]
    assert package.is_there


def test_links_and_doubles_are_named(tmp_path: Path) -> None:
    """A document that is a link is a fault of its revision, and is never followed."""
    folder = history(tmp_path / "r.git", catalogue({"zlib": [record(1)]}))
    stream = (
        b"commit refs/heads/main\ncommitter a <a@b> 1750000000 +0000\ndata 1\nx\nfrom refs/heads/main^0\n"
        b"M 120000 inline _cache/develop/zlib/specs.md\ndata 11\n/etc/passwd\n"
    )
    subprocess.run(["git", f"--git-dir={folder}", "fast-import", "--quiet"], input=stream, check=True)
    trails = _trails(folder)

    assert [diagnostic.path for diagnostic in trails.diagnostics] == ["_cache/develop/zlib/specs.md"]
    assert [len(trail.steps) for trail in trails.trails] == [1]


def _states(folder: Path, *states: tuple[str, ...]) -> FileHistories:
    """Write a revision for each state: lines for fast-import that follow the commit's own."""
    history(folder, catalogue({"zlib": [record(1)], "gcc": [record(9)]}))
    stream = ""
    for number, lines in enumerate(states):
        head = ["commit refs/heads/main", f"committer a <a@b> {1750000000 + number} +0000", "data 1", "x"]
        parent = [] if number else ["from refs/heads/main^0"]
        stream += "\n".join([*head, *parent, *lines, ""])
    subprocess.run(["git", f"--git-dir={folder}", "fast-import", "--quiet"], input=stream.encode(), check=True)
    return _trails(folder)


_LINK = "data 11\n/etc/passwd"
_DOCUMENT = catalogue({"zlib": [record(1), record(2)]})["_cache/develop/zlib/specs.md"].decode()
_FILE = f"M 100644 inline _cache/develop/zlib/specs.md\ndata {len(_DOCUMENT)}\n{_DOCUMENT}"


@pytest.mark.parametrize("what", ["the package", "the tag", "the document"])
def test_a_link_that_becomes_a_folder_again_loses_nothing(tmp_path: Path, what: str) -> None:
    """Git says of it that one went and another came. While it is a link, what was there before is kept."""
    path = {"the package": "/zlib", "the tag": "", "the document": "/zlib/specs.md"}[what]
    place = f"_cache/develop{path}"
    trails = _states(
        tmp_path / "r.git",
        (f"D {place}", f"M 120000 inline {place}", _LINK),
        (f"M 120000 inline {place}", _LINK.replace("passwd", "shadow")),
        (f"D {place}", _FILE),
    )
    zlib = next(trail for trail in trails.trails if trail.package == "zlib")

    assert [number for number, _ in zlib.steps] == [0, 3]
    assert all(blob is not None for _, blob in zlib.steps)
    past = walk(trails)
    counts = {package.package: [(s.revision, dict(s.counts)) for s in package.steps] for package in past.packages}
    assert counts["zlib"] == [(0, {}), (3, {"new": 1})]
    if what != "the tag":
        assert [diagnostic.path for diagnostic in trails.diagnostics] == ["_cache/develop/zlib/specs.md"]
        assert counts["gcc"] == [(0, {})]
