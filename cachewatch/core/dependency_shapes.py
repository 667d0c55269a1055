"""What the dependencies of many specs have in common: packages, how they are used, and nothing of which specs they are."""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from cachewatch.core.graph import Dependency

# Places of dependencies in a spec.
Places = tuple[int, ...]


class Shape(NamedTuple):
    """The packages that specs depend on, and how."""

    number: int
    edges: Sequence[Dependency]  # of one of these specs
    places: Mapping[str, int]  # by package
    compilers: frozenset[int]  # places of compilers


class PairedShapes(NamedTuple):
    """Two shapes, each of which has a package once."""

    labelled: tuple[Places, Places]  # dependencies whose versions causes may name
    compilers: Sequence[tuple[int, int]] | None  # those, where all of them are equal in both but for the hash


class Shapes:
    """All shapes of two graphs, each once."""

    def __init__(self) -> None:
        self._shapes: dict[Hashable, Shape] = {}
        self._pairs: dict[tuple[int, int], PairedShapes | None] = {}

    def of(self, edges: Sequence[Dependency]) -> Shape:
        """Return the shape of the dependencies of a spec."""
        key = tuple([(edge.name, edge.types, edge.virtuals) for edge in edges])
        found = self._shapes.get(key)
        if found is None:
            places = {edge.name: place for place, edge in enumerate(edges)}
            compilers = frozenset(place for place, edge in enumerate(edges) if edge.languages)
            found = self._shapes[key] = Shape(len(self._shapes), edges, places, compilers)
        return found

    def paired(self, old: Shape, new: Shape) -> PairedShapes | None:
        """Return how two shapes differ; None where one of them has a package twice."""
        key = old.number, new.number
        if key not in self._pairs:
            self._pairs[key] = _paired(old, new)
        return self._pairs[key]


def _paired(old: Shape, new: Shape) -> PairedShapes | None:
    if len(old.places) < len(old.edges) or len(new.places) < len(new.edges):
        return None
    both = [(place, new.places[name]) for name, place in old.places.items() if name in new.places]
    alike = [(i, j) for i, j in both if _use_of(old.edges[i]) == _use_of(new.edges[j])]
    compilers = [(i, j) for i, j in alike if i in old.compilers]
    plain = [(i, j) for i, j in alike if i not in old.compilers]
    labelled = (
        tuple(sorted({*old.places.values()} - {i for i, _ in plain})),
        tuple(sorted({*new.places.values()} - {j for _, j in plain})),
    )
    has_only_compilers = len(labelled[0]) == len(labelled[1]) == len(compilers)
    return PairedShapes(labelled, compilers if has_only_compilers else None)


def _use_of(edge: Dependency) -> Hashable:
    return edge.types, edge.virtuals
