"""What depends on a package in a recorded revision."""

from collections.abc import Iterator

from cachewatch.causes.recorded_graph import RecordedGraph
from cachewatch.core.graph import GraphNode
from cachewatch.core.impact import Impact, find_impact
from cachewatch.core.similar_names import similar
from cachewatch.core.versions import Versions
from cachewatch.errors import UsageError


def recorded_impact(graph: RecordedGraph, asked: str) -> Impact:
    """Return the dependents of a package, or package@version; raises UsageError where the revision has no graph."""
    graph.require()
    package, _, versions = asked.partition("@")
    chosen = Versions([versions] if versions else [])
    nodes = list(_all_nodes(graph))
    hashes = {node.hash for node in nodes if node.name == package and chosen(node.version)}
    if not hashes:
        near = similar(package, {node.name for node in nodes})
        hint = f"did you mean {', '.join(near)}?" if near else "`cachewatch packages` lists what there is"
        raise UsageError(f"{asked}: no spec of this revision is or uses it; {hint}")
    stacks = {h: s.stacks for name in graph.packages if (d := graph.document(name)) for h, s in d.specs.items()}
    return find_impact(nodes, hashes, stacks)


def _all_nodes(graph: RecordedGraph) -> Iterator[GraphNode]:
    yield from graph.others
    for package in graph.packages:
        yield from graph.nodes(package).values()
