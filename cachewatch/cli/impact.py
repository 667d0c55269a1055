"""`cachewatch impact`: what would be rebuilt if a package changed."""

from contextlib import closing

import click

from cachewatch.causes.recorded_graph import RecordedGraph
from cachewatch.causes.recorded_impact import recorded_impact
from cachewatch.cli.completing import completing
from cachewatch.cli.help_examples import examples
from cachewatch.cli.open_catalogue import REPO_OPTION, open_catalogue
from cachewatch.cli.output import OUTPUT_OPTION, REPORT_FORMAT_OPTION, write
from cachewatch.cli.progress import progress_line
from cachewatch.git.catalogue import require_tag
from cachewatch.git.resolving_revisions import resolve
from cachewatch.render.impact import impact_json, impact_lines, impact_markdown


@click.command(
    epilog=examples(
        "cachewatch impact zlib --repo catalogue.git",
        "cachewatch impact openssl@3.4.0 --rev yesterday --repo catalogue.git --format json",
    )
)
@click.argument("package", metavar="PACKAGE[@VERSION]", shell_complete=completing("package_versions"))
@click.option(
    "--rev", default="HEAD", metavar="REVISION", shell_complete=completing("revisions"), help="Revision or date."
)
@click.option("--tag", default="develop", metavar="TAG", shell_complete=completing("tags"), help="Tag to read.")
@REPO_OPTION
@REPORT_FORMAT_OPTION
@OUTPUT_OPTION
def impact(*, package: str, rev: str, tag: str, repo: str | None, format_: str, output: str | None) -> None:
    """Show what would be rebuilt if a package changed: all specs that depend on it, by stack.

    The dependency graph is in repositories that `cachewatch record` writes; upstream's documents do not have it.
    """
    with closing(progress_line()) as line, closing(open_catalogue(repo, line)) as repository:
        revision = resolve(repository, rev)
        require_tag(repository, revision, tag)
        found = recorded_impact(RecordedGraph(repository, revision.commit, tag), package)
    where = f"{tag} at {revision.commit[:7]}"
    if format_ == "json":
        write([impact_json(package, found)], output)
    elif format_ == "markdown":
        write([impact_markdown(package, where, found)], output)
    else:
        write([f"{line}\n".encode() for line in impact_lines(package, where, found)], output, is_for_people=True)
