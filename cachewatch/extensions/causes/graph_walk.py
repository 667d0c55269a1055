"""Compare two dependency graphs, from two specs down to what differs.

A spec that differs in itself is a cause, and so is whatever is found below it; a spec that differs only
in what is below it passes that on.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cachewatch.core.causes import NAME_LETTERS, SPACK, TOO_MANY, Cause, Causes, Graph, What
from cachewatch.extensions.causes.graph_differences import compare_specs

# So many causes of one spec are told apart. Real ones have hundreds at most.
MOST_CAUSES = 1_000

# A package, and the names of two of its specs, one of each graph.
SpecPair = tuple[str, str, str]


class Compared(NamedTuple):
    """The causes in a spec itself, and the pairs below it that differ."""

    own: frozenset[Cause]
    below: Sequence[SpecPair]


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


_SPACK, _TOO_MANY = frozenset([SPACK]), frozenset([TOO_MANY])


class Walk:
    """Finds why specs have other hashes; what was found of two hashes is kept, since most of a night shares it."""

    def __init__(self, before: Graph, after: Graph) -> None:
        self._graphs = before, after
        self._found: dict[SpecPair, frozenset[Cause]] = {}

    def causes(self, package: str, before: str, after: str) -> tuple[Cause, ...]:
        """Return why the hash `after` of `package` is another one than `before`; nothing if they are equal."""
        return tuple(sorted(self._find(self._pair(package, before, after)), key=lambda cause: cause.sort_key))

    def fewest(self, package: str, before: Iterable[str], after: str) -> str:
        """Return the hash of those `before` with the fewest causes; the first of several."""
        best, fewest = "", (0, False)
        for each in before:
            found = self._find(self._pair(package, each, after))
            # That another Spack wrote it says less against one than anything else.
            count = MOST_CAUSES + 1 if found == _TOO_MANY else len(found - _SPACK), SPACK in found
            if not best or count < fewest:
                best, fewest = each, count
            if not fewest[0]:  # no other one is nearer
                break
        return best

    def paths(self, package: str, before: str, after: str) -> Causes:
        """Return the causes, each with the shortest path to it: names from `package` down to what differs."""
        asked = self._pair(package, before, after)
        left = self._find(asked)
        if left == _TOO_MANY:
            return {TOO_MANY: (package,)}
        paths: dict[Cause, tuple[str, ...]] = {}
        seen = {asked}
        level = [(asked, _Way(package, None))]
        while level and left:
            below: list[tuple[SpecPair, _Way]] = []
            for pair, way in level:
                compared = self._compare(pair)
                own = _SPACK if self._found[pair] == _SPACK else compared.own
                for cause in own & left:
                    paths[cause] = way.names()
                left -= own
                for each in compared.below:
                    if each not in seen:
                        seen.add(each)
                        below.append((each, _Way(each[0], way)))
            level = below
        return paths

    def _compare(self, pair: SpecPair) -> Compared:
        package, before, after = pair
        old, new = (graph.find(package, name) for graph, name in zip(self._graphs, (before, after), strict=True))
        if old is None or new is None:
            return Compared(frozenset([Cause(package=package, what=What.NOT_DESCRIBED)]), ())
        own, both = compare_specs(old, new, *self._graphs)
        below = [(one.name, one.hash, other.hash) for one, other in both if one.hash != other.hash]
        return Compared(frozenset(own), [each for each in below if self._is_other(each)])

    def _is_other(self, pair: SpecPair) -> bool:
        """Tell whether two names are of different specs; only one of the graphs may have to write out the hash."""
        package, before, after = pair
        if len(before) == len(after) or before[:NAME_LETTERS] != after[:NAME_LETTERS]:
            return True
        old, new = self._graphs[0].find(package, before), self._graphs[1].find(package, after)
        return old is None or new is None or old.hash != new.hash

    def _pair(self, package: str, before: str, after: str) -> SpecPair:
        """Return a pair as dependents name it, so that it is compared once."""
        old, new = (self._name(side, package, h) for side, h in enumerate((before, after)))
        return (package, before, after) if old == new and before != after else (package, old, new)

    def _name(self, side: int, package: str, spec_hash: str) -> str:
        """Return the first letters of a hash, unless others have the same."""
        name = spec_hash[:NAME_LETTERS]
        return spec_hash if self._graphs[side].find(package, name) is None else name

    def _find(self, asked: SpecPair) -> frozenset[Cause]:
        """Return the causes of a pair."""
        if asked[1] == asked[2]:
            return frozenset()
        if asked not in self._found:
            self._explore(asked)
        return self._found[asked]

    def _explore(self, asked: SpecPair) -> None:
        """Find the causes of a pair and of all below it: depth first and without recursion, since graphs may be deep.

        Pairs that reach each other have the same causes (Tarjan's strongly connected components). Only a damaged
        graph has such cycles.
        """
        order, earliest, compared = {asked: 0}, {asked: 0}, {asked: self._compare(asked)}
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

    def _close(self, component: Mapping[SpecPair, Compared]) -> None:
        """Note the causes of pairs that reach each other: usually of one pair."""
        found: set[Cause] = set()
        for own, below in component.values():
            found |= own
            for each in below:
                found |= self._found.get(each, frozenset())
        # Where nothing that is recorded differs, here or anywhere below, and the hash does, another Spack wrote it.
        causes = _TOO_MANY if TOO_MANY in found or len(found) > MOST_CAUSES else frozenset(found) or _SPACK
        self._found |= dict.fromkeys(component, causes)
