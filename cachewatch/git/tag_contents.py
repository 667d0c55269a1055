"""What one tag of a revision has: its documents, read one after the other."""

from collections.abc import Callable, Iterator

from cachewatch.core.model import Diagnostic, DiagnosticKind, Document
from cachewatch.core.repository_layout import Wanted
from cachewatch.core.tag_pairs import Blob, Content, Listing
from cachewatch.documents.parsing import parse
from cachewatch.errors import DocumentError
from cachewatch.git.catalogue import list_revision
from cachewatch.git.repository import Repository
from cachewatch.git.resolving_revisions import Revision

Progress = Callable[[int], None]


def list_tag(repository: Repository, revision: Revision, wanted: Wanted) -> Listing:
    """List the documents of the tag that `revision` names, or of develop."""
    return list_revision(repository, revision, wanted_tag=lambda _: True, wanted_package=wanted)


def read_documents(
    listing: Listing, *, progress: Progress, may_have: Callable[[bytes], bool] = lambda _: True
) -> Iterator[Document | Diagnostic]:
    """Yield each document, or what is wrong with it; those whose bytes cannot have what is wanted are left out."""
    yield from listing.diagnostics
    blobs = list(listing.blobs.values())
    for blob, content in zip(blobs, listing.reader.read(blobs), strict=True):
        progress(blob.size)
        if not isinstance(content, bytes) or may_have(content):
            yield _read(blob, content)


def _read(blob: Blob, content: Content) -> Document | Diagnostic:
    if isinstance(content, str):
        return Diagnostic(blob.path, DiagnosticKind.UNREADABLE, content)
    try:
        return parse(content, blob.path)
    except DocumentError as error:
        return Diagnostic(blob.path, DiagnosticKind.UNREADABLE, str(error))
