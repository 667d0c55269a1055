"""`cachewatch when`: since when a version is in each stack, and how long after the first."""

from pathlib import Path

import click

from cachewatch.cli.completing import completing
from cachewatch.cli.help_examples import examples
from cachewatch.cli.open_catalogue import REPO_OPTION
from cachewatch.cli.open_history import ANSWER_FORMAT, DB_OPTION, open_history, write_answer
from cachewatch.cli.output import OUTPUT_OPTION
from cachewatch.core.filter_patterns import Globs
from cachewatch.core.selection import every_compiler
from cachewatch.core.versions import Versions
from cachewatch.errors import UsageError
from cachewatch.history_db.answer_tables import when_table
from cachewatch.history_db.when import Wanted, find_when


@click.command(
    epilog=examples(
        "cachewatch when py-torch@2.9.0",
        "cachewatch when hdf5 --stack 'ml-*' --target x86_64_v3 --format json",
    )
)
@click.argument("package", metavar="PACKAGE[@VERSION]", shell_complete=completing("package_versions"))
@click.option("--tag", default="develop", metavar="TAG", shell_complete=completing("tags"), help="Tag to look in.")
@click.option(
    "--stack", multiple=True, metavar="GLOB", shell_complete=completing("stacks"), help="Only these stacks; repeatable."
)
@click.option("--target", multiple=True, metavar="GLOB", help="Only these targets; repeatable.")
@click.option(
    "--compiler", multiple=True, metavar="GLOB", help="Only builds by these compilers (gcc, gcc@13*); repeatable."
)
@REPO_OPTION
@DB_OPTION
@ANSWER_FORMAT
@OUTPUT_OPTION
def when(
    *,
    package: str,
    tag: str,
    stack: tuple[str, ...],
    target: tuple[str, ...],
    compiler: tuple[str, ...],
    repo: str | None,
    db: Path | None,
    format_: str,
    output: str | None,
) -> None:
    """Show since when a version is in each stack, and until when.

    The lag is the time since the first stack had that version. `<=` marks what was there in the first readable
    version of the document: it came then or before. `until` is the first revision without it. `cachewatch history
    build` indexes the history for this.
    """
    name, at, versions = package.partition("@")
    wanted = Wanted(
        version=Versions([f"@{versions}"] if at else []),
        stack=Globs(stack),
        target=Globs(target),
        compiler=Globs(_compilers(compiler)),
    )
    with open_history(repo, db) as index:
        answer = find_when(index, name, tag, wanted)
    if not answer.rows and not (at or stack or target or compiler):
        raise UsageError(
            f"{package}: was never in {tag} up to {answer.indexed.revision[:10]}; `cachewatch when {name} --tag TAG` "
            "asks about another tag"
        )
    if not answer.rows:
        raise UsageError(
            f"{package}: no build in {tag} up to {answer.indexed.revision[:10]} matches; "
            f"`cachewatch when {name}{f' --tag {tag}' if tag != 'develop' else ''}` lists all of them"
        )
    write_answer(answer, answer.indexed, lambda: when_table(answer), format_=format_, output=output)


def _compilers(patterns: tuple[str, ...]) -> tuple[str, ...]:

    if not patterns:
        return ()

    return tuple(every_compiler(patterns))
