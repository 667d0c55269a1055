"""The command `cachewatch record`, which records the history of a build cache."""

import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
from msgspec.structs import replace

from cachewatch.cli.help_and_exit_codes import examples
from cachewatch.cli.terminal import FORMAT_OPTION, ProgressLine, say, warn_of, width, write_json
from cachewatch.config.schedules_and_quiet_times import parse_size
from cachewatch.core.escaping_and_mentions import safe
from cachewatch.core.filters_and_spec_patterns import Globs
from cachewatch.errors import UsageError
from cachewatch.extensions.buildcaches.indexes_and_published_tags import Cache, is_catalogue
from cachewatch.extensions.buildcaches.recording_and_suspicion import Recorded
from cachewatch.extensions.buildcaches.recording_and_suspicion import record as add_revision
from cachewatch.report.diff_blocks_and_colours import fitted
from cachewatch.report.words import number


@examples(
    "cachewatch record https://binaries.example.org/cache --into catalogue.git",
    "cachewatch record oci://ghcr.io/example/cache --tag main --stack hpc",
)
@click.command
@click.argument("source")
@click.option("--into", default="catalogue.git", metavar="REPO", help="Bare repository; created if it does not exist.")
@click.option(
    "--tag",
    multiple=True,
    metavar="TAG",
    help="Tag name for a build cache (develop if omitted); for a catalogue, only tags that match this glob.",
)
@click.option("--stack", default="cache", metavar="NAME", help="Stack name for a build cache.")
@click.option(
    "--view", default="", show_default=False, metavar="NAME", help="Read this view's index instead of the main one."
)
@click.option("--max-index", default="4GiB", metavar="SIZE", help="Maximum size of an unpacked index.")
@click.option("--token-file", type=Path, metavar="FILE", help="File that contains a bearer token.")
@click.option("--login-file", type=Path, metavar="FILE", help="File that contains user:password.")
@click.option("--force", is_flag=True, help="Accept an empty index, or nine tenths fewer specs of a tag or stack.")
@FORMAT_OPTION
@click.option("-q", "--quiet", is_flag=True, help="Print only warnings and errors.")
def record(
    *,
    source: str,
    into: str,
    tag: tuple[str, ...],
    stack: str,
    view: str,
    max_index: str,
    token_file: Path | None,
    login_file: Path | None,
    force: bool,
    quiet: bool,
    format_: str,
) -> int:
    """Record the current contents of a build cache as a revision.

    SOURCE is a build cache (a folder, file://, http://, https:// or oci://) or a catalogue of build caches
    (a cache_spack_io_index.json). A revision is added only if something changed since the last one, so this
    can run as often as you like.
    """
    cache = Cache(address=source, token_file=token_file, login_file=login_file, max_index=parse_size(max_index))
    if is_catalogue(source):
        cache = replace(cache, wanted_tag=Globs(tag))
    elif len(tag) > 1:
        raise UsageError("--tag can be given only once for a build cache; only a catalogue has several tags")
    else:
        cache = replace(cache, tag=tag[0] if tag else "develop", stack=stack, view=view)
    with closing(ProgressLine()) as line:
        line.show(f"opening {source}")
        done = add_revision(cache, Path(into), is_confirmed=force, tell=line.show)
    if format_ == "json":
        write_json("record", done)
    elif not quiet:
        for told in fitted(_summary(done, into), width()):
            click.echo(told)
    warn_of(done.diagnostics)
    for failed in done.failed:
        say(f"{failed.tag}: not recorded: {failed.message}")
    for held in done.held:
        say(f"{held.tag}: held back: {held.reason}; to accept this, use --force")
    is_loss = any(diagnostic.is_loss for diagnostic in done.diagnostics)
    return 3 if done.held or done.failed else 4 if is_loss else 0


def _summary(done: Recorded, into: str) -> Iterator[str]:
    if done.commit is None:
        if not done.held:
            yield f"{safe(into)}: no changes."
        return
    yield f"{safe(into)}: recorded {done.commit[:10]}."
    for count in done.tags:
        if count.is_different:
            parts = ((count.new, "new"), (count.changed, "changed"), (count.removed, "removed"))
            told = ", ".join(f"{documents:,} {word}" for documents, word in parts if documents)
            specs, packages = number(count.specs, "spec"), number(count.packages, "package")
            yield f"  {safe(count.tag)}: {specs} of {packages}; documents: {told}"
    repo = f"--repo {shlex.quote(into)}"
    if done.before is not None:
        yield f"Next: `cachewatch diff {repo}` shows what changed."
    else:
        yield f"Next: `cachewatch packages {repo}` lists its packages; record again when the cache has changed."
