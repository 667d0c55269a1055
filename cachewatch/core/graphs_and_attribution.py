"""Dependency graphs, the causes of rebuilds as values, and the attribution of rebuilt specs to causes (docs/why.md)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

# Languages, which are virtuals: a dependency that provides one of them is a compiler.
LANGUAGES = ("c", "cxx", "fortran")

# Packages that come with a compiler, and change with it.
RUNTIMES = frozenset({"compiler-wrapper", "gcc-runtime", "intel-oneapi-runtime", "llvm-runtime", "nvhpc-runtime"})

NAME_LETTERS = 12  # of a hash that name a dependency: 60 bits, so two specs of a cache hardly ever share them


def shared_names(hashes: Iterable[str]) -> frozenset[str]:
    """Return the shortened hashes that several of `hashes` have in common; `name_of` leaves such hashes whole."""
    counts = Counter(spec_hash[:NAME_LETTERS] for spec_hash in hashes)
    return frozenset(name for name, count in counts.items() if count > 1)


def name_of(spec_hash: str, shared: Set[str] = frozenset()) -> str:
    """Return the shortened hash by which dependents refer to a spec, or the whole one if `shared` has the short one."""
    name = spec_hash[:NAME_LETTERS]
    return spec_hash if name in shared else name


class Use(Struct, frozen=True, order=True, omit_defaults=True, gc=False):
    """How a package is used as a dependency: types (build, link, run, test), and virtual packages that it provides."""

    name: str
    types: tuple[str, ...] = ()
    virtuals: tuple[str, ...] = ()


class Dependency(Struct, frozen=True, order=True, omit_defaults=True, gc=False):
    """A dependency of a spec: its package and hash, and how the spec uses it."""

    name: str
    hash: str  # shortened by `name_of`
    types: tuple[str, ...] = ()
    virtuals: tuple[str, ...] = ()

    @property
    def use(self) -> Use:
        """The dependency without its hash."""
        return Use(self.name, self.types, self.virtuals)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages for which the dependency is the compiler."""
        return tuple([each for each in LANGUAGES if each in self.virtuals]) if self.virtuals else ()


class Ingredients(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, rename={"uses": "dependencies"}):
    """What determines the hash of a spec besides the attributes in documents and the hashes of dependencies."""

    recipe: str = ""  # the hash of the recipe of the package
    namespace: str = ""
    external: str = ""  # the path or the module of an external
    flags: tuple[str, ...] = ()  # cflags=-O2
    spliced: str = ""  # the hash of the spec that was built, if its dependencies were replaced afterwards
    uses: tuple[Use, ...] = ()


