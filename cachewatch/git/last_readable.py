"""The last readable version of a document whose newest one cannot be read."""

from collections.abc import Sequence

from msgspec.structs import replace

from cachewatch.core.repository_layout import CATALOGUE, DOCUMENT
from cachewatch.documents.limits import MAX_BYTES
from cachewatch.documents.parsing import parse
from cachewatch.errors import DocumentError, SourceError, UnknownRevision
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
    path = f"{CATALOGUE}/{revision.tag}/{package}/{DOCUMENT}"
    asked = ["rev-list", "--first-parent", f"--max-count={_MOST_VERSIONS}", revision.commit, "--", path]
    commits = repository.run(asked).decode().split()
    # Before the oldest of them it was not there.
    before = [f"{commits[-1]}~1"] if commits and len(commits) < _MOST_VERSIONS else []
    for commit in [*commits, *before]:
        if _is_usable(repository, commit, path, isolation):
            return _resolved(repository, commit, revision.tag)
    return None


def _resolved(repository: Repository, commit: str, tag: str | None) -> Revision | None:
    try:
        return replace(resolve(repository, commit), tag=tag)
    except UnknownRevision:
        return None  # the first revision of all has none before it


def _is_usable(repository: Repository, commit: str, path: str, isolation: Isolation) -> bool:
    try:
        found = repository.objects().get(f"{commit}:{path}", most=MAX_BYTES)
    except SourceError:
        return False  # not in this clone
    if found is None:
        return True
    ((_, is_readable),) = isolation.each(_is_readable, [(found.id, path, found.content)], _about)
    return is_readable is True


def _is_readable(documents: Sequence[tuple[str, str, bytes]]) -> bool:
    ((_, path, content),) = documents
    try:
        parse(content, path)
    except DocumentError:
        return False
    return True


def _about(document: tuple[str, str, bytes]) -> Piece:
    name, path, content = document
    return Piece(path.split("/")[-2], (name,), len(content))
