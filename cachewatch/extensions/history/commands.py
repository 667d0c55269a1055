"""The commands that use the history index: `history`, `when`, `blame`, `log`, `churn` and `best`."""

import os
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, TypedDict, Unpack

import click

from cachewatch.cli import chosen_repository as catalogues
from cachewatch.cli import terminal
from cachewatch.cli.help_and_exit_codes import SuggestingGroup, examples
from cachewatch.cli.shared_options_and_filters import REPO_OPTION, TAG_OPTION, completing
from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core.filters_and_spec_patterns import Globs, select
from cachewatch.environments import open_environment
from cachewatch.errors import AnotherInstance, UsageError
from cachewatch.extensions.history import blame_and_best_snapshot as lives
from cachewatch.extensions.history import build as indexing
from cachewatch.extensions.history import package_questions as questions
from cachewatch.extensions.history.index_lookup import Index
from cachewatch.extensions.history.schema_and_location import NAME, VARIABLE, check_is_index, index_path
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import resolve
from cachewatch.git.trees import catalogue_of, nothing_found
from cachewatch.report.json_and_safe_csv import pretty_json
from cachewatch.report.tables_and_listings import Table, write_table
from cachewatch.report.words import number

DB_OPTION = click.option(
    "--db",
    type=click.Path(path_type=Path),
    metavar="FILE",
    show_default=f"${VARIABLE}, else the user's cache",
    help="History index.",
)
_revision = partial(click.option, metavar="REVISION", shell_complete=completing("revisions"))
_between = terminal.with_options(
    _revision("--since", show_default="the beginning", help="Only changes after this revision, or after this day."),
    _revision("--until", default="HEAD", help="Only changes up to this revision or date."),
)
_several = partial(click.option, multiple=True, metavar="GLOB")
_most = partial(click.option, "--most", type=click.IntRange(min=1), metavar="N")
_FOR_PEOPLE = ("text", "markdown")
_LOOSE_OBJECTS = 5_000
_MOST_SHOWN = 20


class Asked(TypedDict):
    """The options of every question: which index to read, and how to write the answer."""

    repo: str | None
    db: Path | None
    format_: str
    output: str | None


_FORMATS = terminal.format_option("text", "json", "csv", "markdown")
asking = terminal.with_options(REPO_OPTION, DB_OPTION, _FORMATS, terminal.OUTPUT_OPTION)


def open_history(asked: Asked) -> Index:
    """Open the index that --db or $CACHEWATCH_HISTORY names, or --repo's, updated if it is in the user's cache."""
    if asked["db"] or os.environ.get(VARIABLE):
        return Index(index_path(asked["db"], Path()))
    line = terminal.ProgressLine("indexing")
    with closing(line), closing(_open_with_history(asked["repo"], line)) as repository:
        if (repository.shared_git_dir / "shallow").exists():
            advice = "its history is cut off; `git fetch --unshallow` gets the rest"
            terminal.say(f"{repository.path.resolve()} is a shallow clone: {advice}")
        path = index_path(None, repository.shared_git_dir)
        if path.name != NAME and not indexing.has(path, resolve(repository, "HEAD").commit):
            if not path.exists():
                said = f"indexing the history of {repository.path.resolve()}"
                terminal.say(f"{said}; this is done once, and may be interrupted")
            with suppress(AnotherInstance):
                _index(repository, path, line, indexing.in_jobs(repository, min(2, os.cpu_count() or 1)))

    def commit_of(name: str) -> str:
        with closing(_open_with_history(asked["repo"])) as repository:
            return resolve(repository, name).commit

    return Index(path, commit_of=commit_of)


def _open_with_history(repo: str | None, line: terminal.ProgressLine | None = None) -> Repository:
    if repo is not None and catalogues.is_folder(repo):
        advice = "the service records one if the folder is a source (`cachewatch init --source`)"
        raise UsageError(f"{repo}: is a folder, which has no history; {advice}")
    return catalogues.open_catalogue(repo, line)


