"""Why a hash is another one: the walk through two graphs, the nearest predecessor, and the causes of a night."""

from collections.abc import Iterable
from typing import Any

import pytest
from helpers import graph_spec

from cachewatch.core.graphs_and_attribution import SPACK, Cause, Causes, Dependency, GraphNode, Nodes, What, attribute
from cachewatch.extensions.causes.predecessors_and_causes import Walk, explain_new_specs


def spec(name: str, spec_hash: str, *edges: Dependency, **values: Any) -> GraphNode:
    """Return a spec that is compiled by nothing."""
    return graph_spec(name, spec_hash, edges, **({"version": "1", "os": "debian12", "target": "x86_64_v3"} | values))


def on(name: str, spec_hash: str, *virtuals: str, types: Iterable[str] = ("link",)) -> Dependency:
    return Dependency(name, spec_hash, tuple(types), virtuals)


def graph(*specs: GraphNode) -> Nodes:
    return Nodes({one.hash: one for one in specs})


def causes(before: Iterable[GraphNode], after: Iterable[GraphNode]) -> Causes:
    """Return why the first spec of `after` is not the first of `before`."""
    old, new = list(before), list(after)
    walk, asked = Walk(graph(*old), graph(*new)), (new[0].name, old[0].hash, new[0].hash)
    found = walk.paths(*asked)
    assert set(walk.causes(*asked)) == set(found)
    return found


ZLIB = (spec("zlib", "z1", version="1.3"), spec("zlib", "z2", version="1.3.1"))
GCC = spec("gcc", "gcc", version="12.2.0", external="/usr")
LLVM = spec("llvm", "llvm", version="14.0.6", external="/usr")


def test_what_differs_in_itself_and_below_is_two_causes() -> None:
    old = spec("hdf5", "h1", on("zlib", "z1"), variants=("+cxx", "~mpi"))
    new = spec("hdf5", "h2", on("zlib", "z2"), variants=("+cxx", "+mpi"))
    found = causes([old, ZLIB[0]], [new, ZLIB[1]])

    assert {(one.package, one.what, one.before, one.after) for one in found} == {
        ("hdf5", What.VARIANTS, ("~mpi",), ("+mpi",)),
        ("zlib", What.VERSION, "1.3", "1.3.1"),
    }


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ({"version": "1"}, {"version": "2"}, What.VERSION),
        ({"os": "debian12"}, {"os": "debian13"}, What.OS),
        ({"target": "x86_64_v3"}, {"target": "x86_64_v4"}, What.TARGET),
        ({"external": "/usr"}, {"external": "/opt"}, What.EXTERNAL),
        ({"namespace": "builtin"}, {"namespace": "site"}, What.NAMESPACE),
        ({"spliced": ""}, {"spliced": "x1"}, What.SPLICE),
        ({"variants": ("patches:=abc",)}, {"variants": ("patches:=def",)}, What.PATCHES),
        ({"flags": ("cflags=-O2",)}, {"flags": ()}, What.VARIANTS),
        ({"recipe": "r1"}, {"recipe": "r2"}, What.RECIPE),
        ({"compiler": "gcc@12.2.0"}, {"compiler": "gcc@13.3.0"}, What.COMPILER),
        ({"dependencies": ()}, {"dependencies": (on("zlib", "z1"),)}, What.DEPENDENCY_ADDED),
        ({"dependencies": (on("zlib", "z1"),)}, {"dependencies": ()}, What.DEPENDENCY_REMOVED),
        (
            {"dependencies": (on("zlib", "z1"),)},
            {"dependencies": (on("zlib", "z1", types=("build",)),)},
            What.DEPENDENCY_CHANGED,
        ),
    ],
)
def test_each_way_to_differ(before: dict[str, Any], after: dict[str, Any], what: What) -> None:
    """One difference is one cause, at the spec itself, in both directions."""
    sides = [
        [spec("x", f"x{n}", *values.pop("dependencies", ()), **values), ZLIB[0]]
        for n, values in enumerate((dict(before), dict(after)))
    ]
    there, back = causes(sides[0], sides[1]), causes(sides[1], sides[0])

    mirrored = {What.DEPENDENCY_ADDED: What.DEPENDENCY_REMOVED, What.DEPENDENCY_REMOVED: What.DEPENDENCY_ADDED}
    assert [(one.package, one.what, path) for one, path in there.items()] == [("x", what, ("x",))]
    assert [one.what for one in back] == [mirrored.get(what, what)]


def test_the_recipe_is_named_only_where_nothing_else_differs() -> None:
    """A new version has another recipe anyway; one below does not excuse it."""
    new_version = causes([spec("x", "x1", recipe="r1")], [spec("x", "x2", recipe="r2", version="2")])
    old, new = (spec("x", f"x{n}", on("zlib", f"z{n}"), recipe=f"r{n}") for n in (1, 2))
    below = causes([old, ZLIB[0]], [new, ZLIB[1]])

    assert [one.what for one in new_version] == [What.VERSION]
    assert {(one.package, one.what) for one in below} == {("x", What.RECIPE), ("zlib", What.VERSION)}


def test_only_the_languages_that_another_compiler_compiles() -> None:
    """Fortran is still compiled by gcc."""
    old = spec("x", "x1", on("gcc", "gcc", "c", "cxx", "fortran"), compiler="gcc@12.2.0")
    new = spec("x", "x2", on("llvm", "llvm", "c", "cxx"), on("gcc", "gcc", "fortran"), compiler="llvm@14.0.6")
    (found,) = causes([old, GCC], [new, GCC, LLVM])

    assert (found.what, found.languages) == (What.COMPILER, ("c", "cxx"))


