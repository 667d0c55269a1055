"""Decide what readers should do and why, before any word of a digest is chosen.

Subject, body, colours, JSON and headers of mail all show what is decided here. The rules are in docs/laws.md.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum, StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from cachewatch.core.advice.coverage import Availability, CoverageChange, Resolution
from cachewatch.core.model import MISSED, LossClass
from cachewatch.core.names import is_snapshot
from cachewatch.core.spack import is_newer, newest
from cachewatch.core.statement_values import OwnedLoss, Statement, StatementKind


class Verb(StrEnum):
    """What readers should do, the most urgent first."""

    WAIT = "wait"
    BUILD = "build"
    COPY = "copy"
    RECONCRETIZE = "reconcretize"
    STAY = "stay"
    MOVE = "move"
    LOOK = "look"


class Level(StrEnum):
    """How bad the news of a digest is; colours depend on it."""

    ALARM = "alarm"
    NOTICE = "notice"
    CALM = "calm"


class Rank(IntEnum):
    """The order in which a digest reports facts."""

    SUSPICION = 0
    PIN_GONE = 1
    ENVIRONMENT = 2
    GONE = 3
    SNAPSHOT = 4
    MERGED = 5
    MISSED = 6
    DOWNGRADED = 7
    VALUES = 8
    RETURNED = 9
    WAVE = 10
    UPGRADED = 11
    ADDED = 12
    TURNOVER = 13
    REST = 14
    HARMLESS = 15
    PRUNE = 16


class Because(StrEnum):
    """The reason why readers should do something; each has its words in templates/words.toml."""

    SUSPICIOUS = "suspicious"
    CONFIRMED = "confirmed"  # it was suspicious, and operators confirmed it
    ENVIRONMENT_GONE = "environment-gone"
    ENVIRONMENT_LAST = "environment-last"  # it may be pruned at any time, and nothing as new is there
    ENVIRONMENT_LAST_OTHER = "environment-last-other"  # likewise, but it is another build: its own is gone
    ENVIRONMENT_OTHER = "environment-other"
    ENVIRONMENT_EQUAL = "environment-equal"
    ENVIRONMENT_GOING = "environment-going"
    PIN_GONE = "pin-gone"
    PIN_ENDING = "pin-ending"  # it is among the oldest snapshots, which are deleted first
    SNAPSHOT_LACKS = "snapshot-lacks"
    SNAPSHOT = "snapshot"
    TAG_REMOVED = "tag-removed"
    PRUNED = "pruned"  # as readers were warned
    STACK_REMOVED = "stack-removed"
    GONE = "gone"
    GOING = "going"
    OTHER = "other"
    DOWNGRADED = "downgraded"
    NO_LONGER = "no-longer"
    OLD_BUILDS = "old-builds"  # lock files name builds that may be pruned at any time
    TURNOVER = "turnover"  # lock files name builds that are gone


class ComparedTag(Struct, frozen=True, kw_only=True):
    """One tag of one source with the statements that a digest reports."""

    source: str
    tag: str
    base: str = ""  # the snapshot that this new one is compared with
    since: str = ""  # the day of the earlier revision: 2026-11-20
    day: str = ""  # of the later one
    statements: tuple[Statement, ...] = ()
    rest: tuple[Statement, ...] = ()  # that the digest does not show
    is_incomplete: bool = False  # some documents cannot be read


class Pinned(Struct, frozen=True, kw_only=True):
    """A snapshot that readers stay with, and what moving to the newest one of its series would gain and lose."""

    tag: str
    source: str = ""  # empty where no source has it, or anything of its series
    is_gone: bool = False
    newest: str = ""  # newest snapshot of the series, if it is another one
    others: tuple[str, ...] = ()  # those between, the newest first
    best: str = ""  # the newest of these that lacks nothing, if it is gone and the newest of all lacks something
    newer: int = 0  # number of newer ones of the series
    older: int = 0  # number of older ones: where old ones are deleted, these are deleted before it
    is_ending: bool = False  # it may be deleted soon
    move: CoverageChange | None = None  # the comparison with the newest for the environment, if there is one
    statements: tuple[Statement, ...] | None = None  # the comparison with the newest without an environment
    is_news: bool = False  # since the last digest it is gone or among the oldest, or there is a newer one


class Alternative(Struct, frozen=True):
    """The snapshot that has most binaries of an environment, with their number and the number of all."""

    tag: str
    has: int
    of: int


class Known(Struct, frozen=True, kw_only=True):
    """What is remembered of earlier digests of the same subscription."""

    since: Mapping[tuple[str, Verb, str], str] = field(default_factory=dict)  # day by source, verb and name
    met: frozenset[str] = frozenset()  # hashes of the environment that were ever present
    confirmed: frozenset[tuple[str, str]] = frozenset()  # source and tag of which operators confirmed a suspicion
    waiting: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)  # what is missing while that lasts
    tasks: tuple["Action", ...] = ()  # that earlier digests asked for, and that nobody sees done


class Action(Struct, frozen=True, kw_only=True):
    """Something that readers should do."""

    verb: Verb
    because: Because
    source: str = ""
    tag: str = ""  # that it is about; the one to stay with or to move to
    name: str = ""  # of the stack or the other snapshot; or the day before which lock files are outdated
    names: tuple[str, ...] = ()  # packages
    versions: tuple[str, ...] = ()  # that the packages had last, as openmpi@5.8.0
    machine: str = ""  # target that lost the packages, if it is one alone, and others still have them
    is_everywhere: bool = False  # the packages are gone everywhere, in all versions
    others: tuple[str, ...] = ()  # other suitable snapshots; or packages that were not pruned yet
    count: int = 0  # number of packages, or of binaries of an environment
    worst: LossClass | None = None  # of what went with a stack
    since: str = ""  # day on which its cause was first reported; empty if in this digest

    @property
    def subjects(self) -> tuple[str, ...]:
        """The names under which it is remembered: packages, the cause and a snapshot or tag, or the lock files of a tag."""
        if self.because in (Because.PIN_GONE, Because.PIN_ENDING):
            return (f"{self.because} {self.name}",)
        if self.because in (Because.OLD_BUILDS, Because.TURNOVER):
            return (f"lock-files {self.tag}",)
        if self.because in _ENDS:
            return tuple(f"{self.because} {self.tag} {self.name} {package}" for package in self.names)
        if self.verb in (Verb.WAIT, Verb.LOOK):
            return (f"{self.because} {self.tag} {self.name}",)
        return self.names or (self.name,)

    @property
    def is_copy(self) -> bool:
        """Whether readers without an environment should copy what may be pruned."""
        return self.because is Because.GOING or (
            self.because is Because.STACK_REMOVED and self.worst is LossClass.GOING
        )

    def only(self, names: Collection[str]) -> "Action":
        """Return this for some of its packages alone."""
        kept = tuple(name for name in self.names if name in names)
        versions = tuple(one for one in self.versions if one.partition("@")[0] in kept)
        return replace(self, names=kept, versions=versions, count=len(kept))


class Fact(Struct, frozen=True, kw_only=True):
    """One event to report, such as a statement, with the tags in which it occurred."""

    rank: Rank
    kind: str  # of the statement, or else: environment, pin-gone, snapshot
    statement: Statement | None = None
    worst: LossClass | None = None  # the worst class of its losses
    tags: tuple[ComparedTag, ...] = ()
    pin: Pinned | None = None

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages that it is about; of losses, those with the worst class."""
        if self.statement is None:
            return ()
        if self.worst is None or self.statement.kind not in LOSSES:
            return self.statement.packages
        return packages_of(self.statement.losses, self.worst)


