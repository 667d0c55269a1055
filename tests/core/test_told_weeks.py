"""What happened in a week, and in which statements it is told: sequences that were once told wrongly."""

import gzip
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import scripted
from conftest import Run
from digests import read
from helpers import Packages, catalogue, history, record, two_folders

from cachewatch import open as open_catalogue
from cachewatch.core.filters_and_spec_patterns import Globs, Selection


def several(count: int, start: int = 0, name: str = "p", **values: Any) -> Packages:
    """Return so many packages of one spec each."""
    return {f"{name}{n:02}": [record(start + n, **values)] for n in range(count)}


def both(*states: Packages) -> Packages:
    """Return the specs of several states together."""
    return {name: [spec for state in states for spec in state.get(name, [])] for name in {k for s in states for k in s}}


REST = several(30, 800, "rest", stacks=["others"])
OTHERS = several(20, compiler="none") | several(4, compiler="gcc@12.3.0") | several(2)
SHARED: dict[str, Any] = {"stacks": ["e4s", "radiuss"]}
RADIUSS: dict[str, Any] = {"stacks": ["radiuss"]}
WEEKS = {
    "a spec that two stacks share is replaced by one of them": (
        several(6, **SHARED) | {"hdf5": [record(90, versions=["1.14.5"], **SHARED)]},
        several(6, **SHARED) | {"hdf5": [record(91, versions=["1.14.6"])]},
        [("place-lost", "radiuss (x86_64_v3)", 1, {"other": 1}), ("upgraded", "hdf5", 1, {})],
    ),
    "and by an older version": (
        several(6, **SHARED) | {"hdf5": [record(90, versions=["1.14.5"], **SHARED)]},
        several(6, **SHARED) | {"hdf5": [record(91, versions=["1.14.3"])]},
        [("place-lost", "radiuss (x86_64_v3)", 1, {"gone": 1}), ("downgraded", "hdf5", 1, {})],
    ),
    "the newest version that a place lost is judged": (
        {"hdf5": [record(90, versions=["1.14.5"], **SHARED), record(91, versions=["1.14.4"], **SHARED)]} | REST,
        {"hdf5": [record(92, versions=["1.14.6"]), record(91, versions=["1.14.4"])]} | REST,
        [("place-lost", "radiuss (x86_64_v3)", 1, {"other": 1}), ("upgraded", "hdf5", 1, {})],
    ),
    "a stack leaves whose binaries another one builds": (
        several(10, **SHARED) | several(10, 50, "q"),
        several(10) | several(10, 50, "q"),
        [("stack-removed", "radiuss", 10, {"kept": 10})],
    ),
    "a stack is renamed": (
        several(10, stacks=["radiuss"]) | REST,
        several(10, stacks=["radiuss-new"]) | REST,
        [("stack-merged", "radiuss -> radiuss-new", 10, {"kept": 10})],
    ),
    "a stack is renamed while all of its packages are built anew": (
        several(10, stacks=["radiuss"]) | REST,
        several(10, 100, stacks=["radiuss-new"]) | REST,
        [("stack-merged", "radiuss -> radiuss-new", 10, {"equal": 10})],
    ),
    "a stack is renamed, and two of its packages have other versions": (
        several(10, **RADIUSS)
        | {"hdf5": [record(90, versions=["2"], **RADIUSS)], "xz": [record(91, **RADIUSS)]}
        | REST,
        several(10, stacks=["new"])
        | {name: [record(n, versions=["1.1"], stacks=["new"])] for n, name in ((92, "hdf5"), (93, "xz"))}
        | REST,
        [
            ("stack-merged", "radiuss -> new", 10, {"kept": 10}),
            ("downgraded", "hdf5", 1, {}),
            ("upgraded", "xz", 1, {}),
        ],
    ),
    "a stack is renamed while all of its packages are upgraded": (
        several(5, **RADIUSS) | REST,
        several(5, 50, versions=["1.1"], stacks=["new"]) | REST,
        [("stack-merged", "radiuss -> new", 5, {}), *(("upgraded", f"p{n:02}", 1, {}) for n in range(5))],
    ),
    "a stack is renamed while its compiler is replaced": (
        several(10, **RADIUSS) | REST,
        several(10, 50, compiler="gcc@13.3.0", stacks=["new"]) | REST,
        [("stack-merged", "radiuss -> new", 10, {}), ("migration", "gcc@11.4.0 -> gcc@13.3.0", 10, {})],
    ),
    "a stack is renamed, and lacks a package": (
        several(10, **RADIUSS) | {"hdf5": [record(90, **RADIUSS), record(91)]} | REST,
        several(10, stacks=["new"]) | {"hdf5": [record(91)]} | REST,
        [("stack-merged", "radiuss -> new", 10, {"kept": 10}), ("place-lost", "new (x86_64_v3)", 1, {"equal": 1})],
    ),
    "two stacks are merged, and had other versions": (
        several(6, stacks=["a"])
        | several(6, 20, "q", stacks=["b"])
        | REST
        | {"hdf5": [record(90, versions=["2"], stacks=["a"]), record(91, versions=["1"], stacks=["b"])]},
        several(6, stacks=["ab"])
        | several(6, 20, "q", stacks=["ab"])
        | REST
        | {"hdf5": [record(91, versions=["1"], stacks=["ab"])]},
        [("stack-merged", "a, b -> ab", 13, {"kept": 12}), ("downgraded", "hdf5", 1, {})],
    ),
    "two stacks are merged": (
        several(6, stacks=["a"]) | several(6, 20, "q", stacks=["b"]) | REST,
        several(6, stacks=["ab"]) | several(6, 20, "q", stacks=["ab"]) | REST,
        [("stack-merged", "a, b -> ab", 12, {"kept": 12})],
    ),
    "three stacks are merged, and another one is renamed": (
        both(*(several(6, 20 * n, stack, stacks=[stack]) for n, stack in enumerate("abcd"))) | REST,
        both(*(several(6, 20 * n, stack, stacks=["bcd" if n else "new"]) for n, stack in enumerate("abcd"))) | REST,
        [("stack-merged", "b, c, d -> bcd", 18, {"kept": 18}), ("stack-merged", "a -> new", 6, {"kept": 6})],
    ),
    **{
        f"three stacks become two, of which both have packages of {spread}": (
            both(*(several(6, 20 * n, stack, stacks=[stack]) for n, stack in enumerate("abc"))) | REST,
            {
                name: [
                    one | {"stacks": ["y" if (n % 2 if stack == spread else stack == "b") else "x"]} for one in found
                ]
                for number, stack in enumerate("abc")
                for n, (name, found) in enumerate(several(6, 20 * number, stack).items())
            }
            | REST,
            [("stack-merged", "a, b, c -> x, y", 18, {"kept": 18})],
        )
        for spread in "ac"
    },
    "a stack leaves, and five binaries stay that no stack builds": (
        several(5, **SHARED) | several(5, 20, "q", stacks=["radiuss", "root"]) | REST,
        several(5) | several(5, 20, "q", stacks=["root"]) | REST,
        [("stack-removed", "radiuss", 10, {"kept": 5, "going": 5})],
    ),
    "a stack leaves, and ten packages with it": (
        several(10, **SHARED) | several(10, 50, "q", stacks=["radiuss"]) | REST,
        several(10) | REST,
        [("stack-removed", "radiuss", 20, {"kept": 10, "gone": 10})],
    ),
    "a stack leaves while half of the others are built anew": (
        several(10, 500, "q") | several(10, 50, "r", stacks=["radiuss"]) | several(10),
        several(10, 500, "q") | several(10, 100),
        [("stack-removed", "radiuss", 10, {"gone": 10}), ("rebuild-wave", "", 10, {}), ("turnover", "", 20, {})],
    ),
    "a compiler is replaced in one stack, which had equal builds": (
        both(*(several(30, 100 * n) for n in range(5))),
        several(30, 900, compiler="gcc@13.3.0"),
        [("migration", "gcc@11.4.0 -> gcc@13.3.0", 30, {}), ("turnover", "", 30, {})],
    ),
    "a compiler comes beside another": (
        several(8) | REST,
        both(several(8), several(8, 100, compiler="gcc@13.3.0")) | REST,
        [("beside", "gcc@11.4.0 -> gcc@13.3.0", 8, {})],
    ),
    "a compiler comes beside several others, and beside none": (
        OTHERS | REST,
        both(OTHERS, several(20, 100, compiler="llvm@19.1.0")) | REST,
        [("beside", "gcc@11.4.0 gcc@12.3.0 none -> llvm@19.1.0", 20, {})],
    ),
    "the builds with a variant go": (
        both(several(20, variants=["+mpi"]), several(20, 100, variants=["~mpi"])),
        several(20, 100, variants=["~mpi"]),
        [("no-longer", "+mpi", 20, {})],
    ),
    "the builds with a compiler go": (
        both(OTHERS, several(20, 100, compiler="intel-oneapi-compilers@2025.1")),
        OTHERS,
        [("no-longer", "intel-oneapi-compilers@2025.1", 20, {})],
    ),
    "a stack loses a target for which it has older machines": (
        {"hdf5": [record(1, versions=["1.14"]), record(2, versions=["1.14"], target="x86_64_v2")]} | REST,
        {"hdf5": [record(2, versions=["1.14"], target="x86_64_v2")]} | REST,
        [("place-lost", "e4s (x86_64_v3)", 1, {"equal": 1})],
    ),
    "another stack has a newer version": (
        {"zlib": [record(1, versions=["1.3"], stacks=["radiuss"]), record(2, versions=["1.3.1"])]} | REST,
        {"zlib": [record(2, versions=["1.3.1"])]} | REST,
        [("place-lost", "radiuss (x86_64_v3)", 1, {"other": 1})],
    ),
    "packages change their target and their version": (
        several(8, versions=["1.0"]) | several(8, 50, "q", stacks=["radiuss"]),
        several(8, 100, versions=["2.0"], target="x86_64_v2") | several(8, 50, "q", stacks=["radiuss"]),
        [("migration", "x86_64_v3 -> x86_64_v2", 8, {"other": 8})],
    ),
    "a machine is lost": (
        {"hdf5": [record(1), record(2, os="rhel8")]} | REST,
        {"hdf5": [record(1)]} | REST,
        [("machine-lost", "e4s (rhel8, x86_64_v3)", 1, {"gone": 1})],
    ),
    "half of a stack goes to another system": (
        several(8) | several(8, 50, "q"),
        several(8, 100, os="ubuntu24.04") | several(8, 50, "q"),
        [("machine-lost", "e4s (ubuntu22.04, x86_64_v3)", 8, {"gone": 8})],
    ),
}


