"""Why a cache has other hashes of an environment's specs: its lock file against recorded dependency graphs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from cachewatch.causes.recorded_graph import RecordedGraph
from cachewatch.core.causes import Causes
from cachewatch.core.environment_coverage import Availability, Coverage, Resolution
from cachewatch.core.graph import Nodes
from cachewatch.core.graph_walk import Walk
from cachewatch.environments.lockfiles import LockGraph
from cachewatch.errors import DocumentError

# A package, the hash that an environment has of it, and the hash that a cache has.
Replaced = tuple[str, str, str]


def replaced_in(coverage: Coverage) -> tuple[Replaced, ...]:
    """Return what the cache has with another hash."""
    found = (one for one in coverage.of(Availability.REBUILT) if one.need.hash and one.others)
    return tuple((one.need.package, one.need.hash, one.others[0]) for one in found)


def find_causes(lock: LockGraph, graphs: Sequence[RecordedGraph], replaced: Iterable[Replaced]) -> Mapping[str, Causes]:
    """Return the causes by hash of the environment, from the first graph that describes the other hash."""
    walks = [(graph, Walk(Nodes(lock.nodes), graph)) for graph in graphs if graph.is_recorded]
    return {old: causes for package, old, new in replaced for causes in _found(walks, package, old, new)}


def add_causes(coverage: Coverage, causes: Mapping[str, Causes]) -> Coverage:
    """Return what the cache has, with the causes of other hashes."""
    return replace(coverage, needs=tuple(_explained(one, causes) for one in coverage.needs))


def _found(walks: Iterable[tuple[RecordedGraph, Walk]], package: str, old: str, new: str) -> Iterator[Causes]:
    for graph, walk in walks:
        try:
            if graph.find(package, new) is not None:
                yield walk.paths(package, old, new)
                return
        except DocumentError:
            continue


def _explained(one: Resolution, causes: Mapping[str, Causes]) -> Resolution:
    found = causes.get(one.need.hash, {}) if one.standing is Availability.REBUILT else {}
    ordered = sorted(found, key=lambda cause: cause.sort_key)
    return replace(one, causes=tuple((cause, found[cause]) for cause in ordered)) if found else one
