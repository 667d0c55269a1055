"""Read and parse the documents of packages, and collect what is wrong with them."""

from collections.abc import Iterator, Sequence
from typing import TypeGuard

from msgspec.structs import replace

from cachewatch.core.changesets import Blob, Content, DocumentPair, Readers
from cachewatch.core.model import Diagnostic, DiagnosticKind, Document, Unreadable
from cachewatch.core.package_changes import Pair
from cachewatch.documents.frontmatter import MAX_BYTES
from cachewatch.documents.parsing import TOO_LARGE, parse
from cachewatch.documents.records import KnownRecords
from cachewatch.errors import DocumentError, NotComparableDocument
from cachewatch.runtime.worker import Piece

Documents = Sequence[DocumentPair]
# A pair of documents with the contents of both; a content is None if there is no document or it is too large.
Read = tuple[DocumentPair, Content | None, Content | None]


def read(documents: Documents, readers: Readers) -> Iterator[Read]:
    """Yield each pair of documents with the contents of both; None if there is no document or it is too large."""
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
    """Tell whether there is a document and it is not too large."""
    return blob is not None and blob.size <= MAX_BYTES


def parse_side(
    blob: Blob | None, content: Content | None, known: KnownRecords, package: str = ""
) -> Document | Diagnostic | None:
    """Return the parsed document, or a diagnostic if it cannot be read or compared; None if there is no document.

    `package` is the package that it is of, by its path.
    """
    if blob is None:
        return None
    if content is None:
        return Diagnostic(blob.path, DiagnosticKind.UNREADABLE, TOO_LARGE)
    if isinstance(content, str):
        return Diagnostic(blob.path, DiagnosticKind.UNREADABLE, content)
    try:
        return parse(content, blob.path, known, package=package or blob.package)
    except NotComparableDocument as error:
        return Diagnostic(blob.path, DiagnosticKind.NOT_COMPARABLE, str(error))
    except DocumentError as error:
        return Diagnostic(blob.path, DiagnosticKind.UNREADABLE, str(error))


def about_pair(pair: Read) -> Piece:
    """Return the package, object ids and size of a pair of documents, for the worker."""
    documents, *contents = pair
    names = tuple(blob.name if blob else "" for blob in (documents.before, documents.after))
    return Piece(documents.package, names, sum(map(_length, contents)))


def about_content(read: tuple[Blob, Content | None]) -> Piece:
    """Return the package, object id and size of one document, for the worker."""
    blob, content = read
    return Piece(blob.package, (blob.name,), _length(content))


def _length(content: Content | None) -> int:
    return len(content) if isinstance(content, bytes) else 0


class Problems:
    """The problems of the documents of requested packages; those of `others` are ignored."""

    def __init__(self, others: frozenset[str]) -> None:
        self._others = others
        self.by_package: list[tuple[str, Diagnostic]] = []
        self.unreadable: list[Unreadable] = []
        self.half_read: set[str] = set()  # stacks of documents, of any package, that cannot be read on the other side

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The diagnostics of all requested packages."""
        return tuple(diagnostic for _, diagnostic in self.by_package)

    def note(self, package: str, before: Document | Diagnostic | None, after: Document | Diagnostic | None) -> None:
        """Add the problems of the two documents of a package."""
        for one, other in ((before, after), (after, before)):
            if isinstance(one, Document) and isinstance(other, Diagnostic):
                self.half_read.update(one.facts["stacks"])
        if package in self._others:
            return
        self.by_package += ((package, diagnostic) for diagnostic in _diagnostics(before, after))
        if isinstance(before, Diagnostic) or isinstance(after, Diagnostic):
            self.unreadable += _unreadable(package, before, after)

    def remark(self, documents: DocumentPair, kind: DiagnosticKind, message: str) -> None:
        """Add a remark on the two documents of a package, which are still compared; none if `message` is empty."""
        if message and documents.package not in self._others and documents.after is not None:
            diagnostic = Diagnostic(documents.after.path, kind, message, is_loss=False)
            self.by_package.append((documents.package, diagnostic))


def parse_pair(
    pair: DocumentPair,
    old_content: Content | None,
    new_content: Content | None,
    problems: Problems,
) -> Pair | None:
    """Parse both documents of a package and add their problems to `problems`; return None if one cannot be compared."""
    known = KnownRecords()
    before = parse_side(pair.before, old_content, known, pair.package)
    after = parse_side(pair.after, new_content, known, pair.package)
    problems.note(pair.package, before, after)
    if isinstance(before, Diagnostic) or isinstance(after, Diagnostic):
        return None
    return Pair(pair.package, before, after)


def _unreadable(
    package: str, before: Document | Diagnostic | None, after: Document | Diagnostic | None
) -> Iterator[Unreadable]:
    """Yield that a package must be compared later, unless its documents were and are in the old form without hashes."""
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
    """Return the diagnostics of both sides; one that is the same on both sides is returned once."""
    sides = (("before", before), ("after", after))
    found = [replace(document, side=side) for side, document in sides if isinstance(document, Diagnostic)]
    if len(found) == 2 and found[0].message == found[1].message:
        return [replace(found[1], side="both")]
    if found:
        return found
    old = before.diagnostics if isinstance(before, Document) else ()
    new = after.diagnostics if isinstance(after, Document) else ()
    return [*new, *(diagnostic for diagnostic in old if diagnostic not in new)]
