"""`cachewatch log`: what each revision did."""

from pathlib import Path

import click

from cachewatch.cli.completing import completing
from cachewatch.cli.help_examples import examples
from cachewatch.cli.open_catalogue import REPO_OPTION
from cachewatch.cli.open_history import ANSWER_FORMAT, DB_OPTION, open_history, write_answer
from cachewatch.cli.output import OUTPUT_OPTION
from cachewatch.cli.revision_range import SINCE_OPTION, UNTIL_OPTION, numbers_of
from cachewatch.history_db.answer_tables import log_table
from cachewatch.history_db.log import Range, find_log


@click.command(epilog=examples("cachewatch log hdf5", "cachewatch log --since 2025-06-01 --most 3 --format json"))
@click.argument("package", required=False, shell_complete=completing("packages"))
@click.option("--tag", default="develop", metavar="TAG", shell_complete=completing("tags"), help="Tag to look in.")
@SINCE_OPTION
@UNTIL_OPTION
@click.option(
    "--most",
    type=click.IntRange(min=1),
    default=10,
    metavar="N",
    help="List the N newest revisions in which anything changed.",
)
@REPO_OPTION
@DB_OPTION
@ANSWER_FORMAT
@OUTPUT_OPTION
def log(
    *,
    package: str | None,
    tag: str,
    since: str | None,
    until: str,
    most: int,
    repo: str | None,
    db: Path | None,
    format_: str,
    output: str | None,
) -> None:
    """Show what each revision did to a package, or to all of a tag.

    One line for each version and kind of change, newest revision first. Specs are counted as `cachewatch diff`
    counts them between the revision before and that one. A document that cannot be read keeps the state before it.
    """
    with open_history(repo, db) as index:
        first, last = numbers_of(index, since, until)
        answer = find_log(index, tag, package, Range(first, last, most))
    write_answer(answer, answer.indexed, lambda: log_table(answer), format_=format_, output=output)