def test_another_build_of_the_same_compiler_is_followed() -> None:
    """Name and version are equal, so the compiler is a dependency like any other."""
    moved = spec("gcc", "gcc2", version="12.2.0", external="/opt/gcc")
    old, new = (spec("x", f"x{n}", on("gcc", gcc, "c"), compiler="gcc@12.2.0") for n, gcc in ((1, "gcc"), (2, "gcc2")))
    (found,) = causes([old, GCC], [new, moved])

    assert (found.package, found.what, found.after) == ("gcc", What.EXTERNAL, "/opt/gcc")


def test_a_compiler_that_only_old_spack_writes_is_no_change() -> None:
    """Specfile 4 says what compiled a bundle; specfile 5 does not."""
    found = causes([spec("bundle", "b1", compiler="gcc@12.2.0")], [spec("bundle", "b2")])

    assert list(found) == [SPACK]


def test_a_compiler_that_is_a_dependency_now_is_no_change() -> None:
    """Before Spack 1.0, the compiler is a field, also of externals; its runtime and libc are written otherwise, too."""
    before = [
        spec(
            "zlib", "z1", on("gcc-runtime", "r1"), on("glibc", "l1", "libc"), on("gmake", "m1"), compiler="gcc@12.2.0"
        ),
        spec(
            "bundle", "b1", on("gcc-runtime", "r1"), on("glibc", "l1", "libc"), on("zlib", "z1"), compiler="gcc@12.2.0"
        ),
        spec("gcc-runtime", "r1", version="12.2.0", compiler="gcc@12.2.0"),
        spec("glibc", "l1", compiler="gcc@12.2.0", external="/usr"),
        spec("gmake", "m1", compiler="gcc@12.2.0", external="/usr", variants=("patches=abc",)),
    ]
    own = on("gcc", "gcc", "c", "cxx"), on("compiler-wrapper", "w2"), on("gcc-runtime", "r2"), on("glibc", "l2", "libc")
    after = [
        spec("zlib", "z2", *own, on("gmake", "m2"), compiler="gcc@12.2.0", recipe="another"),
        spec("bundle", "b2", on("zlib", "z2")),
        spec("gcc-runtime", "r2", on("gcc", "gcc"), version="12.2.0"),
        spec("glibc", "l2", external="/usr"),
        spec("compiler-wrapper", "w2"),
        spec("gmake", "m2", external="/usr", target="x86_64"),
        GCC,
    ]

    for one, other in ((before, after), (after, before)):
        assert list(causes(one, other)) == [SPACK]
        assert list(causes([one[1], *one], [other[1], *other])) == [SPACK]


def test_another_compiler_in_another_notation_is_a_change() -> None:
    """The one that was a field is compared with the one that is a dependency now; that Spack changed too is said."""
    before = [spec("zlib", "z1", on("glibc", "l1", "libc"), compiler="gcc@11.4.0"), spec("glibc", "l1")]
    after = [spec("zlib", "z2", on("gcc", "gcc", "c"), on("glibc", "l1", "libc"), compiler="gcc@12.2.0"), GCC]
    found = causes(before, [*after, spec("glibc", "l1")])

    told = {(one.what, one.before, one.after) for one in found}
    assert told == {(What.COMPILER, "gcc@11.4.0", "gcc@12.2.0"), (What.SPACK, "", "")}


def nodes_of(*specs: GraphNode) -> dict[str, GraphNode]:
    return {one.hash: one for one in specs if one.name == "x"}


def test_the_nearest_predecessor_shares_most_dependencies() -> None:
    """By hash alone it would be another one; a tie goes to the one with fewest causes."""
    near = spec("x", "x9", on("a", "a1"), on("b", "b1"))
    far = spec("x", "x0", on("a", "a0"), on("b", "b0"))
    new = spec("x", "y", on("a", "a1"), on("b", "b1"), recipe="r")
    walk = Walk(graph(near, far), graph(new))
    (found,) = explain_new_specs(nodes_of(near, far), nodes_of(new), {"y": {"x0", "x9"}}, walk)

    assert found.predecessor is not None
    assert (found.predecessor.hash, found.is_beside, found.is_paired, found.is_match) == ("x9", False, True, True)


@pytest.mark.parametrize(
    ("old", "is_kept", "expected"),
    [
        ({}, True, (True, True, True)),  # alike in everything, and still there
        ({"version": "0"}, False, (False, True, False)),
        ({"version": "0"}, True, (True, True, False)),
        ({"target": "zen4"}, False, (False, False, False)),
        ({"target": "zen4"}, True, (True, False, False)),
    ],
)
def test_where_no_older_spec_vanished(old: dict[str, str], is_kept: bool, expected: tuple[bool, bool, bool]) -> None:
    """The nearest is named with what it is: beside, for the same machines, alike."""
    before, new = spec("x", "x1", **old), spec("x", "x2")
    after = {"x2": new} | ({"x1": before} if is_kept else {})
    (found,) = explain_new_specs({"x1": before}, after, {}, Walk(graph(before), graph(new)))

    assert (found.is_beside, found.is_paired, found.is_match) == expected


def test_each_spec_counts_once_under_the_cause_that_explains_most() -> None:
    """What is attributed adds up to all specs; all specs of a cause are named nevertheless."""
    zlib = Cause(package="zlib", what=What.VERSION, before="1.3", after="1.3.1")
    python = Cause(package="python", what=What.RECIPE)
    gcc = Cause(package="x", what=What.COMPILER)
    night = {"a": [zlib], "b": [zlib, python], "c": [zlib], "d": [python], "e": [gcc, python]}

    found = attribute(night)

    told = [(one.cause, len(one.hashes), one.attributed) for one in found]
    assert told == [(python, 3, ("b", "d", "e")), (zlib, 3, ("a", "c")), (gcc, 1, ())]
