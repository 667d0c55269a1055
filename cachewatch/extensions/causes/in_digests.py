"""Why specs were rebuilt, added to what a digest says of a tag, where the source records dependency graphs."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.causes import Causes
from cachewatch.core.changesets import Changeset, TagPair
from cachewatch.core.coverage import Coverage
from cachewatch.core.selection import Selection
from cachewatch.core.statement_values import Statement, StatementKind
from cachewatch.core.statements import RebuiltSpecs, with_causes
from cachewatch.environments.lockfiles import open_lock_graph
from cachewatch.errors import CachewatchError, WorkFailed
from cachewatch.extensions.causes import of_environments as environment_causes
from cachewatch.extensions.causes.of_changes import explained, find_rebuilt
from cachewatch.extensions.causes.recorded import RecordedGraph
from cachewatch.git.repository import Repository
from cachewatch.report.values import TagDigest
from cachewatch.runtime.log import Log
from cachewatch.runtime.worker import Isolation, Piece

_REBUILT = (StatementKind.REBUILD_WAVE, StatementKind.REBUILT)
# Returns what was found of a step before, or finds and keeps it.
Remember = Callable[[Hashable, Callable[[], tuple[RebuiltSpecs, ...]]], tuple[RebuiltSpecs, ...]]
# The graphs of both sides are about as large as the documents.
_FILES = 4


class RepositoryCauses:
    """Why specs of a repository were rebuilt, where it records what they are made of."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def of_changesets(
        self, found: Iterable[Changeset], selection: Selection, warn: Callable[[str], None]
    ) -> Iterator[Changeset]:
        """Pass changesets on, each of which can then be asked; `warn` is told of packages whose graph cannot be read."""
        return explained(found, self._repository, selection, warn)

    def of_digest(
        self, tag: TagDigest, pair: TagPair, selection: Selection, *, isolation: Isolation, remember: Remember, log: Log
    ) -> TagDigest:
        """Return a digest whose statements on rebuilt specs name the causes, found where that ends nothing but itself.

        Whatever was asked for: all digests that compare the same states share one step.
        """
        (old, old_tag), (new, new_tag) = ((side.revision, side.tag) for side in (pair.before, pair.after))
        statements = (*tag.statements, *tag.rest, *tag.report.statements)
        if not (old and old_tag and new and new_tag and any(one.kind in _REBUILT for one in statements)):
            return tag
        size = sum(documents.size for documents in pair.difference.all_documents)
        step = Step(self._repository.git_dir, (old, old_tag), (new, new_tag), size)
        rebuilt = remember(step, partial(find_in_worker, step, isolation, log))

        def with_those(statements: Sequence[Statement]) -> tuple[Statement, ...]:
            return with_causes(statements, rebuilt, selection.chooses)

        return replace(
            tag,
            statements=with_those(tag.statements),
            rest=with_those(tag.rest),
            report=replace(tag.report, statements=with_those(tag.report.statements)),
        )

    def of_environment(
        self,
        coverage: Coverage,
        lock: Path,
        *,
        folders: tuple[Path, ...],
        tags: tuple[tuple[str, str], ...],
        isolation: Isolation,
        warn: Callable[[str], None],
    ) -> Coverage:
        """Return what tags, each of a commit, have of an environment, with the causes of other hashes.

        The lock file is read if no link leads out of `folders`; none means that any file is.
        """
        replaced = environment_causes.replaced_in(coverage)
        if not replaced:
            return coverage
        step = EnvironmentStep(lock, folders, self._repository.git_dir, tags, replaced)
        try:
            ((_, found),) = isolation.each(
                _find_of_environment, [step], lambda one: Piece("dependency graph", one.tags[0], 0)
            )
        except CachewatchError as error:
            found = WorkFailed(str(error))
        if isinstance(found, WorkFailed):
            warn(str(found))
            return coverage
        return environment_causes.add_causes(coverage, found)


class Step(Struct, frozen=True):
    """Two states of a tag in a repository, with the bytes of the documents that differ."""

    git_dir: str
    before: tuple[str, str]  # commit and tag
    after: tuple[str, str]
    size: int


def find_in_worker(step: Step, isolation: Isolation, log: Log) -> tuple[RebuiltSpecs, ...]:
    """Return what was rebuilt and why, found where it can end nothing but itself; nothing if that fails."""
    try:
        ((_, found),) = isolation.each(_find, [step], _about)
    except CachewatchError as error:
        found = WorkFailed(str(error))
    if isinstance(found, WorkFailed):
        log.warning("causes.unknown", tag=step.after[1], error=str(found))
        return ()
    return found


class EnvironmentStep(Struct, frozen=True):
    """The lock file of an environment, and the tags of a revision that have other hashes of its specs."""

    lock: Path
    folders: tuple[Path, ...]  # out of which no link leads
    git_dir: str
    tags: tuple[tuple[str, str], ...]  # commit and tag
    replaced: tuple[tuple[str, str, str], ...]


def _find_of_environment(steps: Sequence[EnvironmentStep]) -> Mapping[str, Causes]:
    (step,) = steps
    with closing(Repository(Path(step.git_dir))) as repository:
        graphs = [RecordedGraph(repository, commit, tag) for commit, tag in step.tags]
        return (
            environment_causes.find_causes(open_lock_graph(step.lock, step.folders), graphs, step.replaced)
            if graphs
            else {}
        )


def _find(steps: Sequence[Step]) -> tuple[RebuiltSpecs, ...]:
    (step,) = steps
    with closing(Repository(Path(step.git_dir))) as repository:
        return find_rebuilt(repository, step.before, step.after)


def _about(step: Step) -> Piece:
    return Piece("dependency graph", (*step.before, *step.after), _FILES * step.size)
