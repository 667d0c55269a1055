"""The repository that a command reads: the one that `--repo` names, or the first of several that is there.

Nothing is fetched from a network unless `--repo`, the environment or the configuration names an address there.
Git and the configuration are slow to load; the configuration is loaded only if the user stands in no catalogue.
"""

import os
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from cachewatch.core.repository_layout import CATALOGUE, PUBLIC_REPOSITORY
from cachewatch.core.untrusted_text import safe
from cachewatch.errors import ConfigError, SourceError, UsageError

if TYPE_CHECKING:
    from cachewatch.cli.progress import ProgressLine
    from cachewatch.git.repository import Repository

VARIABLE = "CACHEWATCH_REPO"
PUBLIC = "public"
_MOST_BESIDE = 20
_THREE_WAYS = f"""\
{{problem}}. Name one; nothing is fetched from a network unless you ask for it:
  --repo PATH or URL    a git repository with documents ({VARIABLE} names one for all commands)
  --repo {PUBLIC}         the catalogue of Spack's public build cache, {{public}}
  cachewatch init       writes a configuration, whose first source is read"""


def in_full(_context: click.Context, _param: click.Parameter, address: str | None) -> str | None:
    """Return the address that a user means: `public` is Spack's public cache, unless a folder has that name."""
    return PUBLIC_REPOSITORY if address == PUBLIC and not os.path.lexists(PUBLIC) else address


REPO_OPTION = click.option(
    "--repo",
    envvar=VARIABLE,
    show_envvar=True,
    show_default="the one you stand in, else the configured one, else one in this folder",
    metavar="PATH|URL",
    callback=in_full,
    help=f"Catalogue repository; `{PUBLIC}` is that of Spack's public build cache.",
)


class _Default(Struct, frozen=True):
    """The repository to read where none was named, and the sentence that says so."""

    address: str
    sentence: str


def open_catalogue(repo: str | None, line: "ProgressLine | None" = None, *, asked: str = "") -> "Repository":
    """Open the repository `repo`, or else the first there is: where the user stands, configured, beside it.

    Says which one is read if nobody named it and the user does not stand in it. A clone draws on `line`. Where there
    is none, raises UsageError with the ways to name one; `asked` begins that sentence.
    """
    if repo is None and (here := _here()) is not None:
        return here
    from cachewatch.git.clone_cache import open_repository  # noqa: PLC0415

    report = line.git_report if line else None
    if repo is not None:
        return open_repository(repo, report=report)
    default = _default(asked)
    click.echo(f"cachewatch: {_why_not_here()}{safe(default.sentence)}", err=True)
    return open_repository(default.address, report=report)


def open_as_fetched(repo: str | None) -> "Repository | None":
    """Open the same repository silently and without the network; None if it was never fetched."""
    from cachewatch.git.addresses import clone_folder, is_url  # noqa: PLC0415
    from cachewatch.git.clone_cache import Clone, open_repository  # noqa: PLC0415

    if repo is None and (here := _here()) is not None:
        return here
    address = repo if repo is not None else _default().address
    if not is_url(address):
        return open_repository(address)
    folder = clone_folder(address)
    return Clone(folder) if folder.exists() else None


def _here() -> "Repository | None":
    """Open the repository that the user stands in, if its newest revision has a catalogue, or the one before it had."""
    from cachewatch.git.repository import Repository  # noqa: PLC0415
    from cachewatch.git.repository_checks import is_in_repository  # noqa: PLC0415

    here = Path()
    if not is_in_repository(here):
        return None
    repository = Repository(here)
    if _has_catalogue(repository):
        return repository
    repository.close()
    return None


def _has_catalogue(repository: "Repository") -> bool:
    return any(repository.objects().get(f"{revision}:{CATALOGUE}") is not None for revision in ("HEAD", "HEAD~1"))


def _why_not_here() -> str:
    from cachewatch.git.repository_checks import is_in_repository  # noqa: PLC0415

    return f"the repository here has no {CATALOGUE}/ at HEAD; " if is_in_repository(Path()) else ""


def _default(asked: str = "") -> _Default:
    found = _configured() or _beside()
    if found is None:
        problem = "there is no catalogue here"
        if not_here := _why_not_here():
            problem = f"{not_here}`--repo .` reads its other revisions"
        raise UsageError(_THREE_WAYS.format(problem=asked + problem, public=PUBLIC_REPOSITORY))
    return found


def _configured() -> _Default | None:
    """Return the first source of the configuration, or None if there is no configuration."""
    from cachewatch.config.finding import find_config  # noqa: PLC0415
    from cachewatch.config.reading import read_config  # noqa: PLC0415

    file: Path | None = None
    with suppress(ConfigError):
        file = find_config()
    config = read_config(file, with_secrets=False) if file else None
    source = next(iter(config.sources.values()), None) if config else None
    if config is None or source is None:
        return None
    address = source.address
    if source.type != "git":
        # What was recorded of a build cache is where the service keeps it.
        folder = config.folder / "sources" / f"{source.name}.git"
        if not folder.exists():
            raise UsageError(
                f"{file}: nothing has been recorded of the source {source.name} yet; "
                "run `cachewatch once`, or name a repository with --repo"
            )
        address = str(folder)
    return _Default(address, f"reading the source {source.name} of {file}: {address}")


def _beside() -> _Default | None:
    """Return the catalogue that `record` or `demo` left in this folder; several are a UsageError."""
    names = [f"./{path.name}" for path in sorted(_bare_repositories()) if _is_catalogue(path)]
    if len(names) > 1:
        options = ", ".join(f"--repo {safe(name)}" for name in names)
        raise UsageError(f"this folder has several catalogues; choose one: {options}")
    return _Default(names[0], f"reading the catalogue {names[0]}") if names else None


def _bare_repositories() -> list[Path]:
    """Return the bare repositories in this folder; none if there are so many that looking into each takes long."""
    with suppress(OSError):
        found = [path for path in Path().iterdir() if (path / "HEAD").is_file() and (path / "objects").is_dir()]
        return found if len(found) <= _MOST_BESIDE else []
    return []


def _is_catalogue(path: Path) -> bool:
    from cachewatch.git.repository import Repository  # noqa: PLC0415

    with suppress(SourceError), closing(Repository(path)) as repository:
        return _has_catalogue(repository)
    return False
