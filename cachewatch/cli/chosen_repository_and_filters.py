"""Open the catalogue that a command reads, complete names in it, and find filters that match nothing in it.

Nothing is fetched from a network unless `--repo`, the environment or the configuration names an address there.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from click.shell_completion import CompletionItem
from msgspec import Struct
from msgspec.structs import replace

from cachewatch.cli.terminal import ProgressLine, say, warn, warn_of, with_options
from cachewatch.core.changesets import Blob, Changeset, Comparison, Reader
from cachewatch.core.escaping_and_mentions import safe, safe_name
from cachewatch.core.filters_and_spec_patterns import GROUPS, Globs, every_compiler, is_plain
from cachewatch.core.kinds_and_specs import Kind
from cachewatch.core.names_and_layouts import ANYWHERE, CATALOGUE, PUBLIC_REPOSITORY, Layout, did_you_mean, in_order
from cachewatch.core.versions_spellings_targets import Versions, sorted_versions
from cachewatch.documents.records_parsing_diagnostics import parse
from cachewatch.errors import CachewatchError, DocumentError, SourceError, UsageError
from cachewatch.git.local_repository import Repository, is_in_repository
from cachewatch.git.remote_urls_and_fetching import clone_folder, is_url, open_clone, open_repository
from cachewatch.git.revision_names_and_times import Revision, resolve
from cachewatch.git.tags_and_documents import read_package, stacks_of, tags_of
from cachewatch.git.trees import catalogue_of, folders, nothing_found
from cachewatch.report.words import MOST_NAMES, first_of
from cachewatch.sources.folders_and_unreadable_files import holds_document, record_folder

VARIABLE = "CACHEWATCH_REPO"
PUBLIC = "public"
_LAYOUT = "cachewatch.layout"
_PARTIAL = "cachewatch.partial_folder"
_MOST_BESIDE = 20
_MOST_LOOKED_AT = 500
_THREE_WAYS = f"""\
{{problem}}. Name one; nothing is fetched from a network unless you ask for it:
  --repo PATH or URL    a git repository or a folder with documents ({VARIABLE} names one for all commands)
  --repo {PUBLIC}         the catalogue of Spack's public build cache, {{public}}
  cachewatch init       writes a configuration, whose first source is read"""
# Names that need no quotes in a shell; others are not offered, because names in a catalogue are not trusted.
_HARMLESS = re.compile(r"[A-Za-z0-9._+@:/~-]+")


def completing(what: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a function that completes values of `what`: "kinds", "revisions" (also `A..B`), "tags" and so on.

    The function fetches nothing and prints no error: a user who presses Tab waits for it, and can do without an answer.
    """
    return lambda context, _, incomplete: _offered(what, context, incomplete)


def _offered(what: str, context: click.Context, incomplete: str) -> list[CompletionItem]:
    if what == "kinds":
        found = [(str(kind), kind.meaning) for kind in Kind]
        found += [(name, "a group of kinds") for name in GROUPS]
        return [CompletionItem(name, help=said) for name, said in found if name.startswith(incomplete)]
    package, at, _ = incomplete.partition("@")
    if what == "package_versions" and not at:
        what = "packages"
    start = "!" if incomplete.startswith("!") else ""
    if what == "revisions":
        start = "".join(incomplete.rpartition("..")[:2])
    names = [f"{start}{name}" for name in _names(what, context, package) if _HARMLESS.fullmatch(name)]
    items = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return items or ([CompletionItem(incomplete, type="file")] if what == "revisions" else [])


def _names(what: str, context: click.Context, package: str = "") -> list[str]:
    """Return the names of `what`, such as tags, that the command would read from configuration or repository; or []."""
    from cachewatch.config.reading_showing_warnings import read_config  # noqa: PLC0415  slow to load

    given = context.params
    with suppress(CachewatchError, OSError):
        if what in ("subscriptions", "channels"):
            return list(getattr(read_config(given.get("config_file"), with_secrets=False), what))
        if (repository := open_as_fetched(given.get("repo"))) is not None:
            with closing(repository):
                revision = resolve(repository, given.get("rev") or "HEAD")
                tag = given.get("tag") or "develop"
                chosen = replace(revision, tag=tag if isinstance(tag, str) else tag[0])
                return _of_catalogue(what, repository, chosen, package)
    return []


