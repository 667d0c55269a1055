"""What depends on a package in caches that a real Spack wrote: `cachewatch impact`, and `cachewatch show` with ^."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from caches import database, edge, installs, node, write_v2
from conftest import Run
from helpers import spec_hash
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
    """A compiler that is no binary has dependents, too; a leaf has none."""
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


def hashes(run: Run, repository: Path, *words: str) -> set[str]:
    """Return the hashes of the specs that `show` finds."""
    done = run("show", *words, "--repo", repository, "--format", "json")
    assert done.exit_code == 0, done.error
    return {spec["hash"] for package in json.loads(done.output)["packages"] for spec in package["specs"]}


@pytest.mark.parametrize("kind", ["v3", "v2"])
def test_dependents_are_those_of_the_index(
    run: Run, histories: dict[str, History], buildcaches: Path, kind: str
) -> None:
    """Of each version of each package in the cache, at any depth; those of two packages are those of both."""
    state = V3[7]
    records = read_index(buildcaches / kind / state)["database"]["installs"]

    def below(key: str) -> Iterator[str]:
        spec: Any = records[key]["spec"]
        for each in spec.get("dependencies") or ():
            found = each.get("hash") or each["parameters"]["hash"]
            yield found
            yield from below(found)

    at = ("--rev", histories[kind].revisions[state])
    found = {}
    for name, version in {(each["spec"]["name"], each["spec"]["version"]) for each in records.values()}:
        wanted = {
            key
            for key, each in records.items()
            if each["in_buildcache"]
            and any(
                (one["name"], one["version"]) == (name, version) for one in (records[b]["spec"] for b in below(key))
            )
        }
        if wanted:
            found[name] = hashes(run, histories[kind].folder, f"^{name}@={version}", *at)
            assert found[name] == wanted, (name, version)
    assert {"zlib", "hdf5"} < found.keys()
    assert hashes(run, histories[kind].folder, "@:", "^zlib", "^hdf5", *at) == found["zlib"] & found["hdf5"] != set()


def test_dependencies_as_spack_writes_them(run: Run, tmp_path: Path) -> None:
    """A dependency has the whole syntax, and may be named as a virtual package; what no spec has is named."""
    arch = {"platform": "linux", "platform_os": "debian12", "target": "zen4"}
    specs = installs(
        node("zlib", "1.3", arch=arch, dependencies=[]),
        node("openmpi", "5.0", dependencies=[edge("zlib", spec_hash(0))]),
        node("hdf5", "1.14", dependencies=[edge("openmpi", spec_hash(1), "mpi")]),
        node("hdf5", "1.14", dependencies=[edge("zlib", spec_hash(0))]),
    )
    write_v2(tmp_path / "mirror", database(specs))
    made = tmp_path / "c.git"
    assert run("record", tmp_path / "mirror", "--into", made).exit_code == 0
    for dependency, found in {
        "^mpi": {2},
        "^openmpi@5:": {2},
        "^zlib@1.3 target=zen3:": {2, 3},
        f"^/{spec_hash(0)}": {2, 3},
        "^zlib ^openmpi": {2},
        "^*mpi": {2},
    }.items():
        assert hashes(run, made, f"hdf5@1.14 {dependency}") == set(map(spec_hash, found)), dependency
    virtual = "; versions of virtual packages are not recorded, so write ^mpi\n"
    for pattern in ("hdf5 ^mpi@3", "hdf5 ^zlib ^mpi@3", "^mpi@3"):
        assert run("show", pattern, "--repo", made).error.endswith(virtual)
    for lacking in ("^zlib@1.4", "^zlib target=zen3", "^hdf5", "^zlib ^cmake"):
        done = run("show", f"hdf5 {lacking}", "--repo", made)
        assert (done.exit_code, done.error) == (
            2,
            f"cachewatch: hdf5 {lacking}: no such spec depends on {lacking[1:]}\n",
        )
    assert run("show", "^cmake", "--repo", made).error.endswith("^cmake: no package that matches has such a spec\n")
    assert run("show", "hdf5 ^", "--repo", made).error.endswith("hdf5 ^: write the name of a package behind ^\n")


def check(run: Run, name: str, *arguments: object) -> dict[str, Any]:
    """Run a command, check its JSON, and return it."""
    result = run(name, *arguments, "--format", "json")
    assert (result.exit_code, result.error) == (0, "")
    found: dict[str, Any] = json.loads(result.output)
    schema = json.loads(run("help", "schema", name).output)
    jsonschema.validate(found, schema, cls=jsonschema.Draft202012Validator)
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
    """One spec, several of a package, none, and all between two revisions."""
    history = histories["v3"]
    found = check(run, "why", *(history.revisions.get(word, word) for word in asked), "--repo", history.folder)

    assert found.keys() == {"schema", "recorded"} | members


@pytest.mark.parametrize(
    ("kind", "asked", "rebuilt"),
    [("v3", "zlib", (5, 9)), ("v3", "gcc", (8, 9)), ("v3", "cw-stack@2026.05", (0, 9)), ("v2", "zlib", (5, 8))],
)
def test_impact(run: Run, histories: dict[str, History], kind: str, asked: str, rebuilt: tuple[int, int]) -> None:
    """Of a library, of a compiler that is no binary, and of what nothing depends on."""
    place = ("--repo", histories[kind].folder, "--rev", histories[kind].revisions[V3[6]])
    found = check(run, "impact", asked, *place)
    assert (found["specs"], found["of_specs"]) == rebuilt
    assert sum(package["specs"] for package in found["packages"]) == found["specs"]
