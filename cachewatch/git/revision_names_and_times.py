"""Find the revision that a user names: by a name that git resolves, by a date, or as REVISION:TAG."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from msgspec import Struct

from cachewatch.config.schedules_and_quiet_times import as_datetime
from cachewatch.core.kinds_and_specs import Side
from cachewatch.core.names_and_layouts import ENDINGS, did_you_mean
from cachewatch.errors import SourceError, UnknownRevision
from cachewatch.git.local_repository import Object, Repository
from cachewatch.git.trees import catalogue_of, documents_beside, folders, nothing_found, stored_catalogue

_TAG = re.compile(r"[A-Za-z0-9._+@-]{1,128}")
_STEPS = re.compile(r"(.+?)(?:~\d*|\^)+")
_SOON = timedelta(days=1)  # the end of today is not yet here, nor is that of a zone's tomorrow
_YEAR = re.compile(r"(19|20)\d\d(-\d\d)?")
_NOTHING = "0" * 40
_NO_REVISIONS = "is a folder, which has no revisions"
_MOST_TIMES = 5000
_MOST_STEPS = 500
_PARENT = re.compile(rb"^parent ([0-9a-f]+)$", re.MULTILINE)
_COMMITTER = re.compile(rb"^committer .* (\d{1,20}) [+-]\d{4}$", re.MULTILINE)
LATEST = datetime(9999, 12, 30, tzinfo=UTC)  # the last day that every time zone has a date for


class Revision(Struct, frozen=True):
    """One commit of a catalogue, with the tag of the catalogue that its name selects, if any.

    name: the name that the user wrote.  commit: the full id.  tag: a tag of the catalogue; None if `name` selects none.
    time: when it was committed, or None.  has_impossible_date: whether the date is beyond the calendar.
    is_of_folder: whether it is a temporary commit made from a folder, whose id is never shown.
    side: returns it as a side of a comparison.
    """

    name: str
    commit: str
    tag: str | None
    time: datetime | None
    is_of_folder: bool = False

    @property
    def has_impossible_date(self) -> bool:
        """Whether the date of the commit, for which git accepts any number, is beyond the calendar."""
        return self.time == LATEST

    def side(self, tag: str | None = None) -> Side:
        """Return this revision as a side of a comparison: of `tag`, or of the revision's own tag if `tag` is None."""
        if self.is_of_folder:
            return Side(name=self.name, tag=tag or self.tag)
        time = None if self.time is None else self.time.isoformat().replace("+00:00", "Z")
        return Side(name=self.name, revision=self.commit, tag=tag or self.tag, time=time)


def resolve(repository: Repository, name: str) -> Revision:
    """Return the revision that `name` means; `:TAG` at its end selects a tag. Raises UnknownRevision, with a hint.

    `name` is anything that git resolves, or a time: the newest revision until then. A date is the end of a day (UTC).
    """
    now = datetime.now(UTC)
    revision, colon, tag_name = name.rpartition(":")
    readings: list[tuple[str, str | None]] = [(name, None)]
    if colon and _TAG.fullmatch(tag_name) and not tag_name.endswith(ENDINGS):  # which is a file
        readings.append((revision or "HEAD", tag_name))
    for revision_name, tag in readings:
        commit = _commit(repository, revision_name, now)
        if commit is not None:
            if repository.is_folder:
                return Revision(str(repository.path), commit, tag, None, is_of_folder=True)
            return Revision(name, commit, tag, time_of(repository.objects().get(commit)))
    if repository.is_folder:
        raise UnknownRevision(f"{repository.path}: {_NO_REVISIONS}, so {name!r} is none")
    raise UnknownRevision(next(_complaints(repository, name)))


def resolve_upstream(repository: Repository, name: str) -> Revision:
    """Return what `resolve` returns for `name`; if it is unknown, fetch the git tag of that name, and try again."""
    try:
        return resolve(repository, name)
    except UnknownRevision as error:
        tag = re.split(r"[~^:]|@\{", name)[0].removeprefix("refs/").removeprefix("tags/")
        if as_datetime(tag, datetime.now(UTC)) is not None or not repository.fetch_tag(tag):
            # Where the service keeps its copy helps nobody.
            raise UnknownRevision(str(error).removeprefix(f"{repository.path}: ")) from error
        return resolve(repository, name)


def file_of(repository: Repository, name: str) -> tuple[Revision, str, Object] | None:
    """Return the revision, path and git object of the file `name` (REVISION:PATH); None if there is no such file."""
    revision, _, path = name.partition(":")
    file = _ask(repository, name) if revision and path and name.isprintable() else None
    return (resolve(repository, revision), path, file) if file is not None and file.type == "blob" else None