class AssessedLoss(Struct, frozen=True, kw_only=True):
    """A lost place or machine, with the statement that reports it."""

    tag: ComparedTag
    statement: Statement
    lost: OwnedLoss

    @property
    def loss_class(self) -> LossClass:
        """The class of the loss."""
        assert self.lost.loss is not None
        return self.lost.loss.loss_class


class EnvironmentState(Struct, frozen=True, kw_only=True):
    """The binaries of an environment, by what the cache still has of them."""

    change: CoverageChange
    by_class: Mapping[LossClass, tuple[Resolution, ...]]  # of those that were ever present
    new: frozenset[str]  # keys of those that became worse since the last digest
    not_here: tuple[Resolution, ...]  # that were never present

    @property
    def is_news(self) -> bool:
        """Whether anything changed for the environment."""
        return bool(self.new or self.change.came or self.change.restored)

    def of(self, wanted: LossClass, *, is_new: bool | None = None) -> tuple[Resolution, ...]:
        """Return the binaries in one class; `is_new` keeps only those that became worse lately, or only the others."""
        found = self.by_class.get(wanted, ())
        return tuple(one for one in found if is_new is None or (key_of(one) in self.new) is is_new)

    def for_cause(self, wanted: Because, *, is_new: bool | None = None) -> tuple[Resolution, ...]:
        """Return those with which something is to be done for one cause, likewise."""
        return tuple(one for name in self.by_class for one in self.of(name, is_new=is_new) if cause_of(one) is wanted)


