"""What a comparison reads and what it returns: listings, pairs of tags and their readers; changesets and their totals.

Folders (sources/folders.py), git repositories (git/catalogue.py) and build caches yield tag pairs. A catalogue
has too many packages to hold, so an output format takes each one when it comes (Collector), in whichever process
that is, and writes what it kept in order.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from cachewatch.core.causes import Explanation
from cachewatch.core.migrations import PackageValues
from cachewatch.core.model import (
    Delta,
    Diagnostic,
    Document,
    Event,
    Kind,
    PackageChange,
    PackageCounts,
    Side,
    SpecCounts,
    Status,
    Unreadable,
)
from cachewatch.core.names import DOCUMENT
from cachewatch.core.statement_values import Items, Statement, StatementKind, is_of_tag
from cachewatch.core.whole_tag import Observation

# What documents have, about; git takes as long to tell their sizes as to read some of them.
USUAL_BYTES = 20_000


class Blob(Struct, frozen=True, gc=False):
    """The content of a document, not yet read: an object id in git, or a path."""

    name: str
    size: int = USUAL_BYTES  # bytes, or about as many
    # Where an object id lies in the catalogue; kept apart, because there are many of them. Without a package, the
    # folder is the path of a document that is elsewhere.
    folder: str = ""
    package: str = ""

    @property
    def path(self) -> str:
        """What to call it in messages."""
        return f"{self.folder}/{self.package}/{DOCUMENT}" if self.package else self.folder or self.name


class DocumentPair(Struct, frozen=True, gc=False):
    """One package's documents in the two states; at most one of them is None."""

    package: str
    before: Blob | None
    after: Blob | None

    @property
    def size(self) -> int:
        """How many bytes there are to read, or about as many."""
        return sum(blob.size for blob in (self.before, self.after) if blob)


class Listing(Struct, frozen=True):
    """All documents of one tag on one side, by package."""

    side: Side
    blobs: Mapping[str, Blob]
    reader: "Reader"
    diagnostics: tuple[Diagnostic, ...]
    # A single document stands for its package alone, and a single tag for itself: the others are not missing.
    is_one_document: bool = False
    is_one_tag: bool = False
    # Files of the same folder that are no documents, or cannot be read, each with the reason of the latter. Those of
    # a folder that cannot be read are unknown, and its path ends in a slash.
    others: Mapping[str, str] = field(default_factory=dict)


