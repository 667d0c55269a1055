"""`cachewatch demo`: see a report within seconds, on bundled documents."""

import shlex
import tempfile
from pathlib import Path

import click

from cachewatch import demo as bundled
from cachewatch.cli.diff import diff
from cachewatch.cli.mistakes import examples
from cachewatch.errors import UsageError

_BEFORE = """\
Five real documents of Spack's public build cache, and what they may have looked like a week before:
the earlier revision is derived from them, the later one is as published.

$ cachewatch diff HEAD~1 HEAD --tag develop --repo {repository}
"""

_AFTER = """
Where to go next:

  {keep}
  cachewatch tags                                      what there is to compare
  cachewatch diff 2025-05-25 2025-06-01                the same by dates, for all tags
  cachewatch diff HEAD:develop-2025-05-25 HEAD:develop-2025-06-01
                                                       what moving to a newer snapshot means
  cachewatch diff HEAD~1 HEAD --stack 'ml-linux-*' --format json
                                                       for one team, for a script
  cachewatch show py-build                             what there is of one package, and where

`cachewatch diff --repo public` compares the newest two revisions of Spack's public build cache, after it has cloned its catalogue.
"""
_DEFAULT = "my-demo.git"


@click.command(epilog=examples("cachewatch demo", "cachewatch demo my-demo.git"))
@click.argument("folder", required=False, metavar="[FOLDER]")
@click.pass_context
def demo(context: click.Context, *, folder: str | None) -> None:
    """Compare two revisions of a bundled sample catalogue.

    The repository is kept in FOLDER, if given.
    """
    with tempfile.TemporaryDirectory(prefix="cachewatch-demo-") as temporary:
        repository = Path(folder or f"{temporary}/catalogue.git")
        if repository.exists():
            raise UsageError(f"{repository}: already exists; choose a folder that does not exist")
        bundled.build(repository)
        click.echo(_BEFORE.format(repository=folder or "catalogue.git"))
        with diff.make_context(
            "diff", ["HEAD~1", "HEAD", "--tag", "develop", "--repo", str(repository)], parent=context
        ) as inner:
            status = _invoke(inner)
    click.echo(_AFTER.format(keep=_keep(folder)), nl=False)
    context.exit(status)


def _keep(folder: str | None) -> str:
    """Return the command after which all others can be typed as they are printed."""
    if folder is not None:
        return f"cd {shlex.quote(folder)}"
    return f"cachewatch demo {_DEFAULT} > /dev/null && cd {_DEFAULT}"


def _invoke(context: click.Context) -> int:
    try:
        diff.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    return 0
