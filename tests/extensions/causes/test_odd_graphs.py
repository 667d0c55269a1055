"""Graphs that no Spack of today writes, or a damaged index has: recorded, and explained by `why`."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from caches import database, edge, node, write_v2, write_v3
from conftest import ROOT, Run
from helpers import graph_spec, spec_hash

from cachewatch.core.graphs_and_attribution import SPACK, Dependency, GraphNode, Nodes
from cachewatch.extensions.causes.predecessors_and_causes import Walk

NODES = {name: spec_hash(number) for number, name in enumerate(("hdf5", "zlib", "python", "old-python", "mpi"), 10)}
NEW = {name: spec_hash(number) for number, name in enumerate(("hdf5", "zlib", "python", "old-python", "mpi"), 20)}
OLD_COMPILER = {"name": "gcc", "version": "12.2.0"}

Index = dict[str, dict[str, Any]]


def spec(name: str, version: str = "1.0", *edges: Mapping[str, Any], **values: Any) -> dict[str, Any]:
    """Return a node with these dependencies and no compiler."""
    return node(name, version, dependencies=list(edges)) | {"package_hash": "recipe", "namespace": "builtin"} | values


def index(hashes: Mapping[str, str], *nodes: dict[str, Any], others: tuple[str, ...] = ()) -> Index:
    """Return records of these nodes, by the hashes of their packages; `others` are no binaries."""
    return {
        hashes[each["name"]]: {"spec": each, "ref_count": 0, "in_buildcache": each["name"] not in others}
        for each in nodes
    }


def why(run: Run, tmp_path: Path, states: list[bytes], *asked: str, warning: str = "", layout: int = 3) -> str:
    """Record these states, and return what `why` says of the last step; its JSON is what the schema says."""
    repository = tmp_path / "catalogue.git"
    for state in states:
        (write_v3 if layout == 3 else write_v2)(tmp_path / "mirror", state)
        assert warning in run("record", tmp_path / "mirror", "--into", repository, "--force").error_of(0)
    text = run("why", *asked, "--repo", repository)
    found = run("why", *asked, "--repo", repository, "--format", "json")
    assert (text.exit_code, text.error, found.exit_code) == (0, "", 0)
    schema = json.loads((ROOT / "cachewatch/extensions/causes/schemas/why.schema.json").read_text())
    jsonschema.validate(json.loads(found.output), schema, cls=jsonschema.Draft202012Validator)
    return text.output


def both(before: Index, after: Index) -> list[bytes]:
    return [database(before), database(after)]


ODD_EDGES: list[Any] = [{"name": "zlib"}, {"hash": "x"}, 3, None, {"name": 1, "hash": 2}, []]


def odd(name: str, hashes: Mapping[str, str], *nodes: dict[str, Any], **values: Any) -> Index:
    """Return an index of hdf5, which depends on a package, and of these nodes; an external is no binary."""
    hdf5 = spec("hdf5", "1.0", edge(name, hashes[name]), *values.pop("more", ()), **values)
    return index(hashes, hdf5, *nodes, others=tuple(each["name"] for each in nodes if "external" in each))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        pytest.param(
            odd("zlib", NODES, spec("zlib")),
            odd("zlib", NEW),
            ["zlib differs, and the recorded graph does not describe it\n      hdf5 <- zlib"],
            id="a dependency that the index does not have: what it is, nobody can know",
        ),
        pytest.param(
            odd("zlib", NODES, spec("zlib", "1.3", edge("hdf5", NODES["hdf5"]))),
            odd("zlib", NEW, spec("zlib", "1.4", edge("hdf5", NEW["hdf5"]))),
            ["zlib 1.3 -> 1.4\n      hdf5 <- zlib"],
            id="specs that depend on each other",
        ),
        pytest.param(
            odd("mpi", NODES, spec("mpi", "1")),
            odd("mpi", NEW, spec("mpi", "2"), build_spec={"name": "hdf5", "hash": NODES["hdf5"]}),
            ["the dependencies of hdf5 were replaced after it was built (spliced)", "mpi 1 -> 2\n      hdf5 <- mpi"],
            id="a spliced spec",
        ),
        *(
            pytest.param(
                odd("mpi", NODES, spec("mpi", external=before)),
                odd("mpi", NEW, spec("mpi", external=after)),
                [f"external of mpi: {said}\n      hdf5 <- mpi"],
                id=f"an external: {said}",
            )
            for before, after, said in (
                ({"path": "/usr", "module": None}, {"path": "/opt/mpi", "module": None}, "/usr -> /opt/mpi"),
                ({"path": "/usr"}, {"path": None, "module": ["mpi/4", "cray"]}, "/usr -> mpi/4,cray"),
                (None, {"path": "/usr"}, "not given -> /usr"),
            )
        ),
        *(
            pytest.param(
                odd("zlib", NODES, spec("zlib", package_hash=before)),
                odd("zlib", NEW, spec("zlib", package_hash=after)),
                [said],
                id=f"recipes {before} and {after}: Spack before 0.18 writes none",
            )
            for before, after, said in (
                (None, None, "nothing that is recorded differs: another version of Spack wrote it"),
                ("a", "b", "the recipe of zlib changed"),
            )
        ),
        pytest.param(
            odd("zlib", NODES, spec("zlib", "1.3"), more=ODD_EDGES),
            odd("zlib", NEW, spec("zlib", "1.4"), more=ODD_EDGES),
            ["zlib 1.3 -> 1.4\n      hdf5 <- zlib"],
            id="edges that are none",
        ),
    ],
)
def test_an_odd_graph(run: Run, tmp_path: Path, before: Index, after: Index, said: list[str]) -> None:
    output = why(run, tmp_path, both(before, after), "hdf5")

    assert [each for each in said if f"\n  {each}\n" not in output] == []


def test_two_specs_of_one_name(run: Run, tmp_path: Path) -> None:
    """A Python to build with and one to link to: each is compared with its like."""

    def state(hashes: Mapping[str, str], version: str) -> Index:
        build, link = edge("python", hashes["old-python"]), edge("python", hashes["python"])
        link = link | {"parameters": {"deptypes": ["link", "run"], "virtuals": []}}
        found = index(hashes, spec("hdf5", "1.0", build, link), spec("python", version))
        found[hashes["old-python"]] = {"spec": spec("python", "3.9"), "in_buildcache": True}
        return found

    output = why(run, tmp_path, both(state(NODES, "3.12"), state(NEW, "3.13")), "hdf5")
    assert "\n  python 3.12 -> 3.13\n      hdf5 <- python\n" in output
    assert "3.9" not in output


def test_an_index_of_a_newer_spack(run: Run, tmp_path: Path) -> None:
    """What is unknown is left out, and a warning says that the version is; what is known is explained."""

    def state(hashes: Mapping[str, str], version: str) -> bytes:
        link = edge("zlib", hashes["zlib"]) | {"direct": True, "provenance": {"a": [1]}}
        link["parameters"] |= {"depth": 1}
        unknown = {"annotations": {"original_specfile_version": 9}, "toolchain": {"c": "gcc"}, "sbom": [1, {}]}
        found = index(hashes, spec("hdf5", "1.0", link, **unknown), spec("zlib", version, **unknown))
        return database({key: {"origin": {"a": 1}} | record for key, record in found.items()}, version="11")

    states = [state(NODES, "1.3"), state(NEW, "1.4")]
    output = why(run, tmp_path, states, "hdf5", warning="has version '11', newest known")
    assert "\n  zlib 1.3 -> 1.4\n      hdf5 <- zlib\n" in output


def test_dependencies_by_name(run: Run, tmp_path: Path) -> None:
    def state(hashes: Mapping[str, str], zlib: str) -> bytes:
        edges = {"zlib": {"hash": hashes["zlib"], "type": ["build", "link"]}}
        old = spec("hdf5", compiler=OLD_COMPILER) | {"dependencies": edges}
        del old["name"]
        found = index(hashes, spec("zlib", zlib, compiler=OLD_COMPILER))
        return database({hashes["hdf5"]: {"spec": {"hdf5": old}, "in_buildcache": True}} | found, version="5")

    output = why(run, tmp_path, [state(NODES, "1.3"), state(NEW, "1.4")], "hdf5", layout=2)
    assert "\n  zlib 1.3 -> 1.4\n      hdf5 <- zlib\n" in output


def test_specs_whose_hashes_begin_alike(run: Run, tmp_path: Path) -> None:
    """Dependents name them by the whole hash in the revision that has both, and by the first letters in the other."""
    zlibs = ["z" * 31 + letter for letter in "abc"]
    one = edge("zlib", zlibs[0])
    before = index(NODES, spec("hdf5", "1.0", one), spec("python", "3", one))
    after = index(NEW, spec("hdf5", "1.0", edge("zlib", zlibs[1])), spec("python", "4", one))
    for state, hashes in ((before, zlibs[:1]), (after, zlibs)):
        state |= {h: index({"zlib": h}, spec("zlib", f"1.{h[-1]}"))[h] for h in hashes}
    states = both(before, after)

    assert "zlib 1.a -> 1.b\n      hdf5 <- zlib\n" in why(run, tmp_path, states, "hdf5")
    python = why(run, tmp_path / "again", states, "python")
    assert ("python 3 -> 4" in python, "zlib" in python) == (True, False)


_GRAPHS, _NAMES = 40, "abcdefg"


def drawn(choose: random.Random, side: str) -> Nodes:
    """Return a graph of seven packages with four specs each; a package depends on some behind it."""
    nodes: dict[str, GraphNode] = {}
    for place, package in reversed(list(enumerate(_NAMES))):
        for number in range(4):
            if choose.random() < 0.05:
                continue
            below = choose.sample(_NAMES[place + 1 :], choose.randint(0, min(4, len(_NAMES) - place - 1)))
            ends = [(name, f"{choose.choice(('x', side))}{name}{choose.randrange(4)}") for name in sorted(below)]
            edges = [Dependency(*end, ("link",), ("c",) * (end[0] == "g")) for end in ends]
            if choose.random() < 0.1 and edges:
                edges.append(Dependency(edges[0].name, f"{side}{edges[0].name}{choose.randrange(4)}", ("run",)))
            spec_hash = f"{choose.choice(('x', side))}{package}{number}"
            values = {"version": choose.choice("112"), "recipe": choose.choice("aab")}
            nodes[spec_hash] = graph_spec(package, spec_hash, edges, **values)
    return Nodes(nodes)


def test_the_fewest_causes_of_many_are_those_of_one() -> None:
    """The first of those with the fewest, whatever was compared before."""
    several = 0
    for seed in range(_GRAPHS):
        choose = random.Random(seed)
        before, after = drawn(choose, "o"), drawn(choose, "n")
        walk = Walk(before, after)
        for package in _NAMES:
            olds = [f"{side}{package}{n}" for side in "ox" for n in range(4)]
            olds = [each for each in olds if before.find(package, each)]
            for new in (f"{side}{package}{n}" for side in "nx" for n in range(4)):
                if after.find(package, new) is None or len(olds) < 2:
                    continue
                causes = {old: Walk(before, after).causes(package, old, new) for old in olds}
                # That another Spack wrote it decides only between those that are alike otherwise.
                counts = {old: 2 * len(found) - (SPACK in found) for old, found in causes.items()}
                wanted = [old for old in olds if counts[old] == min(counts.values())]
                if min(counts.values()) > 0:  # of equal specs none is looked for
                    assert walk.fewest(package, olds, new) == min(olds, key=counts.__getitem__), (seed, package, new)
                    several += len(wanted) < len(olds)
    assert several > _GRAPHS
