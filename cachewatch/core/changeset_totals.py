"""The totals of a comparison, and what happened to the whole tag, as events of the JSON."""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from cachewatch.core.model import Document, Event, Kind, PackageChange, SpecCounts, Status
from cachewatch.core.statements.values import Items, Statement, StatementKind
from cachewatch.core.statements.whole_tag_changes import Observation


class Tally(Struct):
    """The totals of what was selected, and what was seen of the whole tag."""

    specs: SpecCounts = field(default_factory=SpecCounts)
    changed: int = 0
    rebuilt_only: int = 0
    unreferenced: int = 0  # newly
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
        self.unreferenced += len(change.newly_unreferenced)

    def select(self, items: Sequence[Items]) -> None:
        """Take the items that were selected of one package, where not everything is."""
        if self.selected is not None:
            self.selected += items

    def join(self, other: "Tally") -> None:
        """Add the counts of other packages of the same tag."""
        self.specs += other.specs
        self.changed += other.changed
        self.rebuilt_only += other.rebuilt_only
        self.unreferenced += other.unreferenced
        self.kinds += other.kinds
        self.seen.join(other.seen)
        if other.selected is not None:
            self.selected = [*(self.selected or ()), *other.selected]


_KINDS = {
    StatementKind.TAG_ADDED: Kind.TAG_ADDED,
    StatementKind.TAG_REMOVED: Kind.TAG_REMOVED,
    StatementKind.STACK_REMOVED: Kind.STACK_REMOVED,
    StatementKind.STACK_ADDED: Kind.STACK_ADDED,
    StatementKind.PRUNE: Kind.PRUNE,
    StatementKind.SUSPICIOUS: Kind.SUSPICIOUS,
}


def events_of(statements: Sequence[Statement], tag_event: Event | None) -> tuple[Event, ...]:
    """Return what happened to the whole tag, from its statements."""
    return (*([tag_event] if tag_event else []), *_events(statements))


def _events(statements: Sequence[Statement]) -> Iterator[Event]:
    for one in statements:
        if one.kind in (StatementKind.TAG_ADDED, StatementKind.TAG_REMOVED):
            continue
        if one.kind in _KINDS:
            name = "surplus copies" if one.kind is StatementKind.PRUNE else one.name
            yield Event(_KINDS[one.kind], name, len(one.packages), one.counts.specs)
        elif one.kind is StatementKind.MIGRATION:
            yield Event(_kind_of_migration(one), one.name, len(one.packages), one.counts.vanished)


def _kind_of_migration(statement: Statement) -> Kind:
    return next(kind for kind in (Kind.COMPILER, Kind.OS, Kind.TARGET) if kind in statement.kinds)
