"""Dependency graphs, the causes of rebuilds as values, and how a night of rebuilds is divided among its causes.

Each spec is counted once, under the cause that explains most of what is left. docs/why.md describes the answers.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

# What a compiler compiles; a dependency with one of these virtuals is a compiler.
LANGUAGES = ("c", "cxx", "fortran")

# Packages that come with a compiler, and change with it.
RUNTIMES = frozenset({"compiler-wrapper", "gcc-runtime", "intel-oneapi-runtime", "llvm-runtime", "nvhpc-runtime"})


# So many letters of a hash name a dependency: 60 bits, so that hardly ever two specs of a cache have the same ones.
NAME_LETTERS = 12


def shared_names(hashes: Iterable[str]) -> frozenset[str]:
    """Return the first letters that several of these hashes have; such a hash is its own name."""
    counts = Counter(spec_hash[:NAME_LETTERS] for spec_hash in hashes)
    return frozenset(name for name, count in counts.items() if count > 1)


def name_of(spec_hash: str, shared: Set[str] = frozenset()) -> str:
    """Return how dependents name a spec: by its first letters, or by its hash where others share those."""
    name = spec_hash[:NAME_LETTERS]
    return spec_hash if name in shared else name


class Use(Struct, frozen=True, order=True, omit_defaults=True, gc=False):
    """How specs depend on a package (build, link, run, test), and the virtuals that it provides them with."""

    name: str
    types: tuple[str, ...] = ()
    virtuals: tuple[str, ...] = ()


class Dependency(Struct, frozen=True, order=True, omit_defaults=True, gc=False):
    """An edge to another spec, and how it is used."""

    name: str
    hash: str  # as `name_of` shortens it
    types: tuple[str, ...] = ()
    virtuals: tuple[str, ...] = ()

    @property
    def use(self) -> Use:
        """How it is used, without which spec it is."""
        return Use(self.name, self.types, self.virtuals)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages for which it is the compiler."""
        return languages_of(self.virtuals)


def languages_of(virtuals: Sequence[str]) -> tuple[str, ...]:
    """Return the languages that something compiles that provides these virtuals."""
    return tuple([language for language in LANGUAGES if language in virtuals]) if virtuals else ()


class Ingredients(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, rename={"uses": "dependencies"}):
    """What goes into the hash of a spec beside what a document says of it and which specs it depends on."""

    recipe: str = ""  # the hash of the recipe of the package
    namespace: str = ""
    external: str = ""  # the path or the module of an external
    flags: tuple[str, ...] = ()  # cflags=-O2
    spliced: str = ""  # the hash of the spec that was built, if its dependencies were replaced afterwards
    uses: tuple[Use, ...] = ()


