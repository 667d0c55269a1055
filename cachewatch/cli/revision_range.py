"""A range of indexed revisions, as options name it."""

import click

from cachewatch.cli.completing import completing
from cachewatch.history_db.reading import Index

SINCE_OPTION = click.option(
    "--since",
    metavar="REVISION",
    show_default="the beginning",
    shell_complete=completing("revisions"),
    help="Only changes after this revision or date.",
)
UNTIL_OPTION = click.option(
    "--until",
    default="HEAD",
    metavar="REVISION",
    shell_complete=completing("revisions"),
    help="Only changes up to this revision or date.",
)


def numbers_of(index: Index, since: str | None, until: str) -> tuple[int, int]:
    """Return the numbers of both revisions; a date before the oldest one means the beginning."""
    return -1 if since is None else index.number_of(since, may_precede=True), index.number_of(until)
