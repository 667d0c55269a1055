"""What the sources have of a package now, for `explain`."""

from collections.abc import Iterator
from contextlib import closing

from cachewatch.core.filter_patterns import Globs
from cachewatch.core.model import Document
from cachewatch.documents.parsing import parse
from cachewatch.errors import DocumentError, UnknownRevision
from cachewatch.git.catalogue import read_package, tags_of
from cachewatch.git.resolving_revisions import resolve
from cachewatch.git.trees import folders
from cachewatch.notify.explaining import Explanation, Unreadable, explain
from cachewatch.notify.pass_context import Context
from cachewatch.store import health


def explain_package(context: Context, package: str) -> Iterator[Explanation]:
    """Say of every subscription whether it hears of `package`, by what the sources have now."""
    return explain(context.config, package, tuple(_documents(context, package)), day=context.today())


def packages_now(context: Context) -> set[str]:
    """Return the names of all packages that the sources have now; nothing before the first pass."""
    names: set[str] = set()
    for source in context.config.sources.values():
        with context.database.read() as connection:
            revision = health.source(connection, source.name).revision
        if revision is None:
            continue
        with closing(context.open_repository(source)) as repository:
            trees = tags_of(repository, resolve(repository, revision)).ids
            names.update(*(folders(repository, trees[tag]).ids for tag in filter(Globs(source.tags), trees)))
    return names


def _documents(context: Context, package: str) -> Iterator[Document | Unreadable]:
    for source in context.config.sources.values():
        with context.database.read() as connection:
            revision = health.source(connection, source.name).revision
        if revision is None:
            continue
        with closing(context.open_repository(source)) as repository:
            for tag in filter(Globs(source.tags), tags_of(repository, resolve(repository, revision)).ids):
                try:
                    found = read_package(repository, resolve(repository, f"{revision}:{tag}"), package)
                    yield parse(found.content, found.path)
                except UnknownRevision:
                    continue  # it has none there
                except DocumentError as error:
                    yield Unreadable(tag, str(error))
