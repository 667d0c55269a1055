"""A changeset on its way from the comparison to an output format: in batches, then its totals.

A catalogue has too many packages to hold, so a format takes each one when it comes (Collector),
in whichever process that is, and writes what it kept in order.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from msgspec import Struct

from cachewatch.core.causes import Explanation
from cachewatch.core.changeset_totals import Tally
from cachewatch.core.model import Delta, Diagnostic, Event, Kind, PackageChange, PackageCounts, Side, Unreadable
from cachewatch.core.statements import Statement, StatementKind


class Collector(Protocol):
    """What an output format keeps of each package."""

    def add(self, change: PackageChange) -> None:
        """Take one package."""

    def take(self) -> Any:
        """Hand over what was taken since the last time; it may cross to another process."""


class NoCollector:
    """Keeps nothing of packages: the statements on the whole tag say everything."""

    def add(self, change: PackageChange) -> None:
        """Take one package."""

    def take(self) -> None:
        """Hand over nothing."""


class FactCollector:
    """Keeps which values of each fact came to packages and went from them."""

    def __init__(self) -> None:
        self._packages: list[tuple[str, Mapping[str, Delta]]] = []

    def add(self, change: PackageChange) -> None:
        """Take the facts of one package."""
        if any(change.facts.values()):
            self._packages.append((change.package, change.facts))

    def take(self) -> list[tuple[str, Mapping[str, Delta]]]:
        """Hand over the facts."""
        taken, self._packages = self._packages, []
        return taken


class SeesAll(Protocol):
    """A collector that wants to see what is reported to nobody, too."""

    def see(self, change: PackageChange) -> None:
        """Look at one selected package, before it is known whether its kinds of change are asked for."""


def show(collector: Collector | SeesAll, change: PackageChange) -> None:
    """Let a collector that wants to see everything look at one selected package."""
    see = getattr(collector, "see", None)  # not isinstance, which takes longer for a protocol than what it sees
    if see is not None:
        see(change)


class Batch(Struct, frozen=True):
    """The result of comparing some packages that follow each other."""

    tally: Tally
    diagnostics: tuple[Diagnostic, ...]
    collected: Any
    unreadable: tuple[Unreadable, ...] = ()


class Outcome(Struct, frozen=True, kw_only=True):
    """What there is to say about one pair of tags once all its packages are through."""

    before: Side
    after: Side
    revisions_between: int | None
    packages: PackageCounts
    tally: Tally
    statements: tuple[Statement, ...]
    events: tuple[Event, ...]
    diagnostics: tuple[Diagnostic, ...]
    unreadable: tuple[Unreadable, ...] = ()

    @property
    def kinds(self) -> frozenset[Kind]:
        """Every kind of change that happened."""
        kinds = {kind for kind, count in self.tally.kinds.items() if count}
        kinds |= {event.kind for event in self.events}
        kinds |= {Kind.STACK_EVENT for one in self.statements if Kind.STACK_EVENT in one.kinds}
        if self.is_partial:
            kinds.add(Kind.UNREADABLE)
        return frozenset(kinds)

    @property
    def suspicion(self) -> str:
        """What makes the whole tag suspicious; empty if nothing does."""
        return next((one.name for one in self.statements if one.kind is StatementKind.SUSPICIOUS), "")

    @property
    def is_partial(self) -> bool:
        """Whether something could not be compared."""
        return any(diagnostic.is_loss for diagnostic in self.diagnostics)

    @property
    def adds_up(self) -> bool:
        """Whether the totals prove each other."""
        return self.tally.specs.adds_up and self.packages.adds_up


class Changeset:
    """One pair of tags: ask for all that was collected, then for the outcome."""

    def __init__(
        self,
        before: Side,
        after: Side,
        batches: Iterable[Batch],
        conclude: Callable[[Tally, tuple[Diagnostic, ...], tuple[Unreadable, ...]], Outcome],
        convert: Callable[[Any], Any] | None = None,
    ) -> None:
        self.before = before
        self.after = after
        self._batches = batches
        self._conclude = conclude
        self._convert = convert
        self._tally = Tally()
        self._diagnostics: list[Diagnostic] = []
        self._unreadable: list[Unreadable] = []
        self.explain: Callable[[], Sequence[Explanation]] | None = None  # why specs were rebuilt, if anybody asked

    def collected(self) -> Iterator[Any]:
        """Yield what the output format's collector has of each batch, in the order of the packages."""
        for batch in self._batches:
            self._tally.join(batch.tally)
            self._diagnostics += batch.diagnostics
            self._unreadable += batch.unreadable
            yield batch.collected if self._convert is None else self._convert(batch.collected)

    def mapped(self, function: Callable[[Any], Any]) -> "Changeset":
        """Return the same with what `function` makes of what was collected."""
        first = self._convert
        convert = function if first is None else lambda collected: function(first(collected))
        return Changeset(self.before, self.after, self._batches, self._conclude, convert)

    @cached_property
    def outcome(self) -> Outcome:
        """The totals and the events; everything that was collected must have been asked for."""
        return self._conclude(self._tally, tuple(self._diagnostics), tuple(self._unreadable))
