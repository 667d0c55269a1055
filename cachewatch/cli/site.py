"""`cachewatch site`: a static site of a catalogue and its past."""

import os
from contextlib import closing
from pathlib import Path

import click

from cachewatch.cli.completing import completing
from cachewatch.cli.help_examples import examples
from cachewatch.cli.open_catalogue import REPO_OPTION, open_catalogue
from cachewatch.cli.progress import progress_line
from cachewatch.core.model import Diagnostic
from cachewatch.core.selection import Globs
from cachewatch.core.untrusted_text import safe

_MOST_WARNINGS = 20


@click.command(
    epilog=examples("cachewatch site public_html", "cachewatch site public_html --tag develop --since 2025-06-01")
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@REPO_OPTION
@click.option(
    "--rev",
    default="HEAD",
    metavar="REVISION",
    shell_complete=completing("revisions"),
    help="Newest revision, or a date.",
)
@click.option("--since", metavar="REVISION", show_default="first revision", help="Oldest revision, or a date.")
@click.option(
    "--tag",
    multiple=True,
    metavar="GLOB",
    shell_complete=completing("tags"),
    help="Only these tags; repeatable, !GLOB excludes.",
)
@click.option(
    "--package",
    multiple=True,
    metavar="GLOB",
    shell_complete=completing("packages"),
    help="Only these packages; repeatable, !GLOB excludes.",
)
@click.option(
    "--state", metavar="DIR", type=click.Path(path_type=Path), help="Include the digests stored in this state folder."
)
@click.option("--feed", metavar="ADDRESS", help="Address of the Atom feeds; {subscription} is replaced by the name.")
@click.option("--title", default="Build cache", metavar="TEXT", help="Title of the site.")
@click.option("--no-progress", is_flag=True, help="Do not show a progress bar.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=min(2, os.cpu_count() or 1),
    show_default="2, or 1 on a single CPU",
    help="Number of worker processes.",
)
@click.pass_context
def site(
    context: click.Context,
    /,
    *,
    folder: Path,
    repo: str | None,
    rev: str,
    since: str | None,
    tag: tuple[str, ...],
    package: tuple[str, ...],
    state: Path | None,
    feed: str | None,
    title: str,
    no_progress: bool,
    jobs: int,
) -> None:
    """Generate a static site about a catalogue and its history.

    DIR receives a page for each package, stack and tag, readable through a web server or from the disk. Data
    and pages that have not changed since the last run are neither read nor written again.
    """
    from cachewatch.git.resolving_revisions import resolve  # noqa: PLC0415
    from cachewatch.site import NoArchive, StateArchive, build  # noqa: PLC0415  git is slow to load
    from cachewatch.site.read_history import plan, read  # noqa: PLC0415
    from cachewatch.site.write_pages import Folder  # noqa: PLC0415

    line = progress_line(is_wanted=not no_progress, doing="reading")
    target = Folder(folder)
    archive = NoArchive() if state is None else StateArchive(state, feed)
    repository = open_catalogue(repo, line)
    with closing(line), closing(repository):
        planned = plan(
            repository,
            resolve(repository, rev),
            since=resolve(repository, since) if since else None,
            wanted_tag=Globs(tag),
            wanted_package=Globs(package),
            known=target.remembered(),
        )
        line.begin(planned.size)
        catalogue = read(planned, jobs=jobs, progress=line.advance)
    with closing(progress_line(is_wanted=not no_progress, doing="writing pages")) as line:
        built = build(target, catalogue, archive, title=title, jobs=jobs, progress=line.count)
    click.echo(
        f"{folder}: {built.written:,} files written, {built.kept:,} unchanged, {built.removed:,} removed", err=True
    )
    _warn(catalogue.diagnostics)
    context.exit(4 if any(diagnostic.is_loss for diagnostic in catalogue.diagnostics) else 0)


def _warn(diagnostics: tuple[Diagnostic, ...]) -> None:
    for diagnostic in diagnostics[:_MOST_WARNINGS]:
        click.echo(
            f"cachewatch: warning: {safe(diagnostic.path)}: {diagnostic.kind}: {safe(diagnostic.message)}", err=True
        )
    if len(diagnostics) > _MOST_WARNINGS:
        click.echo(f"cachewatch: warning: ... and {len(diagnostics) - _MOST_WARNINGS:,} more", err=True)
