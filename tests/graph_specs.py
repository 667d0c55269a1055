"""Specs of dependency graphs for tests."""

from collections.abc import Iterable
from typing import Any

from cachewatch.core.graphs_and_attribution import Dependency, GraphNode, Ingredients
from cachewatch.documents.spec_nodes_and_graphs import MadeOf


def made_of(edges: Iterable[Dependency] = (), **values: Any) -> MadeOf:
    """Return ingredients, and the names of the specs that `edges` lead to."""
    edges = tuple(edges)
    return Ingredients(**values, uses=tuple(edge.use for edge in edges)), tuple(edge.hash for edge in edges)


def graph_spec(name: str, spec_hash: str, edges: Iterable[Dependency] = (), **values: Any) -> GraphNode:
    """Return a spec with these dependencies, attributes and ingredients."""
    others = {key: values.pop(key) for key in Ingredients.__struct_fields__ if key in values}
    ingredients, below = made_of(edges, **others)
    return GraphNode(name=name, hash=spec_hash, ingredients=ingredients, below=below, **values)