@pytest.mark.parametrize("week", WEEKS)
def test_weeks_are_told_as_what_they_are(run: Run, tmp_path: Path, week: str) -> None:
    """Each loss has its class and one statement; stacks, compilers, systems and variants are told once."""
    before, after, expected = WEEKS[week]
    found = run("diff", *two_folders(tmp_path, before, after), "--format", "json").changeset()

    told = [(one["kind"], one["name"], len(one["packages"]), one["losses"]) for one in found["statements"]]
    assert [one for one in told if one[0] not in {"rebuilt", "widened", "reconfigured", "place-gained"}] == expected


def test_packages_of_a_renamed_stack_are_found_by_what_changed_under_its_new_name(run: Run, tmp_path: Path) -> None:
    """Its name alone makes no package lost; tables of digests, and Python, find the same packages."""
    before, after, _ = WEEKS["a stack is renamed, and two of its packages have other versions"]
    folders = two_folders(tmp_path, before, after)

    def kinds(*options: str) -> dict[str, set[str]]:
        found = run("diff", *folders, *options, "--format", "json").changeset()
        return {package["name"]: set(package["kinds"]) for package in found["packages"]}

    upgraded = kinds("--kind", "upgraded")
    assert upgraded == {"xz": kinds()["xz"]}
    assert upgraded["xz"].isdisjoint({"place-lost", "place-gained", "stack-added", "stack-removed"})
    assert kinds("--kind", "stack-merged").keys() == {f"p{number:02}" for number in range(10)}
    repository = history(tmp_path / "r.git", catalogue(before), catalogue(after))
    with open_catalogue(repository) as opened:
        ((only,),) = opened.diff("HEAD~1", "HEAD", kinds="upgraded")
    assert (only.package, {*map(str, only.kinds)}) == ("xz", upgraded["xz"])
    table = read(repository, selection=Selection(kinds=Globs(["upgraded"]))).table.content
    assert {line.split(b",")[1] for line in gzip.decompress(table).splitlines()} == {b"xz"}