class Assessment(Struct, frozen=True, kw_only=True):
    """What readers should do, how bad the news is, and why."""

    actions: tuple[Action, ...]  # worst first
    level: Level
    facts: tuple[Fact, ...]  # in the order of the report
    losses: tuple[AssessedLoss, ...]
    environment: EnvironmentState | None = None
    alternative: Alternative | None = None
    is_wait_over: bool = False  # readers who were told to wait need not do so any longer
    required: tuple[str, ...] = ()  # what to require, as openmpi@5.8.0, or Spack may choose what is older

    @property
    def is_waiting(self) -> bool:
        """Whether readers are to wait."""
        return any(one.verb is Verb.WAIT for one in self.actions)

    @property
    def due(self) -> tuple[Action, ...]:
        """The actions that this digest is the first to ask for."""
        return tuple(one for one in self.actions if not one.since)

    @property
    def still_open(self) -> tuple[Action, ...]:
        """The actions that earlier digests already asked for."""
        return tuple(one for one in self.actions if one.since)


# Statements on lost places and machines.
LOSSES = (StatementKind.PLACE_LOST, StatementKind.MACHINE_LOST)
_VALUES = (StatementKind.MIGRATION, StatementKind.BESIDE, StatementKind.NO_LONGER)
_RANKS = {
    StatementKind.SUSPICIOUS: Rank.SUSPICION,
    StatementKind.TAG_REMOVED: Rank.GONE,
    StatementKind.PACKAGE_REMOVED: Rank.GONE,
    StatementKind.STACK_REMOVED: Rank.HARMLESS,  # unless it has worse losses
    StatementKind.PLACE_LOST: Rank.HARMLESS,
    StatementKind.MACHINE_LOST: Rank.HARMLESS,
    StatementKind.STACK_MERGED: Rank.MERGED,
    StatementKind.DOWNGRADED: Rank.DOWNGRADED,
    **dict.fromkeys(_VALUES, Rank.VALUES),
    StatementKind.RETURNED: Rank.RETURNED,
    StatementKind.REBUILD_WAVE: Rank.WAVE,
    StatementKind.UPGRADED: Rank.UPGRADED,
    StatementKind.TAG_ADDED: Rank.ADDED,
    StatementKind.STACK_ADDED: Rank.ADDED,
    StatementKind.PACKAGE_ADDED: Rank.ADDED,
    StatementKind.TURNOVER: Rank.TURNOVER,
    StatementKind.PRUNE: Rank.PRUNE,
    StatementKind.PRUNED: Rank.PRUNE,
    StatementKind.SURPLUS: Rank.PRUNE,
    StatementKind.EXTRA_COPY: Rank.PRUNE,
    StatementKind.REBUILT: Rank.PRUNE,
}
_ORDER = list(LossClass)
# For what causes something is to be done about binaries of an environment, and what.
ENVIRONMENT = {
    Because.ENVIRONMENT_GONE: Verb.BUILD,
    Because.ENVIRONMENT_LAST: Verb.COPY,
    Because.ENVIRONMENT_LAST_OTHER: Verb.COPY,
    Because.ENVIRONMENT_OTHER: Verb.RECONCRETIZE,
    Because.ENVIRONMENT_EQUAL: Verb.RECONCRETIZE,
    Because.ENVIRONMENT_GOING: Verb.RECONCRETIZE,
}
# What is asked of those who have no environment that is watched, and remembered: whether they did it cannot be seen.
_BACK = (StatementKind.RETURNED, StatementKind.PACKAGE_ADDED, StatementKind.STACK_ADDED, StatementKind.PLACE_GAINED)
_WENT = (StatementKind.PRUNED, StatementKind.PRUNE, StatementKind.PACKAGE_REMOVED)
# Of these each package is remembered by itself, until a statement of one of these kinds says that it is settled.
_ENDS = {
    Because.STACK_REMOVED: (*_BACK, *_WENT),
    Because.GOING: (*_BACK, *_WENT),
    Because.GONE: _BACK,
    Because.DOWNGRADED: (StatementKind.UPGRADED, StatementKind.PACKAGE_REMOVED),
}
TASKS = (
    *_ENDS,
    Because.OTHER,
    Because.OLD_BUILDS,
    Because.TURNOVER,
)
_VERBS, _CAUSES = list(Verb), list(Because)
_NOTICED = (StatementKind.DOWNGRADED, StatementKind.NO_LONGER, StatementKind.TURNOVER, StatementKind.UNREFERENCED)


