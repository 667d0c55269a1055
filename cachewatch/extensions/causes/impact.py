"""What depends on a package, in a graph or a recorded revision: what would be rebuilt if it changed."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set

from msgspec import Struct

from cachewatch.core.causes import NAME_LETTERS, GraphNode
from cachewatch.core.names import similar
from cachewatch.core.versions import Versions
from cachewatch.errors import UsageError
from cachewatch.extensions.causes.recorded import RecordedGraph


class Impact(Struct, frozen=True, kw_only=True):
    """The dependents of some specs in a cache. Counts of stacks may count a spec more than once, in each of its stacks."""

    asked: tuple[str, ...]  # hashes
    specs: int  # dependents, not counting those that were asked for
    of_specs: int  # all in the cache
    packages: Mapping[str, int]  # specs of each dependent package
    stacks: Mapping[str, tuple[int, int]]  # specs and packages of each stack; "" is no stack
    direct: frozenset[str]  # packages that depend on it themselves


def find_impact(nodes: Iterable[GraphNode], asked: Set[str], stacks_of: Mapping[str, tuple[str, ...]]) -> Impact:
    """Return what depends on `asked`, by any kind of dependency; `stacks_of` has the stacks of each binary by hash."""
    names: dict[str, str] = {}
    by_dependency: defaultdict[str, list[str]] = defaultdict(list)
    for node in nodes:
        names[node.hash] = node.name
        for name in node.below:
            by_dependency[name].append(node.hash)

    def dependents(spec_hash: str) -> Iterator[str]:
        for name in {spec_hash[:NAME_LETTERS], spec_hash}:
            yield from by_dependency.get(name, ())

    reached = _reached(asked, dependents)
    affected = [spec_hash for spec_hash in reached - asked if spec_hash in stacks_of]
    packages: defaultdict[str, int] = defaultdict(int)
    by_stack: defaultdict[str, tuple[list[str], set[str]]] = defaultdict(lambda: ([], set()))
    for spec_hash in affected:
        packages[names[spec_hash]] += 1
        for stack in stacks_of[spec_hash] or ("",):
            by_stack[stack][0].append(spec_hash)
            by_stack[stack][1].add(names[spec_hash])
    return Impact(
        asked=tuple(sorted(asked)),
        specs=len(affected),
        of_specs=len(stacks_of),
        packages=dict(sorted(packages.items(), key=lambda one: (-one[1], one[0]))),
        stacks={
            s: (len(h), len(p)) for s, (h, p) in sorted(by_stack.items(), key=lambda one: (-len(one[1][0]), one[0]))
        },
        direct=frozenset(names[h] for one in asked for h in dependents(one) if h in stacks_of and h not in asked),
    )


def _reached(asked: Set[str], dependents: Callable[[str], Iterable[str]]) -> set[str]:
    reached, waiting = set(asked), list(asked)
    while waiting:
        for spec_hash in dependents(waiting.pop()):
            if spec_hash not in reached:
                reached.add(spec_hash)
                waiting.append(spec_hash)
    return reached


def recorded_impact(graph: RecordedGraph, asked: str) -> Impact:
    """Return the dependents of a package, or package@version; raises UsageError where the revision has no graph."""
    graph.require()
    package, _, versions = asked.partition("@")
    chosen = Versions([versions] if versions else [])
    nodes = [*graph.others, *(node for name in graph.packages for node in graph.nodes(name).values())]
    hashes = {node.hash for node in nodes if node.name == package and chosen(node.version)}
    if not hashes:
        near = similar(package, {node.name for node in nodes})
        hint = f"did you mean {', '.join(near)}?" if near else "`cachewatch packages` lists what there is"
        raise UsageError(f"{asked}: no spec of this revision is or uses it; {hint}")
    stacks = {h: s.stacks for name in graph.packages if (d := graph.document(name)) for h, s in d.specs.items()}
    return find_impact(nodes, hashes, stacks)
