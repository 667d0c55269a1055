"""Why specs were rebuilt, added to what a digest says of a tag, where the source records dependency graphs."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.causes import Causes
from cachewatch.core.changesets import TagPair
from cachewatch.core.coverage import Coverage
from cachewatch.core.selection import Selection
from cachewatch.core.statement_values import Statement, StatementKind
from cachewatch.core.statements import RebuiltSpecs, with_causes
from cachewatch.environments.lockfiles import open_lock_graph
from cachewatch.errors import CachewatchError, WorkFailed
from cachewatch.extensions.causes import of_environments as environment_causes
from cachewatch.extensions.causes.of_changes import find_rebuilt
from cachewatch.extensions.causes.recorded import RecordedGraph
from cachewatch.git.repository import Repository
from cachewatch.report.values import TagDigest
from cachewatch.runtime.log import Log
from cachewatch.runtime.worker import Isolation, Piece

_REBUILT = (StatementKind.REBUILD_WAVE, StatementKind.REBUILT)
# The graphs of both sides are about as large as the documents.
_FILES = 4


class Step(Struct, frozen=True):
    """Two states of a tag in a repository, with the bytes of the documents that differ."""

    git_dir: str
    before: tuple[str, str]  # commit and tag
    after: tuple[str, str]
    size: int


def step_of(repository: Repository, pair: TagPair) -> Step | None:
    """Return the states that `pair` compares; None where one of them is missing."""
    sides = [(side.revision, side.tag) for side in (pair.before, pair.after)]
    (old, old_tag), (new, new_tag) = sides
    if old is None or new is None or old_tag is None or new_tag is None:
        return None
    # Whatever somebody asked for: all who compare these states share one step.
    size = sum(documents.size for documents in pair.difference.all_documents)
    return Step(repository.git_dir, (old, old_tag), (new, new_tag), size)


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


def explain_environment(coverage: Coverage, step: EnvironmentStep, isolation: Isolation, log: Log) -> Coverage:
    """Return what a source has of an environment, with the causes of other hashes where they can be found."""
    step = replace(step, replaced=environment_causes.replaced_in(coverage))
    if not step.replaced:
        return coverage
    try:
        ((_, found),) = isolation.each(
            _find_of_environment, [step], lambda one: Piece("dependency graph", one.tags[0], 0)
        )
    except CachewatchError as error:
        found = WorkFailed(str(error))
    if isinstance(found, WorkFailed):
        log.warning("causes.unknown", environment=step.lock, error=str(found))
        return coverage
    return environment_causes.add_causes(coverage, found)


def _find_of_environment(steps: Sequence[EnvironmentStep]) -> Mapping[str, Causes]:
    (step,) = steps
    with closing(Repository(Path(step.git_dir))) as repository:
        graphs = [RecordedGraph(repository, commit, tag) for commit, tag in step.tags]
        return (
            environment_causes.find_causes(open_lock_graph(step.lock, step.folders), graphs, step.replaced)
            if graphs
            else {}
        )


def is_concerned(tag: TagDigest) -> bool:
    """Tell whether anything was rebuilt."""
    return any(one.kind in _REBUILT for one in _all_statements(tag))


def add_causes(tag: TagDigest, rebuilt: Sequence[RebuiltSpecs], selection: Selection) -> TagDigest:
    """Return a digest whose statements on rebuilt specs name the causes."""

    def explained(statements: Sequence[Statement]) -> tuple[Statement, ...]:
        return with_causes(statements, rebuilt, selection.chooses)

    return replace(
        tag,
        statements=explained(tag.statements),
        rest=explained(tag.rest),
        report=replace(tag.report, statements=explained(tag.report.statements)),
    )


def _all_statements(tag: TagDigest) -> tuple[Statement, ...]:
    return (*tag.statements, *tag.rest, *tag.report.statements)


def _find(steps: Sequence[Step]) -> tuple[RebuiltSpecs, ...]:
    (step,) = steps
    with closing(Repository(Path(step.git_dir))) as repository:
        return find_rebuilt(repository, step.before, step.after)


def _about(step: Step) -> Piece:
    return Piece("dependency graph", (*step.before, *step.after), _FILES * step.size)
