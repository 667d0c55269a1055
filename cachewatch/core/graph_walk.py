"""Walk two dependency graphs together, from two specs down to what differs.

A spec that differs in itself is a cause, and so is whatever is found below it; a spec that differs only
in what is below it passes that on.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cachewatch.core.causes import SPACK, Cause, Causes, What
from cachewatch.core.graph import Graph
from cachewatch.core.spec_differences import SpecPair, compare_specs


class _Compared(NamedTuple):
    """What differs in a spec itself, as bits, and the pairs below it that differ."""

    own: int
    below: Sequence[SpecPair]


class Walk:
    """Finds why specs have other hashes; what was found of two hashes is kept, since most of a night shares it.

    Sets of causes are the bits of a number: after a change of compiler, each package is a cause of all above it.
    """

    def __init__(self, before: Graph, after: Graph) -> None:
        self._before = before
        self._after = after
        self._causes: list[Cause] = []
        self._bits: dict[Cause, int] = {}
        self._spack = self._set_of([SPACK])
        self._found: dict[SpecPair, int] = {}

    def causes(self, package: str, before: str, after: str) -> tuple[Cause, ...]:
        """Return why the hash `after` of `package` is another one than `before`; nothing if they are equal."""
        return tuple(self._members(self._find((package, before, after))))

    def count(self, package: str, before: str, after: str) -> int:
        """Return how many causes there are."""
        return self._find((package, before, after)).bit_count()

    def paths(self, package: str, before: str, after: str) -> Causes:
        """Return the causes, each with the shortest path to it: names from `package` down to what differs."""
        asked = (package, before, after)
        left = self._find(asked)
        paths: dict[Cause, tuple[str, ...]] = {}
        seen = {asked}
        level: list[tuple[SpecPair, tuple[str, ...]]] = [(asked, (package,))]
        while level and left:
            below: list[tuple[SpecPair, tuple[str, ...]]] = []
            for pair, path in level:
                compared = self._compare(pair)
                own = self._spack if self._found[pair] == self._spack else compared.own
                for cause in self._members(own & left):
                    paths[cause] = path
                left &= ~own
                for each in compared.below:
                    if each not in seen:
                        seen.add(each)
                        below.append((each, (*path, each[0])))
            level = below
        return paths

    def _find(self, asked: SpecPair) -> int:
        """Return the causes of a pair, as bits."""
        if asked not in self._found and asked[1] != asked[2]:
            self._explore(asked)
        return self._found.get(asked, 0)

    def _explore(self, asked: SpecPair) -> None:
        """Find the causes of a pair and of all below it: depth first and without recursion, since graphs may be deep.

        Pairs that reach each other have the same causes (Tarjan's strongly connected components). Only a damaged
        graph has such cycles.
        """
        first = self._compare(asked)
        if all(each in self._found for each in first.below):
            self._close({asked: first})
            return
        order, earliest, compared = {asked: 0}, {asked: 0}, {asked: first}
        is_open = [asked]
        path = [(asked, iter(compared[asked].below))]
        while path:
            pair, below = path[-1]
            for each in below:
                if each in self._found:
                    continue
                if each not in order:
                    order[each] = earliest[each] = len(order)
                    compared[each] = self._compare(each)
                    is_open.append(each)
                    path.append((each, iter(compared[each].below)))
                    break
                earliest[pair] = min(earliest[pair], order[each])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    earliest[above] = min(earliest[above], earliest[pair])
                if earliest[pair] == order[pair]:
                    component = [is_open.pop()]
                    while component[-1] != pair:
                        component.append(is_open.pop())
                    self._close({each: compared.pop(each) for each in component})

    def _compare(self, pair: SpecPair) -> _Compared:
        """Compare two specs themselves."""
        found = compare_specs(pair, self._before, self._after)
        if found is None:
            return _Compared(self._set_of([Cause(package=pair[0], what=What.NOT_DESCRIBED)]), ())
        return _Compared(self._set_of(found.own), found.below)

    def _close(self, component: Mapping[SpecPair, _Compared]) -> None:
        """Note the causes of pairs that reach each other: usually of one pair."""
        found = 0
        for compared in component.values():
            found |= compared.own
            for each in compared.below:
                found |= self._found.get(each, 0)
        # Where nothing that is recorded differs anywhere below, and the hash does, another Spack wrote it.
        self._found |= dict.fromkeys(component, found & ~self._spack or self._spack)

    def _set_of(self, causes: Sequence[Cause]) -> int:
        found = 0
        for cause in causes:
            if cause not in self._bits:
                self._bits[cause] = len(self._causes)
                self._causes.append(cause)
            found |= 1 << self._bits[cause]
        return found

    def _members(self, found: int) -> Iterator[Cause]:
        while found:
            lowest = found & -found
            yield self._causes[lowest.bit_length() - 1]
            found ^= lowest
