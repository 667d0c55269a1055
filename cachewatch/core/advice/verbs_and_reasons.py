"""The values of an assessment: what readers should do, why, and the facts behind it."""

from collections.abc import Collection, Mapping
from enum import IntEnum, StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from cachewatch.core.advice.environment_coverage import CoverageChange, Nearest, Need, Resolution
from cachewatch.core.kinds_and_specs import LossClass, Outside
from cachewatch.core.names_and_layouts import is_snapshot
from cachewatch.core.statement_kinds import LOSSES, OwnedLoss, Statement, packages_of
from cachewatch.core.versions_spellings_targets import is_newer, sorted_versions


class Verb(StrEnum):
    """What readers should do, the most urgent first."""

    WAIT = "wait"
    BUILD = "build"
    COPY = "copy"
    RECONCRETIZE = "reconcretize"
    STAY = "stay"
    MOVE = "move"
    LOOK = "look"


OF_LOCK_FILE = (Verb.BUILD, Verb.COPY, Verb.RECONCRETIZE)  # settled when the lock file of the environment changes


PINNED = (Verb.STAY, Verb.MOVE)  # what is asked of readers who pin a snapshot


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
    """The reason why readers should do something; templates/words.toml has the words for each reason."""

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
    PRUNED_BUILDS = "pruned-builds"  # these were pruned; until then, Spack may have reused them in newer lock files
    TURNOVER = "turnover"  # lock files name builds that are gone


class ComparedTag(Struct, frozen=True, kw_only=True):
    """One tag of one source, with the statements that a digest reports about this tag."""

    source: str
    tag: str
    base: str = ""  # the snapshot that this new one is compared with
    since: str = ""  # the day of the earlier revision: 2026-11-20
    day: str = ""  # of the later one
    statements: tuple[Statement, ...] = ()
    outdated: tuple[str, ...] = ()  # packages of which lock files may miss builds that no upgrade replaced
    is_incomplete: bool = False  # some documents cannot be read


class Pinned(Struct, frozen=True, kw_only=True):
    """A snapshot to which readers are pinned, and what they would gain and lose by moving to the newest snapshot."""

    tag: str
    source: str = ""  # empty where no source has it, or anything of its series
    is_gone: bool = False
    newest: str = ""  # newest snapshot of the series, if it is another one
    others: tuple[str, ...] = ()  # snapshots between this one and `newest`, the newest first
    # The newest of `others` that lacks nothing, if this one is gone or ending and `newest` lacks something.
    best: str = ""
    newer: int = 0  # number of newer snapshots of the series
    older: int = 0  # number of older snapshots: where old ones are deleted, these are deleted before this one
    is_ending: bool = False  # it may be deleted soon
    move: CoverageChange | None = None  # the comparison with the newest for the environment, if there is one
    statements: tuple[Statement, ...] | None = None  # the comparison with the newest without an environment
    is_news: bool = False  # since the last digest it is gone or among the oldest, or there is a newer one


class Alternative(Struct, frozen=True):
    """The snapshot with most binaries of an environment: `has` is their number, `of` the number of needed binaries."""

    tag: str
    has: int
    of: int


class Home(Struct, frozen=True):
    """A snapshot that still has a build that a tag lost or may lose, or a build of the version nearest to it."""

    tag: str
    version: str


class Known(Struct, frozen=True, kw_only=True):
    """The facts from earlier digests of the same subscription."""

    since: Mapping[tuple[str, Verb, str], str] = field(default_factory=dict)  # day by source, verb and name
    met: frozenset[str] = frozenset()  # hashes of the environment that were ever present
    confirmed: frozenset[tuple[str, str]] = frozenset()  # source and tag of which operators confirmed a suspicion
    # Packages that readers wait for, by source and tag.
    waiting: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    tasks: tuple["Action", ...] = ()  # that earlier digests asked for, and that nobody sees done
    quiet: tuple["Action", ...] = ()  # actions to copy that are no longer repeated
    # The present state of their builds, by source and tag.
    left: Mapping[tuple[str, str, Need], Resolution] = field(default_factory=dict)
    kept: Mapping[Need, Home] = field(default_factory=dict)  # where builds are left that are gone or may be pruned

    @property
    def was_waiting(self) -> bool:
        """Whether earlier digests asked readers to wait."""
        return any(verb is Verb.WAIT for _, verb, _ in self.since)


