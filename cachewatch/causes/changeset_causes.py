"""The causes of the rebuilds of a comparison: for `diff --why`."""

from collections.abc import Iterable, Iterator
from functools import partial

from cachewatch.causes.recorded_graph import RecordedGraph
from cachewatch.causes.step_causes import Step
from cachewatch.core.causes import Explanation
from cachewatch.core.changesets import Changeset
from cachewatch.core.model import Side
from cachewatch.core.selection import Selection
from cachewatch.git.repository import Repository


def explained(found: Iterable[Changeset], repository: Repository, selection: Selection) -> Iterator[Changeset]:
    """Pass changesets on; each can then be asked for the causes of the rebuilt specs that were selected."""
    for changeset in found:
        changeset.explain = partial(_explain, repository, changeset.before, changeset.after, selection)
        yield changeset


def _explain(repository: Repository, before: Side, after: Side, selection: Selection) -> tuple[Explanation, ...]:
    if not (before.revision and after.revision and before.tag and after.tag):
        return ()
    step = Step(
        RecordedGraph(repository, before.revision, before.tag), RecordedGraph(repository, after.revision, after.tag)
    )
    return tuple(one for name in filter(selection.packages, step.after.packages) for one in _of(step, name, selection))


def _of(step: Step, package: str, selection: Selection) -> Iterator[Explanation]:
    document = step.after.document(package)
    specs = document.specs if document is not None else {}
    for one in step.explain(package):
        if one.is_match and one.causes and selection.chooses(specs[one.spec.hash]):
            yield one