def write_answer(answer: Any, table: Callable[[bool], Table], asked: Asked) -> None:
    """Write `answer` as the options `asked` say; `table(True)` is a table for people, `table(False)` for programs."""
    format_, output = asked["format_"], asked["output"]
    if format_ == "json":
        terminal.write([pretty_json(answer)], output)
        return
    shown = write_table(table(format_ in _FOR_PEOPLE), format_, terminal.palette(output), terminal.width())
    terminal.write(shown, output, is_for_people=format_ == "text")
    if format_ == "csv":
        terminal.say(answer.indexed.as_last)


@examples("cachewatch history best spack.lock", "cachewatch history best spack.lock --pin")
@click.command
@click.argument("lockfile", type=Path)
@click.option(
    "--tag",
    metavar="GLOB",
    show_default="all",
    shell_complete=completing("tags"),
    help="Only tags that match this glob.",
)
@click.option("--pin", is_flag=True, help="Print only the command that adds the best tag that can be used now.")
@click.option(
    "--mirror",
    metavar="URL",
    show_default="Spack's own, for its catalogue",
    help="With --pin: where the binaries of a tag are; {tag} stands for its name.",
)
@asking
def best(*, lockfile: Path, tag: str | None, pin: bool, mirror: str | None, **asked: Unpack[Asked]) -> None:
    """Find the tags and revisions that had most binaries of an environment at the same time.

    LOCKFILE is a spack.lock, or an environment's folder that has one.
    """
    environment = open_environment(lockfile)
    if mirror is not None and not pin:
        raise UsageError("--mirror belongs to --pin; give --pin too")
    if pin and asked["format_"] != "text":
        raise UsageError("--pin prints a command; leave out --format")
    if not environment.hashes:
        raise UsageError(f"{environment.name}: names no hashes; a spack.lock does")
    most = 10 if asked["format_"] in _FOR_PEOPLE and not pin else None
    with open_history(asked) as index:
        answer = lives.find_best(index, environment.hashes, most=most, takes_tag=Globs([tag] if tag else []))
    if not answer.snapshots:
        where = f"{f'a tag {tag}' if tag else 'an indexed tag'} (up to {answer.indexed.revision[:10]})"
        hashes = number(len(environment.hashes), "hash", "hashes")
        raise UsageError(f"{environment.name} ({hashes}): no hash of it was ever in {where}")
    if pin:
        command = _pin(answer, mirror, asked["repo"], is_chosen=tag is not None)
        terminal.write([f"{command}\n".encode()], asked["output"])
    else:
        write_answer(answer, lambda _: lives.snapshots_table(answer), asked)


def _known_mirror(repo: str | None) -> str:
    """Return the URL of the mirror if `repo` is Spack's own catalogue or a clone of it. Raises UsageError if not."""
    address = repo or ""
    if not tag_names.public_mirror(address) and (repository := catalogues.open_as_fetched(repo)):
        with closing(repository):
            address = repository.run(["ls-remote", "--get-url", "origin"]).decode(errors="replace").strip()
    if (mirror := tag_names.public_mirror(address)) is None:
        raise UsageError("where the binaries of this catalogue are is not known; --mirror URL says it")
    return mirror


def _pin(answer: lives.BestSnapshots, mirror: str | None, repo: str | None, *, is_chosen: bool) -> str:
    """Return the `spack` command that adds the best tag that has hashes now. Raises UsageError if there is none.

    Without the URL `mirror`, the command names the mirror of the catalogue `repo`. `is_chosen` tells whether the user
    asked for certain tags; if not, only tags that never change count.
    """
    for snapshot in answer.snapshots:
        if snapshot.is_current and (is_chosen or not tag_names.is_mutable(snapshot.tag)):
            url = (mirror or _known_mirror(repo)).replace("{tag}", snapshot.tag)
            return f"spack mirror add {quote(snapshot.tag)} {quote(url)}  # {snapshot.found} of {snapshot.of} binaries"
    best = answer.snapshots[0]
    had = f"{best.tag} {'has' if best.is_current else 'had'} {best.found} of {best.of} at {best.revision[:10]}"
    if is_chosen:
        raise UsageError(f"no tag of that name has any of it now; {had}")
    said = f"no snapshot (NAME-YYYY-MM-DD) or release (v1.2.3) has any of it now; {had}"
    raise UsageError(f"{said}; name a tag that never changes by --tag")


