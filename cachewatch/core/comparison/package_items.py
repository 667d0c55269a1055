"""Divide the changes of a package into items, each with the stories with which a report can describe it.

Which story is used is known only when the whole tag is compared (statements.py): if a place is lost because its stack
left the tag, the loss is part of the statement about the stack.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property

from msgspec import Struct, field
from msgspec.structs import replace

from cachewatch.core.comparison.compiler_and_target_migrations import PackageValues, values_of
from cachewatch.core.filters_and_default_kinds import Selection
from cachewatch.core.model import (
    REGRADED,
    VALUES,
    Facts,
    Kind,
    Machine,
    MatchKind,
    PackageChange,
    Place,
    PlaceChange,
    Signature,
    SignatureCount,
    SpecClass,
    SpecMatch,
    StackChange,
    Status,
    Verdict,
    facts_of,
    kind_of_fact,
    places_of,
    versions_by_stack,
)
from cachewatch.core.statement_kinds import (
    RANKS,
    STATEMENT_OF,
    Counts,
    Items,
    OwnedLoss,
    StatementKind,
    Story,
    name_of,
)
from cachewatch.core.versions_spellings_targets import NO_COMPILER, newest, runs, sorted_versions, version_key

_PRUNABLE = (SpecClass.PRUNED, SpecClass.SURPLUS, SpecClass.RETIRED)
# For specs of these classes, a change to another system or target in the same stacks is described instead.
_SYSTEM_CLASSES = (SpecClass.DROPPED, SpecClass.SURPLUS, SpecClass.NEW_COMBINATION, SpecClass.EXTRA_COPY)


class _EqualItems(Struct, frozen=True, kw_only=True):
    """Items with the same signatures before and after: their number, and the story to use if no place has one."""

    before: Signature | None
    after: Signature | None
    counts: Counts
    otherwise: Story
    kinds: frozenset[Kind]
    is_again: bool = False
    is_prunable: bool = False


class _Sum(Struct):
    counts: Counts = Counts()
    stacks: set[str] = field(default_factory=set)
    kinds: set[Kind] = field(default_factory=set)


def _counts_of(match: SpecMatch) -> Counts:
    """Return the numbers of specs in a match; with a selection, perhaps only one side is selected."""
    new, vanished = (0 if is_out else match.count for is_out in (match.left, match.entered))
    return Counts(vanished, new, alone=new - vanished)


def items_of(
    change: PackageChange, selection: Selection | None = None, *, values: PackageValues | None = None
) -> tuple[Items, ...]:
    """Return all items of `change`, naming only the stacks of `selection`; `values` are computed if None."""
    return _ItemsReader(change, selection or Selection(), values or values_of(change)).items()


class _ItemsReader:
    """Divides one change into items, and adds up equal ones."""

    def __init__(self, change: PackageChange, selection: Selection, values: PackageValues) -> None:
        self._change = change
        self._added = frozenset(change.facts["versions"].added)
        self._selection = selection
        self._sees = selection.stacks
        self._judged: Mapping[Place, PlaceChange] = {one.place: one for one in change.places}
        self._machines = {(lost.place, lost.machine.platform, lost.machine.os): lost for lost in change.machines_lost}
        self._had = {place: frozenset(judged.before) for place, judged in self._judged.items()}
        self._has = {place: frozenset(judged.after) for place, judged in self._judged.items()}
        gained = sorted(
            (judged for judged in self._judged.values() if judged.verdict is Verdict.GAINED), key=lambda one: one.place
        )
        self._moved_to = {  # targets that the stack of a lost place gained
            place: tuple(_target_of(one, {m.os for m in judged.machines}) for one in gained if one.stack == place.stack)
            for place, judged in self._judged.items()
            if judged.verdict is Verdict.LOST
        }
        # The values of facts that were removed, and those that were added.
        self._changed = tuple(
            [
                (kind_of_fact(name, is_added=is_added), frozenset(moved), VALUES[name])
                for name, delta in change.facts.items()
                if (moved := delta.added if is_added else delta.removed)
            ]
            for is_added in (False, True)
        )
        self._values = values
        self._regraded = self._regraded_places()
        self._sums: dict[Items, _Sum] = {}  # by the values that equal items share
        self._known_items: dict[tuple[Hashable, ...], Items] = {}
        self._found_others: dict[tuple[Hashable, ...], Facts] = {}
        self._found_there: dict[tuple[Hashable, ...], tuple[str, ...]] = {}

    def items(self) -> tuple[Items, ...]:
        change = self._change
        self._add_rebuilt([match for match in change.matches if match.kind is MatchKind.REBUILT])
        for step in (
            *(self._of_match(match) for match in change.matches if match.kind is not MatchKind.REBUILT),
            *map(self._of_vanished, change.gone),
            *map(self._of_new, change.new),
            *map(self._of_kept, change.restacked),
        ):
            self._add(step)
        if not self._sums and change.status is not Status.CHANGED:  # a document without specs
            is_added = change.status is Status.ADDED
            story = Story(kind=StatementKind.PACKAGE_ADDED if is_added else StatementKind.PACKAGE_REMOVED)
            self._sums[Items(package=change.package, stories=(story,))] = _Sum(kinds=set(change.kinds))
        return self._whole()

    def _of_match(self, match: SpecMatch) -> _EqualItems:
        before, after = match.before, match.after
        kind = STATEMENT_OF[match.kind]
        if kind is StatementKind.RECONFIGURED:
            old, has = (
                _unlike(before, after),
                self._others(before.target, before.stacks, before.versions, is_before=True),
            )
            stays = tuple(value for value in old if value in has["variants"] or value in has["compilers"])
            otherwise = Story(kind=kind, before=old, after=_unlike(after, before), remaining=stays)
        elif kind is StatementKind.MOVED:
            otherwise = Story(kind=kind, before=before.versions)
        elif not (before.stacks or after.stacks):  # no stack has either version
            otherwise = Story(kind=StatementKind.PRUNED, before=before.versions)
        else:
            pair = ("".join(before.versions[-1:]), "".join(after.versions[-1:]))
            pairs = (pair,) if pair[0] != pair[1] else ()  # a spec may name several versions
            otherwise = Story(kind=kind, before=before.versions, after=after.versions, pairs=pairs)
        kinds = {Kind.COMPILER if match.kind is MatchKind.RECOMPILED else Kind(kind)}
        if match.kind is MatchKind.MOVED:
            kinds |= {Kind.STACK_ADDED} if set(after.stacks) - set(before.stacks) else set()
            kinds |= {Kind.STACK_REMOVED} if set(before.stacks) - set(after.stacks) else set()
        return _EqualItems(
            before=before,
            after=after,
            counts=_counts_of(match),
            otherwise=otherwise,
            kinds=frozenset(kinds),
        )

    def _of_vanished(self, gone: SignatureCount) -> _EqualItems:
        kind, signature = STATEMENT_OF[gone.spec_class], gone.signature
        named = self._configuration(signature, is_before=True) if kind is StatementKind.NARROWED else ()
        system = self._system_change(signature, gone.counterpart, gone.spec_class)
        return _EqualItems(
            before=signature,
            after=None,
            counts=Counts(vanished=gone.count),
            otherwise=system
            or Story(
                kind=kind,
                before=signature.versions
                if signature.stacks
                else tuple(version for version in signature.versions if version not in self._change.after["versions"]),
                after=named,
            ),
            kinds=frozenset({Kind.SPEC_REMOVED}),
            is_prunable=gone.spec_class in _PRUNABLE and system is None,
        )

    def _of_new(self, new: SignatureCount) -> _EqualItems:
        kind, signature = STATEMENT_OF[new.spec_class], new.signature
        named = self._configuration(signature, is_before=False) if kind is StatementKind.WIDENED else ()
        remaining: tuple[str, ...] = ()
        if kind is StatementKind.UNREFERENCED:
            named, remaining = signature.versions, self._still_built(signature)
        elif kind is StatementKind.WIDENED:
            remaining = self._still_there(signature)
        system = self._system_change(new.counterpart, signature, new.spec_class)
        return _EqualItems(
            before=None,
            after=signature,
            counts=Counts(new=new.count),
            otherwise=system
            or Story(
                kind=kind,
                before=named,
                after=() if kind is StatementKind.UNREFERENCED else signature.versions,
                remaining=remaining,
            ),
            kinds=frozenset({Kind.SPEC_ADDED, Kind.UNREFERENCED} if not signature.stacks else {Kind.SPEC_ADDED}),
            is_again=kind is StatementKind.EXTRA_COPY
            and system is None
            and signature in self._change.specs_before.counts,
        )

    def _system_change(self, old: Signature | None, new: Signature | None, own: SpecClass) -> Story | None:
        """Return a story if specs for another platform, system or target replaced those of `old`; else None."""
        if old is None or new is None:
            return None
        if own not in _SYSTEM_CLASSES or self._is_loss(old):
            return None
        target = old.target if old.target == new.target else None
        has = self._others(target, old.stacks, old.versions, is_before=True)
        had = self._others(target, new.stacks, old.versions, is_before=False)
        pairs = [
            (a, b, ((a,) if a in now else ()) + ((b,) if b in then else ()))
            for a, b, now, then in (
                (old.platform, new.platform, has["platforms"], had["platforms"]),
                (old.os, new.os, has["oses"], had["oses"]),
                (old.target, new.target, has["targets"], had["targets"]),
            )
            if a and b and a != b
        ]
        if not pairs:
            return None
        before, after, remaining = zip(*pairs, strict=True)
        return Story(
            kind=StatementKind.RECONFIGURED,
            before=before,
            after=after,
            is_system=True,
            versions=old.versions,
            remaining=tuple(name for names in remaining for name in names),
        )

    def _of_kept(self, kept: StackChange) -> _EqualItems:
        is_unreferenced = not kept.after.stacks
        kinds = {Kind.STACK_ADDED} if kept.gained else set()
        kinds |= {Kind.STACK_REMOVED} if kept.lost else set()
        kinds |= {Kind.UNREFERENCED} if is_unreferenced else set()
        kind = StatementKind.UNREFERENCED if is_unreferenced else StatementKind.MOVED
        return _EqualItems(
            before=kept.before,
            after=kept.after,
            counts=Counts(
                kept=1,
                entered=int(kept.entered),
                left=int(kept.left),
                unbuilt=int(is_unreferenced),
            ),
            otherwise=Story(kind=kind, before=kept.before.versions, remaining=self._still_built(kept.after)),
            kinds=frozenset(kinds),
            is_again=is_unreferenced and kept.before in self._change.added_hashes.counts,
        )

    def _add(self, step: _EqualItems) -> None:
        items = self._in_places(step)
        stories = (*items.stories, step.otherwise) if not step.otherwise.is_system else (step.otherwise,)
        key = replace(
            items,
            stories=stories,
            stacks=frozenset(),
            kinds=frozenset(),
            gone_values=self._values.gone_with(step.before) if step.before else frozenset(),
            new_values=self._values.new_with(step.after) if step.after else frozenset(),
            is_again=step.is_again,
            is_prunable=step.is_prunable,
        )
        total = self._sums.setdefault(key, _Sum())
        total.counts += step.counts
        total.stacks |= items.stacks
        total.kinds |= step.kinds | items.kinds
        for signature, changed in zip((step.before, step.after), self._changed, strict=True):
            if signature is not None:
                total.kinds |= {kind for kind, values, names in changed if not values.isdisjoint(names(signature))}

    def _in_places(self, step: _EqualItems) -> Items:
        """Return items with what changed in their places; it is the same for all with equal versions and places."""
        key = (_built_for(step.before), _built_for(step.after), step.counts.kept)
        if key not in self._known_items:
            self._known_items[key] = self._described(step)
        return self._known_items[key]

    def _described(self, step: _EqualItems) -> Items:
        before, after = step.before, step.after
        old, new = (self._places(side) for side in (before, after))
        places = old | new
        is_moved = not (old and new) or old != new
        stories = tuple(dict.fromkeys(self._stories(step, old, new)))
        kinds = {kind for place in places if place in self._judged for kind in self._judged[place].kinds}
        # A spec with neither version of an upgrade is not part of it, even in the same place.
        kinds -= {
            Kind(kind) for kind in {STATEMENT_OF[verdict] for verdict in REGRADED} - {one.kind for one in stories}
        }
        if self._change.status is not Status.CHANGED:
            kinds |= {Kind.PACKAGE_ADDED, Kind.PACKAGE_REMOVED}
        if any(map(self._moved_to.get, places)):
            kinds.add(Kind.TARGET)
        left = self._stacks(before, after) if is_moved else frozenset()
        joined = self._stacks(after, before) if is_moved else frozenset()
        staying = frozenset[str]()
        if before and after and is_moved:
            had, has = self._versions_in
            versions = set(before.versions)
            staying = frozenset(
                [s for s in left if versions <= has.get(s, set())]
                + [s for s in joined if versions <= had.get(s, set())]
            )
        return Items(
            package=self._change.package,
            stories=stories,
            left=left,
            joined=joined,
            staying=staying,
            stacks=frozenset(place.stack for place in places),
            machines=frozenset(
                name_of(place, Machine(after.platform, after.os, place.target))
                for place in new
                if after and after.os and (place, after.platform, after.os) not in self._machines_before
            ),
            kinds=frozenset(kinds),
        )

    def _add_rebuilt(self, matches: Iterable[SpecMatch]) -> None:
        by_compilers: defaultdict[tuple[str, ...], list[SpecMatch]] = defaultdict(list)
        for match in matches:
            old, new = match.before.compiler, match.after.compiler  # differ where one document does not give it
            by_compilers[() if old == new else (old, new)].append(match)
        for compilers, alike in by_compilers.items():
            counts = sum(map(_counts_of, alike), start=Counts())
            stacks = {stack for match in alike for stack in match.after.stacks if self._sees(stack)}
            story = Story(kind=StatementKind.REBUILT, before=compilers[:1], after=compilers[1:])
            self._sums[Items(package=self._change.package, stories=(story,), is_again=True)] = _Sum(
                counts, stacks, {Kind.REBUILT}
            )

    def _whole(self) -> tuple[Items, ...]:
        """Return the sorted items; the first of each kind carry the losses, upgrades and downgrades of the package."""
        made = []
        for key, found in self._sums.items():
            kinds = frozenset(found.kinds & self._change.kinds)
            made.append(replace(key, stacks=frozenset(found.stacks), counts=found.counts, kinds=kinds))
        ordered = sorted(made, key=lambda one: (RANKS[one.stories[0].kind], one.stories[0].before, -one.counts.total))
        if not ordered:
            return ()
        missing = self._change.kinds.difference(*(one.kinds for one in ordered))
        # A rebuild or prune of the whole tag must not get other kinds of the package.
        place = next((n for n, one in enumerate(ordered) if not (one.is_again or one.is_prunable)), 0)
        ordered[place] = replace(ordered[place], kinds=ordered[place].kinds | missing)
        ordered[0] = replace(ordered[0], losses=tuple(self._losses()), regraded=tuple(self._regraded.values()))
        return tuple(ordered)

    def _losses(self) -> Iterator[OwnedLoss]:
        """Yield the lost places of the package, and the machines lost by places that keep other builds."""
        built = {(one.target, one.os) for one in self._change.specs_after.counts if one.stacks}
        for judged in self._change.places:
            if judged.verdict is Verdict.LOST and self._sees(judged.stack):
                yield OwnedLoss(
                    package=self._change.package,
                    place=judged.place,
                    versions=judged.before,
                    loss=judged.loss,
                    outside=judged.outside,
                    moved_to=self._moved_to[judged.place],
                    systems=_named_systems(judged, {os for target, os in built if runs(judged.target, target)}),
                )
        for machine_loss in self._change.machines_lost:
            if self._sees(machine_loss.stack):
                place = machine_loss.place
                had, has = (
                    self._others(place.target, (place.stack,), is_before=is_after)["oses"] for is_after in (False, True)
                )
                yield OwnedLoss(
                    package=self._change.package,
                    place=place,
                    machine=machine_loss.machine,
                    moved_to=tuple(sorted(has - had - {""})),
                    versions=machine_loss.versions,
                    loss=machine_loss.loss,
                )

    def _is_loss(self, signature: Signature) -> bool:
        """Tell whether a place or machine that had this spec has no build of the package any more."""
        places = self._places(signature)
        return any(
            (place in self._judged and self._judged[place].verdict is Verdict.LOST)
            or (place, signature.platform, signature.os) in self._machines
            for place in places
        )

    def _stories(self, step: _EqualItems, old: frozenset[Place], new: frozenset[Place]) -> Iterator[Story]:
        """Yield the stories of an item, ordered by kind; `old` and `new` are its places before and after."""
        change, before, after = self._change, step.before, step.after
        if change.status is Status.REMOVED:
            yield Story(kind=StatementKind.PACKAGE_REMOVED, before=_sorted(change.before["versions"]))
            return
        if change.status is Status.ADDED:
            yield Story(kind=StatementKind.PACKAGE_ADDED, after=_sorted(change.after["versions"]))
            return
        had, has = (frozenset(side.versions) if side else frozenset() for side in (before, after))
        by_story: dict[Story, set[Place]] = {}
        for place in old | new:
            if place in old and before is not None and (place, before.platform, before.os) in self._machines:
                lost = self._machines[place, before.platform, before.os]
                by_story.setdefault(
                    Story(kind=StatementKind.MACHINE_LOST, before=lost.versions, machine=lost.machine), set()
                ).add(place)
            judged = self._judged.get(place)
            if judged is None:
                continue
            dropped = had - self._has[place] if place in old else frozenset()
            gained = has - self._had[place] if place in new else frozenset()
            # A spec of an older version that was replaced by another spec of a version that was already there.
            there = has - gained if dropped and place in new else frozenset()
            for story in self._of_place(judged, dropped, gained, there, is_old=place in old, is_new=place in new):
                by_story.setdefault(story, set()).add(place)
        for story in sorted(by_story, key=lambda s: (RANKS[s.kind], -len(by_story[s]), s.before, s.after)):
            yield self._regraded.get(story.kind) or replace(story, places=frozenset(by_story[story]))

    def _of_place(
        self,
        judged: PlaceChange,
        lost: frozenset[str],
        gained: frozenset[str],
        there: frozenset[str],
        *,
        is_old: bool,
        is_new: bool,
    ) -> Iterator[Story]:
        verdict = judged.verdict
        if verdict in REGRADED:
            if lost or gained:
                yield Story(kind=STATEMENT_OF[verdict], before=judged.before[-1:], after=judged.after[-1:])
        elif verdict is Verdict.LOST:
            if is_old:
                yield Story(kind=StatementKind.PLACE_LOST, before=judged.before)
        elif verdict is Verdict.GAINED:
            if is_new and judged.place not in self._places_before:
                new = tuple(version for version in judged.after if version in self._added)
                had = self._others(None, (judged.stack,), is_before=False)["oses"]
                named = _systems_beside(judged, had) if had else ()
                yield Story(kind=StatementKind.PLACE_GAINED, after=judged.after, versions=new, remaining=named)
        elif lost:
            yield Story(
                kind=StatementKind.RETIRED, before=_sorted(lost), after=_sorted(gained), remaining=_sorted(there - lost)
            )
        elif gained:
            yield Story(kind=StatementKind.EXTENDED, after=_sorted(gained))

    def _still_built(self, signature: Signature) -> tuple[str, ...]:
        """Return the versions of an unreferenced spec that some stack still builds in another spec."""
        if signature.stacks:
            return ()
        built = {version for one in self._change.specs_after.counts if one.stacks for version in one.versions}
        return tuple(version for version in signature.versions if version in built)

    def _still_there(self, signature: Signature) -> tuple[str, ...]:
        """Return the versions of a spec if its places keep other specs of these versions; else nothing."""
        key = (signature.target, signature.stacks, signature.versions)
        if key not in self._found_there:
            had, has = (self._others(*key, is_before=is_before) for is_before in (False, True))
            is_there = not any(had[name].isdisjoint(has[name]) for name in ("compilers", "oses", "platforms"))
            self._found_there[key] = signature.versions if is_there else ()
        return self._found_there[key]

    def _regraded_places(self) -> Mapping[StatementKind, Story]:
        """Return one story for all upgraded places of the package, and one for all downgraded ones.

        A story names all versions that its places gained or lost, and the newest before and after.
        """
        changes: defaultdict[StatementKind, list[PlaceChange]] = defaultdict(list)
        for judged in self._change.places:
            if judged.verdict in REGRADED and self._sees(judged.stack):
                changes[STATEMENT_OF[judged.verdict]].append(judged)
        return {kind: self._regraded_story(kind, changes[kind]) for kind in sorted(changes, key=RANKS.__getitem__)}

    def _regraded_story(self, kind: StatementKind, judged: Sequence[PlaceChange]) -> Story:
        is_upgrade = kind is StatementKind.UPGRADED
        pairs = {(one.before[-1], one.after[-1]) for one in judged}
        newest_after = version_key(newest({after for _, after in pairs}))[:3]
        behind = {stack: has for stack, has in self._newest_in.items() if version_key(has)[:3] < newest_after}
        replaced = set[str]().union(*(set(one.before) - set(one.after) for one in judged))
        if is_upgrade:
            old = {before for before, _ in pairs} | replaced
            stays = (
                (version, place)
                for one in self._change.specs_after.counts
                for version in old.intersection(one.versions)
                for place in one.places
                if behind.get(place.stack) != version
            )
        else:
            stays = ((one.after[-1], one.place) for one in judged if one.after[-1] in one.before)
        return Story(
            kind=kind,
            before=_sorted({before for before, _ in pairs} | replaced),
            after=_sorted({after for _, after in pairs}.union(*(set(one.after) - set(one.before) for one in judged))),
            pairs=tuple(sorted(pairs, key=lambda pair: tuple(map(version_key, pair)))),
            places=frozenset(one.place for one in judged),
            stays=frozenset(stays),
            behind=tuple(sorted(behind.items())) if is_upgrade else (),
            of_stacks=len(self._newest_in) if is_upgrade else sum(map(bool, self._versions_in[1].values())),
            replaced=_sorted(replaced) if is_upgrade else (),
        )

    @cached_property
    def _places_before(self) -> Set[Place]:
        """The places that had the package, in any build, selected or not."""
        return places_of(self._change.specs_before.counts)

    @cached_property
    def _machines_before(self) -> Set[tuple[Place, str, str]]:
        """The places that had the package, each with the platforms and operating systems of its builds."""
        specs = self._change.specs_before.counts
        return {(place, one.platform, one.os) for one in specs for place in one.places}

    @cached_property
    def _versions_in(self) -> tuple[Mapping[str, Set[str]], Mapping[str, Set[str]]]:
        """The versions in each stack, before and after."""
        change = self._change
        return versions_by_stack(change.specs_before.counts), versions_by_stack(change.specs_after.counts)

    @cached_property
    def _newest_in(self) -> Mapping[str, str]:
        """The newest version in each selected stack, among builds that match the selection except for versions."""
        chosen = self._selection
        built = (s for s in self._change.specs_after.counts if chosen.targets(s.target) and chosen.sees_build(s))
        return {stack: newest(has) for stack, has in versions_by_stack(built).items() if has and self._sees(stack)}

    def _places(self, signature: Signature | None) -> frozenset[Place]:
        if signature is None:
            return frozenset()
        return frozenset(place for place in signature.places if self._sees(place.stack))

    def _stacks(self, one: Signature | None, other: Signature | None) -> frozenset[str]:
        """Return the stacks of `one` that `other` does not have."""
        stacks = set(one.stacks if one else ()) - set(other.stacks if other else ())
        return frozenset(filter(self._sees, stacks))

    def _configuration(self, signature: Signature, *, is_before: bool) -> tuple[str, ...]:
        """Return the compiler, system and variants of a spec that its places have on one side only."""
        others = self._others(signature.target, signature.stacks, is_before=is_before)
        return tuple(
            value
            for name in ("compilers", "oses", "platforms", "variants")
            for value in VALUES[name](signature)
            if value not in others[name] and value != NO_COMPILER
        )

    def _others(
        self, target: str | None, stacks: tuple[str, ...], versions: tuple[str, ...] | None = None, *, is_before: bool
    ) -> Facts:
        """Return the facts of the other side's specs in any of `stacks`; `is_before` names our side.

        If given, `target` and `versions` restrict these specs.
        """
        key = (target, stacks, versions, is_before)
        if key not in self._found_others:
            side = self._change.specs_after if is_before else self._change.specs_before
            wanted = set(stacks)
            others = [
                s
                for s in side.counts
                if target in (None, s.target) and versions in (None, s.versions) and not wanted.isdisjoint(s.stacks)
            ]
            self._found_others[key] = facts_of(others)
        return self._found_others[key]


def _named_systems(place: PlaceChange, built: Set[str]) -> tuple[str, ...]:
    """Return the systems to name for a lost place; Linux only if its target runs what is `built` for another system."""
    own = {machine.os for machine in place.machines}
    is_named = place.loss is not None and place.loss.is_missed and bool(built - own - {""})
    return tuple(sorted({m.os for m in place.machines if m.os and (is_named or m.platform != "linux")}))


def _systems_beside(gained: PlaceChange, others: Set[str]) -> tuple[str, ...]:
    """Return the operating systems of a gained place if it has none of `others`."""
    own = {machine.os for machine in gained.machines}
    return tuple(sorted(own - {""})) if own.isdisjoint(others) else ()


def _target_of(gained: PlaceChange, lost: Set[str]) -> str:
    """Return the target of a gained place, with its systems if none of these were `lost`: `zen4 (rhel9)`."""
    systems = ", ".join(_systems_beside(gained, lost))
    return f"{gained.target} ({systems})" if systems else gained.target


def _built_for(signature: Signature | None) -> Hashable:
    """Return the versions, stacks and machine of a signature; specs equal in them have the same changes of places."""
    return signature and (signature.versions, signature.stacks, signature.target, signature.platform, signature.os)


def _unlike(own: Signature, other: Signature) -> tuple[str, ...]:
    """Return the compiler and the variants that `own` has and `other` does not."""
    compiler = [] if own.compiler == other.compiler else [own.compiler]
    variants = set(other.variants)
    return (*compiler, *(v for v in own.variants if v not in variants))


def _sorted(versions: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted_versions(versions))
