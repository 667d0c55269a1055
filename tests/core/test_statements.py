"""Statements: each item in exactly one, and one cause told once."""

import random
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from helpers import Packages, Record, catalogue, history, record, records, two_folders, write
from pairs import some_pair


def compared(run: Run, folder: Path, before: Packages, after: Packages, *options: str) -> dict[str, Any]:
    """Return the changeset between two states, as JSON."""
    found = run("diff", *two_folders(folder, before, after), "--format", "json", *options).changeset()
    return dict(found)


def named(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Return kind and name of each statement."""
    return [(one["kind"], one["name"]) for one in found["statements"]]


def one_of(found: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the only statement of a kind."""
    (one,) = (one for one in found["statements"] if one["kind"] == kind)
    return dict(one)


def numbered(count: int, start: int = 0, **values: Any) -> Packages:
    """Return so many packages of one spec each."""
    return {f"p{n:02}": [record(start + n, **values)] for n in range(count)}


def counted(found: dict[str, Any]) -> tuple[dict[str, int], dict[str, int]]:
    """Count the items of all statements, and what vanished, is new and moved."""
    items = [one["items"] for one in found["statements"]]
    sums = {name: sum(one[name] for one in items) for name in ("vanished", "new", "kept")}
    packages = [package["specs"] for package in found["packages"]]

    def moved(specs: dict[str, Any], side: str) -> int:
        """Count the listed specs that are not kept: a kept one that came into the selection or left it is listed, too."""
        kept = {entry["hash"] for entry in specs["restacked"]}
        return sum(spec["hash"] not in kept for spec in specs[side])

    return sums, {
        "vanished": sum(moved(specs, "removed") for specs in packages),
        "new": sum(moved(specs, "added") for specs in packages),
        "kept": sum(len(specs["restacked"]) for specs in packages),
    }


def unnamed_gains(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the gained places that no statement names: as places, or by a new stack or changed values."""
    whole = ("package-added", "stack-added", "stack-merged", "migration", "beside")
    return [
        (package["name"], place["stack"], place["target"])
        for package in found["packages"]
        for place in package["places"]
        if place["verdict"] == "gained"
        if not any(
            package["name"] in one["packages"]
            and place["stack"] in one["stacks"]
            and (one["kind"] in whole or {key: place[key] for key in ("stack", "target")} in one["places"])
            for one in found["statements"]
        )
    ]


@pytest.mark.parametrize("seed", range(7))
def test_every_item_is_in_one_statement(run: Run, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    pairs = {f"p{n:03}": some_pair(chance) for n in range(chance.choice((1, 4, 30, 80)))}
    before = {name: found for name, (found, _) in pairs.items() if chance.random() < 0.95}
    after = {name: found for name, (_, found) in pairs.items() if chance.random() < 0.95}

    found = compared(run, tmp_path, before | {"kept": records([9999])}, after | {"kept": records([9998])})
    items, changes = counted(found)
    assert items == changes
    assert all(one["places"] for one in found["statements"] if one["kind"] in ("upgraded", "downgraded"))
    assert unnamed_gains(found) == []


def test_each_gained_place_of_shared_specs_is_named(run: Run, tmp_path: Path) -> None:
    """Though another place of the same specs gained more versions, or was upgraded with them."""
    old = record(1, stacks=["a"])
    newer = record(2, versions=["1.1"], stacks=["a", "b"])
    more = [record(3, target="zen4", stacks=["a"]), newer | {"target": "zen4"}]

    found = compared(run, tmp_path / "0", {"one": [old]}, {"one": [old, *more]}, "--kind", "target")
    (gained,) = found["statements"]
    assert (gained["items"]["new"], gained["places"]) == (2, [{"stack": one, "target": "zen4"} for one in "ab"])
    found = compared(run, tmp_path / "1", {"one": [old]}, {"one": [newer]})
    assert named(found) == [("upgraded", "one"), ("place-gained", "")]
    assert unnamed_gains(found) == []


@pytest.mark.parametrize(
    "options", [("--stack", "ml"), ("--package", "p00*"), ("--versions", "@1.10:"), ("--target", "x")]
)
def test_what_is_selected_is_covered_too(run: Run, tmp_path: Path, options: tuple[str, str]) -> None:
    chance = random.Random(7)
    pairs = {f"p{n:03}": some_pair(chance) for n in range(60)}
    before, after = ({name: pair[side] for name, pair in pairs.items()} for side in (0, 1))

    items, changes = counted(compared(run, tmp_path, before, after, *options))
    assert items == changes


GPU = records([1], stacks=["gpu", "ml"]) + records([2], versions=["2.0"], stacks=["gpu", "ml"])
NEWER = {f"p{n}": records([3, 4], versions=["3.0"], stacks=["ml"]) for n in range(5)}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"a": GPU, "b": GPU}, {}, "ml 2 packages 2 packages are gone 4 more of its specs"),
        ({"a": [*GPU, record(9)], "b": GPU}, {"b": []}, "a removed, had 1.0, 2.0 -1 in e4s; 2 more of its specs"),
        (
            {name: [one | {"stacks": ["gpu"]} for one in GPU] for name in NEWER},
            NEWER,
            "STACK RENAMED gpu is now called ml 5 packages 10 more of its specs",
        ),
    ],
    ids=["of a stack", "of a package", "of a renamed stack"],
)
def test_all_specs_that_another_statement_counts_are_added_up(
    run: Run, tmp_path: Path, before: Packages, after: Packages, said: str
) -> None:
    """Two versions of a package are two items."""
    rest = {"rest": [record(8)]}
    output = run("diff", *two_folders(tmp_path, before | rest, after | rest)).output
    assert f"{said} are counted in another statement" in " ".join(output.split())


@pytest.mark.parametrize("stacks", [["e4s", "root"], ["e4s", "ml", "root"]])
@pytest.mark.parametrize(("old", "new"), [("1.0", "1.1"), ("1.1", "1.0")])
def test_versions_that_stay_are_no_upgrade(run: Run, tmp_path: Path, stacks: list[str], old: str, new: str) -> None:
    """Of specs of two versions in the same stacks, one changes its version: in diff and log, nothing rose or fell."""
    one, other, moved = (record(n, versions=[version], stacks=stacks) for n, version in ((1, old), (2, new), (3, old)))
    before, after = ({"zlib": [one, other, each]} for each in (moved, record(4, versions=[new], stacks=stacks)))
    found = compared(run, tmp_path, before, after)
    told = run("diff", tmp_path / "before", tmp_path / "after").output
    logged = run("log", "--repo", history(tmp_path / "r.git", catalogue(before), catalogue(after))).output

    assert [one["kind"] for one in found["statements"]] == ["reconfigured"]
    assert not {"upgraded", "downgraded"} & {*found["packages"][0]["kinds"]}
    assert found["summary"]["specs"]["reconfigured"] == 1
    assert f"zlib  {old} -> {new} ({old} stays)  +1 -1  in {', '.join(stacks[:-1])}" in told
    assert not any(word in f"{told} {logged}".lower() for word in ("upgrade", "downgrade", "(older)"))


def test_versions_that_stay_in_the_selected_stack_are_no_upgrade(run: Run, tmp_path: Path) -> None:
    """Specs that two stacks share went to another version; only the stack that is not selected lost the old one."""
    both: Record = {"stacks": ["e4s", "ml", "root"]}
    kept = [record(n, versions=[version], stacks=["e4s", "root"]) for n, version in ((1, "1.0"), (2, "1.1"))]
    before, after = ({"zlib": [*kept, record(n, versions=[v], **both)]} for n, v in ((3, "1.0"), (4, "1.1")))
    for stack, kind in (("e4s", "reconfigured"), ("ml", "upgraded"), ("*", "upgraded")):
        found = compared(run, tmp_path, before, after, "--stack", stack)
        assert [one["kind"] for one in found["statements"]] == [kind], stack


def test_a_kept_build_of_the_old_version_belongs_to_the_upgrade(run: Run, tmp_path: Path) -> None:
    """Where no stack builds the old version any more but its binary is kept, the upgrade is the cause."""
    before = {"hdf5": [record(1, versions=["1.0"], stacks=["e4s", "root"])]}
    kept, newer = record(1, versions=["1.0"], stacks=["root"]), record(2, versions=["2.0"], stacks=["e4s", "root"])
    after = {"hdf5": [kept, newer]}
    found = compared(run, tmp_path, before, after)

    assert named(found) == [("upgraded", "hdf5")]
    assert one_of(found, "upgraded")["items"] == {"vanished": 0, "new": 1, "kept": 1}


def test_a_stack_that_an_unchanged_document_has_did_not_leave(run: Run, tmp_path: Path) -> None:
    """The bytes of what did not change say that the stack is still there."""
    rest = numbered(20, 500, stacks=["e4s"]) | {"still": [record(900, stacks=["rocm"])]}
    gone = {f"q{n}": [record(n, stacks=["rocm", "root"])] for n in range(9)}
    kept = {name: [found[0] | {"stacks": ["root"]}] for name, found in gone.items()}
    found = compared(run, tmp_path, rest | gone, rest | kept)

    assert named(found) == [("place-lost", "rocm (x86_64_v3)")]
    assert len(one_of(found, "place-lost")["packages"]) == 9


@pytest.mark.parametrize("is_written_before", [True, False])
def test_compilers_that_are_not_given_replaced_nothing(run: Run, tmp_path: Path, is_written_before: bool) -> None:
    """Packages whose documents no longer write compilers, or write them now, were rebuilt; the report says which."""
    written, missing = numbered(8, 100 * is_written_before), numbered(8, 100 * (not is_written_before), compiler=...)
    before, after = (written, missing) if is_written_before else (missing, written)
    found = compared(run, tmp_path, before, after)
    text = run("diff", tmp_path / "before", tmp_path / "after").output

    assert [kind for kind, _ in named(found)] == ["rebuild-wave", "turnover"]
    assert found["summary"]["specs"]["rebuilt"] == 8
    assert all(not one["compilers"]["added"] and not one["compilers"]["removed"] for one in found["packages"])
    assert ("compilers are no longer written" if is_written_before else "compilers are written now") in text
    assert "none" not in text


@pytest.mark.parametrize("name", ["os", "target"])
@pytest.mark.parametrize("is_given_before", [True, False])
def test_systems_or_targets_not_given_replace_none(run: Run, tmp_path: Path, name: str, is_given_before: bool) -> None:
    """There is nothing that one could name behind the arrow, or before it."""
    given, missing = numbered(8, 100 * is_given_before), numbered(8, 100 * (not is_given_before), **{name: ...})
    found = compared(run, tmp_path, *((given, missing) if is_given_before else (missing, given)))

    assert "migration" not in [kind for kind, _ in named(found)]


@pytest.mark.parametrize("compilers", [("gcc@11.4.0", "none"), ("none", "gcc@11.4.0")])
def test_nothing_migrates_to_or_from_no_compiler(run: Run, tmp_path: Path, compilers: tuple[str, str]) -> None:
    """No compiler is no value that somebody could pin: what has one now was built in another way."""
    before, after = (numbered(8, 100 * n, compiler=one) for n, one in enumerate(compilers))

    assert [kind for kind, _ in named(compared(run, tmp_path, before, after))] == ["turnover", "reconfigured"]


def test_a_migration_crosses_systems_and_targets(run: Run, tmp_path: Path) -> None:
    """What is of equal version and variants in one stack belongs together, however it is matched."""
    new = {"compiler": "gcc@13.3.0", "os": "ubuntu24.04", "target": "x86_64_v4"}
    found = compared(run, tmp_path, numbered(8), numbered(8, 100, **new))

    one, turnover = found["statements"]
    assert turnover["turnover"] == {"before": 8, "gone": 8, "rebuilt": 0, "pruned": 0, "others": 8, "is_part": False}
    assert one["from"] == ["gcc@11.4.0", "ubuntu22.04", "x86_64_v3"]
    assert one["to"] == ["gcc@13.3.0", "ubuntu24.04", "x86_64_v4"]
    assert one["items"] == {"vanished": 8, "new": 8, "kept": 0}
    assert one["losses"] == {"gone": 8}


def test_whole_tags_are_judged_whole(run: Run, tmp_path: Path) -> None:
    """Nine of eleven packages go from gcc to llvm: a selection of those says no more than that."""
    before = numbered(11)
    after = numbered(11, 100) | {f"p{n:02}": [record(100 + n, compiler="llvm@19.1.0")] for n in range(9)}
    whole = compared(run, tmp_path, before, after)
    part = compared(run, tmp_path, before, after, "--package", "p0[0-4]")

    assert one_of(whole, "migration")["exceptions"] == ["p09", "p10"]
    one = one_of(part, "migration")
    assert (one["packages"], one["of"]) == ([f"p{n:02}" for n in range(5)], 18)
    assert one["exceptions"] == []  # which still have gcc, and were not asked for
    assert [package["name"] for package in part["packages"]] == one["packages"]


def test_a_collapse_is_judged_whole(run: Run, tmp_path: Path) -> None:
    """Of thirty packages three are left: who looks at one of them hears of that too."""
    before, after = numbered(30), {n: f for n, f in numbered(30, 100).items() if n < "p03"}
    found = compared(run, tmp_path, before, after, "--package", "p29")

    assert named(found)[0] == ("suspicious", "27 of 30 packages are missing")
    assert [event["kind"] for event in found["events"]] == ["suspicious"]


COPIES = {f"p{n}": [record(10 * n + t, target=f"t{t}") for t in range(4)] for n in range(6)}
SUSPICIOUS = "18 of 24 builds of a package for a stack and target are missing"


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        pytest.param(
            numbered(8),
            numbered(8, 100, target="x86_64_v4"),
            [{"kind": "target", "name": "x86_64_v3 -> x86_64_v4", "packages": 8, "specs": 8}],
            id="a target is replaced everywhere",
        ),
        pytest.param(
            COPIES,
            {name: found[:1] for name, found in COPIES.items()},
            [{"kind": "suspicious", "name": SUSPICIOUS, "packages": 6, "specs": 18}],
            id="most places lost their package",
        ),
        pytest.param(
            numbered(4), numbered(4, 100, compiler="gcc@13.2.0"), [], id="of four packages nobody says everywhere"
        ),
        pytest.param(
            numbered(9, 1000) | {"a": records(range(300))},
            numbered(9, 1000) | {"a": records(range(100))},
            [],
            id="one package that shrinks is no collapse: what does not differ is there all the same",
        ),
    ],
)
def test_tag_events(run: Run, tmp_path: Path, before: Packages, after: Packages, events: list[dict[str, Any]]) -> None:
    """They come first, and are complete in the JSON."""
    assert compared(run, tmp_path, before, after)["events"] == events


@pytest.mark.parametrize(("declared", "kinds"), [(["arm", "e4s"], []), (["e4s"], ["stack-removed"])])
def test_what_the_tag_declares_is_believed(run: Run, tmp_path: Path, declared: list[str], kinds: list[str]) -> None:
    """Where documents are not all compared, the list of tags says whether a stack left."""
    before = {"p1": [record(1, stacks=["arm", "e4s"])], "other": records([60])}
    after = before | {"p1": [record(1, stacks=["e4s"])]}
    sides = two_folders(tmp_path, before, after)
    for side, stacks in zip(sides, (["arm", "e4s"], declared), strict=True):
        listed = "".join(f"\n  - {stack}" for stack in (*stacks, "root"))
        write(side, {"_data/tags.yaml": f"- name: develop\n  stacks:{listed}\n".encode()})
    found = run("diff", *sides, "--format", "json").changeset()

    assert [event["kind"] for event in found["events"]] == kinds
