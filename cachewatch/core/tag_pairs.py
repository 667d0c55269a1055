"""What is compared: listings of documents, pairs of tags, and how their contents are read.

Folders (`sources/folders.py`), git repositories (`git/catalogue.py`) and live build caches yield these values.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from cachewatch.core.model import Diagnostic, Side, Unreadable
from cachewatch.core.repository_layout import DOCUMENT

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
