"""The history index in the service: update it for sources with `history: true`, and add to digests what it knows.

Of a removed version or package, a digest then says since when it had been there. No digest depends on the index.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from cachewatch.config.sources import Source
from cachewatch.core.changesets import TagPair
from cachewatch.core.model import Side
from cachewatch.core.statement_values import Line, Statement, StatementKind, Stay
from cachewatch.core.versions import version_identity
from cachewatch.errors import CachewatchError, NoHistoryIndex, UnknownRevision
from cachewatch.extensions.history.build import IndexUpdate, bring_up_to_date, in_jobs
from cachewatch.extensions.history.read import Index, days_between
from cachewatch.extensions.history.schema import DamagedIndex, NotAnIndex, index_path
from cachewatch.extensions.history.when import find_presence
from cachewatch.extensions.history.write import discard
from cachewatch.git.repository import Repository
from cachewatch.report.values import TagDigest
from cachewatch.runtime.log import Log
from cachewatch.runtime.worker import Limits, Worker
from cachewatch.service.alerts import contained
from cachewatch.service.context import Context, EndingError, watched_copy

# So many questions for each source of a digest: one of the largest package takes some hundredths of a second.
MOST = 25
# No digest waits for an index that is being written.
_BUSY_MILLISECONDS = 200
# Of packages, and of versions.
_REMOVED = (StatementKind.PACKAGE_REMOVED, StatementKind.RETIRED, StatementKind.DOWNGRADED)


@contextmanager
def open_index(repository: Repository, log: Log) -> Iterator[Index | None]:
    """Open the history index of a source, if there is one that can be read."""
    path = index_path(None, repository.shared_git_dir, {})
    index: Index | None = None
    try:
        index = Index(path, busy_milliseconds=_BUSY_MILLISECONDS) if path.exists() else None
    except NoHistoryIndex:
        pass  # it is being built
    except CachewatchError as error:
        log.warning("history.failed", error=str(error))
    try:
        yield index
    finally:
        if index is not None:
            index.close()


def is_concerned(tag: TagDigest) -> bool:
    """Tell whether anything was removed of which it can be said since when it was there."""
    return any(one.kind in _REMOVED for one in tag.statements)


def add_stays(tag: TagDigest, pair: TagPair, index: Index, room: int, log: Log) -> tuple[TagDigest, int]:
    """Return a digest whose first lines on what was removed say since when it was there, and how much of the `room` is left.

    Nothing is said where the index does not have the revision before, or two tags are compared.
    """
    try:
        with index.explained():
            return _added(tag, pair, index, room)
    except CachewatchError as error:
        log.warning("history.failed", error=str(error))
        if isinstance(error, DamagedIndex):
            with suppress(CachewatchError, OSError):
                discard(index.path)  # the next poll builds it again
        return tag, room


def _added(tag: TagDigest, pair: TagPair, index: Index, room: int) -> tuple[TagDigest, int]:
    before, after = pair.before, pair.after
    number = _number(index, before)
    if number is None or not before.tag or before.tag != after.tag:
        return tag, room
    end = _number(index, after)
    statements: list[Statement] = []
    for one in tag.statements:
        lines: Sequence[Line] = one.lines
        if one.kind in _REMOVED:
            asked = lines[:room]
            room -= len(asked)
            lines = (*(_with_stay(line, index, before.tag, number, end) for line in asked), *lines[len(asked) :])
        statements.append(one if lines is one.lines else replace(one, lines=tuple(lines)))
    return replace(tag, statements=tuple(statements)), room


def _number(index: Index, side: Side) -> int | None:
    """Return the place of a whole commit in the chain; None where it is not indexed."""
    try:
        return index.number_of(side.revision) if side.revision else None
    except UnknownRevision:
        return None


def _with_stay(line: Line, index: Index, tag: str, number: int, end: int | None) -> Line:
    is_whole = line.story.kind is StatementKind.PACKAGE_REMOVED
    versions = None if is_whole else frozenset(map(version_identity, line.story.before))
    places, stacks = line.story.places, line.stacks

    def chooses(version: str, stack: str, target: str) -> bool:
        is_there = (stack, target) in places if places else not stacks or stack in stacks
        return is_there and (versions is None or version_identity(version) in versions)

    found = find_presence(index, line.package, tag, number, chooses)
    if found is None:
        return line
    first = index.point(found.first)
    is_over = found.last is not None and end is not None and found.last <= end
    if first.time is None or (end is not None and not is_over):
        return line
    days = days_between(first, index.point(found.last if is_over and found.last is not None else number))
    stay = Stay(
        day=first.time[:10], or_before=found.is_baseline, days=days if days and days > 0 else None, is_least=not is_over
    )
    return replace(line, stay=stay)


# The first build of a long history takes that long; what is interrupted continues. Git maps whole packs into memory.
_LIMITS = Limits(megabytes=8192, seconds=3600)


def update_histories(context: Context) -> None:
    """Bring the index of each source that wants one up to date."""
    for source in context.config.sources.values():
        update_history(context, source)


def update_history(context: Context, source: Source) -> None:
    """Index the new revisions of `source` in another process; what goes wrong stops nothing else."""
    if not source.history or context.is_ending.is_set():
        return
    log = context.log.bind(source=source.name)
    with contained(context, source.name, "the history index"):
        try:
            with Worker(limits=_LIMITS, go_on=context.go_on) as worker:
                done = worker.do(partial(_update, source), context.clone_folder(source.name))
        except EndingError:
            return  # it continues next time
        except CachewatchError as error:
            log.warning("history.failed", error=str(error))
            return
        if done.revisions or done.rewritten:
            log.info("history.indexed", revisions=done.revisions, rewritten=done.rewritten or None)


def _update(source: Source, folder: Path) -> IndexUpdate:
    with closing(watched_copy(source, folder).open()) as repository:
        path = index_path(None, repository.shared_git_dir, {})
        try:
            return bring_up_to_date(repository, path, in_jobs(repository, 1))
        except (DamagedIndex, NotAnIndex):
            discard(path)  # it is built again next time
            raise
