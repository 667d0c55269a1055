"""How an index is read: every form of a spec since Spack 0.10, and the way back from documents to an index."""

import gzip
import json
import re
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from caches import GCC, Installs, binaries, catalogued, database, edge, installs, many, node, put, write_v3
from conftest import ROOT, Run
from helpers import spec_hash
from hypothesis import given, settings
from hypothesis import strategies as st
from indexes import run_git
from msgspec.structs import replace

from cachewatch.documents.recognition_and_front_matter import read_tags_file, write_tags_file
from cachewatch.documents.records_parsing_diagnostics import Binary, parse, write_document
from cachewatch.errors import RefusedAddress, SourceError
from cachewatch.extensions.buildcaches import mirrors_and_registries as mirrors
from cachewatch.extensions.buildcaches.indexes_and_published_tags import Cache, CacheIndex, read_index
from cachewatch.extensions.buildcaches.mirrors_and_registries import Validator, fetch_index, open_mirror, parse_address
from cachewatch.extensions.buildcaches.recording_and_suspicion import record

LLVM = "l" * 32


def only(found: Installs, version: str = "8") -> Binary:
    index = read_index(database(found, version), "index")
    assert index.diagnostics == ()
    (binary,) = binaries(index)
    return binary


def old(name: str, **values: Any) -> dict[str, Any]:
    """Return a spec of forms 2 to 4, which names its compiler."""
    return node(name, **({"compiler": {"name": "gcc", "version": "8.5.0"}, "dependencies": []} | values))


FORMS = {
    "5": {"zlib": {key: value for key, value in old("zlib").items() if key != "name"}},
    "6": old("zlib", dependencies=[{"name": "cmake", "hash": "c" * 32, "type": ["build"]}]),
    "7": old("zlib", dependencies=[edge("cmake", "c" * 32)]),
    "8": node("zlib", dependencies=[edge("gcc", "o" * 32, "c")]),
    "9": node("zlib", dependencies=[edge("gcc", "o" * 32, "c")], provided_virtuals=["zlib-api"]),
}


@pytest.mark.parametrize("version", FORMS)
def test_every_form_of_a_spec(version: str) -> None:
    found = installs(FORMS[version])
    found["o" * 32] = {"spec": node("gcc", "8.5.0", dependencies=[]), "in_buildcache": False}
    index = read_index(database(found, version), "index")

    (one,) = binaries(index)
    assert (one.package, one.version, one.compiler, one.target) == ("zlib", "1.0", "gcc@8.5.0", "x86_64_v3")
    assert [diagnostic.is_loss for diagnostic in index.diagnostics] == ([False] if version == "9" else [])


def test_dependencies_by_name() -> None:
    wrapped = {"a": {**node("a", dependencies={"gcc": {"hash": GCC, "type": ["build"], "virtuals": ["c"]}})}}

    assert only(installs(wrapped)).compiler == "gcc@12.2.0"


@pytest.mark.parametrize(
    "target", ["zen2", {"name": "zen2", "vendor": "AMD", "features": ["avx2"], "generation": 0, "parents": []}]
)
def test_targets_have_two_forms(target: Any) -> None:
    arch = {"platform": "linux", "platform_os": "rhel8", "target": target}

    assert (only(installs(node(arch=arch))).target, only(installs(node(arch=arch))).os) == ("zen2", "rhel8")


