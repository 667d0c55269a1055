"""What a service asks a repository, about commits by their ids."""

from datetime import datetime

from cachewatch import tags
from cachewatch.errors import SourceError
from cachewatch.sources.git import Repository
from cachewatch.sources.layout import CATALOGUE
from cachewatch.sources.revisions import Revision, resolve
from cachewatch.sources.trees import folders


def revision(repository: Repository, commit: str) -> Revision:
    """Return the revision of `commit`, with its time. Raises UnknownRevision if it is not here."""
    return resolve(repository, commit)


def tags_of(repository: Repository, commit: str) -> tuple[str, ...]:
    """Return the names of the tags of a revision, in their order; without a catalogue there are none."""
    return tuple(tags.in_order(folders(repository, f"{commit}:{CATALOGUE}").ids))


def newest_time(repository: Repository) -> datetime | None:
    """Return the time that the newest revision says it is from; it may be wrong."""
    return resolve(repository, "HEAD").time


def count_revisions(repository: Repository, before: str, after: str) -> int | None:
    """Count the revisions of the branch since `before`, up to `after`; None where `after` does not build upon it."""
    try:
        printed = repository.run(["rev-list", "--first-parent", f"{before}..{after}"]).decode().split()
        back = repository.run(["rev-list", "--count", f"{after}..{before}"]).decode().strip()
    except SourceError:
        return None  # one of them is not here
    return len(printed) if back == "0" else None


def commit_at(repository: Repository, moment: datetime) -> str | None:
    """Return the newest revision that the branch had at `moment`; None if it had none yet."""
    until = f"--before=@{int(moment.timestamp())} +0000"
    return repository.run(["rev-list", "-1", "--first-parent", until, "HEAD"]).decode().strip() or None
