"""Open the catalogue that a command reads, and find filters that match nothing in it.

The catalogue is the one that `--repo` names, or the first of several that exists. Nothing is fetched from a network
unless `--repo`, the environment or the configuration names an address there. The configuration is slow to load, so it
is loaded only if the working directory is in no catalogue.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from msgspec import Struct

from cachewatch.cli.terminal import ProgressLine
from cachewatch.core.changesets import Blob, Changeset, Comparison, Reader
from cachewatch.core.names import ANYWHERE, PUBLIC_REPOSITORY, Layout, did_you_mean, safe, safe_name
from cachewatch.core.selection import every_compiler, is_plain, matcher
from cachewatch.core.spack import Versions
from cachewatch.documents.parsing import parse
from cachewatch.errors import ConfigError, DocumentError, SourceError, UsageError
from cachewatch.git.remote import Clone, clone_folder, is_url, open_repository
from cachewatch.git.repository import Repository, is_in_repository
from cachewatch.git.trees import catalogue_of, nothing_found

VARIABLE = "CACHEWATCH_REPO"
PUBLIC = "public"
_LAYOUT = "cachewatch.layout"
_MADE = "cachewatch.folders"
_PARTIAL = "cachewatch.partial_folder"
_MOST_BESIDE = 20
_MOST_LOOKED_AT = 500
_THREE_WAYS = f"""\
{{problem}}. Name one; nothing is fetched from a network unless you ask for it:
  --repo PATH or URL    a git repository or a folder with documents ({VARIABLE} names one for all commands)
  --repo {PUBLIC}         the catalogue of Spack's public build cache, {{public}}
  cachewatch init       writes a configuration, whose first source is read"""


def in_full(_context: click.Context, _param: click.Parameter, address: str | None) -> str | None:
    """Return the address of Spack's public catalogue for `public`, unless a folder has that name; else `address`."""
    return PUBLIC_REPOSITORY if address == PUBLIC and not os.path.lexists(PUBLIC) else address


def _note_layout(context: click.Context, _param: click.Parameter, pattern: str | None) -> None:
    if pattern is not None:
        context.meta[_LAYOUT] = Layout.parse(pattern)


def layout_asked_for() -> Layout | None:
    """Return the layout of documents given by the option --documents, or None."""
    context = click.get_current_context(silent=True)
    return context.meta.get(_LAYOUT) if context else None


DOCUMENTS_OPTION = click.option(
    "--documents",
    metavar="PATTERN",
    expose_value=False,
    callback=_note_layout,
    help="Where documents are, if not found by what they are: 'docs/{tag}/{package}.md'.",
)
_REPO_OPTION = click.option(
    "--repo",
    envvar=VARIABLE,
    show_envvar=True,
    show_default="the one you stand in, the configured one, or one in this folder",
    metavar="PATH|URL",
    callback=in_full,
    help=f"Catalogue: a git repository or a folder of documents; `{PUBLIC}` is that of Spack's public cache.",
)


def REPO_OPTION(command: Callable[..., Any]) -> Callable[..., Any]:  # noqa: N802  it is used as options are
    """Add the options --repo and --documents to a command."""
    return _REPO_OPTION(DOCUMENTS_OPTION(command))


class _Default(Struct, frozen=True):
    """The repository to read if no option names one, and the sentence that tells the user so."""

    address: str
    sentence: str
    layout: Layout = ANYWHERE


