"""What a cache has of an environment: real lock files against real caches, and the odd ones."""

import json
from pathlib import Path
from typing import Any

import pytest
from caches import database, installs, node, put, write_v3
from conftest import Run
from helpers import catalogue, history, record, signature, spec_hash
from test_buildcache_truth import STATES, History, Truth, histories, truths

from cachewatch.coverage import Environment, Need, Standing, compare_coverage, cover
from cachewatch.environments import open_environment, read_lock, read_manifest
from cachewatch.errors import UsageError
from cachewatch.holdings import published
from cachewatch.sources.buildcache.opening import Cache

__all__ = ["histories", "truths"]

LOCKS = [("v3", n) for n in (1, 2, 3, 4, 7, 8, 10)] + [("v2", n) for n in (1, 2, 3, 4, 7, 8)]


@pytest.mark.parametrize(("kind", "number"), LOCKS)
def test_every_lock_file_against_every_state(
    buildcaches: Path, truths: dict[tuple[str, str], Truth], kind: str, number: int
) -> None:
    """By hash, by version, or not at all: worked out once more from the lock file and the tables of TRUTH.md."""
    lock = buildcaches / kind / "env" / str(number) / "spack.lock"
    needed = {h: s for h, s in json.loads(lock.read_bytes())["concrete_specs"].items() if "external" not in s}
    environment = open_environment(lock)
    assert environment.hashes == needed.keys()
    for series, state in STATES:
        specs = truths[series, state].specs
        versions = {(name, version) for name, version, *_ in specs.values()}
        expected = {
            spec_hash: "cached"
            if spec_hash in specs
            else ("other-build" if (spec["name"], spec["version"]) in versions else "from-source")
            for spec_hash, spec in needed.items()
        }
        held = published(Cache(address=str(buildcaches / series / state)), environment.packages)
        found = cover(environment, held.holdings)
        assert {covered.need.hash: covered.standing for covered in found.needs} == expected, (series, state)


@pytest.mark.parametrize(
    ("kind", "number", "state"), [("v3", 1, "1-initial"), ("v3", 8, "8-second-compiler"), ("v2", 4, "4-variant-flip")]
)
def test_an_environment_is_covered_by_its_own_state(
    buildcaches: Path, run: Run, kind: str, number: int, state: str
) -> None:
    """The gate passes then."""
    lock = buildcaches / kind / "env" / str(number)
    result = run(
        "coverage", lock, "--source", buildcaches / kind / state, "--fail-on", "not-cached", "--fail-on", "left-over"
    )

    assert result.exit_code == 0, result.output
    assert "100%" in result.output


def test_in_recorded_revisions(buildcaches: Path, histories: dict[str, History], run: Run) -> None:
    """By the revision that is asked for; JSON has the same facts as the text."""
    recorded, lock = histories["v3"], buildcaches / "v3/env/2/spack.lock"

    def ask(state: str, *more: str) -> tuple[int, Any]:
        revision = recorded.revisions[state]
        result = run("coverage", lock, "--repo", recorded.folder, "--rev", revision, "--format", "json", *more)
        return result.exit_code, json.loads(result.output)

    code, found = ask("2-package-added", "--fail-on", "from-source", "--fail-on", "other-build")
    assert (code, found["counts"]) == (
        0,
        {"specs": 9, "externals": 5, "cached": 9, "other-build": 0, "from-source": 0, "left-over": 0},
    )
    code, found = ask("5-spec-removed-still-referenced", "--fail-on", "from-source")
    assert code == 1
    (gone,) = [spec for spec in found["specs"] if spec["standing"] == "from-source"]
    assert (gone["package"], gone["version"], gone["root"], gone["other_versions"]) == (
        "cw-solver",
        "2.0.0",
        True,
        ["2.1.0"],
    )
    code, found = ask("6-pruned-to-current", "--fail-on", "other-build")
    assert (code, found["counts"]["cached"], found["counts"]["other-build"]) == (1, 5, 3)
    assert found["schema"] == "cachewatch.coverage/1"


