"""Update the history index in the service after polls, and answer the questions that digests ask it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from cachewatch.config.sources_and_channels import Source
from cachewatch.core.advice.verbs_and_reasons import Alternative
from cachewatch.core.filters_and_spec_patterns import Globs
from cachewatch.core.kinds_and_specs import Side, Signature
from cachewatch.core.names_and_layouts import is_snapshot
from cachewatch.core.statement_kinds import Line, Statement, StatementKind, Stay
from cachewatch.core.versions_spellings_targets import version_identity
from cachewatch.errors import CachewatchError, NoHistoryIndex, UnknownRevision
from cachewatch.extensions.history.blame_and_best_snapshot import find_best
from cachewatch.extensions.history.build import IndexUpdate, bring_up_to_date, discard, in_jobs
from cachewatch.extensions.history.index_lookup import Index, days_between
from cachewatch.extensions.history.package_questions import baseline_of, find_presence, last_day, returned
from cachewatch.extensions.history.schema_and_location import NAME, DamagedIndex, NotAnIndex
from cachewatch.runtime.log import Log
from cachewatch.runtime.worker import Limits, Worker
from cachewatch.service.alerts_and_silent_sources import contained
from cachewatch.service.context_and_source_copies import Context, EndingError, watched_copy

_Answer = TypeVar("_Answer")


class Past:
    """The history index of a source, which digests ask. Once the index is unreadable, all answers are None or empty."""

    def __init__(self, index: Index, log: Log | None) -> None:
        self._index: Index | None = index
        self._log = log

    def close(self) -> None:
        """Close the index."""
        if self._index is not None:
            self._index.connection.close()

    def stay(self, line: Line, before: Side, after: Side) -> Stay | None:
        """Return how long the tag had the specs of `line`, removed between `before` and `after`; None if unknown."""
        return self._asked(lambda index: _stay(index, line, before, after))

    def alternative(self, hashes: Collection[str]) -> Alternative | None:
        """Return the snapshot that now has most of `hashes`, and how many it has; None if no snapshot has any."""
        best = self._asked(lambda index: find_best(index, hashes, takes_tag=is_snapshot).snapshots) or ()
        return next((Alternative(one.tag, one.found, one.of) for one in best if one.is_current), None)

    def until(self, package: str, tag: str, chooses: Callable[[str, Signature], object]) -> str | None:
        """Return when `tag` lost its last spec of `package` that `chooses` accepts; None if it has one or never had."""
        return self._asked(lambda index: last_day(index, package, tag, index.newest, chooses))

    def returned(self, statements: Iterable[Statement], before: Side) -> Mapping[str, str]:
        """Return, by statement id, a text on when the tag last had a package or stack that came back after `before`."""

        def find(index: Index) -> Mapping[str, str]:
            number = _number(index, before)
            return {} if number is None else returned(index, before.tag or "", number, statements)

        return self._asked(find) or {}

    def _asked(self, ask: Callable[[Index], _Answer | None]) -> _Answer | None:
        if self._index is None:
            return None
        try:
            with self._index.reporting_damage():
                return ask(self._index)
        except CachewatchError as error:
            _warn(self._log, error)
            self.close()
            if isinstance(error, DamagedIndex):
                with suppress(CachewatchError, OSError):
                    discard(self._index.path)  # the next poll builds it again
            self._index = None
            return None


def open_past(path: Path, log: Log | None) -> Past | None:
    """Open the history index at `path`; return None if it is unreadable (then warn in `log`) or is just being built."""
    try:
        return Past(Index(path, patience=0.2), log)  # no digest waits for an index that is being written
    except NoHistoryIndex:
        return None  # it is being built
    except CachewatchError as error:
        _warn(log, error)
        return None


def _warn(log: Log | None, error: CachewatchError) -> None:
    if log is not None:
        log.warning("history.failed", error=str(error))


def _stay(index: Index, line: Line, before: Side, after: Side) -> Stay | None:
    number, end = _number(index, before), _number(index, after)
    if number is None or not before.tag:
        return None
    is_whole = line.story.kind is StatementKind.PACKAGE_REMOVED
    versions = None if is_whole else frozenset(map(version_identity, line.story.before))
    places, stacks = line.story.places, line.stacks

    def chooses(version: str, stack: str, target: str) -> bool:
        is_there = (stack, target) in places if places else not stacks or stack in stacks
        return is_there and (versions is None or version_identity(version) in versions)

    if (span := find_presence(index, line.package, before.tag, number, chooses)) is None:
        return None
    first, last = span
    begin, is_over = index.point(first), end is not None and last <= end
    if begin.time is None or (end is not None and not is_over):
        return None
    days = days_between(begin, index.point(last if is_over else number)) or 0
    baseline = baseline_of(index, index.id_of("package", line.package), index.id_of("tag", before.tag))
    return Stay(day=begin.time[:10], or_before=first == baseline, days=days if days > 0 else None, is_least=not is_over)


def _number(index: Index, side: Side) -> int | None:
    try:
        return index.number_of(side.revision) if side.revision else None
    except UnknownRevision:
        return None


def update_history(context: Context, source: Source, sources: Sequence[str]) -> None:
    """Index new revisions of `source` in a worker process if a glob in `sources` matches it; errors are only logged."""
    if context.is_ending.is_set() or not Globs(sources)(source.name):
        return
    log = context.log.bind(source=source.name)
    with contained(context, source.name, "the history index"), suppress(EndingError):  # it continues next time
        try:
            # The first build of a long history takes so long; git maps whole packs into memory.
            with Worker(limits=Limits(megabytes=8192, seconds=3600), go_on=context.go_on) as worker:
                done = worker.do(partial(_update, source), context.clone_folder(source.name))
        except CachewatchError as error:
            _warn(log, error)
        else:
            if done.revisions or done.rewritten:
                log.info("history.indexed", revisions=done.revisions, rewritten=done.rewritten or None)


def _update(source: Source, folder: Path) -> IndexUpdate:
    with closing(watched_copy(source, folder).open()) as repository:
        path = repository.shared_git_dir / NAME
        try:
            return bring_up_to_date(repository, path, in_jobs(repository, 1))
        except (DamagedIndex, NotAnIndex):
            discard(path)  # it is built again next time
            raise