def test_gates_are_of_classes(run: Run, tmp_path: Path) -> None:
    before, after, _ = WEEKS["another stack has a newer version"]
    states = two_folders(tmp_path, before, after)
    codes = {"lost": 1, "gone": 0, "going": 0, "other": 1, "place-lost": 1, "stack-lost": 0, "removed": 1}

    assert {group: run("diff", *states, "--fail-on", group).exit_code for group in codes} == codes


@pytest.mark.slow
def test_several_revisions_are_told_as_shortly_as_single_ones(run: Run, tmp_path: Path) -> None:
    """Of any two revisions each event that lasts is one statement, and there are at most twice the lines of all steps."""
    states = [scripted.packages()]
    states.append(states[-1] | {"hdf5": scripted.again(states[-1]["hdf5"], versions=["9.9"])})
    migrated = {name: scripted.again(states[-1][name], "c", compiler="gcc@13.3.0") for name in scripted.NAMES[:200]}
    states.append(states[-1] | migrated)
    kept = {name: [one for one in found if "radiuss" not in one["stacks"]] for name, found in states[-1].items()}
    states.append({name: found for name, found in kept.items() if found})
    states.append({name: scripted.again(found, "d") for name, found in states[-1].items()})
    repository = history(tmp_path / "r.git", *map(catalogue, states))
    events = [("upgraded", "hdf5"), ("migration", "gcc@11.4.0 -> gcc@13.3.0"), ("stack-removed", "radiuss")]
    last = len(states) - 1

    def ask(older: int, newer: int, *options: str) -> str:
        ends = [f"HEAD~{last - number}" if number < last else "HEAD" for number in (older, newer)]
        return run("diff", *ends, "--repo", repository, *options).output

    steps = [len(ask(number, number + 1).splitlines()) for number in range(last)]
    for older, newer in combinations(range(last + 1), 2):
        assert len(ask(older, newer).splitlines()) <= 2 * sum(steps[older:newer]), (older, newer)
        (found,) = json.loads(ask(older, newer, "--format", "json"))["changesets"]
        told = [(one["kind"], one["name"]) for one in found["statements"]]
        for number, event in enumerate(events):
            assert told.count(event) == (older <= number < newer), (older, newer, event)
