"""Why the specs that a revision brought have other hashes than their nearest predecessors."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set

from msgspec.structs import replace

from cachewatch.causes.recorded_graph import RecordedGraph
from cachewatch.causes.stack_specs import StackSpecs
from cachewatch.core.causes import NOT_RECORDED, Explanation
from cachewatch.core.compare import compare
from cachewatch.core.graph_walk import Walk
from cachewatch.core.model import Signature, Specs
from cachewatch.core.predecessors import PackageNodes, explain_spec
from cachewatch.errors import DocumentError
from cachewatch.git.repository import Repository


class Step:
    """Two states to compare, the older first: two revisions of a tag, two tags, or two stacks."""

    def __init__(self, before: RecordedGraph, after: RecordedGraph, stacks: tuple[str, str] | None = None) -> None:
        """Compare all specs, or those of the first of two stacks with those of the second."""
        self.before = before
        self.after = after
        self.stacks = stacks
        self._left_out: dict[str, str] = {}
        self._walk = Walk(before, after)
        self._specs: tuple[RecordedGraph, RecordedGraph] | tuple[StackSpecs, StackSpecs] = before, after
        if stacks is not None:
            self._specs = StackSpecs(before, stacks[0]), StackSpecs(after, stacks[1])

    @classmethod
    def between(
        cls,
        repository: Repository,
        before: tuple[str, str],
        after: tuple[str, str],
        stacks: tuple[str, str] | None = None,
    ) -> "Step":
        """Return the step from one state of a tag to another, each a commit and the tag's name.

        Raises UsageError for a stack that has no specs there.
        """
        found = cls(RecordedGraph(repository, *before), RecordedGraph(repository, *after), stacks)
        for specs in found._specs:
            if isinstance(specs, StackSpecs):
                specs.check()
        return found

    @property
    def is_of_two(self) -> bool:
        """Whether these are two stacks or two tags, and not one at two times."""
        return self.stacks is not None or self.before.tag != self.after.tag

    @property
    def is_recorded(self) -> bool:
        """Whether both revisions have a graph."""
        return self.before.is_recorded and self.after.is_recorded

    def require_graphs(self, found: Iterable[Explanation]) -> None:
        """Raise UsageError if `found` has what a graph would explain, and one of the revisions has none."""
        if any(NOT_RECORDED in one.causes for one in found):
            self.before.require()
            self.after.require()

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages of the newer revision whose specs or dependencies may differ."""
        if self.stacks is not None:
            return self.after.packages
        had = self.before.folders
        return tuple(sorted(name for name, tree in self.after.folders.items() if had.get(name) != tree))

    def explain_packages(self, wanted: Callable[[str], bool]) -> Iterator[Explanation]:
        """Yield why each new spec of the wanted packages is another one; packages that cannot be read are left out."""
        for package in filter(wanted, self.packages):
            try:
                yield from self.explain_all(package)
            except DocumentError as error:
                self._left_out[package] = str(error)

    @property
    def unreadable(self) -> tuple[str, ...]:
        """What is wrong with the packages that could not be read so far."""
        found = self.before.unreadable | self.after.unreadable | self._left_out
        return tuple(found[package] for package in sorted(found))

    def explain(self, package: str, wanted: Set[str]) -> Iterator[Explanation]:
        """Yield why those new specs of a package that are wanted are other ones, with the ways to the causes."""
        for one in self.explain_all(package):
            if one.spec.hash in wanted:
                yield self.with_paths(one)

    def explain_all(self, package: str) -> Iterator[Explanation]:
        """Yield why each new spec of a package is another one."""
        old, new = (specs.nodes(package) for specs in self._specs)
        nodes = PackageNodes(old, new, self._matches(package))
        for spec_hash in sorted(nodes.new):
            found = explain_spec(nodes, spec_hash, self._walk)
            yield found if self.is_recorded or found.predecessor is None else replace(found, causes=(NOT_RECORDED,))

    def with_paths(self, one: Explanation) -> Explanation:
        """Return an explanation with the shortest way to each cause."""
        if one.predecessor is None:
            return one
        own = dict.fromkeys(one.causes, (one.spec.name,))
        paths = self._walk.paths(one.spec.name, one.predecessor.hash, one.spec.hash) if self.is_recorded else own
        return replace(one, paths=paths)

    def _matches(self, package: str) -> Mapping[str, Set[str]]:
        """Return which vanished specs a new one may have taken the place of, as the comparison pairs signatures."""
        old, new = (specs.document(package) for specs in self._specs)
        change = compare(package, old, new) if old is not None and new is not None else None
        if change is None or old is None or new is None:
            return {}
        vanished, came = _by_signature(old.specs, new.specs), _by_signature(new.specs, old.specs)
        found: defaultdict[str, set[str]] = defaultdict(set)
        for match in change.matches:
            for spec_hash in came.get(match.after, ()):
                found[spec_hash] |= vanished.get(match.before, set())
        return found


def _by_signature(specs: Specs, others: Specs) -> Mapping[Signature, set[str]]:
    """Return the hashes that only `specs` have."""
    found: defaultdict[Signature, set[str]] = defaultdict(set)
    for spec_hash, signature in specs.items():
        if spec_hash not in others.hashes:
            found[signature].add(spec_hash)
    return found
