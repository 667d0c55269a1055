"""Combine changes into statements.

Each item (see Items in statement_kinds.py) goes to the first statement that explains it: one about its whole tag or a
stack; one about a suspicious loss, changed values, a prune or a wave of rebuilds; else the statement of the first of
its stories that no new or removed stack explains. The whole tag is judged before (stacks_prunes_suspicion.py).
`select_statements` drops nothing: it also returns what is not selected, so that reports can sum it up. The rules are in
docs/laws.md.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from cachewatch.core.comparison.compiler_and_target_migrations import ValueChange
from cachewatch.core.comparison.renamed_stacks import Merge
from cachewatch.core.comparison.stacks_prunes_suspicion import Judgement
from cachewatch.core.filters_and_spec_patterns import GROUPS
from cachewatch.core.graphs_and_attribution import Cause, assign
from cachewatch.core.kinds_and_specs import Kind, Place, Signature, Verdict
from cachewatch.core.statement_kinds import (
    LOSSES,
    OF_REBUILDS,
    OF_VALUES,
    STATEMENT_OF,
    CauseCount,
    Counts,
    Effect,
    Items,
    Line,
    OwnedLoss,
    Statement,
    StatementKind,
    Story,
    in_order,
    name_of,
)
from cachewatch.core.versions_spellings_targets import sorted_versions, variant_name, version_key

# A statement for each package.
_BY_PACKAGE = (StatementKind.PACKAGE_REMOVED, StatementKind.PACKAGE_ADDED)
BY_VERSION = (StatementKind.UPGRADED, StatementKind.DOWNGRADED)
# In these, lines are separate if the same specs also left other stacks.
_BESIDE = (StatementKind.WIDENED, StatementKind.RETIRED, StatementKind.EXTENDED, StatementKind.PLACE_GAINED)
_BY_MOVE = (StatementKind.PLACE_GAINED, StatementKind.RETIRED, StatementKind.EXTENDED)
# Kinds of change of a place; specs of several places have those of all.
_OF_PLACES = (*GROUPS["lost"], *LOSSES, *map(STATEMENT_OF.get, Verdict))
OF_STACKS = (StatementKind.STACK_MERGED, StatementKind.STACK_REMOVED, StatementKind.STACK_ADDED)


class _Head(Struct, frozen=True):
    """The values that distinguish one statement from another; items with equal heads are in one statement."""

    kind: StatementKind
    name: str = ""
    values: ValueChange | None = None
    merge: Merge | None = None


class _Taken(Struct):
    """The items and losses that belong to one statement."""

    items: list[tuple[Items, Story]] = field(default_factory=list)
    losses: list[OwnedLoss] = field(default_factory=list)
    rows: dict[str, Story] = field(default_factory=dict)  # stories of packages, with or without items
    here: defaultdict[str, Counts] = field(default_factory=lambda: defaultdict(Counts))  # see Line, by package
    kinds: defaultdict[str, set[Kind]] = field(default_factory=lambda: defaultdict(set))  # of change, of these specs
    # Up- and downgrades, which have statements of their own.
    regraded: dict[str, tuple[Story, ...]] = field(default_factory=dict)
    elsewhere: Counter[str] = field(default_factory=Counter)  # specs of its stack that another statement counts


class _Assignment:
    """Assigns items, losses and changed versions to the first statement that explains them."""

    def __init__(self, judgement: Judgement, tag: str) -> None:
        self.judgement = judgement
        self._tag = tag
        self._lost, self._gained = frozenset(judgement.lost), frozenset(judgement.gained)
        self.renamed = frozenset(judgement.new_names.values())
        self._ranks = {stack: rank for rank, stack in enumerate(dict.fromkeys((*judgement.lost, *judgement.gained)))}
        self._values: defaultdict[str, list[ValueChange]] = defaultdict(list)  # by package
        for one in judgement.values:
            for package in one.packages:
                self._values[package].append(one)

    def of_items(self, items: Items) -> tuple[_Head, Story]:
        """Return the head of the statement that explains `items`, and the story with which it describes them."""
        first, judgement = items.stories[0], self.judgement
        if judgement.whole is not None:
            return _Head(judgement.whole, self._tag), first
        if head := self._of_stacks(items.left, items.joined - self.renamed if items.is_renamed else items.joined):
            return head, first
        story = self._story(items)
        if head := self._of_tag(items, story):
            return head, first
        name = items.package if story.kind in (*_BY_PACKAGE, *BY_VERSION) else ""
        return _Head(story.kind, name), story

    def _of_tag(self, items: Items, story: Story) -> _Head | None:
        """Return the head of the statement on the tag (not on a stack) that explains `items`; None if there is none."""
        judgement = self.judgement
        if judgement.suspicion and story.kind in (StatementKind.PACKAGE_REMOVED, *LOSSES):
            return self.suspicious
        changes = self._values[items.package] if story.kind not in BY_VERSION else ()
        for one in changes:
            if one.explains(items.package, items.stacks, items.gone_values, items.new_values):
                return _Head(one.kind, one.name, one)
        if judgement.is_prune and items.is_prunable:
            return _Head(StatementKind.PRUNE)
        return _Head(StatementKind.REBUILD_WAVE) if judgement.is_wave and items.is_again else None

    def of_loss(self, lost: OwnedLoss) -> _Head:
        """Return the head of the statement that reports a lost place or machine."""
        judgement, place = self.judgement, lost.place
        if judgement.whole is not None:
            return _Head(judgement.whole, self._tag)
        if place.stack in self._lost and (head := self._of_stacks(frozenset({place.stack}), frozenset())):
            return head
        if judgement.suspicion:
            return self.suspicious
        # The package may be no longer built for this target or operating system.
        names = {Kind.TARGET: place.target, Kind.OS: lost.machine.os if lost.machine else None}
        for one in self._values[lost.package]:
            if place.stack in one.stacks and any(value.text == names.get(value.kind) for value in one.before):
                return _Head(one.kind, one.name, one)
        if lost.is_of_removed:
            return _Head(StatementKind.PACKAGE_REMOVED, lost.package)
        return _Head(StatementKind.MACHINE_LOST if lost.machine else StatementKind.PLACE_LOST, lost.name)

    def values_of(self, package: str, stacks: Set[str]) -> tuple[str, ...]:
        """Return the values (compilers, variants, ...) that widespread changes brought to a package in `stacks`."""
        found = (one for one in self._values[package] if one.kind is not StatementKind.NO_LONGER)
        return tuple(value.text for one in found if not stacks.isdisjoint(one.stacks) for value in one.after)

    @property
    def suspicious(self) -> _Head:
        """The head of the statement that losses are suspicious."""
        return _Head(StatementKind.SUSPICIOUS, self.judgement.suspicion)

    def _of_stacks(self, left: Set[str], joined: Set[str]) -> _Head | None:
        """Return the head of the statement on a stack of `left` or `joined`; None unless all are gone or new in the tag."""
        if not (left or joined) or not (left <= self._lost and joined <= self._gained):
            return None
        stack = min(left | joined, key=self._ranks.__getitem__)
        if merge := self.judgement.merge_of(stack):
            return _Head(StatementKind.STACK_MERGED, merge.name, merge=merge)
        return _Head(StatementKind.STACK_REMOVED if stack in self._lost else StatementKind.STACK_ADDED, stack)

    def also_about(self, items: Items, counted_in: _Head) -> Iterator[_Head]:
        """Yield the head of each statement on a stack that mentions `items`, except `counted_in`, which counts them."""
        if self.judgement.whole is None:
            for left, joined in ((items.left & self._lost, frozenset()), (frozenset(), items.joined & self._gained)):
                for stack in left | joined:
                    head = self._of_stacks(left & {stack}, joined & {stack})
                    if head and head != counted_in and head.merge is None:
                        yield head

    def _story(self, items: Items) -> Story:
        """Return the first story of `items` that no removed or new stack explains, else the last, as one on copies."""
        told = {StatementKind.PLACE_LOST: self._lost, StatementKind.PLACE_GAINED: self.new_stacks(items)}
        for story in items.stories:
            if story.kind not in told or {place.stack for place in story.places} - told[story.kind]:
                return story
        last = items.stories[-1]
        # The remaining stacks lack nothing.
        return replace(last, kind=_INSTEAD.get(last.kind, last.kind))

    def new_stacks(self, items: Items) -> Set[str]:
        """Return the new stacks of the tag, except renamed ones if `items` were compared under the new names."""
        return self._gained - self.renamed if items.is_renamed else self._gained


_INSTEAD = {StatementKind.PLACE_LOST: StatementKind.SURPLUS, StatementKind.PLACE_GAINED: StatementKind.EXTRA_COPY}


def statements_of(
    items: Collection[Items],
    judgement: Judgement,
    tag: str = "",
    part: tuple[int, Callable[[str, str], bool]] | None = None,
) -> tuple[Statement, ...]:
    """Return statements on all `items` of a tag, most important first; `judgement` says what happened to the tag.

    Each item, lost place, lost machine and package with changed versions is in exactly one statement. `tag` is the name
    for statements on an added or removed tag. `part` is None if everything is selected; else it has the number of
    packages of the whole tag, so that statements on the tag also give total numbers, and a function that tells whether
    a package is selected in a stack.
    """
    packages, takes = part or (0, lambda _package, _stack: True)
    assignment = _Assignment(judgement, tag)
    taken_by: defaultdict[_Head, _Taken] = defaultdict(_Taken)
    gained: list[tuple[Items, Story]] = []  # of items with several stories
    for member in items:
        head, story = assignment.of_items(member)
        home = head  # where its specs are counted
        if head.kind in LOSSES:  # of the places that lost them, in the first
            place = min((place for place in story.places if place.stack not in judgement.lost), default=None)
            home = _Head(story.kind, name_of(place, story.machine) if place else "")
        taken_by[home].items.append((member, story))
        # A loss of kept specs names the stacks that build them, and most statements about the tag name all stacks.
        is_named = member.counts.kept if story.kind in LOSSES else head.kind.is_of_tag
        if len(member.stories) > 2 and not is_named:
            gained += ((member, one) for one in member.stories if one.kind is StatementKind.PLACE_GAINED)
        for other in assignment.also_about(member, home):
            taken_by[other].elsewhere[member.package] += member.counts.specs
        for lost in member.losses:
            own = lost if judgement.whole is None else replace(lost, loss=None, kinds=frozenset())
            home = _Head(lost.told_as, lost.package) if lost.told_as else assignment.of_loss(lost)
            taken_by[home].losses.append(own)
            taken_by[home].regraded[member.package] = member.regraded
        for row in member.regraded if judgement.whole is None else ():
            taken_by[_Head(row.kind, member.package)].rows[member.package] = row
    _add_renamings(items, taken_by, assignment)
    _count_also_elsewhere(items, taken_by)
    _add_gained(gained, taken_by, assignment)
    made = [_statement(head, taken, assignment, takes) for head, taken in taken_by.items()]
    if part is not None:
        of = judgement.counts
        made = [
            replace(one, of=of.get((one.kind, one.name), 0), of_packages=packages) if one.kind.is_of_tag else one
            for one in made
        ]
    if judgement.suspicion and not any(one.kind is StatementKind.SUSPICIOUS for one in made):
        made.append(_statement(assignment.suspicious, _Taken(), assignment, takes))
    return in_order(made)


def _add_renamings(items: Iterable[Items], taken_by: defaultdict[_Head, _Taken], assignment: _Assignment) -> None:
    """Add to `taken_by` a statement on each renamed stack that has none; other statements count its `items`."""
    told = frozenset(taken_by)
    for member in items if assignment.renamed else ():
        for stack in member.stacks & assignment.renamed if member.is_renamed else ():
            merge = assignment.judgement.merge_of(stack)
            head = _Head(StatementKind.STACK_MERGED, merge.name if merge else "", merge=merge)
            if head not in told:
                taken_by[head].elsewhere[member.package] += member.counts.specs


def _add_gained(
    gained: Iterable[tuple[Items, Story]], taken_by: defaultdict[_Head, _Taken], assignment: _Assignment
) -> None:
    """Add places in `gained` to the statement on gained places if it lacks them; other statements count their specs."""
    head = _Head(StatementKind.PLACE_GAINED)
    told = (
        {(items.package, place) for items, story in taken_by[head].items for place in story.places}
        if head in taken_by
        else ()
    )
    for items, story in gained:
        stacks = assignment.new_stacks(items)
        places = frozenset(p for p in story.places if p.stack not in stacks and (items.package, p) not in told)
        if places:
            taken_by[head].items.append((replace(items, counts=Counts()), replace(story, places=places)))


def _count_also_elsewhere(items: Iterable[Items], taken_by: Mapping[_Head, _Taken]) -> None:
    """Add lost specs and those that no stack builds to `_Taken.here`, even if other statements count these specs.

    For an added or removed package, add the specs that other statements count to `_Taken.elsewhere`.
    """
    unbuilt = taken_by.get(_Head(StatementKind.UNREFERENCED))
    told = {id(one) for head, taken in taken_by.items() if head.kind in _BY_PACKAGE for one, _ in taken.items}
    for member in items:
        own = _Head(member.stories[0].kind, member.package)
        if own.kind in _BY_PACKAGE and own in taken_by and id(member) not in told:
            taken_by[own].elsewhere[member.package] += member.counts.specs
        if unbuilt and member.counts.without_stack:
            unbuilt.here[member.package] += member.counts
        lost = [story for story in member.stories if story.kind in LOSSES]
        for head in {_Head(story.kind, name_of(place, story.machine)) for story in lost for place in story.places}:
            if head in taken_by:
                taken_by[head].here[member.package] += member.counts
                taken_by[head].kinds[member.package] |= member.kinds.difference(_OF_PLACES)


def counted(items: Sequence[Items], judgement: Judgement, tag: str) -> Judgement:
    """Return `judgement` with `counts` (specs of each statement on the tag) and `pruned` (specs, by package)."""
    counts: defaultdict[tuple[StatementKind, str], int] = defaultdict(int)
    pruned = Counter[str]()
    assignment = _Assignment(judgement, tag)
    for member in judgement.under_new_names(items):
        head, _ = assignment.of_items(member)
        if head.kind.is_of_tag:
            counts[head.kind, head.name] += member.counts.total
        if head.kind is StatementKind.PRUNE:
            pruned[member.package] += member.counts.vanished
    return replace(judgement, counts=counts, pruned=pruned)


def _statement(head: _Head, taken: _Taken, assignment: _Assignment, takes: Callable[[str, str], bool]) -> Statement:
    lines = tuple(_lines(head, taken, assignment))
    places = {place for line in lines for place in line.story.places}
    lost = {one.place for one in taken.losses}
    if head.kind in LOSSES:
        places = lost or places
    elif head.kind in (*OF_STACKS, StatementKind.SUSPICIOUS, *OF_VALUES):
        places |= lost
    stacks = {place.stack for place in places}
    if head.kind not in LOSSES:
        stacks.update(*(items.stacks for items, _ in taken.items))
    if head.values:  # its specs may be those of other stacks, too, where the change is another one
        places = {place for place in places if place.stack in head.values.stacks}
        stacks &= head.values.stacks
    # What else changed in a renamed stack has another statement.
    losses = [one for one in taken.losses if one.loss or not head.merge or not lines]
    before, after = _sides(head, lines)
    exceptions = head.values.exceptions if head.values else ()
    return Statement(
        kind=head.kind,
        name=head.name,
        before=before,
        after=after,
        packages=tuple(sorted({*taken.elsewhere, *(one.package for one in lines), *(one.package for one in losses)})),
        elsewhere=taken.elsewhere.total(),
        places=tuple(sorted(places)),
        stacks=tuple(sorted(stacks)),
        counts=sum((line.counts for line in lines), start=Counts()),
        exceptions=tuple(dict.fromkeys(package for package, stack in exceptions if takes(package, stack))),
        attributes=frozenset(value.kind for value in (*head.values.before, *head.values.after))
        if head.values
        else frozenset(),
        is_everywhere=not (head.values and any(takes(*other) for other in head.values.elsewhere)),
        effects=tuple(_effects(head, taken)),
        of_packages=assignment.judgement.packages if head.kind.is_of_tag else 0,
        lines=lines,
        kinds=frozenset(_kinds(head, (*lines, *taken.losses))),
        losses=tuple(sorted(taken.losses, key=lambda lost: lost.sort_key)),
    )


def _sides(head: _Head, lines: Sequence[Line]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the values that a statement shows as before and after: compilers or other values, stacks or versions."""
    if head.values is not None:
        return tuple(value.text for value in head.values.before), tuple(value.text for value in head.values.after)
    if head.merge is not None:
        return head.merge.removed, head.merge.joined
    if head.kind in (*_BY_PACKAGE, *BY_VERSION) and lines:
        return lines[0].story.before, lines[0].story.after
    return (), ()