COMPILERS: dict[str, tuple[dict[str, Any], str]] = {
    "its own": ({"compiler": {"name": "clang", "version": "14.0.6"}}, "clang@14.0.6"),
    "its own before edges": (
        {"compiler": {"name": "clang", "version": "14"}, "dependencies": [edge("gcc", GCC, "c")]},
        "clang@14",
    ),
    "its own, empty": ({"compiler": None, "dependencies": [edge("gcc", GCC, "c")]}, "gcc@12.2.0"),
    "as text": ({"compiler": "gcc@=9.1"}, "gcc@9.1"),
    "without version": ({"compiler": {"name": "gcc"}}, "gcc"),
    "C before others": ({"dependencies": [edge("gcc", GCC, "fortran"), edge("llvm", LLVM, "c", "cxx")]}, "llvm@14.0.6"),
    "C++ before Fortran": ({"dependencies": [edge("gcc", GCC, "fortran"), edge("llvm", LLVM, "cxx")]}, "llvm@14.0.6"),
    "Fortran alone": ({"dependencies": [edge("llvm", LLVM, "x"), edge("gcc", GCC, "fortran")]}, "gcc@12.2.0"),
    "runtimes are none": ({"dependencies": [edge("gcc-runtime", GCC, "fortran-rt", "libgfortran")]}, "none"),
    "not in the index": ({"dependencies": [edge("nvhpc", "n" * 32, "c")]}, "nvhpc"),
    "its past": ({"annotations": {"original_specfile_version": 4, "compiler": "gcc@=12.2.0"}}, "gcc@12.2.0"),
    "edges before its past": (
        {"annotations": {"compiler": "gcc@=9"}, "dependencies": [edge("llvm", LLVM, "c")]},
        "llvm@14.0.6",
    ),
    "none at all": ({}, "none"),
    "odd": ({"dependencies": [7, {"name": "gcc"}, {"name": 1, "hash": 2}, edge("gcc", GCC, "cxx")]}, "gcc@12.2.0"),
    "odd virtuals": ({"dependencies": [{"name": "gcc", "hash": GCC, "parameters": {"virtuals": "c"}}]}, "none"),
}


@pytest.mark.parametrize("case", COMPILERS)
def test_compilers(case: str) -> None:
    """By its own word, then by its dependencies, then by its past, else none."""
    values, compiler = COMPILERS[case]
    found = installs(node(**({"dependencies": []} | values)))
    found[LLVM] = {"spec": node("llvm", "14.0.6", dependencies=[]), "in_buildcache": False}

    assert only(found).compiler == compiler


def test_variants_are_shown_as_upstream_shows_them() -> None:
    """By name, without flags; switches, values, sets of values, patches by seven digits, quotes where needed."""
    parameters = {
        "shared": True,
        "asan": False,
        "build_system": "cmake",
        "cuda_arch": ["80", "90"],
        "amdgpu_target": ["none"],
        "languages": ["c", "c++", "fortran"],
        "patches": ["d0b9276ac0f5f6f2", "ad23cca0000"],
        "path": "/opt/a b",
        "said": "it's",
        "cflags": ["-O2"],
        "ldlibs": [],
    }
    variants = only(installs(node(parameters=parameters))).variants

    values = (
        "cuda_arch:=80,90",
        "languages:='c,c++,fortran'",
        "patches:=d0b9276,ad23cca",
        "path='/opt/a b'",
        'said="it\'s"',
    )
    assert variants == ("amdgpu_target:=none", "~asan", "build_system=cmake", *values, "+shared")


def test_patches_and_propagation_beside_the_parameters() -> None:
    spec = node(parameters={"shared": True, "api": "v1"}, patches=["0123456789"], propagate=["shared", "api"])

    assert only(installs(spec)).variants == ("api==v1", "patches:=0123456", "++shared")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=30)
@given(
    st.dictionaries(
        st.sampled_from(["name", "version", "arch", "parameters", "dependencies", "compiler", "annotations"]),
        json_values,
    )
)
def test_no_record_stops_the_others(values: dict[str, Any]) -> None:
    index: CacheIndex = read_index(database(installs(node("zlib"), node("cmake") | values)), "index")

    assert "zlib" in [binary.package for binary in binaries(index)]
    assert len(binaries(index)) + len(index.diagnostics) == 2
    for binary in binaries(index):
        document = write_document(binary.package, "develop", [replace(binary, stacks=("e4s",))])
        assert parse(document, "specs.md").diagnostics == ()


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_with_a_reason(data: bytes) -> None:
    for read in (read_index, mirrors.read_manifest):
        with pytest.raises(SourceError):
            read(data, "here")


def nested(depth: int) -> bytes:
    opening, closing = b'{"a":' * depth, b"}" * depth
    odd = b'"%s": {"in_buildcache": true, "spec": %s1%s}, ' % (b"d" * 32, opening, closing)
    return database(many(1)).replace(b'"installs": {', b'"installs": {' + odd)


