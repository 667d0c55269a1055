"""What happens to a whole tag: one event, not one line for each package.

A Tally counts while packages stream by; at the end it knows which stacks, compilers,
systems and targets left no trace, and what that explains.
"""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct, field

from cachewatch.causes import Cause, swap_of
from cachewatch.model import Document, Event, Kind, PackageChange, PackageCounts, SpecClass, SpecCounts, Status

# Fewer packages than this are told one by one, whatever happened to them.
_FEW_PACKAGES = 5
# More surplus specs than this went in a prune, not one by one.
_PRUNED_SPECS = 1000
# Losing this share of what there was looks like an accident of publishing.
_SUSPICIOUS_SHARE = 0.5
_SUSPICIOUS_SPECS = 200

_SWAPS = {"compilers": Kind.COMPILER, "oses": Kind.OS, "targets": Kind.TARGET}


class Tally(Struct):
    """The counts of one tag, and the traces that values leave on either side."""

    specs: SpecCounts = field(default_factory=SpecCounts)
    changed: int = 0
    rebuilt_only: int = 0
    left_over: int = 0  # newly
    surplus: int = 0  # specs gone of which copies are left
    surplus_packages: int = 0
    kinds: Counter[Kind] = field(default_factory=Counter)
    packages_with: tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]] = field(
        default_factory=lambda: (Counter(), Counter())
    )
    specs_in: tuple[Counter[str], Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))
    swaps: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    swapped_specs: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add(self, change: PackageChange) -> None:
        """Count one package."""
        self.specs += change.counts
        self.changed += change.status is Status.CHANGED
        self.rebuilt_only += change.kinds == {Kind.REBUILT} and change.status is Status.CHANGED
        self.left_over += len(change.newly_left_over)
        self.kinds.update(change.kinds)
        surplus = _surplus(change)
        self.surplus += surplus
        self.surplus_packages += surplus > 0
        for side, facts, copies in (
            (0, change.before, change.copies_before),
            (1, change.after, change.copies_after),
        ):
            self._trace(side, facts)
            for place, count in copies.items():
                self.specs_in[side][place.stack] += count
        for fact in _SWAPS:
            swap = swap_of(change, fact)
            if swap:
                self.swaps[swap] += 1
                self.swapped_specs[swap] += change.counts.removed

    def witness(self, document: Document) -> None:
        """Note the values of a package that did not change: they are still there."""
        if document.specs:
            self._trace(0, document.facts)
            self._trace(1, document.facts)

    def join(self, other: "Tally") -> None:
        """Add the counts of other packages of the same tag."""
        self.specs += other.specs
        self.changed += other.changed
        self.rebuilt_only += other.rebuilt_only
        self.left_over += other.left_over
        self.surplus += other.surplus
        self.surplus_packages += other.surplus_packages
        self.kinds += other.kinds
        self.swaps += other.swaps
        self.swapped_specs += other.swapped_specs
        for side in (0, 1):
            self.packages_with[side].update(other.packages_with[side])
            self.specs_in[side].update(other.specs_in[side])

    def lost_and_gained_stacks(self) -> tuple[set[str], set[str]]:
        """Return the stacks that no compared package has any more, and those that none had."""
        had, has = ({value for fact, value in side if fact == "stacks"} for side in self.packages_with)
        return had - has, has - had

    def _trace(self, side: int, facts: Mapping[str, frozenset[str]]) -> None:
        for fact in ("stacks", *_SWAPS):
            for value in facts[fact]:
                self.packages_with[side][fact, value] += 1


class Events(Struct, frozen=True, kw_only=True):
    """The events of one tag, and which lines of a report they make needless."""

    events: tuple[Event, ...] = ()
    lost: frozenset[str] = frozenset()
    gained: frozenset[str] = frozenset()
    swaps: frozenset[tuple[str, str, str]] = frozenset()
    is_prune: bool = False
    is_whole_tag: bool = False  # the tag itself came or went, with all that it holds

    def explains(self, cause: Cause) -> bool:
        """Tell whether an event says all that a line of this cause would say."""
        if self.is_whole_tag:
            return True
        if cause.swap is not None:
            return cause.swap in self.swaps
        if self.is_prune and cause.is_surplus:
            return True
        return bool(cause.gained or cause.lost) and cause.gained <= self.gained and cause.lost <= self.lost


