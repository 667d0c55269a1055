"""Make statements of changes: each item goes to the first kind that matches, in the order of StatementKind.

`items_of` takes a package apart; an Observation sees all packages of a tag; `judge` finds what happened to the tag
as a whole; `statements_of` tells the items that were selected. `select_statements` drops nothing: what it does not
show line by line is still there to be summed up. The rules are in docs/laws.md.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.causes import Cause, assign
from cachewatch.core.items import items_of
from cachewatch.core.model import Kind, Place, Signature
from cachewatch.core.statement_values import (
    RANKS,
    Build,
    CauseCount,
    Counts,
    Effect,
    Items,
    Line,
    Remains,
    Replacement,
    Severity,
    Statement,
    StatementKind,
    Story,
    graded,
    is_of_tag,
    severity_of,
)
from cachewatch.core.versions import sorted_versions
from cachewatch.core.whole_tag import Judgement, Observation, Survey, judge

# Told package by package, place by place, or as one line each.
_BY_PACKAGE = (StatementKind.PACKAGE_REMOVED, StatementKind.PACKAGE_ADDED)
_BY_VERSION = (StatementKind.UPGRADED, StatementKind.DOWNGRADED)
# Told apart where the same specs left other stacks.
_BY_MOVE = (StatementKind.PLACE_GAINED, StatementKind.RETIRED, StatementKind.EXTENDED)


class _Head(Struct, frozen=True):
    """What tells one statement from another."""

    kind: StatementKind
    name: str = ""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    replacement: Replacement | None = None


class _Member(Struct, frozen=True):
    items: Items
    story: Story


class _Moved(Struct, frozen=True):
    """The stacks that left and joined the tag, as they are asked for once for every item."""

    lost: frozenset[str]
    gained: frozenset[str]
    ranks: Mapping[str, int]  # those that left first

    @classmethod
    def of(cls, judgement: Judgement) -> "_Moved":
        ranks = {stack: rank for rank, stack in enumerate(dict.fromkeys((*judgement.lost, *judgement.gained)))}
        return cls(frozenset(judgement.lost), frozenset(judgement.gained), ranks)


def statements_of(
    items: Iterable[Items], judgement: Judgement, tag: str = "", *, is_part: bool = False
) -> tuple[Statement, ...]:
    """Return everything that happened to `items` of a tag, most important first.

    `is_part` tells that they are only some of it; statements on the whole tag then say of how many.
    """
    members: defaultdict[_Head, list[_Member]] = defaultdict(list)
    moved = _Moved.of(judgement)
    here: defaultdict[Place, Counts] = defaultdict(Counts)
    for one in items:
        head, story = _assigned(one, judgement, moved, tag)
        members[head].append(_Member(one, story))
        for place in _lost_places(one):
            here[place] += replace(one.counts, new=0)
    found = [_statement(head, taken, judgement) for head, taken in members.items()]
    found = [*_with_places(found, here, judgement)]
    if is_part:
        of = judgement.counts
        found = [replace(one, of=of.get((one.kind, one.name), 0)) if is_of_tag(one.kind) else one for one in found]
    if judgement.suspicion:
        kind = StatementKind.SUSPICIOUS
        found.append(
            Statement(
                kind=kind, name=judgement.suspicion, severity=severity_of(kind), kinds=frozenset({Kind.SUSPICIOUS})
            )
        )
    return in_order(found)


def counted(items: Iterable[Items], judgement: Judgement, tag: str) -> Judgement:
    """Return `judgement` with the number of all items of each statement on the whole tag."""
    counts: defaultdict[tuple[StatementKind, str], int] = defaultdict(int)
    moved = _Moved.of(judgement)
    for one in items:
        head, _ = _assigned(one, judgement, moved, tag)
        if is_of_tag(head.kind):
            counts[head.kind, head.name] += one.counts.total
    return replace(judgement, counts=counts)


def _assigned(items: Items, judgement: Judgement, moved: _Moved, tag: str) -> tuple[_Head, Story]:
    """Return the statement that takes these items, and what they are told as in it."""
    first = items.stories[0]
    if judgement.whole is not None:
        return _Head(judgement.whole, tag), first
    if stack := _stack(items, moved):
        kind = StatementKind.STACK_REMOVED if stack in moved.lost else StatementKind.STACK_ADDED
        return _Head(kind, stack), first
    if items.replacement in judgement.migrations:
        return _Head(StatementKind.MIGRATION, _name(items.replacement), replacement=items.replacement), first
    if judgement.is_prune and items.is_prunable:
        return _Head(StatementKind.PRUNE), first
    if judgement.is_wave and items.is_again:
        return _Head(StatementKind.REBUILD_WAVE), first
    story = _story(items, moved)
    return _head(items, story), story


def _stack(items: Items, moved: _Moved) -> str:
    """Return the stack that every change of place of these items is due to."""
    if not (items.left or items.joined) or not (items.left <= moved.lost and items.joined <= moved.gained):
        return ""
    return min(items.left | items.joined, key=moved.ranks.__getitem__)


def _name(replacement: Replacement | None) -> str:
    return f"{replacement.before} -> {replacement.after}" if replacement else ""


def _story(items: Items, moved: _Moved) -> Story:
    """Return the first story that a stack which left or joined the tag does not tell."""
    told = {StatementKind.PLACE_LOST: moved.lost, StatementKind.PLACE_GAINED: moved.gained}
    for story in items.stories:
        if story.kind not in told or {place.stack for place in story.places} - told[story.kind]:
            return story
    last = items.stories[-1]
    # Nothing of it is missed in the stacks that are left.
    return replace(last, kind=_INSTEAD.get(last.kind, last.kind))


_INSTEAD = {
    StatementKind.PLACE_LOST: StatementKind.SURPLUS,
    StatementKind.PLACE_GAINED: StatementKind.EXTRA_COPY,
}


def _head(items: Items, story: Story) -> _Head:
    kind = story.kind
    if kind in (*_BY_PACKAGE, *_BY_VERSION):
        return _Head(kind, items.package, story.before, story.after)
    return _Head(kind)


def _statement(head: _Head, members: Sequence[_Member], judgement: Judgement) -> Statement:
    lines = tuple(_lines(members))
    places = sorted({place for member in members for place in member.story.places})
    migration = judgement.migrations.get(head.replacement) if head.replacement else None
    counts = sum((member.items.counts for member in members), start=Counts())
    stacks = {stack for member in members for stack in member.items.stacks} | {place.stack for place in places}
    return Statement(
        kind=head.kind,
        name=head.name,
        before=_values(head.replacement.before) if head.replacement else head.before,
        after=_values(head.replacement.after) if head.replacement else head.after,
        packages=tuple(sorted({member.items.package for member in members})),
        places=tuple(places),
        stacks=tuple(sorted(stacks)),
        counts=counts,
        exceptions=migration.exceptions if migration else (),
        effects=tuple(_effects(head.kind, members)),
        of_packages=judgement.packages if is_of_tag(head.kind) else 0,
        lines=lines,
        kinds=frozenset(_kinds(head, members)),
        severity=severity_of(head.kind),
    )


def _values(build: Build) -> tuple[str, ...]:
    return tuple(filter(None, (build.compiler, build.os, build.target)))


def _kinds(head: _Head, members: Iterable[_Member]) -> Iterator[Kind]:
    for member in members:
        yield from member.items.kinds
    if head.kind in (StatementKind.STACK_ADDED, StatementKind.STACK_REMOVED):
        yield Kind.STACK_EVENT
    if is_of_tag(head.kind) and head.kind not in (StatementKind.MIGRATION, StatementKind.REBUILD_WAVE):
        yield Kind(head.kind)
    if head.replacement is not None:
        build = head.replacement.before
        named = ((build.compiler, Kind.COMPILER), (build.os, Kind.OS), (build.target, Kind.TARGET))
        yield from (kind for value, kind in named if value)


def _effects(kind: StatementKind, members: Iterable[_Member]) -> Iterator[Effect]:
    """Yield what else happened because of a stack or a migration, by package."""
    if kind not in (StatementKind.STACK_REMOVED, StatementKind.STACK_ADDED, StatementKind.MIGRATION):
        return
    packages: defaultdict[StatementKind, set[str]] = defaultdict(set)
    for member in members:
        if member.story.kind in (*_BY_PACKAGE, StatementKind.PLACE_LOST, StatementKind.PLACE_GAINED):
            packages[member.story.kind].add(member.items.package)
    for effect in sorted(packages, key=RANKS.__getitem__):
        yield Effect(effect, tuple(sorted(packages[effect])))


def _lines(members: Iterable[_Member]) -> Iterator[Line]:
    """Yield a line for everything that differs but for where, most items first."""
    found: dict[tuple[object, ...], list[_Member]] = {}
    for member in members:
        story, items = member.story, member.items
        is_split = story.kind is StatementKind.MOVED or (story.kind in _BY_MOVE and items.left and items.joined)
        moves = (items.left, items.joined, items.staying) if is_split else ()
        key = (items.package, story.kind, story.before, story.after, *moves)
        found.setdefault(key, []).append(member)
    lines = [_line(group) for group in found.values()]
    yield from sorted(lines, key=lambda one: (-one.counts.total, -len(one.stacks), one.package, one.story.before))


def _line(group: Sequence[_Member]) -> Line:
    first = group[0]
    if len(group) == 1:
        items = first.items
        return Line(
            package=items.package,
            story=first.story,
            left=items.left,
            joined=items.joined,
            staying=items.staying,
            is_move=bool(items.left and items.joined),
            stacks=items.stacks,
            counts=items.counts,
            kinds=items.kinds,
        )
    places = frozenset(place for member in group for place in member.story.places)
    stays = frozenset(place for member in group for place in member.story.stays)
    remains = frozenset(found for member in group for found in member.story.remains)
    versions = sorted_versions({version for member in group for version in member.story.versions})
    targets = {member.story.target for member in group}
    return Line(
        package=first.items.package,
        story=replace(
            first.story,
            places=places,
            stays=stays,
            remains=remains,
            versions=tuple(versions),
            target=targets.pop() if len(targets) == 1 else "",
            remaining=tuple(sorted({name for member in group for name in member.story.remaining})),
        ),
        left=frozenset(stack for member in group for stack in member.items.left),
        joined=frozenset(stack for member in group for stack in member.items.joined),
        staying=frozenset(stack for member in group for stack in member.items.staying),
        is_move=all(member.items.left and member.items.joined for member in group),
        stacks=frozenset(stack for member in group for stack in member.items.stacks),
        counts=sum((member.items.counts for member in group), start=Counts()),
        kinds=frozenset(kind for member in group for kind in member.items.kinds),
    )


def _lost_places(items: Items) -> Iterator[Place]:
    return (place for story in items.stories if story.kind is StatementKind.PLACE_LOST for place in story.places)


def _with_places(found: Iterable[Statement], here: Mapping[Place, Counts], judgement: Judgement) -> Iterator[Statement]:
    """Split lost places: one statement for each place, which has the items of the packages it lost most of."""
    for statement in found:
        if statement.kind is not StatementKind.PLACE_LOST or not statement.places:
            yield statement
        else:
            yield from _by_place(statement, here, judgement)


def _by_place(statement: Statement, here: Mapping[Place, Counts], judgement: Judgement) -> Iterator[Statement]:
    gone = frozenset(judgement.lost)
    sizes = {place: 0 for place in statement.places if place.stack not in gone}
    for one in statement.lines:
        for place in one.story.places & sizes.keys():
            sizes[place] += one.counts.total
    order = sorted(sizes, key=lambda place: (-sizes[place], place))
    remains = _remains(statement.lines)
    lines: defaultdict[Place, list[Line]] = defaultdict(list)
    packages: defaultdict[Place, set[str]] = defaultdict(set)
    for one in statement.lines:
        own = one.story.places & sizes.keys()
        if own:
            lines[min(own, key=lambda place: (-sizes[place], place))].append(one)
        for place in own:
            packages[place].add(one.package)
    for place in order:
        yield graded(
            replace(
                statement,
                name=f"{place.stack} ({place.target})",
                packages=tuple(sorted(packages[place])),
                places=(place,),
                stacks=(place.stack,),
                counts=sum((one.counts for one in lines[place]), start=Counts()),
                here=here[place],
                lines=tuple(lines[place]),
                kinds=frozenset(kind for one in lines[place] for kind in one.kinds) | {Kind.PLACE_LOST},
                remains=tuple(sorted(remains.get(place, {}).items())),
            )
        )


def _remains(lines: Iterable[Line]) -> Mapping[Place, dict[str, Remains]]:
    """Return what is still there of the packages of each lost place: of several specs, what there is of the worst."""
    found: defaultdict[Place, dict[str, Remains]] = defaultdict(dict)
    for line in lines:
        for place, left in line.story.remains:
            found[place][line.package] = max(left, found[place].get(line.package, left))
    return found


WantsLine = Callable[[Line], bool]
WantsKinds = Callable[[Set[Kind]], bool]


class Selected(Struct, frozen=True):
    """Statements that are select_statements, and what is left of all others."""

    statements: tuple[Statement, ...] = ()
    rest: tuple[Statement, ...] = ()


def of_kinds(statements: Iterable[Statement], wants: WantsKinds) -> tuple[Statement, ...]:
    """Return the statements of the kinds that somebody asked for, without lines of other kinds."""
    return select_statements(statements, lambda line: wants(line.kinds), wants).statements


def select_statements(statements: Iterable[Statement], wants_line: WantsLine, wants: WantsKinds) -> Selected:
    """Part what is select_statements from the rest: whole tags by their own kinds, all else line by line."""
    shown: list[Statement] = []
    rest: list[Statement] = []
    for one in statements:
        if is_of_tag(one.kind):
            (shown if wants(one.kinds) else rest).append(one)
        else:
            sides: tuple[list[Line], list[Line]] = ([], [])
            for line in one.lines:
                sides[not wants_line(line)].append(line)
            shown += _with(one, sides[0])
            rest += _with(one, sides[1])
    return Selected(tuple(shown), tuple(rest))


def _with(statement: Statement, lines: list[Line]) -> Iterator[Statement]:
    """Yield the statement with no other than these lines; nothing, if there are none."""
    if len(lines) == len(statement.lines):
        yield statement
    elif lines:
        part = replace(
            statement,
            lines=tuple(lines),
            packages=tuple(sorted({line.package for line in lines})),
            stacks=tuple(sorted({stack for line in lines for stack in line.stacks})),
            here=None,
            counts=sum((line.counts for line in lines), start=Counts()),
            kinds=frozenset(kind for line in lines for kind in line.kinds),
        )
        yield graded(part)


_REBUILT = (StatementKind.REBUILD_WAVE, StatementKind.REBUILT)


class RebuiltSpecs(Struct, frozen=True, kw_only=True):
    """New specs of one package that are as older ones were, with other hashes for the same causes."""

    package: str
    signature: Signature
    causes: frozenset[Cause]
    count: int
    is_beside: bool = False  # copies more than before


def with_causes(
    statements: Iterable[Statement], rebuilt: Sequence[RebuiltSpecs], chooses: Callable[[Signature], bool]
) -> tuple[Statement, ...]:
    """Add to statements of rebuilt specs for which causes; only specs of the chosen signatures count."""
    chosen = [one for one in rebuilt if chooses(one.signature)]
    return tuple(
        replace(one, causes=_causes_of(one, chosen)) if chosen and one.kind in _REBUILT else one for one in statements
    )


def _causes_of(statement: Statement, rebuilt: Iterable[RebuiltSpecs]) -> tuple[CauseCount, ...]:
    """Return the causes, most specs first; each spec is counted under one."""
    packages = set(statement.packages)
    takes_copies = statement.kind is StatementKind.REBUILD_WAVE
    own = [one for one in rebuilt if one.package in packages and (takes_copies or not one.is_beside)]
    counts: Counter[frozenset[Cause]] = Counter()
    for one in own:
        counts[one.causes] += one.count
    assigned = assign(counts)
    specs: Counter[Cause] = Counter()
    named: defaultdict[Cause, set[str]] = defaultdict(set)
    for one in own:
        if one.causes:
            specs[assigned[one.causes]] += one.count
            named[assigned[one.causes]].add(one.package)
    found = [CauseCount(cause, specs[cause], tuple(sorted(named[cause]))) for cause in specs]
    return tuple(sorted(found, key=lambda one: (-one.specs, one.cause.sort_key)))


__all__ = [
    "CauseCount",
    "Items",
    "Judgement",
    "Line",
    "Observation",
    "RebuiltSpecs",
    "Remains",
    "Severity",
    "Statement",
    "StatementKind",
    "Survey",
    "items_of",
    "judge",
    "statements_of",
    "with_causes",
]


def in_order(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Sort statements by the rank of their kind; of one kind, those with the most specs and stacks come first."""
    return tuple(sorted(statements, key=_rank))


def _rank(one: Statement) -> tuple[object, ...]:
    return (RANKS[one.kind], -one.counts.total, -len(one.stacks), one.name, one.before, one.after)