def test_deep_nesting_stops_nothing_else() -> None:
    index = read_index(nested(100), "x")

    assert (len(binaries(index)), len(index.diagnostics)) == (1, 1)
    with pytest.raises(SourceError, match="recursion"):
        read_index(nested(100_000), "x")


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_the_blob_may_be_packed(tmp_path: Path, compression: str) -> None:
    write_v3(tmp_path, database(many(4)), compression=compression)
    file = fetch_index(open_mirror(tmp_path, {}), Validator())

    assert file is not None
    assert len(binaries(read_index(file.content, "index"))) == 4


def test_a_view_is_an_index_of_its_own(tmp_path: Path) -> None:
    write_v3(tmp_path, database(many(4)))
    write_v3(tmp_path, database(many(2)), view="team/gpu")
    mirror = open_mirror(tmp_path, {})
    file = fetch_index(mirror, Validator(), view="team/gpu")

    assert file is not None
    assert len(binaries(read_index(file.content, "index"))) == 2
    for view in ("other", "../x", "a b"):
        with pytest.raises(SourceError):
            fetch_index(mirror, Validator(), view=view)


def test_a_folder_that_is_no_cache(tmp_path: Path) -> None:
    put(tmp_path / "README", b"hello")
    with pytest.raises(SourceError, match=r"there is no index here, neither v3.* nor .*update-index"):
        fetch_index(open_mirror(tmp_path, {}), Validator())
    with pytest.raises(SourceError, match="no such folder"):
        open_mirror(tmp_path / "missing", {})
    with pytest.raises(SourceError, match="leads out"):
        open_mirror(tmp_path, {}).get("../etc/passwd")


def test_addresses() -> None:
    assert parse_address("/srv/cache") == Path("/srv/cache")
    assert parse_address("file:///srv/a%20cache") == Path("/srv/a cache")
    assert parse_address("https://host/cache/") == "https://host/cache"
    assert parse_address("oci://ghcr.io/spack/cache") == mirrors.Registry("https://ghcr.io", "spack/cache")
    assert parse_address("oci+http://127.0.0.1:5000/a/b") == mirrors.Registry("http://127.0.0.1:5000", "a/b")
    others = ("file://h/x", "gopher://x/y")
    for address in ("https://host/x?token=1", "https://host/x#y", "oci://host/Image", "oci://u:p@host/x", *others):
        with pytest.raises(RefusedAddress):
            parse_address(address)


def test_the_list_of_tags_comes_back() -> None:
    """Whatever names look like to YAML."""
    stacks = {
        "develop": frozenset({"e4s", "1.0", "null"}),
        "v0.23.1": frozenset[str](),
        "develop-2025-01-05": frozenset({"yes"}),
    }

    assert read_tags_file(write_tags_file(stacks)) == stacks
    assert re.findall("name: (.*)", write_tags_file(stacks).decode()) == ["develop", "v0.23.1", "develop-2025-01-05"]


def as_catalogue(documents: Iterable[bytes], bucket: Path) -> str:
    """Publish documents as the caches that they tell of, and return the address of the list."""
    by_tag: dict[str, dict[str, Installs]] = {}
    for document in documents:
        text = document.decode()
        package, tag = (re.search(pattern, text)[1] for pattern in ('title: "(.*)"', r"\[package, (.*)\]"))  # type: ignore[index]
        for spec in json.loads(re.search("^spec_details: (.*)$", text, re.MULTILINE)[1]):  # type: ignore[index]
            for stack in spec["stacks"]:
                found = by_tag.setdefault(tag, {}).setdefault(stack, {})
                found[spec["hash"]] = {"spec": as_node(package, spec, found), "in_buildcache": True}
    listed = {
        tag: [
            catalogued(bucket, f"{tag}/{stack}".removesuffix("/root"), stack, found) for stack, found in stacks.items()
        ]
        for tag, stacks in by_tag.items()
    }
    put(bucket / "cache_spack_io_index.json", json.dumps(listed).encode())
    return str(bucket / "cache_spack_io_index.json")


