"""Walk two dependency graphs together, from two specs down to what differs.

A spec that differs in itself is a cause, and so is whatever is found below it; a spec that differs only
in what is below it passes that on.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cachewatch.core.candidates import Candidates
from cachewatch.core.cause_sets import CauseSets
from cachewatch.core.causes import SPACK, TOO_MANY, Cause, Causes
from cachewatch.core.graph import NAME_LETTERS, Graph
from cachewatch.core.spec_comparisons import Compared, Comparisons, SpecPair


# Of so many causes of one spec, real ones have hundreds, each is told; of more, only that they are more.
MOST_CAUSES = 1_000


class _Way(NamedTuple):
    """A package on the way down, and the way to it; several ways share what is above."""

    package: str
    above: "_Way | None"

    def names(self) -> tuple[str, ...]:
        """Return the names from the top down."""
        found: list[str] = []
        way: _Way | None = self
        while way is not None:
            found.append(way.package)
            way = way.above
        return tuple(reversed(found))


class Walk:
    """Finds why specs have other hashes; what was found of two hashes is kept, since most of a night shares it."""

    def __init__(self, before: Graph, after: Graph) -> None:
        self._graphs = before, after
        self._sets = CauseSets()
        self._spack = self._sets.set_of([SPACK])
        self._too_many = self._sets.set_of([TOO_MANY])
        self._comparisons = Comparisons(before, after, self._sets)
        self._found: dict[SpecPair, int] = {}
        self._numbers = defaultdict[str, dict[str, int]](dict), defaultdict[str, dict[str, int]](dict)

    def causes(self, package: str, before: str, after: str) -> tuple[Cause, ...]:
        """Return why the hash `after` of `package` is another one than `before`; nothing if they are equal."""
        return tuple(self._sets.members(self._find(self._pair(package, before, after))))

    def fewest(self, package: str, before: Iterable[str], after: str) -> str:
        """Return the hash of those `before` with the fewest causes; the first of several."""
        best, fewest = "", (0, False)
        new = self._number(1, package, after)
        candidates = Candidates(self._comparisons, self._find, self._spack, new)
        known = self._numbers[0][package]
        for each in before:
            old = known.get(each)
            if old is None:
                old = self._number(0, package, each)
            found = candidates.causes(old) if old != new else self._find(self._pair(package, each, after))
            # That another Spack wrote it says less against one than anything else.
            found = self._limited(found)
            number = MOST_CAUSES + 1 if found == self._too_many else (found & ~self._spack).bit_count()
            count = number, bool(found & self._spack)
            if not best or count < fewest:
                best, fewest = each, count
            if not fewest[0]:  # no other one is nearer
                break
        return best

    def paths(self, package: str, before: str, after: str) -> Causes:
        """Return the causes, each with the shortest path to it: names from `package` down to what differs."""
        asked = self._pair(package, before, after)
        left = self._find(asked)
        if left == self._too_many:
            return {TOO_MANY: (package,)}
        paths: dict[Cause, tuple[str, ...]] = {}
        seen = {asked}
        level = [(asked, _Way(package, None))]
        while level and left:
            below: list[tuple[SpecPair, _Way]] = []
            for pair, way in level:
                compared = self._comparisons.compare(pair)
                own = self._spack if self._found[pair] == self._spack else compared.own
                for cause in self._sets.members(own & left):
                    paths[cause] = way.names()
                left &= ~own
                for each in compared.below:
                    if each not in seen:
                        seen.add(each)
                        below.append((each, _Way(self._comparisons.numbers.packages[each[1]], way)))
            level = below
        return paths

    def _pair(self, package: str, before: str, after: str) -> SpecPair:
        """Return a pair as dependents name it, so that it is compared once."""
        old, new = self._number(0, package, before), self._number(1, package, after)
        if old != new or before == after:
            return old, new
        numbers = self._comparisons.numbers.of(package)
        return numbers[before], numbers[after]

    def _number(self, side: int, package: str, spec_hash: str) -> int:
        """Return the number of a spec by its first letters, unless others have the same."""
        known = self._numbers[side][package]
        found = known.get(spec_hash)
        if found is None:
            name = spec_hash[:NAME_LETTERS]
            is_name = self._graphs[side].find(package, name) is not None
            found = known[spec_hash] = self._comparisons.numbers.of(package)[name if is_name else spec_hash]
        return found

    def _find(self, asked: SpecPair) -> int:
        """Return the causes of a pair, as bits."""
        found = self._found.get(asked)
        if found is None and asked[0] != asked[1]:
            self._explore(asked)
            found = self._found[asked]
        return found or 0

    def _explore(self, asked: SpecPair) -> None:
        """Find the causes of a pair and of all below it: depth first and without recursion, since graphs may be deep.

        Pairs that reach each other have the same causes (Tarjan's strongly connected components). Only a damaged
        graph has such cycles.
        """
        first = self._comparisons.compare(asked)
        found = first.own
        for each in first.below:
            known = self._found.get(each)
            if known is None:
                break
            found |= known
        else:
            self._found[asked] = self._limited(found) or self._spack
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
                    compared[each] = self._comparisons.compare(each)
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

    def _limited(self, found: int) -> int:
        """Return a set of causes; one of too many, or of a spec above such a one, is that alone."""
        is_beyond = found & self._too_many or found.bit_count() > MOST_CAUSES
        return self._too_many if is_beyond else found

    def _close(self, component: Mapping[SpecPair, Compared]) -> None:
        """Note the causes of pairs that reach each other: usually of one pair."""
        found = 0
        for own, below in component.values():
            found |= own
            for each in below:
                found |= self._found.get(each, 0)
        # Where nothing that is recorded differs, here or anywhere below, and the hash does, another Spack wrote it.
        found = self._limited(found) or self._spack
        for pair in component:
            self._found[pair] = found
