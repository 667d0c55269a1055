"""Statements, each with one cause and all items that it explains, and their kinds in order (docs/laws.md).

An item is a removed spec, an added spec, or a kept one whose stacks changed; the two of a pair stay together. Every
item is in exactly one statement.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from operator import add
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import astuple

from cachewatch.core.graphs_and_attribution import Cause
from cachewatch.core.kinds_and_specs import (
    LOSS_ORDER,
    Kind,
    Loss,
    LossClass,
    Machine,
    MatchKind,
    Outside,
    Place,
    SpecClass,
    Verdict,
)
from cachewatch.core.versions_spellings_targets import is_newer, variant_name


class Severity(StrEnum):
    """Whether readers must act on a statement, should know about it, or may ignore it."""

    ATTENTION = "attention"
    NEWS = "news"
    ROUTINE = "routine"


Judged = MatchKind | SpecClass | Verdict


class StatementKind(StrEnum):
    """The kinds of statements, most important first. Their words are in templates/words.toml."""

    rank: int
    severity: Severity
    of: tuple[Judged, ...]  # the matches, classes and verdicts for this kind, unless an earlier kind takes them

    def __new__(cls, word: str, severity: Severity = Severity.NEWS, *of: Judged) -> "StatementKind":  # noqa: D102
        kind = str.__new__(cls, word)
        kind._value_, kind.rank, kind.severity, kind.of = word, len(cls.__members__), severity, of
        return kind

    TAG_REMOVED = "tag-removed", Severity.ATTENTION
    TAG_ADDED = "tag-added", Severity.NEWS
    STACK_MERGED = "stack-merged", Severity.NEWS
    STACK_REMOVED = "stack-removed", Severity.ATTENTION
    STACK_ADDED = "stack-added", Severity.NEWS
    SUSPICIOUS = "suspicious", Severity.ATTENTION
    MIGRATION = "migration", Severity.NEWS
    BESIDE = "beside", Severity.NEWS
    NO_LONGER = "no-longer", Severity.ATTENTION
    RETURNED = "returned", Severity.NEWS
    PRUNE = "prune", Severity.ROUTINE
    REBUILD_WAVE = "rebuild-wave", Severity.NEWS
    TURNOVER = "turnover", Severity.NEWS
    PACKAGE_REMOVED = "package-removed", Severity.ATTENTION
    PACKAGE_ADDED = "package-added", Severity.NEWS
    PLACE_LOST = "place-lost", Severity.ATTENTION, SpecClass.LOST, Verdict.LOST
    MACHINE_LOST = "machine-lost", Severity.ATTENTION
    DOWNGRADED = "downgraded", Severity.ATTENTION, MatchKind.DOWNGRADED, Verdict.DOWNGRADED
    UPGRADED = "upgraded", Severity.NEWS, MatchKind.UPGRADED, Verdict.UPGRADED
    PLACE_GAINED = "place-gained", Severity.NEWS, SpecClass.GAINED, Verdict.GAINED
    RETIRED = "retired", Severity.NEWS, SpecClass.REPLACED, SpecClass.RETIRED, Verdict.RETIRED
    EXTENDED = "extended", Severity.NEWS, SpecClass.SUCCESSOR, SpecClass.EXTENDED, Verdict.EXTENDED
    NARROWED = "narrowed", Severity.NEWS, SpecClass.DROPPED, Verdict.NARROWED
    WIDENED = "widened", Severity.NEWS, SpecClass.NEW_COMBINATION, Verdict.WIDENED
    RECONFIGURED = "reconfigured", Severity.NEWS, MatchKind.RECOMPILED, MatchKind.RECONFIGURED
    MOVED = "moved", Severity.NEWS, MatchKind.MOVED
    UNREFERENCED = "unreferenced", Severity.NEWS, SpecClass.UNREFERENCED_NEW
    PRUNED = "pruned", Severity.ROUTINE, SpecClass.PRUNED
    SURPLUS = "surplus", Severity.ROUTINE, SpecClass.SURPLUS
    EXTRA_COPY = "extra-copy", Severity.ROUTINE, SpecClass.EXTRA_COPY
    REBUILT = "rebuilt", Severity.ROUTINE, MatchKind.REBUILT

    __hash__ = str.__hash__  # faster than that of an enumeration; it is hashed with every story

    @property
    def is_of_tag(self) -> bool:
        """Whether statements of this kind are about the whole tag."""
        return self.rank < StatementKind.PACKAGE_REMOVED.rank


# The kind of statement for each match, class and verdict.
STATEMENT_OF: Mapping[Judged, StatementKind] = {judged: kind for kind in StatementKind for judged in kind.of}

# Statements on lost places and machines, on rebuilt specs, and on compilers, systems, targets or variants of packages.
LOSSES = (StatementKind.PLACE_LOST, StatementKind.MACHINE_LOST)
OF_REBUILDS = (StatementKind.REBUILD_WAVE, StatementKind.REBUILT)
OF_VALUES = (StatementKind.MIGRATION, StatementKind.BESIDE, StatementKind.NO_LONGER)


class Attribute(NamedTuple):
    """A value that specs can have: a compiler, an operating system, a target or a variant."""

    kind: Kind
    text: str

    @property
    def name(self) -> str:
        """The kind of the value or, for a variant, its name; values with the same name exclude each other."""
        return variant_name(self.text) if self.kind is Kind.VARIANT else self.kind


class Story(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """What happened to some items of one package; a report describes it in one line.

    kind: what happened.  places: where it happened.  before, after: versions, or compilers, systems and variants; of a
    gained place, `before` are the versions of builds that are not selected.
    stays: of an upgrade, the old versions that are still in the tag, each with a place, unless it is the newest of a
    stack that is behind; of a downgrade, the new versions with places that had them before; of other compilers and
    variants, those that builds of the same versions keep, each with a stack (and no target).
    outside: the pairs in `stays` of which no build is selected.
    behind: of an upgrade, each selected stack whose newest version is older than the new one, with that version.
    of_stacks: of an up- or downgrade, the number of selected stacks that have selected builds of the package now.
    is_in_some: whether such a stack has the package for a target of the story, but no place in the story; of an upgrade
    for usual machines, only stacks that are behind count.
    is_elsewhere: whether any stack without a place in a downgrade has the package, selected or not.
    replaced: the versions that places of an upgrade do not have any more.
    only_with: of an upgrade, variants of the new builds, where old ones with other values stay; of older versions that
    took the place of newer builds, the variants with which their places have no newer build any more.
    is_thinned: whether these places have fewer builds of a version that they keep.
    pairs: of an up- or downgrade, the newest versions of places before and after.
    variants: the variants that places of an up- or downgrade lost and gained, if they keep others of the same name.
    still_there: the old versions of an upgrade that some stack still has.
    machine: the lost machine.  is_system: whether `before` and `after` begin with platforms or operating systems.
    versions: the versions of the specs if `is_system`; of a gained place, those newer than all that the package had; of
    other compilers and variants, the other versions in which `remaining` values are left, if only these have them.
    own: of a gained place, the versions of these specs; the place may have others.
    targets: the targets of a downgrade, if one of its stacks has as new a version for another target.
    systems: the platforms and operating systems of a downgrade, each with the place.
    remaining: the values that other specs in these stacks still have (systems, compilers, variants or versions); of a
    gained place, its operating systems if its stack had the package for none of them.
    """

    kind: StatementKind
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    places: frozenset[Place] = frozenset()
    stays: frozenset[tuple[str, Place]] = frozenset()
    outside: frozenset[tuple[str, Place]] = frozenset()
    behind: tuple[tuple[str, str], ...] = ()
    of_stacks: int = 0
    is_in_some: bool = False
    is_elsewhere: bool = False
    replaced: tuple[str, ...] = ()
    only_with: tuple[str, ...] = ()
    is_thinned: bool = False
    pairs: tuple[tuple[str, str], ...] = ()
    variants: tuple[frozenset[tuple[str, Place]], frozenset[tuple[str, Place]]] = (frozenset(), frozenset())
    targets: tuple[str, ...] = ()
    systems: frozenset[tuple[str, str, Place]] = frozenset()
    machine: Machine | None = None
    is_system: bool = False
    versions: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()

    @property
    def still_there(self) -> frozenset[str]:
        """The old versions of an upgrade that some stack of the tag still has."""
        versions = {version for version, _ in self.stays} | {version for _, version in self.behind}
        return frozenset(versions.intersection(self.before))


class Counts(Struct, frozen=True, gc=False):
    """The numbers of vanished, new and kept specs in items."""

    vanished: int = 0
    new: int = 0
    kept: int = 0
    entered: int = 0  # of `kept`, those that entered the selection
    left: int = 0  # of `kept`, those that left it
    unbuilt: int = 0  # of `kept`, those that no stack builds any more; a selection of stacks is left by all of them
    unbuilt_new: int = 0  # new specs that no stack builds; they are new in place of ones that one built, or alone
    alone: int = 0  # new specs less vanished ones, of pairs of which the other spec is not in the selection

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*map(add, astuple(self), astuple(other)))

    @property
    def total(self) -> int:
        """The number of all specs; a pair counts as two."""
        return self.vanished + self.new + self.kept

    @property
    def stayed(self) -> int:
        """The number of kept specs that neither entered nor left the selection."""
        return self.kept - self.entered - self.left

    @property
    def without_stack(self) -> int:
        """The number of kept and new specs that no stack builds any more."""
        return self.unbuilt + self.unbuilt_new

    @property
    def beside(self) -> int:
        """The number of new specs that replaced no vanished ones."""
        return self.new - self.vanished - self.alone

    @property
    def never_built(self) -> int:
        """The number of new specs that no stack builds and that replaced no other specs."""
        return max(0, min(self.unbuilt_new, self.beside))

    @property
    def specs(self) -> int:
        """The number of specs; a pair counts as one."""
        return max(self.vanished, self.new) + self.kept


class _Changed(Struct, frozen=True, kw_only=True):
    """The fields that Items, and a Line about them, have in common."""

    package: str
    left: frozenset[str] = frozenset()  # stacks that the items left
    joined: frozenset[str] = frozenset()  # stacks that the items joined
    staying: frozenset[str] = frozenset()  # of `left` and `joined`, those that have the version before and after
    # Of `left` and `joined`, those that have as many equal builds as before, shared with other stacks or not.
    even: frozenset[str] = frozenset()
    stacks: frozenset[str] = frozenset()  # all stacks that have or had the items
    vanished_from: frozenset[str] = frozenset()  # the stacks that built the vanished ones of the items
    machines: frozenset[str] = frozenset()  # names of the machines for which their places had no build before
    counts: Counts = Counts()
    kinds: frozenset[Kind] = frozenset()


class Items(_Changed, frozen=True, kw_only=True, gc=False):
    """Items of one package with the same change: removed, added or paired specs, or specs that changed stacks."""

    stories: tuple[Story, ...]  # possible descriptions; the first that no other statement explains is used
    gone_values: frozenset[Attribute] = frozenset()  # of vanished specs, that their stacks no longer have
    new_values: frozenset[Attribute] = frozenset()  # of new specs, that their stacks did not have before
    is_again: bool = False  # the same build was added again, in place of the old one or beside it
    is_prunable: bool = False  # only copies, older versions, or specs that no stack built are removed
    is_renamed: bool = False  # compared under the new names of renamed stacks
    # Only with the first items of a package: the losses of its places, and its up- and downgrades in others.
    losses: tuple["OwnedLoss", ...] = ()
    regraded: tuple[Story, ...] = ()


class Stay(Struct, frozen=True, kw_only=True):
    """How long something had been present without interruption before it was removed."""

    day: str  # the first one, in UTC: 2026-03-02
    or_before: bool = False  # it may have been present earlier: the record begins on this day
    days: float | None = None  # until it was removed; None if unknown
    is_least: bool = False  # `days` ends at the revision reported last, as the removal is not dated


def name_of(place: Place, machine: Machine | None = None) -> str:
    """Return the name of a place, `e4s (zen4)`, or of a machine there, `e4s (rhel8, zen4)`."""
    return f"{place.stack} ({', '.join((*([machine.os] if machine else []), place.target or 'no target'))})"


class OwnedLoss(Struct, frozen=True, kw_only=True):
    """A lost place or machine, with the package that it lost."""

    package: str
    place: Place
    machine: Machine | None = None  # that the place lost while it keeps others
    versions: tuple[str, ...] = ()  # lost versions, oldest first
    loss: Loss | None  # None if the whole tag is lost
    kinds: frozenset[Kind] = frozenset()  # of change in this place
    outside: Outside | None = None  # the builds of the place that are not selected
    # Targets for which the stack has the package now and had not before, each with its versions; of a lost machine,
    # operating systems.
    moved_to: tuple[tuple[str, tuple[str, ...]], ...] = ()
    is_elsewhere: bool = False  # the stack of a lost place has the package for other targets
    # The operating systems of a lost place; of Linux only if others have builds that its target runs.
    systems: tuple[str, ...] = ()
    machines: frozenset[Machine] = frozenset()  # for which the place lost it
    is_of_removed: bool = False  # the tag has no builds of the package any more
    was: tuple[Place, ...] = ()  # the place in stacks that were renamed
    told_as: StatementKind | None = None  # the up- or downgrade that the place has under the new name of its stack

    @property
    def name(self) -> str:
        """The name of the place or machine."""
        return name_of(self.place, self.machine)

    @property
    def machine_name(self) -> str:
        """The target that lost the package, with operating systems if these must be named: `sequoia, aarch64`."""
        return ", ".join(filter(None, (*self.machine_systems, self.place.target)))

    @property
    def machine_systems(self) -> tuple[str, ...]:
        """The operating systems that must be named with the target."""
        return (self.machine.os,) if self.machine else self.systems

    @property
    def fell_from(self) -> str:
        """The oldest lost version newer than what the place has outside of the selection; "" if there is none."""
        there = self.outside.version if self.outside and self.loss and self.loss.loss_class is LossClass.GONE else ""
        return next((version for version in self.versions if there and is_newer(version, there)), "")

    @property
    def sort_key(self) -> tuple[object, ...]:
        """A key that sorts by package, place and machine; a lost place comes before its lost machines."""
        return (self.package, self.place, self.machine is not None, self.machine)


class Turnover(Struct, frozen=True):
    """The number of hashes in the earlier state (`before`), and of those gone: rebuilt, pruned and others."""

    before: int
    rebuilt: int
    pruned: int
    others: int
    is_part: bool = False  # of selected specs alone

    @property
    def gone(self) -> int:
        """The number of hashes that are gone."""
        return self.rebuilt + self.pruned + self.others


class Line(_Changed, frozen=True, kw_only=True):
    """One line of a statement: what happened to some items of one package."""

    story: Story
    is_move: bool = False  # the same specs left stacks and joined others
    # Even if another line counts them: all specs that a place or machine lost, or those that no stack builds any more.
    here: Counts = Counts()
    values: tuple[str, ...] = ()  # compilers and the like to which its packages changed at the same time
    is_partly: bool = False  # whether some of its stacks do not have all of these values
    without: tuple[tuple[str, frozenset[str]], ...] = ()  # variants that it has no longer, each with the stacks
    # Of an up- or downgrade: what its specs are in stacks that keep their newest version.
    others: tuple[Story, ...] = ()
    stay: Stay | None = None  # how long removed specs had been present, if the history is indexed
    members: tuple[tuple[Items, Story], ...] = ()  # its items with their stories if their kinds of change differ


class Effect(Struct, frozen=True, gc=False):
    """A consequence that a statement mentions; no other statement counts its packages.

    In a statement about changed values, `before` and `after` are other values of the same specs that changed, too.
    """

    kind: StatementKind
    packages: tuple[str, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    specs: int = 0
    attribute: Kind | None = None  # what these values are


class CauseCount(Struct, frozen=True):
    """A cause, the number of rebuilt specs that are attributed to it alone, and the packages of these specs."""

    cause: Cause
    specs: int
    packages: tuple[str, ...]


class Statement(Struct, frozen=True, kw_only=True):
    """One cause with everything that it explains.

    kind: what happened.  name: the tag, stack, package or place.  id: unique among the statements of a tag.
    before, after: the values that were replaced and those that replaced them, such as compilers or versions.
    packages, places, stacks: all that the statement concerns.  counts: the numbers of specs.
    elsewhere: the number of specs of a new or removed stack or package that other statements count.
    of: the number of specs in the whole tag, if the statement is about the tag and only some specs are selected.
    of_packages: the number of packages of the tag, if the statement is about the whole tag.
    exceptions: the packages to which the same could have happened, but did not.
    effects: consequences that no other statement counts.
    causes: the causes of rebuilds, those of most specs first, if a graph is recorded.
    lines: what happened to each package.  kinds: the kinds of changes.
    losses: the lost places and machines that it explains.  worst: the worst class of these losses, or None.
    turnover: the numbers of hashes that are gone, or None.  severity: how much the statement matters to readers.
    is_harmless: whether it is about a lost place or machine, and the tag still has the lost specs or equal ones.
    is_everywhere: whether changed values changed in every stack in which the packages had the old ones.
    attributes: the kinds of the changed values (compiler, operating system, target or variant).
    """

    kind: StatementKind
    name: str = ""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    stacks: tuple[str, ...] = ()
    counts: Counts = Counts()
    elsewhere: int = 0
    of: int | None = None
    of_packages: int = 0
    exceptions: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    causes: tuple[CauseCount, ...] = ()
    lines: tuple[Line, ...] = ()
    kinds: frozenset[Kind] = frozenset()
    losses: tuple[OwnedLoss, ...] = ()
    turnover: Turnover | None = None
    is_everywhere: bool = True
    attributes: frozenset[Kind] = frozenset()

    @property
    def id(self) -> str:
        """A name for JSON that is unique among the statements of one tag."""
        return ":".join(filter(None, (self.kind, self.name or "+".join((*self.before, "", *self.after)).strip("+"))))

    @property
    def worst(self) -> LossClass | None:
        """The worst class of its losses, or None."""
        return max((one.loss.loss_class for one in self.losses if one.loss), key=LOSS_ORDER.index, default=None)

    @property
    def is_harmless(self) -> bool:
        """Whether it is about a lost place or machine, and the tag still has the lost specs or equal ones."""
        return self.kind in LOSSES and self.worst in (None, LossClass.KEPT, LossClass.EQUAL)

    @property
    def severity(self) -> Severity:
        """How much the statement matters to readers: as its kind says, or NEWS if it is harmless."""
        return Severity.NEWS if self.is_harmless else self.kind.severity


def packages_of(losses: Iterable[OwnedLoss], wanted: LossClass) -> tuple[str, ...]:
    """Return the packages whose worst loss among `losses` has the class `wanted`."""
    worst: dict[str, int] = {}
    for one in losses:
        if one.loss is not None:
            worst[one.package] = max(worst.get(one.package, 0), LOSS_ORDER.index(one.loss.loss_class))
    return tuple(sorted(package for package, found in worst.items() if found == LOSS_ORDER.index(wanted)))


def lacking(statements: Iterable[Statement], wanted: LossClass = LossClass.GONE) -> tuple[str, ...]:
    """Return the packages whose worst loss in any of the `statements` has the class `wanted`."""
    return packages_of((lost for one in statements for lost in one.losses), wanted)


def lost_packages(statements: Collection[Statement]) -> tuple[str, ...]:
    """Return the packages, sorted, that were removed or that lost a place without a replacement (class gone)."""
    return tuple(sorted({*lacking(statements), *removed_packages(statements)}))


def removed_packages(statements: Iterable[Statement]) -> frozenset[str]:
    """Return the packages that, as the `statements` say, the tag does not have any more."""
    return frozenset(
        package for one in statements if one.kind is StatementKind.PACKAGE_REMOVED for package in one.packages
    )


def in_order(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Return statements sorted by the rank of their kind; within a kind, most specs first, then most stacks."""

    def key(one: Statement) -> tuple[object, ...]:
        items = max(one.counts.total, sum(line.here.total for line in one.lines))
        return one.kind.rank, -items, -len(one.stacks), one.name, one.before, one.after

    return tuple(sorted(statements, key=key))
