"""Compare two specs without their dependencies, and list the pairs of dependencies to compare next."""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from cachewatch.core.causes import LANGUAGES, RUNTIMES, SPACK, Cause, Dependency, Graph, GraphNode, What


class SpecDifference(NamedTuple):
    """The differences of two specs themselves, and the pairs of their dependencies, also of equal ones."""

    own: Sequence[Cause]
    both: Sequence[tuple[Dependency, Dependency]]


class _Edges(NamedTuple):
    both: Sequence[tuple[Dependency, Dependency]]
    removed: Sequence[Dependency]
    added: Sequence[Dependency]


# The compilers of a spec by language, or under "" if its node only names one.
_Compilers = Mapping[str, str]


class _GraphSpec(NamedTuple):
    """A spec with its dependencies, and the graph that it belongs to."""

    node: GraphNode
    edges: Sequence[Dependency]
    graph: Graph

    def label(self, edge: Dependency) -> str:
        """Return the name and version of a dependency (zlib@1.3.1), or only its name if the graph does not describe it."""
        found = self.graph.find(edge.name, edge.hash)
        return edge.name if found is None else f"{edge.name}@{found.version}"

    @property
    def names_its_compiler(self) -> bool:
        """Whether the node names the compiler, as before Spack 1.0, where newer nodes have it as a dependency.

        Packages that come with a compiler (runtime, wrapper, libc) are also written differently then.
        """
        return bool(self.node.compiler) and not _compiler_edges(self.edges)


def compare_specs(old: GraphNode, new: GraphNode, before: Graph, after: Graph) -> SpecDifference:
    """Compare two specs of a package, each in its graph, without comparing their dependencies."""
    found = compare_dependencies(old, new, before, after)
    own = [*attribute_causes(old, new), *found.own]
    # The recipe counts only if nothing else in the spec itself differs: a new version has another recipe anyway.
    recipes = old.ingredients.recipe, new.ingredients.recipe
    if not own and all(recipes) and recipes[0] != recipes[1]:
        own = [Cause(package=new.name, what=What.RECIPE, before=recipes[0], after=recipes[1])]
    return SpecDifference(own, found.both)


def compare_dependencies(old: GraphNode, new: GraphNode, before: Graph, after: Graph) -> SpecDifference:
    """Compare which packages two specs depend on, how these are used, and which compilers they have."""
    had, has = _GraphSpec(old, old.dependencies, before), _GraphSpec(new, new.dependencies, after)
    compilers = _compiler_changes(had, has)
    is_rewritten = had.names_its_compiler is not has.names_its_compiler
    edges = _matched(had.edges, has.edges, has_other_compiler=bool(compilers) or is_rewritten)
    if is_rewritten:
        compiler = (had if had.names_its_compiler else has).node.compiler
        removed, added = (
            [edge for edge in found if "libc" not in edge.virtuals and side.label(edge) != compiler]
            for found, side in ((edges.removed, had), (edges.added, has))
        )
        edges = _Edges(edges.both, removed, added)
    written = [SPACK] if is_rewritten else []
    return SpecDifference([*_edge_causes(edges, had, has), *compilers, *written], edges.both)


def _compilers_of(side: _GraphSpec) -> _Compilers:
    found: dict[str, str] = {}
    for edge in side.edges:
        if edge.virtuals and (languages := edge.languages):
            found |= dict.fromkeys(languages, side.label(edge))
    return found or ({"": side.node.compiler} if side.node.compiler else {})


def _compiler_edges(edges: Sequence[Dependency]) -> Sequence[Dependency]:
    return [edge for edge in edges if edge.virtuals and edge.languages]


def _matched(old: Sequence[Dependency], new: Sequence[Dependency], *, has_other_compiler: bool) -> _Edges:
    """Pair the dependencies of two specs by package.

    With `has_other_compiler`, compilers and their runtimes are left out: they belong to the change of the compiler.
    """
    sides = [old, new]
    if has_other_compiler:
        sides = [[e for e in edges if not e.languages and e.name not in RUNTIMES] for edges in sides]
    by_name: defaultdict[str, tuple[list[Dependency], list[Dependency]]] = defaultdict(lambda: ([], []))
    for side, edges in enumerate(sides):
        for edge in edges:
            by_name[edge.name][side].append(edge)
    found = [_paired(*each) for each in by_name.values()]
    return _Edges(
        [pair for one in found for pair in one.both],
        [edge for one in found for edge in one.removed],
        [edge for one in found for edge in one.added],
    )


def _paired(old: Sequence[Dependency], new: Sequence[Dependency]) -> _Edges:
    """Pair dependencies on the same package: first by equal hash, then by equal use, then in order."""
    pairs: list[tuple[Dependency, Dependency]] = []
    for key in (attrgetter("hash"), _use_of):
        found, old, new = _paired_by(key, old, new)
        pairs += found
    count = min(len(old), len(new))
    pairs += zip(old[:count], new[:count], strict=True)
    return _Edges(pairs, old[count:], new[count:])