class Requirement(Struct, frozen=True, kw_only=True):
    """A version of a package to require or keep: `openmpi@5.8.0`, or `openmpi@5.8.0:` if newer versions will do."""

    spec: str
    machine: str = ""  # the machines or stacks whose users should do it; empty for all
    home: str = ""  # a snapshot that has it

    @property
    def package(self) -> str:
        """The name of the package."""
        return self.spec.partition("@")[0]


class Action(Struct, frozen=True, kw_only=True):
    """Something that readers should do."""

    verb: Verb
    because: Because
    source: str = ""
    tag: str = ""  # that it is about; the one to stay with or to move to
    # Of the stack, the other snapshot or what replaced a system; or the day before which lock files are outdated.
    name: str = ""
    names: tuple[str, ...] = ()  # packages
    needs: tuple[Need, ...] = ()  # builds of the packages that were lost, may be lost, or became older
    machine: str = ""  # target that lost the packages, if it is one alone, and others still have them
    is_everywhere: bool = False  # the packages are gone everywhere, in all versions
    outside: Outside | None = None  # what is there of gone packages outside of the selection
    # Other suitable snapshots; or packages that were not pruned yet; or versions, `zlib 3.4.0`, that lock files name.
    others: tuple[str, ...] = ()
    outdated: tuple[tuple[str, str], ...] = ()  # packages, with the day before which lock files may miss builds
    count: int = 0  # number of packages, or of binaries of an environment
    worst: LossClass | None = None  # the worst class of a removed stack's losses
    since: str = ""  # day on which its cause was first reported; empty if in this digest

    @property
    def subjects(self) -> tuple[str, ...]:
        """The names under which the state stores the action: one for each package, or one for its cause and tag."""
        if self.because in (Because.PIN_GONE, Because.PIN_ENDING):
            return (f"{self.because} {self.name}",)
        if self.because in LOCK_FILES:
            return (f"lock-files {self.tag}",)
        if self.because in LASTING:
            where = f" {self.machine}" if self.because in PLACED and self.machine else ""
            return tuple(f"{self.because} {self.tag} {self.name} {package}{where}" for package in self.names)
        if self.verb in (Verb.WAIT, Verb.LOOK):
            return (f"{self.because} {self.tag} {self.name}",)
        return self.names or (self.name,)

    def covers(self, task: "Action") -> bool:
        """Tell whether this action also asks for all that `task` asked for, on all machines or stacks of `task`."""
        if self.because not in PLACED:
            return self.source == task.source and not {*self.subjects}.isdisjoint(task.subjects)
        # What became older and then went, or is back in an older version, is required anew.
        is_placed = task.because in PLACED
        is_alike = is_placed and (self.is_requirement or (self.because is task.because and not task.is_requirement))
        told, asked = ((one.source, one.tag, "" if one.because is Because.PRUNED else one.name) for one in (self, task))
        if not is_alike or told != asked or not {*self.names} >= {*task.names}:
            return False
        # A target that is named without a system is lost for all systems. What no stack is named for, any stack of its
        # system has older now.
        own = {
            (one.package, one.os if one.stack or one.os in self.machine else "", one.target, stack)
            for one in self.needs
            for stack in {one.stack, "any"}
        }
        is_there = all(
            any((one.package, os, one.target, one.stack or "any") in own for os in ("", one.os)) for one in task.needs
        )
        return self.machine in ("", task.machine) or is_there

    def settles(self, task: "Action") -> bool:
        """Tell whether this action covers `task`, and asks for no version newer than those that `task` lost."""
        asked = {(one.package, one.version) for one in self.needs}
        lost = {(one.package, one.version) for one in task.needs}
        is_older = any(name == own and is_newer(had, went) for name, went in lost for own, had in asked)
        return self.covers(task) and not is_older

    @property
    def is_copy(self) -> bool:
        """Whether the action asks readers without an environment to copy builds that may be pruned."""
        is_stack_going = self.because is Because.STACK_REMOVED and self.worst is LossClass.GOING
        return is_stack_going or self.because is Because.GOING

    @property
    def is_migration(self) -> bool:
        """Whether the packages are gone because builds for another system or target replaced them."""
        return self.because is Because.GONE and bool(self.name)

    @property
    def is_requirement(self) -> bool:
        """Whether the action asks readers without an environment to require versions of its packages."""
        is_gone = self.because is Because.PRUNED or (self.because is Because.GONE and self.is_everywhere)
        return (is_gone or self.because is Because.DOWNGRADED) and not is_snapshot(self.tag)

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions of its builds, by package: `py-numpy@2.2,2.3`; after a downgrade, only the oldest of each."""
        had: dict[str, set[str]] = {}
        for need in self.needs:
            had.setdefault(need.package, set()).update(filter(None, [need.version]))
        most = 1 if self.because is Because.DOWNGRADED else None
        return tuple(f"{name}@{','.join(sorted_versions(had[name])[:most])}" for name in self.names if had.get(name))

    def only(self, names: Collection[str]) -> "Action":
        """Return the action, reduced to packages that are in `names`."""
        kept = tuple(name for name in self.names if name in names)
        needs = tuple(one for one in self.needs if one.package in kept)
        return replace(self, names=kept, needs=needs, count=len(kept))


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
        """The packages that the fact is about; of losses, only packages whose loss has the worst class."""
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
    """The binaries of an environment, grouped by what the cache still has of them."""

    change: CoverageChange
    by_class: Mapping[LossClass, tuple[Resolution, ...]]  # of those that were ever present
    new: frozenset[str]  # keys of those that became worse since the last digest
    again: frozenset[str]  # of these, those that were already missed before
    not_here: tuple[Resolution, ...]  # that were never present

    @property
    def is_news(self) -> bool:
        """Whether anything changed for the environment."""
        return bool(self.new or self.change.added or self.change.restored)

    def of(self, wanted: LossClass, *, is_new: bool | None = None) -> tuple[Resolution, ...]:
        """Return binaries of class `wanted`; `is_new`: True: only those newly worse, False: only others, None: all."""
        found = self.by_class.get(wanted, ())
        return tuple(one for one in found if is_new is None or (key_of(one) in self.new) is is_new)

    def for_cause(self, wanted: Because, *, is_new: bool | None = None) -> tuple[Resolution, ...]:
        """Return the binaries that need an action for the cause `wanted`; for `is_new`, see `of`."""
        return tuple(one for name in self.by_class for one in self.of(name, is_new=is_new) if cause_of(one) is wanted)


class Assessment(Struct, frozen=True, kw_only=True):
    """What readers should do, how bad the news is, and why."""

    actions: tuple[Action, ...]  # worst first
    paused: tuple[Action, ...] = ()  # that are due when readers need not wait any longer
    quiet: tuple[Action, ...] = ()  # actions that are no longer repeated, but whose end is reported
    level: Level
    facts: tuple[Fact, ...]  # in the order of the report
    losses: tuple[AssessedLoss, ...]
    environment: EnvironmentState | None = None
    alternative: Alternative | None = None
    is_wait_over: bool = False  # readers who were asked to wait need not wait any longer
    required: tuple[Requirement, ...] = ()  # or Spack may choose other versions
    to_copy: tuple[Requirement, ...] = ()  # what may be pruned
    gone: tuple[Requirement, ...] = ()  # what is gone, but not from all places
    # Packages that readers were asked to require and need not require any longer, with the stacks if not for all.
    lifted: tuple[tuple[str, str], ...] = ()

    @property
    def is_waiting(self) -> bool:
        """Whether readers should wait, because publishing may have failed."""
        return any(one.verb is Verb.WAIT for one in self.actions)

    @property
    def due(self) -> tuple[Action, ...]:
        """The actions that this digest is the first to ask for."""
        return tuple(one for one in self.actions if not one.since)

    @property
    def still_open(self) -> tuple[Action, ...]:
        """The actions that earlier digests already asked for."""
        return tuple(one for one in self.actions if one.since)


# Causes that concern all lock files that were made before a certain day.
LOCK_FILES = (Because.OLD_BUILDS, Because.PRUNED_BUILDS, Because.TURNOVER)
# Actions for readers without a watched environment; they are remembered, since nobody sees whether they were done.
# Each package is remembered by itself, until its tag has other builds than it had then.
LASTING = (Because.STACK_REMOVED, Because.GOING, Because.PRUNED, Because.GONE, Because.DOWNGRADED)
PLACED = (Because.PRUNED, Because.GONE, Because.DOWNGRADED)  # remembered by machine or stack, too


def cause_of(covered: Resolution) -> Because | None:
    """Return why readers must do something about the needed binary of `covered`; None if they need not."""
    is_last = covered.left is Nearest.NONE and not covered.has_newer
    if covered.loss_class is LossClass.GOING and is_last:
        return Because.ENVIRONMENT_LAST if covered.is_met else Because.ENVIRONMENT_LAST_OTHER
    return None if covered.loss_class is LossClass.KEPT else Because(f"environment-{covered.loss_class}")


def key_of(covered: Resolution) -> str:
    """Return the hash of the needed binary of `covered` or, if it has none, its PACKAGE@VERSION."""
    need = covered.need
    return need.hash or f"{need.package}@{need.version}"