def assess(
    tags: Sequence[ComparedTag],
    *,
    environment: CoverageChange | None = None,
    pins: Sequence[Pinned] = (),
    known: Known | None = None,
    alternative: Alternative | None = None,
    is_unknown: bool = False,
) -> Assessment:
    """Decide what readers should do about the changes in `tags`.

    The statements of `tags` are those that are reported, without silenced ones. `is_unknown` means that the changes in
    some source are unknown. `known` has the facts of earlier digests, and `alternative` the best snapshot for the
    environment.
    """
    known = known or Known()
    compared = {(tag.source, tag.base): tag.statements for tag in tags}
    pins = [
        replace(pin, statements=compared.get((pin.source, pin.tag))) if pin.statements is None else pin for pin in pins
    ]
    suspicious = {
        (tag.source, tag.tag): one.packages
        for tag in tags
        for one in tag.statements
        if one.kind is StatementKind.SUSPICIOUS and (tag.source, tag.tag) not in known.confirmed
    }
    waiting = frozenset(package for found in (*suspicious.values(), *known.waiting.values()) for package in found)
    own = None if environment is None else state_of(environment, known.met, waiting)
    waits = list(_waits(suspicious, known))
    gone_pins = [pin for pin in pins if pin.is_gone]
    facts = [
        *(Fact(rank=Rank.PIN_GONE, kind="pin-gone", pin=pin) for pin in gone_pins),
        *([Fact(rank=Rank.ENVIRONMENT, kind="environment")] if own and own.is_news and not waits else []),
        *_facts(tags, known, has_environment=own is not None),
    ]
    facts.sort(key=lambda one: (one.rank, -_ORDER.index(one.worst) if one.worst else 0))
    settled = [one for one in known.tasks if _is_settled(one, tags)]
    tasks = [one for one in known.tasks if one not in settled]
    pruned = list(_pruned(settled, tasks, tags))
    actions = [*_of_environment(own, tags, is_new=False), *_of_pins(pins), *pruned]
    looks = list(_looks([one for one in facts if not _is_compared_with(one, pins)], has_environment=own is not None))
    actions += _not_asked(looks, [*tasks, *(replace(one, because=Because.GONE, tag="") for one in pruned)])
    actions = [each for action in actions for each in _dated(action, known)]
    actions += _of_environment(own, tags, is_new=True)  # not dated, because these became worse now
    asked = {each for one in actions for each in one.subjects}
    actions += _together(one for one in tasks if asked.isdisjoint(one.subjects))
    places = {(one.source, one.tag) for one in waits}
    actions = [*waits, *(one for one in actions if not (waits and _can_wait(one, places)))]
    actions.sort(key=_order)
    return Assessment(
        actions=tuple(actions),
        level=Level.ALARM
        if waits
        else _level(
            facts,
            own,
            is_notice=is_unknown
            or any(tag.is_incomplete for tag in tags)
            or any(pin.is_ending for pin in pins)
            or any(one.because is Because.PRUNED for one in actions),
        ),
        facts=tuple(facts),
        losses=tuple(
            AssessedLoss(tag=tag, statement=one, lost=lost)
            for tag in tags
            for one in tag.statements
            for lost in one.losses
            if lost.loss is not None
        ),
        environment=own,
        alternative=alternative if own is not None and any(map(own.for_cause, ENVIRONMENT)) else None,
        is_wait_over=not waits and any(verb is Verb.WAIT for _, verb, _ in known.since),
        required=tuple(
            dict.fromkeys(f"{one.need.package}@{one.need.version}" for one in own.of(LossClass.GONE) if one.suggestion)
            if own is not None
            else dict.fromkeys(
                version for one in actions if one.because is Because.DOWNGRADED for version in one.versions
            )
        ),
    )


def _order(action: Action) -> tuple[object, ...]:
    """Return a key that sorts actions by urgency; what readers should copy is more urgent than what they should keep."""
    is_open = action.verb is Verb.LOOK and bool(action.since)
    cause = _CAUSES.index(action.because)
    return (_VERBS.index(action.verb), is_open, not action.is_copy, cause, action.since)


def _is_settled(task: Action, tags: Iterable[ComparedTag]) -> bool:
    """Tell whether a statement about the package of an open task says that nothing is left to do."""
    return any(
        statement.kind in _ENDS.get(task.because, ())
        and not set(task.names).isdisjoint(statement.packages)
        and (statement.kind is not StatementKind.UPGRADED or _is_caught_up(task, statement))
        for tag in tags
        if (tag.source, tag.tag) == (task.source, task.tag)
        for statement in (*tag.statements, *tag.rest)
    )


