"""The specs of one stack of a recorded graph, so that two stacks can be compared."""

from collections.abc import Mapping

from msgspec.structs import replace

from cachewatch.causes.recorded_graph import RecordedGraph
from cachewatch.core.graph import GraphNode
from cachewatch.core.model import Document, Specs
from cachewatch.errors import UsageError

# Two stacks have different names, and specs are paired within a stack.
_ONE_STACK = ("",)
_MOST_NAMED = 8


class StackSpecs:
    """Specs as those of a stack without a name."""

    def __init__(self, graph: RecordedGraph, stack: str) -> None:
        """Take the specs of `stack`."""
        self._graph = graph
        self._stack = stack
        self._documents: dict[str, Document | None] = {}

    def nodes(self, package: str) -> Mapping[str, GraphNode]:
        """Return the specs of a package, by hash. Raises a DocumentError where its files cannot be read."""
        document = self.document(package)
        hashes = document.specs.hashes if document is not None else frozenset()
        return {h: node for h, node in self._graph.nodes(package).items() if h in hashes}

    def document(self, package: str) -> Document | None:
        """Return the document of a package with these specs; None if there is none."""
        if package not in self._documents:
            found = self._graph.document(package)
            self._documents[package] = None if found is None else self._of_stack(found)
        return self._documents[package]

    def check(self) -> None:
        """Raise UsageError if the stack has no specs; reads documents until one has some."""
        stacks: set[str] = set()
        for package in self._graph.packages:
            document = self._graph.document(package)
            if document is not None:
                stacks.update(stack for signature in document.specs.counts for stack in signature.stacks)
            if self._stack in stacks:
                return
        known = ", ".join(sorted(stacks)[:_MOST_NAMED]) + (", ..." if len(stacks) > _MOST_NAMED else "")
        raise UsageError(f"{self._graph.tag} has no stack {self._stack!r}; it has {known or 'none'}")

    def _of_stack(self, document: Document) -> Document:
        specs = {
            spec_hash: replace(signature, stacks=_ONE_STACK)
            for spec_hash, signature in document.specs.items()
            if self._stack in signature.stacks
        }
        return replace(document, specs=Specs.of(specs))
