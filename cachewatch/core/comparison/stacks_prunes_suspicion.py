"""Judge what happened to a tag as a whole, from all of its packages, whatever is selected.

An Observation collects facts while packages are compared one after the other. Documents that did not change are read
only if they matter (does one of them still have a stack?), and only once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cache
from itertools import chain

from msgspec import Struct, field
from msgspec.structs import replace

from cachewatch.core.comparison.compiler_and_target_migrations import (
    FEW_PACKAGES,
    PackageValues,
    TagValues,
    ValueChange,
)
from cachewatch.core.comparison.renamed_stacks import CompareRenamed, MachinesByStack, Merge, NewNames, merges_of
from cachewatch.core.filters_and_spec_patterns import Selection
from cachewatch.core.kinds_and_specs import (
    Document,
    Kind,
    Machine,
    PackageChange,
    PackageCounts,
    Signature,
    Status,
    Verdict,
    places_of,
)
from cachewatch.core.statement_kinds import Items, Statement, StatementKind, Turnover, in_order

_PRUNED_SHARE = 0.05  # of the specs of the tag
WAVE_SHARE = 0.2  # of the packages of the tag
_AGAIN_SHARE = 0.5  # of the specs of a package that some stack builds
_FEWEST_PACKAGES = 2  # of a stack, in a tag of few packages

_NOTED = ("stacks", "compilers", "oses", "targets")

Declared = tuple[frozenset[str] | None, frozenset[str] | None]

# Reads the documents that did not change; returns by package how many specs of each signature they have.
Survey = Callable[[], Mapping[str, Mapping[Signature, int]]]


class _SeenPackage(Struct, frozen=True, kw_only=True):
    """What one changed package contributes to the judgement of its whole tag."""

    stacks: tuple[frozenset[str], frozenset[str]]  # before and after
    is_one_sided: bool  # it was removed, or it is new
    specs: int  # number before
    places: int  # number before
    places_lost: Counter[str]  # number by stack, less the number that the stack gained for other targets
    left: MachinesByStack  # its machines in the stacks that it left, and in those that it joined
    joined: MachinesByStack
    is_again: bool  # most of its specs were built again


class Observation(Struct):
    """The facts about all packages of one tag that are used to judge the tag."""

    items: list[Items] = field(default_factory=list)
    packages: dict[str, _SeenPackage] = field(default_factory=dict)  # that changed
    # Documents that were compared, and have the same specs.
    unchanged: dict[str, Mapping[Signature, int]] = field(default_factory=dict)
    # Stacks of documents that cannot be read on the other side, where they may have them as well.
    half_read: set[str] = field(default_factory=set)
    # Values of any package, before or after.
    facts: dict[str, set[str]] = field(default_factory=lambda: {name: set() for name in _NOTED})
    values: TagValues = field(default_factory=TagValues)

    def add(self, change: PackageChange, items: Sequence[Items], values: PackageValues) -> None:
        """Record a changed package, with its items and its changed compilers, systems, targets and variants."""
        self.items += items
        self._note(change.before)
        self._note(change.after)
        contents = change.specs_before.counts
        lost: Counter[str] = Counter()
        machines: dict[Verdict, dict[str, frozenset[Machine]]] = {Verdict.LOST: {}, Verdict.GAINED: {}}
        for place in change.places:
            if place.verdict in machines:
                lost[place.stack] += 1 if place.verdict is Verdict.LOST else -1
                own = machines[place.verdict]
                own[place.stack] = own.get(place.stack, frozenset()) | place.machines
        again = sum(one.counts.new for one in items if one.is_again)
        self.packages[change.package] = _SeenPackage(
            stacks=(change.before["stacks"], change.after["stacks"]),
            is_one_sided=change.status is not Status.CHANGED,
            specs=change.counts.before,
            places=len(places_of(contents)),
            places_lost=+lost,
            left=machines[Verdict.LOST],
            joined=machines[Verdict.GAINED],
            is_again=again > 0 and again >= _AGAIN_SHARE * sum(count for s, count in contents.items() if s.stacks),
        )
        self.values.add(change.package, values)

    def witness(self, document: Document) -> None:
        """Record a package whose specs did not change; its `document` shows which stacks still exist."""
        if document.specs:
            self.unchanged[document.package] = document.specs.counts
            self._note(document.facts)

    def _note(self, facts: Mapping[str, Set[str]]) -> None:
        for name, values in self.facts.items():
            values.update(facts[name])

    def join(self, other: "Observation") -> None:
        """Add the facts about other packages of the tag."""
        self.items += other.items
        self.packages |= other.packages
        self.unchanged |= other.unchanged
        self.half_read |= other.half_read
        self.values.join(other.values)
        self._note(other.facts)

    def moved_stacks(self) -> tuple[set[str], set[str]]:
        """Return two sets of stacks: those that only the earlier, and those that only the later documents have."""
        there = _stacks_of(self.unchanged)
        had, has = (there.union(*(one.stacks[side] for one in self.packages.values())) for side in (0, 1))
        return had - has, has - had


def _stacks_of(packages: Mapping[str, Mapping[Signature, int]]) -> set[str]:
    return {stack for contents in packages.values() for signature in contents for stack in signature.stacks}


class Judgement(Struct, frozen=True, kw_only=True):
    """All that happened to a tag as a whole."""

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
    # Items under the new names of renamed stacks, by package, if more than names and hashes changed.
    renamed: Mapping[str, tuple[Items, ...]] = field(default_factory=dict)
    compare_renamed: CompareRenamed = lambda _names, _packages, _selection: ()

    @property
    def new_names(self) -> NewNames:
        """The new names of renamed stacks."""
        return {old: new for one in self.merges for old, new in one.new_names.items()}

    def under_new_names(self, items: Sequence[Items], selection: Selection | None = None) -> Sequence[Items]:
        """Return `items`; for packages in renamed stacks, those of `selection` (None: all) under the new names."""
        renamed: Mapping[str, tuple[Items, ...] | None] = self.renamed
        if renamed and selection and not selection.takes_all_specs:
            sees = selection.stacks
            names = {old: new for old, new in self.new_names.items() if sees(old) and sees(new)}
            own = {one.package for one in items}.intersection(renamed) if names else set[str]()
            renamed = {one.package: one.items for one in self.compare_renamed(names, own, selection)}
        of_package = {one.package: found for one in items if (found := renamed.get(one.package))}
        others = [one for one in items if one.package not in of_package]
        return [*others, *chain.from_iterable(of_package.values())] if of_package else items

    def merge_of(self, stack: str) -> Merge | None:
        """Return the merge that removed or added `stack`; None if there is none."""
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
    compare_renamed: CompareRenamed = lambda _names, _packages, _selection: (),
) -> Judgement:
    """Judge what happened to a tag as a whole, by the facts `seen` and the numbers of its `packages`.

    `whole`: the kind of statement if the tag was added or removed, else None. `declared`: the stacks that the tag
    itself lists before and after (None: no list). `survey` reads the documents that did not change, and is called at
    most once. `is_neighbour`: is the later state the next revision? If not, no loss is suspicious. `is_pruned`: will
    specs that no stack builds be removed, as in branches? `compare_renamed` compares packages of renamed stacks again.
    """
    unchanged = cache(lambda: {**survey(), **seen.unchanged})
    if not (packages.before and packages.after):
        return Judgement(whole=whole, packages=packages.before, survey=unchanged)
    lost, gained = _stacks(seen, packages, declared, unchanged)
    merges = merges_of({name: (one.left, one.joined) for name, one in seen.packages.items()}, lost, gained)
    suspicion = _suspicion(seen, packages, unchanged, merges) if is_neighbour else ""
    judgement = Judgement(merges=merges, compare_renamed=compare_renamed)
    if names := judgement.new_names:
        moved = {package for package, one in seen.packages.items() if not names.keys().isdisjoint(one.left)}
        again = list(compare_renamed(names, moved, Selection()))
        for one in again:
            seen.values.add(one.package, one.values, frozenset(names.values()))
        judgement = replace(judgement, renamed={one.package: one.items for one in again if one.items})
    items = judgement.under_new_names(seen.items)
    return replace(
        judgement,
        lost=_most_first(lost, ((one.left, one.counts.total) for one in seen.items)),
        gained=_most_first(gained, ((one.joined, one.counts.total) for one in seen.items)),
        values=() if suspicion else seen.values.widespread(unchanged),
        is_prune=is_pruned and not suspicion and _is_prune(items, seen, unchanged),
        is_wave=sum(one.is_again for one in seen.packages.values()) >= max(FEW_PACKAGES, WAVE_SHARE * packages.before),
        suspicion=suspicion,
        packages=packages.before,
        survey=unchanged,
    )


def _stacks(
    seen: Observation, packages: PackageCounts, declared: Declared, unchanged: Survey
) -> tuple[set[str], set[str]]:
    """Return the stacks that left and those that joined the tag, as it lists them or else as its documents show.

    If a list in `declared` is None, a stack counts if it has five packages or, in a small tag, half of the packages and
    at least two: with fewer, a package that left a stack would look like the end of the stack. Packages that were
    removed or are new do not count where an unreadable document may have the stack.
    """
    lost, gained = seen.moved_stacks()
    before, after = declared
    if before is not None and after is not None:
        return lost & (before - after), gained & (after - before)
    lost, gained = (
        {
            stack
            for stack in stacks
            if sum(
                stack in one.stacks[side] and not (one.is_one_sided and stack in seen.half_read)
                for one in seen.packages.values()
            )
            >= max(_FEWEST_PACKAGES, min(FEW_PACKAGES, -(-count // 2)))
        }
        for side, stacks, count in ((0, lost, packages.before), (1, gained, packages.after))
    )
    if not lost and not gained:
        return lost, gained
    there = _stacks_of(unchanged())
    return lost - there, gained - there


def _most_first(stacks: Set[str], items: Iterable[tuple[Set[str], int]]) -> tuple[str, ...]:
    """Return `stacks`, those with most items first; `items` has pairs: some stacks, and the number of their items."""
    counts: Counter[str] = Counter()
    for own, count in items if stacks else ():
        counts.update(dict.fromkeys(own & stacks, count))
    return tuple(sorted(stacks, key=lambda stack: (-counts[stack], stack)))


def _is_prune(items: Iterable[Items], seen: Observation, unchanged: Survey) -> bool:
    prunable = [one for one in items if one.is_prunable]
    specs = sum(one.counts.vanished for one in prunable)
    before = sum(one.specs for one in seen.packages.values())
    if len({one.package for one in prunable}) < FEW_PACKAGES or specs < _PRUNED_SHARE * before:
        return False
    return specs >= _PRUNED_SHARE * (before + sum(sum(contents.values()) for contents in unchanged().values()))


def is_most(packages: int, part: int, whole: int) -> bool:
    """Tell whether `part` is more than half of `whole`, and at least five `packages` (a number) are affected."""
    return packages >= FEW_PACKAGES and 2 * part > whole


def _suspicion(seen: Observation, packages: PackageCounts, unchanged: Survey, merges: Iterable[Merge]) -> str:
    if is_most(packages.removed, packages.removed, packages.before):
        return f"{packages.removed:,} of {packages.before:,} packages are missing"
    merged = {stack for one in merges for stack in one.removed}
    lost, affected, places = 0, 0, 0
    for one in seen.packages.values():
        lost += sum(count for stack, count in one.places_lost.items() if stack not in merged)
        affected += bool(one.places_lost)
        places += one.places
    affected = max(affected, packages.removed)
    if is_most(affected, lost, places):
        places += sum(len(places_of(contents)) for contents in unchanged().values())
        if is_most(affected, lost, places):
            return f"{lost:,} of {places:,} builds of a package for a stack and target are missing"
    return ""


def with_turnover(  # noqa: PLR0917
    statements: tuple[Statement, ...],
    items: Sequence[Items],
    before: int,
    packages: PackageCounts,
    judgement: Judgement,
    selection: Selection,
    *,
    is_part: bool,
) -> tuple[Statement, ...]:
    """Return `statements`, with one on turnover if most hashes of at least a fifth of the packages are gone.

    `before` is the number of specs of changed packages; `is_part`: some specs are not selected. Documents of other
    packages are read only if they matter.
    """
    gone = [one for one in items if one.counts.vanished]  # also by changes of kinds that are not selected
    names = {one.package for one in gone}
    vanished = sum(one.counts.vanished for one in gone)
    is_same_tag = judgement.whole is None and not judgement.suspicion
    if not is_same_tag or len(names) < WAVE_SHARE * packages.before or not is_most(len(names), vanished, before):
        return statements
    others = (specs for package, specs in judgement.survey().items() if selection.packages(package))
    before += sum(count for specs in others for one, count in specs.items() if selection.chooses(one))
    if not is_most(len(names), vanished, before):
        return statements
    rebuilt = sum(one.counts.vanished for one in gone if one.stories[0].kind is StatementKind.REBUILT)
    pruned = sum(one.counts.vanished for one in gone if one.is_prunable and one.left.isdisjoint(judgement.lost))
    turnover = Statement(
        kind=StatementKind.TURNOVER,
        packages=tuple(sorted(names)),
        turnover=Turnover(before, rebuilt, pruned, vanished - rebuilt - pruned, is_part),
        kinds=frozenset({Kind.TURNOVER}),
    )
    return in_order((*statements, turnover))