def _is_caught_up(task: Action, statement: Statement) -> bool:
    """Tell whether an upgrade reaches the version that an open task requires."""
    required = dict(one.split("@", 1) for one in task.versions)
    return any(
        not is_newer(required.get(line.package, ""), than=after)
        for line in statement.lines
        if line.package in task.names
        for _, after in line.story.pairs[-1:]
    )


def _pruned(settled: Iterable[Action], tasks: Sequence[Action], tags: Iterable[ComparedTag]) -> Iterator[Action]:
    """Yield what was pruned of the packages that readers were warned of."""
    went = {
        (tag.source, tag.tag, package)
        for tag in tags
        for one in (*tag.statements, *tag.rest)
        if one.kind in _WENT
        for package in one.packages
    }
    for one in _together(each for each in settled if each.is_copy):
        names = tuple(name for name in one.names if (one.source, one.tag, name) in went)
        left = (each for each in tasks if replace(each.only(()), since="") == replace(one.only(()), since=""))
        if names:
            yield replace(
                one.only(names),
                because=Because.PRUNED,
                name=one.since,
                others=tuple(name for each in left for name in each.names),
                since="",
            )


def _not_asked(looks: Iterable[Action], tasks: Iterable[Action]) -> Iterator[Action]:
    """Yield what to look after without what is said of the same packages already, of another tag or as pruned."""
    told = {(one.because, one.source, name): one.tag for one in tasks for name in one.names}
    for one in looks:
        names = [name for name in one.names if told.get((one.because, one.source, name), one.tag) == one.tag]
        if names or not one.names:
            yield one.only(names) if len(names) < len(one.names) else one


def _together(tasks: Iterable[Action]) -> Iterator[Action]:
    """Yield open tasks, one for all packages with the same cause, place and day."""
    groups: dict[Action, list[Action]] = {}
    for one in tasks:
        groups.setdefault(one.only(()), []).append(one)
    for key, group in groups.items():
        names = tuple(sorted(name for one in group for name in one.names))
        versions = tuple(sorted(version for one in group for version in one.versions))
        yield replace(key, names=names, versions=versions, count=len(names))


def _facts(tags: Sequence[ComparedTag], known: Known, *, has_environment: bool) -> Iterator[Fact]:
    """Yield the facts of all tags; equal statements in several tags are one fact."""
    same: dict[object, tuple[Statement, list[ComparedTag]]] = {}
    for tag in tags:
        if tag.base:
            yield Fact(rank=Rank.SNAPSHOT, kind="snapshot", tags=(tag,), worst=_worst(tag.statements))
        for one in tag.statements:
            if tag.base and one.kind is StatementKind.TAG_ADDED and one.name == tag.tag:
                continue
            if has_environment and one.kind is StatementKind.TURNOVER:
                continue  # its binaries are reported one by one
            key = (one.kind, one.name, one.before, one.after, one.packages, bool(tag.base))
            same.setdefault(key, (one, []))[1].append(tag)
    for one, found in same.values():
        rank = _rank(one, found, known, has_environment=has_environment)
        yield Fact(rank=rank, kind=_kind_of(one, found[0]), statement=one, worst=one.worst, tags=tuple(found))


def _kind_of(one: Statement, tag: ComparedTag) -> str:
    """Return the kind of a statement, or a special one for packages missing for long and for more new snapshots."""
    if one.kind is StatementKind.PACKAGE_REMOVED and not one.name:
        return "missing"
    return "snapshot-named" if one.kind is StatementKind.TAG_ADDED and one.name != tag.tag else one.kind


def _rank(one: Statement, tags: Sequence[ComparedTag], known: Known, *, has_environment: bool) -> Rank:
    """Rank a statement by its kind and its worst loss. With an environment, losses count by its binaries instead."""
    rank = _RANKS.get(one.kind, Rank.REST)
    if one.kind is StatementKind.SUSPICIOUS:
        return Rank.GONE if all((tag.source, tag.tag) in known.confirmed for tag in tags) else rank
    if one.kind in (StatementKind.TAG_REMOVED, StatementKind.TAG_ADDED):
        # The deletion of an old snapshot is routine.
        of_snapshot = {StatementKind.TAG_REMOVED: Rank.PRUNE, StatementKind.TAG_ADDED: Rank.SNAPSHOT}
        return of_snapshot[one.kind] if is_snapshot(one.name) else rank
    if has_environment:
        is_loss = rank in (Rank.GONE, Rank.HARMLESS, Rank.DOWNGRADED)
        return Rank.REST if is_loss and one.worst not in (LossClass.KEPT, LossClass.EQUAL) else rank
    if one.worst in MISSED:
        rank = min(rank, Rank.GONE if one.worst is LossClass.GONE else Rank.MISSED)
    # What a new snapshot lacks is not an alarm.
    return max(rank, Rank.MISSED) if tags[0].base else rank


