"""Real build caches with the right answer worked out by hand: each state and each transition, with and without HTTP."""

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import Run
from servers import files, serving

from cachewatch.documents.writing import Binary
from cachewatch.sources.buildcache import Fresh
from cachewatch.sources.buildcache.address import open_mirror
from cachewatch.sources.buildcache.index import read_index
from cachewatch.sources.buildcache.layouts import fetch_index

V3 = ["1-initial", "2-package-added", "3-version-bump", "4-variant-flip", "5-spec-removed-still-referenced"]
V3 += ["6-pruned-to-current", "7-full-rebuild", "8-second-compiler", "9-reindex-no-change", "10-all-hashes-changed"]
STATES = [("v3", state) for state in V3] + [("v2", state) for state in V3[:9]] + [("v3-signed", V3[0])]
TRANSITIONS = [(kind, n) for kind, n in [*(("v3", n) for n in range(1, 10)), *(("v2", n) for n in range(1, 9))]]


@dataclass
class Truth:
    """What TRUTH.md says of one state."""

    version: str
    records: int
    specs: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by hash: all columns but it
    added: list[str] = field(default_factory=list)  # first seven characters of hashes
    removed: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def truths(buildcaches: Path) -> dict[tuple[str, str], Truth]:
    """The tables of TRUTH.md."""
    return dict(_truths((buildcaches / "TRUTH.md").read_text()))


def _truths(text: str) -> Iterator[tuple[tuple[str, str], Truth]]:
    for part in re.split(r"^# Tables: ", text, flags=re.MULTILINE)[1:]:
        kind = part.split()[0].strip()
        for section in re.split(r"^#### ", part, flags=re.MULTILINE)[1:]:
            state, version, records = re.match(r"(\S+): db version (\d+), (\d+) records", section).groups()  # type: ignore[union-attr]
            truth = Truth(version, int(records))
            for row in re.findall(r"^\| ([a-z0-9]{32}) \| (.*) \|$", section, re.MULTILINE):
                truth.specs[row[0]] = tuple(cell.strip(" `") for cell in row[1].split("|"))
            if told := re.search(r"^added: (\[.*?\]) removed: (\[.*?\])", section, re.MULTILINE):
                truth.added, truth.removed = (json.loads(side.replace("'", '"')) for side in told.groups())
            yield (kind, state), truth


def expected_compiler(cell: str) -> str:
    """Return the one compiler of a document: of C, or else of C++, or else of Fortran."""
    if "=" not in cell:
        return "none" if cell == "—" else cell
    by_language = {
        language: compiler
        for languages, compiler in (part.strip().split("=") for part in cell.split(";"))
        for language in languages.split(",")
    }
    return next(by_language[language] for language in ("c", "cxx", "fortran") if language in by_language)


def row(binary: Binary) -> tuple[str, ...]:
    """Return a spec as the tables have it."""
    variants = " ".join(binary.variants)
    return (binary.package, binary.version, binary.compiler, binary.os, binary.target, variants)


def expected(truth: Truth) -> dict[str, tuple[str, ...]]:
    """Return the rows of a table as documents spell them: one compiler, patches by seven digits."""
    return {
        spec_hash: (name, version, expected_compiler(compiler), os, target, re.sub(r"(patches:=\w{7})\w+", r"\1", v))
        for spec_hash, (name, version, compiler, os, target, v) in truth.specs.items()
    }


def check(place: str | Path, truth: Truth) -> None:
    """Hold what is read at `place` to the truth."""
    mirror = open_mirror(place, {})
    file = fetch_index(mirror, Fresh())
    assert file is not None
    index = read_index(file.content, "index")
    again = fetch_index(mirror, file.fresh)
    mirror.close()

    assert (index.version, index.faults) == (truth.version, ())
    assert {binary.hash: row(binary) for binary in index.binaries} == expected(truth)
    assert index.others == truth.records - len(truth.specs)
    assert {binary.platform for binary in index.binaries} == {"linux"}
    assert again is None


@pytest.mark.parametrize(("kind", "state"), STATES)
def test_every_state_in_a_folder(
    buildcaches: Path, truths: dict[tuple[str, str], Truth], kind: str, state: str
) -> None:
    """Each spec of each state, and nothing that is not in the cache; the second look finds nothing new."""
    check(buildcaches / kind / state, truths[kind, state])


@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize(("kind", "state"), STATES)
def test_every_state_over_http(buildcaches: Path, truths: dict[tuple[str, str], Truth], kind: str, state: str) -> None:
    """The same behind a web server, where the second look is one request."""
    with serving(files(buildcaches / kind / state)) as server:
        check(server.url, truths[kind, state])
        assert len(server.asked) == {"2": 4, "3": 3}[kind[1]]
        assert server.asked[-1].path.endswith(("index.manifest.json", "index.json.hash"))


