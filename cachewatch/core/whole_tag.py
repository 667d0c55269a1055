"""What happened to a tag as a whole, judged on all of its packages whatever somebody selected.

An Observation counts while packages stream by. Documents that did not change are not read;
where they decide (does one of them still have that stack?), they are surveyed once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cached_property

from msgspec import Struct, field

from cachewatch.core.items import build_of
from cachewatch.core.model import (
    Document,
    MatchKind,
    PackageChange,
    PackageCounts,
    Place,
    Signature,
    SignatureCount,
    SpecClass,
    Specs,
    Verdict,
    places_in,
)
from cachewatch.core.statement_values import Build, Items, Replacement, StatementKind

# Fewer packages than this are told one by one, whatever happened to them.
FEW_PACKAGES = 5
_MIGRATED_SHARE = 0.8  # of the items that left the old value
_PRUNED_SHARE = 0.05  # of the specs of the tag
_WAVE_SHARE = 0.2  # of the packages of the tag
_MOST_MIGRATIONS = 100  # of one comparison: each is looked for in all that left
_AGAIN_SHARE = 0.5  # of the specs of a package that some stack builds
_SUSPICIOUS_SHARE = 0.5  # of the places or documents of the tag

# Went without leaving what they were built with.
_STILL_THERE = (SpecClass.PRUNED, SpecClass.SURPLUS)

Declared = tuple[frozenset[str] | None, frozenset[str] | None]


# Compiler, operating system, target and stacks of specs: plain tuples, for every package has some.
Uses = frozenset[tuple[str, str, str, tuple[str, ...]]]


class SurveyResult(Struct, frozen=True, kw_only=True):
    """What the documents that did not change have."""

    specs: int = 0
    places: int = 0
    uses: Mapping[Uses, tuple[str, ...]] = field(default_factory=dict)  # packages by what they have


class Survey:
    """Collects what the documents have that did not change; it takes time to read them, so few days ask."""

    def __init__(self) -> None:
        self._specs = self._places = 0
        self._uses: dict[Uses, list[str]] = {}

    def add(self, document: Document) -> None:
        """Take one document."""
        self._specs += len(document.specs)
        self._places += len(_places(document.specs))
        self._uses.setdefault(uses_of(document.specs.counts), []).append(document.package)

    def join(self, other: SurveyResult) -> None:
        """Add what other documents have."""
        self._specs += other.specs
        self._places += other.places
        for use, packages in other.uses.items():
            self._uses.setdefault(use, []).extend(packages)

    def found(self) -> SurveyResult:
        """Return what they have."""
        return SurveyResult(
            specs=self._specs, places=self._places, uses={use: tuple(names) for use, names in self._uses.items()}
        )


class Leaving(Struct, frozen=True):
    """With what specs were built that vanished, with what their successors are, and where."""

    before: Build
    after: Build | None
    stacks: frozenset[str]


class Observation(Struct):
    """What was seen of all packages of one tag."""

    items: list[Items] = field(default_factory=list)
    # How many packages each stack has, before and after.
    traces: tuple[Counter[str], Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))
    leaving: Counter[Leaving] = field(default_factory=Counter)
    uses: dict[Uses, list[str]] = field(default_factory=dict)  # packages by what they have now
    specs_before: int = 0
    places_before: int = 0
    places_lost: int = 0
    packages_lost: int = 0  # that lost a place
    packages_again: int = 0  # most of which came again

    def add(self, change: PackageChange, items: Sequence[Items]) -> None:
        """Take one package."""
        self.items += items
        self.specs_before += change.counts.before
        self._trace(0, change.before)
        self._trace(1, change.after)
        lost = _lost_places(change)
        self.places_before += len(_places(change.specs_before))
        self.places_lost += lost
        self.packages_lost += lost > 0
        self.packages_again += _is_again(change, items)
        self._note_leaving(change)
        if change.specs_after:
            self.uses.setdefault(uses_of(change.specs_after.counts), []).append(change.package)

    def witness(self, document: Document) -> None:
        """Take a package of which nothing but the form of its document changed."""
        if document.specs:
            self._trace(0, document.facts)
            self._trace(1, document.facts)
            self.specs_before += len(document.specs)
            self.places_before += len(_places(document.specs))
            self.uses.setdefault(uses_of(document.specs.counts), []).append(document.package)

    def join(self, other: "Observation") -> None:
        """Add what was seen of other packages of the tag."""
        self.items += other.items
        for side in (0, 1):
            self.traces[side].update(other.traces[side])
        self.leaving.update(other.leaving)
        for use, packages in other.uses.items():
            self.uses.setdefault(use, []).extend(packages)
        for name in ("specs_before", "places_before", "places_lost", "packages_lost", "packages_again"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def moved_stacks(self) -> tuple[set[str], set[str]]:
        """Return the stacks that no compared package has any more, and those that none had."""
        had, has = map(set, self.traces)
        return had - has, has - had

    def _trace(self, side: int, facts: Mapping[str, Set[str]]) -> None:
        self.traces[side].update(facts["stacks"])

    def _note_leaving(self, change: PackageChange) -> None:
        for match in change.matches:
            if match.kind is not MatchKind.REBUILT and match.before.stacks:
                old, new = build_of(match.before), build_of(match.after)
                if old != new:
                    self.leaving[Leaving(old, new, frozenset(match.before.stacks))] += match.count
        for gone in change.gone:
            if gone.spec_class not in _STILL_THERE:
                self.leaving[_leaving(gone)] += gone.count


def _places(specs: Specs) -> frozenset[Place]:
    return frozenset[Place]().union(*{places_in(s.stacks, s.target) for s in specs.counts})


def _lost_places(change: PackageChange) -> int:
    """Count the lost places that no other target of the same stack makes up for."""
    net: Counter[str] = Counter()
    for place in change.places:
        net[place.stack] += (place.verdict is Verdict.LOST) - (place.verdict is Verdict.GAINED)
    return sum(lost for lost in net.values() if lost > 0)


def _leaving(gone: SignatureCount) -> Leaving:
    after = build_of(gone.counterpart) if gone.counterpart else None
    return Leaving(build_of(gone.signature), after, frozenset(gone.signature.stacks))


def _is_again(change: PackageChange, items: Iterable[Items]) -> bool:
    again = sum(one.counts.new for one in items if one.is_again)
    if not again:
        return False
    built = sum(count for signature, count in change.specs_before.counts.items() if signature.stacks)
    return again >= _AGAIN_SHARE * built


def uses_of(counts: Iterable[Signature]) -> Uses:
    """Return with what these signatures are built, for what, and where."""
    return frozenset([(s.compiler, s.os, s.target, s.stacks) for s in counts])


class Migration(Struct, frozen=True, kw_only=True):
    """A compiler, operating system or target that another one replaced in some stacks."""

    replacement: Replacement
    stacks: frozenset[str]
    exceptions: tuple[str, ...]  # packages that still have the old one there


class Judgement(Struct, frozen=True, kw_only=True):
    """What is true of the whole tag."""

    whole: StatementKind | None = None  # the tag itself came or went, with all that it has
    lost: tuple[str, ...] = ()  # stacks, those of most items first
    gained: tuple[str, ...] = ()
    migrations: Mapping[Replacement, Migration] = field(default_factory=dict)
    is_prune: bool = False
    is_wave: bool = False
    suspicion: str = ""  # what makes it suspicious
    packages: int = 0  # of the earlier state
    counts: Mapping[tuple[StatementKind, str], int] = field(default_factory=dict)  # items of each statement by name


def judge(
    seen: Observation,
    packages: PackageCounts,
    *,
    whole: StatementKind | None,
    declared: Declared,
    survey: Callable[[], SurveyResult],
) -> Judgement:
    """Judge the whole tag.

    `declared` are the stacks that the tag says it has on either side, where it says so;
    `survey` reads the documents that did not change, and is asked at most once.
    """
    if not (packages.before and packages.after):
        return Judgement(whole=whole, packages=packages.before)
    unchanged = _Unchanged(survey)
    lost, gained = _stacks(seen, declared, unchanged)
    migrations = _migrations(seen, unchanged)
    return Judgement(
        lost=_most_first(lost, seen.items, "left"),
        gained=_most_first(gained, seen.items, "joined"),
        migrations=migrations,
        is_prune=_is_prune(seen, unchanged),
        is_wave=seen.packages_again >= max(FEW_PACKAGES, _WAVE_SHARE * packages.before),
        suspicion=_suspicion(seen, packages, unchanged),
        packages=packages.before,
    )


class _Unchanged:
    """Asks the survey at most once."""

    def __init__(self, survey: Callable[[], SurveyResult]) -> None:
        self._survey = survey

    @cached_property
    def found(self) -> SurveyResult:
        return self._survey()

    @property
    def stacks(self) -> set[str]:
        return {stack for uses in self.found.uses for _, _, _, stacks in uses for stack in stacks}


def _stacks(seen: Observation, declared: Declared, unchanged: _Unchanged) -> tuple[set[str], set[str]]:
    """Return the stacks that left and joined the tag: as it declares, or as all documents show."""
    lost, gained = seen.moved_stacks()
    before, after = declared
    if before is not None and after is not None:
        return lost & (before - after), gained & (after - before)
    lost = {stack for stack in lost if seen.traces[0][stack] >= FEW_PACKAGES}
    gained = {stack for stack in gained if seen.traces[1][stack] >= FEW_PACKAGES}
    if not lost and not gained:
        return lost, gained
    return lost - unchanged.stacks, gained - unchanged.stacks


def _most_first(stacks: Iterable[str], items: Iterable[Items], field_name: str) -> tuple[str, ...]:
    counts: Counter[str] = Counter()
    wanted = set(stacks)
    for one in items:
        for stack in getattr(one, field_name) & wanted:
            counts[stack] += one.counts.total
    return tuple(sorted(wanted, key=lambda stack: (-counts[stack], stack)))


def _migrations(seen: Observation, unchanged: _Unchanged) -> Mapping[Replacement, Migration]:
    packages: dict[Replacement, set[str]] = {}
    stacks: dict[Replacement, set[str]] = {}
    vanished: Counter[Replacement] = Counter()
    for one in seen.items:
        if one.replacement is not None:
            packages.setdefault(one.replacement, set()).add(one.package)
            stacks.setdefault(one.replacement, set()).update(one.stacks)
            vanished[one.replacement] += one.counts.vanished
    found = {}
    widespread = [replacement for replacement, names in packages.items() if len(names) >= FEW_PACKAGES]
    for replacement in sorted(widespread, key=lambda one: (-vanished[one], one))[:_MOST_MIGRATIONS]:
        places = frozenset(stacks[replacement])
        left = sum(
            count
            for leaving, count in seen.leaving.items()
            if _leaves(leaving, replacement.before) and not places.isdisjoint(leaving.stacks)
        )
        if vanished[replacement] >= _MIGRATED_SHARE * left:
            found[replacement] = Migration(
                replacement=replacement,
                stacks=places,
                exceptions=_still_on(replacement.before, places, seen, unchanged),
            )
    return found


def _leaves(leaving: Leaving, build: Build) -> bool:
    return build.is_of(leaving.before) and (leaving.after is None or not build.is_of(leaving.after))


def _still_on(build: Build, stacks: frozenset[str], seen: Observation, unchanged: _Unchanged) -> tuple[str, ...]:
    found: set[str] = set()
    for uses_by_package in (seen.uses, unchanged.found.uses):
        for uses, packages in uses_by_package.items():
            if any(build.is_of(Build(*use[:3])) and not stacks.isdisjoint(use[3]) for use in uses):
                found.update(packages)
    return tuple(sorted(found))


def _is_prune(seen: Observation, unchanged: _Unchanged) -> bool:
    prunable = [one for one in seen.items if one.is_prunable]
    specs = sum(one.counts.vanished for one in prunable)
    if len({one.package for one in prunable}) < FEW_PACKAGES or specs < _PRUNED_SHARE * seen.specs_before:
        return False
    return specs >= _PRUNED_SHARE * (seen.specs_before + unchanged.found.specs)


def _suspicion(seen: Observation, packages: PackageCounts, unchanged: _Unchanged) -> str:
    if packages.removed >= FEW_PACKAGES and packages.removed > _SUSPICIOUS_SHARE * packages.before:
        return f"{packages.removed:,} of {packages.before:,} packages are gone"
    few = max(seen.packages_lost, packages.removed) < FEW_PACKAGES
    if few or seen.places_lost <= _SUSPICIOUS_SHARE * seen.places_before:
        return ""
    places = seen.places_before + unchanged.found.places
    if seen.places_lost <= _SUSPICIOUS_SHARE * places:
        return ""
    return f"{seen.places_lost:,} of {places:,} builds of a package for a stack and target are gone"
