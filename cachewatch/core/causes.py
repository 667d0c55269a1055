"""Why specs have other hashes, as values: causes, and the explanations that are made of them."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

from cachewatch.core.graph import GraphNode

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