def _of_catalogue(what: str, repository: Repository, revision: Revision, package: str) -> list[str]:
    if what == "stacks":
        return sorted({stack for stacks in stacks_of(repository, revision).values() for stack in stacks})
    if what == "package_versions":
        found = read_package(repository, revision, package)
        known = parse(found.content, found.path).specs.counts
        versions = sorted_versions({version for signature in known for version in signature.versions})
        return [f"{package}@{version}" for version in reversed(versions)]
    trees = tags_of(repository, revision).ids
    if what == "packages":
        tree = trees.get(revision.tag or "")
        return sorted(folders(repository, tree).ids) if tree else []
    tags = in_order(trees)
    if what == "tags":
        return tags
    refs = repository.run(["for-each-ref", "--format=%(refname:short)"]).decode("utf-8", "replace").split()
    return ["HEAD", "HEAD~1", "yesterday", *refs, *(f"HEAD:{tag}" for tag in tags)]


def in_full(_context: click.Context, _param: click.Parameter, address: str | None) -> str | None:
    """Return the URL of Spack's public catalogue for `public`, unless a file here is called so; else `address`."""
    return PUBLIC_REPOSITORY if address == PUBLIC and not os.path.lexists(PUBLIC) else address


def _note_layout(context: click.Context, _param: click.Parameter, pattern: str | None) -> None:
    if pattern is not None:
        context.meta[_LAYOUT] = Layout.parse(pattern)


def layout_asked_for() -> Layout | None:
    """Return the layout of documents that the option --documents gave, or None if it was not used."""
    context = click.get_current_context(silent=True)
    return context.meta.get(_LAYOUT) if context else None


REPO_OPTION = with_options(
    click.option(
        "--repo",
        envvar=VARIABLE,
        show_envvar=True,
        show_default="the one you stand in, the configured one, or one in this folder",
        metavar="PATH|URL",
        callback=in_full,
        help=f"Catalogue: a git repository or a folder of documents; `{PUBLIC}` is that of Spack's public cache.",
    ),
    click.option(
        "--documents",
        metavar="PATTERN",
        expose_value=False,
        callback=_note_layout,
        help="Where documents are, if not found by what they are: 'docs/{tag}/{package}.md'.",
    ),
)


def rev_option(about: str = "Revision or date.") -> Callable[[Any], Any]:
    """Return the option --rev, which names a revision, HEAD by default; `about` is its help."""
    complete = completing("revisions")
    return click.option("--rev", default="HEAD", metavar="REVISION", shell_complete=complete, help=about)


