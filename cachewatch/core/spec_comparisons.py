"""Compare many pairs of specs of two graphs.

Specs that differ only in which specs they depend on are of one kind. What differs between two kinds is found once; of
each pair, only the names of the dependencies are compared then.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from cachewatch.core.cause_sets import CauseSets
from cachewatch.core.causes import Cause, What
from cachewatch.core.graph import NAME_LETTERS, Dependency, Graph, GraphNode
from cachewatch.core.spec_differences import compare_specs, label_of

# A package, and the names or hashes of two of its specs.
SpecPair = tuple[str, str, str]


class Compared(NamedTuple):
    """The set of causes in a spec itself, and the pairs below it that differ."""

    own: int
    below: Sequence[SpecPair]


class _Kind(NamedTuple):
    """What specs that differ only in which specs they depend on have in common."""

    number: int
    edges: Sequence[Dependency]  # of one of them
    places: Mapping[str, int]  # of dependencies, by package
    languages: frozenset[int]  # places of compilers


class _Spec(NamedTuple):
    node: GraphNode
    kind: _Kind
    below: Sequence[str]  # the names of its dependencies


class _Difference(NamedTuple):
    """What differs between specs of two kinds: causes, and the dependencies that are followed, as places."""

    own: int
    followed: Sequence[tuple[str, int, int]]


class _Kinds(NamedTuple):
    """Two kinds of specs, each of which depends on a package once."""

    labelled: tuple[Sequence[int], Sequence[int]]  # dependencies whose versions causes may name
    compilers: Sequence[tuple[int, int]] | None  # those, where all of them are equal in both but for the hash
    found: dict[Hashable, _Difference]  # by these versions


class Comparisons:
    """What differs between specs of two graphs in themselves."""

    def __init__(self, before: Graph, after: Graph, causes: CauseSets) -> None:
        self._before = before
        self._after = after
        self._causes = causes
        self._kinds: dict[Hashable, _Kind] = {}
        self._specs: tuple[dict[tuple[str, str], _Spec | None], ...] = ({}, {})
        self._labels: tuple[dict[tuple[str, str], str], ...] = ({}, {})
        self._pairs: dict[tuple[int, int], _Kinds | None] = {}

    def compare(self, pair: SpecPair) -> Compared:
        """Compare two specs of a package."""
        package, before, after = pair
        old, new = self._spec(0, package, before), self._spec(1, package, after)
        if old is None or new is None:
            return Compared(self._causes.set_of([Cause(package=package, what=What.NOT_DESCRIBED)]), ())
        key = old.kind.number, new.kind.number
        if key not in self._pairs:
            self._pairs[key] = _kinds(old.kind, new.kind)
        kinds = self._pairs[key]
        if kinds is None:
            own, both = compare_specs(old.node, new.node, self._before, self._after)
            below = [(other.name, one.hash, other.hash) for one, other in both]
            return Compared(self._causes.set_of(own), [each for each in below if self._is_other(*each)])
        found = self._difference(kinds, old, new)
        had, has = old.below, new.below
        return Compared(
            found.own,
            [
                (name, had[i], has[j])
                for name, i, j in found.followed
                if had[i] != has[j] and (len(had[i]) == len(has[j]) or self._is_other(name, had[i], has[j]))
            ],
        )

    def _is_other(self, package: str, before: str, after: str) -> bool:
        """Tell whether two names are of different specs; only one of the graphs may have to write out the hash."""
        if len(before) == len(after) or before[:NAME_LETTERS] != after[:NAME_LETTERS]:
            return before != after
        old, new = self._before.find(package, before), self._after.find(package, after)
        return old is None or new is None or old.hash != new.hash

    def _spec(self, side: int, package: str, name: str) -> _Spec | None:
        known = self._specs[side]
        key = package, name
        if key not in known:
            node = (self._before, self._after)[side].find(package, name)
            known[key] = None if node is None else _Spec(node, self._kind(node), [e.hash for e in node.dependencies])
        return known[key]

    def _kind(self, node: GraphNode) -> _Kind:
        made_of = node.ingredients
        edges = made_of.dependencies
        key = (
            (node.name, node.version, node.compiler, node.os, node.target, node.variants),
            (made_of.recipe, made_of.namespace, made_of.external, made_of.flags, made_of.spliced),
            tuple([(edge.name, edge.types, edge.virtuals) for edge in edges]),
        )
        found = self._kinds.get(key)
        if found is None:
            places = {edge.name: place for place, edge in enumerate(edges)}
            languages = frozenset(place for place, edge in enumerate(edges) if edge.languages)
            found = self._kinds[key] = _Kind(len(self._kinds), edges, places, languages)
        return found

    def _difference(self, kinds: _Kinds, old: _Spec, new: _Spec) -> _Difference:
        key = self._versions(kinds, old, new)
        found = kinds.found.get(key)
        if found is None:
            own, both = compare_specs(old.node, new.node, self._before, self._after)
            had, has = old.kind.places, new.kind.places
            followed = [(other.name, had[one.name], has[other.name]) for one, other in both]
            found = kinds.found[key] = _Difference(self._causes.set_of(own), followed)
        return found

    def _versions(self, kinds: _Kinds, old: _Spec, new: _Spec) -> Hashable:
        """Return the versions that causes may name, but for those of equal compilers."""
        had, has = old.below, new.below
        if kinds.compilers is not None and all(had[i] == has[j] for i, j in kinds.compilers):
            return None
        labels = [self._label(0, old.node.dependencies[place]) for place in kinds.labelled[0]]
        return (*labels, *[self._label(1, new.node.dependencies[place]) for place in kinds.labelled[1]])

    def _label(self, side: int, edge: Dependency) -> str:
        known = self._labels[side]
        key = edge.name, edge.hash
        if key not in known:
            known[key] = label_of(edge, (self._before, self._after)[side])
        return known[key]


def _kinds(old: _Kind, new: _Kind) -> _Kinds | None:
    if len(old.places) < len(old.edges) or len(new.places) < len(new.edges):
        return None
    both = [(place, new.places[name]) for name, place in old.places.items() if name in new.places]
    alike = [(i, j) for i, j in both if _use_of(old.edges[i]) == _use_of(new.edges[j])]
    compilers = [(i, j) for i, j in alike if i in old.languages]
    plain = [(i, j) for i, j in alike if i not in old.languages]
    labelled = (
        sorted({*old.places.values()} - {i for i, _ in plain}),
        sorted({*new.places.values()} - {j for _, j in plain}),
    )
    has_only_compilers = len(labelled[0]) == len(labelled[1]) == len(compilers)
    return _Kinds(labelled, compilers if has_only_compilers else None, {})


def _use_of(edge: Dependency) -> Hashable:
    return edge.types, edge.virtuals
