"""Many old specs are compared with one new one as each of them alone would be."""

import random

from helpers import graph_spec

from cachewatch.core.graphs_and_attribution import SPACK, Dependency, GraphNode, Nodes
from cachewatch.extensions.causes.predecessors_and_causes import Walk

_GRAPHS = 40
_NAMES = "abcdefg"


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
