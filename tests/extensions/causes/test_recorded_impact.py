"""What depends on a package in caches that a real Spack wrote: `cachewatch impact`."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import Run
from truths import V3, History, read_index


def test_what_a_new_zlib_rebuilt_is_its_impact(run: Run, histories: dict[str, History]) -> None:
    """State 7 rebuilt exactly what depended on zlib in state 6."""
    history = histories["v3"]
    at = ("--rev", history.revisions[V3[5]], "--repo", history.folder)
    found = json.loads(run("impact", "zlib", *at, "--format", "json").output)
    between = (history.revisions[V3[5]], history.revisions[V3[6]])
    night = json.loads(run("why", "--between", *between, "--repo", history.folder, "--format", "json").output)

    assert {one["name"] for one in found["packages"]} == {"cw-solver", "cw-stack", "cw-torch", "hdf5"}
    assert {one["name"] for one in found["packages"] if one["direct"]} >= {"cw-torch", "hdf5"}
    assert found["specs"] == night["causes"][0]["specs"] - 1  # zlib itself
    assert (found["of_specs"], found["stacks"]) == (9, [{"stack": "cache", "specs": 5, "packages": 4}])


def test_for_people(run: Run, histories: dict[str, History]) -> None:
    at = ("--rev", histories["v3"].revisions[V3[5]], "--repo", histories["v3"].folder)
    gcc, leaf = run("impact", "gcc", *at), run("impact", "cw-stack@2026.05", *at)

    assert (gcc.exit_code, leaf.exit_code) == (0, 0)
    assert gcc.output.startswith("gcc in develop at ")
    assert "\ncache  " in gcc.output
    assert "  yes\n" in gcc.output
    assert leaf.output.endswith(": 0 dependent specs of 0 packages (of 9 specs in the tag)\n")


@pytest.mark.parametrize(
    ("asked", "message"), [("nosuch", "no spec of this revision is or uses it"), ("zlib@9", "no spec of this revision")]
)
def test_nothing_of_that_name(run: Run, histories: dict[str, History], asked: str, message: str) -> None:
    assert message in run("impact", asked, "--repo", histories["v3"].folder).error_of(2)


def check(run: Run, name: str, *arguments: object) -> dict[str, Any]:
    result = run(name, *arguments, "--format", "json")
    assert (result.exit_code, result.error) == (0, "")
    found: dict[str, Any] = json.loads(result.output)
    jsonschema.validate(found, json.loads(run("help", "schema", name).output), cls=jsonschema.Draft202012Validator)
    return found


@pytest.mark.parametrize(
    ("asked", "members"),
    [
        (("/eegwaws",), {"spec", "predecessor", "causes"}),
        (("zlib",), {"spec", "predecessor", "causes"}),
        (("cw-torch", "--rev", V3[6]), {"package", "specs"}),
        (("cw-torch", "--between", V3[6], V3[6]), {"package", "specs"}),
        (("zlib", "--rev", V3[0]), {"package", "specs"}),
        (("--between", V3[7], V3[8]), {"causes"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_why(run: Run, histories: dict[str, History], asked: tuple[str, ...], members: set[str]) -> None:
    history = histories["v3"]
    found = check(run, "why", *(history.revisions.get(word, word) for word in asked), "--repo", history.folder)

    assert found.keys() == {"schema", "recorded"} | members


@pytest.mark.parametrize(
    ("kind", "asked", "rebuilt"),
    [("v3", "zlib", (5, 9)), ("v3", "gcc", (8, 9)), ("v3", "cw-stack@2026.05", (0, 9)), ("v2", "zlib", (5, 8))],
)
def test_impact(run: Run, histories: dict[str, History], kind: str, asked: str, rebuilt: tuple[int, int]) -> None:
    place = ("--repo", histories[kind].folder, "--rev", histories[kind].revisions[V3[6]])
    found = check(run, "impact", asked, *place)
    assert (found["specs"], found["of_specs"]) == rebuilt
    assert sum(package["specs"] for package in found["packages"]) == found["specs"]


@pytest.mark.parametrize("kind", ["v3", "v2"])
def test_dependents_are_as_in_the_index(run: Run, histories: dict[str, History], buildcaches: Path, kind: str) -> None:
    """Of each version of each package that the index knows, at any depth."""
    records = read_index(buildcaches / kind / V3[7])["database"]["installs"]
    place = ("--rev", histories[kind].revisions[V3[7]], "--repo", histories[kind].folder)

    def below(key: str) -> Iterator[tuple[str, str]]:
        for each in records[key]["spec"].get("dependencies") or ():
            found = each.get("hash") or each["parameters"]["hash"]
            yield records[found]["spec"]["name"], records[found]["spec"]["version"]
            yield from below(found)

    binaries = {key: each["spec"]["name"] for key, each in records.items() if each["in_buildcache"]}
    for name, version in {(each["spec"]["name"], each["spec"]["version"]) for each in records.values()}:
        found = check(run, "impact", f"{name}@{version}", *place)["packages"]
        wanted = Counter(dependent for key, dependent in binaries.items() if (name, version) in below(key))
        assert {each["name"]: each["specs"] for each in found} == wanted, (name, version)
