"""The commands that ask the history index: their forms, their mistakes, and where they find it."""

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from helpers import catalogue, history, lock, record
from indexes import build
from upstream import git

HASH = "22xqlomma3rncrgywukvxs53oiorwmgd"
QUESTIONS = ["history when py-ml-dtypes", "history blame 22xqlom", "log", "history churn --by stack"]
END = "indexed up to f9449d145a, 2025-06-01 04:00 UTC"


@pytest.fixture(scope="module")
def indexed(demo_repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo, with the index of its history."""
    folder = shutil.copytree(demo_repository, tmp_path_factory.mktemp("indexed") / "demo.git")
    build(folder, folder / "cachewatch-history.db")
    return folder


@pytest.fixture
def asked(indexed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a copy of it that is a clone of Spack's catalogue."""
    monkeypatch.delenv("CACHEWATCH_HISTORY", raising=False)
    folder = shutil.copytree(indexed, tmp_path / "demo.git")
    git(folder, "remote", "add", "origin", "https://github.com/spack/cache.spack.io.git")
    monkeypatch.chdir(folder)
    return folder


def lockfile(folder: Path, *hashes: str) -> Path:
    """Write an environment of these specs."""
    return lock(folder / "spack.lock", *(("py-keras", "3.9.2", each) for each in hashes))


@pytest.mark.parametrize("words", QUESTIONS)
@pytest.mark.usefixtures("asked")
def test_every_answer_ends_with_how_far_the_index_goes(run: Run, words: str) -> None:
    """As text, Markdown, CSV and JSON."""
    assert run(*words.split()).output.splitlines()[-1] == END
    assert run(*words.split(), "--format", "markdown").output.splitlines()[-1] == END
    told = run(*words.split(), "--format", "csv")
    assert told.error == f"cachewatch: {END}\n"
    assert len({len(row) for row in csv.reader(io.StringIO(told.output))}) == 1
    found = json.loads(run(*words.split(), "--format", "json").output)
    assert found["schema"].startswith("cachewatch.")
    assert found["indexed"] == {"revision": "f9449d145ae167c9bddf1f61f631925e93d98d69", "time": "2025-06-01T04:00:00Z"}


def test_without_an_index(run: Run, demo_repository: Path, tmp_path: Path) -> None:
    """The sentence names the command that makes one."""
    told = run("log", "--repo", demo_repository, "--db", tmp_path / "none.db")
    assert (told.exit_code, "run `cachewatch history build` first" in told.error) == (2, True)


def test_when(run: Run, asked: Path) -> None:
    """JSON has the whole answer; what was there from the beginning is marked in the text."""
    rows = json.loads(run("history", "when", "py-ml-dtypes", "--stack", "e4s", "--format", "json").output)["rows"]
    first = {"revision": "76696ec96c715c62505c031c2bb3bc62312be9d3", "time": "2025-05-25T04:00:00Z"}
    there = {"version": "0.3.1", "stack": "e4s", "target": "x86_64_v3", "first": None, "baseline": True}
    assert rows[0] | {"first": None} == there | {"last": None, "lag_days": None, "lag_is_minimum": False}
    assert rows[0]["first"]["time"] == first["time"]
    assert (rows[1]["version"], rows[1]["baseline"], rows[1]["lag_days"]) == ("0.4.0", False, 0.0)
    lines = run("history", "when", "py-ml-dtypes", "--stack", "e4s").output.splitlines()
    assert lines[1].split() == ["0.3.1", "x86_64_v3", "<=", "2025-05-25", "-", "-", "e4s"]


def test_what_was_removed_and_came_back_has_a_row_for_each_period(run: Run, tmp_path: Path) -> None:
    """A version that was away is not said to have been there all the time."""
    there, away = catalogue({"p": [record(1, stacks=["e4s"])], "q": [record(2)]}), catalogue({"q": [record(2)]})
    repository = history(tmp_path / "r.git", there, away, there)
    rows = json.loads(run("history", "when", "p", "--repo", repository, "--format", "json").output)["rows"]

    assert [(one["baseline"], one["last"] is None) for one in rows] == [(True, False), (False, True)]
    assert rows[0]["last"]["time"] < rows[1]["first"]["time"]


@pytest.mark.usefixtures("asked")
def test_filters_of_when(run: Run) -> None:
    """Versions are ranges, compilers may be written as before; what matches nothing is a mistake."""
    assert "0.3.1" not in run("history", "when", "py-ml-dtypes@0.4:").output
    assert run("history", "when", "py-build", "--compiler", "clang").exit_code == 2
    assert run("history", "when", "py-build", "--compiler", "gcc").exit_code == 0
    assert "no build in develop up to f9449d145a matches" in run("history", "when", "py-ml-dtypes@9").error_of(2)
    assert "did you mean py-keras?" in run("history", "when", "py-kera").error
    assert "did you mean develop" in run("history", "when", "py-keras", "--tag", "devlop").error


@pytest.mark.usefixtures("asked")
def test_blame(run: Run) -> None:
    """Seven letters are enough; an ambiguous beginning lists what it may mean, and four letters are the least."""
    found = json.loads(run("history", "blame", "/22xqlom", "--format", "json", "--tag", "develop").output)
    assert (found["hash"], found["package"], found["died"]) == (HASH, "py-keras", None)
    assert [(stay["tag"], stay["stacks"]) for stay in found["intervals"]] == [("develop", ["ml-linux-aarch64-cuda"])]
    assert "write at least 4 letters" in run("history", "blame", "/22x").error
    assert "no hash of the history index begins with it" in run("history", "blame", "/2222222").error
    elsewhere = run("history", "blame", "/2222222", "--tag", "develop-2025-06-01").error
    assert "no hash of develop-2025-06-01 begins with it" in elsewhere


def test_an_ambiguous_beginning_lists_its_specs(run: Run, tmp_path: Path) -> None:
    """With package, version and target."""
    hashes = [f"abcdefg{letter * 25}" for letter in "xyz"]
    folder = history(tmp_path / "c.git", catalogue({"zlib": [record(0, hash=each) for each in hashes]}))
    build(folder, folder / "cachewatch-history.db")
    error = run("history", "blame", "abcdefg", "--repo", folder).error_of(2)
    assert error.splitlines() == [
        "cachewatch: /abcdefg: 3 hashes begin with it; write more of the hash:",
        *(f"  /{each}  zlib 1.0  x86_64_v3" for each in hashes),
    ]
    told_json = run("history", "blame", "abcdefgy", "--repo", folder, "--format", "json").output
    assert json.loads(told_json)["hash"] == hashes[1]


@pytest.mark.usefixtures("asked")
def test_log(run: Run) -> None:
    """As `cachewatch diff` says of the same two revisions, of the whole tag and of one package."""
    for package in ((), ("py-build",)):
        (found,) = json.loads(run("log", *package, "--format", "json").output)["revisions"]
        compared = ("diff", "HEAD~1", "HEAD", "--tag", "develop", *(["--package", *package] if package else []))
        as_diff = json.loads(run(*compared, "--format", "json").output)
        assert found["statements"] == as_diff["changesets"][0]["statements"]
    shown = run("log").output.splitlines()
    upgrades = "py-ml-dtypes 0.3.1 -> 0.4.0 (0.3.1 stays), py-build 1.2.0 -> 1.2.1 for neoverse_v1"
    assert shown[1] == f"2025-06-01  f9449d145a  {upgrades}"
    assert shown[2].startswith(" " * 24)
    assert any(line.endswith(" 15 binaries of py-gpytorch rebuilt") for line in shown)
    rows = list(csv.reader(run("log", "--format", "csv").output.splitlines()))
    assert {tuple(row[:2]) for row in rows[1:]} == {("2025-06-01", "f9449d145a")}


def test_log_on_a_renamed_stack(run: Run, tmp_path: Path) -> None:
    """What else changed in it is told as `cachewatch diff` does."""
    states = [
        {name: [record(n, stacks=[stack])] for n, name in enumerate("abcdef")}
        | {"zlib": [record(number, stacks=[stack], versions=[version], compiler=f"gcc@1{number}")]}
        for number, stack, version in ((8, "old", "1.1"), (9, "new", "1.0"))
    ]
    folder = history(tmp_path / "r.git", *map(catalogue, states))
    run("history", "build", "--repo", folder)
    for package in ((), ("zlib",)):
        (found,) = json.loads(run("log", *package, "--repo", folder, "--format", "json").output)["revisions"]
        compared = run("diff", "--repo", folder, "--format", "json", *(["--package", *package] if package else []))
        assert found["statements"] == json.loads(compared.output)["changesets"][0]["statements"]
        assert "downgraded" in [one["kind"] for one in found["statements"]]


def test_what_a_log_names_is_back_or_new(run: Run, tmp_path: Path) -> None:
    """A place that lost the package, as an earlier revision says, is not called new when it has the package again."""
    hep, e4s, ml = (record(n, stacks=[stack]) for n, stack in enumerate(("hep", "e4s", "ml")))
    states = ([hep, e4s], [hep], [hep, e4s], [hep, e4s, ml])
    folder = history(tmp_path / "r.git", *(catalogue({"zlib": specs, "xz": [record(99)]}) for specs in states))
    run("history", "build", "--repo", folder)
    rows = csv.reader(run("log", "zlib", "--repo", folder, "--format", "csv").output.splitlines()[1:])
    place = "in {} on x86_64_v3"
    said = [f"zlib newly built {place.format('ml')}", f"zlib is back {place.format('e4s')}", "zlib no longer in e4s"]
    assert [row[2].split(",")[0] for row in rows] == said


def test_a_spec_dies_in_the_words_of_a_report(run: Run, tmp_path: Path) -> None:
    """What happened in its stacks, and where its version stays."""
    kept = [record(9, stacks=["e4s"]), record(8, stacks=["hep"])]
    first = [*kept, record(1, stacks=["ml"])]
    states = [first, [*kept, record(2, stacks=["ml"], versions=["1.1"])], kept, first]
    folder = history(tmp_path / "r.git", *(catalogue({"zlib": state}) for state in states))
    run("history", "build", "--repo", folder)

    ends = [run("history", "blame", record(n)["hash"], "--repo", folder).output.splitlines()[4] for n in (1, 2)]
    assert ends[0].endswith("  gone; zlib 1.0 -> 1.1 in ml (1 of 3 stacks); zlib 1.0 stays in 2 stacks")
    assert ends[1].endswith("no stack of develop has this version any more")
    assert "ml" in ends[1]


@pytest.mark.usefixtures("asked")
def test_ranges(run: Run) -> None:
    """Dates and revisions; a date before all others is the beginning."""
    assert len(json.loads(run("log", "--since", "2020-01-01", "--format", "json").output)["revisions"]) == 1
    assert json.loads(run("log", "--since", "2025-06-01", "--format", "json").output)["revisions"] == []
    churn = ("history", "churn", "--since", "HEAD~1", "--until", "f9449d1", "--format", "json")
    assert json.loads(run(*churn).output)["revisions"] == 1
    newer = run("log", "--since", "2025-06-01").error
    assert newer == "cachewatch: no revision is newer than --since 2025-06-01: the newest is f9449d145a of 2025-06-01\n"
    assert run("log", "--since", "2999-01-01").error == "cachewatch: '2999-01-01' is in the future\n"
    assert run("log", "--since", "2030").error == "cachewatch: 2030 is no date; write YYYY-MM-DD\n"
    said = "'2020-01-01': there is no revision that old; the oldest is of 2025-05-25T04:00:00Z"
    assert run("history", "churn", "--until", "2020-01-01").error == f"cachewatch: {said}\n"
    assert "'v1' is not a revision" in run("log", "--since", "v1").error
    assert "no revision is newer than --since main" in run("log", "--since", "main").error
    assert "`cachewatch history build`" in run("log", "--since", "abcdef0").error


def test_best_snapshot(run: Run, asked: Path, tmp_path: Path) -> None:
    """The newest of the best first; a branch that has as much is better only if no snapshot is as good."""
    file = lockfile(tmp_path, HASH, "a" * 32)
    found: dict[str, Any] = json.loads(run("history", "best", file, "--format", "json").output)
    best = found["snapshots"][0]
    assert (best["tag"], best["found"], best["of"], best["missing"]) == ("develop-2025-06-01", 1, 2, ["a" * 32])
    assert best["is_current"]
    assert "develop-2025-06-01" in run("history", "best", file).output
    assert run("history", "best", file, "--pin").output == (
        "spack mirror add develop-2025-06-01 https://binaries.spack.io/develop-2025-06-01  # 1 of 2 binaries\n"
    )
    git(asked, "remote", "set-url", "origin", "https://example.org/ours.git")
    error = run("history", "best", file, "--pin").error_of(2)
    assert error.endswith("where the binaries of this catalogue are is not known; --mirror URL says it\n")
    told = run("history", "best", file, "--pin", "--mirror", "https://example.org/a b/{tag}")
    assert told.output.startswith("spack mirror add develop-2025-06-01 'https://example.org/a b/develop-2025-06-01'")
    assert "no hash of it was ever in an indexed tag" in run("history", "best", lockfile(tmp_path, "b" * 32)).error
    assert "give --pin too" in run("history", "best", file, "--mirror", "https://example.org").error
    assert "leave out --format" in run("history", "best", file, "--pin", "--format", "json").error
    assert "'2025-02-30' is no date" in run("log", "--since", "2025-02-30").error


@pytest.mark.usefixtures("asked")
def test_a_tag_that_is_named_may_be_pinned(run: Run, tmp_path: Path) -> None:
    """Only the names of snapshots and releases say that they never change."""
    file = lockfile(tmp_path, HASH)
    found = json.loads(run("history", "best", file, "--tag", "devel??", "--format", "json").output)
    assert [one["tag"] for one in found["snapshots"]] == ["develop"]
    pinned = run("history", "best", file, "--pin", "--tag", "develop").output
    assert pinned == "spack mirror add develop https://binaries.spack.io/develop  # 1 of 1 binaries\n"
    assert "ever in a tag ml-*" in run("history", "best", file, "--pin", "--tag", "ml-*").error


def test_answers_have_the_colours_of_diff(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was added is green, what was removed red; without the colours, the bytes are those for a pipe."""
    gone, kept, new = (record(n, hash=letter * 32, versions=[f"1.{n}"]) for n, letter in enumerate("abc"))
    rest = {"hdf5": [record(7)]}
    states = [{"zlib": [gone, kept]} | rest, {"zlib": [kept, new]}, {"zlib": [new], "x": [record(8)]} | rest]
    folder = history(tmp_path / "c.git", *map(catalogue, states))
    found = set()
    best = ["history", "best", lockfile(tmp_path, "b" * 32, "c" * 32)]
    blame = ["history", "blame", f"/{'b' * 32}"]
    for words in (["log"], ["history", "churn"], ["history", "when", "zlib"], blame, best):
        plain = run(*words, "--repo", folder).output
        painted = run(*words, "--repo", folder, "--color", "always").output
        assert (plain, "\x1b" in plain) == (re.sub(r"\x1b\[\d*m", "", painted), False)
        found |= {f"{words[:2][-1]}: {text}" for text in re.findall(r"\x1b(\[3\dm.*?)\x1b\[0m", painted)}
    green, red = "[32m", "[31m"
    assert found == {
        f"log: {green}new x 1.0",
        f"log: {green}hdf5 is back (1.0) in e4s: develop had the package until 2025-06-02",
        f"log: {red}hdf5 removed",
        f"log: {green}zlib 1.1 -> 1.2 (1.1 stays, 1.0 removed)",
        *(f"churn: {each}" for each in (f"{green}1", f"{red}1", f"{red}2")),
        f"when: {red}2025-06-02",
        f"when: {red}2025-06-03",
        f"blame: {green}born then or before in e4s",
        f"blame: {red}gone; older zlib 1.1 removed; no stack of develop has this version any more",
        f"best: {red}no",
    }
    monkeypatch.setenv("COLUMNS", "40")
    folded = run("log", "--repo", folder, "--color", "always").output
    assert ("-> 1.2\x1b[0m\n" in folded, " \x1b[0m" in folded) == (True, False)


def test_without_a_snapshot_pin_says_which_names_it_takes(run: Run, tmp_path: Path) -> None:
    folder = history(tmp_path / "c.git", catalogue({"zlib": [record(0, hash=HASH)]}))
    build(folder, folder / "cachewatch-history.db")
    error = run("history", "best", lockfile(tmp_path, HASH), "--pin", "--repo", folder).error_of(2)
    assert "no snapshot (NAME-YYYY-MM-DD) or release (v1.2.3) has any of it now; develop has 1 of 1 at" in error
    assert error.endswith("name a tag that never changes by --tag\n")


def test_where_the_index_is(run: Run, asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the git folder if it is there, also for a work tree; else in the cache, or as --db or the environment says."""
    index = asked / "cachewatch-history.db"
    work = tmp_path / "work"
    subprocess.run(["git", f"--git-dir={asked}", "worktree", "add", "-q", work], check=True, capture_output=True)
    expected = run("log").output
    assert run("log", "--repo", work).output == expected
    monkeypatch.chdir(work / "_cache")
    assert run("log").output == expected
    moved = index.rename(tmp_path / "elsewhere.db")
    monkeypatch.chdir(tmp_path)
    assert run("log", "--db", moved).output == expected
    monkeypatch.setenv("CACHEWATCH_HISTORY", str(moved))
    assert run("log").output == expected
