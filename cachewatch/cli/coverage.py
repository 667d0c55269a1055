"""`cachewatch coverage`: which binaries of an environment a cache has."""

from contextlib import closing
from pathlib import Path

import click
from click.core import ParameterSource

from cachewatch import environments as contents
from cachewatch.cli.catalogue import REPO_OPTION, open_catalogue
from cachewatch.cli.mistakes import completing, examples
from cachewatch.cli.terminal import (
    COLOR_OPTION,
    FORMAT_OPTION,
    OUTPUT_OPTION,
    palette,
    progress_line,
    write,
    write_lines,
)
from cachewatch.core.advice.coverage import Coverage, cover
from cachewatch.core.model import MISSED, LossClass
from cachewatch.core.names import safe
from cachewatch.environments import CacheContents, open_environment
from cachewatch.errors import UsageError
from cachewatch.git.repository import Repository
from cachewatch.hooks import extensions
from cachewatch.report.environments import coverage_json, named, render_coverage
from cachewatch.runtime.worker import INLINE

_FAILURES = {one.value: (one,) for one in LossClass if one is not LossClass.KEPT} | {"lost": MISSED}


@click.command(
    epilog=examples(
        "cachewatch coverage spack.lock --rev yesterday",
        "cachewatch coverage . --source https://binaries.example.org/cache --fail-on lost",
    )
)
@click.argument("lockfile", type=Path)
@REPO_OPTION
@click.option(
    "--rev", default="HEAD", metavar="REVISION", shell_complete=completing("revisions"), help="Revision or date."
)
@click.option("--source", metavar="ADDRESS", help="Query this live build cache or catalogue instead of a repository.")
@click.option(
    "--tag",
    metavar="TAG",
    show_default="develop",
    shell_complete=completing("tags"),
    help="Tag to compare with.",
)
@click.option("--view", default="", show_default=False, metavar="NAME", help="With --source: read this view's index.")
@click.option("--token-file", type=Path, metavar="FILE", help="File that contains a bearer token for the source.")
@click.option("--login-file", type=Path, metavar="FILE", help="File that contains user:password for the source.")
@FORMAT_OPTION
@click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice(tuple(_FAILURES)),
    metavar="WHAT",
    help="Exit with 1 if any spec is gone, other, going or equal; lost means the first three. Repeatable.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no report, for use with --fail-on.")
@COLOR_OPTION
@OUTPUT_OPTION
@click.pass_context
def coverage(
    context: click.Context,
    /,
    *,
    lockfile: Path,
    repo: str | None,
    rev: str,
    source: str | None,
    tag: str | None,
    view: str,
    token_file: Path | None,
    login_file: Path | None,
    format_: str,
    fail_on: tuple[str, ...],
    quiet: bool,
    color: str,
    output: str | None,
) -> None:
    """Show which specs of an environment have binaries in a cache.

    LOCKFILE is a spack.lock, a spack.yaml (its spack.lock is read too, if present) or an environment's folder.
    It is compared with a recorded revision (--repo) or with a live build cache (--source).
    """
    environment = open_environment(lockfile)
    is_repo_given = context.get_parameter_source("repo") is ParameterSource.COMMANDLINE
    if source is not None and is_repo_given:
        raise UsageError("--repo and --source cannot be combined; give one of them")
    if source is None:
        with closing(progress_line()) as line, closing(open_catalogue(repo, line)) as opened:
            held = contents.recorded_in(
                opened, repo or str(opened.path), f"{rev}:{tag}" if tag else rev, environment.packages
            )
            found = cover(environment, held.holdings, is_pruned=held.is_pruned)
            found = _with_causes(found, opened, held, lockfile)
    else:
        held = contents.published(
            source, environment.packages, tag=tag, view=view, token_file=token_file, login_file=login_file
        )
        found = cover(environment, held.holdings, is_pruned=held.is_pruned)
    if format_ == "json" and not quiet:
        write([coverage_json(found, held.where)], output)
    elif not quiet:
        write_lines(render_coverage(found, held.where, palette(color, output)), output)
    for diagnostic in held.diagnostics:
        click.echo(
            f"cachewatch: warning: {safe(diagnostic.path)}: {diagnostic.kind}: {safe(diagnostic.message)}", err=True
        )
    if any(diagnostic.is_loss for diagnostic in held.diagnostics):
        context.exit(4)
    failed = {what: tuple(one for of in reversed(_FAILURES[what]) for one in found.of_class(of)) for what in fail_on}
    for what, specs in failed.items():
        if specs:
            click.echo(f"cachewatch: --fail-on {what}: {named(specs)}", err=True)
    context.exit(int(any(failed.values())))


def _with_causes(found: Coverage, opened: "Repository", held: "CacheContents", lockfile: Path) -> Coverage:
    """Return `found` with the reasons why specs have other hashes, if the revision has dependency graphs."""
    causes = extensions().hook.causes(repository=opened)
    if causes is None or not (held.revision and held.tag):
        return found

    def warn(said: str) -> None:
        click.echo(f"cachewatch: warning: {safe(said)}", err=True)

    explained: Coverage = causes.of_environment(
        found, lockfile, folders=(), tags=((held.revision, held.tag),), isolation=INLINE, warn=warn
    )
    return explained