def open_catalogue(repo: str | None, line: "ProgressLine | None" = None, *, asked: str = "") -> "Repository":
    """Open the repository `repo`, or else the first that exists: the working directory, the configured, one beside it.

    Prints which one is read, unless the user named it or it is the working directory. The progress of cloning is drawn
    on `line`. If there is none, raises UsageError with the ways to name one; that sentence begins with `asked`.
    """
    if repo is None and (here := _here()) is not None:
        return here

    report = line.git_report if line else None
    layout = layout_asked_for()
    if repo is not None:
        if not is_url(repo) and not os.path.lexists(repo):
            raise UsageError(f"{repo}: there is no such folder")
        return _of_folder(repo, layout or ANYWHERE) or open_repository(repo, report=report, layout=layout or ANYWHERE)
    default = _default(asked)
    why = "the repository here has no documents at HEAD; " if is_in_repository(Path()) else ""
    click.echo(f"cachewatch: {why}{safe(default.sentence)}", err=True)
    layout = layout or default.layout
    return _of_folder(default.address, layout) or open_repository(default.address, report=report, layout=layout)


def open_as_fetched(repo: str | None) -> "Repository | None":
    """Open the repository of `open_catalogue` silently and without the network; None if it was never fetched."""
    if repo is None and (here := _here()) is not None:
        return here
    default = _Default(repo, "") if repo is not None else _default()
    layout = layout_asked_for() or default.layout
    if not is_url(default.address):
        return _of_folder(default.address, layout) or open_repository(default.address, layout=layout)
    folder = clone_folder(default.address)
    return Clone(folder, layout=layout) if folder.exists() else None


def is_folder(address: str) -> bool:
    """Tell whether `address` is a folder outside of any git repository."""
    from cachewatch.git.repository import is_in_repository  # noqa: PLC0415

    return Path(address).is_dir() and not is_in_repository(Path(address))


def is_partial(context: click.Context) -> bool:
    """Tell whether some documents in a folder that this command opened could not be read."""
    return bool(context.meta.get(_PARTIAL))


def _of_folder(address: str, layout: Layout) -> "Repository | None":
    """Record a folder of documents as a temporary repository and open it; None if `address` is no such folder."""
    if not is_folder(address):
        return None
    from cachewatch.git.repository import FolderAsRepository  # noqa: PLC0415
    from cachewatch.sources.folders import record_folder  # noqa: PLC0415

    context = click.get_current_context()
    made: dict[tuple[str, Layout], Path] = context.meta.setdefault(_MADE, {})
    if (address, layout) not in made:
        kept = context.find_root().with_resource(TemporaryDirectory(prefix="cachewatch-"))
        path = Path(kept) / "folder.git"
        try:
            faults = record_folder(address, path, layout)
        except UsageError as error:
            raise UsageError(f"{error}; it is no git repository either") from error
        for each in faults:
            context.meta[_PARTIAL] = context.meta.get(_PARTIAL, False) or each.is_loss
            click.echo(f"cachewatch: warning: {safe(each.path)}: {each.kind}: {safe(each.message)}", err=True)
        made[address, layout] = path
    return FolderAsRepository(Path(address), made[address, layout], layout)


def _here() -> "Repository | None":
    """Open the repository around the working directory if HEAD or HEAD~1 has documents; else return None."""
    here = Path()
    if not is_in_repository(here):
        return None
    layout = layout_asked_for()
    repository = Repository(here, layout or ANYWHERE)
    if layout is not None or _has_documents(repository):
        return repository
    repository.close()
    return None


def _has_documents(repository: "Repository") -> bool:
    with suppress(SourceError):  # of too many files, or of some that are not here
        found = (repository.objects().get(f"{revision}^{{commit}}") for revision in ("HEAD", "HEAD~1"))
        return any(catalogue_of(repository, commit.id) for commit in found if commit)
    return False


def _what_is_here() -> str:
    """Return in words what HEAD of the repository here has instead of documents; "" if there is no repository."""
    if not is_in_repository(Path()):
        return ""
    with closing(Repository(Path())) as repository:
        head = repository.objects().get("HEAD^{commit}")
        if head is None:
            return "it has no commits yet"
        return f"{nothing_found(repository, head.id, 'HEAD')}; `--repo .` reads its other revisions"


def _has_loose_documents() -> bool:
    """Tell whether one of the first files in the working directory is a document."""
    from cachewatch.sources.folders import holds_document  # noqa: PLC0415

    return any(holds_document(path) for path in islice(Path().iterdir(), _MOST_LOOKED_AT))