def _worst(statements: Iterable[Statement]) -> LossClass | None:
    found = [one.worst for one in statements if one.worst is not None]
    found += [LossClass.GONE for one in statements if one.kind is StatementKind.PACKAGE_REMOVED]
    return max(found, key=_ORDER.index, default=None)


def packages_of(losses: Iterable[OwnedLoss], wanted: LossClass) -> tuple[str, ...]:
    """Return the packages whose worst loss has the class `wanted`."""
    worst: dict[str, int] = {}
    for one in losses:
        if one.loss is not None:
            worst[one.package] = max(worst.get(one.package, 0), _ORDER.index(one.loss.loss_class))
    return tuple(sorted(package for package, found in worst.items() if found == _ORDER.index(wanted)))


def lacking(statements: Iterable[Statement], wanted: LossClass = LossClass.GONE) -> tuple[str, ...]:
    """Return the packages whose worst loss in any of the statements has the class `wanted`."""
    statements = list(statements)
    return packages_of((lost for one in statements for lost in one.losses), wanted)


def lost_packages(statements: Iterable[Statement]) -> tuple[str, ...]:
    """Return the packages that a new snapshot lacks in some place."""
    statements = list(statements)
    return tuple(sorted({*lacking(statements), *removed_packages(statements)}))


def removed_packages(statements: Iterable[Statement]) -> frozenset[str]:
    """Return the packages that a tag has nowhere any more."""
    return frozenset(
        package for one in statements if one.kind is StatementKind.PACKAGE_REMOVED for package in one.packages
    )


def cause_of(covered: Resolution) -> Because | None:
    """Return for what cause something is to be done about a binary of an environment; None if nothing is."""
    is_last = covered.left is Availability.LOST and not covered.has_newer
    if covered.loss_class is LossClass.GOING and is_last:
        return Because.ENVIRONMENT_LAST if covered.is_met else Because.ENVIRONMENT_LAST_OTHER
    return None if covered.loss_class is LossClass.KEPT else Because(f"environment-{covered.loss_class}")


def key_of(covered: Resolution) -> str:
    """Return a key for a binary of an environment: its hash, or else package and version."""
    need = covered.need
    return need.hash or f"{need.package}@{need.version}"


def state_of(
    change: CoverageChange, met: frozenset[str] = frozenset(), waiting: frozenset[str] = frozenset()
) -> EnvironmentState:
    """Return what the cache has of each binary; `met` are the hashes that were ever present.

    Missing binaries of packages in `waiting`, which publishing may have failed for, are left out.
    """
    was_there = {key_of(one) for one in change.before.needs if one.is_met} | met
    had_build = {key_of(one) for one in (*change.newly_lost, *change.newly_going)}
    by_class: dict[LossClass, list[Resolution]] = {}
    not_here = []
    for one in change.after.needs:
        if not one.is_met and one.need.package in waiting:
            continue
        if one.is_met or key_of(one) in was_there or key_of(one) in had_build:
            by_class.setdefault(one.loss_class, []).append(one)
        else:
            not_here.append(one)
    gone = {key_of(one) for one in change.before.needs if one.loss_class is LossClass.GONE}
    worse = (one for one in by_class.get(LossClass.GONE, ()) if key_of(one) not in gone)  # they had a newer version
    new = (*change.removed, *change.newly_lost, *change.newly_going, *worse)
    return EnvironmentState(
        change=change,
        by_class={name: tuple(found) for name, found in by_class.items()},
        new=frozenset(key_of(one) for one in new if one.is_met or one.need.package not in waiting),
        not_here=tuple(not_here),
    )


def _waits(suspicious: Mapping[tuple[str, str], tuple[str, ...]], known: Known) -> Iterator[Action]:
    """Yield for which tags readers are to wait: for what is suspicious now, and for what they still wait for."""
    for (source, tag), names in (dict(known.waiting) | dict(suspicious)).items():
        wait = Action(verb=Verb.WAIT, because=Because.SUSPICIOUS, source=source, tag=tag, names=names, count=len(names))
        since = known.since.get((source, Verb.WAIT, wait.subjects[0]), "")
        if (source, tag) in suspicious:
            yield wait
        elif since:
            yield replace(wait, since=since)