def test_what_became_of_an_environment(buildcaches: Path) -> None:
    """Between two states: gone, rebuilt, and how many would now build from source."""
    environment = open_environment(buildcaches / "v3/env/2/spack.lock")

    def at(state: str) -> Any:
        held = published(Cache(address=str(buildcaches / "v3" / state)), environment.packages)
        return cover(environment, held.holdings)

    change = compare_coverage(at("2-package-added"), at("6-pruned-to-current"))
    assert [c.need.package for c in change.gone] == ["cw-solver"]
    assert [c.need.package for c in change.rebuilt] == ["cw-stack", "cw-torch", "cw-torch"]
    assert (change.now_from_source, change.came, bool(change)) == (4, (), True)
    back = compare_coverage(at("6-pruned-to-current"), at("2-package-added"))
    assert (len(back.came), back.now_from_source) == (4, 0)
    assert not compare_coverage(at("8-second-compiler"), at("9-reindex-no-change"))


def need(**values: Any) -> Need:
    """Return a need."""
    return Need(
        **(
            {"package": "zlib", "version": "1.0", "hash": spec_hash(0), "platform": "linux", "os": "ubuntu22.04"}
            | values
        )
    )


def standing(wanted: Need, **values: Any) -> Standing:
    """Hold one need against one spec of another hash."""
    environment = Environment(name="x", needs=(wanted,))
    return cover(environment, {"zlib": {spec_hash(9): signature(**values)}}).needs[0].standing


def test_another_system_is_no_other_build() -> None:
    """Nothing for another operating system or platform can take the place; another target may."""
    assert standing(need()) is Standing.OTHER_BUILD
    assert standing(need(), target="zen5") is Standing.OTHER_BUILD
    assert standing(need(), os="rhel8") is Standing.FROM_SOURCE
    assert standing(need(), platform="darwin") is Standing.FROM_SOURCE
    assert standing(need(), versions=("1.0.1",)) is Standing.FROM_SOURCE
    assert standing(need(hash="", version="1.0", platform="", os=""), versions=("1.0.1",)) is Standing.OTHER_BUILD
    assert standing(need(version="git.main=1.0"), versions=("git.main=1.0",)) is Standing.OTHER_BUILD


def test_left_over_is_announced(tmp_path: Path, run: Run) -> None:
    """A binary that no stack of develop builds any more is there, but not for long; of a snapshot none is pruned."""
    specs = [record(0), record(1, stacks=["root"])]
    state = catalogue({"zlib": specs}) | catalogue({"zlib": specs}, tag="develop-2025-06-01")
    repository = history(tmp_path / "r.git", state)
    lock = tmp_path / "spack.lock"
    lock.write_text(json.dumps(lock_of(6, [0, 1])))
    result = run("coverage", lock, "--repo", repository, "--fail-on", "left-over")

    assert result.exit_code == 1
    assert "left over: no stack builds these any more, the next prune takes them (1)" in result.output
    assert f"zlib@1.0/{spec_hash(1)[:7]}" in result.output
    assert (
        run("coverage", lock, "--repo", repository, "--tag", "develop-2025-06-01", "--fail-on", "left-over").exit_code
        == 0
    )


def lock_of(version: int, numbers: list[int], **values: Any) -> dict[str, Any]:
    """Return a lock file of so many specs of zlib."""
    arch = {"platform": "linux", "platform_os": "ubuntu22.04", "target": {"name": "x86_64_v3"}}
    spec = {"name": "zlib", "version": "1.0", "arch": arch}
    return {
        "_meta": {"file-type": "spack-lockfile", "lockfile-version": version, "specfile-version": 4},
        "roots": [{"hash": spec_hash(number), "spec": "zlib"} for number in numbers[:1]],
        "concrete_specs": {spec_hash(number): spec for number in numbers},
    } | values


@pytest.mark.parametrize("version", [4, 5, 6, 7, 8])
def test_lock_files_of_all_versions(version: int) -> None:
    """From 4 on they name the hashes that caches name."""
    environment = read_lock(json.dumps(lock_of(version, [0, 1])).encode(), "spack.lock")

    assert environment.versions == {("zlib", "1.0")}
    assert [(n.hash, n.is_root, n.target) for n in environment.needs] == [
        (spec_hash(0), True, "x86_64_v3"),
        (spec_hash(1), False, "x86_64_v3"),
    ]


def test_included_environments_count() -> None:
    """What an environment includes from another is needed as well."""
    lock = lock_of(5, [0], include_concrete={"/other": lock_of(5, [7])})

    assert read_lock(json.dumps(lock).encode(), "x").hashes == {spec_hash(0), spec_hash(7)}


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b"spack:", json.dumps(lock_of(3, [0])).encode(), b'{"_meta": {"lockfile-version": "x"}}'],
)
def test_what_is_no_lock_file(data: bytes, tmp_path: Path, run: Run) -> None:
    """Is refused in a sentence."""
    put(tmp_path / "spack.lock", data)
    result = run("coverage", tmp_path / "spack.lock")

    assert (result.exit_code, result.output) == (2, "")
    assert str(tmp_path / "spack.lock") in result.error


