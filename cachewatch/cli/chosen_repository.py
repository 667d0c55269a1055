"""Open the catalogue that a command reads, and find names in it.

Nothing is fetched from a network unless `--repo`, the environment or the configuration names an address there.
"""

import os
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from msgspec import Struct
from msgspec.structs import replace

from cachewatch.cli.shared_options_and_filters import PUBLIC, VARIABLE, layout_asked_for
from cachewatch.cli.terminal import ProgressLine, say, warn_of
from cachewatch.core.escaping_and_mentions import safe
from cachewatch.core.names_and_layouts import ANYWHERE, CATALOGUE, PUBLIC_REPOSITORY, Layout, in_order
from cachewatch.core.versions_spellings_targets import sorted_versions
from cachewatch.documents.records_parsing_diagnostics import parse
from cachewatch.errors import CachewatchError, SourceError, UsageError
from cachewatch.git.local_repository import Repository, is_in_repository
from cachewatch.git.remote_urls_and_fetch_errors import clone_folder, is_url, open_clone, open_repository
from cachewatch.git.revision_names_and_times import Revision, resolve
from cachewatch.git.tags_and_documents import read_package, stacks_of, tags_of
from cachewatch.git.trees import catalogue_of, folders, nothing_found
from cachewatch.sources.folders_and_unreadable_files import holds_document, record_folder

_PARTIAL = "cachewatch.partial_folder"
_MOST_BESIDE = 20
_MOST_LOOKED_AT = 500
_THREE_WAYS = f"""\
{{problem}}. Name one; nothing is fetched from a network unless you ask for it:
  --repo PATH or URL    a git repository or a folder with documents ({VARIABLE} names one for all commands)
  --repo {PUBLIC}         the catalogue of Spack's public build cache, {{public}}
  cachewatch init       writes a configuration, whose first source is read"""


def names_of(what: str, context: click.Context, package: str = "") -> list[str]:
    """Return names for shell completion: of `what` ("tags", say), or versions of `package`; [] on any error."""
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


class _Default(Struct, frozen=True):
    """A repository to read, and the sentence that tells the user which one is read; "" if the user named it."""

    address: str
    sentence: str
    layout: Layout = ANYWHERE


def open_catalogue(repo: str | None, line: ProgressLine | None = None, *, asked: str = "") -> Repository:
    """Open `repo`; if None, the repository around the working directory, the configured one, or one in this folder.

    The user is told which one is read unless it is `repo` or around the working directory. `line` shows the progress
    of cloning. Raises UsageError, with `asked` as the beginning of its message, if there is no repository.
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
    """Open what `open_catalogue` opens, but silently and without network; return None if it was never fetched."""
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
    """Open the repository `found`. If it is a plain folder, open a temporary repository with the same documents."""
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
    """Return the bare repository with documents in the working directory, or None. Raises UsageError for several."""
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