def _can_wait(action: Action, places: Collection[tuple[str, str]]) -> bool:
    """Tell whether an action installs or re-concretizes what may be missing for a while only."""
    return action.because in ENVIRONMENT or (action.because in TASKS and (action.source, action.tag) in places)


def _of_environment(own: EnvironmentState | None, tags: Sequence[ComparedTag], *, is_new: bool) -> Iterator[Action]:
    if own is None:
        return
    tag = tags[0] if len(tags) == 1 else None
    for because, verb in ENVIRONMENT.items():
        if found := own.for_cause(because, is_new=is_new):
            yield Action(
                verb=verb,
                because=because,
                source=tag.source if tag else "",
                tag=tag.tag if tag else "",
                names=tuple(dict.fromkeys(one.need.package for one in found)),
                count=len(found),
            )


def _of_pins(pins: Iterable[Pinned]) -> Iterator[Action]:
    for pin in pins:
        if pin.is_gone:
            yield Action(
                verb=Verb.MOVE,
                because=Because.PIN_GONE,
                source=pin.source,
                tag=pin.best or pin.newest,
                name=pin.tag,
                others=(pin.newest,) if pin.best else pin.others,
                names=lost_by_moving(pin)[0] if pin.best else (),
            )
        elif pin.newest and (pin.move is not None or pin.statements is not None):
            lost, others = lost_by_moving(pin)
            verb, because = (Verb.STAY, Because.SNAPSHOT_LACKS) if lost else (Verb.MOVE, Because.SNAPSHOT)
            tag, name = (pin.tag, pin.newest) if lost else (pin.newest, pin.tag)
            names = lost or others
            if pin.is_ending:
                verb, because, tag, name, names = Verb.MOVE, Because.PIN_ENDING, pin.newest, pin.tag, lost
            yield Action(
                verb=verb, because=because, source=pin.source, tag=tag, name=name, names=names, count=len(names)
            )


