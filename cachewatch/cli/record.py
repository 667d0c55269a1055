"""`cachewatch record`: keep the history of a build cache."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cachewatch.cli.build_cache_options import cache_of, cache_options
from cachewatch.cli.help_examples import examples
from cachewatch.cli.output import FORMAT_OPTION, write_json
from cachewatch.cli.waiting import waiting
from cachewatch.core.untrusted_text import safe
from cachewatch.render.statement_phrases import number
from cachewatch.sources.cache_recorder import record as add_revision

if TYPE_CHECKING:
    from cachewatch.sources.cache_recorder import Recorded, TagCounts

_INTO = "catalogue.git"


@click.command(
    epilog=examples(
        "cachewatch record https://binaries.example.org/cache --into catalogue.git",
        "cachewatch record oci://ghcr.io/example/cache --tag main --stack hpc",
    )
)
@click.argument("source")
@click.option("--into", default=_INTO, metavar="REPO", help="Bare repository; created if it does not exist.")
@cache_options
@click.option("--sizes", is_flag=True, help="Fetch the size of each new tarball (one small request each).")
@click.option("--force", is_flag=True, help="Accept large removals.")
@FORMAT_OPTION
@click.option("-q", "--quiet", is_flag=True, help="Print only warnings and errors.")
@click.pass_context
def record(
    context: click.Context,
    /,
    *,
    source: str,
    into: str,
    sizes: bool,
    force: bool,
    quiet: bool,
    format_: str,
    **options: object,
) -> None:
    """Record the current contents of a build cache as a revision.

    SOURCE is a build cache (a folder, file://, http://, https:// or oci://) or a catalogue of build caches
    (a cache_spack_io_index.json). A revision is added only if something changed since the last one, so this
    can run as often as you like.
    """
    doing = [f"opening {source}"]
    with waiting(lambda: doing[-1]):
        done = add_revision(
            cache_of(source, options), Path(into), is_confirmed=force, wants_sizes=sizes, tell=doing.append
        )
    if format_ == "json":
        write_json(done)
    elif not quiet:
        _tell(done, into)
    _warn(done)
    context.exit(_status(done))


def _tell(done: "Recorded", into: str) -> None:
    if done.commit is None:
        if not done.held:
            click.echo(f"{safe(into)}: no changes.")
        return
    click.echo(f"{safe(into)}: recorded {done.commit[:10]}.")
    for count in done.tags:
        if count.is_different:
            click.echo(f"  {_counted(count)}")
    click.echo(_next(done, shlex.quote(into)))


def _next(done: "Recorded", into: str) -> str:
    if done.before is None:
        return f"Next: `cachewatch packages --repo {into}` lists its packages; record again when the cache has changed."
    return f"Next: `cachewatch diff --repo {into}` shows what changed."


def _counted(count: "TagCounts") -> str:
    parts = ((count.new, "new"), (count.changed, "changed"), (count.removed, "removed"))
    told = ", ".join(f"{documents:,} {word}" for documents, word in parts if documents)
    return f"{safe(count.tag)}: {number(count.specs, 'spec')} of {number(count.packages, 'package')}; documents: {told}"


def _warn(done: "Recorded") -> None:
    for diagnostic in done.diagnostics:
        click.echo(
            f"cachewatch: warning: {safe(diagnostic.path)}: {diagnostic.kind}: {safe(diagnostic.message)}", err=True
        )
    for failed in done.failed:
        click.echo(f"cachewatch: {safe(failed.tag)}: not recorded: {safe(failed.message)}", err=True)
    for held in done.held:
        click.echo(
            f"cachewatch: {safe(held.tag)}: held back: {safe(held.reason)}; to accept this, use --force", err=True
        )


def _status(done: "Recorded") -> int:
    if done.held or done.failed:
        return 3
    return 4 if any(diagnostic.is_loss for diagnostic in done.diagnostics) else 0
