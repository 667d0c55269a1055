"""The values that a comparison takes (listings of documents, pairs of tags) and returns (changesets with totals).

A catalogue has too many packages to keep in memory, so the collector of an output format gets each package when it is
compared, in whichever process that is, and keeps only what the format needs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property, partial
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from cachewatch.core.comparison.stacks_prunes_suspicion import Observation
from cachewatch.core.graphs_and_attribution import Explanation
from cachewatch.core.kinds_and_specs import (
    Delta,
    Diagnostic,
    Event,
    Kind,
    PackageChange,
    PackageCounts,
    Side,
    SpecCounts,
    Status,
    Unreadable,
)
from cachewatch.core.names_and_layouts import DOCUMENT
from cachewatch.core.statement_kinds import Items, Statement, StatementKind

# The assumed size of a document: asking git for all sizes takes as long as reading some documents.
USUAL_BYTES = 20_000


class Blob(Struct, frozen=True, gc=False):
    """A document that is not read yet: an object in git, or a file."""

    name: str
    size: int = USUAL_BYTES  # bytes, perhaps estimated
    # If `name` is an object id, these are the path of the document, in two parts to save memory. Without `package`,
    # `folder` is the whole path: the document is outside of the catalogue.
    folder: str = ""
    package: str = ""

    @property
    def path(self) -> str:
        """The path of the document, for messages."""
        return f"{self.folder}/{self.package}/{DOCUMENT}" if self.package else self.folder or self.name


class DocumentPair(Struct, frozen=True, gc=False):
    """The documents of one package in two states; one of them is None if its state does not have the package."""

    package: str
    before: Blob | None
    after: Blob | None

    @property
    def size(self) -> int:
        """The number of bytes to read, perhaps estimated."""
        return sum(blob.size for blob in (self.before, self.after) if blob)


class Listing(Struct, frozen=True):
    """All documents of one tag in one state, by package."""

    side: Side
    blobs: Mapping[str, Blob]
    reader: "Reader"
    diagnostics: tuple[Diagnostic, ...]
    is_one_document: bool = False  # only one document was given, so other packages are not missing
    is_one_tag: bool = False  # only one tag was given, so other tags are not missing
    # Files of the same folder that are not documents ("") or cannot be read (the reason); folders end in a slash.
    others: Mapping[str, str] = field(default_factory=dict)


class Difference(Struct, frozen=True, kw_only=True):
    """The documents that differ in one tag: of all packages, selected or not, because the tag is judged as a whole."""

    all_documents: tuple[DocumentPair, ...]  # sorted by package
    takes: Callable[[str], bool]  # tells whether a package is selected
    diagnostics: tuple[Diagnostic, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()  # documents of selected packages that are not regular files
    # These return all packages with the same document on both sides, and these documents.
    unchanged_packages: Callable[[], Sequence[str]] = tuple
    unchanged: Callable[[], Iterable[Blob]] = tuple

    @property
    def documents(self) -> tuple[DocumentPair, ...]:
        """The documents of selected packages that differ."""
        return tuple(pair for pair in self.all_documents if self.takes(pair.package))

    @property
    def others(self) -> frozenset[str]:
        """The packages that differ and are not selected."""
        return frozenset(pair.package for pair in self.all_documents if not self.takes(pair.package))

    @property
    def packages(self) -> PackageCounts:
        """The numbers of selected packages; `changed` and `rebuilt_only` are 0 until documents are compared."""
        return _counts(self.documents, sum(map(self.takes, self.unchanged_packages())))

    @property
    def all_packages(self) -> PackageCounts:
        """The numbers of all packages, selected or not; nothing is compared here, so `changed` and `rebuilt_only` are 0."""
        return _counts(self.all_documents, len(self.unchanged_packages()))

    @property
    def size(self) -> int:
        """The number of bytes to read, perhaps estimated."""
        return sum(document.size for document in self.all_documents)


def _counts(documents: Sequence[DocumentPair], unchanged: int) -> PackageCounts:
    added, removed = (sum(getattr(one, side) is None for one in documents) for side in ("before", "after"))
    every = unchanged + len(documents)
    return PackageCounts(before=every - added, after=every - removed, added=added, removed=removed)


class TagPair(Struct, frozen=True, kw_only=True):
    """A tag in two states, or two tags, with the documents that differ."""

    before: Side
    after: Side
    difference: Difference
    is_new_tag: bool = False  # only `after` has it; `before` is its predecessor in the same revision, if there is one
    is_lost_tag: bool = False  # only `before` has it


TagStacks = Callable[[], Mapping[str, frozenset[str]]]  # reads which stacks each tag of one side declares


class Comparison(Struct, frozen=True, kw_only=True):
    """Everything that `diff` is to compare, before any document is read."""

    pairs: tuple[TagPair, ...]
    readers: "Readers"
    revisions_between: int | None = None  # None if unknown
    diagnostics: tuple[Diagnostic, ...] = ()  # about tags that cannot be compared at all
    stacks: tuple[TagStacks, TagStacks] = (dict, dict)
    packages: Callable[[], Iterable[str]] = tuple  # returns the names in all tags, even of equal ones
    # Returns the documents of the tags that did not change and so are in no pair; None if there are too many to read.
    other_documents: Callable[[], Iterable[Blob] | None] = tuple


Content = bytes | str  # of a blob; a text is the reason why it cannot be read


class Reader(Protocol):
    """Reads the contents of documents from a source, in the order in which they are requested."""

    def read(self, blobs: Iterable[Blob]) -> Iterator[Content]:
        """Yield, for each of `blobs`, its bytes or a text that says why it is unreadable. Raises SourceError."""

    def reopened(self) -> "Reader":
        """Return another reader of the same blobs, for another process."""


class Readers(Struct, frozen=True):
    """The reader of the earlier state and that of the later state of a comparison; often both are one object."""

    before: Reader
    after: Reader

    def reopened(self) -> "Readers":
        """Return other readers of the same blobs, for another process."""
        before = self.before.reopened()
        return Readers(before, before if self.after is self.before else self.after.reopened())


class Tally(Struct):
    """The totals of the selected packages of a tag and, for statements, facts about the whole tag (`seen`)."""

    specs: SpecCounts = field(default_factory=SpecCounts)
    changed: int = 0
    rebuilt_only: int = 0
    kinds: set[Kind] = field(default_factory=set)
    before: int = 0  # selected specs of the earlier state, reported or not
    seen: Observation = field(default_factory=Observation)
    selected: list[Items] | None = None  # None if everything is selected
    diagnostics: list[Diagnostic] = []
    unreadable: list[Unreadable] = []
    # Packages that left one stack and joined another: their kinds are known when the tag shows which were renamed.
    held: list[tuple[str, frozenset[Kind], "Batch"]] = field(default_factory=list)

    def note(self, change: PackageChange, items: Sequence[Items]) -> None:
        """Record `change`, of a selected package, even if not reported; store its `items` unless all is selected."""
        self.kinds |= change.kinds
        self.before += change.counts.before
        if self.selected is not None:
            self.selected += items

    def add(self, change: PackageChange) -> None:
        """Add the counts of a package that is reported."""
        self.specs += change.counts
        self.changed += change.status is Status.CHANGED
        self.rebuilt_only += change.kinds == {Kind.REBUILT} and change.status is Status.CHANGED

    def join(self, other: "Tally") -> None:
        """Add the totals of other packages of the same tag."""
        self.specs += other.specs
        self.changed += other.changed
        self.rebuilt_only += other.rebuilt_only
        self.kinds |= other.kinds
        self.before += other.before
        self.seen.join(other.seen)
        self.diagnostics += other.diagnostics
        self.unreadable += other.unreadable
        self.held += other.held
        if other.selected is not None:
            self.selected = [*(self.selected or ()), *other.selected]


def events_of(statements: Sequence[Statement], tag_event: Event | None) -> tuple[Event, ...]:
    """Return the events of a tag: `tag_event` (unless None), then those of statements on the tag and their effects."""
    events = [tag_event] if tag_event else []
    for one in statements:
        if one.kind.is_of_tag and one.kind not in _NO_EVENTS:
            values = [kind for kind in _ATTRIBUTES if kind in one.attributes]
            name = "surplus copies" if one.kind is StatementKind.PRUNE else one.name
            kind = values[0] if values else Kind(one.kind)
            events.append(Event(kind, name, len(one.packages), one.counts.specs))
            for effect in one.effects:
                if effect.attribute:
                    name = " -> ".join(filter(None, (" ".join(effect.before), " ".join(effect.after))))
                    events.append(Event(effect.attribute, name, len(effect.packages), effect.specs))
    return tuple(events)


# The kinds of a package while the names of its stacks may decide about them.
UNKNOWN_KINDS = frozenset(Kind)

_ATTRIBUTES = (Kind.COMPILER, Kind.OS, Kind.TARGET, Kind.VARIANT)
_TAG_EVENTS = (Kind.TAG_ADDED, Kind.TAG_REMOVED)
_NO_EVENTS = (StatementKind.TAG_ADDED, StatementKind.TAG_REMOVED, StatementKind.REBUILD_WAVE, StatementKind.TURNOVER)


class Collector(Protocol):
    """Keeps the part of each package that an output format needs."""

    def add(self, change: PackageChange) -> None:
        """Add the changes of one package."""

    def take(self) -> Any:
        """Return the collected parts; called once. The result may be sent to another process."""


class ListCollector:
    """A collector that keeps a list of what `part_of` returns of each package, unless that is None."""

    def __init__(self, part_of: Callable[[PackageChange], Any]) -> None:
        self._part_of = part_of
        self._kept: list[Any] = []

    def add(self, change: PackageChange) -> None:
        """Keep the part of one package."""
        part = self._part_of(change)
        if part is not None:
            self._kept.append(part)

    def take(self) -> list[Any]:
        """Return the list."""
        return self._kept


def no_part(change: PackageChange) -> None:
    """Return None: formats that show only statements, which are made from the Tally, keep no part of a package."""


NoCollector = partial(ListCollector, no_part)


Batch = tuple[Tally, Any]  # the totals and the collected parts of several packages


class Report(Struct, frozen=True, kw_only=True):
    """The results of the comparison of two tags; complete once all packages are compared."""

    before: Side
    after: Side
    revisions_between: int | None
    packages: PackageCounts
    specs: SpecCounts
    statements: tuple[Statement, ...] = ()  # on everything selected, of all kinds
    events: tuple[Event, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    uncounted: int = 0  # of the unreadable packages, those that `packages` does not count
    own_kinds: frozenset[Kind] = frozenset()  # kinds of changes of the selected packages, reported or not
    kinds_of: Mapping[str, Set[Kind]] = field(default_factory=dict)  # of packages whose stacks may have been renamed
    is_part: bool = False  # not everything was selected
    is_same: bool = False  # git has the same contents on both sides, wherever they are
    pruned: int = 0  # binaries of the selected packages that a prune of the tag took, of whatever stacks
    late: tuple[Any, ...] = ()  # the collected parts of packages that were held until all were compared
    # The added and removed values of each fact by package, only for reports that list them all.
    facts: Mapping[str, Mapping[str, Delta]] = field(default_factory=dict)

    def about(self, wants: Callable[[Set[Kind]], bool]) -> "Report":
        """Return the report with only the events whose kinds `wants` accepts."""
        return replace(self, events=tuple(event for event in self.events if wants({event.kind})))

    @property
    def tag(self) -> str:
        """The name of the tag; if no side has a tag, the name of the later side."""
        return self.after.tag or self.before.tag or self.after.name

    @property
    def tag_event(self) -> Event | None:
        """The event that the tag was added or removed; None if neither, or if no package of the tag is selected."""
        found = (event for event in self.events if event.kind in _TAG_EVENTS and (event.packages or not self.is_part))
        return next(found, None)

    @property
    def kinds(self) -> frozenset[Kind]:
        """All kinds of change between the two tags: those of selected packages, and those of the whole tag."""
        events = (event for event in self.events if event.kind not in _TAG_EVENTS or event == self.tag_event)
        kinds = {*self.own_kinds, *(event.kind for event in events)}
        kinds |= {kind for one in self.statements if one.kind.is_of_tag for kind in one.kinds}
        if self.is_partial:
            kinds.add(Kind.UNREADABLE)
        return frozenset(kinds)

    @property
    def suspicion(self) -> str:
        """The reason why publishing of the tag may have failed; "" if nothing is suspicious."""
        return next((one.name for one in self.statements if one.kind is StatementKind.SUSPICIOUS), "")

    @property
    def is_partial(self) -> bool:
        """Whether a document could not be compared."""
        return any(diagnostic.is_loss for diagnostic in self.diagnostics)

    @property
    def adds_up(self) -> bool:
        """Whether the numbers of specs and of packages are consistent: before + added - removed = after."""
        return self.specs.adds_up and self.packages.adds_up

    @property
    def losses(self) -> int:
        """The number of documents that could not be compared, completely or in part."""
        return len({diagnostic.path for diagnostic in self.diagnostics if diagnostic.is_loss})


class Changeset(Struct, dict=True, eq=False):
    """The comparison of one pair of tags. Consume `collected` before you use `report`."""

    before: Side
    after: Side
    _batches: Iterable[Batch]
    _conclude: Callable[[Tally], Report]
    _convert: Callable[[Any], Any] = lambda collected: collected
    tally: Tally = field(default_factory=Tally)
    explain: Callable[[], Sequence[Explanation]] | None = None  # explains rebuilt specs, if requested

    def collected(self) -> Iterator[Any]:
        """Compare packages in batches; yield the result of the collector for each batch, and for packages compared last."""
        for tally, collected in self._batches:
            self.tally.join(tally)
            yield self._convert(collected)
        yield from map(self._convert, self.report.late)

    def mapped(self, function: Callable[[Any], Any]) -> "Changeset":
        """Return the changeset with `function` applied to each value that `collected` yields."""
        first = self._convert
        both = (self._batches, self._conclude, lambda collected: function(first(collected)))
        return Changeset(self.before, self.after, *both)

    @cached_property
    def report(self) -> Report:
        """The totals, statements and events; valid only after `collected` was consumed."""
        return self._conclude(self.tally)