def numbers_of(index: Index, since: str | None, until: str) -> tuple[int, int]:
    """Return the numbers of `since` (-1: None or before all) and `until`; tell the user if no revision lies between."""
    first = -1 if since is None else index.number_of(since, may_precede=True)
    last = index.number_of(until)
    if first >= last:
        newest, up_to = index.point(last), "" if until == "HEAD" else f" up to {until}"
        found = f"the newest{up_to} is {newest.revision[:10]} of {newest.day}"
        terminal.say(f"no revision is newer than --since {since}: {found}")
    return first, last


@click.group(cls=SuggestingGroup)
def history() -> None:
    """Build the history index, or keep it up to date.

    The index says since when, and until when, each spec of a catalogue was there, in every tag. It is one
    SQLite file that can be removed and built again at any time.
    """


@examples("cachewatch history build", "cachewatch history build --jobs 8 --quiet")
@history.command
@REPO_OPTION
@DB_OPTION
@terminal.JOBS_OPTION
@click.option("--cluster", metavar="ADDRESS", help="Work on this Dask cluster (cachewatch[dask]).")
@click.option("-q", "--quiet", is_flag=True, help="Print only warnings and errors.")
def build(*, repo: str | None, db: Path | None, jobs: int, cluster: str | None, quiet: bool) -> None:
    """Index all revisions of a repository, or those that are new.

    A build that was interrupted continues where it was. If a force-push removed revisions, all are indexed anew.
    """
    line = terminal.ProgressLine("indexing", is_wanted=not quiet)
    with closing(line), closing(_open_with_history(repo, line)) as repository:
        path = index_path(db, repository.shared_git_dir)
        engine = indexing.on_cluster(repository.git_dir, cluster) if cluster else indexing.in_jobs(repository, jobs)
        done = _index(repository, path, line, engine)
        newest = resolve(repository, "HEAD")
        if catalogue_of(repository, newest.commit) is None:
            said = nothing_found(repository, newest.commit, newest.name)
            terminal.warn(f"{repository.path}: {said}")
    if not quiet:
        said = f"indexed {number(done.revisions, 'revision')}, {number(done.versions, 'version')} of documents"
        if done.rewritten:
            said += f"; all anew, because a force-push removed {number(done.rewritten, 'indexed revision')}"
        has_news = done.revisions or done.versions or done.rewritten
        terminal.tell(f"{path}: {said if has_news else 'up to date'}.")
    if done.unreadable:
        terminal.warn(
            f"{number(done.unreadable, 'version')} of documents could not be read, which keep "
            "the state before them; `cachewatch log --tag TAG` names them"
        )


@examples("cachewatch history drop", "cachewatch history drop --db /srv/history.db")
@history.command
@REPO_OPTION
@DB_OPTION
def drop(*, repo: str | None, db: Path | None) -> None:
    """Remove the index; `cachewatch history build` makes it again."""
    is_named = db or os.environ.get(VARIABLE)
    with nullcontext() if is_named else closing(_open_with_history(repo)) as repository:
        path = index_path(db, repository.shared_git_dir if repository else Path())
    if not path.exists():
        terminal.tell(f"{path}: there is no history index.")
        return
    check_is_index(path)
    indexing.discard(path)
    terminal.tell(f"{path}: removed.")


def _index(
    repository: Repository, path: Path, line: terminal.ProgressLine, engine: indexing.Engine
) -> indexing.IndexUpdate:
    # Reading documents from many loose objects takes many times as long.
    if (count := int(repository.run(["count-objects"]).split()[0])) > _LOOSE_OBJECTS:
        faster = f"`git -C {repository.path} gc` makes this much faster"
        terminal.say(f"{repository.path}: has {count:,} loose objects; {faster}")

    def say_what_lacks(count: int) -> None:
        lacks = f"lacks {number(count, 'version')} of documents, which are fetched now and stay in it"
        terminal.say(f"{repository.path}: this clone {lacks}")

    progress = indexing.IndexProgress(line.begin, line.advance, say_what_lacks)
    return indexing.bring_up_to_date(repository, path, engine, progress=progress)


