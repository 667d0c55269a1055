"""`cachewatch churn`: how much came and went."""

from pathlib import Path

import click

from cachewatch.cli.completing import completing
from cachewatch.cli.help_examples import examples
from cachewatch.cli.open_catalogue import REPO_OPTION
from cachewatch.cli.open_history import ANSWER_FORMAT, DB_OPTION, open_history, write_answer
from cachewatch.cli.output import OUTPUT_OPTION
from cachewatch.cli.revision_range import SINCE_OPTION, UNTIL_OPTION, numbers_of
from cachewatch.history_db.answer_tables import churn_table
from cachewatch.history_db.churn import QUERIES, find_churn

_MOST_SHOWN = 20


@click.command(epilog=examples("cachewatch churn --since '4 weeks ago'", "cachewatch churn --by stack --format csv"))
@click.option("--by", type=click.Choice(list(QUERIES)), default="package", help="What to count by.")
@click.option("--tag", default="develop", metavar="TAG", shell_complete=completing("tags"), help="Tag to look in.")
@SINCE_OPTION
@UNTIL_OPTION
@click.option(
    "--most",
    type=click.IntRange(min=1),
    metavar="N",
    show_default=f"{_MOST_SHOWN} as text, else all",
    help="List the N with the most specs.",
)
@REPO_OPTION
@DB_OPTION
@ANSWER_FORMAT
@OUTPUT_OPTION
def churn(
    *,
    by: str,
    tag: str,
    since: str | None,
    until: str,
    most: int | None,
    repo: str | None,
    db: Path | None,
    format_: str,
    output: str | None,
) -> None:
    """Show how many specs come and go, by package, stack or cause.

    Every revision is counted, so a spec that was added and removed again counts as one added and one removed. The
    net numbers leave out what was merely rebuilt. A spec that joins or leaves a stack counts for that stack. The
    content of the first revision is not counted.
    """
    if most is None and format_ in ("text", "markdown"):
        most = _MOST_SHOWN
    with open_history(repo, db) as index:
        answer = find_churn(index, tag, by, *numbers_of(index, since, until), most=most)
    write_answer(answer, answer.indexed, lambda: churn_table(answer), format_=format_, output=output)