def as_node(package: str, spec: dict[str, Any], found: Installs) -> dict[str, Any]:
    """Return the node that a record of a document tells of; its compiler becomes a dependency."""
    name, _, version = spec["compiler"].partition("@")
    dependencies = []
    if name != "none":
        compiler = f"{name}{version}".replace(".", "").replace("-", "").ljust(32, "0")[:32]
        found[compiler] = {"spec": node(name, version, dependencies=[]), "in_buildcache": False}
        dependencies = [edge(name, compiler, "c", "cxx")]
    arch = {"platform": spec["platform"], "platform_os": spec["os"], "target": spec["target"]}
    parameters = as_parameters(spec["variants"])
    return node(package, spec["versions"][0], arch=arch, parameters=parameters, dependencies=dependencies)


def as_parameters(variants: Iterable[str]) -> dict[str, Any]:
    """Return what variants were before they were shown."""
    parameters: dict[str, Any] = {}
    for variant in variants:
        name, equals, value = variant.partition("=")
        if not equals:
            parameters[variant[1:]] = variant[0] == "+"
        elif name.endswith(":"):
            parameters[name[:-1]] = value.strip("'").split(",")
        else:
            parameters[name] = value
    return parameters


def test_the_seeds_come_back_byte_for_byte(tmp_path: Path) -> None:
    """All five, with their eight stacks, through indexes and the recorder."""
    seeds = sorted((ROOT / "demo").glob("*.md"))
    address = as_catalogue([path.read_bytes() for path in seeds], tmp_path / "bucket")
    done = record(Cache(address=address), tmp_path / "catalogue.git")

    assert (done.held, done.failed, done.diagnostics) == ((), (), ())
    assert ([count.tag for count in done.tags], len(seeds)) == (["develop"], 5)
    for path in seeds:
        shown = run_git(tmp_path / "catalogue.git", "show", f"HEAD:_cache/develop/{path.stem}/specs.md")
        assert shown == path.read_text(), path


def test_gzip_of_a_listed_index(tmp_path: Path) -> None:
    data = gzip.compress(database(many(3)), mtime=0)
    checksum = write_v3(tmp_path / "v1.0.0", database(many(3)), compression="gzip")
    assert (tmp_path / "v1.0.0/blobs/sha256" / checksum[:2] / checksum).read_bytes() == data
    entry = {"label": "root", "url": f"s3://b/v1.0.0/blobs/sha256/{checksum[:2]}/{checksum}"}
    put(tmp_path / "cache_spack_io_index.json", json.dumps({"v1.0.0": [entry]}).encode())

    assert record(Cache(address=str(tmp_path), is_catalogue=True), tmp_path / "catalogue.git").tags[0].specs == 3


def compact(found: dict[str, Any], version: object = "8") -> bytes:
    """Return an index without blanks, as Spack 1.0 writes it."""
    return json.dumps({"database": {"version": version, "installs": found}}, separators=(",", ":")).encode()


FOUR = installs(node("hdf5", dependencies=[edge("zlib", spec_hash(1))]), node(), node("gmp", "3", external={}), node())


def test_reading_takes_a_fraction_of_the_size() -> None:
    """The specs are in a temporary file, and their records are not copied out of the index."""
    content = compact(installs(*(node(f"p{number % 300}", annotations={"a": "b" * 300}) for number in range(6000))))
    read_index(compact(FOUR), "x", wants_graph=True)
    tracemalloc.start()
    index = read_index(content, "x", wants_graph=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert len(index.specs) == 6000
    assert peak < 0.6 * len(content)


def test_no_room_for_the_temporary_file(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **options: Path("/dev/full").open("r+b", **options))  # noqa: SIM115
    write_v3(tmp_path / "mirror", compact(FOUR))
    error = run("record", tmp_path / "mirror", "--into", tmp_path / "catalogue.git").error_of(3)
    assert "Traceback" not in error
    assert "No space left on device, so the index cannot be read; TMPDIR names another" in error
