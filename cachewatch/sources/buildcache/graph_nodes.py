"""The node of one spec as a node of the dependency graph."""

from collections.abc import Iterable, Set
from typing import Any

from cachewatch.core import spack_spellings
from cachewatch.core.graph import Dependency, GraphNode, Ingredients, name_of
from cachewatch.core.spack_spellings import NO_COMPILER
from cachewatch.documents.graph_files import MadeOf
from cachewatch.sources.buildcache.nodes import Arch, Lookup, Node, compiler_of, dependencies_of, flags_of, variants_of


def graph_node_of(spec_hash: str, node: Node, lookup: Lookup, shared: Set[str]) -> GraphNode:
    """Return `node` as the graph has it, spelled as documents are; specs below it have `shared` names."""
    arch = node.arch or Arch("", "", "")
    dependencies = dependencies_of(node)
    compiler = spack_spellings.compiler(compiler_of(node, lookup, dependencies))
    ingredients, below = ingredients_of(node, dependencies)
    return GraphNode(
        hash=spec_hash,
        name=node.name,
        version=node.version,
        compiler="" if compiler == NO_COMPILER else compiler,
        os=arch.platform_os,
        target=arch.target_name,
        variants=spack_spellings.variants(variants_of(node)),
        ingredients=ingredients,
        below=tuple([name_of(each, shared) for each in below]),
    )


def ingredients_of(node: Node, dependencies: Iterable[Dependency]) -> MadeOf:
    """Return what documents do not say of a node with these `dependencies`."""
    edges = sorted(dependencies)
    made_of = Ingredients(
        recipe=_text(node.package_hash),
        namespace=_text(node.namespace),
        external=_external(node.external),
        flags=flags_of(node),
        spliced=_spliced(node.build_spec),
        uses=tuple([edge.use for edge in edges]),
    )
    return made_of, tuple([edge.hash for edge in edges])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _external(value: Any) -> str:
    """Return where an external is: its path, or else its modules."""
    if not isinstance(value, dict):
        return ""
    modules = value.get("module")
    named = ",".join(map(str, modules)) if isinstance(modules, list) else _text(modules)
    return _text(value.get("path")) or named or "unknown"


def _spliced(value: Any) -> str:
    return _text(value.get("hash")) if isinstance(value, dict) else ""
