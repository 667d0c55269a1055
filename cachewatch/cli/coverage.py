"""`cachewatch coverage`: which binaries of an environment a cache has."""

from contextlib import closing
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from cachewatch.cli import terminal
from cachewatch.cli.chosen_repository_and_filters import REPO_OPTION, open_catalogue, rev_option, tag_option
from cachewatch.cli.help_and_exit_codes import examples
from cachewatch.core.advice.environment_coverage import cover
from cachewatch.core.kinds_and_specs import MISSED, LossClass
from cachewatch.environments import open_environment, published, recorded_in
from cachewatch.errors import UsageError
from cachewatch.hooks import extensions
from cachewatch.report.environment_words import coverage_json, named, render_coverage
from cachewatch.runtime.worker import INLINE

_FAILURES = {one.value: (one,) for one in LossClass if one is not LossClass.KEPT} | {"lost": MISSED}


@examples(
    "cachewatch coverage spack.lock --rev yesterday",
    "cachewatch coverage . --source https://binaries.example.org/cache --fail-on lost",
)
@click.command
@click.argument("lockfile", type=Path)
@REPO_OPTION
@rev_option()
@click.option("--source", metavar="ADDRESS", help="Query this live build cache or catalogue instead of a repository.")
@tag_option("Tag to compare with.", show_default="develop")
@click.option("--view", default="", show_default=False, metavar="NAME", help="With --source: read this view's index.")
@click.option("--token-file", type=Path, metavar="FILE", help="File that contains a bearer token for the source.")
@click.option("--login-file", type=Path, metavar="FILE", help="File that contains user:password for the source.")
@terminal.FORMAT_OPTION
@click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice(tuple(_FAILURES)),
    metavar="WHAT",
    help="Exit with 1 if any spec is gone, other, going or equal; lost means the first three. Repeatable.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no report, for use with --fail-on.")
@terminal.OUTPUT_OPTION
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
    format_: str,
    fail_on: tuple[str, ...],
    quiet: bool,
    output: str | None,
    **live: Any,
) -> int:
    """Show which specs of an environment have binaries in a cache.

    LOCKFILE is a spack.lock, a spack.yaml (its spack.lock is read too, if present) or an environment's folder.
    It is compared with a recorded revision (--repo) or with a live build cache (--source).
    """
    environment = open_environment(lockfile)
    if source is not None:
        if context.get_parameter_source("repo") is ParameterSource.COMMANDLINE:
            raise UsageError("--repo and --source cannot be combined; give one of them")
        held = published(source, environment.packages, tag=tag, **live)
        report = cover(environment, held.holdings, is_pruned=held.is_pruned)
    else:
        with closing(terminal.ProgressLine()) as line, closing(open_catalogue(repo, line)) as opened:
            revision = f"{rev}:{tag}" if tag else rev
            held = recorded_in(opened, repo or str(opened.path), revision, environment.packages)
            report = cover(environment, held.holdings, is_pruned=held.is_pruned)
            causes = extensions().hook.causes(repository=opened)
            if causes is not None and held.revision and held.tag:
                options = {"folders": (), "tags": ((held.revision, held.tag),), "isolation": INLINE}
                report = causes.of_environment(report, lockfile, **options, warn=terminal.warn)
    if format_ == "json" and not quiet:
        terminal.write([coverage_json(report, held.where)], output)
    elif not quiet:
        terminal.write_lines(render_coverage(report, held.where, terminal.palette(output)), output)
    terminal.warn_of(held.diagnostics)
    if any(diagnostic.is_loss for diagnostic in held.diagnostics):
        return 4
    failed = {what: [one for of in reversed(_FAILURES[what]) for one in report.of_class(of)] for what in fail_on}
    for what, specs in failed.items():
        if specs:
            terminal.say(f"--fail-on {what}: {named(specs)}")
    return int(any(failed.values()))
