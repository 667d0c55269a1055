"""Compare many pairs of specs of two graphs.

Specs that differ only in which specs they depend on are of one kind. What differs between two kinds is found once; of
each pair, only the names of the dependencies are compared then.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from cachewatch.core.cause_sets import CauseSets
from cachewatch.core.causes import Cause, What
from cachewatch.core.dependency_shapes import PairedShapes, Selector, Shape, Shapes, selector
from cachewatch.core.graph import NAME_LETTERS, Dependency, Graph, GraphNode, Ingredients
from cachewatch.core.spec_differences import (
    attribute_causes,
    compare_dependencies,
    compare_specs,
    label_of,
    recipe_causes,
)
from cachewatch.core.spec_numbers import NumbersOfPackage, SpecNumbers

# The numbers of two specs of a package.
SpecPair = tuple[int, int]


# The dependencies before and after whose versions causes may name.
_Labelled = tuple[Sequence[int], Sequence[int]]


class Compared(NamedTuple):
    """The set of causes in a spec itself, and the pairs below it that differ."""

    own: int
    below: Sequence[SpecPair]


class NumberedSpec(NamedTuple):
    """A spec and what it has in common with others."""

    node: GraphNode
    kind: int  # the number of what is equal for specs that differ only in which specs they depend on
    attributes: int  # the number of what it is made of beside dependencies and compiler
    shape: Shape
    below: Sequence[int]  # the numbers of its dependencies


class Difference(NamedTuple):
    """What differs between specs of two kinds: a set of causes, and what selects the dependencies that are followed."""

    own: int
    before: Selector
    after: Selector


class _Kinds(NamedTuple):
    """Two kinds of specs, each of which depends on a package once."""

    shapes: PairedShapes
    found: dict[Hashable, Difference]  # by the dependencies whose versions causes may name
    by_versions: dict[Hashable, Difference]  # by those versions


class _Shared(NamedTuple):
    """What the specs of a group of a recorded graph have in common."""

    ingredients: Ingredients
    number: int  # of the ingredients beside dependencies
    shape: Shape
    tables: Sequence[NumbersOfPackage]  # of the packages that they depend on


class _ChangedDependencies(NamedTuple):
    own: Sequence[Cause]
    before: Selector
    after: Selector


class Comparisons:
    """What differs between specs of two graphs in themselves."""

    def __init__(self, before: Graph, after: Graph, causes: CauseSets) -> None:
        self._before = before
        self._after = after
        self._causes = causes
        self._shapes = Shapes()
        self._attributes: dict[Hashable, int] = {}
        # By identity; each value is kept here, so that no other one has its identity.
        self._ingredients: dict[int, _Shared] = {}
        self._kinds: dict[tuple[int, int], int] = {}
        self.numbers = SpecNumbers()
        self._specs: tuple[dict[int, NumberedSpec | None], ...] = ({}, {})
        self._known_labels: tuple[dict[int, str], ...] = ({}, {})
        self._pairs: dict[tuple[int, int], _Kinds | None] = {}
        self._changed_attributes: dict[tuple[int, int], Sequence[Cause]] = {}
        self._changed_dependencies: dict[Hashable, _ChangedDependencies] = {}

    def compare(self, pair: SpecPair) -> Compared:
        """Compare two specs of a package."""
        before, after = pair
        old, new = self.spec(0, before), self.spec(1, after)
        if old is None or new is None:
            return Compared(
                self._causes.set_of([Cause(package=self.numbers.packages[after], what=What.NOT_DESCRIBED)]), ()
            )
        found = self.difference(old, new)
        if found is None:
            own, both = compare_specs(old.node, new.node, self._before, self._after)
            edges = [(self._number(one), self._number(other)) for one, other in both]
            return Compared(self._causes.set_of(own), [(i, j) for i, j in edges if i != j and self._is_other(i, j)])
        followed = zip(found.before(old.below), found.after(new.below), strict=True)
        below = [pair for pair in followed if pair[0] != pair[1]]
        if self.numbers.has_long_names:
            below = [pair for pair in below if self._is_other(*pair)]
        return Compared(found.own, below)

    def spec(self, side: int, number: int) -> NumberedSpec | None:
        """Return a spec of the graph before (0) or after (1); None if it does not describe it."""
        known = self._specs[side]
        found = known.get(number)
        if found is None and number not in known:
            node = (self._before, self._after)[side].find(self.numbers.packages[number], self.numbers.names[number])
            found = known[number] = None if node is None else self._made(node)
        return found

    def difference(self, old: NumberedSpec, new: NumberedSpec) -> Difference | None:
        """Return what differs between two specs in themselves; None where one of them has a package twice."""
        kinds = self._pairs.get((old.kind, new.kind)) or self._kinds_of(old, new)
        if kinds is None:
            return None
        had, has = kinds.shapes.labelled
        labelled = had(old.below), has(new.below)
        found = kinds.found.get(labelled)
        if found is None:
            found = kinds.found[labelled] = self._by_versions(kinds, old, new, labelled)
        return found

    def _number(self, edge: Dependency) -> int:
        return self.numbers.of(edge.name)[edge.hash]

    def _is_other(self, before: int, after: int) -> bool:
        """Tell whether two names are of different specs; only one of the graphs may have to write out the hash."""
        package, old_name, new_name = (
            self.numbers.packages[before],
            self.numbers.names[before],
            self.numbers.names[after],
        )
        if len(old_name) == len(new_name) or old_name[:NAME_LETTERS] != new_name[:NAME_LETTERS]:
            return True
        old, new = self._before.find(package, old_name), self._after.find(package, new_name)
        return old is None or new is None or old.hash != new.hash

    def _made(self, node: GraphNode) -> NumberedSpec:
        _, ingredients, shape, tables = self._shared(node.ingredients)
        has = (node.name, node.version, node.compiler, node.os, node.target, node.variants, ingredients)
        attributes = self._attributes.setdefault(has, len(self._attributes))
        kind = self._kinds.setdefault((attributes, shape.number), len(self._kinds))
        below = [numbers[name] for numbers, name in zip(tables, node.below, strict=True)]
        return NumberedSpec(node, kind, attributes, shape, below)

    def _shared(self, made_of: Ingredients) -> _Shared:
        found = self._ingredients.get(id(made_of))
        if found is None:
            has = (made_of.recipe, made_of.namespace, made_of.external, made_of.flags, made_of.spliced)
            number = self._attributes.setdefault(has, len(self._attributes))
            tables = [self.numbers.of(use.name) for use in made_of.uses]
            found = self._ingredients[id(made_of)] = _Shared(made_of, number, self._shapes.of(made_of.uses), tables)
        return found

    def _kinds_of(self, old: NumberedSpec, new: NumberedSpec) -> _Kinds | None:
        key = old.kind, new.kind
        if key not in self._pairs:
            shapes = self._shapes.paired(old.shape, new.shape)
            self._pairs[key] = None if shapes is None else _Kinds(shapes, {}, {})
        return self._pairs[key]

    def _by_versions(self, kinds: _Kinds, old: NumberedSpec, new: NumberedSpec, labelled: _Labelled) -> Difference:
        versions = self._versions(kinds.shapes, *labelled)
        found = kinds.by_versions.get(versions)
        if found is None:
            found = kinds.by_versions[versions] = self._compared(old, new, versions)
        return found

    def _compared(self, old: NumberedSpec, new: NumberedSpec, versions: Hashable) -> Difference:
        changed, (own, before, after) = self._attributes_of(old, new), self._dependencies_of(old, new, versions)
        causes = [*changed, *own] or recipe_causes(old.node, new.node)
        return Difference(self._causes.set_of(causes), before, after)

    def _attributes_of(self, old: NumberedSpec, new: NumberedSpec) -> Sequence[Cause]:
        key = old.attributes, new.attributes
        found = self._changed_attributes.get(key)
        if found is None:
            found = self._changed_attributes[key] = tuple(attribute_causes(old.node, new.node))
        return found

    def _dependencies_of(self, old: NumberedSpec, new: NumberedSpec, versions: Hashable) -> _ChangedDependencies:
        one, other = old.node, new.node
        compilers = (one.compiler, one.is_external), (other.compiler, other.is_external)
        key = new.node.name, old.shape.number, new.shape.number, compilers, versions
        found = self._changed_dependencies.get(key)
        if found is None:
            own, both = compare_dependencies(one, other, self._before, self._after)
            had, has = old.shape.places, new.shape.places
            before, after = [had[edge.name] for edge, _ in both], [has[edge.name] for _, edge in both]
            found = self._changed_dependencies[key] = _ChangedDependencies(own, selector(before), selector(after))
        return found

    def _versions(self, shapes: PairedShapes, had: Sequence[int], has: Sequence[int]) -> Hashable:
        """Return the versions that causes may name, but for those of equal compilers."""
        if shapes.has_only_compilers and had == has:
            return None
        return self._labels(0, had), self._labels(1, has)

    def _labels(self, side: int, numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple([self._label(side, number) for number in numbers])

    def _label(self, side: int, number: int) -> str:
        known = self._known_labels[side]
        found = known.get(number)
        if found is None:
            found = known[number] = label_of(
                self.numbers.packages[number], self.numbers.names[number], (self._before, self._after)[side]
            )
        return found