MANIFEST = b"""
spack:
  definitions:
  - compilers: ['%gcc@12.2.0']
  - when: os == "x"
    tools: [cmake@3.25:3.27, builtin.ninja +x]
  specs:
  - hdf5@1.14 ~mpi
  - $tools
  - matrix:
    - [zlib, zlib@=1.3]
    - [$compilers]
  view: false
"""


def test_a_manifest_without_a_lock_file(tmp_path: Path, run: Run) -> None:
    """Only versions can be looked up then, and the report says so."""
    put(tmp_path / "env/spack.yaml", MANIFEST)
    write_v3(
        tmp_path / "mirror", database(installs(node("hdf5", "1.14.6"), node("cmake", "3.28"), node("zlib", "1.2")))
    )
    result = run("coverage", tmp_path / "env", "--source", tmp_path / "mirror", "--fail-on", "from-source")

    assert [(n.package, n.version) for n in read_manifest(MANIFEST, "x").needs] == [
        ("cmake", "3.25:3.27"),
        ("hdf5", "1.14"),
        ("ninja", ""),
        ("zlib", ""),
        ("zlib", "=1.3"),
    ]
    assert result.exit_code == 1
    assert "It names no hashes" in result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "cmake@3.25:3.27 (root) there is 3.28" in lines
    assert "ninja (root) there is none" in lines
    assert "hdf5@1.14 (root) 1 other build" in lines


def test_the_lock_file_beside_a_manifest_is_used(tmp_path: Path) -> None:
    """It knows better; a folder is looked through in the same order."""
    put(tmp_path / "spack.yaml", MANIFEST)
    put(tmp_path / "spack.lock", json.dumps(lock_of(6, [0])).encode())

    for path in (tmp_path / "spack.yaml", tmp_path):
        assert open_environment(path).hashes == {spec_hash(0)}


@pytest.mark.parametrize(
    "data",
    [
        b"a: b",
        b"- x",
        b"spack: x",
        b"spack: {specs: ['@1.2']}",
        b"spack: {specs: [zlib@2:1]}",
        b"\0",
        b"spack: &a [*a]",
    ],
)
def test_what_is_no_manifest(data: bytes) -> None:
    """Is refused in a sentence."""
    with pytest.raises(UsageError):
        read_manifest(data, "spack.yaml")


def test_definitions_that_name_themselves_end() -> None:
    """And matrices of any size."""
    rows = ", ".join(["[a, b, c, d, e, f, g, h, i, j]"] * 12)
    assert read_manifest(b"spack: {definitions: [{a: [$a, zlib]}], specs: [$a]}", "x").packages == {"zlib"}
    assert read_manifest(f"spack: {{specs: [{{matrix: [{rows}]}}]}}".encode(), "x").packages


def test_a_source_that_lacks_the_tag(tmp_path: Path, run: Run) -> None:
    """Or that is named beside a repository."""
    checksum = write_v3(tmp_path / "develop", database(installs(node("zlib"))))
    entry = {"label": "root", "url": f"s3://b/develop/blobs/sha256/{checksum[:2]}/{checksum}"}
    put(tmp_path / "cache_spack_io_index.json", json.dumps({"develop": [entry]}).encode())
    put(tmp_path / "spack.lock", json.dumps(lock_of(6, [0])).encode())
    command = ["coverage", tmp_path / "spack.lock", "--source", tmp_path / "cache_spack_io_index.json"]

    assert run(*command).exit_code == 0
    assert run(*command, "--tag", "v1.0.0").exit_code == 2
    assert run(*command, "--repo", tmp_path).exit_code == 2


def test_a_document_that_cannot_be_read(tmp_path: Path, run: Run) -> None:
    """Is named, and the exit code says that the answer is not whole."""
    repository = history(
        tmp_path / "r.git", catalogue({"cmake": [record(4)]}) | {"_cache/develop/zlib/specs.md": b"<html>"}
    )
    put(tmp_path / "spack.lock", json.dumps(lock_of(6, [0])).encode())
    result = run("coverage", tmp_path / "spack.lock", "--repo", repository)

    assert result.exit_code == 4
    assert "_cache/develop/zlib/specs.md" in result.error
