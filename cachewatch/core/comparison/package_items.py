"""Divide the changes of a package into items, each with the stories with which a report can describe it.

Which story is used is known only when the whole tag is compared (statements.py): if a place is lost because its stack
left the tag, the loss is part of the statement about the stack.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import chain

from msgspec import Struct, field
from msgspec.structs import replace

from cachewatch.core.comparison.compiler_and_target_migrations import PackageValues, held_by, values_of
from cachewatch.core.comparison.matching_and_verdicts import KIND_OF_MATCH, kinds_of_stacks, loss_kinds
from cachewatch.core.filters_and_spec_patterns import Selection
from cachewatch.core.kinds_and_specs import (
    REGRADED,
    VALUES,
    VANISHED_CLASSES,
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
    versions_by_stack,
)
from cachewatch.core.statement_kinds import (
    STATEMENT_OF,
    Attribute,
    Counts,
    Items,
    OwnedLoss,
    StatementKind,
    Story,
    name_of,
)
from cachewatch.core.versions_spellings_targets import (
    NO_COMPILER,
    USUAL_TARGET,
    is_newer,
    newest,
    runs,
    sorted_versions,
    variant_name,
    version_key,
)

_CONFIGURATION = ("compilers", "oses", "platforms", "variants")  # names of facts
_PRUNABLE = (SpecClass.PRUNED, SpecClass.SURPLUS, SpecClass.RETIRED)
_MOST_TARGETS = 100  # of a stack that gained targets as it lost others; reports name three
_SHARED_OR_NOT = (StatementKind.MOVED, StatementKind.EXTRA_COPY, StatementKind.SURPLUS)
# For specs of these classes, a change to another system in the same stacks is described instead.
_SYSTEM_CLASSES = (SpecClass.DROPPED, SpecClass.SURPLUS, SpecClass.NEW_COMBINATION, SpecClass.EXTRA_COPY)


class _Sum(Struct):
    items: Items  # without the sums
    counts: Counts = Counts()
    stacks: set[str] = field(default_factory=set)
    kinds: set[Kind] = field(default_factory=set)
    vanished_from: set[str] = field(default_factory=set)


_EVERYTHING = Selection()


def items_of(
    change: PackageChange, selection: Selection = _EVERYTHING, *, values: PackageValues | None = None
) -> tuple[Items, ...]:
    """Return the items of `change`, which must already be reduced to `selection` (see `part_of`).

    `values` are the compilers, systems, targets and variants that changed; if None, they are read from `change`.
    """
    return _ItemsReader(change, selection, values or values_of(change)).items()


class _ItemsReader:
    """Divides one change into items; equal items are added up."""

    def __init__(self, change: PackageChange, selection: Selection, values: PackageValues) -> None:
        self._change = change
        self._selection = selection
        self._sees = selection.stacks
        self._values = values
        self._judged: Mapping[Place, PlaceChange] = {one.place: one for one in change.places}
        self._machines = {(lost.place, lost.machine.platform, lost.machine.os): lost for lost in change.machines_lost}
        gained: defaultdict[str, list[PlaceChange]] = defaultdict(list)  # by stack
        for one in change.places:
            if one.verdict is Verdict.GAINED and one.target and len(gained[one.stack]) < _MOST_TARGETS:
                gained[one.stack].append(one)
        self._moved_to = {  # targets that the stack of a lost place gained, with its versions for them
            lost.place: tuple((_target_of(one, lost), one.after) for one in gained[lost.stack])
            for lost in change.places
            if lost.verdict is Verdict.LOST
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
        last = newest(("", *change.before["versions"]))
        added = change.facts["versions"].added
        self._new_versions = frozenset(version for version in added if not last or is_newer(version, last))
        self._regraded = {
            STATEMENT_OF[verdict]: self._regraded_story(STATEMENT_OF[verdict], places)
            for verdict in (Verdict.DOWNGRADED, Verdict.UPGRADED)
            if (places := [one for one in change.places if one.verdict is verdict])
        }
        self._sums: dict[Hashable, _Sum] = {}  # by the values that equal items share
        self._known_items: dict[Hashable, tuple[Items, int]] = {}
        self._numbers: dict[Items, int] = {}  # of items that are equal but for their stacks and kinds
        self._found_others: dict[Hashable, Facts] = {}
        self._found_stories: dict[Hashable, Story] = {}

    def items(self) -> tuple[Items, ...]:
        """Return the items, the most important kind of change first; the first also has the losses and changed versions."""
        change = self._change
        rebuilt: defaultdict[tuple[str, ...], list[SpecMatch]] = defaultdict(list)  # by the compilers before and after
        for match in change.matches:
            if match.kind is MatchKind.REBUILT:
                # They differ where one document does not give it.
                had, has = match.before.compiler, match.after.compiler
                rebuilt[(had, has) if had != has else ()].append(match)
            else:
                self._add_match(match)
        for compilers, matches in rebuilt.items():
            story = Story(kind=StatementKind.REBUILT, before=compilers[:1], after=compilers[1:])
            vanished_from, stacks = (
                set(filter(self._sees, chain.from_iterable(side)))
                for side in ({one.before.stacks for one in matches}, {one.after.stacks for one in matches})
            )
            items = Items(package=change.package, stories=(story,), is_again=True)
            self._sums[story] = _Sum(items, _counts_of(matches), stacks, {Kind.REBUILT}, vanished_from)
        for gone in change.gone:
            self._add_vanished(gone)
        for new in change.new:
            self._add_new(new)
        for kept in change.restacked:
            self._add_kept(kept)
        if not self._sums and change.status is not Status.CHANGED:  # a document without specs
            items = Items(package=change.package, stories=tuple(self._stories(None, None)))
            self._sums[items] = _Sum(items, kinds=set(change.kinds))
        made = [
            replace(
                one.items,
                stacks=frozenset(one.stacks),
                counts=one.counts,
                kinds=change.kinds & one.kinds,
                vanished_from=frozenset(one.vanished_from),
            )
            for one in self._sums.values()
        ]
        made.sort(key=lambda one: (one.stories[0].kind.rank, one.stories[0].before, -one.counts.total))
        if made:
            missing = change.kinds.difference(*(one.kinds for one in made))
            # A rebuild or prune of the whole tag must not get other kinds of the package.
            place = next((n for n, one in enumerate(made) if not (one.is_again or one.is_prunable)), 0)
            made[place] = replace(made[place], kinds=made[place].kinds | missing)
            made[0] = replace(made[0], losses=tuple(self._losses()), regraded=tuple(self._regraded.values()))
        return tuple(made)

    def _add_match(self, match: SpecMatch) -> None:
        before, after, kind = match.before, match.after, STATEMENT_OF[match.kind]
        kinds = {KIND_OF_MATCH[match.kind]}
        left = (self._judged.get(place) for place in self._places(before) - self._places(after))
        if before.versions == after.versions and any(
            one.verdict in REGRADED and not set(before.versions) <= set(one.after) for one in left if one
        ):  # the new one, which kept the version, is no part of the up- or downgrade
            counts = _counts_of([match])
            gone, copy = replace(counts, new=0, unbuilt_new=0), replace(counts, vanished=0)
            self._add(before, None, gone, Story(kind=StatementKind.MOVED, before=before.versions), kinds)
            self._add(None, after, copy, Story(kind=StatementKind.EXTRA_COPY, after=after.versions), kinds)
            return
        if match.kind is MatchKind.RECONFIGURED and before.versions != after.versions:
            story = Story(kind=kind, before=before.versions, after=after.versions, remaining=before.versions)
        elif kind is StatementKind.RECONFIGURED:
            story = self._story_of_replaced(before, after)
        elif kind is StatementKind.MOVED:
            story = self._story_of_moved(after)
            kinds |= kinds_of_stacks(before, after) | ({Kind.UNREFERENCED} if not after.stacks else set())
        elif not (before.stacks or after.stacks):  # no stack has either version
            story = Story(kind=StatementKind.PRUNED, before=before.versions)
        else:
            pair = ("".join(before.versions[-1:]), "".join(after.versions[-1:]))
            pairs = (pair,) if pair[0] != pair[1] else ()  # a spec may name several versions
            story = Story(kind=kind, before=before.versions, after=after.versions, pairs=pairs)
        self._add(before, after, _counts_of([match]), story, kinds)

    def _add_vanished(self, gone: SignatureCount) -> None:
        kind, signature, versions = STATEMENT_OF[gone.spec_class], gone.signature, gone.signature.versions
        system = self._system_change(signature, gone.counterpart, gone.spec_class)
        own = self._changed_part(signature, is_before=True) if kind is StatementKind.NARROWED else signature
        if not signature.stacks:
            versions = tuple(version for version in versions if version not in self._change.after["versions"])
        story, stacks = Story(kind=kind, before=versions), None if own is signature or system else {*own.stacks}
        if kind is StatementKind.NARROWED:
            story = self._story_of_configuration(own, is_before=True)
        if story.kind is StatementKind.RECONFIGURED:  # in other stacks, nothing took its place
            having = (one for one in own.stacks if self._kept(story.after, (one,), own.versions) == story.after)
            stacks = {*having} or stacks
        self._add(
            signature,
            None,
            Counts(vanished=gone.count),
            system or story,
            {Kind.SPEC_REMOVED, *([Kind.NARROWED] if gone.spec_class is SpecClass.DROPPED else [])},
            is_prunable=gone.spec_class in _PRUNABLE and system is None,
            stacks=None if system else stacks,
        )

    def _add_new(self, new: SignatureCount) -> None:
        kind, signature = STATEMENT_OF[new.spec_class], new.signature
        own = self._changed_part(signature, is_before=False) if kind is StatementKind.WIDENED else signature
        system = self._system_change(new.counterpart, signature, new.spec_class)
        if kind is StatementKind.UNREFERENCED and self._change.is_pruned:
            story = self._story_of_moved(signature)
        elif kind is StatementKind.WIDENED or (
            # With a filter: places that had these versions in builds that are not selected.
            kind is StatementKind.PLACE_GAINED
            and all(self._was_there(place, {*signature.versions}) for place in self._places(signature))
        ):
            story = self._story_of_configuration(own, is_before=False)
        else:  # where nothing is pruned, a spec without stack is one more copy
            is_unreferenced = kind is StatementKind.UNREFERENCED
            story = Story(kind=StatementKind.EXTRA_COPY if is_unreferenced else kind, after=signature.versions)
        is_copy = kind is StatementKind.EXTRA_COPY and system is None
        kinds = [Kind.WIDENED] if kind is StatementKind.WIDENED else [] if signature.stacks else [Kind.UNREFERENCED]
        self._add(
            None,
            signature,
            Counts(new=new.count, unbuilt_new=0 if signature.stacks else new.count),
            system or story,
            {Kind.SPEC_ADDED, *kinds},
            is_again=is_copy and signature in self._change.specs_before.counts,
            stacks=None if own is signature or system else {*own.stacks},
        )

    def _add_kept(self, kept: StackChange) -> None:
        is_unreferenced = not kept.after.stacks
        lost, gained = (frozenset(filter(self._sees, side)) for side in (kept.lost, kept.gained))
        story, stacks = self._story_of_moved(kept.after), None
        if not is_unreferenced and bool(lost) != bool(gained):
            own = replace(kept.before, stacks=tuple(sorted(lost | gained)))
            key = (own, bool(lost))
            if key not in self._found_stories:
                self._found_stories[key] = self._story_of_configuration(own, is_before=bool(lost))
            changed = self._found_stories[key]
            is_beside = changed.kind is StatementKind.RECONFIGURED and changed.remaining
            # Else these stacks have no other specs of its configuration on that side.
            if changed.before and changed.after and not is_beside:
                story, stacks = changed, lost | gained
        self._add(
            kept.before,
            kept.after,
            Counts(kept=1, entered=int(kept.entered), left=int(kept.left), unbuilt=int(is_unreferenced)),
            story,
            kinds_of_stacks(kept.before, kept.after) | ({Kind.UNREFERENCED} if is_unreferenced else set()),
            is_again=is_unreferenced and kept.before in self._change.added_hashes.counts,
            stacks=stacks,
        )

    def _system_change(self, old: Signature | None, new: Signature | None, own: SpecClass) -> Story | None:
        """Return the story that `new` replaced `old` on another system or platform in all stacks; None if it did not.

        `own` is the class of one of the two specs: of `old` if it is a class of removed specs, else of `new`.
        """
        if old is None or new is None or own not in _SYSTEM_CLASSES or old.target != new.target:
            return None
        one, other = (self._places(side) for side in ((old, new) if own in VANISHED_CLASSES else (new, old)))
        if not one <= other:  # in a stack, copies that went or came are no replacement
            return None
        for place in self._places(old):  # a place or machine has no build of the package any more: a loss
            if place in self._moved_to or (place, old.platform, old.os) in self._machines:
                return None
        has = self._others(old.target, old.stacks, old.versions, is_before=True)
        had = self._others(old.target, new.stacks, old.versions, is_before=False)
        before, after, remaining = [], [], []
        for attribute, fact in (("platform", "platforms"), ("os", "oses")):
            value, now = getattr(old, attribute), getattr(new, attribute)
            if value and now and value != now:
                before.append(value)
                after.append(now)
                remaining += [one for one, others in ((value, has), (now, had)) if one in others[fact]]
        if not before:
            return None
        return Story(
            kind=StatementKind.RECONFIGURED,
            before=(*before, *_unlike(old, new)),
            after=(*after, *_unlike(new, old)),
            is_system=True,
            versions=old.versions,
            remaining=tuple(remaining),
        )

    def _add(
        self,
        before: Signature | None,
        after: Signature | None,
        counts: Counts,
        otherwise: Story,
        kinds: Set[Kind],
        *,
        is_again: bool = False,
        is_prunable: bool = False,
        stacks: Set[str] | None = None,
    ) -> None:
        """Add `counts` of specs, whose signatures are `before` and `after` (None: not in this state), to an item.

        `kinds` are their kinds of change. `otherwise` is their story if none of their places has one, and `stacks` has
        the stacks of this story (None: all). For `is_again` and `is_prunable`, see Items.
        """
        built_for = (_built_for(before), _built_for(after), otherwise.is_system)
        known = self._known_items.get(built_for)
        if known is None:
            items = self._described(before, after)
            items = replace(items, stories=()) if otherwise.is_system else items
            alike = replace(items, stacks=frozenset(), kinds=frozenset())
            known = self._known_items[built_for] = items, self._numbers.setdefault(alike, len(self._numbers))
        items, number = known
        if otherwise.kind in _SHARED_OR_NOT and (even := self._even(after or before, items.left | items.joined)):
            items = replace(items, even=even)
        held = held_by(before, self._values.gone), held_by(after, self._values.new)
        key = (number, otherwise, held, is_again, is_prunable, items.even)
        total = self._sums.get(key)
        if total is None:
            stories, (gone, new) = (*items.stories, otherwise), held
            own = replace(
                items, stories=stories, gone_values=gone, new_values=new, is_again=is_again, is_prunable=is_prunable
            )
            total = self._sums[key] = _Sum(own, kinds={value.kind for value in gone | new})
        total.counts += counts if self._change.is_pruned else replace(counts, unbuilt=0, unbuilt_new=0)
        total.stacks |= items.stacks if items.stories or stacks is None else stacks
        if counts.vanished and before:
            total.vanished_from.update(filter(self._sees, before.stacks))
        total.kinds.update(kinds, items.kinds)
        for signature, changed in zip((before, after), self._changed, strict=True):
            for kind, values, names in changed:
                if signature is not None and kind not in total.kinds and not values.isdisjoint(names(signature)):
                    total.kinds.add(kind)

    def _even(self, signature: Signature | None, stacks: Set[str]) -> frozenset[str]:
        """Return those of `stacks` that have as many builds as before that equal `signature` in all but stacks.

        If more such builds are left without a stack, the others were built in place of these: return none.
        """
        alike = signature and replace(signature, stacks=())
        if self._more_copies[alike, ""] > 0:
            return frozenset()
        return frozenset(stack for stack in stacks if self._more_copies[alike, stack] == 0)

    @cached_property
    def _more_copies(self) -> Mapping[tuple[Signature | None, str], int]:
        """How many builds each stack ("": no stack) gained or (negative) lost, by signature without stacks."""
        more = Counter[tuple[Signature | None, str]]()
        for side, sign in ((self._change.specs_before, -1), (self._change.specs_after, 1)):
            for signature, count in side.counts.items():
                alike = replace(signature, stacks=())
                for stack in signature.stacks or ("",):
                    more[alike, stack] += sign * count
        return more

    def _described(self, before: Signature | None, after: Signature | None) -> Items:
        """Return Items, without counts, on what happened in the places of the signatures `before` and `after`."""
        old, new = self._places(before), self._places(after)
        places = old | new
        stories = tuple(self._stories(before, after))
        # What left a place did not widen it, and what came did not narrow it.
        of = {Verdict.WIDENED: new, Verdict.NARROWED: old}
        judged = [one for place in places if (one := self._judged.get(place)) and place in of.get(one.verdict, places)]
        # A spec with neither version of an upgrade is not part of it, even in the same place.
        beside = self._regraded.keys() - {one.kind for one in stories}
        kinds = set[Kind]().union(*[one.kinds for one in judged if STATEMENT_OF[one.verdict] not in beside])
        kinds.discard(Kind.WIDENED)
        if any(Kind.WIDENED in one.kinds for place in new if (one := self._judged.get(place))):
            kinds.add(Kind.WIDENED)  # a narrowed place, too, may have been widened otherwise
        if self._change.status is not Status.CHANGED:
            kinds |= {Kind.PACKAGE_ADDED, Kind.PACKAGE_REMOVED}
        left = joined = staying = frozenset[str]()
        if not (old and new) or old != new:
            own, others = (frozenset(filter(self._sees, side.stacks if side else ())) for side in (before, after))
            left, joined = own - others, others - own
            if before and after:
                versions = set(before.versions)
                staying = frozenset(
                    stack
                    for stacks, others in zip((joined, left), self._versions_in, strict=True)
                    for stack in stacks
                    if versions <= others.get(stack, set())
                )
        machines: list[str] = []
        if after and after.os:
            came = new.difference(self._places_before.get((after.platform, after.os), ()))
            machines = [name_of(place, Machine(after.platform, after.os, place.target)) for place in came]
        return Items(
            package=self._change.package,
            stories=stories,
            left=left,
            joined=joined,
            staying=staying,
            stacks=frozenset(place.stack for place in places),
            machines=frozenset([name_of(one.place) for one in judged if one.verdict is Verdict.GAINED]).union(machines),
            kinds=frozenset(kinds),
        )

    def _stories(self, before: Signature | None, after: Signature | None) -> Iterator[Story]:
        """Yield the stories of an item whose signatures are `before` and `after` (None: none), ordered by kind."""
        change = self._change
        if change.status is Status.REMOVED:
            yield Story(kind=StatementKind.PACKAGE_REMOVED, before=_sorted(change.before["versions"]))
            return
        if change.status is Status.ADDED:
            yield Story(kind=StatementKind.PACKAGE_ADDED, after=_sorted(change.after["versions"]))
            return
        old, new = (self._places(side) for side in (before, after))
        had, has = (frozenset(side.versions) if side else frozenset() for side in (before, after))
        by_story: defaultdict[Story, set[Place]] = defaultdict(set)
        for place in old | new:
            if before and place in old and (lost := self._machines.get((place, before.platform, before.os))):
                by_story[Story(kind=StatementKind.MACHINE_LOST, before=lost.versions, machine=lost.machine)].add(place)
            if judged := self._judged.get(place):
                story = self._story_of(judged, had if place in old else None, has if place in new else None)
                if story and before and story.kind is StatementKind.EXTENDED and story.remaining:
                    there = self._others(place.target, (place.stack,), before.versions, is_before=True)["variants"]
                    gone = tuple(variant for variant in before.variants if there and variant not in there)
                    story = replace(story, only_with=gone)
                if story:
                    by_story[story].add(place)
        for story in sorted(by_story, key=lambda s: (s.kind.rank, -len(by_story[s]), s.before, s.after)):
            yield story if story.kind in self._regraded else replace(story, places=frozenset(by_story[story]))

    def _story_of(self, judged: PlaceChange, had: Set[str] | None, has: Set[str] | None) -> Story | None:
        """Return the story of the place `judged` that explains why a spec left or joined it; None if it has none.

        `had` and `has` are the versions in the record of the spec before and after; None if the place lacks the spec.
        """
        kind = STATEMENT_OF[judged.verdict]
        lost, gained = (had or frozenset()) - set(judged.after), (has or frozenset()) - set(judged.before)
        if judged.verdict in REGRADED:
            if kind is StatementKind.UPGRADED and gained and is_newer(judged.before[-1], newest(gained)):
                story = Story(kind=StatementKind.EXTENDED, after=_sorted(gained), remaining=_sorted(had or ()))
            else:
                story = self._regraded[kind]
            return story if lost or gained else None
        if judged.verdict is Verdict.LOST:
            return Story(kind=kind, before=judged.before) if had is not None else None
        if judged.verdict is Verdict.GAINED:
            if has is None or self._was_there(judged.place, has):
                return None
            new = tuple(filter(self._new_versions.__contains__, judged.after))
            oses = self._others(None, (judged.stack,), is_before=False)["oses"]
            named = _systems_beside(judged, oses) if oses else ()
            was = _sorted(self._versions_before.get(judged.place, ()))  # in builds that are not selected
            return Story(kind=kind, before=was, after=judged.after, versions=new, own=_sorted(has), remaining=named)
        if lost:
            # A spec of an older version that was replaced by another spec of a version that was already there.
            there = (has or frozenset()) - gained - lost
            came = _sorted(gained) or (() if judged.after else ("",))  # builds without a version
            return Story(kind=StatementKind.RETIRED, before=_sorted(lost), after=came, remaining=_sorted(there))
        there = (had or frozenset()) - (has or frozenset())  # the place keeps other builds of this version
        return Story(kind=StatementKind.EXTENDED, after=_sorted(gained), remaining=_sorted(there)) if gained else None

    def _losses(self) -> Iterator[OwnedLoss]:
        """Yield the lost places of the package, and the lost machines of places that keep other builds."""
        package = self._change.package
        built = {(one.target, one.os) for one in self._change.specs_after.counts if one.stacks}
        stacks = {stack for one in self._change.specs_after.counts for stack in one.stacks}
        for judged in self._change.places:
            if judged.verdict is Verdict.LOST:
                own = {machine.os for machine in judged.machines}
                others = {os for target, os in built if runs(judged.target, target)} - own - {""}
                # Linux is named only if the target runs what is built for another system.
                is_named = judged.loss is not None and judged.loss.is_missed and bool(others)
                systems = {m.os for m in judged.machines if m.os and (is_named or m.platform != "linux")}
                moved_to = self._moved_to[judged.place]
                yield OwnedLoss(
                    package=package,
                    place=judged.place,
                    versions=judged.before,
                    loss=judged.loss,
                    kinds=loss_kinds(judged.loss) | self._change.kinds & ({Kind.TARGET} if moved_to else set()),
                    outside=judged.outside,
                    moved_to=moved_to,
                    is_elsewhere=judged.stack in stacks,
                    systems=tuple(sorted(systems)),
                    machines=judged.machines,
                    is_of_removed=self._change.status is Status.REMOVED,
                )
        now_for: dict[Place, tuple[tuple[str, tuple[str, ...]], ...]] = {}
        for lost in self._change.machines_lost:
            if lost.place not in now_for:
                has: defaultdict[str, set[str]] = defaultdict(set)  # the versions for each operating system
                for one in self._change.specs_after.counts:
                    if lost.place in one.places:
                        has[one.os].update(one.versions)
                had = self._others(lost.machine.target, (lost.stack,), is_before=False)["oses"]
                now_for[lost.place] = tuple((os, _sorted(has[os])) for os in sorted(has.keys() - had - {""}))
            yield OwnedLoss(
                package=package,
                place=lost.place,
                machine=lost.machine,
                machines=frozenset({lost.machine}),
                moved_to=now_for[lost.place],
                versions=lost.versions,
                loss=lost.loss,
                outside=lost.outside,
                kinds=loss_kinds(lost.loss) | self._change.kinds & {Kind.OS},
            )

    def _regraded_story(self, kind: StatementKind, judged: Sequence[PlaceChange]) -> Story:
        """Return one story of `kind` for the places `judged`, which are all upgraded or all downgraded ones.

        It names all versions that these places gained or lost, and the newest before and after.
        """
        of_places = {(one.before[-1], one.after[-1]) for one in judged}
        pairs, replaced = set[tuple[str, str]](), set[str]()
        for one in judged:
            gone = set(one.before).difference(one.after)
            # A place that keeps its newest version is told with those whose newest it lost.
            is_kept, alike = one.before[-1] not in gone, {(before, one.after[-1]) for before in gone}
            pairs |= (is_kept and alike & of_places) or {(one.before[-1], one.after[-1])}
            replaced |= gone
        old = {before for before, _ in of_places} | replaced
        new = {after for _, after in pairs}.union(*(set(one.after).difference(one.before) for one in judged))
        story = Story(
            kind=kind,
            before=_sorted(old),
            after=_sorted(new),
            pairs=tuple(sorted(pairs, key=lambda pair: tuple(map(version_key, pair)))),
            places=frozenset(one.place for one in judged),
            variants=(
                frozenset((variant, one.place) for one in judged for variant in one.variants[0]),
                frozenset((variant, one.place) for one in judged for variant in one.variants[1]),
            ),
        )
        specs, chosen, targets = self._change.specs_after.counts, self._selection, {one.target for one in judged}
        # The newest version in each selected stack, among builds that match the selection except for versions.
        matching = [s for s in specs if chosen.targets(s.target) and chosen.sees_build(s)]
        built = versions_by_stack(matching)
        newest_in = {stack: newest(has) for stack, has in built.items() if has and self._sees(stack)}
        stacks = {one.stack for one in judged}

        def has_target(others: Set[str]) -> bool:
            return any(p.target in targets and p.stack in others for one in matching if others for p in one.places)

        story = replace(story, of_stacks=len(newest_in))
        if kind is StatementKind.DOWNGRADED:
            stays = frozenset((one.after[-1], one.place) for one in judged if one.after[-1] in one.before)
            had = dict(sorted(((one.stack, version_key(one.before[-1])) for one in judged), reverse=True))  # oldest
            is_part = any(
                place.stack in had and place not in story.places and version_key(version)[:4] >= had[place.stack][:4]
                for one in specs
                for place in one.places
                for version in one.versions
            )
            places = ((one.platform, one.os, place) for one in specs for place in one.places)
            return replace(
                story,
                targets=tuple(sorted(targets)) if is_part else (),
                systems=frozenset(one for one in places if one[-1] in story.places),
                stays=stays,
                is_in_some=has_target(newest_in.keys() - stacks),
                is_elsewhere=any(has and stack not in stacks for stack, has in self._versions_in[1].items()),
            )
        newest_after = version_key(newest({after for _, after in pairs}))[:3]
        behind = {stack: has for stack, has in newest_in.items() if version_key(has)[:3] < newest_after}
        stays = frozenset(
            (version, place)
            for one in specs
            for version in old.intersection(one.versions)
            for place in one.places
            if behind.get(place.stack) != version
        )
        inside = (
            (v, p) for s in matching for v in old.intersection(s.versions) for p in s.places if self._sees(p.stack)
        )
        # Usual machines are not named with an upgrade, and so stacks that had the version before do not matter to them.
        is_usual = any(runs(USUAL_TARGET, target) for target in targets)
        downgraded = (one for one in self._change.places if one.verdict is Verdict.DOWNGRADED)
        fallen = {one.stack for one in downgraded if version_key(one.before[-1])[:3] >= newest_after}  # had the version
        return replace(
            story,
            stays=stays,
            outside=stays.difference(inside),
            behind=tuple(sorted(own for own in behind.items() if own[0] not in fallen)),
            is_in_some=has_target((behind if is_usual else newest_in).keys() - stacks),
            replaced=_sorted(replaced),
            only_with=self._only_with(judged),
            is_thinned=any(
                not replaced.issuperset(one.versions) and not story.places.isdisjoint(one.places)
                for one in self._change.removed_hashes.counts
            ),
        )

    def _only_with(self, judged: Iterable[PlaceChange]) -> tuple[str, ...]:
        """Return variants of the newest version in places `judged`, where builds of kept versions have others, too."""
        found = []
        for one in judged:
            if set(one.before).isdisjoint(one.after):
                return ()
            here = [spec for spec in self._change.specs_after.counts if one.place in spec.places]
            came, stay = (
                {variant for spec in here if not versions.isdisjoint(spec.versions) for variant in spec.variants}
                for versions in ({one.after[-1]}, {*one.before})
            )
            left = {variant_name(variant) for variant in stay - came}
            found.append({variant for variant in came if variant_name(variant) in left})
        return tuple(sorted(set[str]().union(*found).intersection(*found)))

    def _story_of_moved(self, after: Signature) -> Story:
        """Return the story of a spec that is now `after`: it moved to other stacks, or no stack builds it."""
        if after.stacks or not self._change.is_pruned:
            return Story(kind=StatementKind.MOVED, before=after.versions)
        built = set[str]().union(*self._versions_in[1].values())
        remaining = tuple(version for version in after.versions if version in built)
        return Story(kind=StatementKind.UNREFERENCED, before=after.versions, remaining=remaining)

    def _was_there(self, place: Place, versions: Set[str]) -> bool:
        """Tell whether the place had all `versions` before, in any builds, selected or not."""
        had = self._versions_before.get(place)
        return had is not None and versions <= had

    @cached_property
    def _versions_before(self) -> Mapping[Place, Set[str]]:
        """The versions that each place had, in any build, selected or not."""
        versions: defaultdict[Place, set[str]] = defaultdict(set)
        for signature in self._change.specs_before.counts:
            for place in signature.places:
                versions[place].update(signature.versions)
        return versions

    @cached_property
    def _places_before(self) -> Mapping[tuple[str, str], Set[Place]]:
        """The places that had the package, by the platform and operating system of the builds."""
        places: defaultdict[tuple[str, str], set[Place]] = defaultdict(set)
        for one in self._change.specs_before.counts:
            places[one.platform, one.os].update(one.places)
        return places

    @cached_property
    def _versions_in(self) -> tuple[Mapping[str, Set[str]], Mapping[str, Set[str]]]:
        """The versions of each stack in the earlier and in the later state."""
        before, after = (
            versions_by_stack(side.counts) for side in (self._change.specs_before, self._change.specs_after)
        )
        return before, after

    def _places(self, signature: Signature | None) -> frozenset[Place]:
        places = signature.places if signature else frozenset()
        return places if self._sees.is_open else frozenset(place for place in places if self._sees(place.stack))

    def _story_of_configuration(self, signature: Signature, *, is_before: bool) -> Story:
        """Return the story of a compiler, system or variants that left (`is_before`) or came with a spec."""
        named, instead = self._configuration(signature, is_before=is_before)
        if instead:
            before, after = (named, instead) if is_before else (instead, named)
            return Story(kind=StatementKind.RECONFIGURED, before=before, after=after)
        if is_before:
            if not named:  # others share each value: where there are as many as before, the nearest new one replaced it
                old, new = (self._builds_in(signature, is_before=side) for side in (True, False))
                came = [one for one in new - old if (one.platform, one.os) == (signature.platform, signature.os)]
                if came and len(new) >= len(old):
                    return self._story_of_replaced(signature, min(came, key=lambda one: _distance(signature, one)))
                # Other versions of its places have each value.
                there = self._others(signature.target, signature.stacks, signature.versions, is_before=True)
                values = ((one, there[fact]) for fact in _CONFIGURATION for one in VALUES[fact](signature))
                named = tuple(one for one, others in values if others and one not in {*others, NO_COMPILER})
            left = self._others(None, None, signature.versions, is_before=True)
            remaining = tuple(value for value in named if any(value in values for values in left.values()))
            return Story(kind=StatementKind.NARROWED, before=signature.versions, after=named, remaining=remaining)
        key = (signature.target, signature.stacks, signature.versions)
        had, has = (self._others(*key, is_before=side) for side in (False, True))
        is_there = not any(had[name].isdisjoint(has[name]) for name in ("compilers", "oses", "platforms"))
        own = (signature.versions, signature.target)
        alike = (one for one in self._change.specs_after.counts if (one.versions, one.target) == own)
        others = (one for one in alike if not {one.compiler, one.os, one.platform, *one.variants}.issuperset(named))
        is_there &= {*filter(self._sees, signature.stacks)} <= {stack for one in others for stack in one.stacks}
        remaining = signature.versions if is_there else ()  # its places keep other specs of these versions
        return Story(kind=StatementKind.WIDENED, before=named, after=signature.versions, remaining=remaining)

    def _kept(self, values: Iterable[str], stacks: tuple[str, ...], versions: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of `values` (compilers, variants) that later specs of `versions` in `stacks` have."""
        has = self._others(None, stacks, versions, is_before=True)
        return tuple(value for value in values if value in has["variants"] or value in has["compilers"])

    def _builds_in(self, signature: Signature, *, is_before: bool) -> Set[Signature]:
        """Return earlier (`is_before`) or later builds, without stacks, of the versions and places of `signature`."""
        side = self._change.specs_before if is_before else self._change.specs_after
        alike = (one for one in side.counts if one.versions == signature.versions)
        return {replace(one, stacks=()) for one in alike if not one.places.isdisjoint(signature.places)}

    def _changed_part(self, signature: Signature, *, is_before: bool) -> Signature:
        """Return `signature` without the stacks that have its compiler, system and variants in other builds of the other state.

        The other state is the later one if `is_before`. If all stacks or none have them, `signature` is unchanged.
        """
        if self._configuration(signature, is_before=is_before)[0]:
            return signature
        lacking: defaultdict[Hashable, list[str]] = defaultdict(list)
        for stack in filter(self._sees, signature.stacks):
            found = self._configuration(replace(signature, stacks=(stack,)), is_before=is_before)
            if found[0]:
                lacking[found].append(stack)
        return replace(signature, stacks=max(map(tuple, lacking.values()), key=len)) if lacking else signature

    def _story_of_replaced(self, before: Signature, after: Signature) -> Story:
        """Return the story that `after`, with another compiler or other variants, took the place of `before`."""
        old = _unlike(before, after)
        having = {has: self._kept(old, before.stacks, (has,)) for has in self._change.after["versions"]}
        keeping = {
            (value, Place(stack, ""))
            for stack in before.stacks
            for value in self._kept(old, (stack,), before.versions)
            if self._sees(stack)
        }
        own = tuple(value for value in old if any(value == kept for kept, _ in keeping))
        return Story(
            kind=StatementKind.RECONFIGURED,
            before=old,
            after=_unlike(after, before),
            versions=() if own else _sorted(version for version, kept in having.items() if kept),
            remaining=own or tuple(value for value in old if any(value in kept for kept in having.values())),
            stays=frozenset(keeping),
        )

    def _configuration(self, signature: Signature, *, is_before: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the values of a spec that its places lack in the other state, and the values that replaced them.

        Values are compilers, systems and variants. If `is_before`, the spec is of the earlier state. Replacements are
        compilers and variants of the same version that its places have only in the other state; there are none if the
        system differs. If there are some, only what they replaced is returned.
        """
        others = self._others(signature.target, signature.stacks, is_before=is_before)
        key = (signature.target, signature.stacks, signature.versions)
        here, there = (self._others(*key, is_before=side) for side in (not is_before, is_before))
        own = {
            Attribute(kind_of_fact(fact, is_added=True), value): None
            for fact in _CONFIGURATION
            for value in VALUES[fact](signature)
            if value not in others[fact] and value != NO_COMPILER
        }
        names = {one.name for one in own}
        instead = [
            one
            for fact in ("compilers", "variants")
            for value in sorted(there[fact] - here[fact] - {NO_COMPILER, ""})
            if (one := Attribute(kind_of_fact(fact, is_added=True), value)).name in names and Kind.OS not in names
        ]
        replaced = {one.name for one in instead} or names
        return tuple(one.text for one in own if one.name in replaced), tuple(one.text for one in instead)

    def _others(
        self,
        target: str | None,
        stacks: tuple[str, ...] | None,
        versions: tuple[str, ...] | None = None,
        *,
        is_before: bool,
    ) -> Facts:
        """Return the facts of specs in the other state: in the later one if `is_before`, else in the earlier one.

        Only specs with this `target`, these `versions` (None: any) and a selected one of `stacks` count. If `stacks` is
        None, all stacks do, also unselected ones, and specs without a stack.
        """
        key = (target, stacks, versions, is_before)
        if key not in self._found_others:
            side = self._change.specs_after if is_before else self._change.specs_before
            alike = [s for s in side.counts if target in (None, s.target) and versions in (None, s.versions)]
            if stacks is not None:
                wanted = set(filter(self._sees, stacks))
                alike = [s for s in alike if not wanted.isdisjoint(s.stacks)]
            self._found_others[key] = facts_of(alike)
        return self._found_others[key]


def _systems_beside(gained: PlaceChange, others: Set[str]) -> tuple[str, ...]:
    """Return the operating systems of the place `gained`; empty if one of these is in `others`."""
    own = {machine.os for machine in gained.machines}
    return tuple(sorted(own - {""})) if own.isdisjoint(others) else ()


def _target_of(gained: PlaceChange, lost: PlaceChange) -> str:
    """Return the target of `gained`; if `lost` has none of its operating systems, with these: `zen4 (rhel9)`."""
    systems = ", ".join(_systems_beside(gained, {machine.os for machine in lost.machines}))
    return f"{gained.target} ({systems})" if systems else gained.target


def _counts_of(matches: Iterable[SpecMatch]) -> Counts:
    """Return the numbers of vanished and new specs in `matches`; unselected specs do not count."""
    vanished = new = unbuilt = 0
    for match in matches:
        vanished += 0 if match.entered else match.count
        new += 0 if match.left else match.count
        unbuilt += match.count if match.before.stacks and not match.after.stacks else 0
    return Counts(vanished, new, unbuilt_new=unbuilt, alone=new - vanished)


def _built_for(signature: Signature | None) -> Hashable:
    """Return a key of versions, stacks and machine; specs with equal keys share changes of places. None for None."""
    return signature and (signature.versions, signature.stacks, signature.target, signature.platform, signature.os)


def _unlike(own: Signature, other: Signature) -> tuple[str, ...]:
    """Return the compiler and the variants that `own` has and `other` does not."""
    compiler = [] if own.compiler == other.compiler else [own.compiler]
    variants = set(other.variants)
    return (*compiler, *(v for v in own.variants if v not in variants))


def _distance(one: Signature, other: Signature) -> tuple[int, Signature]:
    return len(_unlike(one, other)) + len(_unlike(other, one)), other


def _sorted(versions: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted_versions(versions))
