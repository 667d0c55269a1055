"""Why an environment's specs have other hashes: in a cache than in its lock file, or in one of two lock files."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from cachewatch.core.causes import Causes, Explanation, GraphNode, LockChange, Nodes
from cachewatch.core.coverage import Availability, Coverage, Resolution
from cachewatch.environments.lockfiles import LockGraph, open_lock_graph
from cachewatch.errors import DocumentError
from cachewatch.extensions.causes.graph_walk import Walk
from cachewatch.extensions.causes.predecessors import PackageNodes, explain_spec
from cachewatch.extensions.causes.recorded import RecordedGraph

# A package, the hash that an environment has of it, and the hash that a cache has.
Replaced = tuple[str, str, str]


def replaced_in(coverage: Coverage) -> tuple[Replaced, ...]:
    """Return what the cache has with another hash."""
    found = (one for one in coverage.of(Availability.REBUILT) if one.need.hash and one.others)
    return tuple((one.need.package, one.need.hash, one.others[0]) for one in found)


def find_causes(lock: LockGraph, graphs: Sequence[RecordedGraph], replaced: Iterable[Replaced]) -> Mapping[str, Causes]:
    """Return the causes by hash of the environment, from the first graph that describes the other hash."""
    walks = [(graph, Walk(Nodes(lock.nodes), graph)) for graph in graphs if graph.is_recorded]
    return {old: causes for package, old, new in replaced for causes in _found(walks, package, old, new)}


def add_causes(coverage: Coverage, causes: Mapping[str, Causes]) -> Coverage:
    """Return what the cache has, with the causes of other hashes."""
    return replace(coverage, needs=tuple(_explained(one, causes) for one in coverage.needs))


def _found(walks: Iterable[tuple[RecordedGraph, Walk]], package: str, old: str, new: str) -> Iterator[Causes]:
    for graph, walk in walks:
        try:
            if graph.find(package, new) is not None:
                yield walk.paths(package, old, new)
                return
        except DocumentError:
            continue


def _explained(one: Resolution, causes: Mapping[str, Causes]) -> Resolution:
    found = causes.get(one.need.hash, {}) if one.standing is Availability.REBUILT else {}
    ordered = sorted(found, key=lambda cause: cause.sort_key)
    return replace(one, causes=tuple((cause, found[cause]) for cause in ordered)) if found else one


def compare_locks(before: Path, after: Path) -> LockChange:
    """Explain every spec of `after` that `before` does not have; raises UsageError where either is no lock file."""
    old, new = open_lock_graph(before), open_lock_graph(after)
    walk = Walk(Nodes(old.nodes), Nodes(new.nodes))
    packages_before, packages_after = _by_package(old), _by_package(new)
    explained: list[Explanation] = []
    for name in packages_after.keys() & packages_before.keys():
        nodes = PackageNodes(packages_before[name], packages_after[name], {})
        for spec_hash in nodes.new:
            found = explain_spec(nodes, spec_hash, walk)
            assert found.predecessor is not None  # the package had specs
            paths = walk.paths(name, found.predecessor.hash, spec_hash)
            explained.append(replace(found, paths=paths))
    roots = frozenset(new.roots)
    explained.sort(key=lambda one: (one.spec.hash not in roots, one.spec.name, one.spec.hash))
    return LockChange(
        specs=sum(map(len, packages_after.values())),
        explained=tuple(explained),
        added=_of_others(packages_after, packages_before),
        removed=_of_others(packages_before, packages_after),
        roots=roots,
    )


def _by_package(lock: LockGraph) -> Mapping[str, Mapping[str, GraphNode]]:
    found: defaultdict[str, dict[str, GraphNode]] = defaultdict(dict)
    for spec_hash, node in lock.nodes.items():
        if not node.is_external:
            found[node.name][spec_hash] = node
    return found


def _of_others(packages: Mapping[str, Mapping[str, GraphNode]], others: Mapping[str, object]) -> tuple[GraphNode, ...]:
    nodes = [node for name in packages.keys() - others.keys() for node in packages[name].values()]
    return tuple(sorted(nodes, key=lambda node: (node.name, node.hash)))
