"""Comparing kinds of specs once finds what comparing each pair does."""

import random

from graph_specs import graph_spec

from cachewatch.core.cause_sets import CauseSets
from cachewatch.core.graph import Dependency, GraphNode, Nodes
from cachewatch.core.spec_comparisons import Comparisons
from cachewatch.core.spec_differences import compare_specs

_GRAPHS = 60
_PACKAGES = ("gcc", "gcc-runtime", "llvm", "hdf5", "zlib", "python")


def drawn(choose: random.Random, side: str) -> Nodes:
    """Return a graph in which specs of few kinds depend on many specs; some of these are not described."""
    versions = {
        f"{side if choose.random() < 0.7 else ''}-{package}-{i}": (package, choose.choice("12"))
        for package in _PACKAGES
        for i in range(3)
    }
    nodes = {h: GraphNode(hash=h, name=p, version=v) for h, (p, v) in versions.items() if choose.random() < 0.9}
    for number in range(0, 12, 2):
        edges = [
            Dependency(name, h, ("link",), choose.choice(((), ("c",), ("c", "cxx"))) if name in ("gcc", "llvm") else ())
            for h, (name, _) in choose.sample(sorted(versions.items()), choose.randint(0, 6))
        ]
        compiler = choose.choice(("", "", "gcc@1", "gcc@2"))
        for place, package in enumerate(("top", "tip")):
            nodes[f"{side}{number + place}"] = graph_spec(
                package,
                f"{side}{number + place}",
                sorted(edges),
                version=choose.choice("112"),
                compiler=compiler,
                recipe=choose.choice("aab"),
                external=choose.choice(("", "", "", "/usr")),
            )
    return Nodes(nodes)


def test_comparing_kinds_is_comparing_specs() -> None:
    """Compilers and runtimes, dependencies more and less, two of one package, and what is not described."""
    followed = 0
    for seed in range(_GRAPHS):
        choose = random.Random(seed)
        before, after = drawn(choose, "a"), drawn(choose, "b")
        sets = CauseSets()
        comparisons = Comparisons(before, after, sets)
        for i in range(12):
            for j in range(i % 2, 12, 2):
                old, new = before.find("", f"a{i}"), after.find("", f"b{j}")
                assert old is not None
                assert new is not None
                own, both = compare_specs(old, new, before, after)
                numbers = comparisons.numbers.of
                found = comparisons.compare((numbers(new.name)[old.hash], numbers(new.name)[new.hash]))
                below = [
                    (numbers(one.name)[one.hash], numbers(other.name)[other.hash])
                    for one, other in both
                    if one.hash != other.hash
                ]
                assert (set(sets.members(found.own)), list(found.below)) == (set(own), below), (seed, i, j)
                followed += len(below)
    assert followed > _GRAPHS * 12
