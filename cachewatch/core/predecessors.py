"""Which older spec a new one is compared with, to say why it has another hash: the nearest predecessor.

Which spec took the place of which cannot be known, only which is nearest; nobody says that one became the other.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Set

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.causes import Walk
from cachewatch.core.graph import GraphNode


class Predecessor(Struct, frozen=True):
    """The nearest older spec of the same package."""

    hash: str
    is_beside: bool = False  # it is still there
    is_paired: bool = True  # it has the same operating system and target
    is_match: bool = True  # the comparison pairs them, or they are alike in everything but the hash


class PackageNodes(Struct, frozen=True):
    """The specs of one package in two revisions, by hash, and the old ones whose place new ones took."""

    before: Mapping[str, GraphNode]
    after: Mapping[str, GraphNode]
    matches: Mapping[str, Set[str]]  # by new hash, the vanished ones that could have been it

    @property
    def vanished(self) -> Set[str]:
        """The hashes that only the older revision has."""
        return self.before.keys() - self.after.keys()

    @property
    def new(self) -> Set[str]:
        """The hashes that only the newer revision has."""
        return self.after.keys() - self.before.keys()


def find_predecessor(package: PackageNodes, spec_hash: str, walk: Walk) -> Predecessor | None:
    """Return the predecessor of a spec of the newer revision; None if its package had none."""
    new = package.after[spec_hash]
    for hashes, found in _candidates(package, new):
        if hashes:
            return replace(found, hash=_nearest(new, (package.before[each] for each in hashes), walk))
    return None


def _candidates(package: PackageNodes, new: GraphNode) -> Iterator[tuple[Collection[str], Predecessor]]:
    """Yield old hashes, the likeliest first, with what they would be as predecessors."""
    kept = package.before.keys() & package.after.keys()
    yield package.matches.get(new.hash, set()), Predecessor("")
    yield [each for each in kept if _identity(package.before[each]) == _identity(new)], Predecessor("", is_beside=True)
    for is_paired in (True, False):
        for hashes, is_beside in ((package.vanished, False), (kept, True)):
            near = [each for each in hashes if _runs_alike(package.before[each], new) is is_paired]
            yield near, Predecessor("", is_beside=is_beside, is_paired=is_paired, is_match=False)


def _identity(node: GraphNode) -> tuple[object, ...]:
    return (node.version, node.compiler, node.os, node.target, node.variants)


def _runs_alike(one: GraphNode, other: GraphNode) -> bool:
    return (one.os, one.target) == (other.os, other.target)


def _nearest(new: GraphNode, candidates: Iterable[GraphNode], walk: Walk) -> str:
    """Return the one that shares most direct dependencies, of those the one with fewest causes, then by hash."""
    own = {edge.hash for edge in new.dependencies}
    shared = {node.hash: len(own & {edge.hash for edge in node.dependencies}) for node in candidates}
    most = max(shared.values())
    best = sorted(spec_hash for spec_hash, count in shared.items() if count == most)
    return min(best, key=lambda old: len(walk.causes(new.name, old, new.hash))) if len(best) > 1 else best[0]
