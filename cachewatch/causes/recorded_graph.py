"""The dependency graph of one tag in one revision, read package by package as it is asked for."""

from collections.abc import Collection, Mapping
from functools import cached_property
from types import MappingProxyType

from cachewatch.core.graph import NAME_LETTERS, GraphNode, Ingredients, by_name
from cachewatch.core.model import Document, Signature
from cachewatch.core.repository_layout import CATALOGUE, DOCUMENT, PACKAGE_GRAPH, TAG_GRAPH
from cachewatch.core.spack_spellings import NO_COMPILER
from cachewatch.documents.graph_files import MadeOf, read_package_graph, read_tag_graph
from cachewatch.documents.limits import MAX_BYTES
from cachewatch.documents.parsing import parse
from cachewatch.errors import DocumentError, UsageError
from cachewatch.git.repository import Repository
from cachewatch.git.trees import folders

_NOTHING: MadeOf = (Ingredients(), ())
_NO_NODES: Mapping[str, GraphNode] = MappingProxyType({})


class RecordedGraph:
    """The specs of a tag with what they are made of; packages are read when they are needed."""

    def __init__(self, repository: Repository, commit: str, tag: str) -> None:
        self._repository = repository
        self.commit = commit
        self.tag = tag
        self.unreadable: dict[str, str] = {}  # packages that others depend on, with what is wrong
        self._folder = f"{commit}:{CATALOGUE}/{tag}"
        self._packages: dict[str, Mapping[str, GraphNode]] = {}
        self._named: dict[str, Mapping[str, GraphNode]] = {}
        self._documents: dict[str, Document | None] = {}
        others = self._file(f"{self._folder}/{TAG_GRAPH}")
        self.is_recorded = others is not None
        self._others = read_tag_graph(others, f"{CATALOGUE}/{tag}/{TAG_GRAPH}") if others is not None else _NO_NODES
        self._named_others = by_name(self._others)

    def require(self) -> None:
        """Raise UsageError where the revision has no graph."""
        if not self.is_recorded:
            raise UsageError(
                f"{self.tag} at {self.commit[:7]} has no dependency graph (Spack's public catalogue has none);"
                " `cachewatch record URL --into REPO` keeps the graph of a build cache from now on:"
                " then ask with --repo REPO (docs/why.md)"
            )

    @property
    def others(self) -> Collection[GraphNode]:
        """The specs that are no binaries."""
        return self._others.values()

    @cached_property
    def folders(self) -> Mapping[str, str]:
        """The ids of the folders of all packages of the tag; equal ids have equal specs and dependencies."""
        return folders(self._repository, self._folder).ids

    @property
    def packages(self) -> tuple[str, ...]:
        """The names of all packages of the tag."""
        return tuple(sorted(self.folders))

    def find(self, package: str, name: str) -> GraphNode | None:
        """Return the spec of that name or hash; None if the graph does not describe it, or cannot be read there."""
        named = self._named.get(package)
        if named is None:
            named = self._named[package] = self._by_name(package)
        return named.get(name) or self._named_others.get(name)

    def nodes(self, package: str) -> Mapping[str, GraphNode]:
        """Return the binaries of a package, by hash. Raises a DocumentError where its files cannot be read."""
        if package not in self._packages:
            self._packages[package] = self._read_nodes(package)
        return self._packages[package]

    def hashes(self, package: str) -> frozenset[str]:
        """Return the hashes of a package, nothing where its document cannot be read."""
        try:
            document = self.document(package)
        except DocumentError:
            return frozenset()
        return document.specs.hashes if document is not None else frozenset()

    def document(self, package: str) -> Document | None:
        """Return the document of a package; None if there is none. Raises a DocumentError where it cannot be read."""
        if package not in self._documents:
            content = self._file_of(package, DOCUMENT)
            self._documents[package] = None if content is None else parse(content, f"{package}/{DOCUMENT}")
        return self._documents[package]

    def _by_name(self, package: str) -> Mapping[str, GraphNode]:
        try:
            return by_name(self.nodes(package))
        except DocumentError as error:
            self.unreadable[package] = str(error)
            return _NO_NODES

    def _read_nodes(self, package: str) -> Mapping[str, GraphNode]:
        document = self.document(package)
        if document is None:
            return _NO_NODES
        content = self._file_of(package, PACKAGE_GRAPH)
        made_of = {} if content is None else read_package_graph(content, f"{package}/{PACKAGE_GRAPH}")
        return {
            h: _node(h, package, s, made_of.get(h[:NAME_LETTERS]) or made_of.get(h, _NOTHING))
            for h, s in document.specs.items()
        }

    def _file_of(self, package: str, name: str) -> bytes | None:
        """Return a file of a package; git would search the tag for the package again, from the commit down."""
        folder = self.folders.get(package)
        return None if folder is None else self._file(f"{folder}:{name}")

    def _file(self, name: str) -> bytes | None:
        found = self._repository.objects().get(name, most=MAX_BYTES)
        return found.content if found is not None and found.type == "blob" else None


def _node(spec_hash: str, package: str, signature: Signature, made_of: MadeOf) -> GraphNode:
    return GraphNode(
        hash=spec_hash,
        name=package,
        version=signature.versions[0] if signature.versions else "",
        compiler="" if signature.compiler == NO_COMPILER else signature.compiler,
        os=signature.os,
        target=signature.target,
        variants=signature.variants,
        ingredients=made_of[0],
        below=made_of[1],
    )
