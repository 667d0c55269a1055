"""The last readable version of a document whose newest one cannot be read."""

from collections.abc import Sequence

from msgspec.structs import replace

from cachewatch.core.repository_layout import DEFAULT_TAG, DOCUMENT
from cachewatch.core.tag_pairs import Blob
from cachewatch.documents.limits import MAX_BYTES
from cachewatch.documents.parsing import parse
from cachewatch.errors import DocumentError, SourceError, UnknownRevision
from cachewatch.git.arranged_trees import folder_of
from cachewatch.git.catalogue import document_in
from cachewatch.git.repository import Repository
from cachewatch.git.resolving_revisions import Revision, resolve
from cachewatch.runtime.isolation import INLINE, Isolation, Piece

# Upstream repairs a document after a few revisions, or never.
_MOST_VERSIONS = 50


def last_readable(
    repository: Repository, revision: Revision, package: str, isolation: Isolation = INLINE
) -> Revision | None:
    """Return the newest revision up to `revision` in which the document of its tag could be read, or was not there.

    Returns None where the history that is here has none.
    """
    tag = revision.tag or DEFAULT_TAG
    found = document_in(repository, revision.commit, tag, package)
    path = found.path if isinstance(found, Blob) else f"{folder_of(repository, tag)}/{package}/{DOCUMENT}"
    # Of several files that are one document, either may have become it.
    paths = repository.layout.pathspecs if isinstance(found, str) else [f":(literal){path}"]
    asked = ["rev-list", "--first-parent", f"--max-count={_MOST_VERSIONS}", revision.commit, "--", *paths]
    commits = repository.run(asked).decode().split()
    # Before the oldest of them it was not there.
    before = [f"{commits[-1]}~1"] if commits and len(commits) < _MOST_VERSIONS else []
    for name in [*commits, *before]:
        earlier = _resolved(repository, name, revision.tag)
        if earlier is not None and _is_usable(repository, earlier.commit, tag, package, isolation):
            return earlier
    return None


def _resolved(repository: Repository, commit: str, tag: str | None) -> Revision | None:
    try:
        return replace(resolve(repository, commit), tag=tag)
    except UnknownRevision:
        return None  # the first revision of all has none before it


def _is_usable(repository: Repository, commit: str, tag: str, package: str, isolation: Isolation) -> bool:
    try:
        found = document_in(repository, commit, tag, package)
        content = repository.objects().get(found.name, most=MAX_BYTES) if isinstance(found, Blob) else None
    except SourceError:
        return False  # not in this clone
    if not isinstance(found, Blob) or content is None:
        return found is None
    ((_, is_readable),) = isolation.each(_is_readable, [(package, found, content.content)], _about)
    return is_readable is True


def _is_readable(documents: Sequence[tuple[str, Blob, bytes]]) -> bool:
    ((_, blob, content),) = documents
    try:
        parse(content, blob.path)
    except DocumentError:
        return False
    return True


def _about(document: tuple[str, Blob, bytes]) -> Piece:
    package, blob, content = document
    return Piece(package, (blob.name,), len(content))
