"""The documents of packages as they are read: contents, what they say, and what is wrong with them."""

from collections.abc import Iterator, Sequence
from typing import TypeGuard

from cachewatch.core.changesets import Blob, Content, DocumentPair, Readers
from cachewatch.core.model import Diagnostic, DiagnosticKind, Document, Unreadable
from cachewatch.core.package_changes import Pair
from cachewatch.documents.frontmatter import MAX_BYTES
from cachewatch.documents.parsing import TOO_LARGE, parse
from cachewatch.documents.records import KnownRecords
from cachewatch.errors import DocumentError, NotComparableDocument
from cachewatch.runtime.worker import Piece

Documents = Sequence[DocumentPair]
# A package with the contents of its two sides; None where there is none, or too much.
Read = tuple[DocumentPair, Content | None, Content | None]


def read(documents: Documents, readers: Readers) -> Iterator[Read]:
    """Yield each pair with the contents of its two sides; None where there is none, or too much."""
    if readers.before is readers.after:
        blobs = [blob for pair in documents for blob in (pair.before, pair.after) if is_readable(blob)]
        old_contents = new_contents = readers.before.read(blobs)
    else:
        old_contents = readers.before.read([pair.before for pair in documents if is_readable(pair.before)])
        new_contents = readers.after.read([pair.after for pair in documents if is_readable(pair.after)])
    for pair in documents:
        before = next(old_contents) if is_readable(pair.before) else None
        after = next(new_contents) if is_readable(pair.after) else None
        yield pair, before, after


def is_readable(blob: Blob | None) -> TypeGuard[Blob]:
    """Tell whether there is a document that is not too large."""
    return blob is not None and blob.size <= MAX_BYTES


def parse_side(blob: Blob | None, content: Content | None, known: KnownRecords) -> Document | Diagnostic | None:
    """Return what a document says, or why it says nothing; None if there is none."""
    if blob is None:
        return None
    if content is None:
        return Diagnostic(blob.path, DiagnosticKind.UNREADABLE, TOO_LARGE)
    if isinstance(content, str):
        return Diagnostic(blob.path, DiagnosticKind.UNREADABLE, content)
    try:
        return parse(content, blob.path, known)
    except NotComparableDocument as error:
        return Diagnostic(blob.path, DiagnosticKind.NOT_COMPARABLE, str(error))
    except DocumentError as error:
        return Diagnostic(blob.path, DiagnosticKind.UNREADABLE, str(error))


def about_pair(pair: Read) -> Piece:
    """Say which documents are compared."""
    documents, *contents = pair
    names = tuple(blob.name if blob else "" for blob in (documents.before, documents.after))
    return Piece(documents.package, names, sum(map(_length, contents)))


def about_content(read: tuple[Blob, Content | None]) -> Piece:
    """Say which document is read."""
    blob, content = read
    return Piece(blob.package, (blob.name,), _length(content))


def _length(content: Content | None) -> int:
    return len(content) if isinstance(content, bytes) else 0


class Problems:
    """What is wrong with the documents that were asked for."""

    def __init__(self, others: frozenset[str]) -> None:
        self._others = others
        self.by_package: list[tuple[str, Diagnostic]] = []
        self.unreadable: list[Unreadable] = []

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All that is wrong."""
        return tuple(diagnostic for _, diagnostic in self.by_package)

    def note(self, package: str, before: Document | Diagnostic | None, after: Document | Diagnostic | None) -> None:
        """Note what is wrong with either document of a package."""
        if package in self._others:
            return
        self.by_package += ((package, diagnostic) for diagnostic in _diagnostics(before, after))
        if isinstance(before, Diagnostic) or isinstance(after, Diagnostic):
            self.unreadable += _unreadable(package, before, after)

    def note_reused(self, documents: DocumentPair, message: str) -> None:
        """Note that hashes of a package name other specs now; both are compared, so nothing is missing."""
        if documents.package not in self._others and documents.after is not None:
            diagnostic = Diagnostic(documents.after.path, DiagnosticKind.REUSED_HASH, message, is_loss=False)
            self.by_package.append((documents.package, diagnostic))


def parse_pair(
    pair: DocumentPair,
    old_content: Content | None,
    new_content: Content | None,
    problems: Problems,
) -> Pair | None:
    """Parse both documents of a package, and note what is wrong with them; None if one cannot be used."""
    known = KnownRecords()
    before = parse_side(pair.before, old_content, known)
    after = parse_side(pair.after, new_content, known)
    problems.note(pair.package, before, after)
    if isinstance(before, Diagnostic) or isinstance(after, Diagnostic):
        return None
    return Pair(pair.package, before, after)


def _unreadable(
    package: str, before: Document | Diagnostic | None, after: Document | Diagnostic | None
) -> Iterator[Unreadable]:
    """Yield what is to be compared later: all but a document that is of a form without hashes, as it was before."""
    bad = [side for side in (after, before) if isinstance(side, Diagnostic)]
    was_comparable = isinstance(before, Document)
    if was_comparable or any(diagnostic.kind is DiagnosticKind.UNREADABLE for diagnostic in bad):
        yield Unreadable(
            package=package,
            reason=bad[0].message,
            before=isinstance(before, Diagnostic) and before.kind is DiagnosticKind.UNREADABLE,
            after=isinstance(after, Diagnostic) and (was_comparable or after.kind is DiagnosticKind.UNREADABLE),
        )


def _diagnostics(before: Document | Diagnostic | None, after: Document | Diagnostic | None) -> list[Diagnostic]:
    """Return what is wrong with either side; what is wrong with both in one way, once."""
    found = [side for side in (before, after) if isinstance(side, Diagnostic)]
    if len(found) == 2 and found[0].message == found[1].message:
        return found[1:]
    if found:
        return found
    old = before.diagnostics if isinstance(before, Document) else ()
    new = after.diagnostics if isinstance(after, Document) else ()
    return [*new, *(diagnostic for diagnostic in old if diagnostic not in new)]