def is_there(repository: Repository, name: str) -> bool:
    """Tell whether `name` can be resolved to a revision of `repository`."""
    with suppress(UnknownRevision):
        return bool(resolve(repository, name))
    return False


def count_between(repository: Repository, before: Revision, after: Revision) -> int | None:
    """Return the number of commits from one revision to the other; None if unknown, or if no history has both."""
    counted = _listed(repository, "--count", "--left-right", f"{before.commit}...{after.commit}")
    left, right = map(int, counted[0].split()) if counted else (1, 1)
    return max(left, right) if not (left and right) else None


def covers(repository: Repository, commit: str, earlier: str) -> bool | None:
    """Tell whether the commit `earlier` is in the history of `commit`, or equal to it; None if git cannot tell."""
    missing = _listed(repository, "-1", f"{commit}..{earlier}")
    return None if missing is None else not missing


def times_between(repository: Repository, before: Revision, after: Revision) -> list[datetime]:
    """Return the times of the commits from `before` to `after`, newest first; [] if some commits are missing here."""
    asked = ["--first-parent", "--timestamp", f"--max-count={_MOST_TIMES}", f"{before.commit}..{after.commit}"]
    lines = _listed(repository, *asked)
    if lines is None:
        return []
    times = [time for line in lines if (time := commit_time(line.split()[0])) != LATEST]
    return [*times, before.time] if before.time and len(times) < _MOST_TIMES else times


def _listed(repository: Repository, *asked: str) -> list[str] | None:
    """Return the lines of `git rev-list` with the arguments `asked`; None if it fails because commits are missing."""
    try:
        return repository.run(["rev-list", *asked]).decode().splitlines()
    except SourceError:
        return None


def chain_between(repository: Repository, before: Revision, after: Revision) -> tuple[Revision, ...]:
    """Return revisions from `before` to `after`, oldest first; only these two if over 500 steps apart or unrelated."""
    chain: list[Revision] = []
    for revision in islice(back_from(repository, after.commit), _MOST_STEPS + 1):
        if revision.commit == before.commit:
            return before, *reversed(chain)
        chain.append(revision)
    return before, after


def back_from(repository: Repository, commit: str) -> Iterator[Revision]:
    """Yield the revision `commit`, then its first parent and so on, up to the first missing commit."""
    while found := repository.objects().get(commit):
        yield Revision(commit, commit, None, time_of(found))
        parent = _PARENT.search(found.content.partition(b"\n\n")[0])
        if parent is None:
            return
        commit = parent[1].decode()


def _commit(repository: Repository, name: str, now: datetime) -> str | None:
    if name.startswith("-") or not name.strip() or not name.isprintable():
        return None
    # A search for words in messages takes everything behind :/ for words.
    found = _ask(repository, name if name.startswith(":/") else f"{name}^{{commit}}")
    if found is not None and found.type == "commit":
        return found.id
    moment = as_datetime(name, now)
    if moment is None or moment.timestamp() < 0 or moment > now + _SOON:
        return None
    until = f"--before=@{int(moment.timestamp())} +0000"  # with the @, no number of seconds is taken for a year
    return repository.run(["rev-list", "-1", "--first-parent", until, "HEAD"]).decode().strip() or None


def _ask(repository: Repository, name: str) -> Object | None:
    """Return the object that `name` means; None if there is none, or if git fails on it (`@{upstream}`)."""
    try:
        return repository.objects().get(name)
    except SourceError:
        repository.close()
        repository.objects().get(_NOTHING)  # if this fails too, the name is not to blame
        return None


def time_of(commit: Object | None) -> datetime | None:
    """Return the time of a commit; None if `commit` is None or has no time."""
    match = _COMMITTER.search(commit.content) if commit else None
    return commit_time(match[1]) if match else None


def commit_time(seconds: bytes | str) -> datetime:
    """Return the time that is `seconds` after the start of 1970; LATEST if it is beyond the calendar."""
    return datetime.fromtimestamp(min(int(seconds), LATEST.timestamp()), UTC)


def newest_two(repository: Repository) -> tuple[str, str]:
    """Return names of the newest two revisions that changed documents, older first. Raises UnknownRevision if fewer."""
    if repository.is_folder:
        raise UnknownRevision(
            f"{repository.path}: {_NO_REVISIONS}; name two folders: `cachewatch diff BEFORE {repository.path}`"
        )
    commits = list(islice(_changing(repository), 2))
    head = _ask(repository, "HEAD^{commit}")
    if head and len(commits) == 1 and documents_beside(repository, *commits, head.id):
        commits = [head.id, *commits]  # documents were only moved since
    if not commits and head is not None:
        raise UnknownRevision(f"{repository.path}: {nothing_found(repository, head.id, 'HEAD')}")
    if len(commits) < 2:
        raise UnknownRevision(
            f"{repository.path}: has only one revision of the catalogue, so there is nothing to compare it with; "
            "fetch or record more, or name what to compare: `cachewatch diff BEFORE AFTER`"
            f"{' (`cachewatch diff HEAD .` with what is not committed)' if repository.path == Path() else ''}"
        )
    newest, before = commits
    return before, "HEAD" if head is not None and head.id == newest else newest


