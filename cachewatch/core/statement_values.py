"""Statements as values: each is one cause with all items that it explains. Also the order in which they are told.

An item is a vanished spec, a new spec, or a kept one whose stacks changed; the two of a pair stay together.
Every item is in exactly one statement. The rules are in docs/laws.md.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.causes import Cause
from cachewatch.core.model import Kind, Loss, LossClass, Machine, MatchKind, Place, SpecClass, Verdict


class StatementKind(StrEnum):
    """What a statement is about, in the order in which statements take their items."""

    TAG_REMOVED = "tag-removed"
    TAG_ADDED = "tag-added"
    STACK_MERGED = "stack-merged"
    STACK_REMOVED = "stack-removed"
    STACK_ADDED = "stack-added"
    SUSPICIOUS = "suspicious"
    MIGRATION = "migration"
    BESIDE = "beside"
    NO_LONGER = "no-longer"
    RETURNED = "returned"
    PRUNE = "prune"
    REBUILD_WAVE = "rebuild-wave"
    TURNOVER = "turnover"
    PACKAGE_REMOVED = "package-removed"
    PACKAGE_ADDED = "package-added"
    PLACE_LOST = "place-lost"
    MACHINE_LOST = "machine-lost"
    DOWNGRADED = "downgraded"
    UPGRADED = "upgraded"
    PLACE_GAINED = "place-gained"
    RETIRED = "retired"
    EXTENDED = "extended"
    NARROWED = "narrowed"
    WIDENED = "widened"
    RECONFIGURED = "reconfigured"
    MOVED = "moved"
    UNREFERENCED = "unreferenced"
    PRUNED = "pruned"
    SURPLUS = "surplus"
    EXTRA_COPY = "extra-copy"
    REBUILT = "rebuilt"

    __hash__ = str.__hash__  # it is hashed with every story; an enumeration's own takes longer


class Severity(StrEnum):
    """Whether readers have to act on a statement, want to know it, or may ignore it."""

    ATTENTION = "attention"
    NEWS = "news"
    ROUTINE = "routine"


RANKS = {kind: rank for rank, kind in enumerate(StatementKind)}

Told = MatchKind | SpecClass | Verdict


class _KindRow(NamedTuple):
    severity: Severity
    of: tuple[Told, ...] = ()  # the matches, classes and verdicts that are told as this, unless a rule above takes them


# All that is known of each kind of statement but its words (report/words.py).
_ROWS = {
    StatementKind.TAG_REMOVED: _KindRow(Severity.ATTENTION),
    StatementKind.TAG_ADDED: _KindRow(Severity.NEWS),
    StatementKind.STACK_MERGED: _KindRow(Severity.NEWS),
    StatementKind.STACK_REMOVED: _KindRow(Severity.ATTENTION),
    StatementKind.STACK_ADDED: _KindRow(Severity.NEWS),
    StatementKind.SUSPICIOUS: _KindRow(Severity.ATTENTION),
    StatementKind.MIGRATION: _KindRow(Severity.NEWS),
    StatementKind.BESIDE: _KindRow(Severity.NEWS),
    StatementKind.NO_LONGER: _KindRow(Severity.ATTENTION),
    StatementKind.RETURNED: _KindRow(Severity.NEWS),
    StatementKind.PRUNE: _KindRow(Severity.ROUTINE),
    StatementKind.REBUILD_WAVE: _KindRow(Severity.NEWS),
    StatementKind.TURNOVER: _KindRow(Severity.NEWS),
    StatementKind.PACKAGE_REMOVED: _KindRow(Severity.ATTENTION),
    StatementKind.PACKAGE_ADDED: _KindRow(Severity.NEWS),
    StatementKind.MACHINE_LOST: _KindRow(Severity.ATTENTION),
    StatementKind.DOWNGRADED: _KindRow(Severity.ATTENTION, (MatchKind.DOWNGRADED, Verdict.DOWNGRADED)),
    StatementKind.UPGRADED: _KindRow(Severity.NEWS, (MatchKind.UPGRADED, Verdict.UPGRADED)),
    StatementKind.PLACE_LOST: _KindRow(Severity.ATTENTION, (SpecClass.LOST, Verdict.LOST)),
    StatementKind.PLACE_GAINED: _KindRow(Severity.NEWS, (SpecClass.GAINED, Verdict.GAINED)),
    StatementKind.RETIRED: _KindRow(Severity.NEWS, (SpecClass.REPLACED, SpecClass.RETIRED, Verdict.RETIRED)),
    StatementKind.EXTENDED: _KindRow(Severity.NEWS, (SpecClass.SUCCESSOR, SpecClass.EXTENDED, Verdict.EXTENDED)),
    StatementKind.NARROWED: _KindRow(Severity.NEWS, (SpecClass.DROPPED, Verdict.NARROWED)),
    StatementKind.WIDENED: _KindRow(Severity.NEWS, (SpecClass.NEW_COMBINATION, Verdict.WIDENED)),
    StatementKind.RECONFIGURED: _KindRow(Severity.NEWS, (MatchKind.RECOMPILED, MatchKind.RECONFIGURED)),
    StatementKind.MOVED: _KindRow(Severity.NEWS, (MatchKind.MOVED,)),
    StatementKind.UNREFERENCED: _KindRow(Severity.NEWS, (SpecClass.UNREFERENCED_NEW,)),
    StatementKind.PRUNED: _KindRow(Severity.ROUTINE, (SpecClass.PRUNED,)),
    StatementKind.SURPLUS: _KindRow(Severity.ROUTINE, (SpecClass.SURPLUS,)),
    StatementKind.EXTRA_COPY: _KindRow(Severity.ROUTINE, (SpecClass.EXTRA_COPY,)),
    StatementKind.REBUILT: _KindRow(Severity.ROUTINE, (MatchKind.REBUILT,)),
}
# As what each match, class and verdict is told.
TOLD_AS: Mapping[Told, StatementKind] = {told: kind for kind, row in _ROWS.items() for told in row.of}


def is_of_tag(kind: StatementKind) -> bool:
    """Tell whether statements of this kind are about the whole tag."""
    return RANKS[kind] < RANKS[StatementKind.PACKAGE_REMOVED]


def severity_of(kind: StatementKind) -> Severity:
    """Return how much a statement of this kind matters."""
    return _ROWS[kind].severity


class Attribute(NamedTuple):
    """A compiler, operating system, target or variant."""

    kind: Kind
    text: str

    @property
    def name(self) -> str:
        """What of a package it is: two values of one variant exclude each other, of two variants they do not."""
        return self.text.lstrip("+~-").partition("=")[0] if self.kind is Kind.VARIANT else self.kind


class Story(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """What happened to some items, seen from their package: one line of a report."""

    kind: StatementKind
    before: tuple[str, ...] = ()  # versions, or what of a configuration was there
    after: tuple[str, ...] = ()
    places: frozenset[Place] = frozenset()  # in which it happened
    stays: frozenset[Place] = frozenset()  # of these, where the older of the two versions is still, or was before
    behind: tuple[str, ...] = ()  # stacks of the package whose newest version is older than the new one
    of_stacks: int = 0  # stacks that have the package now
    pairs: tuple[tuple[str, str], ...] = ()  # of an upgrade or a downgrade: newest versions before and after
    machine: Machine | None = None  # of a lost machine
    is_system: bool = False  # `before` and `after` are platforms, operating systems and targets
    versions: tuple[str, ...] = ()  # of these specs, where `before` and `after` are systems
    remaining: tuple[str, ...] = ()  # systems, and targets, that other such specs of these stacks have on both sides


class Counts(Struct, frozen=True, gc=False):
    """How many items there are."""

    vanished: int = 0
    new: int = 0
    kept: int = 0
    entered: int = 0  # of `kept`, those that came into the selection
    left: int = 0  # of `kept`, those that left it
    alone: int = 0  # new specs less vanished ones, of pairs of which the other spec is not in the selection

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.vanished + other.vanished,
            self.new + other.new,
            self.kept + other.kept,
            self.entered + other.entered,
            self.left + other.left,
            self.alone + other.alone,
        )

    @property
    def total(self) -> int:
        """All items; the two of a pair are two."""
        return self.vanished + self.new + self.kept

    @property
    def stayed(self) -> int:
        """Kept specs that neither came into the selection nor left it."""
        return self.kept - self.entered - self.left

    @property
    def beside(self) -> int:
        """How many new specs took no place of an old one."""
        return self.new - self.vanished - self.alone

    @property
    def specs(self) -> int:
        """How many specs that is, the two of a pair as one."""
        return max(self.vanished, self.new) + self.kept


class Items(Struct, frozen=True, kw_only=True, gc=False):
    """Items of one package to which the same happened."""

    package: str
    stories: tuple[Story, ...]  # as which it can be told; the first that no other statement explains
    left: frozenset[str] = frozenset()  # stacks
    joined: frozenset[str] = frozenset()
    staying: frozenset[str] = frozenset()  # of these stacks, those that have the version before and after
    stacks: frozenset[str] = frozenset()  # that have or had them
    gone_values: frozenset[Attribute] = frozenset()  # of vanished specs, which their stacks have no more
    new_values: frozenset[Attribute] = frozenset()  # of new specs, which their stacks did not have
    is_again: bool = False  # the same thing came again, in place of the old one or beside it
    is_prunable: bool = False  # nothing is missed but a copy, an older version, or what no stack built
    counts: Counts = Counts()
    kinds: frozenset[Kind] = frozenset()
    # Of the package, with its first items alone: what its places lost, and how versions changed in others.
    losses: tuple["OwnedLoss", ...] = ()
    regraded: tuple[Story, ...] = ()


class Stay(Struct, frozen=True, kw_only=True):
    """Since when something that was removed had been there, without a break."""

    day: str  # 2026-03-02, UTC
    or_before: bool = False
    days: float | None = None  # until it was removed; None where that cannot be told
    is_least: bool = False  # these are the days up to the revision that was told last; when it was removed is not known


class OwnedLoss(Struct, frozen=True, kw_only=True):
    """A lost place or machine, and the package that it lost."""

    package: str
    place: Place
    machine: Machine | None = None  # which the place lost while it keeps others
    versions: tuple[str, ...] = ()  # that were there, oldest first
    loss: Loss | None  # None with a whole tag

    @property
    def name(self) -> str:
        """What names the place, `e4s (zen4)`, or the machine, `e4s (rhel8, zen4)`."""
        system = (self.machine.os,) if self.machine else ()
        return f"{self.place.stack} ({', '.join((*system, self.place.target))})"

    @property
    def sort_key(self) -> tuple[object, ...]:
        """By package, place and machine; the place itself comes first."""
        return (self.package, self.place, self.machine is not None, self.machine)


class Turnover(Struct, frozen=True):
    """How many hashes of the earlier state are gone, and what became of their binaries."""

    before: int
    rebuilt: int
    pruned: int
    others: int

    @property
    def gone(self) -> int:
        """How many hashes are gone."""
        return self.rebuilt + self.pruned + self.others


class Line(Struct, frozen=True, kw_only=True):
    """One line of a statement: what happened to one package, with all of its items and kinds."""

    package: str
    story: Story
    left: frozenset[str] = frozenset()
    joined: frozenset[str] = frozenset()
    staying: frozenset[str] = frozenset()  # of these, as in Items
    is_move: bool = False  # the same specs left stacks and joined others
    stacks: frozenset[str] = frozenset()
    counts: Counts
    kinds: frozenset[Kind]
    values: tuple[str, ...] = ()  # compilers and the like that its packages went to at the same time
    stay: Stay | None = None  # of what was removed; where no history is indexed, nothing is known of it


class Effect(Struct, frozen=True, gc=False):
    """What followed from a statement, and is not counted again elsewhere."""

    kind: StatementKind
    packages: tuple[str, ...]


class CauseCount(Struct, frozen=True):
    """Of how many rebuilt specs something is the cause, and of which packages; each spec is counted once."""

    cause: Cause
    specs: int
    packages: tuple[str, ...]


class Statement(Struct, frozen=True, kw_only=True):
    """One cause, and everything that it explains."""

    kind: StatementKind
    name: str = ""  # of the tag, stack, package or place
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    stacks: tuple[str, ...] = ()
    counts: Counts = Counts()
    of: int | None = None  # items of the whole tag, where only some are selected
    of_packages: int = 0  # packages of the whole tag before, where it is about the whole tag
    exceptions: tuple[str, ...] = ()  # packages to which it did not happen, though it could have
    effects: tuple[Effect, ...] = ()
    causes: tuple[CauseCount, ...] = ()  # of rebuilds, most specs first; empty where no graph is recorded
    lines: tuple[Line, ...] = ()
    kinds: frozenset[Kind] = frozenset()
    losses: tuple[OwnedLoss, ...] = ()  # the lost places and machines that it explains
    turnover: Turnover | None = None
    severity: Severity

    @property
    def id(self) -> str:
        """What names it within the changes of one tag, for JSON."""
        return ":".join(filter(None, (self.kind, self.name or "+".join((*self.before, "", *self.after)).strip("+"))))

    @property
    def worst(self) -> LossClass | None:
        """The worst class of its losses; None without any."""
        order = list(LossClass)
        return max((one.loss.loss_class for one in self.losses if one.loss), key=order.index, default=None)

    @property
    def is_harmless(self) -> bool:
        """Whether a place or machine lost only what the tag still has, so that whoever installs misses nothing."""
        is_loss = self.kind in (StatementKind.PLACE_LOST, StatementKind.MACHINE_LOST)
        return is_loss and self.worst in (None, LossClass.KEPT, LossClass.EQUAL)


def graded(statement: Statement) -> Statement:
    """Return a statement with its severity: a place that lost only what the cache still has needs no attention."""
    return replace(statement, severity=Severity.NEWS if statement.is_harmless else severity_of(statement.kind))
