"""Why two lock files of one environment have other hashes."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from cachewatch.core.causes import Explanation, LockChange
from cachewatch.core.graph import GraphNode, Nodes
from cachewatch.core.graph_walk import Walk
from cachewatch.core.predecessors import PackageNodes, explain_spec
from cachewatch.environments.lockfiles import LockGraph, open_lock_graph


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
