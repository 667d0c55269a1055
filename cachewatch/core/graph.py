"""The dependency graph of concrete specs: what a hash was made of. docs/why.md describes what is made of it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

# What a compiler compiles; a dependency with one of these virtuals is a compiler.
LANGUAGES = ("c", "cxx", "fortran")

# Packages that come with a compiler, and change with it.
RUNTIMES = frozenset({"compiler-wrapper", "gcc-runtime", "intel-oneapi-runtime", "llvm-runtime", "nvhpc-runtime"})


class Dependency(Struct, frozen=True, order=True, omit_defaults=True, gc=False):
    """An edge to another spec: how it is used (build, link, run, test), and the virtuals that it provides."""

    name: str
    hash: str
    types: tuple[str, ...] = ()
    virtuals: tuple[str, ...] = ()

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages for which it is the compiler."""
        return tuple(language for language in LANGUAGES if language in self.virtuals)


class Ingredients(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What goes into the hash of a spec beside what a document says of it."""

    recipe: str = ""  # the hash of the recipe of the package
    namespace: str = ""
    external: str = ""  # the path or the module of an external
    flags: tuple[str, ...] = ()  # cflags=-O2
    spliced: str = ""  # the hash of the spec that was built, if its dependencies were replaced afterwards
    dependencies: tuple[Dependency, ...] = ()


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

    @property
    def dependencies(self) -> Sequence[Dependency]:
        """Its edges."""
        return self.ingredients.dependencies

    @property
    def is_external(self) -> bool:
        """Whether it was installed by other means than Spack."""
        return bool(self.ingredients.external)


class Graph(Protocol):
    """Specs that can be found by package and hash."""

    def find(self, package: str, spec_hash: str) -> GraphNode | None:
        """Return a spec; None if the graph does not describe it."""


class Nodes(Struct, frozen=True):
    """A graph that is at hand as a whole, by hash."""

    nodes: Mapping[str, GraphNode]

    def find(self, package: str, spec_hash: str) -> GraphNode | None:  # noqa: ARG002  a hash is enough
        """Return a spec; None if the graph does not describe it."""
        return self.nodes.get(spec_hash)
