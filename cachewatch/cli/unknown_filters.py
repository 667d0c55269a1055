"""Whether what a configuration names exists in its sources: what filters name, and where `since:` begins."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.cli.unknown_names import FACTS, Asked, Values, facts_of, nothing_has, unmatched
from cachewatch.config.model import Config, Match, Source
from cachewatch.core import tag_names
from cachewatch.core.filter_patterns import Globs
from cachewatch.errors import CachewatchError, UnknownRevision
from cachewatch.git.arranged_trees import nothing_found
from cachewatch.git.catalogue import list_revision, stacks_of, tags_of
from cachewatch.git.repository import Repository
from cachewatch.git.resolving_revisions import Revision, resolve, resolve_upstream
from cachewatch.git.trees import folders
from cachewatch.notify.pass_context import Context
from cachewatch.sources.folders import is_plain, list_path

# What the keys of `match:` are called for `diff`.
_FILTERS = {
    "tags": "tag",
    "packages": "package",
    "stacks": "stack",
    "targets": "target",
    "oses": "os",
    "compilers": "compiler",
}


class _Looked(Struct, frozen=True):
    """What the newest revision of a source has, as far as that had to be read, and which filters match none of it."""

    source: str
    values: Values
    lacks: Asked
    all_tags: frozenset[str]


def unknown_filters(context: Context) -> Iterator[str]:
    """Yield a sentence for each source that cannot be asked, or has no such revision, and for each filter that nothing matches."""
    matches = dict(_matches(context.config))
    looked: list[_Looked] = []
    for source in context.config.sources.values():
        asked = sorted({each for match in matches.values() if _sees(match, source) for each in _asked(match)})
        try:
            looked.append(_look(context, source, asked))
        except CachewatchError as error:
            yield f"sources.{source.name}: {_why_not(context, source, error)}; its filters were not checked"
            continue
        yield from _unknown_since(context, source)
        yield from _unknown(f"sources.{source.name}.tags", "tag", source.tags, _with_all_tags(looked[-1], source))
    for where, match in matches.items():
        seen = [each for each in looked if _sees(match, context.config.sources[each.source])]
        for key, name in _FILTERS.items():
            yield from _unknown(f"{where}.{key}", name, getattr(match, key), seen)


def _unknown_since(context: Context, source: Source) -> Iterator[str]:
    """Yield a sentence if `since:` is no revision of the source."""
    if source.since is not None:
        try:
            with closing(_open(context, source)) as repository:
                resolve_upstream(repository, source.since)
        except CachewatchError as error:
            yield f"sources.{source.name}.since: {error}"


def _matches(config: Config) -> Iterator[tuple[str, Match]]:
    for subscription in config.subscriptions.values():
        yield f"subscriptions.{subscription.name}.match", subscription.match
    for silence in config.silences:
        yield f"silences.{silence.name}.match", silence.match


def _sees(match: Match, source: Source) -> bool:
    return Globs(match.sources)(source.name)


def _asked(match: Match) -> Iterator[tuple[str, str]]:
    return ((name, pattern) for key, name in _FILTERS.items() for pattern in getattr(match, key))


def _why_not(context: Context, source: Source, error: CachewatchError) -> str:
    if context.clone_folder(source.name).exists() or _is_here(context, source):
        return str(error)
    return f"{_why_empty(source)}nothing has been fetched yet; run `cachewatch once` first"


def _why_empty(source: Source) -> str:
    """Begin a sentence with what a folder on this machine has in place of documents; "" if it has some, or is elsewhere."""
    if source.type == "git" and is_plain(Path(source.address)):
        try:
            list_path(source.address, source.layout)
        except CachewatchError as error:
            return f"{error}; "
    return ""


def _open(context: Context, source: Source) -> Repository:
    """Open our copy of a source; before the first pass, the repository itself if it is on this machine."""
    if _is_here(context, source):
        return Repository(Path(source.address), source.layout)
    return context.open_repository(source)


def _is_here(context: Context, source: Source) -> bool:
    """Tell whether a source is a repository on this machine that was not fetched yet."""
    path = Path(source.address)
    is_repository = source.type == "git" and path.exists() and not is_plain(path)
    return is_repository and not context.clone_folder(source.name).exists()


def _with_all_tags(looked: _Looked, source: Source) -> Sequence[_Looked]:
    """Return the same for the filter of the source itself, which chooses among all tags."""
    values = {"tag": set(looked.all_tags)}
    return [replace(looked, values=values, lacks=unmatched([("tag", pattern) for pattern in source.tags], values))]


def _unknown(where: str, name: str, patterns: Sequence[str], looked: Sequence[_Looked]) -> Iterator[str]:
    """Yield a sentence for every pattern that nothing in any of these sources matches."""
    values = {name: {value for each in looked for value in each.values[name]}}
    sources = ", ".join(each.source for each in looked)
    for pattern in patterns:
        if looked and all((name, pattern) in each.lacks for each in looked):
            said = nothing_has(name, pattern, values, f"in the newest revision of {sources}")
            yield f"{where}: {pattern}: {said}"


def _look(context: Context, source: Source, asked: Asked) -> _Looked:
    """Read the newest revision of a source until all filters match something, the cheapest first."""
    with closing(_open(context, source)) as repository:
        newest = source.branch if source.branch and _is_here(context, source) else "HEAD"
        revision = resolve(repository, newest)
        trees = tags_of(repository, revision).ids
        if not trees:
            raise UnknownRevision(nothing_found(repository, revision.commit, "HEAD"))
        watched = tag_names.in_order(filter(Globs(source.tags), trees))
        values: dict[str, set[str]] = {name: set() for name in _FILTERS.values()}
        values["tag"].update(watched)
        values["package"].update(package for tag in watched for package in folders(repository, trees[tag]).ids)
        declared = stacks_of(repository, revision)
        values["stack"].update(stack for tag in watched for stack in declared.get(tag, ()))
        lacks = unmatched(asked, values)
        for tag in watched:
            if not any(name in FACTS for name, _ in lacks):
                break
            _read(repository, replace(revision, tag=tag), values)
            lacks = unmatched(lacks, values)
        return _Looked(source.name, values, lacks, frozenset(trees))


def _read(repository: Repository, revision: Revision, values: dict[str, set[str]]) -> None:
    """Add what the documents of one tag have."""
    listing = list_revision(repository, revision, wanted_tag=lambda _: True, wanted_package=lambda _: True)
    for name, found in facts_of(list(listing.blobs.values()), listing.reader):
        values[name] |= found
