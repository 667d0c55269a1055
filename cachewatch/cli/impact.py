"""`cachewatch impact`: what would be rebuilt if a package changed."""

import click

from cachewatch.cli.help_examples import examples
from cachewatch.cli.output import write
from cachewatch.render.impact import impact_json, impact_lines


@click.command(
    epilog=examples(
        "cachewatch impact zlib --repo catalogue.git",
        "cachewatch impact openssl@3.4.0 --rev yesterday --repo catalogue.git --format json",
    )
)
@click.argument("package", metavar="PACKAGE[@VERSION]")
@click.option("--rev", default="HEAD", metavar="REVISION", help="Revision or date.")
@click.option("--tag", default="develop", metavar="TAG", help="Tag to read.")
@click.option(
    "--repo",
    default=".",
    show_default="current folder",
    metavar="PATH|URL",
    help="Catalogue that `cachewatch record` wrote: a path or a URL.",
)
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@click.option(
    "-o", "--output", metavar="FILE", help="Write to FILE, which is replaced only when the output is complete."
)
def impact(*, package: str, rev: str, tag: str, repo: str, format_: str, output: str | None) -> None:
    """Show what would be rebuilt if a package changed: all specs that depend on it, by stack.

    The dependency graph is in repositories that `cachewatch record` writes; upstream's documents do not have it.
    """
    from cachewatch.causes.recorded_graph import RecordedGraph  # noqa: PLC0415  git is slow to load
    from cachewatch.causes.recorded_impact import recorded_impact  # noqa: PLC0415
    from cachewatch.git.clone_cache import open_repository  # noqa: PLC0415
    from cachewatch.git.resolving_revisions import resolve  # noqa: PLC0415

    repository = open_repository(repo, report=None)
    try:
        revision = resolve(repository, rev)
        found = recorded_impact(RecordedGraph(repository, revision, tag), package)
    finally:
        repository.close()
    if format_ == "json":
        write([impact_json(package, found)], output)
    else:
        where = f"{tag} at {revision.commit[:7]}"
        write([f"{line}\n".encode() for line in impact_lines(package, where, found)], output, is_for_people=True)