class GraphNode(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One concrete spec. Versions, compilers and variants are spelled as documents spell them."""

    hash: str
    name: str
    version: str = ""
    compiler: str = ""  # "" where nothing says which
    os: str = ""
    target: str = ""
    variants: tuple[str, ...] = ()
    ingredients: Ingredients = Ingredients()
    below: tuple[str, ...] = ()  # the specs it depends on, as `name_of` shortens them, in the order of their uses

    @property
    def dependencies(self) -> Sequence[Dependency]:
        """Its edges."""
        edges = zip(self.ingredients.uses, self.below, strict=True)
        return [Dependency(use.name, name, use.types, use.virtuals) for use, name in edges]

    @property
    def is_external(self) -> bool:
        """Whether it was installed by other means than Spack."""
        return bool(self.ingredients.external)


class Graph(Protocol):
    """Specs that can be found by package and hash."""

    def find(self, package: str, name: str) -> GraphNode | None:
        """Return the spec of that name or hash; None if the graph does not describe it."""


class Nodes:
    """A graph that is at hand as a whole."""

    def __init__(self, nodes: Mapping[str, GraphNode]) -> None:
        """Take specs by hash."""
        self._named = by_name(nodes)

    def find(self, package: str, name: str) -> GraphNode | None:  # noqa: ARG002  a hash is enough
        """Return the spec of that name or hash; None if the graph does not describe it."""
        return self._named.get(name)


def by_name(nodes: Mapping[str, GraphNode]) -> Mapping[str, GraphNode]:
    """Return specs by hash and by name; a name that several share is of none."""
    found = {spec_hash[:NAME_LETTERS]: node for spec_hash, node in nodes.items()}
    for name in shared_names(nodes) if len(found) < len(nodes) else ():
        del found[name]
    return {**found, **nodes}


Value = str | tuple[str, ...]


class What(StrEnum):
    """In what a spec differs."""

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
    NOT_DESCRIBED = "not-described"  # its graph does not say what it is
    TOO_MANY = "too-many"  # more causes than are told apart
    SPACK = "spack"  # another Spack wrote it: nothing that is recorded differs, or only how compilers are written
    NOT_RECORDED = "not-recorded"  # there is no graph


class Cause(Struct, frozen=True, kw_only=True):
    """One difference of one package. Of variants and patches only those that differ; dependencies as name@version."""

    package: str  # "" where no package is to blame
    what: What
    before: Value = ""
    after: Value = ""
    languages: tuple[str, ...] = ()  # of a compiler

    @property
    def sort_key(self) -> tuple[object, ...]:
        """By package, then by what differs."""
        return (self.package, self.what, _text(self.before), _text(self.after), self.languages)


# Each cause with the shortest way to it: names from the spec that was asked for down to the one that differs.
Causes = Mapping[Cause, tuple[str, ...]]


class Explanation(Struct, frozen=True, kw_only=True):
    """A spec, its nearest predecessor, and the causes of its other hash."""

    spec: GraphNode
    predecessor: GraphNode | None = None
    is_beside: bool = False  # the predecessor is still there
    is_paired: bool = True  # the predecessor has the same operating system and target
    is_match: bool = True  # the comparison pairs them, or they are alike in everything but the hash
    causes: tuple[Cause, ...] = ()
    paths: Causes = MappingProxyType({})  # if they were asked for


class LockChange(Struct, frozen=True, kw_only=True):
    """What differs between two lock files; externals are not explained, only what depends on them."""

    specs: int  # in the newer one, without externals
    explained: tuple[Explanation, ...]  # those of the newer one that the older one does not have, roots first
    added: tuple[GraphNode, ...]  # of packages that the older one does not have
    removed: tuple[GraphNode, ...]  # of packages that the newer one does not have
    roots: frozenset[str]


SPACK = Cause(package="", what=What.SPACK)
TOO_MANY = Cause(package="", what=What.TOO_MANY)
NOT_RECORDED = Cause(package="", what=What.NOT_RECORDED)


def _text(value: Value) -> str:
    return value if isinstance(value, str) else " ".join(value)


class Attributed(Struct, frozen=True, kw_only=True):
    """A cause, all specs that have it, and how many of them are counted here and nowhere else."""

    cause: Cause
    hashes: tuple[str, ...]
    attributed: tuple[str, ...]


def attribute(causes: Mapping[str, Iterable[Cause]]) -> tuple[Attributed, ...]:
    """Return the causes of specs by hash, most specs first; `attributed` has each spec that has any cause once."""
    alike: defaultdict[frozenset[Cause], list[str]] = defaultdict(list)
    for spec_hash, found in causes.items():
        alike[frozenset(found)].append(spec_hash)
    chosen = assign({found: len(hashes) for found, hashes in alike.items()})
    specs: defaultdict[Cause, list[str]] = defaultdict(list)
    taken: defaultdict[Cause, list[str]] = defaultdict(list)
    for found, hashes in alike.items():
        for cause in found:
            specs[cause] += hashes
        if found:
            taken[chosen[found]] += hashes
    done = [
        Attributed(cause=cause, hashes=tuple(sorted(specs[cause])), attributed=tuple(sorted(taken[cause])))
        for cause in specs
    ]
    return tuple(sorted(done, key=lambda one: (-len(one.hashes), -len(one.attributed), one.cause.sort_key)))


def assign(counts: Mapping[frozenset[Cause], int]) -> Mapping[frozenset[Cause], Cause]:
    """Return under which of its causes each set of causes is counted; the mapping says how many specs have a set.

    The cause of most specs takes them all, then that of most of the others, and so on; what another Spack wrote comes
    last, since it says nothing of the software.
    """
    sets: defaultdict[Cause, list[frozenset[Cause]]] = defaultdict(list)
    sizes: Counter[Cause] = Counter()
    for causes, count in counts.items():
        for cause in causes:
            sets[cause].append(causes)
            sizes[cause] += count
    assigned: dict[frozenset[Cause], Cause] = {}
    while sizes:
        cause = min(
            sizes, key=lambda one: (one.what is What.SPACK, -sizes[one], one.what is What.NOT_DESCRIBED, one.sort_key)
        )
        for causes in sets[cause]:
            if causes not in assigned:
                assigned[causes] = cause
                for other in causes:
                    sizes[other] -= counts[causes]
        sizes = +sizes  # without those that explain nothing more
    return assigned