def _kinds(head: _Head, parts: Iterable[Line | OwnedLoss]) -> Iterator[Kind]:
    for one in parts:
        yield from one.kinds
    if head.kind is StatementKind.STACK_ADDED:
        yield Kind.STACK_EVENT
    if head.kind is StatementKind.STACK_REMOVED:
        yield from (Kind.STACK_EVENT, Kind.STACK_LOST)
    if head.values is not None:
        yield from (value.kind for value in (*head.values.before, *head.values.after))
    if head.kind.is_of_tag and head.kind not in (StatementKind.MIGRATION, StatementKind.REBUILD_WAVE):
        yield Kind(head.kind)


def _effects(head: _Head, taken: _Taken) -> Iterator[Effect]:
    """Yield what else happened to the specs of a statement on a stack or changed values; nothing for other kinds."""
    if head.kind not in (*OF_STACKS, *OF_VALUES):
        return
    packages: defaultdict[StatementKind, set[str]] = defaultdict(set)
    for items, story in taken.items:
        if story.kind in (*_BY_PACKAGE, StatementKind.PLACE_LOST, StatementKind.PLACE_GAINED):
            packages[story.kind].add(items.package)
    # Another removed stack may count their specs.
    packages[StatementKind.PACKAGE_REMOVED].update(lost.package for lost in taken.losses if lost.is_of_removed)
    if head.merge is not None:  # a package in a renamed stack is neither lost nor new
        packages[StatementKind.PLACE_LOST] &= head.merge.lost
        packages[StatementKind.PLACE_GAINED] &= head.merge.gained
    for effect in sorted(filter(packages.get, packages), key=lambda kind: kind.rank):
        yield Effect(effect, tuple(sorted(packages[effect])))
    if head.values is not None:
        yield from _other_values(head.values, taken)


