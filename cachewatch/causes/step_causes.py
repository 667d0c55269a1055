"""Why the specs that a revision brought have other hashes than their nearest predecessors."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set

from cachewatch.causes.recorded_graph import RecordedGraph
from cachewatch.core.causes import Cause, Explanation, Walk, What
from cachewatch.core.compare import compare
from cachewatch.core.model import Signature, Specs
from cachewatch.core.predecessors import PackageNodes, Predecessor, find_predecessor

_NOT_RECORDED = Cause(package="", what=What.NOT_RECORDED)


class Step:
    """Two revisions of one tag, the older first."""

    def __init__(self, before: RecordedGraph, after: RecordedGraph) -> None:
        self.before = before
        self.after = after
        self._walk = Walk(before, after)

    @property
    def is_recorded(self) -> bool:
        """Whether both revisions have a graph."""
        return self.before.is_recorded and self.after.is_recorded

    def explain(self, package: str, wanted: Set[str] | None = None) -> Iterator[Explanation]:
        """Yield why each new spec of a package is another one, or each of those that are wanted."""
        nodes = self._nodes(package)
        for spec_hash in sorted(nodes.new if wanted is None else nodes.new & wanted):
            yield self._explained(nodes, spec_hash)

    def explain_all(self) -> Iterator[Explanation]:
        """Yield why each new spec of any package is another one."""
        for package in self.after.packages:
            yield from self.explain(package)

    def _explained(self, nodes: PackageNodes, spec_hash: str) -> Explanation:
        spec = nodes.after[spec_hash]
        found: Predecessor | None = find_predecessor(nodes, spec_hash, self._walk)
        if found is None:
            return Explanation(spec=spec, causes={})
        causes = (
            self._walk.causes(spec.name, found.hash, spec_hash) if self.is_recorded else {_NOT_RECORDED: (spec.name,)}
        )
        return Explanation(
            spec=spec,
            predecessor=nodes.before[found.hash],
            is_beside=found.is_beside,
            is_paired=found.is_paired,
            is_match=found.is_match,
            causes=causes,
        )

    def _nodes(self, package: str) -> PackageNodes:
        return PackageNodes(self.before.nodes(package), self.after.nodes(package), self._matches(package))

    def _matches(self, package: str) -> Mapping[str, Set[str]]:
        """Return which vanished specs a new one may have taken the place of, as the comparison pairs signatures."""
        old, new = self.before.document(package), self.after.document(package)
        change = compare(package, old, new) if old is not None and new is not None else None
        if change is None or old is None or new is None:
            return {}
        vanished, came = _by_signature(old.specs, new.specs), _by_signature(new.specs, old.specs)
        found: defaultdict[str, set[str]] = defaultdict(set)
        for match in change.pairings:
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
