"""What the dependencies of many specs have in common: packages, how they are used, and nothing of which specs they are."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from cachewatch.core.graph import Use, languages_of

# Selects the dependencies at some places.
Selector = Callable[[Sequence[int]], Sequence[int]]


class Shape(NamedTuple):
    """The packages that specs depend on, and how."""

    number: int
    uses: Sequence[Use]
    places: Mapping[str, int]  # by package
    compilers: frozenset[int]  # places of compilers


class PairedShapes(NamedTuple):
    """Two shapes, each of which has a package once."""

    labelled: tuple[Selector, Selector]  # select dependencies whose versions causes may name
    has_only_compilers: bool  # among those, and all of them are used alike in both


class Shapes:
    """All shapes of two graphs, each once."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[Use, ...], Shape] = {}
        self._pairs: dict[tuple[int, int], PairedShapes | None] = {}

    def of(self, uses: tuple[Use, ...]) -> Shape:
        """Return the shape of specs that use other specs in this way."""
        found = self._shapes.get(uses)
        if found is None:
            places = {use.name: place for place, use in enumerate(uses)}
            compilers = frozenset(place for place, use in enumerate(uses) if languages_of(use.virtuals))
            found = self._shapes[uses] = Shape(len(self._shapes), uses, places, compilers)
        return found

    def paired(self, old: Shape, new: Shape) -> PairedShapes | None:
        """Return how two shapes differ; None where one of them has a package twice."""
        key = old.number, new.number
        if key not in self._pairs:
            self._pairs[key] = _paired(old, new)
        return self._pairs[key]


def _paired(old: Shape, new: Shape) -> PairedShapes | None:
    if len(old.places) < len(old.uses) or len(new.places) < len(new.uses):
        return None
    both = [(place, new.places[name]) for name, place in old.places.items() if name in new.places]
    alike = [(i, j) for i, j in both if old.uses[i] == new.uses[j]]
    plain = [(i, j) for i, j in alike if i not in old.compilers]
    had = sorted({*old.places.values()} - {i for i, _ in plain})
    has = sorted({*new.places.values()} - {j for _, j in plain})
    has_only_compilers = len(had) == len(has) == len(alike) - len(plain)
    return PairedShapes((selector(had), selector(has)), has_only_compilers)


def selector(places: Sequence[int]) -> Selector:
    """Return what selects the values at these places, as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    return (lambda values: (values[places[0]],)) if places else (lambda _: ())