def _one_tag(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value and not is_plain(value):
        listing = f"`cachewatch tags '{safe(value)}'` lists what matches"
        raise UsageError(f"--tag {safe(value)}: takes one tag and no glob here; {listing}")
    return value


def tag_option(about: str, **default: Any) -> Callable[[Any], Any]:
    """Return the option --tag, which names one tag; `about` is its help, `default` are other settings of click."""
    complete = completing("tags")
    return click.option("--tag", metavar="TAG", callback=_one_tag, shell_complete=complete, help=about, **default)


TAG_OPTION = tag_option("Tag to read.", default="develop")


class _Default(Struct, frozen=True):
    """A repository that is read because no option names one, and the message that says so."""

    address: str
    sentence: str
    layout: Layout = ANYWHERE


def open_catalogue(repo: str | None, line: ProgressLine | None = None, *, asked: str = "") -> Repository:
    """Open `repo`; if None, the repository around the working directory, the configured one, or one in this folder.

    Tells the user which one is read, unless it is `repo` or around the working directory. Draws the progress of cloning
    on `line`. Raises UsageError, with `asked` as the beginning of its message, if there is no repository.
    """
    if repo is not None:
        if not is_url(repo) and not os.path.lexists(repo):
            raise UsageError(f"{repo}: there is no such folder")
        return _open(_Default(repo, ""), line)
    if (here := _here()) is not None:
        return here
    source = _default(asked)
    say(f"{'the repository here has no documents at HEAD; ' if is_in_repository(Path()) else ''}{source.sentence}")
    return _open(source, line)


def open_as_fetched(repo: str | None) -> Repository | None:
    """Open the repository as `open_catalogue` does, but silently and without network; None if it was never fetched."""
    if repo is None and (here := _here()) is not None:
        return here
    source = _Default(repo, "") if repo is not None else _default()
    if not is_url(source.address):
        return _open(source)
    is_here = clone_folder(source.address).exists()
    return open_clone(source.address, layout_asked_for() or source.layout) if is_here else None


def is_folder(address: str) -> bool:
    """Tell whether `address` is a folder outside of any git repository."""
    return Path(address).is_dir() and not is_in_repository(Path(address))


def is_partial() -> bool:
    """Tell whether this command opened a folder in which some documents could not be read."""
    return bool(click.get_current_context().meta.get(_PARTIAL))


def _open(found: _Default, line: ProgressLine | None = None) -> Repository:
    """Open the repository `found`; a plain folder is first recorded in a temporary one. `line` shows the progress."""
    address, layout = found.address, layout_asked_for() or found.layout
    if not is_folder(address):
        return open_repository(address, report=line.git_report if line else None, layout=layout)
    context = click.get_current_context()
    path = Path(context.find_root().with_resource(TemporaryDirectory(prefix="cachewatch-"))) / "folder.git"
    try:
        faults = record_folder(address, path, layout)
    except UsageError as error:
        raise UsageError(f"{error}; it is no git repository either") from error
    warn_of(faults)
    context.meta[_PARTIAL] = is_partial() or any(each.is_loss for each in faults)
    return Repository(path, layout, is_ours=True, folder=Path(address))


def _here() -> Repository | None:
    """Open the repository around the working directory if HEAD or HEAD~1 has documents; else return None."""
    here = Path()
    if not is_in_repository(here):
        return None
    repository = Repository(here, layout_asked_for() or ANYWHERE)
    if layout_asked_for() or _has_documents(repository):
        return repository
    repository.close()
    return None


def _has_documents(repository: Repository) -> bool:
    with suppress(SourceError):  # of too many files, or of some that are not here
        commits = map(repository.objects().get, ("HEAD^{commit}", "HEAD~1^{commit}"))
        return any(catalogue_of(repository, commit.id) for commit in commits if commit)
    return False


def _default(asked: str = "") -> _Default:
    if found := _configured() or _beside():
        return found
    here, problem = Path(), "there is no catalogue here"
    if is_in_repository(here):
        problem = "the repository here is no catalogue: it has no commits yet"
        with closing(Repository(here)) as repository:
            if head := repository.objects().get("HEAD^{commit}"):
                why = nothing_found(repository, head.id, "HEAD")
                problem = f"the repository here is no catalogue: {why}; `--repo .` reads its other revisions"
    elif not asked and (
        (here / CATALOGUE).is_dir() or any(map(holds_document, islice(here.iterdir(), _MOST_LOOKED_AT)))
    ):
        return _Default(".", "reading the documents in this folder")
    raise UsageError(_THREE_WAYS.format(problem=asked + problem, public=PUBLIC_REPOSITORY))


def _configured() -> _Default | None:
    """Return the first configured source, or None. Raises UsageError if it is not in git and was not recorded yet."""
    from cachewatch.config.reading_showing_warnings import read_config, usual_config  # noqa: PLC0415  slow to load

    file = usual_config()
    config = read_config(file, with_secrets=False) if file else None
    if config is None or not config.sources:
        return None
    source = next(iter(config.sources.values()))
    address, folder = source.address, config.folder / "sources" / f"{source.name}.git"
    if folder.exists() and (source.type != "git" or is_folder(address)):
        address = str(folder)  # a recorded build cache or folder is read where the service keeps it
    elif source.type != "git":
        remedy = "run `cachewatch once`, or name a repository with --repo"
        raise UsageError(f"{file}: nothing has been recorded of the source {source.name} yet; {remedy}")
    return _Default(address, f"reading the source {source.name} of {file}: {address}", source.layout)


def _beside() -> _Default | None:
    """Return the bare repository with documents in the working directory, or None. Raises UsageError if several."""
    repositories: list[Path] = []
    with suppress(OSError):
        paths = (path for path in Path().iterdir() if path.name != ".git")
        repositories = sorted(path for path in paths if (path / "HEAD").is_file() and (path / "objects").is_dir())
    names = []
    for path in repositories if len(repositories) <= _MOST_BESIDE else ():
        with suppress(SourceError), closing(Repository(path)) as repository:
            names += [f"./{path.name}"] if _has_documents(repository) else []
    if len(names) > 1:
        options = ", ".join(f"--repo {safe(name)}" for name in names)
        raise UsageError(f"this folder has several catalogues; choose one: {options}")
    return _Default(names[0], f"reading the catalogue {names[0]}") if names else None


# For each filter of a command, the name of its values in the facts of a document, and its name in a selection.
FACTS = {"stack": "stacks", "target": "targets", "os": "oses", "compiler": "compilers", "versions": "versions"}
SELECTED = {"tag": "tags", "package": "packages", **FACTS}

Values = Mapping[str, set[str]]  # by filter, the values that exist
Asked = Sequence[tuple[str, str]]  # pairs of a filter and one of its patterns


def check_names(filters: Mapping[str, Sequence[str]], comparison: Comparison, done: Sequence[Changeset]) -> None:
    """Warn of patterns in `filters` that match nothing in the catalogue. Raises UsageError if one is a plain name.

    `done` are the changesets of `comparison`; what they have is searched first.
    """
    asked = [(name, pattern) for name in ("package", *FACTS) for pattern in filters[name]]
    if not asked:
        return
    seen = [changeset.tally.seen.facts for changeset in done]
    values = {name: set[str]().union(*(facts.get(fact, ()) for facts in seen)) for name, fact in FACTS.items()}
    values["package"] = {document.package for pair in comparison.pairs for document in pair.difference.all_documents}
    left = unmatched(asked, values)  # the whole catalogue is read only for these
    if any(name == "stack" for name, _ in left):  # the tags' own lists may have it
        values["stack"].update(stack for ask in comparison.stacks for stacks in ask().values() for stack in stacks)
        left = unmatched(left, values)
    if not left:
        return
    others: Iterable[Blob] | None = ()
    values["package"].update(comparison.packages())
    if any(name in FACTS for name, _ in left):
        others = comparison.other_documents()
        for difference in (pair.difference for pair in comparison.pairs):
            sides = [(document.before, document.after) for document in difference.all_documents]
            add_facts(values, [before for before, _ in sides if before], comparison.readers.before)
            after = [*(after for _, after in sides if after), *difference.unchanged()]
            add_facts(values, after, comparison.readers.after)
        add_facts(values, list(others or ()), comparison.readers.after)
    has_losses = any(changeset.report.is_partial for changeset in done)
    for name, pattern in unmatched(left, values):
        # Documents that were not read, or are unreadable, may have it.
        is_unread = others is None and name in FACTS
        tags = first_of([safe_name(str(pair.after.tag)) for pair in comparison.pairs])
        unsearched = f"in {tags}; other tags did not change, and were not searched (--tag)"
        where = unsearched if is_unread else "on either side"
        sentence = f"--{name} {pattern}: {nothing_has(name, pattern, values, where)}"
        # A version is part of a range, unless it is a word.
        is_name = pattern.removeprefix("@").isalpha() if name == "versions" else is_plain(pattern)
        if is_name and not pattern.startswith("!") and not has_losses and not is_unread:
            raise UsageError(sentence)
        warn(sentence)


def nothing_has(name: str, pattern: str, values: Values, where: str) -> str:
    """Return the message that no value of the filter `name` matches `pattern` at `where`; suggest similar `values`."""
    known = values[name] | ({value.partition("@")[0] for value in values[name]} if name == "compiler" else set())
    return f"no {'version' if name == 'versions' else name} matches {where}{did_you_mean(pattern, sorted(known), MOST_NAMES)}"


def unmatched(asked: Asked, values: Values) -> Asked:
    """Return the pairs of `asked`, filter and pattern, that match none of `values`; a leading ! is ignored."""

    def is_among(name: str, pattern: str) -> bool:
        if name == "versions":
            return any(map(Versions([pattern]), values.get(name, ())))
        return any(map(Globs(every_compiler([pattern]) if name == "compiler" else [pattern]), values.get(name, ())))

    return [(name, pattern) for name, pattern in asked if not is_among(name, pattern.removeprefix("!"))]


def add_facts(values: dict[str, set[str]], blobs: Sequence[Blob], reader: Reader) -> None:
    """Add the versions, stacks and so on of the documents `blobs` to the sets in `values`; skip unreadable ones."""
    for blob, content in zip(blobs, reader.read(blobs), strict=True):
        if isinstance(content, bytes):
            with suppress(DocumentError):
                document = parse(content, blob.path)
                for name, fact in FACTS.items():
                    values[name] |= document.facts[fact]