def lost_by_moving(pin: Pinned) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the packages that another snapshot lacks, and those that it has only in other builds or versions."""
    if pin.move is not None:
        return (
            tuple(dict.fromkeys(o.need.package for o in pin.move.removed if o.loss_class is LossClass.GONE)),
            tuple(dict.fromkeys(o.need.package for o in pin.move.removed if o.loss_class is LossClass.OTHER)),
        )
    statements = pin.statements or ()
    gone = lost_packages(statements)
    older = {package for one in statements if one.kind is StatementKind.DOWNGRADED for package in one.packages}
    return gone, tuple(sorted({*lacking(statements, LossClass.OTHER), *older}.difference(gone)))


def _is_compared_with(fact: Fact, pins: Iterable[Pinned]) -> bool:
    """Tell whether the fact compares a pinned snapshot with one that `stay` and `move` already cover."""
    pinned = {(pin.source, pin.tag) for pin in pins if pin.best or not pin.is_gone}
    return bool(fact.tags) and all((tag.source, tag.base) in pinned for tag in fact.tags)


def _looks(facts: Sequence[Fact], *, has_environment: bool) -> Iterator[Action]:
    """Yield what to look after, for readers without an environment or a pin."""
    found: dict[tuple[Because, str, str, bool, LossClass | None], list[Fact]] = {}
    for one in facts:
        statement = one.statement
        if statement is None or one.rank in (Rank.SUSPICION, Rank.PRUNE):
            continue
        because = _because(one)
        if because is None or (has_environment and because not in (Because.CONFIRMED, Because.TAG_REMOVED)):
            continue
        tag = one.tags[0]
        name = statement.name if because in (Because.STACK_REMOVED, Because.TAG_REMOVED) else ""
        if because in (Because.OLD_BUILDS, Because.TURNOVER):
            name = tag.day
        worst = one.worst if because is Because.STACK_REMOVED else None
        found.setdefault((because, tag.source, name, bool(tag.base), worst), []).append(one)
    for (because, _, name, _, worst), group in found.items():
        names = tuple(dict.fromkeys(package for one in group for package in one.packages))
        if worst is not None and group[0].statement is not None:
            gone = {package for one in facts if one.kind == "package-removed" for package in one.packages}
            lost = packages_of(group[0].statement.losses, worst)
            names = tuple(package for package in lost if package not in gone) or lost
        tag = group[0].tags[0]
        yield replace(
            _action(Verb.LOOK, because, tag, names, name),
            worst=worst,
            versions=tuple(_versions(because, names, group)),
            machine=_machine(names, tag),
            is_everywhere=removed_packages(tag.statements) >= set(names),
        )


def _versions(because: Because, names: Collection[str], facts: Iterable[Fact]) -> Iterator[str]:
    """Yield the versions that packages had before, as openmpi@5.8.0; of each package the newest."""
    had: dict[str, set[str]] = {}
    for one in (fact.statement for fact in facts if fact.statement is not None):
        for line in one.lines if because is Because.DOWNGRADED else ():
            had.setdefault(line.package, set()).update(before for before, _ in line.story.pairs if before)
        for lost in one.losses:
            had.setdefault(lost.package, set()).update(lost.versions)
    yield from (f"{name}@{newest(had[name])}" for name in names if had.get(name))


def _machine(names: Collection[str], tag: ComparedTag) -> str:
    """Return the target that lost packages, if it is one alone, and others still have them."""
    lost = [(one, each) for each in tag.statements for one in each.losses if one.loss and one.package in names]
    targets = {", ".join((*one.systems, one.place.target)) for one, _ in lost}
    is_whole = any(each.kind is StatementKind.PACKAGE_REMOVED for _, each in lost)
    return targets.pop() if len(targets) == 1 and not is_whole else ""


def _because(fact: Fact) -> Because | None:
    kind = fact.statement.kind if fact.statement else None
    if kind in _LOOKED_AT and (fact.worst in MISSED or kind is not StatementKind.STACK_REMOVED):
        return _LOOKED_AT[kind]
    if fact.worst in MISSED and fact.worst is not None:
        return Because(fact.worst.value)
    if kind in (StatementKind.REBUILD_WAVE, StatementKind.TURNOVER) and any(tag.base for tag in fact.tags):
        return None  # the earlier snapshot still has the binaries that lock files name
    if kind is StatementKind.REBUILD_WAVE and fact.statement and not fact.statement.counts.beside:
        return None
    return _LOOKED_AT_LAST.get(kind) if kind else None


# Reasons that depend only on the kind of statement: those that come before losses, and those that come after them.
_LOOKED_AT = {
    StatementKind.SUSPICIOUS: Because.CONFIRMED,
    StatementKind.TAG_REMOVED: Because.TAG_REMOVED,
    StatementKind.STACK_REMOVED: Because.STACK_REMOVED,
    StatementKind.PACKAGE_REMOVED: Because.GONE,
}
_LOOKED_AT_LAST = {
    StatementKind.DOWNGRADED: Because.DOWNGRADED,
    StatementKind.NO_LONGER: Because.NO_LONGER,
    StatementKind.REBUILD_WAVE: Because.OLD_BUILDS,
    StatementKind.TURNOVER: Because.TURNOVER,
}


def _action(verb: Verb, because: Because, tag: ComparedTag, names: tuple[str, ...], name: str = "") -> Action:
    return Action(verb=verb, because=because, source=tag.source, tag=tag.tag, name=name, names=names, count=len(names))


def _dated(action: Action, known: Known) -> Iterator[Action]:
    """Divide an action by the days on which its causes were first reported."""
    if action.verb is Verb.LOOK:
        yield action  # nobody can see whether readers did it
        return
    subjects = action.subjects
    days = {subject: known.since.get((action.source, action.verb, subject), "") for subject in subjects}
    if len(set(days.values())) == 1:
        yield replace(action, since=days[subjects[0]])
        return
    for day in sorted(set(days.values())):
        names = tuple(subject for subject in subjects if days[subject] == day)
        yield replace(action, since=day, names=names, count=len(names))


def _level(facts: Sequence[Fact], own: EnvironmentState | None, *, is_notice: bool) -> Level:
    if any(one.rank in (Rank.SUSPICION, Rank.PIN_GONE) or (own is None and one.rank is Rank.GONE) for one in facts):
        return Level.ALARM
    if own is not None and own.of(LossClass.GONE, is_new=True):
        return Level.ALARM
    if own is not None and (own.of(LossClass.OTHER, is_new=True) or own.of(LossClass.GOING, is_new=True)):
        return Level.NOTICE
    if is_notice or any(_is_noticed(one, has_environment=own is not None) for one in facts):
        return Level.NOTICE
    return Level.CALM


def _is_noticed(fact: Fact, *, has_environment: bool) -> bool:
    if fact.rank is Rank.MISSED or (fact.rank is Rank.SNAPSHOT and fact.worst in MISSED):
        return not has_environment
    if fact.kind == StatementKind.REBUILD_WAVE and fact.statement is not None:
        return fact.statement.counts.beside > 0
    if fact.kind == StatementKind.DOWNGRADED:
        return not has_environment
    return fact.kind in _NOTICED