class Difference(Struct, frozen=True, kw_only=True):
    """The documents of one tag that differ, by package, and how many there are in all."""

    documents: tuple[DocumentPair, ...]
    # How many packages have the same document on both sides. It takes time to count them, so ask late.
    count_unchanged: Callable[[], int]
    diagnostics: tuple[Diagnostic, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()  # documents that are no regular files
    # What differs and nobody asked for: what happened to the whole tag is judged with it.
    others: tuple[DocumentPair, ...] = ()
    count_other_unchanged: Callable[[], int] = lambda: 0
    # The later documents of all packages that have the same on both sides, asked for or not.
    unchanged: Callable[[], Iterable[Blob]] = tuple
    takes: Callable[[str], bool] = lambda _: True  # packages that were asked for

    @property
    def all_documents(self) -> tuple[DocumentPair, ...]:
        """The documents that differ, asked for or not, by package."""
        if not self.others:
            return self.documents
        return tuple(sorted((*self.documents, *self.others), key=lambda pair: pair.package))

    @property
    def whole(self) -> "Difference":
        """The same, as if everything had been asked for."""
        if not self.others and not self.count_other_unchanged():
            return self
        return replace(
            self,
            documents=self.all_documents,
            count_unchanged=lambda: self.count_unchanged() + self.count_other_unchanged(),
            others=(),
            count_other_unchanged=lambda: 0,
        )

    @property
    def packages_before(self) -> int:
        """How many packages the earlier state has."""
        return self.count_unchanged() + len(self.documents) - self.packages_added

    @property
    def packages_after(self) -> int:
        """How many packages the later state has."""
        return self.count_unchanged() + len(self.documents) - self.packages_removed

    @property
    def packages_added(self) -> int:
        """How many packages only the later state has."""
        return sum(document.before is None for document in self.documents)

    @property
    def packages_removed(self) -> int:
        """How many packages only the earlier state has."""
        return sum(document.after is None for document in self.documents)

    @property
    def is_complete(self) -> bool:
        """Whether every document of the tag differs, so that all of it will be seen."""
        return not self.diagnostics and len(self.documents) >= max(self.packages_before, self.packages_after)

    @property
    def size(self) -> int:
        """How many bytes there are to read."""
        return sum(document.size for document in self.documents)


class TagPair(Struct, frozen=True, kw_only=True):
    """Two states of one tag (or of two tags) and what differs between them."""

    before: Side
    after: Side
    difference: Difference
    # A tag that only one side has. A new one is compared with its predecessor, if it has any.
    is_new_tag: bool = False
    is_lost_tag: bool = False


class Comparison(Struct, frozen=True, kw_only=True):
    """Everything that `diff` was asked to compare, before any document is read."""

    pairs: tuple[TagPair, ...]
    readers: "Readers"
    revisions_between: int | None = None  # None where that cannot be known
    diagnostics: tuple[Diagnostic, ...] = ()  # of tags that cannot be compared at all
    # The stacks that each side says its tags have, by tag; empty where it does not say.
    stacks: tuple["TagStacks", "TagStacks"] = field(default_factory=lambda: (no_stacks, no_stacks))
    # The names of the packages of all tags of either side, also of those that do not differ.
    packages: Callable[[], Iterable[str]] = tuple
    # The documents of the tags that are in no pair because nothing of them changed; None if there are too many to read.
    other_documents: Callable[[], Iterable[Blob] | None] = tuple


# What reading a blob gives: its bytes, or the reason why there are none.
Content = bytes | str


class Reader(Protocol):
    """Reads blobs, in order."""

    def read(self, blobs: Iterable[Blob]) -> Iterator[Content]:
        """Yield the content of each blob, or raise SourceError if the source itself fails."""

    def again(self) -> "Reader":
        """Return another reader of the same blobs, for another process."""


class Readers(Struct, frozen=True):
    """The readers of the two sides; often one and the same."""

    before: Reader
    after: Reader

    def again(self) -> "Readers":
        """Return other readers of the same blobs, for another process."""
        before = self.before.again()
        return Readers(before, before if self.after is self.before else self.after.again())


class TagStacks(Protocol):
    """Asks a side for its list of tags, which few comparisons need."""

    def __call__(self) -> Mapping[str, frozenset[str]]:
        """Return the stacks of each tag."""


def no_stacks() -> Mapping[str, frozenset[str]]:
    """Say that nothing is known of the stacks of any tag."""
    return {}


class Tally(Struct):
    """The totals of what was selected, and what was seen of the whole tag."""

    specs: SpecCounts = field(default_factory=SpecCounts)
    changed: int = 0
    rebuilt_only: int = 0
    unreferenced: int = 0  # newly
    kinds: Counter[Kind] = field(default_factory=Counter)
    before: int = 0  # specs of what was selected, reported or not
    seen: Observation = field(default_factory=Observation)
    selected: list[Items] | None = None  # None where nothing was left out

    def observe(self, change: PackageChange, items: Sequence[Items], values: PackageValues | None = None) -> None:
        """Take a package of the tag, selected or not."""
        self.seen.add(change, items, values)

    def witness(self, document: Document) -> None:
        """Take a package that did not change."""
        self.seen.witness(document)

    def note(self, change: PackageChange) -> None:
        """Note the kinds of what was selected of one package, reported or not."""
        self.kinds.update(change.kinds)
        self.before += change.counts.before

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
        self.before += other.before
        self.seen.join(other.seen)
        if other.selected is not None:
            self.selected = [*(self.selected or ()), *other.selected]


def events_of(statements: Sequence[Statement], tag_event: Event | None) -> tuple[Event, ...]:
    """Return what happened to the whole tag, from its statements."""
    return (*([tag_event] if tag_event else []), *_events(statements))


def _events(statements: Sequence[Statement]) -> Iterator[Event]:
    for one in statements:
        if one.kind not in _NO_EVENTS and is_of_tag(one.kind):
            kind = next((kind for kind in _ATTRIBUTES if kind in one.kinds), None)
            is_of_values = one.kind in (StatementKind.MIGRATION, StatementKind.BESIDE, StatementKind.NO_LONGER)
            name = "surplus copies" if one.kind is StatementKind.PRUNE else one.name
            yield Event(kind if is_of_values and kind else Kind(one.kind), name, len(one.packages), one.counts.specs)


_ATTRIBUTES = (Kind.COMPILER, Kind.OS, Kind.TARGET, Kind.VARIANT)
_NO_EVENTS = (StatementKind.TAG_ADDED, StatementKind.TAG_REMOVED, StatementKind.REBUILD_WAVE, StatementKind.TURNOVER)


class Collector(Protocol):
    """What an output format keeps of each package."""

    def add(self, change: PackageChange) -> None:
        """Take one package."""

    def take(self) -> Any:
        """Hand over what was taken, once; it may cross to another process."""


class NoCollector:
    """Keeps nothing of packages: the statements on the whole tag say everything."""

    def add(self, change: PackageChange) -> None:
        """Take one package."""

    def take(self) -> None:
        """Hand over nothing."""


class ListCollector:
    """Keeps a list, to which another class adds what it needs of each package."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def take(self) -> list[Any]:
        """Hand over the list."""
        return self.kept


class FactCollector(ListCollector):
    """Keeps which values of each fact came to packages and went from them."""

    def add(self, change: PackageChange) -> None:
        """Take the facts of one package."""
        if any(change.facts.values()):
            self.kept.append((change.package, change.facts))


class Batch(Struct, frozen=True):
    """The result of comparing some packages that follow each other."""

    tally: Tally
    diagnostics: tuple[Diagnostic, ...]
    collected: Any
    unreadable: tuple[Unreadable, ...] = ()


class Report(Struct, frozen=True, kw_only=True):
    """What there is to say about one pair of tags once all its packages are through."""

    before: Side
    after: Side
    revisions_between: int | None
    packages: PackageCounts
    specs: SpecCounts
    statements: tuple[Statement, ...] = ()  # of all that was selected, of whatever kind
    events: tuple[Event, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    own_kinds: frozenset[Kind] = frozenset()  # of the packages that were selected, reported or not
    is_part: bool = False  # not everything was selected
    # Which values of each fact came and went, by package; of reports that name them all.
    facts: Mapping[str, Mapping[str, Delta]] = field(default_factory=dict)

    def about(self, wants: Callable[[Set[Kind]], bool]) -> "Report":
        """Return the same without the events that nobody asked for."""
        return replace(self, events=tuple(event for event in self.events if wants({event.kind})))

    @property
    def kinds(self) -> frozenset[Kind]:
        """Every kind of change that happened."""
        kinds = {*self.own_kinds, *(event.kind for event in self.events)}
        kinds |= {kind for one in self.statements if is_of_tag(one.kind) for kind in one.kinds}
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
        return self.specs.adds_up and self.packages.adds_up

    @property
    def losses(self) -> int:
        """How many documents could not be compared, or not wholly."""
        return len({diagnostic.path for diagnostic in self.diagnostics if diagnostic.is_loss})


class Changeset:
    """One pair of tags: ask for all that was collected, then for the report."""

    def __init__(
        self,
        before: Side,
        after: Side,
        batches: Iterable[Batch],
        conclude: Callable[[Tally, tuple[Diagnostic, ...], tuple[Unreadable, ...]], Report],
        convert: Callable[[Any], Any] | None = None,
    ) -> None:
        self.before = before
        self.after = after
        self._batches = batches
        self._conclude = conclude
        self._convert = convert
        self.tally = Tally()
        self._diagnostics: list[Diagnostic] = []
        self._unreadable: list[Unreadable] = []
        self.explain: Callable[[], Sequence[Explanation]] | None = None  # why specs were rebuilt, if anybody asked

    def collected(self) -> Iterator[Any]:
        """Yield what the output format's collector has of each batch, in the order of the packages."""
        for batch in self._batches:
            self.tally.join(batch.tally)
            self._diagnostics += batch.diagnostics
            self._unreadable += batch.unreadable
            yield batch.collected if self._convert is None else self._convert(batch.collected)

    def mapped(self, function: Callable[[Any], Any]) -> "Changeset":
        """Return the same with what `function` makes of what was collected."""
        first = self._convert
        convert = function if first is None else lambda collected: function(first(collected))
        return Changeset(self.before, self.after, self._batches, self._conclude, convert)

    @cached_property
    def report(self) -> Report:
        """The totals and the events; everything that was collected must have been asked for."""
        return self._conclude(self.tally, tuple(self._diagnostics), tuple(self._unreadable))