@dataclass(frozen=True)
class History:
    """A recorded repository, and the revision of each state."""

    folder: Path
    revisions: dict[str, str]


@pytest.fixture(scope="session")
def histories(buildcaches: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, History]:
    """Each series of states, recorded one after the other as if it were one mirror that changes."""
    from cachewatch.recorder import record  # noqa: PLC0415
    from cachewatch.sources.buildcache.opening import Cache  # noqa: PLC0415

    made: dict[str, History] = {}
    for kind in ("v3", "v2"):
        base = tmp_path_factory.mktemp(kind)
        mirror, repository = base / "mirror", base / "catalogue.git"
        revisions: dict[str, str] = {}
        for series, state in STATES:
            if series != kind:
                continue
            mirror.unlink(missing_ok=True)
            mirror.symlink_to(buildcaches / kind / state)
            done = record(Cache(address=str(mirror)), repository)
            assert (done.held, done.failed, done.faults) == ((), (), ())
            revisions[state] = done.commit or revisions[V3[V3.index(state) - 1]]
        made[kind] = History(repository, revisions)
    return made


@pytest.mark.parametrize(("kind", "number"), TRANSITIONS)
def test_every_transition(
    run: Run,
    histories: dict[str, History],
    truths: dict[tuple[str, str], Truth],
    kind: str,
    number: int,
) -> None:
    """What was recorded, compared: exactly the hashes that came and went, and no revision where none did."""
    before, after = V3[number - 1], V3[number]
    history, truth = histories[kind], truths[kind, after]

    result = run(
        "diff", history.revisions[before], history.revisions[after], "--repo", history.folder, "--format", "json"
    )

    packages = json.loads(result.output)["changesets"][0]["packages"]
    added = sorted(spec["hash"][:7] for package in packages for spec in package["specs"]["added"])
    removed = sorted(spec["hash"][:7] for package in packages for spec in package["specs"]["removed"])
    assert (result.exit_code, added, removed) == (0, truth.added, truth.removed)
    assert (history.revisions[before] == history.revisions[after]) == (not truth.added and not truth.removed)


def summary(run: Run, history: History, before: int, after: int) -> dict[str, dict[str, int]]:
    """Return what became of each package between two states, by number: only what is not zero."""
    revisions = [history.revisions[V3[number - 1]] for number in (before, after)]
    result = run("diff", *revisions, "--repo", history.folder, "--format", "json")
    told = ("rebuilt", "upgraded", "downgraded", "recompiled", "reconfigured", "moved", "new", "gone")
    return {
        package["name"]: {word: package["specs"][word] for word in told if package["specs"][word]}
        for package in json.loads(result.output)["changesets"][0]["packages"]
    }


@pytest.mark.parametrize("kind", ["v3", "v2"])
def test_the_story(run: Run, histories: dict[str, History], kind: str) -> None:
    """The transitions mean what TRUTH.md tells of them."""
    history = histories[kind]

    assert summary(run, history, 1, 2) == {"cw-stack": {"new": 1}, "cw-torch": {"new": 2}}
    assert summary(run, history, 2, 3) == {"cw-solver": {"new": 1}, "cw-stack": {"new": 1}, "cw-torch": {"new": 2}}
    assert summary(run, history, 3, 4) == {"cw-torch": {"new": 1}}
    assert summary(run, history, 4, 5) == {"cw-solver": {"gone": 1}}
    assert summary(run, history, 5, 6) == {"cw-stack": {"gone": 1}, "cw-torch": {"gone": 3}}
    assert summary(run, history, 6, 7) == {
        "zlib": {"upgraded": 1},
        "hdf5": {"rebuilt": 1},
        "cw-solver": {"rebuilt": 1},
        "cw-stack": {"rebuilt": 1},
        "cw-torch": {"rebuilt": 2},
    }
    assert sum(change["new"] for change in summary(run, history, 7, 8).values()) == 7
    if kind == "v3":
        last = summary(run, history, 7, 10)
        assert (
            len(last),
            all(change == {"new": c, "gone": c} for change in last.values() for c in [change["new"]]),
        ) == (8, True)


@pytest.mark.parametrize("kind", ["v3", "v2"])
def test_what_was_recorded_is_a_sound_repository(histories: dict[str, History], kind: str) -> None:
    """One commit for each state that differs, nothing loose, nothing missing, stacks in the list of tags."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", histories[kind].folder, *arguments], capture_output=True, check=True, text=True
        )
        return done.stdout + done.stderr

    assert len(git("log", "--format=%h").split()) == len(set(histories[kind].revisions.values()))
    assert git("fsck", "--strict", "--no-dangling") == ""
    assert git("show", "HEAD:_data/tags.yaml") == "- name: develop\n  stacks:\n  - cache\n  - root\n"
