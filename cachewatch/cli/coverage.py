"""`cachewatch coverage`: what a cache has of an environment."""

from pathlib import Path

import click

from cachewatch.cli.diff import may_paint
from cachewatch.cli.output import write
from cachewatch.coverage import Coverage, Standing, cover
from cachewatch.environments import open_environment
from cachewatch.errors import UsageError
from cachewatch.render.colour import Palette
from cachewatch.render.coverage import coverage_json, render_coverage
from cachewatch.safetext import safe

_NOT_THERE = "not-there"
_UNREFERENCED = "unreferenced"
_FAILURES = (_NOT_THERE, *(s.value for s in Standing if s is not Standing.THERE), _UNREFERENCED)


@click.command()
@click.argument("lockfile", type=Path)
@click.option("--repo", metavar="PATH|URL", help="The repository of revisions; the current folder if left out.")
@click.option("--rev", default="HEAD", metavar="REVISION", help="The revision, or a date; HEAD if left out.")
@click.option("--source", metavar="ADDRESS", help="Ask this build cache or catalogue instead, as it is now.")
@click.option("--tag", metavar="TAG", help="The tag; develop if left out.")
@click.option("--view", default="", metavar="NAME", help="Of a source, read this named index instead of the main one.")
@click.option("--token-file", type=Path, metavar="FILE", help="Send the token in FILE along to the source.")
@click.option("--login-file", type=Path, metavar="FILE", help="Send the user:password in FILE along to the source.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="How to say it.")
@click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice(_FAILURES),
    metavar="WHAT",
    help=f"Exit with 1 if anything is {', '.join(_FAILURES[:-1])} or {_FAILURES[-1]}; repeatable.",
)
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Paint the text.")
@click.option("-o", "--output", metavar="FILE", help="Write to FILE, whole or not at all.")
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
    color: str,
    output: str | None,
) -> None:
    """Say which of an environment's binaries a cache has.

    LOCKFILE is a spack.lock, a spack.yaml (with the spack.lock beside it, if there is one) or the folder of
    an environment. It is held against a recorded revision (--repo), or a live cache (--source).
    """
    from cachewatch import holdings  # noqa: PLC0415  what asks servers is slow to load
    from cachewatch.cli.cacheoptions import single_tag  # noqa: PLC0415

    environment = open_environment(lockfile)
    if source is not None and repo is not None:
        raise UsageError("name a repository or a source, not both")
    if source is None:
        held = holdings.recorded(repo or ".", rev, tag, environment.packages)
    else:
        held = holdings.published(
            single_tag(source, tag, view=view, token_file=token_file, login_file=login_file), environment.packages
        )
    found = cover(environment, held.holdings, is_pruned=held.is_pruned)
    is_painted = color == "always" or (color == "auto" and output is None and may_paint())
    if format_ == "json":
        write([coverage_json(found, held.where)], output)
    else:
        lines = render_coverage(found, held.where, Palette(is_on=is_painted))
        write([f"{line}\n".encode() for line in lines], output, is_for_people=True)
    for fault in held.faults:
        click.echo(f"cachewatch: warning: {safe(fault.path)}: {fault.kind}: {safe(fault.message)}", err=True)
    if any(fault.is_loss for fault in held.faults):
        context.exit(4)
    context.exit(int(any(_happened(what, found) for what in fail_on)))


def _happened(what: str, found: Coverage) -> bool:
    if what == _UNREFERENCED:
        return bool(found.unreferenced)
    if what == _NOT_THERE:
        return len(found.of(Standing.THERE)) < len(found.needs)
    return bool(found.of(Standing(what)))