def _default(asked: str = "") -> _Default:
    found = _configured() or _beside()
    if found is None:
        problem = "there is no catalogue here"
        if not_here := _what_is_here():
            problem = f"the repository here is no catalogue: {not_here}"
        elif not asked and _has_loose_documents():
            problem += "; `--repo .` reads the documents in this folder"
        raise UsageError(_THREE_WAYS.format(problem=asked + problem, public=PUBLIC_REPOSITORY))
    return found


def _configured() -> _Default | None:
    """Return the first source of the configuration, or None if there is no configuration."""
    from cachewatch.config.reading import find_config, read_config  # noqa: PLC0415

    file: Path | None = None
    with suppress(ConfigError):
        file = find_config()
    config = read_config(file, with_secrets=False) if file else None
    source = next(iter(config.sources.values()), None) if config else None
    if config is None or source is None:
        return None
    address = source.address
    folder = config.folder / "sources" / f"{source.name}.git"
    if source.type != "git" or (is_folder(address) and folder.exists()):
        # What was recorded of a build cache, or of a folder, is where the service keeps it.
        if not folder.exists():
            raise UsageError(
                f"{file}: nothing has been recorded of the source {source.name} yet; "
                "run `cachewatch once`, or name a repository with --repo"
            )
        address = str(folder)
    return _Default(address, f"reading the source {source.name} of {file}: {address}", source.layout)


def _beside() -> _Default | None:
    """Return the catalogue that `record` or `demo` wrote in the working directory; raise UsageError for several."""
    names = [f"./{path.name}" for path in sorted(_bare_repositories()) if _is_catalogue(path)]
    if len(names) > 1:
        options = ", ".join(f"--repo {safe(name)}" for name in names)
        raise UsageError(f"this folder has several catalogues; choose one: {options}")
    return _Default(names[0], f"reading the catalogue {names[0]}") if names else None


def _bare_repositories() -> list[Path]:
    """Return the bare repositories in the working directory; empty if there are very many."""
    with suppress(OSError):
        folders = (path for path in Path().iterdir() if path.name != ".git")
        found = [path for path in folders if (path / "HEAD").is_file() and (path / "objects").is_dir()]
        return found if len(found) <= _MOST_BESIDE else []
    return []


def _is_catalogue(path: Path) -> bool:
    with suppress(SourceError), closing(Repository(path)) as repository:
        return _has_documents(repository)
    return False


_MOST_NAMES = 3
# The name of each filter's values in the facts of a document.
FACTS = {"stack": "stacks", "target": "targets", "os": "oses", "compiler": "compilers", "versions": "versions"}

Values = Mapping[str, set[str]]  # by filter, the values that exist
Asked = Sequence[tuple[str, str]]  # pairs of a filter and one of its patterns


class Unknown(Struct, frozen=True):
    """The message that a pattern of a filter matches nothing, as an error or as a warning."""

    message: str
    is_mistake: bool


def unknown_names(
    filters: Mapping[str, Sequence[str]], comparison: Comparison, done: Sequence[Changeset]
) -> Iterator[Unknown]:
    """Yield every pattern of `filters` that matches nothing on either side, changed or not.

    First the documents that were compared are searched; the whole catalogue is read only if that is not enough.
    """
    asked = [(name, pattern) for name in ("package", *FACTS) for pattern in filters[name]]
    if not asked:
        return
    left = unmatched(asked, _seen(comparison, done))
    if any(name == "stack" for name, _ in left):
        left = unmatched(left, _declared(comparison))
    if not left:
        return
    is_read = any(name in FACTS for name, _ in left)
    others = comparison.other_documents() if is_read else ()
    values = _catalogue(comparison, others or (), is_read=is_read)
    is_partial = any(changeset.report.is_partial for changeset in done)
    for name, pattern in unmatched(left, values):
        # What could not be read, or was not, may have it.
        is_unread = others is None and name in FACTS
        is_name = is_plain(pattern) and name != "versions"
        is_mistake = is_name and not pattern.startswith("!") and not is_partial and not is_unread
        where = _compared_tags(comparison) if is_unread else "on either side"
        yield Unknown(f"--{name} {pattern}: {nothing_has(name, pattern, values, where)}", is_mistake)


