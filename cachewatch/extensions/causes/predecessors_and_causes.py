"""Compare two dependency graphs: find for each new spec an older one, and the causes why their hashes differ.

Every difference in the spec itself or in the specs below it is a cause. Nothing records which spec replaced which, so a
spec is compared with the nearest older one, its predecessor. Also find all dependents of a spec: what would be rebuilt.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core import graphs_and_attribution as graphs
from cachewatch.core.graphs_and_attribution import Cause, Causes, Dependency, Explanation, Graph, GraphNode, What
from cachewatch.core.kinds_and_specs import grouped

MOST_CAUSES = 1_000  # that are listed for a spec; real specs have hundreds at most

SpecPair = tuple[str, str, str]  # a package, and two hashes (perhaps shortened): of the older graph, and of the newer
_TOO_MANY = frozenset([graphs.TOO_MANY])


class _GraphSpec(NamedTuple):
    node: GraphNode
    graph: Graph

    def label(self, edge: Dependency) -> str:
        """Return name and version of the dependency `edge` (zlib@1.3.1); only the name if the graph lacks it."""
        found = self.graph.find(edge.name, edge.hash)
        return edge.name if found is None else f"{edge.name}@{found.version}"

    def use(self, edge: Dependency) -> str:
        """Return the dependency `edge` and how it is used: `mpich@4.3 (build, link) as mpi`."""
        virtuals = f" as {','.join(edge.virtuals)}" if edge.virtuals else ""
        return f"{self.label(edge)} ({', '.join(edge.types)}){virtuals}"

    @property
    def compiler_edges(self) -> Sequence[Dependency]:
        return [edge for edge in self.node.dependencies if edge.virtuals and edge.languages]

    @property
    def compilers(self) -> Mapping[str, str]:
        """The compilers of the spec by language; if they are no dependencies, the one that its node names, under ""."""
        found = {language: self.label(edge) for edge in self.compiler_edges for language in edge.languages}
        return found or ({"": self.node.compiler} if self.node.compiler else {})

    @property
    def names_its_compiler(self) -> bool:
        """Whether the node names its compiler, as before Spack 1.0, instead of depending on it."""
        return bool(self.node.compiler) and not self.compiler_edges


def _compare_specs(
    old: GraphNode, new: GraphNode, before: Graph, after: Graph
) -> tuple[Sequence[Cause], Sequence[tuple[Dependency, Dependency]]]:
    """Return how the specs `old` and `new` of two graphs themselves differ, and the pairs of their dependencies."""
    had, has = _GraphSpec(old, before), _GraphSpec(new, after)
    compilers = _compiler_changes(had, has)
    is_rewritten = had.names_its_compiler is not has.names_its_compiler
    edges = [old.dependencies, new.dependencies]
    if compilers or is_rewritten:  # these stand for differences in compilers and runtimes among the dependencies
        edges = [[e for e in some if not e.languages and e.name not in graphs.RUNTIMES] for some in edges]
    both, removed, added = _paired(*edges)
    if is_rewritten:
        compiler = (had if had.names_its_compiler else has).node.compiler
        removed, added = (
            [edge for edge in found if "libc" not in edge.virtuals and side.label(edge) != compiler]
            for found, side in ((removed, had), (added, has))
        )
    cause = partial(Cause, package=new.name)
    own = [
        *attribute_causes(old, new),
        *(cause(what=What.DEPENDENCY_REMOVED, before=had.label(edge)) for edge in removed),
        *(cause(what=What.DEPENDENCY_ADDED, after=has.label(edge)) for edge in added),
        *(cause(what=What.DEPENDENCY_CHANGED, before=had.use(d), after=has.use(e)) for d, e in both if d.use != e.use),
        *compilers,
        *([graphs.SPACK] if is_rewritten else []),
    ]
    # The recipe counts only if nothing else in the spec itself differs: a new version has another recipe anyway.
    recipes = old.ingredients.recipe, new.ingredients.recipe
    if not own and all(recipes) and recipes[0] != recipes[1]:
        own = [cause(what=What.RECIPE, before=recipes[0], after=recipes[1])]
    return own, both


def _paired(
    old: Sequence[Dependency], new: Sequence[Dependency]
) -> tuple[Sequence[tuple[Dependency, Dependency]], Sequence[Dependency], Sequence[Dependency]]:
    """Pair dependencies on the same package by hash, then use, then order; return pairs, and the rest of each list."""
    pairs: list[tuple[Dependency, Dependency]] = []
    keys: tuple[Callable[[Dependency], Hashable], ...] = (lambda e: (e.name, e.hash), lambda e: e.use, lambda e: e.name)
    for key in keys:
        waiting: defaultdict[Hashable, deque[Dependency]] = defaultdict(deque)
        for edge in new:
            waiting[key(edge)].append(edge)
        left: list[Dependency] = []
        for edge in old:
            if others := waiting[key(edge)]:
                pairs.append((edge, others.popleft()))
            else:
                left.append(edge)
        old, new = left, [edge for others in waiting.values() for edge in others]
    return pairs, old, new


def attribute_causes(old: GraphNode, new: GraphNode) -> Iterator[Cause]:
    """Yield the differences of `new` from `old` as causes, except those in recipes, compilers and dependencies."""
    made, now = old.ingredients, new.ingredients
    # Spack before 1.0 describes externals as if it had compiled them.
    is_rewritten = bool(old.compiler) is not bool(new.compiler)
    is_same_external = is_rewritten and old.is_external and made.external == now.external
    singles = [
        (What.VERSION, old.version, new.version),
        (What.EXTERNAL, made.external, now.external),
        (What.NAMESPACE, made.namespace, now.namespace),
        (What.SPLICE, made.spliced, now.spliced),
    ]
    if not is_same_external:
        singles += [(What.OS, old.os, new.os), (What.TARGET, old.target, new.target)]
    for what, before, after in singles:
        if before != after:
            yield Cause(package=new.name, what=what, before=before, after=after)
    if is_same_external or (old.variants == new.variants and made.flags == now.flags):
        return
    options = [{*node.variants, *node.ingredients.flags} for node in (old, new)]
    patches = [{each for each in some if each.partition("=")[0].rstrip(":=") == "patches"} for some in options]
    for what, (had, has) in (
        (What.VARIANTS, (options[0] - patches[0], options[1] - patches[1])),
        (What.PATCHES, patches),
    ):
        if had != has:
            yield Cause(package=new.name, what=what, before=tuple(sorted(had - has)), after=tuple(sorted(has - had)))


def _compiler_changes(old: _GraphSpec, new: _GraphSpec) -> list[Cause]:
    """Return the changes of compilers from `old` to `new`; languages with the same change share a cause."""
    if old.node.is_external or new.node.is_external:
        return []
    if old.node.compiler == new.node.compiler and old.compiler_edges == new.compiler_edges:
        return []
    had, has = old.compilers, new.compilers
    changed: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    if "" in had or "" in has:
        # Old Spack names a compiler even for what is not compiled, such as bundles; newer Spack names none for these.
        old_compiler, other = (
            next((side[language] for language in ("", *graphs.LANGUAGES) if language in side), "")
            for side in (had, has)
        )
        if old_compiler and other:
            changed[old_compiler, other] = []
    else:
        for language in graphs.LANGUAGES:
            changed[had.get(language, ""), has.get(language, "")].append(language)
    return [
        Cause(package=new.node.name, what=What.COMPILER, before=one, after=other, languages=tuple(languages))
        for (one, other), languages in changed.items()
        if one != other
    ]


class _Compared(NamedTuple):
    """How two specs themselves differ, and the pairs of their dependencies that have different hashes."""

    own: frozenset[Cause]
    below: Sequence[SpecPair]


class Walk:
    """Finds why specs of two graphs have different hashes; keeps all results for later questions."""

    def __init__(self, before: Graph, after: Graph, rest: Cause = graphs.SPACK) -> None:
        """Compare the graphs `before` and `after`; `rest` is the cause where specs differ in nothing but the hash."""
        self._graphs = before, after
        self._rest = frozenset([rest])
        self._found: dict[SpecPair, frozenset[Cause]] = {}

    def causes(self, package: str, before: str, after: str) -> tuple[Cause, ...]:
        """Return why the specs of `package` with the hashes `before` and `after` differ; () if they are one spec."""
        return tuple(sorted(self._find(self._pair(package, before, after)), key=lambda cause: cause.sort_key))

    def fewest(self, package: str, before: Iterable[str], after: str) -> str:
        """Return the hash in `before` whose spec has the fewest differences from `after`; of several, the first."""
        best, fewest = "", (0, False)
        for candidate in before:
            found = self._find(self._pair(package, candidate, after))
            count = MOST_CAUSES + 1 if found == _TOO_MANY else len(found - graphs.WEAKEST), bool(found & graphs.WEAKEST)
            if not best or count < fewest:
                best, fewest = candidate, count
            if not fewest[0]:  # no other candidate can be nearer
                break
        return best

    def paths(self, package: str, before: str, after: str) -> Causes:
        """Return what `causes` returns, each cause with the shortest path down from `package` to what differs."""
        asked = self._pair(package, before, after)
        left = self._find(asked)
        if left == _TOO_MANY:
            return {graphs.TOO_MANY: (package,)}
        paths: dict[Cause, tuple[str, ...]] = {}
        above: dict[SpecPair, SpecPair | None] = {asked: None}

        def path_to(pair: SpecPair | None) -> Iterator[str]:
            while pair is not None:
                yield pair[0]
                pair = above[pair]

        waiting = deque([asked])
        while waiting and left:
            pair = waiting.popleft()
            compared = self._compare(pair)
            own = self._rest if self._found[pair] == self._rest else compared.own
            paths |= {cause: tuple(path_to(pair))[::-1] for cause in own & left}
            left -= own
            below = [inner for inner in dict.fromkeys(compared.below) if inner not in above]
            above |= dict.fromkeys(below, pair)
            waiting += below
        return paths

    def _compare(self, pair: SpecPair) -> _Compared:
        package, before, after = pair
        old, new = (graph.find(package, name) for graph, name in zip(self._graphs, (before, after), strict=True))
        if old is None or new is None:
            return _Compared(frozenset([Cause(package=package, what=What.NOT_DESCRIBED)]), ())
        own, both = _compare_specs(old, new, *self._graphs)
        below = [(one.name, one.hash, other.hash) for one, other in both if one.hash != other.hash]
        return _Compared(frozenset(own), [each for each in below if self._is_other(each)])

    def _is_other(self, pair: SpecPair) -> bool:
        """Tell whether the two hashes of `pair` mean different specs; one may be whole, and the other shortened."""
        package, before, after = pair
        if len(before) == len(after) or graphs.name_of(before) != graphs.name_of(after):
            return True
        old, new = self._graphs[0].find(package, before), self._graphs[1].find(package, after)
        return old is None or new is None or old.hash != new.hash

    def _pair(self, package: str, before: str, after: str) -> SpecPair:
        """Return `package` and both hashes as dependents write them, so that no two specs are compared twice."""
        sides = zip(self._graphs, (before, after), strict=True)
        # A shortened hash is not found where several specs share it.
        old, new = (graphs.name_of(h) if graph.find(package, graphs.name_of(h)) else h for graph, h in sides)
        return (package, before, after) if old == new and before != after else (package, old, new)

    def _find(self, asked: SpecPair) -> frozenset[Cause]:
        if asked[1] == asked[2]:
            return frozenset()
        if asked not in self._found:
            self._explore(asked)
        return self._found[asked]

    def _explore(self, asked: SpecPair) -> None:
        """Find the causes of the pair `asked` and of all pairs below it, without recursion: graphs may be deep.

        Pairs that reach each other, as in a damaged graph, share their causes (Tarjan's connected components).
        """
        order, earliest, compared = {asked: 0}, {asked: 0}, {asked: self._compare(asked)}
        is_open = [asked]
        path = [(asked, iter(compared[asked].below))]
        while path:
            pair, below = path[-1]
            for inner in below:
                if inner in self._found:
                    continue
                if inner not in order:
                    order[inner] = earliest[inner] = len(order)
                    compared[inner] = self._compare(inner)
                    is_open.append(inner)
                    path.append((inner, iter(compared[inner].below)))
                    break
                earliest[pair] = min(earliest[pair], order[inner])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    earliest[above] = min(earliest[above], earliest[pair])
                if earliest[pair] == order[pair]:
                    component = [is_open.pop()]
                    while component[-1] != pair:
                        component.append(is_open.pop())
                    self._close({each: compared.pop(each) for each in component})

    def _close(self, component: Mapping[SpecPair, _Compared]) -> None:
        """Store the causes of `component`: pairs that reach each other, so that all share them; usually one pair."""
        all_causes: set[Cause] = set()
        for own, below in component.values():
            all_causes.update(own, *(self._found.get(each, frozenset()) for each in below))
        is_too_much = graphs.TOO_MANY in all_causes or len(all_causes) > MOST_CAUSES
        causes = _TOO_MANY if is_too_much else frozenset(all_causes) or self._rest
        self._found |= dict.fromkeys(component, causes)


def explain_new_specs(
    before: Mapping[str, GraphNode], after: Mapping[str, GraphNode], matches: Mapping[str, Set[str]], walk: Walk
) -> Iterator[Explanation]:
    """Yield, for each spec that only `after` has, its nearest predecessor (an older spec) and why their hashes differ.

    `before` and `after` are the specs of a package by hash; `matches` has, by new hash, removed hashes it may replace.
    """
    kept, vanished = before.keys() & after.keys(), before.keys() - after.keys()
    alike = grouped((_identity(before[spec_hash]), spec_hash) for spec_hash in kept)
    dependencies = {spec_hash: frozenset(node.below) for spec_hash, node in before.items()}

    def candidates(new: GraphNode) -> Iterator[tuple[Collection[str], Explanation]]:
        """Yield sets of possible predecessors of `new` (hashes), the likeliest first, with an explanation for each."""
        yield matches.get(new.hash, set()), Explanation(spec=new)
        yield alike.get(_identity(new), ()), Explanation(spec=new, is_beside=True)
        for is_paired in (True, False):
            for hashes, is_beside in ((vanished, False), (kept, True)):
                near = [h for h in hashes if ((before[h].os, before[h].target) == (new.os, new.target)) is is_paired]
                yield near, Explanation(spec=new, is_beside=is_beside, is_paired=is_paired, is_match=False)

    def nearest(new: GraphNode, hashes: Collection[str]) -> str:
        """Return which of `hashes` shares most direct dependencies with `new`; of equals, that with fewest causes."""
        own = frozenset(new.below)
        shared = {old: len(own & dependencies[old]) for old in hashes}
        most = max(shared.values())
        best = sorted(old for old, count in shared.items() if count == most)
        return walk.fewest(new.name, best, new.hash) if len(best) > 1 else best[0]

    for spec_hash in sorted(after.keys() - before.keys()):
        new = after[spec_hash]
        hashes, explanation = next((some for some in candidates(new) if some[0]), ((), Explanation(spec=new)))
        if hashes:
            old = nearest(new, hashes)
            explanation = replace(explanation, predecessor=before[old], causes=walk.causes(new.name, old, spec_hash))
        yield explanation


def _identity(node: GraphNode) -> tuple[object, ...]:
    return (node.version, node.compiler, node.os, node.target, node.variants)


class Impact(Struct, frozen=True, kw_only=True):
    """How many specs of a cache depend on the specs `asked`; a dependent counts once in each of its stacks."""

    asked: tuple[str, ...]  # hashes
    specs: int  # number of dependents, without the specs `asked` themselves
    of_specs: int  # number of all specs in the cache
    packages: Mapping[str, int]  # number of dependent specs by package
    stacks: Mapping[str, tuple[int, int]]  # numbers of dependent specs and packages by stack; "" is no stack
    direct: frozenset[str]  # packages with a direct dependency on the asked specs


def find_impact(nodes: Sequence[GraphNode], asked: Set[str], stacks_of: Mapping[str, tuple[str, ...]]) -> Impact:
    """Count specs in `nodes` that depend, even indirectly, on the hashes `asked`; `stacks_of` has stacks by hash."""
    names = {node.hash: node.name for node in nodes}
    by_dependency = grouped((name, node.hash) for node in nodes for name in node.below)

    def dependents(spec_hash: str) -> Iterator[str]:
        for name in {graphs.name_of(spec_hash), spec_hash}:
            yield from by_dependency.get(name, ())

    reached, waiting = set(asked), list(asked)
    while waiting:
        found = set(dependents(waiting.pop())) - reached
        reached |= found
        waiting += found
    affected = [spec_hash for spec_hash in reached - asked if spec_hash in stacks_of]
    packages = Counter(names[spec_hash] for spec_hash in affected)
    by_stack = grouped((stack, names[one]) for one in affected for stack in stacks_of[one] or ("",))
    return Impact(
        asked=tuple(sorted(asked)),
        specs=len(affected),
        of_specs=len(stacks_of),
        packages=dict(sorted(packages.items(), key=lambda one: (-one[1], one[0]))),
        stacks={s: (len(p), len({*p})) for s, p in sorted(by_stack.items(), key=lambda one: (-len(one[1]), one[0]))},
        direct=frozenset(names[h] for one in asked for h in dependents(one) if h in stacks_of and h not in asked),
    )
