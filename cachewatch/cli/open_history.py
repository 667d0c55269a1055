"""The history index that a command asks, and its answer on the way out; neither git nor the configuration is loaded for it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct, json

from cachewatch.cli.open_catalogue import is_folder, open_as_fetched
from cachewatch.cli.output import palette, write
from cachewatch.errors import NoHistoryIndex, UsageError
from cachewatch.git.addresses import clone_folder, is_url
from cachewatch.git.repository_checks import shared_git_dir
from cachewatch.history_db.answer_tables import indexed_up_to
from cachewatch.history_db.reading import Index, Point
from cachewatch.history_db.schema import NAME, VARIABLE, index_path
from cachewatch.render.answer_table import write_table
from cachewatch.render.ascii_json import ascii_only

if TYPE_CHECKING:
    from cachewatch.render.answer_table import Table

DB_OPTION = click.option(
    "--db",
    type=click.Path(path_type=Path),
    metavar="FILE",
    show_default=f"${VARIABLE}, else {NAME} in the git folder of the repository",
    help="History index.",
)
ANSWER_FORMAT = click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "csv", "markdown"]),
    default="text",
    help="Output format.",
)


def open_history(repo: str | None, db: Path | None) -> Index:
    """Open the index of the repository `repo`, or of the one that a command without `--repo` reads."""
    return Index(find_history(repo, db))


def find_history(repo: str | None, db: Path | None) -> Path:
    """Return where that index is, or would be."""
    if db or os.environ.get(VARIABLE):
        return index_path(db, Path())

    if (folder := shared_git_dir(_path(repo))) is not None:
        path = index_path(None, folder)
        # Where somebody stands may have no catalogue; if it has an index, it has one.
        if repo is not None or path.exists():
            return path
    return _without_shortcut(repo)


def _path(repo: str | None) -> Path:
    if repo is None:
        return Path()

    return clone_folder(repo) if is_url(repo) else Path(repo)


def _without_shortcut(repo: str | None) -> Path:
    """Find the repository as all commands do, which loads git and the configuration."""
    if repo is not None and is_folder(repo):
        raise UsageError(
            f"{repo}: is a folder, which has no history; the service records one if the folder is a source"
            " (`cachewatch init --source`)"
        )
    opened = open_as_fetched(repo)
    if opened is None:
        raise NoHistoryIndex("the repository was never fetched; run `cachewatch history build` first")
    try:
        return index_path(None, opened.shared_git_dir)
    finally:
        opened.close()


def write_answer(
    answer: Struct, indexed: Point, make_table: "Callable[[], Table]", *, format_: str, output: str | None
) -> None:
    """Write an answer; a table of CSV has no room for how far the index goes, so standard error has it."""
    if format_ == "json":
        write([ascii_only(json.format(json.encode(answer))), b"\n"], output)
        return

    write(write_table(make_table(), format_, palette("auto", output)), output, is_for_people=format_ == "text")
    if format_ == "csv":
        click.echo(f"cachewatch: {indexed_up_to(indexed)}", err=True)
