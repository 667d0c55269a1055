"""`cachewatch history`: build the history index, keep it up to date, and see how far it is."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from cachewatch.cli.help_examples import examples
from cachewatch.cli.open_catalogue import REPO_OPTION, open_catalogue
from cachewatch.cli.open_history import DB_OPTION, find_history
from cachewatch.cli.output import FORMAT_OPTION, write_json
from cachewatch.cli.progress import progress_line
from cachewatch.cli.usage_errors import SuggestingGroup
from cachewatch.core.untrusted_text import safe
from cachewatch.errors import NoHistoryIndex
from cachewatch.history_db.answer_tables import indexed_up_to
from cachewatch.history_db.build import Progress, bring_up_to_date
from cachewatch.history_db.engines import in_jobs, on_cluster
from cachewatch.history_db.schema import check_whole
from cachewatch.history_db.status import drop as remove
from cachewatch.history_db.status import read_status
from cachewatch.render.statement_phrases import number

if TYPE_CHECKING:
    from cachewatch.git.repository import Repository
    from cachewatch.history_db.build import Built
    from cachewatch.history_db.engines import Engine
    from cachewatch.history_db.status import Status

_LOOSE_OBJECTS = 5_000


@click.group(cls=SuggestingGroup)
def history() -> None:
    """Build the history index, or keep it up to date.

    The index says since when, and until when, each spec of a catalogue was there, in every tag. It is one
    SQLite file that can be removed and built again at any time.
    """


def _build_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `build` and `update` share."""
    options = [
        REPO_OPTION,
        DB_OPTION,
        click.option(
            "--jobs",
            type=click.IntRange(1, 64),
            default=min(2, os.cpu_count() or 1),
            show_default="2, or 1 on a single CPU",
            help="Number of worker processes.",
        ),
        click.option("--cluster", metavar="ADDRESS", help="Work on this Dask cluster (cachewatch[dask])."),
        click.option("--no-progress", is_flag=True, help="Do not show a progress bar."),
        click.option("-q", "--quiet", is_flag=True, help="Print only warnings and errors."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@history.command(epilog=examples("cachewatch history build", "cachewatch history build --jobs 8 --quiet"))
@_build_options
def build(*, repo: str | None, db: Path | None, jobs: int, cluster: str | None, no_progress: bool, quiet: bool) -> None:
    """Index all revisions of a repository.

    A build that was interrupted continues where it was, and one that is complete is brought up to date.
    """
    _bring_up_to_date(repo, db, jobs, cluster, is_shown=not no_progress, is_quiet=quiet, is_checked=True)


@history.command(
    epilog=examples("cachewatch history update", "cachewatch history update --repo /srv/catalogue.git --quiet")
)
@_build_options
def update(
    *, repo: str | None, db: Path | None, jobs: int, cluster: str | None, no_progress: bool, quiet: bool
) -> None:
    """Bring the index up to date.

    Only documents that changed since are read. Revisions that a force-push removed are taken out.
    """
    _bring_up_to_date(repo, db, jobs, cluster, is_shown=not no_progress, is_quiet=quiet, must_exist=True)


@history.command(epilog=examples("cachewatch history status", "cachewatch history status --format json"))
@REPO_OPTION
@DB_OPTION
@FORMAT_OPTION
@click.pass_context
def status(context: click.Context, /, *, repo: str | None, db: Path | None, format_: str) -> None:
    """Show how far the index goes, and its size.

    Exits with 1 if it is not up to date.
    """
    with closing(open_catalogue(repo)) as repository:
        path = find_history(repo, db)
        found = read_status(repository, path)
    if found is None:
        raise _missing(path)
    if format_ == "json":
        write_json({"schema": "cachewatch.history-status/1", **_plain(found)})
    else:
        click.echo("\n".join(_status_lines(found)))
    context.exit(1 if found.behind or found.rewritten else 0)


@history.command(epilog=examples("cachewatch history drop", "cachewatch history drop --db /srv/history.db"))
@REPO_OPTION
@DB_OPTION
def drop(*, repo: str | None, db: Path | None) -> None:
    """Remove the index; `cachewatch history build` makes it again."""
    path = find_history(repo, db)
    click.echo(f"{path}: {'removed.' if remove(path) else 'there is no history index.'}", err=True)


def _bring_up_to_date(
    repo: str | None,
    db: Path | None,
    jobs: int,
    cluster: str | None,
    *,
    is_shown: bool,
    is_quiet: bool,
    must_exist: bool = False,
    is_checked: bool = False,
) -> None:
    line = progress_line(is_wanted=is_shown, doing="indexing")
    with closing(line), closing(open_catalogue(repo, line)) as repository:
        path = find_history(repo, db)
        if must_exist and not path.exists():
            raise _missing(path)
        if is_checked:
            check_whole(path)
        _warn_of_loose_objects(repository)
        progress = Progress(line.begin_pieces, line.advance, lambda count: _warn_of_fetching(repository, count))
        engine = _engine(repository, jobs, cluster)
        done = bring_up_to_date(repository, path, engine, jobs=jobs, progress=progress)
        _warn_of_no_documents(repository)
    if not is_quiet:
        click.echo(f"{path}: {_done(done)}", err=True)
    if done.unreadable:
        click.echo(
            f"cachewatch: warning: {number(done.unreadable, 'version')} of documents could not be read, which keep "
            "the state before them; `cachewatch log --tag TAG` names them",
            err=True,
        )


def _engine(repository: "Repository", jobs: int, cluster: str | None) -> "Engine":
    return on_cluster(repository.git_dir, cluster) if cluster else in_jobs(repository, jobs)


def _missing(path: Path) -> NoHistoryIndex:
    return NoHistoryIndex(f"{path}: there is no history index; run `cachewatch history build` first")


def _warn_of_no_documents(repository: "Repository") -> None:
    """Say what was looked for if the newest revision has no documents."""
    from cachewatch.git.arranged_trees import catalogue_of, nothing_found  # noqa: PLC0415
    from cachewatch.git.resolving_revisions import resolve  # noqa: PLC0415

    newest = resolve(repository, "HEAD")
    if catalogue_of(repository, newest.commit) is None:
        said = nothing_found(repository, newest.commit, newest.name)
        click.echo(f"cachewatch: warning: {safe(str(repository.path))}: {safe(said)}", err=True)


def _warn_of_loose_objects(repository: "Repository") -> None:
    """Say it where git would take many times as long to read the documents as it could."""
    counted = dict(
        line.split(": ") for line in repository.run(["count-objects", "-v"]).decode().splitlines() if ": " in line
    )
    if int(counted.get("count", 0)) > _LOOSE_OBJECTS:
        click.echo(
            f"cachewatch: {repository.path}: has {int(counted['count']):,} loose objects; "
            f"`git -C {repository.path} gc` makes this much faster",
            err=True,
        )


def _warn_of_fetching(repository: "Repository", count: int) -> None:
    click.echo(
        f"cachewatch: {repository.path}: this clone lacks {number(count, 'version')} of documents, "
        "which are fetched now and stay in it",
        err=True,
    )


def _done(done: "Built") -> str:
    taken = f"; {number(done.rewritten, 'revision')} {_was(done.rewritten)} taken out: no longer in the history"
    rewritten = taken if done.rewritten else ""
    if not done.revisions and not done.versions:
        return f"up to date{rewritten}."
    return f"indexed {number(done.revisions, 'revision')}, {number(done.versions, 'version')} of documents{rewritten}."


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _plain(found: "Status") -> dict[str, Any]:
    plain: dict[str, Any] = to_builtins(found)
    return plain


def _status_lines(found: "Status") -> list[str]:
    lines = [f"index     {safe(found.path)}, {found.bytes / 2**20:,.1f} MiB"]
    if found.documents:
        lines.append(f"building  {found.documents_done:,} of {found.documents:,} documents are done")
    state = "not up to date" if found.rewritten else "up to date"
    if found.behind:
        state = f"{number(found.behind, 'revision')} behind"
    lines.append(f"state     {state}")
    if found.rewritten:
        removed = f"{number(found.rewritten, 'indexed revision')} {_was(found.rewritten)} removed by a force-push"
        lines.append(f"          {removed}; the next update takes {'it' if found.rewritten == 1 else 'them'} out")
    indexed = found.indexed
    lines.append(indexed_up_to(indexed) if indexed else "not complete yet")
    return lines