def _paired_by(
    key: Callable[[Dependency], Hashable], old: Sequence[Dependency], new: Sequence[Dependency]
) -> tuple[list[tuple[Dependency, Dependency]], list[Dependency], list[Dependency]]:
    waiting: defaultdict[Hashable, deque[Dependency]] = defaultdict(deque)
    for edge in new:
        waiting[key(edge)].append(edge)
    pairs: list[tuple[Dependency, Dependency]] = []
    left: list[Dependency] = []
    for edge in old:
        if others := waiting[key(edge)]:
            pairs.append((edge, others.popleft()))
        else:
            left.append(edge)
    taken = {id(other) for _, other in pairs}
    return pairs, left, [edge for edge in new if id(edge) not in taken]


def _use_of(edge: Dependency) -> Hashable:
    return edge.types, edge.virtuals


def _edge_causes(edges: _Edges, old: _GraphSpec, new: _GraphSpec) -> Iterator[Cause]:
    """Yield a cause for each dependency that was added, removed, or is used differently."""
    package = new.node.name
    for edge in edges.removed:
        yield Cause(package=package, what=What.DEPENDENCY_REMOVED, before=old.label(edge))
    for edge in edges.added:
        yield Cause(package=package, what=What.DEPENDENCY_ADDED, after=new.label(edge))
    for one, other in edges.both:
        if _use_of(one) != _use_of(other):
            had, has = old.label(one) + _used(one), new.label(other) + _used(other)
            yield Cause(package=package, what=What.DEPENDENCY_CHANGED, before=had, after=has)


def _used(edge: Dependency) -> str:
    virtuals = f" as {','.join(edge.virtuals)}" if edge.virtuals else ""
    return f" ({', '.join(edge.types)}){virtuals}"


def attribute_causes(old: GraphNode, new: GraphNode) -> Iterator[Cause]:
    """Yield the differences of two specs except recipe, compiler and dependencies."""
    name = new.name
    singles: tuple[tuple[What, str, str], ...] = (
        (What.VERSION, old.version, new.version),
        (What.EXTERNAL, old.ingredients.external, new.ingredients.external),
        (What.NAMESPACE, old.ingredients.namespace, new.ingredients.namespace),
        (What.SPLICE, old.ingredients.spliced, new.ingredients.spliced),
    )
    if not _is_same_external(old, new):
        singles = (*singles, (What.OS, old.os, new.os), (What.TARGET, old.target, new.target))
    for what, before, after in singles:
        if before != after:
            yield Cause(package=name, what=what, before=before, after=after)
    if _is_same_external(old, new):
        return
    if old.variants == new.variants and old.ingredients.flags == new.ingredients.flags:
        return
    patches = [
        {variant for variant in node.variants if variant.partition("=")[0].rstrip(":=") == "patches"}
        for node in (old, new)
    ]
    options = [{*node.variants, *node.ingredients.flags} for node in (old, new)]
    lists = (
        (What.VARIANTS, options[0] - patches[0], options[1] - patches[1]),
        (What.PATCHES, patches[0], patches[1]),
    )
    for what, had, has in lists:
        if had != has:
            yield Cause(package=name, what=what, before=tuple(sorted(had - has)), after=tuple(sorted(has - had)))


def _is_same_external(old: GraphNode, new: GraphNode) -> bool:
    """Tell whether both are one external. Spack before 1.0 describes externals as if it had compiled them."""
    is_rewritten = bool(old.compiler) is not bool(new.compiler)
    return is_rewritten and old.is_external and old.ingredients.external == new.ingredients.external


def _compiler_changes(old: _GraphSpec, new: _GraphSpec) -> list[Cause]:
    """Return the changes of the compiler, one for all languages with the same change."""
    if old.node.is_external or new.node.is_external:
        return []
    if old.node.compiler == new.node.compiler and _compiler_edges(old.edges) == _compiler_edges(new.edges):
        return []
    had, has = _compilers_of(old), _compilers_of(new)
    if "" in had or "" in has:
        # Old Spack names a compiler even for what is not compiled, such as bundles; newer Spack names none for these.
        one, other = (_first(compilers) for compilers in (had, has))
        is_change = one and other and one != other
        return [Cause(package=new.node.name, what=What.COMPILER, before=one, after=other)] if is_change else []
    changed: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for language in LANGUAGES:
        change = had.get(language, ""), has.get(language, "")
        if change[0] != change[1]:
            changed[change].append(language)
    return [
        Cause(package=new.node.name, what=What.COMPILER, before=one, after=other, languages=tuple(languages))
        for (one, other), languages in changed.items()
    ]


def _first(compilers: _Compilers) -> str:
    return next((compilers[language] for language in ("", *LANGUAGES) if language in compilers), "")
