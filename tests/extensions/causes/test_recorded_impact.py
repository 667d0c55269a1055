"""What depends on a package in caches that a real Spack wrote: `cachewatch impact`, and `cachewatch show` with ^."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    result = run("impact", asked, "--repo", histories["v3"].folder)

    assert (result.exit_code, message in result.error) == (2, True)


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
