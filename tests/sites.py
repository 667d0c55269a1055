"""What a site is made of, read from a repository."""

from pathlib import Path

from cachewatch.core.filters_and_spec_patterns import Globs
from cachewatch.extensions.history.build import IndexProgress, ask_index
from cachewatch.extensions.site.reading_history import ContentsReader, SiteContents, plan
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import resolve


def read_site(
    repository: Path,
    known: SiteContents | None = None,
    *,
    revision: str = "HEAD",
    since: str | None = None,
    packages: tuple[str, ...] = (),
    jobs: int = 1,
) -> SiteContents:
    """Return the past of the first tag, and what there is in the others."""
    opened = Repository(repository)
    until = resolve(opened, revision)
    since_revision = resolve(opened, since) if since else None
    planned = plan(opened, until, since=since_revision, wanted_tag=Globs(), packages=Globs(packages))
    found = ask_index(
        opened,
        until.commit,
        lambda index: ContentsReader(opened, index, planned, known).read(jobs),
        jobs=jobs,
        progress=IndexProgress(),
    )
    opened.close()
    return found