@examples(
    "cachewatch history when py-torch@2.9.0",
    "cachewatch history when hdf5 --stack 'ml-*' --target x86_64_v3 --format json",
)
@click.command
@click.argument("package", metavar="PACKAGE[@VERSION]", shell_complete=completing("package_versions"))
@TAG_OPTION
@_several("--stack", shell_complete=completing("stacks"), help="Only these stacks; repeatable.")
@_several("--target", help="Only these targets; repeatable.")
@_several("--compiler", help="Only builds by these compilers (gcc, gcc@13*); repeatable.")
@asking
def when(
    *,
    package: str,
    tag: str,
    stack: tuple[str, ...],
    target: tuple[str, ...],
    compiler: tuple[str, ...],
    **asked: Unpack[Asked],
) -> None:
    """Show since when a version is in each stack, and until when.

    The lag is the time since the first stack had that version; it is empty where that is not known, and where a version
    is back. `<=` marks versions in the first readable version of the document: they were added then or before. `until`
    is the first revision without it.
    """
    name, at, versions = package.partition("@")
    with open_history(asked) as index:
        chosen = select(versions=[f"@{versions}"] if at else [], stacks=stack, targets=target, compilers=compiler)
        answer = questions.find_when(index, name, tag, chosen)
    if not answer.rows:
        up_to = f"{tag} up to {answer.indexed.revision[:10]}"
        if not (at or stack or target or compiler):
            other = f"`cachewatch history when {name} --tag TAG` asks about another tag"
            raise UsageError(f"{package}: was never in {up_to}; {other}")
        all_of_them = f"`cachewatch history when {name}{f' --tag {tag}' if tag != 'develop' else ''}` lists all of them"
        raise UsageError(f"{package}: no build in {up_to} matches; {all_of_them}")
    write_answer(answer, partial(questions.when_table, answer), asked)


@examples("cachewatch history blame /22xqlom", "cachewatch history blame 22xqlom --tag develop --format json")
@click.command
@click.argument("hash_", metavar="HASH")
@_several("--tag", metavar="TAG", shell_complete=completing("tags"), help="Only these tags; repeatable.")
@asking
def blame(*, hash_: str, tag: tuple[str, ...], **asked: Unpack[Asked]) -> None:
    """Show when a spec was added and removed, its stacks, and what happened then.

    HASH may be shortened; 7 letters are usually enough. Which spec replaced which cannot be known where several are
    alike, so what happened to its package in its stacks is said, as `cachewatch diff` says it.
    """
    with open_history(asked) as index:
        answer = lives.find_blame(index, hash_, tag)
    write_answer(answer, lambda _: lives.blame_table(answer), asked)


@examples("cachewatch log hdf5", "cachewatch log --since 2025-06-01 --most 3 --format json")
@click.command
@click.argument("package", required=False, shell_complete=completing("packages"))
@TAG_OPTION
@_between
@_most(default=10, help="List the N newest revisions in which anything changed.")
@asking
def log(*, package: str | None, tag: str, since: str | None, until: str, most: int, **asked: Unpack[Asked]) -> None:
    """Show what each revision did to a package, or to all of a tag.

    What `cachewatch diff` says of the revision before and that one, newest revision first. A document that cannot be
    read keeps the state before it.
    """
    with open_history(asked) as index:
        answer = questions.find_log(index, tag, package, *numbers_of(index, since, until), most=most)
    write_answer(answer, partial(questions.log_table, answer, package), asked)


@examples("cachewatch history churn --since '4 weeks ago'", "cachewatch history churn --by stack --format csv")
@click.command
@click.option("--by", type=click.Choice(list(questions.QUERIES)), default="package", help="What to count by.")
@TAG_OPTION
@_between
@_most(show_default=f"{_MOST_SHOWN} as text, else all", help="List the N with the most specs.")
@asking
def churn(*, by: str, tag: str, since: str | None, until: str, most: int | None, **asked: Unpack[Asked]) -> None:
    """Show how many specs come and go, by package or stack.

    Every revision is counted, so a spec that was added and removed again counts as one added and one removed. The
    net numbers leave out what was merely rebuilt. A spec that joins or leaves a stack counts for that stack. The
    content of the first revision is not counted; that of a tag that is new later is.
    """
    if most is None and asked["format_"] in _FOR_PEOPLE:
        most = _MOST_SHOWN
    with open_history(asked) as index:
        answer = questions.find_churn(index, tag, by, *numbers_of(index, since, until), most=most)
    write_answer(answer, lambda _: questions.churn_table(answer), asked)
