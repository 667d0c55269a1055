"""Compare many old specs with the same new one."""

from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_

from cachewatch.core.spec_comparisons import Comparisons, SpecPair


class Candidates:
    """Finds the causes for which a new spec is not one of many older specs of its package.

    They share most dependencies: the causes of those are found once.
    """

    def __init__(self, comparisons: Comparisons, find: Callable[[SpecPair], int], spack: int, new: int) -> None:
        """Take what compares, what finds the causes of other pairs, the set of the cause "Spack", and the new spec."""
        self._comparisons = comparisons
        self._find = find
        self._spack = spack
        self._number = new
        self._new = comparisons.spec(1, new)
        self._below = _CausesBelow(comparisons, find, self._new.below if self._new is not None else ())

    def causes(self, number: int) -> int:
        """Return the causes of one of the older specs, as a set."""
        old, new = self._comparisons.spec(0, number), self._new
        if old is None or new is None or self._comparisons.numbers.has_long_names:
            return self._find((number, self._number))
        difference = self._comparisons.difference(old, new)
        if difference is None:
            return self._find((number, self._number))
        found = reduce(or_, map(self._below.__getitem__, difference.before(old.below)), difference.own)
        return found or self._spack


class _CausesBelow(dict[int, int]):
    """The causes of dependencies of older specs, each found when it is asked for."""

    def __init__(self, comparisons: Comparisons, find: Callable[[SpecPair], int], new: Iterable[int]) -> None:
        super().__init__()
        self._packages = comparisons.numbers.packages
        self._partners = {self._packages[number]: number for number in new}
        self._find = find

    def __missing__(self, number: int) -> int:
        found = self[number] = self._find((number, self._partners[self._packages[number]]))
        return found
