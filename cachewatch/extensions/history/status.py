"""How far the index is, and how large."""

from contextlib import closing
from pathlib import Path

from msgspec import Struct

from cachewatch.extensions.history.build import locked
from cachewatch.extensions.history.document_versions import find_versions, first_parents
from cachewatch.extensions.history.read import Point, as_text
from cachewatch.extensions.history.schema import check_may_be_removed, explained, open_for_reading
from cachewatch.extensions.history.write import common_length
from cachewatch.git.repository import Repository


class IndexStatus(Struct, frozen=True):
    """How far an index is."""

    path: str
    bytes: int
    indexed: Point | None  # None if no build was ever complete
    newest: Point | None  # None in an empty repository
    behind: int  # revisions that are not indexed
    rewritten: int  # revisions that are, and that a force-push removed from the chain
    documents_done: int  # of the build or update that was interrupted, or is running
    documents: int  # it has in all; 0 if there is none


def read_status(repository: Repository, path: Path) -> IndexStatus | None:
    """Return how far the index at `path` is, or None if there is none."""
    if not path.exists() or not path.stat().st_size:
        return None  # of no bytes, it is where a build ended before its first commit
    chain = first_parents(repository)
    with explained(path), closing(open_for_reading(path, must_be_complete=False)) as connection:
        indexed = connection.execute("SELECT indexed FROM progress").fetchone()[0]
        stored = connection.execute("SELECT count(*) FROM revision").fetchone()[0]
        common = common_length(connection, chain)
        row = connection.execute('SELECT "commit", time FROM revision WHERE n = ?', (indexed,)).fetchone()
        done = connection.execute("SELECT count(*) FROM unit").fetchone()[0]
        documents = 0
        if stored - 1 > indexed and common == stored:
            commits = [moment.commit for moment in chain[:stored]]
            documents = len(find_versions(repository, commits, indexed + 1))
    return IndexStatus(
        path=str(path),
        bytes=sum(file.stat().st_size for file in _files(path)),
        indexed=_revision(row),
        newest=_revision(chain[-1] if chain else None),
        behind=len(chain) - min(indexed + 1, common),
        rewritten=max(indexed + 1 - common, 0),
        documents_done=done,
        documents=documents,
    )


def drop(path: Path) -> bool:
    """Remove the index at `path`; tell whether there was one. Raises StateError if the file is something else."""
    if not path.exists():
        return False
    check_may_be_removed(path)
    discard(path)
    return True


def discard(path: Path) -> None:
    """Remove the index at `path` without reading it: it may be damaged."""
    with locked(path):
        for file in _files(path):
            file.unlink(missing_ok=True)


def _files(path: Path) -> list[Path]:
    return [file for end in ("", "-wal", "-shm", "-journal") if (file := path.with_name(path.name + end)).exists()]


def _revision(row: tuple[str, int | None] | None) -> Point | None:
    return None if row is None else Point(row[0], as_text(row[1]))
