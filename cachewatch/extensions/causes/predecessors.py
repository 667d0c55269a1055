"""Which older spec a new one is compared with, to say why it has another hash: the nearest predecessor.

Which spec took the place of which cannot be known, only which is nearest; nobody says that one became the other.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.causes import Explanation, GraphNode
from cachewatch.extensions.causes.graph_walk import Walk


class Predecessor(Struct, frozen=True):
    """The nearest older spec of the same package."""

    hash: str
    is_beside: bool = False  # it is still there
    is_paired: bool = True  # it has the same operating system and target
    is_match: bool = True  # the comparison pairs them, or they are alike in everything but the hash


class PackageNodes:
    """The specs of one package in two revisions, by hash, and the old ones whose place new ones took."""

    def __init__(
        self, before: Mapping[str, GraphNode], after: Mapping[str, GraphNode], matches: Mapping[str, Set[str]]
    ) -> None:
        """Take specs, and by new hash the vanished ones that could have been it."""
        self.before = before
        self.after = after
        self.matches = matches
        self.kept = before.keys() & after.keys()
        self.vanished = before.keys() - after.keys()
        self.new = after.keys() - before.keys()

    @cached_property
    def kept_by_identity(self) -> Mapping[tuple[object, ...], Sequence[str]]:
        """The hashes that both revisions have, by all that a document says of a spec."""
        found: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
        for spec_hash in self.kept:
            found[_identity(self.before[spec_hash])].append(spec_hash)
        return found

    @cached_property
    def dependencies_before(self) -> Mapping[str, frozenset[str]]:
        """The names of the dependencies of the older specs, without those that all of them have."""
        found = {h: frozenset(node.below) for h, node in self.before.items()}
        common = frozenset[str]().union(*found.values()).intersection(*found.values())
        return {h: names - common for h, names in found.items()}

    @cached_property
    def some_had(self) -> frozenset[str]:
        """The names of the dependencies that some of the older specs have, and others do not."""
        return frozenset[str]().union(*self.dependencies_before.values())


def find_predecessor(package: PackageNodes, spec_hash: str, walk: Walk) -> Predecessor | None:
    """Return the predecessor of a spec of the newer revision; None if its package had none."""
    new = package.after[spec_hash]
    for hashes, found in _candidates(package, new):
        if hashes:
            return replace(found, hash=_nearest(package, new, hashes, walk))
    return None


def explain_spec(package: PackageNodes, spec_hash: str, walk: Walk) -> Explanation:
    """Return why a spec of the newer revision is not its nearest predecessor, and for which causes."""
    spec, found = package.after[spec_hash], find_predecessor(package, spec_hash, walk)
    if found is None:
        return Explanation(spec=spec)
    return Explanation(
        spec=spec,
        predecessor=package.before[found.hash],
        is_beside=found.is_beside,
        is_paired=found.is_paired,
        is_match=found.is_match,
        causes=walk.causes(spec.name, found.hash, spec_hash),
    )


def _candidates(package: PackageNodes, new: GraphNode) -> Iterator[tuple[Collection[str], Predecessor]]:
    """Yield old hashes, the likeliest first, with what they would be as predecessors."""
    yield package.matches.get(new.hash, set()), Predecessor("")
    yield package.kept_by_identity.get(_identity(new), ()), Predecessor("", is_beside=True)
    for is_paired in (True, False):
        for hashes, is_beside in ((package.vanished, False), (package.kept, True)):
            near = [each for each in hashes if _runs_alike(package.before[each], new) is is_paired]
            yield near, Predecessor("", is_beside=is_beside, is_paired=is_paired, is_match=False)


def _identity(node: GraphNode) -> tuple[object, ...]:
    return (node.version, node.compiler, node.os, node.target, node.variants)


def _runs_alike(one: GraphNode, other: GraphNode) -> bool:
    return (one.os, one.target) == (other.os, other.target)


def _nearest(package: PackageNodes, new: GraphNode, candidates: Collection[str], walk: Walk) -> str:
    """Return the one that shares most direct dependencies, of those the one with fewest causes, then by hash."""
    if len(candidates) == 1:
        return next(iter(candidates))
    own = package.some_had.intersection(new.below)
    best = sorted(_sharing_most(own, candidates, package.dependencies_before) if own else candidates)
    return walk.fewest(new.name, best, new.hash) if len(best) > 1 else best[0]


def _sharing_most(own: Set[str], candidates: Collection[str], below: Mapping[str, frozenset[str]]) -> Sequence[str]:
    counts = [len(own & names) for names in map(below.__getitem__, candidates)]
    most = max(counts)
    return [old for old, count in zip(candidates, counts, strict=True) if count == most]