def _compared_tags(comparison: Comparison) -> str:
    tags = [safe_name(str(pair.after.tag)) for pair in comparison.pairs]
    more = f" and {len(tags) - _MOST_NAMES:,} more" if len(tags) > _MOST_NAMES else ""
    return f"in {', '.join(tags[:_MOST_NAMES])}{more}; other tags did not change, and were not searched (--tag)"


def nothing_has(name: str, pattern: str, values: Values, where: str) -> str:
    """Return the sentence that `pattern` matches none of `values`, with similar names; `where` was searched."""
    known = values[name] | ({value.partition("@")[0] for value in values[name]} if name == "compiler" else set())
    return f"no {'version' if name == 'versions' else name} matches {where}{did_you_mean(pattern, sorted(known), _MOST_NAMES)}"


def unmatched(asked: Asked, values: Values) -> Asked:
    """Return the pairs of `asked` whose patterns match none of `values`."""
    return [(name, pattern) for name, pattern in asked if not _is_among(name, pattern, values.get(name, set()))]


def _is_among(name: str, pattern: str, values: Iterable[str]) -> bool:
    own = pattern.removeprefix("!")
    if name == "versions":
        return any(map(Versions([own]), values))
    patterns = every_compiler([own]) if name == "compiler" else (own,)
    matchers = [matcher(each) for each in patterns]
    return any(matches(value) for value in values for matches in matchers)


def _seen(comparison: Comparison, done: Iterable[Changeset]) -> Values:
    """Return the values that occur in documents that differ."""
    values: dict[str, set[str]] = {name: set() for name in ("package", *FACTS)}
    for pair in comparison.pairs:
        values["package"].update(document.package for document in pair.difference.all_documents)
    for changeset in done:
        seen = changeset.tally.seen
        values["stack"].update(*seen.traces)
        for name, fact in FACTS.items():
            values[name] |= {value for kind, value in seen.facts if kind == fact}
    return values


def _declared(comparison: Comparison) -> Values:
    """Return the stacks in the tags' own lists."""
    return {"stack": {stack for ask in comparison.stacks for stacks in ask().values() for stack in stacks}}


def _catalogue(comparison: Comparison, others: Iterable[Blob], *, is_read: bool) -> Values:
    """Return the values in the whole catalogue: all names of packages, and with `is_read` those in all documents."""
    values: dict[str, set[str]] = {name: set() for name in FACTS}
    values["package"] = {document.package for pair in comparison.pairs for document in pair.difference.all_documents}
    values["package"].update(comparison.packages())
    if is_read:
        values["stack"] |= _declared(comparison)["stack"]
        for blobs, reader in _documents(comparison, others):
            for name, found in facts_of(blobs, reader):
                values[name] |= found
    return values


def _documents(comparison: Comparison, others: Iterable[Blob]) -> Iterator[tuple[list[Blob], Reader]]:
    readers = comparison.readers
    for pair in comparison.pairs:
        documents = pair.difference.all_documents
        yield [document.before for document in documents if document.before], readers.before
        yield [document.after for document in documents if document.after], readers.after
        yield list(pair.difference.unchanged()), readers.after
    yield list(others), readers.after


def facts_of(blobs: Sequence[Blob], reader: Reader) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield for each filter the values in each document; documents that cannot be read are skipped."""
    for blob, content in zip(blobs, reader.read(blobs), strict=True):
        try:
            document = parse(content, blob.path) if isinstance(content, bytes) else None
        except DocumentError:
            continue
        if document is not None:
            yield from ((name, document.facts[fact]) for name, fact in FACTS.items())
