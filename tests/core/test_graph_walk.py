"""The walk of two graphs against one that follows every way and remembers nothing."""

import random
from collections.abc import Iterator

from helpers import graph_spec

from cachewatch.core.graphs_and_attribution import SPACK, Cause, Dependency, Nodes, What, attribute
from cachewatch.extensions.causes.predecessors_and_causes import Walk

_GRAPHS = 300


class Graphs:
    """Two random graphs of the same packages; all hashes and some versions, recipes and edges differ, and some are odd."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.packages = [f"p{n}" for n in range(self._random.randint(1, 9))]
        self._has_cycles = seed % 3 == 0
        before = {package: self._drawn(package, n) for n, package in enumerate(self.packages)}
        after = {package: self._changed(node) for package, node in before.items()}
        self.before = self._as_nodes(before, "old")
        self.after = self._as_nodes(after, "new")

    def _drawn(self, package: str, place: int) -> tuple[str, str, frozenset[str]]:
        below = [p for p in (self.packages if self._has_cycles else self.packages[place + 1 :]) if p != package]
        return "1", "r1", frozenset(self._random.sample(below, self._random.randint(0, min(3, len(below)))))

    def _changed(self, node: tuple[str, str, frozenset[str]]) -> tuple[str, str, frozenset[str]]:
        version, recipe, below = node
        chance = self._random.random()
        if chance < 0.15:
            return "2", "r2", below
        if chance < 0.3:
            return version, "r2", below
        if chance < 0.4 and below:
            return version, recipe, below - {min(below)}
        return node

    def _as_nodes(self, nodes: dict[str, tuple[str, str, frozenset[str]]], side: str) -> Nodes:
        described = {package: node for package, node in nodes.items() if self._random.random() > 0.03}
        specs = []
        for package, (version, recipe, below) in described.items():
            edges = [Dependency(each, f"{side}-{each}", ("link",)) for each in sorted(below)]
            specs.append(graph_spec(package, f"{side}-{package}", edges, version=version, recipe=recipe))
        return Nodes({spec.hash: spec for spec in specs})


def every_way(graphs: Graphs, package: str, way: tuple[str, ...]) -> Iterator[tuple[Cause, tuple[str, ...]]]:
    """Yield each cause with each way to it that goes nowhere twice."""
    way = (*way, package)
    if not any(own_causes(graphs, each) for each in below(graphs, package)):
        yield SPACK, way
        return
    for cause in own_causes(graphs, package):
        yield cause, way
    for name in followed(graphs, package):
        if name not in way:
            yield from every_way(graphs, name, way)


def followed(graphs: Graphs, package: str) -> set[str]:
    """Return the packages that both specs of a package depend on."""
    nodes = graphs.before.find(package, f"old-{package}"), graphs.after.find(package, f"new-{package}")
    sides = [{edge.name for edge in node.dependencies} if node else set[str]() for node in nodes]
    return sides[0] & sides[1]


def below(graphs: Graphs, package: str) -> set[str]:
    """Return a package and everything that is reached from it."""
    found, waiting = {package}, [package]
    while waiting:
        new = followed(graphs, waiting.pop()) - found
        found |= new
        waiting += new
    return found


def own_causes(graphs: Graphs, package: str) -> list[Cause]:
    """Return what differs in the specs of a package themselves."""
    old = graphs.before.find(package, f"old-{package}")
    new = graphs.after.find(package, f"new-{package}")
    if old is None or new is None:
        return [Cause(package=package, what=What.NOT_DESCRIBED)]
    had, has = ({edge.name for edge in node.dependencies} for node in (old, new))
    found = []
    if old.version != new.version:
        found.append(Cause(package=package, what=What.VERSION, before=old.version, after=new.version))
    for name in had - has:
        gone = graphs.before.find(name, f"old-{name}")
        removed = f"{name}@{gone.version}" if gone else name
        found.append(Cause(package=package, what=What.DEPENDENCY_REMOVED, before=removed))
    recipes = old.ingredients.recipe, new.ingredients.recipe
    if not found and recipes[0] != recipes[1]:
        found.append(Cause(package=package, what=What.RECIPE, before=recipes[0], after=recipes[1]))
    return found


def test_it_agrees_with_every_way() -> None:
    """Same causes, whatever was asked before; each path is a shortest one; the greedy choice covers all specs."""
    compared = 0
    for seed in range(_GRAPHS):
        graphs = Graphs(seed)
        walk = Walk(graphs.before, graphs.after)
        found = {}
        for package in graphs.packages:
            asked = (package, f"old-{package}", f"new-{package}")
            ways: dict[Cause, list[tuple[str, ...]]] = {}
            for cause, way in every_way(graphs, package, ()):
                ways.setdefault(cause, []).append(way)
            expected = set(ways)
            found[package] = walk.causes(*asked)
            paths = walk.paths(*asked)
            assert set(found[package]) == set(paths) == expected, (seed, package)
            for cause, path in paths.items():
                assert len(path) == min(map(len, ways.get(cause, [path]))), (seed, package)
            compared += len(expected)
        done = attribute(found)
        assert sorted(each for one in done for each in one.attributed) == sorted(graphs.packages), seed
    assert compared > _GRAPHS
