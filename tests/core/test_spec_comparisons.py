"""Comparing kinds of specs once finds what comparing each pair does."""

import random

from cachewatch.core.cause_sets import CauseSets
from cachewatch.core.graph import Dependency, GraphNode, Ingredients, Nodes
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
    for number in range(12):
        edges = [
            Dependency(name, h, ("link",), choose.choice(((), ("c",), ("c", "cxx"))) if name in ("gcc", "llvm") else ())
            for h, (name, _) in choose.sample(sorted(versions.items()), choose.randint(0, 6))
        ]
        nodes[f"{side}{number}"] = GraphNode(
            hash=f"{side}{number}",
            name="top",
            version=choose.choice("112"),
            ingredients=Ingredients(recipe=choose.choice("aab"), dependencies=tuple(sorted(edges))),
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
            for j in range(12):
                old, new = before.find("top", f"a{i}"), after.find("top", f"b{j}")
                assert old is not None
                assert new is not None
                own, both = compare_specs(old, new, before, after)
                found = comparisons.compare((comparisons.number("top", old.hash), comparisons.number("top", new.hash)))
                below = [
                    (comparisons.number(one.name, one.hash), comparisons.number(other.name, other.hash))
                    for one, other in both
                    if one.hash != other.hash
                ]
                assert (set(sets.members(found.own)), list(found.below)) == (set(own), below), (seed, i, j)
                followed += len(below)
    assert followed > _GRAPHS * 12
