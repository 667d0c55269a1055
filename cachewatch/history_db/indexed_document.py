"""The values that pass between those who read documents and the one who writes the index: picklable, without its numbers."""

from msgspec import Struct

from cachewatch.core.model import CompilerForm, Signature
from cachewatch.git.document_versions import Version


class OpenInterval(Struct, frozen=True):
    """A row of the index whose specs are still there."""

    id: int
    signature: Signature
    first: int
    hashes: bytes | str


class KnownDocument(Struct, frozen=True):
    """What the index has of a document already."""

    blob: str | None
    revision: int
    baseline: int | None
    compiler_form: CompilerForm


class Task(Struct, frozen=True):
    """One document to follow: its new versions, and where the index left it."""

    tag: str
    package: str
    versions: tuple[Version, ...]
    known: KnownDocument | None = None
    # Whether nothing of it was readable so far: the first readable version is then a baseline.
    is_unread: bool = False
    intervals: tuple[OpenInterval, ...] = ()

    @property
    def name(self) -> str:
        """What the table `unit` calls it."""
        return f"{self.tag}/{self.package}"


class Interval(Struct, frozen=True, order=True):
    """Specs of one signature that came in one revision and went in one."""

    signature: Signature
    first: int
    last: int | None
    hashes: bytes | str
    size: int


class Step(Struct, frozen=True):
    """What one revision did to the document, in specs."""

    revision: int
    added: int
    removed: int
    rebuilt: int
    is_compiler_unknown: bool  # see law 1


class Tally(Struct, frozen=True):
    """What one revision did to a set of stacks, in specs."""

    stacks: tuple[str, ...]
    revision: int
    added: int
    removed: int
    rebuilt: int


class IndexedDocument(Struct, frozen=True):
    """All that the new versions of a task add to the index."""

    document: KnownDocument | None  # None if no version was ever readable
    intervals: tuple[Interval, ...]  # those of `task.intervals` as they are now, and all that came since
    steps: tuple[Step, ...] = ()
    tallies: tuple[Tally, ...] = ()
    diagnostics: tuple[tuple[int, str], ...] = ()