class GraphNode(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One spec of a dependency graph. Versions, compilers and variants are spelled as in documents."""

    hash: str
    name: str
    version: str = ""
    compiler: str = ""  # "" if unknown
    os: str = ""
    target: str = ""
    variants: tuple[str, ...] = ()
    ingredients: Ingredients = Ingredients()
    below: tuple[str, ...] = ()  # its dependencies, by hashes from `name_of`, in the order of `ingredients.uses`

    @property
    def dependencies(self) -> Sequence[Dependency]:
        """The dependencies of the spec, each with its hash and how the spec uses it."""
        edges = zip(self.ingredients.uses, self.below, strict=True)
        return [Dependency(use.name, name, use.types, use.virtuals) for use, name in edges]

    @property
    def is_external(self) -> bool:
        """Whether the spec was installed by other means than Spack."""
        return bool(self.ingredients.external)


class Graph(Protocol):
    """A dependency graph, whose specs can be found by package and hash."""

    def find(self, package: str, name: str) -> GraphNode | None:
        """Return the spec of `package` whose hash or shortened hash is `name`; None if the graph has no such spec."""


class Nodes:
    """A dependency graph in memory."""

    def __init__(self, nodes: Mapping[str, GraphNode]) -> None:
        """Store specs, which `nodes` has by hash."""
        self._named = by_name(nodes)

    def find(self, package: str, name: str) -> GraphNode | None:  # noqa: ARG002  a hash is enough
        """Return the spec whose hash or shortened hash is `name`; None if the graph has no such spec."""
        return self._named.get(name)


def by_name(nodes: Mapping[str, GraphNode]) -> Mapping[str, GraphNode]:
    """Return `nodes` (specs by hash) with more keys: the shortened hashes, where these are unique."""
    shared = shared_names(nodes)
    return {name_of(spec_hash, shared): node for spec_hash, node in nodes.items()} | dict(nodes)


Value = str | tuple[str, ...]


class What(StrEnum):
    """The kind of difference between a spec and its predecessor (see Explanation)."""

    VERSION = "version"
    VARIANTS = "variants"  # and compiler flags
    COMPILER = "compiler"
    OS = "os"
    TARGET = "target"
    RECIPE = "recipe"
    EXTERNAL = "external"
    NAMESPACE = "namespace"
    PATCHES = "patches"
    SPLICE = "splice"
    DEPENDENCY_ADDED = "dependency-added"
    DEPENDENCY_REMOVED = "dependency-removed"
    DEPENDENCY_CHANGED = "dependency-changed"
    NOT_DESCRIBED = "not-described"  # the graph lacks the spec
    TOO_MANY = "too-many"  # more causes than are kept
    SPACK = "spack"  # another version of Spack: nothing recorded differs, or only how compilers are written
    NOT_KNOWN = "not-known"  # nothing recorded differs, and the same version of Spack wrote both
    NOT_RECORDED = "not-recorded"  # there is no graph


class Cause(Struct, frozen=True, kw_only=True):
    """A difference in one package that changes hashes; for variants and patches, only the differing ones are stored."""

    package: str  # "" if the cause lies in no package
    what: What
    before: Value = ""
    after: Value = ""
    languages: tuple[str, ...] = ()  # for which a compiler changed

    @property
    def sort_key(self) -> tuple[object, ...]:
        """A key that sorts by package, then by kind of difference."""
        return (self.package, self.what, _text(self.before), _text(self.after), self.languages)


# Each cause with the shortest path to it: packages from the explained spec down to the one that differs.
Causes = Mapping[Cause, tuple[str, ...]]


class Explanation(Struct, frozen=True, kw_only=True):
    """A spec, its predecessor (the most similar spec of the earlier state), and the causes of the different hash."""

    spec: GraphNode
    predecessor: GraphNode | None = None
    is_beside: bool = False  # the predecessor still exists
    is_paired: bool = True  # the predecessor has the same operating system and target
    is_match: bool = True  # the comparison pairs them, or they differ only in their hashes
    causes: tuple[Cause, ...] = ()
    paths: Causes = MappingProxyType({})  # if requested


class LockChange(Struct, frozen=True, kw_only=True):
    """The differences between two lock files; packages that Spack did not build (externals) are left out."""

    specs: int  # in the newer one, without externals
    explained: tuple[Explanation, ...]  # specs of the newer one that the older one lacks, roots first
    added: tuple[GraphNode, ...]  # specs of packages that the older one lacks
    removed: tuple[GraphNode, ...]  # specs of packages that the newer one lacks
    roots: frozenset[str]
    reused: tuple[tuple[GraphNode, GraphNode], ...] = ()  # one hash with two versions: of one file it is not true


SPACK = Cause(package="", what=What.SPACK)
NOT_KNOWN = Cause(package="", what=What.NOT_KNOWN)
WEAKEST = frozenset([SPACK, NOT_KNOWN])  # they do not concern the software, as far as is known
TOO_MANY = Cause(package="", what=What.TOO_MANY)
NOT_RECORDED = Cause(package="", what=What.NOT_RECORDED)


def _text(value: Value) -> str:
    return value if isinstance(value, str) else " ".join(value)


class Attributed(Struct, frozen=True, kw_only=True):
    """A cause, the hashes of all specs that have it, and the hashes that `attribute` assigned to it."""

    cause: Cause
    hashes: tuple[str, ...]
    attributed: tuple[str, ...]


def attribute(causes: Mapping[str, Iterable[Cause]]) -> tuple[Attributed, ...]:
    """Assign each spec to one of its causes, which `causes` has by hash; return all causes, most specs first."""
    alike: defaultdict[frozenset[Cause], list[str]] = defaultdict(list)
    for spec_hash, own in causes.items():
        alike[frozenset(own)].append(spec_hash)
    chosen = assign({found: len(hashes) for found, hashes in alike.items()})
    specs: defaultdict[Cause, list[str]] = defaultdict(list)
    taken: defaultdict[Cause, list[str]] = defaultdict(list)
    for own, hashes in alike.items():
        for cause in own:
            specs[cause] += hashes
        if own:
            taken[chosen[own]] += hashes
    done = [
        Attributed(cause=cause, hashes=tuple(sorted(specs[cause])), attributed=tuple(sorted(taken[cause])))
        for cause in specs
    ]
    return tuple(sorted(done, key=lambda one: (-len(one.hashes), -len(one.attributed), one.cause.sort_key)))


def assign(counts: Mapping[frozenset[Cause], int]) -> Mapping[frozenset[Cause], Cause]:
    """Choose one cause for each set of causes; `counts` has the number of specs with each set.

    First the cause with most specs is chosen, for all sets that have it; then that with most of the rest; WEAKEST last.
    """
    sets: defaultdict[Cause, list[frozenset[Cause]]] = defaultdict(list)
    sizes: Counter[Cause] = Counter()
    for causes, count in counts.items():
        for cause in causes:
            sets[cause].append(causes)
            sizes[cause] += count
    assigned: dict[frozenset[Cause], Cause] = {}
    while sizes:
        cause = min(sizes, key=lambda one: (one in WEAKEST, -sizes[one], one.what is What.NOT_DESCRIBED, one.sort_key))
        for causes in sets[cause]:
            if causes not in assigned:
                assigned[causes] = cause
                for other in causes:
                    sizes[other] -= counts[causes]
        sizes = +sizes  # without those that explain nothing more
    return assigned