def find_events(
    tally: Tally,
    packages: PackageCounts,
    *,
    tag_event: Event | None,
    declared: tuple[frozenset[str] | None, frozenset[str] | None],
    is_complete: bool,
) -> Events:
    """Find what happened to the whole tag.

    `declared` are the stacks that the tag says it has on either side, where it says so;
    `is_complete` tells whether every document of the tag was compared.
    """
    if not (packages.before and packages.after):
        # All of it came or went; there is nothing to compare parts with.
        return Events(events=(tag_event,) if tag_event else (), is_whole_tag=tag_event is not None)
    lost, gained = _stacks(tally, declared, is_complete=is_complete)
    swaps = {swap for swap, count in tally.swaps.items() if _is_everywhere(tally, swap, count, is_complete=is_complete)}
    is_prune = tally.surplus >= _PRUNED_SPECS and tally.specs.net_removed > tally.specs.net_added
    events = [tag_event] if tag_event else []
    events += [_suspicion(tally)] if _is_suspicious(tally, packages) else []
    events += [_stack_event(tally, Kind.STACK_REMOVED, stack, 0) for stack in sorted(lost)]
    events += [_stack_event(tally, Kind.STACK_ADDED, stack, 1) for stack in sorted(gained)]
    events += [
        Event(_SWAPS[swap[0]], f"{swap[1]} -> {swap[2]}", tally.swaps[swap], tally.swapped_specs[swap])
        for swap in sorted(swaps)
    ]
    if is_prune:
        events.append(Event(Kind.PRUNE, "surplus copies", tally.surplus_packages, tally.surplus))
    return Events(
        events=tuple(events),
        lost=frozenset(lost),
        gained=frozenset(gained),
        swaps=frozenset(swaps),
        is_prune=is_prune,
    )


def _stacks(
    tally: Tally, declared: tuple[frozenset[str] | None, frozenset[str] | None], *, is_complete: bool
) -> tuple[set[str], set[str]]:
    """Return the stacks that left and joined the tag: as it declares, or as all documents show."""
    lost, gained = tally.lost_and_gained_stacks()
    before, after = declared
    if before is not None and after is not None:
        return lost & (before - after), gained & (after - before)
    if not is_complete:
        return set(), set()
    return (
        {stack for stack in lost if tally.packages_with[0]["stacks", stack] >= _FEW_PACKAGES},
        {stack for stack in gained if tally.packages_with[1]["stacks", stack] >= _FEW_PACKAGES},
    )


def _is_everywhere(tally: Tally, swap: tuple[str, str, str], packages: int, *, is_complete: bool) -> bool:
    fact, old, _ = swap
    had, has = tally.packages_with[0][fact, old], tally.packages_with[1][fact, old]
    return is_complete and packages >= _FEW_PACKAGES and packages == had and not has


def _stack_event(tally: Tally, kind: Kind, stack: str, side: int) -> Event:
    return Event(kind, stack, tally.packages_with[side]["stacks", stack], tally.specs_in[side][stack])


def _is_suspicious(tally: Tally, packages: PackageCounts) -> bool:
    specs = tally.specs
    lost_packages = packages.removed > _FEW_PACKAGES and packages.removed > packages.before * _SUSPICIOUS_SHARE
    lost_specs = specs.before >= _SUSPICIOUS_SPECS and specs.after < specs.before * (1 - _SUSPICIOUS_SHARE)
    # The specs of packages that did not change are not counted, but they are there.
    is_wide = packages.changed + packages.removed >= packages.before * _SUSPICIOUS_SHARE
    return lost_packages or (lost_specs and is_wide)


def _suspicion(tally: Tally) -> Event:
    specs = tally.specs
    return Event(Kind.SUSPICIOUS, f"{specs.before} -> {specs.after} specs", tally.changed, specs.before - specs.after)


_SURPLUS = (SpecClass.PRUNED, SpecClass.DROPPED, SpecClass.SURPLUS)


def _surplus(change: PackageChange) -> int:
    """Count the specs that are gone while their places keep their versions."""
    if change.status is Status.REMOVED:
        return 0
    return sum(gone.count for gone in change.gone if gone.spec_class in _SURPLUS)
