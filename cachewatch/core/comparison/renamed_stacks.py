"""Tell which stacks were renamed or merged, and compare their packages again, with the new names in both states.

Stacks are compared by name; that one was renamed is known only when the whole tag is compared. What else changed in it
(a version, a compiler) then shows as the loss of one place and the gain of another. Compared under one name, it
shows as it does in any other stack.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.comparison.compiler_and_target_migrations import PackageValues, values_of
from cachewatch.core.comparison.package_changes import Pair, compare, part_of
from cachewatch.core.comparison.package_items import items_of
from cachewatch.core.filters_and_spec_patterns import Selection
from cachewatch.core.kinds_and_specs import (
    REGRADED,
    Document,
    Kind,
    Machine,
    PackageChange,
    Place,
    Specs,
    Verdict,
    facts_of,
    place_in,
)
from cachewatch.core.statement_kinds import STATEMENT_OF, Counts, Items, OwnedLoss, StatementKind, Story

_MERGED_SHARE = 0.9  # of the packages of a stack

NewNames = Mapping[str, str]  # of stacks, by their old ones
MachinesByStack = Mapping[str, frozenset[Machine]]


class Merge(Struct, frozen=True):
    """Removed stacks, and the new stacks that have nine tenths of their packages for the same machines."""

    removed: tuple[str, ...]
    joined: tuple[str, ...]
    lost: frozenset[str] = frozenset()  # packages of removed stacks that joined ones lack, for some machine at least
    gained: frozenset[str] = frozenset()  # packages of joined stacks that no removed one had

    @property
    def name(self) -> str:
        """A name that is unique among the changes of one tag."""
        return f"{', '.join(self.removed)} -> {', '.join(self.joined)}"

    @property
    def new_names(self) -> NewNames:
        """The new name of each removed stack; empty if the packages are in several new stacks."""
        return dict.fromkeys(self.removed, self.joined[0]) if len(self.joined) == 1 else {}


def merges_of(
    moved: Mapping[str, tuple[MachinesByStack, MachinesByStack]], lost: Iterable[str], gained: Iterable[str]
) -> tuple[Merge, ...]:
    """Return which of the `lost` and `gained` stacks of a tag were merged or renamed.

    `moved` has, for each package, its machines in stacks that the package left, and in stacks that it joined. Removed
    stacks whose packages are in the same new stacks are one merge.
    """
    left = {stack: {name: had[stack] for name, (had, _) in moved.items() if stack in had} for stack in sorted(lost)}
    joined = {stack: {name: has[stack] for name, (_, has) in moved.items() if stack in has} for stack in gained}
    groups: list[tuple[set[str], set[str]]] = []
    missing: dict[str, set[str]] = {}
    for stack, packages in left.items():
        into = {
            package: {new for new, those in joined.items() if those.get(package, frozenset()) & machines}
            for package, machines in packages.items()
        }
        there = [
            package
            for package, machines in packages.items()
            if machines <= frozenset[Machine]().union(*(joined[new][package] for new in into[package]))
        ]
        if not packages or len(there) < _MERGED_SHARE * len(packages):
            continue
        missing[stack] = packages.keys() - set(there)
        own = ({stack}, set[str]().union(*(into[package] for package in there)))
        for other in [one for one in groups if one[1] & own[1]]:
            own = (own[0] | other[0], own[1] | other[1])
            groups.remove(other)
        groups.append(own)
    return tuple(
        Merge(
            tuple(sorted(old)),
            tuple(sorted(new)),
            lost=frozenset().union(*(missing[stack] for stack in old)),
            gained=frozenset[str]()
            .union(*(joined[stack] for stack in new))
            .difference(*(left[stack] for stack in old)),
        )
        for old, new in groups
    )


class Renamed(Struct, frozen=True):
    """A package that was compared with the new names of its stacks in both states.

    items: all changes, also of specs that only moved with their stacks; None if only names and hashes changed.
    values: the changed values of the package.
    """

    package: str
    items: tuple[Items, ...] | None
    values: PackageValues


# Reads packages again, compares them under the new names, and selects a part of them.
CompareRenamed = Callable[[NewNames, Set[str], Selection], Iterable[Renamed]]


def compare_renamed(pairs: Iterable[Pair], names: NewNames, selection: Selection, *, is_pruned: bool) -> list[Renamed]:
    """Compare `pairs`, except new packages, with new names of stacks in both states; `names` has them by old names."""
    found = []
    for pair in pairs:
        if pair.before is None:
            continue
        named = _with_names(pair.before, names)
        change = compare(pair.package, named, pair.after, is_pruned=is_pruned)
        if change is None:
            found.append(Renamed(pair.package, None, PackageValues(kept=tuple(named.specs.counts))))
            continue
        had, has = (
            {one: count for one, count in side.counts.items() if selection.chooses(one)}
            for side in (change.specs_before, change.specs_after)
        )
        by_old_names = None if had == has else compare(pair.package, pair.before, pair.after, is_pruned=is_pruned)
        items = None if by_old_names is None else _items(change, by_old_names, names, selection)
        found.append(Renamed(pair.package, items, values_of(change)))
    return found


def _with_names(document: Document, names: NewNames) -> Document:
    signatures = {
        one: replace(one, stacks=tuple(sorted({names.get(stack, stack) for stack in one.stacks})))
        for one in document.specs.counts
    }
    specs = Specs.of({key: signatures[one] for key, one in document.specs.items()})
    return replace(document, specs=specs, facts=facts_of(specs.counts))


def _items(
    change: PackageChange, by_old_names: PackageChange, names: NewNames, selection: Selection
) -> tuple[Items, ...] | None:
    """Return the items of `change`, and one for specs that only moved with their stacks; None if only names changed.

    `change` has the new names of stacks in both states; `by_old_names` is the same change with the old names.
    """
    if not selection.takes_all_specs:
        part, other = part_of(change, selection), part_of(by_old_names, selection)
        if part is None or other is None:
            return None
        change, by_old_names = part, other
    own = [replace(one, is_renamed=True) for one in items_of(change, selection)]
    others = items_of(by_old_names, selection)
    # What was built again while its stack was renamed only moved, too.
    moved = sum(one.counts.new for one in own if _is_rebuilt(one))
    moved -= sum(one.counts.new for one in others if _is_rebuilt(one))
    for number, one in enumerate(own):
        if _is_rebuilt(one) and (count := min(moved, one.counts.new)) > 0:
            moved -= count
            counts = replace(one.counts, vanished=one.counts.vanished - count, new=one.counts.new - count)
            own[number] = replace(one, counts=counts)
    by_name, here = (sum((one.counts for one in each), start=Counts()) for each in (others, own))
    fields = ("vanished", "new", "kept", "entered", "left")
    counts = Counts(**{name: getattr(by_name, name) - getattr(here, name) for name in fields})
    old = {one.place: place_in(names[one.stack], one.target) for one in by_old_names.places if one.stack in names}
    left, joined = (frozenset(place.stack for place in side) for side in (old, old.values()))
    own = [one for one in own if one.counts.total or not _is_rebuilt(one)]
    if not own:
        return None
    own[0] = replace(own[0], losses=tuple(_losses(own[0].losses, change, old)))
    moves = Items(
        package=change.package,
        stories=(Story(kind=StatementKind.MOVED),),
        left=left,
        joined=joined,
        stacks=left | joined,
        counts=counts,
        kinds=by_old_names.kinds & _OF_NAMES,
    )
    return (*own, moves) if counts.total else tuple(own)


_OF_NAMES = frozenset({Kind.STACK_ADDED, Kind.STACK_REMOVED, Kind.PLACE_LOST, Kind.PLACE_GAINED})


def _is_rebuilt(one: Items) -> bool:
    return one.stories[0].kind is StatementKind.REBUILT


def _losses(losses: Iterable[OwnedLoss], change: PackageChange, old: Mapping[Place, Place]) -> Iterator[OwnedLoss]:
    """Yield `losses`, each with its old places, then old places that lost nothing; `old` maps old places to new."""
    for one in losses:
        yield replace(one, was=tuple(place for place, new in old.items() if new == one.place))
    verdicts = {one.place: one.verdict for one in change.places}
    for place, new in old.items():
        verdict = verdicts.get(new)
        if verdict is not Verdict.LOST:
            told_as = STATEMENT_OF[verdict] if verdict in REGRADED else None
            yield OwnedLoss(package=change.package, place=place, loss=None, told_as=told_as)
