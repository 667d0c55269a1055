"""`cachewatch blame`: the life of one hash."""

from pathlib import Path

import click

from cachewatch.cli.completing import completing
from cachewatch.cli.help_examples import examples
from cachewatch.cli.open_catalogue import REPO_OPTION
from cachewatch.cli.open_history import ANSWER_FORMAT, DB_OPTION, open_history, write_answer
from cachewatch.cli.output import OUTPUT_OPTION
from cachewatch.history_db.answer_tables import blame_table
from cachewatch.history_db.blame import find_blame


@click.command(epilog=examples("cachewatch blame /22xqlom", "cachewatch blame 22xqlom --tag develop --format json"))
@click.argument("hash_", metavar="HASH")
@click.option(
    "--tag", multiple=True, metavar="TAG", shell_complete=completing("tags"), help="Only these tags; repeatable."
)
@REPO_OPTION
@DB_OPTION
@ANSWER_FORMAT
@OUTPUT_OPTION
def blame(
    *, hash_: str, tag: tuple[str, ...], repo: str | None, db: Path | None, format_: str, output: str | None
) -> None:
    """Show when a spec was born and died, its stacks, and its successors.

    HASH may be shortened; 7 letters are usually enough. Which spec replaced which cannot be known where several are
    alike, so successors are counted by kind of match: rebuilt, moved, upgraded and so on.
    """
    with open_history(repo, db) as index:
        answer = find_blame(index, hash_, tag)
    write_answer(answer, answer.indexed, lambda: blame_table(answer), format_=format_, output=output)
