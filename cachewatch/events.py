"""What the totals of a comparison count, and what happened to the whole tag as events of the JSON."""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from cachewatch.causes import Cause
from cachewatch.model import Document, Event, Kind, PackageChange, SpecCounts, Status
from cachewatch.statements.judging import Judgement, Observation
from cachewatch.statements.values import Build, Items, Statement, StatementKind


class Tally(Struct):
    """The totals of what was selected, and what was seen of the whole tag."""

    specs: SpecCounts = field(default_factory=SpecCounts)
    changed: int = 0
    rebuilt_only: int = 0
    left_over: int = 0  # newly
    kinds: Counter[Kind] = field(default_factory=Counter)
    seen: Observation = field(default_factory=Observation)
    selected: list[Items] | None = None  # None where nothing was left out

    def observe(self, change: PackageChange, items: Sequence[Items]) -> None:
        """Take a package of the tag, selected or not."""
        self.seen.add(change, items)

    def witness(self, document: Document) -> None:
        """Take a package that did not change."""
        self.seen.witness(document)

    def note(self, change: PackageChange) -> None:
        """Note the kinds of what was selected of one package, reported or not."""
        self.kinds.update(change.kinds)

    def add(self, change: PackageChange) -> None:
        """Count what is reported of one package."""
        self.specs += change.counts
        self.changed += change.status is Status.CHANGED
        self.rebuilt_only += change.kinds == {Kind.REBUILT} and change.status is Status.CHANGED
        self.left_over += len(change.newly_left_over)

    def select(self, items: Sequence[Items]) -> None:
        """Take the items that were selected of one package, where not everything is."""
        if self.selected is not None:
            self.selected += items

    def join(self, other: "Tally") -> None:
        """Add the counts of other packages of the same tag."""
        self.specs += other.specs
        self.changed += other.changed
        self.rebuilt_only += other.rebuilt_only
        self.left_over += other.left_over
        self.kinds += other.kinds
        self.seen.join(other.seen)
        if other.selected is not None:
            self.selected = [*(self.selected or ()), *other.selected]


class Events(Struct, frozen=True, kw_only=True):
    """The events of one tag, and which lines of a report they make needless."""

    events: tuple[Event, ...] = ()
    judgement: Judgement = field(default_factory=Judgement)

    def explains(self, cause: Cause) -> bool:
        """Tell whether an event says all that a line of this cause would say."""
        judgement = self.judgement
        if judgement.whole is not None:
            return True
        if cause.swap is not None:
            return any(_is_swap(cause.swap, one.before, one.after) for one in judgement.migrations)
        if judgement.is_prune and cause.is_surplus:
            return True
        return (
            bool(cause.gained or cause.lost)
            and cause.gained <= set(judgement.gained)
            and cause.lost <= set(judgement.lost)
        )


_FIELDS = {"compilers": "compiler", "oses": "os", "targets": "target"}


def _is_swap(swap: tuple[str, str, str], before: Build, after: Build) -> bool:
    fact, old, new = swap
    name = _FIELDS[fact]
    return before == Build(**{name: old}) and after == Build(**{name: new})


_KINDS = {
    StatementKind.TAG_ADDED: Kind.TAG_ADDED,
    StatementKind.TAG_REMOVED: Kind.TAG_REMOVED,
    StatementKind.STACK_REMOVED: Kind.STACK_REMOVED,
    StatementKind.STACK_ADDED: Kind.STACK_ADDED,
    StatementKind.PRUNE: Kind.PRUNE,
    StatementKind.SUSPICIOUS: Kind.SUSPICIOUS,
}


def events_of(judgement: Judgement, statements: Sequence[Statement], tag_event: Event | None) -> Events:
    """Return what happened to the whole tag, from its statements."""
    found = [tag_event] if tag_event else []
    found += _events(statements)
    return Events(events=tuple(found), judgement=judgement)


def _events(statements: Sequence[Statement]) -> Iterator[Event]:
    for one in statements:
        if one.kind in (StatementKind.TAG_ADDED, StatementKind.TAG_REMOVED):
            continue
        if one.kind in _KINDS:
            name = "surplus copies" if one.kind is StatementKind.PRUNE else one.name
            yield Event(_KINDS[one.kind], name, len(one.packages), _specs(one))
        elif one.kind is StatementKind.MIGRATION:
            yield Event(_kind_of_migration(one), one.name, len(one.packages), one.counts.vanished)


def _specs(statement: Statement) -> int:
    counts = statement.counts
    return max(counts.vanished, counts.new) + counts.kept


def _kind_of_migration(statement: Statement) -> Kind:
    return next(kind for kind in (Kind.COMPILER, Kind.OS, Kind.TARGET) if kind in statement.kinds)
