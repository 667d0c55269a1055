"""Why a spec has another hash than its predecessor: the specs in its graph that differ in themselves.

Both graphs are walked together. A spec that differs in itself is a cause, and so is whatever is found
below it; a spec that differs only in what is below it passes that on.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from cachewatch.core.graph import LANGUAGES, RUNTIMES, Dependency, Graph, GraphNode

Value = str | tuple[str, ...]


class What(StrEnum):
    """In what a spec differs."""

    VERSION = "version"
    VARIANTS = "variants"
    COMPILER = "compiler"
    OS = "os"
    TARGET = "target"
    RECIPE = "recipe"
    EXTERNAL = "external"
    NAMESPACE = "namespace"
    PATCHES = "patches"
    SPLICE = "splice"
    FLAGS = "flags"
    DEPENDENCY_ADDED = "dependency-added"
    DEPENDENCY_REMOVED = "dependency-removed"
    DEPENDENCY_CHANGED = "dependency-changed"
    NOT_DESCRIBED = "not-described"  # its graph does not say what it is
    SPACK = "spack"  # nothing that is recorded differs: another Spack wrote it
    NOT_RECORDED = "not-recorded"  # there is no graph


class Cause(Struct, frozen=True, kw_only=True):
    """One difference of one package. Variants, flags and patches are those that differ only."""

    package: str  # "" where no package is to blame
    what: What
    before: Value = ""
    after: Value = ""
    languages: tuple[str, ...] = ()  # of a compiler

    @property
    def sort_key(self) -> tuple[object, ...]:
        """By package, then by what differs."""
        return (self.package, self.what, _text(self.before), _text(self.after), self.languages)


# Each cause with a way to it: names from the spec that was asked for down to the one that differs.
Causes = Mapping[Cause, tuple[str, ...]]


class Explanation(Struct, frozen=True, kw_only=True):
    """A spec, its nearest predecessor, and the causes of its other hash, each with a way to it."""

    spec: GraphNode
    predecessor: GraphNode | None = None
    is_beside: bool = False  # the predecessor is still there
    is_paired: bool = True  # the predecessor has the same operating system and target
    is_match: bool = True  # the comparison pairs them, or they are alike in everything but the hash
    causes: Causes


class LockChange(Struct, frozen=True, kw_only=True):
    """What differs between two lock files; externals are not explained, only what depends on them."""

    specs: int  # in the newer one, without externals
    explained: tuple[Explanation, ...]  # those of the newer one that the older one does not have, roots first
    added: tuple[GraphNode, ...]  # of packages that the older one does not have
    removed: tuple[GraphNode, ...]  # of packages that the newer one does not have
    roots: frozenset[str]


SPACK = Cause(package="", what=What.SPACK)


def _text(value: Value) -> str:
    return value if isinstance(value, str) else " ".join(value)


# A package, and the hashes of two of its specs.
_Pair = tuple[str, str, str]


class _Edges(Struct, frozen=True):
    both: Sequence[tuple[Dependency, Dependency]]
    removed: Sequence[Dependency]
    added: Sequence[Dependency]


class _Compared(Struct, frozen=True):
    """Two specs: what differs in themselves, and which pairs of specs below them differ."""

    name: str
    own: Sequence[Cause]
    below: Sequence[_Pair]


# What compiles a spec, by language; by "" where its node only names one.
_Compilers = Mapping[str, str]


class Walk:
    """Compares specs of two graphs; what was found of a pair of hashes is kept, since most of a night shares it."""

    def __init__(self, before: Graph, after: Graph) -> None:
        self._before = before
        self._after = after
        self._found: dict[_Pair, Causes] = {}

    def causes(self, package: str, before: str, after: str) -> Causes:
        """Return why the hash `after` of `package` is another one than `before`; nothing if they are equal."""
        asked = (package, before, after)
        # Without recursion, since graphs may be deep; what is open is on the way down, so that cycles end.
        path = [asked]
        is_open: dict[_Pair, _Compared | None] = {}
        while path:
            pair = path[-1]
            if pair in self._found or pair[1] == pair[2]:
                path.pop()
            elif pair in is_open:
                self._found[pair] = self._of(pair, is_open.pop(pair))
                path.pop()
            else:
                is_open[pair] = found = self._compared(pair)
                path += [p for p in (found.below if found else ()) if p not in self._found and p not in is_open]
        return self._found.get(asked, {})

    def _compared(self, pair: _Pair) -> _Compared | None:
        """Compare two specs without what is below them; None where either is not described."""
        package, before, after = pair
        old, new = self._before.find(package, before), self._after.find(package, after)
        if old is None or new is None:
            return None
        had, has = _compilers_of(old, self._before), _compilers_of(new, self._after)
        is_installed_otherwise = old.is_external or new.is_external
        changes = [] if is_installed_otherwise else _compiler_changes(new.name, had, has)
        edges = _matched(old, new, has_other_compiler=bool(changes))
        below = tuple((other.name, one.hash, other.hash) for one, other in edges.both if one.hash != other.hash)
        return _Compared(name=new.name, own=_own(old, new, edges, changes), below=below)

    def _of(self, pair: _Pair, compared: _Compared | None) -> Causes:
        if compared is None:
            return {Cause(package=pair[0], what=What.NOT_DESCRIBED): (pair[0],)}
        found: dict[Cause, tuple[str, ...]] = dict.fromkeys(compared.own, (compared.name,))
        for below in compared.below:
            for cause, path in self._found.get(below, {}).items():
                if cause not in found or len(path) + 1 < len(found[cause]):
                    found[cause] = (compared.name, *path)
        if len(found) > 1:
            found.pop(SPACK, None)
        return found or {SPACK: (compared.name,)}


def _compilers_of(node: GraphNode, graph: Graph) -> _Compilers:
    found: dict[str, str] = {}
    for edge in node.dependencies:
        if edge.virtuals and (languages := edge.languages):
            compiler = graph.find(edge.name, edge.hash)
            name = f"{compiler.name}@{compiler.version}" if compiler is not None else edge.name
            found |= dict.fromkeys(languages, name)
    return found or ({"": node.compiler} if node.compiler else {})


def _is_of_compiler(edge: Dependency) -> bool:
    return bool(edge.languages) or edge.name in RUNTIMES


def _matched(old: GraphNode, new: GraphNode, *, has_other_compiler: bool) -> _Edges:
    """Pair the edges of two specs by package; those of another compiler belong to the change of the compiler."""
    sides = [
        [edge for edge in node.dependencies if not (has_other_compiler and _is_of_compiler(edge))]
        for node in (old, new)
    ]
    if [edge.name for edge in sides[0]] == [edge.name for edge in sides[1]]:
        names = {edge.name for edge in sides[0]}
        if len(names) == len(sides[0]):  # the usual case: both depend on the same packages, on each once
            return _Edges(list(zip(*sides, strict=True)), (), ())
    return _matched_by_name(*sides)


def _matched_by_name(old: Sequence[Dependency], new: Sequence[Dependency]) -> _Edges:
    both: list[tuple[Dependency, Dependency]] = []
    removed: list[Dependency] = []
    added: list[Dependency] = []
    by_name: defaultdict[str, tuple[list[Dependency], list[Dependency]]] = defaultdict(lambda: ([], []))
    for side, edges in enumerate((old, new)):
        for edge in edges:
            by_name[edge.name][side].append(edge)
    for those, these in by_name.values():
        pairs, gone, came = _paired(those, these)
        both += pairs
        removed += gone
        added += came
    return _Edges(both, removed, added)


def _paired(
    old: Sequence[Dependency], new: Sequence[Dependency]
) -> tuple[list[tuple[Dependency, Dependency]], list[Dependency], list[Dependency]]:
    """Pair edges to specs of one package: equal hashes first, then those that are used alike, then in order."""
    left, rest = list(old), list(new)
    pairs: list[tuple[Dependency, Dependency]] = []
    for is_alike in (_has_equal_hash, _is_used_alike, _is_any):
        for edge in list(left):
            other = next((one for one in rest if is_alike(edge, one)), None)
            if other is not None:
                pairs.append((edge, other))
                left.remove(edge)
                rest.remove(other)
    return pairs, left, rest


def _has_equal_hash(one: Dependency, other: Dependency) -> bool:
    return one.hash == other.hash


def _is_used_alike(one: Dependency, other: Dependency) -> bool:
    return (one.types, one.virtuals) == (other.types, other.virtuals)


def _is_any(one: Dependency, other: Dependency) -> bool:
    return one.name == other.name


def _own(old: GraphNode, new: GraphNode, edges: _Edges, compilers: Sequence[Cause]) -> list[Cause]:
    """Return what differs in the spec itself; its recipe only if nothing else does."""
    name = new.name
    found = [*_attributes(old, new), *compilers]
    found += [Cause(package=name, what=What.DEPENDENCY_REMOVED, before=edge.name) for edge in edges.removed]
    found += [Cause(package=name, what=What.DEPENDENCY_ADDED, after=edge.name) for edge in edges.added]
    found += [
        Cause(package=name, what=What.DEPENDENCY_CHANGED, before=_used(one), after=_used(other))
        for one, other in edges.both
        if not _is_used_alike(one, other)
    ]
    recipes = old.ingredients.recipe, new.ingredients.recipe
    if not found and recipes[0] != recipes[1]:
        found.append(Cause(package=name, what=What.RECIPE, before=recipes[0], after=recipes[1]))
    return found


def _used(edge: Dependency) -> str:
    virtuals = f" as {','.join(edge.virtuals)}" if edge.virtuals else ""
    return f"{edge.name} ({', '.join(edge.types)}){virtuals}"


def _attributes(old: GraphNode, new: GraphNode) -> Iterator[Cause]:
    name = new.name
    singles: tuple[tuple[What, str, str], ...] = (
        (What.VERSION, old.version, new.version),
        (What.OS, old.os, new.os),
        (What.TARGET, old.target, new.target),
        (What.EXTERNAL, old.ingredients.external, new.ingredients.external),
        (What.NAMESPACE, old.ingredients.namespace, new.ingredients.namespace),
        (What.SPLICE, old.ingredients.spliced, new.ingredients.spliced),
    )
    for what, before, after in singles:
        if before != after:
            yield Cause(package=name, what=what, before=before, after=after)
    if old.variants == new.variants and old.ingredients.flags == new.ingredients.flags:
        return
    patches = [_patches(node.variants) for node in (old, new)]
    lists = (
        (What.VARIANTS, set(old.variants) - patches[0], set(new.variants) - patches[1]),
        (What.PATCHES, patches[0], patches[1]),
        (What.FLAGS, set(old.ingredients.flags), set(new.ingredients.flags)),
    )
    for what, had, has in lists:
        if had != has:
            yield Cause(package=name, what=what, before=tuple(sorted(had - has)), after=tuple(sorted(has - had)))


def _patches(variants: Iterable[str]) -> set[str]:
    return {variant for variant in variants if variant.partition("=")[0].rstrip(":=") == "patches"}


def _compiler_changes(name: str, had: _Compilers, has: _Compilers) -> list[Cause]:
    """Return the changes of the compiler: one for all languages that changed alike."""
    if not had or not has:
        # Old Spack names a compiler of what nothing compiles, such as bundles; that newer Spack does not is no change.
        if "" in had or "" in has or not (had or has):
            return []
        had, has = dict(had), dict(has)
    elif "" in had or "" in has:  # one of the two names only one
        one, other = (_first(compilers) for compilers in (had, has))
        return [Cause(package=name, what=What.COMPILER, before=one, after=other)] if one != other else []
    changed: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for language in LANGUAGES:
        change = had.get(language, ""), has.get(language, "")
        if change[0] != change[1]:
            changed[change].append(language)
    return [
        Cause(package=name, what=What.COMPILER, before=before, after=after, languages=tuple(languages))
        for (before, after), languages in changed.items()
    ]


def _first(compilers: _Compilers) -> str:
    return next(compilers[language] for language in ("", *LANGUAGES) if language in compilers)
