"""The dependency graph of concrete specs: what a hash was made of. docs/why.md describes what is made of it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
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


class GraphNode(Struct, frozen=True, kw_only=True, gc=False):
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