def _other_values(change: ValueChange, taken: _Taken) -> Iterator[Effect]:
    """Yield values, except those of `change`, that specs in `taken` gained or lost, with most specs first."""
    texts: defaultdict[tuple[str, Kind, str], tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    counts: Counter[tuple[str, Kind, str, int]] = Counter()
    for items, _ in taken.items:
        sides = (items.gone_values.difference(change.before), items.new_values.difference(change.after))
        for side, values in enumerate(sides):
            for value in values:
                texts[items.package, value.kind, value.name][side].add(value.text)
            for kind, name in {(value.kind, value.name) for value in values}:
                counts[items.package, kind, name, side] += (items.counts.vanished, items.counts.new)[side]
    together: defaultdict[tuple[str, Kind, int], list[tuple[set[str], set[str]]]] = defaultdict(list)
    for key, found in texts.items():
        together[key[0], key[1], max(counts[*key, 0], counts[*key, 1])].append(found)
    alike: defaultdict[tuple[Kind, tuple[str, ...], tuple[str, ...]], dict[str, int]] = defaultdict(dict)
    for (package, kind, specs), pairs in together.items():
        gone, new = (tuple(sorted(set[str]().union(*own))) for own in zip(*pairs, strict=True))
        alike[kind, gone, new][package] = specs
    effects = [
        Effect(
            StatementKind.MIGRATION if gone and new else StatementKind.BESIDE if new else StatementKind.NO_LONGER,
            tuple(sorted(specs)),
            gone,
            new,
            sum(specs.values()),
            kind,
        )
        for (kind, gone, new), specs in alike.items()
    ]
    yield from sorted(effects, key=lambda one: (-one.specs, one.before, one.after))


def _lines(head: _Head, taken: _Taken, assignment: _Assignment) -> Iterator[Line]:
    """Yield lines of the statement on `taken`, most specs first; losses or versions of one package share a line."""
    groups: defaultdict[tuple[object, ...], list[tuple[Items | None, Story]]] = defaultdict(list)
    is_one_line, is_of_stack = head.kind in (*LOSSES, *BY_VERSION), head.kind in OF_STACKS
    for items, story in taken.items:
        if is_one_line:
            key: tuple[object, ...] = (items.package, head.kind)
        else:
            is_split = story.kind is StatementKind.MOVED or (story.kind in _BY_MOVE and items.left and items.joined)
            moves = (items.even, *((items.left, items.joined, items.staying) if is_split else ()))
            beside = story.remaining if story.kind in _BESIDE else ()
            # Specs of a stack that no other stack builds.
            is_unbuilt = is_of_stack and bool(items.counts.without_stack)
            key = (items.package, story.kind, story.before, story.after, beside, is_unbuilt, *moves)
        groups[key].append((items, story))
    _join_removed(groups)
    for package, story in taken.rows.items():
        groups[package, head.kind].append((None, story))
    if head.kind in LOSSES:
        for lost in taken.losses:
            story = Story(kind=head.kind, before=lost.versions, places=frozenset({lost.place}), machine=lost.machine)
            groups[lost.package, head.kind].insert(0, (None, story))
    lines = []
    for key, group in groups.items():
        line = _line(str(key[0]), group)
        if head.kind.rank >= StatementKind.DOWNGRADED.rank and len({items.kinds for items, _ in group if items}) > 1:
            line = replace(line, members=tuple((items, story) for items, story in group if items))
        if head.kind in BY_VERSION:
            line = _with_other_changes(line, [items for items, _ in group if items], assignment)
        if head.kind in LOSSES:
            own = (lost.kinds for lost in taken.losses if lost.package == line.package)
            others = (Kind(story.kind) for story in taken.regraded.get(line.package, ()))
            kinds = line.kinds.difference(GROUPS["lost"], LOSSES, others).union((Kind(head.kind),), *own)
            line = replace(line, kinds=kinds | taken.kinds[line.package])
        lines.append(replace(line, here=taken.here.get(line.package, line.here)))
    yield from sorted(lines, key=lambda one: (-one.counts.total, -len(one.stacks), one.package, one.story.before))


def _join_removed(groups: dict[tuple[object, ...], list[tuple[Items | None, Story]]]) -> None:
    """Join two groups on a removed version of the same places of which only one has specs in place of the removed."""
    for key in [each for each in groups if each[1:2] == (StatementKind.RETIRED,) and not each[4]]:
        alike = [other for other in groups if other != key and other[:4] + other[5:] == key[:4] + key[5:]]
        places = [{place for _, story in groups[each] for place in story.places} for each in (key, *alike)]
        if len(alike) == 1 and places[0] == places[1]:
            groups[alike[0]] += groups.pop(key)


def _with_other_changes(line: Line, members: Iterable[Items], assignment: _Assignment) -> Line:
    """Return the up- or downgrade `line` with other changes of its `members`: compilers, variants, other versions."""
    stacks = {place.stack for place in line.story.places}
    widespread = assignment.values_of(line.package, stacks)
    having: defaultdict[str, set[str]] = defaultdict(set)
    others: defaultdict[Story, set[Place]] = defaultdict(set)
    for items in members:
        for value in items.new_values:
            if value.kind in (Kind.COMPILER, Kind.OS) and value.text not in widespread:
                having[value.text] |= items.stacks
        for story in items.stories:
            if story.places and story.kind in (StatementKind.RETIRED, StatementKind.EXTENDED):
                others[replace(story, places=frozenset())] |= story.places
    compilers = sorted(having)
    for variant, place in sorted(line.story.variants[1]):
        if variant not in widespread:
            having[variant].add(place.stack)
    names = {variant_name(variant) for variant, _ in line.story.variants[1]}  # one value in place of another
    without: defaultdict[str, set[str]] = defaultdict(set)
    for variant, place in line.story.variants[0]:
        if variant_name(variant) not in names:
            without[variant].add(place.stack)
    return replace(
        line,
        values=(*widespread, *compilers, *(value for value in having if value not in compilers)),
        is_partly=any(not stacks <= own for own in having.values()),
        without=tuple((variant, frozenset(own)) for variant, own in sorted(without.items())),
        others=tuple(replace(story, places=frozenset(places)) for story, places in others.items()),
    )


def _line(package: str, group: Sequence[tuple[Items | None, Story]]) -> Line:
    """Return one line on `package`; `group` has pairs of items and their story, with None for a story without items."""
    stories = list(dict.fromkeys(story for _, story in group))
    story, members = stories[0], [items for items, _ in group if items is not None]
    if story.kind in LOSSES:
        stories = [story]  # others are of the same items, in other places
    if len(stories) > 1:
        story = _joined(stories)
    if story.own:  # the place may have other versions
        new = tuple(version for version in story.versions if version in story.own)
        story = replace(story, after=story.own, versions=new)

    def together(name: str) -> frozenset[Any]:
        sets = [getattr(items, name) for items in members]
        return sets[0] if len(sets) == 1 else frozenset[Any]().union(*sets)

    kinds = together("kinds")
    if not members or story.kind in LOSSES:
        kinds |= {Kind(story.kind)}
    return Line(
        package=package,
        story=story,
        left=together("left"),
        joined=together("joined"),
        staying=together("staying"),
        even=together("even"),
        vanished_from=together("vanished_from"),
        is_move=bool(members) and all(items.left and items.joined for items in members),
        stacks=together("stacks") | {place.stack for place in story.places},
        machines=together("machines"),
        counts=members[0].counts if len(members) == 1 else sum((items.counts for items in members), start=Counts()),
        kinds=kinds,
    )


def _joined(stories: Sequence[Story]) -> Story:
    """Return one story that combines `stories`, all of one line."""
    by_version = stories[0].kind in BY_VERSION
    before, after = (
        tuple(sorted_versions({version for one in stories for version in getattr(one, side)}))
        if by_version
        else getattr(stories[0], side)
        for side in ("before", "after")
    )
    return replace(
        max(stories, key=lambda one: one.of_stacks),
        before=before,
        after=after,
        pairs=tuple(sorted({pair for one in stories for pair in one.pairs}, key=lambda p: tuple(map(version_key, p)))),
        places=frozenset(place for one in stories for place in one.places),
        stays=frozenset(place for one in stories for place in one.stays),
        outside=frozenset(place for one in stories for place in one.outside),
        variants=(
            frozenset(pair for one in stories for pair in one.variants[0]),
            frozenset(pair for one in stories for pair in one.variants[1]),
        ),
        replaced=tuple(sorted_versions({version for one in stories for version in one.replaced})),
        is_thinned=any(one.is_thinned for one in stories),
        versions=tuple(sorted_versions({version for one in stories for version in one.versions})),
        own=tuple(sorted_versions({version for one in stories for version in one.own})),
        remaining=tuple(sorted({name for one in stories for name in one.remaining})),
    )


WantsLine = Callable[[Line], bool]
Wants = Callable[..., bool]  # takes all kinds of a change, and its own kinds, by which reports name it


def of_kinds(statements: Iterable[Statement], wants: Wants) -> tuple[Statement, ...]:
    """Return the statements whose kinds `wants` accepts, each with only those lines whose kinds `wants` accepts."""
    return select_statements(statements, lambda line: is_wanted(line, wants), wants)[0]


def is_wanted(one: Statement | Line, wants: Wants) -> bool:
    """Tell whether `wants` accepts a statement or line; `wants` gets all its kinds, and those that its title names."""
    kind = one.kind if isinstance(one, Statement) else one.story.kind
    own = {kind, *(GROUPS["lost"] if kind in (StatementKind.PACKAGE_REMOVED, *LOSSES) else ())}
    return bool(wants(one.kinds, one.kinds & own))


def divided(line: Line, wants_line: WantsLine) -> tuple[Line | None, Line | None]:
    """Divide `line.members` into those that `wants_line` accepts and the rest; return two lines (None: empty)."""
    members = () if line.story.kind in BY_VERSION else line.members
    each = {items.kinds for items, _ in members}
    wanted = {kinds: wants_line(replace(line, kinds=kinds)) for kinds in each} if len(each) > 1 else {}
    if len(set(wanted.values())) <= 1:
        return (line, None) if wants_line(line) else (None, line)
    sides = ([one for one in members if wanted[one[0].kinds] is chosen] for chosen in (True, False))
    chosen, rest = (replace(_line(line.package, side), stay=line.stay, here=line.here) for side in sides)
    return chosen, rest


def select_statements(
    statements: Iterable[Statement], wants_line: WantsLine, wants: Wants
) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
    """Return selected statements and the rest: `wants` selects those on the whole tag, `wants_line` lines of others.

    A statement (one line per package) of which some lines are selected is in both results, each with its own lines.
    """
    shown: list[Statement] = []
    rest: list[Statement] = []
    for statement in statements:
        if statement.kind.is_of_tag:
            (shown if is_wanted(statement, wants) else rest).append(statement)
        else:
            parts = [divided(line, wants_line) for line in statement.lines]
            shown += _with(statement, [wanted for wanted, _ in parts if wanted])
            rest += _with(statement, [left for _, left in parts if left])
    return tuple(shown), tuple(rest)


def _with(statement: Statement, lines: list[Line]) -> Iterator[Statement]:
    """Yield `statement`, reduced to `lines`; nothing if `lines` is empty, unless the statement has no lines either."""
    if tuple(lines) == statement.lines:
        yield statement
    elif lines:
        packages = {line.package for line in lines}
        places = {place for line in lines for place in line.story.places}
        yield replace(
            statement,
            places=statement.places if statement.kind in LOSSES else tuple(sorted(places)),
            lines=tuple(lines),
            packages=tuple(sorted(packages)),
            stacks=tuple(sorted({stack for line in lines for stack in line.stacks})),
            losses=tuple(lost for lost in statement.losses if lost.package in packages),
            counts=sum((line.counts for line in lines), start=Counts()),
            kinds=frozenset(kind for line in lines for kind in line.kinds),
        )


def without_packages(statement: Statement, silenced: Set[str]) -> Statement:
    """Return `statement`, on a stack or changed values, without packages in `silenced`; its places remain."""
    lines = tuple(one for one in statement.lines if one.package not in silenced)
    losses = tuple(one for one in statement.losses if one.package not in silenced)
    effects = (replace(one, packages=own) for one in statement.effects if (own := _without(one.packages, silenced)))
    before, after = (
        frozenset[Kind]().union(*(one.kinds for one in own[0]), *(one.kinds for one in own[1]))
        for own in ((statement.lines, statement.losses), (lines, losses))
    )
    return replace(
        statement,
        packages=_without(statement.packages, silenced),
        lines=lines,
        losses=losses,
        effects=tuple(effects),
        counts=sum((line.counts for line in lines), start=Counts()),
        kinds=statement.kinds - before | after,
    )


def _without(packages: Iterable[str], silenced: Set[str]) -> tuple[str, ...]:
    return tuple(package for package in packages if package not in silenced)


class RebuiltSpecs(Struct, frozen=True, kw_only=True):
    """Rebuilt specs of one package with equal signatures and causes; `is_beside`: they are additional copies."""

    package: str
    signature: Signature
    causes: frozenset[Cause]
    count: int
    is_beside: bool = False  # additional copies


def with_causes(
    statements: Iterable[Statement], rebuilt: Sequence[RebuiltSpecs], chooses: Callable[[Signature], bool]
) -> tuple[Statement, ...]:
    """Return `statements`; those on rebuilds get the causes in `rebuilt` of specs that `chooses` accepts."""
    chosen = [one for one in rebuilt if chooses(one.signature)]
    return tuple(
        replace(one, causes=_causes_of(one, chosen)) if chosen and one.kind in OF_REBUILDS else one
        for one in statements
    )


def _causes_of(statement: Statement, rebuilt: Iterable[RebuiltSpecs]) -> tuple[CauseCount, ...]:
    """Return causes of the specs of `statement`, from `rebuilt`, most specs first; each spec counts for one cause."""
    packages = set(statement.packages)
    takes_copies = statement.kind is StatementKind.REBUILD_WAVE
    own = [one for one in rebuilt if one.package in packages and (takes_copies or not one.is_beside)]
    counts: Counter[frozenset[Cause]] = Counter()
    for group in own:
        counts[group.causes] += group.count
    assigned = assign(counts)
    specs: Counter[Cause] = Counter()
    named: defaultdict[Cause, set[str]] = defaultdict(set)
    for group in own:
        if group.causes:
            specs[assigned[group.causes]] += group.count
            named[assigned[group.causes]].add(group.package)
    found = [CauseCount(cause, specs[cause], tuple(sorted(named[cause]))) for cause in specs]
    return tuple(sorted(found, key=lambda one: (-one.specs, one.cause.sort_key)))