def _changing(repository: Repository) -> Iterator[str]:
    """Yield the ids of the commits that changed documents of the catalogue, newest first."""
    head = repository.objects().get("HEAD^{commit}")
    if head is not None and stored_catalogue(repository, head.id):
        asked = ["--first-parent", "--max-count=2", "HEAD", "--", f":(literal){repository.layout.catalogue}"]
        found = repository.run(["rev-list", *asked]).decode().split()
        if len(found) > 1:
            yield from found
            return
        # Before the one revision that made this folder, documents may have been elsewhere.
    asked = ["rev-list", "--first-parent", "HEAD", "--", *repository.layout.pathspecs]
    for commit in repository.run(asked).decode().split():
        parent = repository.objects().get(f"{commit}^")
        if catalogue_of(repository, commit) != (catalogue_of(repository, parent.id) if parent else None):
            yield commit


def _complaints(repository: Repository, name: str) -> Iterator[str]:
    """Yield messages why `name` is no revision, with hints, the most helpful first."""
    now = datetime.now(UTC)
    head = repository.objects().get("HEAD^{commit}")
    tags = folders(repository, catalogue_of(repository, head.id) if head else None).ids
    revision, _, path = name.partition(":")
    name = revision if path in tags else name  # commands add the tag that they show
    moment, date = as_datetime(name, now), name.rpartition(":")[0]
    if moment is None and (moment := as_datetime(date, now)) is not None:
        name = date
    where = f"{repository.prefix}{name!r}"
    if moment is not None and moment > now + _SOON:
        yield f"{where} is in the future"
    if moment is not None:
        yield f"{where}: there is no revision that old{_oldest(repository, 'HEAD')[1]}"
    refs = repository.run(["for-each-ref", "--format=%(refname:short)"]).decode("utf-8", "replace").split()
    if head is None and not refs:
        yield f"{repository.path}: the repository has no commits yet"
    if name in tags:
        yield f"{where} is a tag, not a revision; write HEAD:{name}"
    if (steps_back := _STEPS.fullmatch(name)) and (found := _oldest(repository, steps_back[1]))[1]:
        steps, oldest = found
        there = f"are {steps:,} revisions" if steps > 1 else "is 1 revision" if steps else "is no revision"
        yield f"{where}: there {there} before {steps_back[1]}{oldest}"
    if path and revision and _ask(repository, f"{revision}^{{commit}}") is not None:
        yield _no_file(repository, revision, path)
    if os.path.exists(revision):  # noqa: PTH110  a name that is too long for a file is no error
        yield f"{where} needs a revision, and {revision} is a path: --repo reads it"
    if _YEAR.fullmatch(name):
        yield f"{where} is no date; write YYYY-MM-DD"
    known = [*refs, "HEAD", "yesterday", "today", *(f"HEAD:{each}" for each in tags)]
    yield f"{where} is not a revision, a date, a file or a folder{did_you_mean(name, known)}"


def _no_file(repository: Repository, revision: str, path: str) -> str:
    """Return the message that `revision` has no file `path`; if it has one in the current folder, suggest that."""
    where = repository.prefix
    found = _ask(repository, f"{revision}:{os.path.normpath(path)}")
    if found is not None and found.type == "tree":
        return f"{where}{path} is a folder in {revision}; name a document in it, or a tag as {revision}:TAG"
    root = next((folder for folder in Path.cwd().parents if (folder / ".git").exists()), Path.cwd())
    inside = f"{revision}:{os.path.normpath(Path.cwd().relative_to(root) / path)}"
    hint = f"; did you mean {inside}?" if _ask(repository, inside) is not None else ""
    return f"{where}{revision} has no file {path}{hint}"


def _oldest(repository: Repository, start: str) -> tuple[int, str]:
    """Return the number of revisions before `start`, and `; the oldest is main~9`; 0 and "" if they are unknown."""
    commits = _listed(repository, "--first-parent", "--end-of-options", start)
    if not commits:
        return 0, ""
    steps, time = len(commits) - 1, time_of(repository.objects().get(commits[-1]))
    day = f" of {time:%Y-%m-%d %H:%M} UTC" if time else ""
    return steps, f"; the oldest is {f'{start}~{steps}' if steps else start}{day}"
