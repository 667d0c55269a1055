"""Judge what happened to a tag as a whole, from all of its packages, whatever is selected.

An Observation counts while packages are compared one after the other. Documents that did not change are read only if
they matter (does one of them still have that stack?), and once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from msgspec import Struct, field

from cachewatch.core.comparison.compiler_and_target_migrations import (
    FEW_PACKAGES,
    PackageValues,
    SeenValues,
    ValueChange,
    judge_values,
)
from cachewatch.core.filters_and_default_kinds import Selection
from cachewatch.core.model import (
    Document,
    Facts,
    Kind,
    Machine,
    PackageChange,
    PackageCounts,
    Signature,
    Status,
    Verdict,
    places_of,
)
from cachewatch.core.statement_kinds import (
    Items,
    Statement,
    StatementKind,
    Turnover,
    in_order,
)

_PRUNED_SHARE = 0.05  # of the specs of the tag
WAVE_SHARE = 0.2  # of the packages of the tag
_AGAIN_SHARE = 0.5  # of the specs of a package that some stack builds
_MERGED_SHARE = 0.9  # of the packages of a stack
_FEWEST_PACKAGES = 2  # of a stack, in a tag of few packages

_NOTED = ("compilers", "oses", "targets")

Declared = tuple[frozenset[str] | None, frozenset[str] | None]

# The number of specs of each signature of a package.
Contents = Mapping[Signature, int]
# Reads the documents that did not change; returns their contents by package.
Survey = Callable[[], Mapping[str, Contents]]

_Machines = dict[str, dict[str, frozenset[Machine]]]  # by stack and package


class Observation(Struct):
    """The facts about all packages of one tag by which the tag is judged."""

    items: list[Items] = field(default_factory=list)
    # The number of packages of each stack, before and after.
    traces: tuple[Counter[str], Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))
    # The number of packages of each stack that were removed, and that are new.
    one_sided: tuple[Counter[str], Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))
    # Stacks of documents that cannot be read on the other side, where they may have them as well.
    half_read: set[str] = field(default_factory=set)
    facts: set[tuple[str, str]] = field(default_factory=set)  # values of any package, before or after
    values: SeenValues = field(default_factory=SeenValues)
    # The machines of packages in the stacks that they left, and in those that they joined.
    left: _Machines = field(default_factory=dict)
    joined: _Machines = field(default_factory=dict)
    unchanged: dict[str, Contents] = field(
        default_factory=dict
    )  # documents that were compared, and have the same specs
    # The numbers of specs and places of packages that changed.
    specs_before: int = 0
    places_before: int = 0
    places_lost: Counter[str] = field(default_factory=Counter)  # by stack
    packages_lost: int = 0  # that lost a place
    packages_again: int = 0  # of which most specs were built again

    def add(self, change: PackageChange, items: Sequence[Items], values: PackageValues) -> None:
        """Record a changed package, with its items and its changed compilers, systems, targets and variants."""
        self.items += items
        self.specs_before += change.counts.before
        self.places_before += len(places_of(change.specs_before.counts))
        for trace, facts in zip(self.traces, (change.before, change.after), strict=True):
            trace.update(facts["stacks"])
            self._note_facts(facts)
        if change.status is not Status.CHANGED:
            is_added = change.status is Status.ADDED
            self.one_sided[is_added].update((change.after if is_added else change.before)["stacks"])
        lost: Counter[str] = Counter()  # places of each stack, less those that it gained on other targets
        for place in change.places:
            lost[place.stack] += (place.verdict is Verdict.LOST) - (place.verdict is Verdict.GAINED)
            side = {Verdict.LOST: self.left, Verdict.GAINED: self.joined}.get(place.verdict)
            if side is not None:
                machines = side.setdefault(place.stack, {})
                machines[change.package] = machines.get(change.package, frozenset()) | place.machines
        self.places_lost += +lost
        self.packages_lost += bool(+lost)
        self.packages_again += _is_again(change, items)
        self.values.add(change, values)

    def witness(self, document: Document) -> None:
        """Record a package whose specs did not change; it shows which stacks still exist."""
        if document.specs:
            self.traces[0].update(document.facts["stacks"])
            self.traces[1].update(document.facts["stacks"])
            self._note_facts(document.facts)
            self.unchanged[document.package] = document.specs.counts

    def join(self, other: "Observation") -> None:
        """Add the facts about other packages of the tag."""
        self.items += other.items
        for side in (0, 1):
            self.traces[side].update(other.traces[side])
            self.one_sided[side].update(other.one_sided[side])
        self.half_read |= other.half_read
        self.facts |= other.facts
        self.unchanged |= other.unchanged
        self.values.join(other.values)
        for mine, theirs in ((self.left, other.left), (self.joined, other.joined)):
            for stack, packages in theirs.items():
                mine.setdefault(stack, {}).update(packages)
        self.places_lost.update(other.places_lost)
        for name in ("specs_before", "places_before", "packages_lost", "packages_again"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def _note_facts(self, facts: Facts) -> None:
        for name in _NOTED:
            self.facts.update((name, value) for value in facts[name])

    def moved_stacks(self) -> tuple[set[str], set[str]]:
        """Return the stacks that no compared package has any more, and those that none had before."""
        had, has = map(set, self.traces)
        return had - has, has - had


def _is_again(change: PackageChange, items: Iterable[Items]) -> bool:
    again = sum(one.counts.new for one in items if one.is_again)
    if not again:
        return False
    built = sum(count for signature, count in change.specs_before.counts.items() if signature.stacks)
    return again >= _AGAIN_SHARE * built


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


class Judgement(Struct, frozen=True, kw_only=True):
    """The events that concern the whole tag."""

    whole: StatementKind | None = None  # set if the tag itself was added or removed
    lost: tuple[str, ...] = ()  # stacks that left the tag, those with most items first
    gained: tuple[str, ...] = ()
    merges: tuple[Merge, ...] = ()
    values: tuple[ValueChange, ...] = ()
    is_prune: bool = False
    is_wave: bool = False
    suspicion: str = ""  # the reason why it is suspicious
    packages: int = 0  # number in the earlier state
    counts: Mapping[tuple[StatementKind, str], int] = field(default_factory=dict)  # items of each statement by name
    pruned: Mapping[str, int] = field(default_factory=dict)  # binaries that the prune took, by package
    survey: Survey = dict

    def merge_of(self, stack: str) -> Merge | None:
        """Return the merge that removed or added the stack, or None."""
        return next((one for one in self.merges if stack in (*one.removed, *one.joined)), None)


def judge(
    seen: Observation,
    packages: PackageCounts,
    *,
    whole: StatementKind | None,
    declared: Declared,
    survey: Survey,
    is_neighbour: bool = True,
    is_pruned: bool = True,
) -> Judgement:
    """Judge the whole tag.

    `declared` are the stacks that the tag itself lists before and after, or None; `survey` reads the documents that did
    not change, and is called at most once. A loss can be suspicious only if one revision lies between the two states
    (`is_neighbour`). `is_pruned` tells whether specs that no stack builds will be removed, as happens in branches.
    """
    unchanged = cache(lambda: {**survey(), **seen.unchanged})
    if not (packages.before and packages.after):
        return Judgement(whole=whole, packages=packages.before, survey=unchanged)
    lost, gained = _stacks(seen, packages, declared, unchanged)
    merges = _merges(seen, lost, gained)
    suspicion = _suspicion(seen, packages, unchanged, merges) if is_neighbour else ""
    return Judgement(
        lost=_most_first(lost, seen.items, "left"),
        gained=_most_first(gained, seen.items, "joined"),
        merges=merges,
        values=() if suspicion else judge_values(seen.values, unchanged),
        is_prune=is_pruned and not suspicion and _is_prune(seen, unchanged),
        is_wave=seen.packages_again >= max(FEW_PACKAGES, WAVE_SHARE * packages.before),
        suspicion=suspicion,
        packages=packages.before,
        survey=unchanged,
    )


def _stacks(
    seen: Observation, packages: PackageCounts, declared: Declared, unchanged: Survey
) -> tuple[set[str], set[str]]:
    """Return the stacks that left and joined the tag: as it lists them, or else as its documents show.

    Without a list, a stack counts if it has five packages, or half of those of a small tag and at least two: with
    fewer, a package that left a stack would look like the end of the stack. Where a document that cannot be read may
    have the stack, packages that were removed or are new do not count.
    """
    lost, gained = seen.moved_stacks()
    before, after = declared
    if before is not None and after is not None:
        return lost & (before - after), gained & (after - before)
    traces = [trace.copy() for trace in seen.traces]
    for trace, one_sided in zip(traces, seen.one_sided, strict=True):
        trace.subtract({stack: one_sided[stack] for stack in seen.half_read})
    lost = {stack for stack in lost if traces[0][stack] >= _enough(packages.before)}
    gained = {stack for stack in gained if traces[1][stack] >= _enough(packages.after)}
    if not lost and not gained:
        return lost, gained
    there = {stack for contents in unchanged().values() for one in contents for stack in one.stacks}
    return lost - there, gained - there


def _enough(packages: int) -> int:
    return max(_FEWEST_PACKAGES, min(FEW_PACKAGES, -(-packages // 2)))


def _most_first(stacks: Iterable[str], items: Iterable[Items], field_name: str) -> tuple[str, ...]:
    counts: Counter[str] = Counter()
    wanted = set(stacks)
    for one in items:
        for stack in getattr(one, field_name) & wanted:
            counts[stack] += one.counts.total
    return tuple(sorted(wanted, key=lambda stack: (-counts[stack], stack)))


def _merges(seen: Observation, lost: Iterable[str], gained: Iterable[str]) -> tuple[Merge, ...]:
    """Return merged or renamed stacks; removed stacks whose packages are in the same new stacks are one merge."""
    groups: list[tuple[set[str], set[str]]] = []
    missing: dict[str, set[str]] = {}
    for stack in sorted(lost):
        packages = seen.left.get(stack, {})
        into = {
            package: {new for new in gained if seen.joined.get(new, {}).get(package, frozenset()) & machines}
            for package, machines in packages.items()
        }
        there = [
            package
            for package, machines in packages.items()
            if machines <= frozenset[Machine]().union(*(seen.joined[new][package] for new in into[package]))
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
            tuple(sorted(removed)),
            tuple(sorted(joined)),
            lost=frozenset().union(*(missing[stack] for stack in removed)),
            gained=frozenset().union(*(seen.joined[stack] for stack in joined))
            - frozenset().union(*(seen.left[stack] for stack in removed)),
        )
        for removed, joined in groups
    )


def _is_prune(seen: Observation, unchanged: Survey) -> bool:
    prunable = [one for one in seen.items if one.is_prunable]
    specs = sum(one.counts.vanished for one in prunable)
    if len({one.package for one in prunable}) < FEW_PACKAGES or specs < _PRUNED_SHARE * seen.specs_before:
        return False
    return specs >= _PRUNED_SHARE * (
        seen.specs_before + sum(sum(contents.values()) for contents in unchanged().values())
    )


def is_most(packages: int, part: int, whole: int) -> bool:
    """Tell whether more than half is affected (`part` of `whole`), in at least five packages."""
    return packages >= FEW_PACKAGES and 2 * part > whole


def _suspicion(seen: Observation, packages: PackageCounts, unchanged: Survey, merges: Iterable[Merge]) -> str:
    if is_most(packages.removed, packages.removed, packages.before):
        return f"{packages.removed:,} of {packages.before:,} packages are missing"
    merged = {stack for one in merges for stack in one.removed}
    lost = sum(count for stack, count in seen.places_lost.items() if stack not in merged)
    affected = max(seen.packages_lost, packages.removed)
    if not is_most(affected, lost, seen.places_before):
        return ""
    places = seen.places_before + sum(len(places_of(contents)) for contents in unchanged().values())
    if not is_most(affected, lost, places):
        return ""
    return f"{lost:,} of {places:,} builds of a package for a stack and target are missing"


def with_turnover(  # noqa: PLR0917
    statements: tuple[Statement, ...],
    items: Sequence[Items],
    before: int,
    packages: PackageCounts,
    judgement: Judgement,
    selection: Selection,
) -> tuple[Statement, ...]:
    """Add how many hashes are gone, if these are more than half of all, in at least a fifth of the packages.

    Hashes that are gone with a removed stack are not counted: nothing replaces them. `before` counts the specs of the
    packages that changed. The documents of other packages are read only if they matter.
    """
    lost = frozenset(judgement.lost)
    gone = [
        one for one in items if one.counts.vanished and one.left.isdisjoint(lost)
    ]  # also by changes of kinds that are not selected
    names = {one.package for one in gone}
    vanished = sum(one.counts.vanished for one in gone)
    before -= sum(one.counts.vanished for one in items) - vanished
    is_same_tag = judgement.whole is None and not judgement.suspicion
    if not is_same_tag or len(names) < WAVE_SHARE * packages.before or not is_most(len(names), vanished, before):
        return statements
    others = (specs for package, specs in judgement.survey().items() if selection.packages(package))
    before += sum(count for specs in others for one, count in specs.items() if selection.chooses(one))
    if not is_most(len(names), vanished, before):
        return statements
    rebuilt = sum(one.counts.vanished for one in gone if one.stories[0].kind is StatementKind.REBUILT)
    pruned = sum(one.counts.vanished for one in gone if one.is_prunable)
    turnover = Statement(
        kind=StatementKind.TURNOVER,
        packages=tuple(sorted(names)),
        turnover=Turnover(before, rebuilt, pruned, vanished - rebuilt - pruned),
        kinds=frozenset({Kind.TURNOVER}),
    )
    return in_order((*statements, turnover))
