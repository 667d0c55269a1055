"""Compare many pairs of specs of two graphs.

Specs that differ only in which specs they depend on are of one kind. What differs between two kinds is found once; of
each pair, only the names of the dependencies are compared then.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from cachewatch.core.cause_sets import CauseSets
from cachewatch.core.causes import Cause, What
from cachewatch.core.dependency_shapes import PairedShapes, Places, Shape, Shapes
from cachewatch.core.graph import NAME_LETTERS, Dependency, Graph, GraphNode
from cachewatch.core.spec_differences import compare_specs, label_of

# The numbers of two specs of a package, as `Comparisons` numbers them.
SpecPair = tuple[int, int]


# The set of causes in a spec itself, the places of the dependencies to follow, and the dependencies before and after.
Alike = tuple[int, Sequence[tuple[int, int]], Sequence[int], Sequence[int]]

_NOTHING: tuple[Places, Places] = ((), ())


class Compared(NamedTuple):
    """The set of causes in a spec itself, and the pairs below it that differ."""

    own: int
    below: Sequence[SpecPair]


class _Kind(NamedTuple):
    """What specs that differ only in which specs they depend on have in common."""

    number: int
    shape: Shape


class _Spec(NamedTuple):
    node: GraphNode
    kind: _Kind
    below: Sequence[int]  # the numbers of its dependencies
    labels: dict[Places, tuple[str, ...]]  # of some of them


class _Difference(NamedTuple):
    """What differs between specs of two kinds: causes, and the dependencies that are followed, as places."""

    own: int
    followed: Sequence[tuple[int, int]]


class _Kinds(NamedTuple):
    """Two kinds of specs, each of which depends on a package once."""

    shapes: PairedShapes
    found: dict[Hashable, _Difference]  # by the versions that causes may name


class Comparisons:
    """What differs between specs of two graphs in themselves."""

    def __init__(self, before: Graph, after: Graph, causes: CauseSets) -> None:
        self._before = before
        self._after = after
        self._causes = causes
        self._shapes = Shapes()
        self._kinds: dict[Hashable, _Kind] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._named: list[tuple[str, str]] = []
        self._has_long_names = False  # some have more letters than others
        self._specs: tuple[dict[int, _Spec | None], ...] = ({}, {})
        self._labels: tuple[dict[tuple[str, str], str], ...] = ({}, {})
        self._pairs: dict[tuple[int, int], _Kinds | None] = {}

    def number(self, package: str, name: str) -> int:
        """Return the number of a spec, by the name or hash that dependents have of it; both graphs share them."""
        key = package, name
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._named)
            self._named.append(key)
            self._has_long_names |= len(name) != len(self._named[0][1])
        return found

    def package(self, number: int) -> str:
        """Return the package of a spec."""
        return self._named[number][0]

    def compare(self, pair: SpecPair) -> Compared:
        """Compare two specs of a package."""
        before, after = pair
        old = self._specs[0].get(before) or self._spec(0, before)
        new = self._specs[1].get(after) or self._spec(1, after)
        if old is None or new is None:
            return Compared(self._causes.set_of([Cause(package=self.package(after), what=What.NOT_DESCRIBED)]), ())
        kinds = self._kinds_of(old.kind, new.kind)
        if kinds is None:
            own, both = compare_specs(old.node, new.node, self._before, self._after)
            edges = [(self.number(one.name, one.hash), self.number(other.name, other.hash)) for one, other in both]
            return Compared(self._causes.set_of(own), [(i, j) for i, j in edges if i != j and self._is_other(i, j)])
        found = self._difference(kinds, old, new)
        had, has = old.below, new.below
        below = [(had[i], has[j]) for i, j in found.followed if had[i] != has[j]]
        if self._has_long_names:
            below = [pair for pair in below if self._is_other(*pair)]
        return Compared(found.own, below)

    def alike(self, before: int, after: int) -> Alike | None:
        """Return the same without the pairs below; None where it takes more than that to know them."""
        old = self._specs[0].get(before) or self._spec(0, before)
        new = self._specs[1].get(after) or self._spec(1, after)
        kinds = self._kinds_of(old.kind, new.kind) if old is not None and new is not None else None
        if old is None or new is None or kinds is None or self._has_long_names:
            return None
        own, followed = self._difference(kinds, old, new)
        return own, followed, old.below, new.below

    def _is_other(self, before: int, after: int) -> bool:
        """Tell whether two names are of different specs; only one of the graphs may have to write out the hash."""
        (package, old_name), (_, new_name) = self._named[before], self._named[after]
        if len(old_name) == len(new_name) or old_name[:NAME_LETTERS] != new_name[:NAME_LETTERS]:
            return True
        old, new = self._before.find(package, old_name), self._after.find(package, new_name)
        return old is None or new is None or old.hash != new.hash

    def _spec(self, side: int, number: int) -> _Spec | None:
        known = self._specs[side]
        if number not in known:
            node = (self._before, self._after)[side].find(*self._named[number])
            known[number] = None if node is None else self._made(node)
        return known[number]

    def _made(self, node: GraphNode) -> _Spec:
        return _Spec(node, self._kind(node), [self.number(edge.name, edge.hash) for edge in node.dependencies], {})

    def _kinds_of(self, old: _Kind, new: _Kind) -> _Kinds | None:
        key = old.number, new.number
        found = self._pairs.get(key)
        if found is None and key not in self._pairs:
            shapes = self._shapes.paired(old.shape, new.shape)
            found = self._pairs[key] = None if shapes is None else _Kinds(shapes, {})
        return found

    def _kind(self, node: GraphNode) -> _Kind:
        made_of = node.ingredients
        shape = self._shapes.of(made_of.dependencies)
        key = (
            (node.name, node.version, node.compiler, node.os, node.target, node.variants),
            (made_of.recipe, made_of.namespace, made_of.external, made_of.flags, made_of.spliced),
            shape.number,
        )
        found = self._kinds.get(key)
        if found is None:
            found = self._kinds[key] = _Kind(len(self._kinds), shape)
        return found

    def _difference(self, kinds: _Kinds, old: _Spec, new: _Spec) -> _Difference:
        key = self._versions(kinds.shapes, old, new)
        found = kinds.found.get(key)
        if found is None:
            own, both = compare_specs(old.node, new.node, self._before, self._after)
            had, has = old.kind.shape.places, new.kind.shape.places
            followed = [(had[one.name], has[other.name]) for one, other in both]
            found = kinds.found[key] = _Difference(self._causes.set_of(own), followed)
        return found

    def _versions(self, shapes: PairedShapes, old: _Spec, new: _Spec) -> Hashable:
        """Return the versions that causes may name, but for those of equal compilers."""
        if shapes.labelled == _NOTHING:
            return None
        had, has = old.below, new.below
        if shapes.compilers is not None and all(had[i] == has[j] for i, j in shapes.compilers):
            return None
        return self._labels_of(0, old, shapes.labelled[0]), self._labels_of(1, new, shapes.labelled[1])

    def _labels_of(self, side: int, spec: _Spec, places: Places) -> tuple[str, ...]:
        found = spec.labels.get(places)
        if found is None:
            edges = spec.node.dependencies
            found = spec.labels[places] = tuple([self._label(side, edges[place]) for place in places])
        return found

    def _label(self, side: int, edge: Dependency) -> str:
        known = self._labels[side]
        key = edge.name, edge.hash
        if key not in known:
            known[key] = label_of(edge, (self._before, self._after)[side])
        return known[key]
