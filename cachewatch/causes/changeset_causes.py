"""The causes of the rebuilds of a comparison: for `diff --why`."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from cachewatch.causes.step_causes import Step
from cachewatch.core.causes import Explanation
from cachewatch.core.changesets import Changeset
from cachewatch.core.model import Side
from cachewatch.core.selection import Selection
from cachewatch.git.repository import Repository


def explained(
    found: Iterable[Changeset], repository: Repository, selection: Selection, warn: Callable[[str], None]
) -> Iterator[Changeset]:
    """Pass changesets on; each can then be asked for the causes of the rebuilt specs that were selected.

    `warn` is told of packages whose graph cannot be read.
    """
    for changeset in found:
        changeset.explain = partial(_explain, repository, (changeset.before, changeset.after), selection, warn)
        yield changeset


def _explain(
    repository: Repository, sides: tuple[Side, Side], selection: Selection, warn: Callable[[str], None]
) -> tuple[Explanation, ...]:
    before, after = sides
    if not (before.revision and after.revision and before.tag and after.tag):
        return ()
    step = Step.between(repository, (before.revision, before.tag), (after.revision, after.tag))
    found = tuple(
        one
        for one in step.explain_packages(selection.packages)
        if one.is_match and one.causes and _is_chosen(step, one, selection)
    )
    for what in step.unreadable:
        warn(what)
    return found


def _is_chosen(step: Step, one: Explanation, selection: Selection) -> bool:
    document = step.after.document(one.spec.name)
    return document is not None and selection.chooses(document.specs[one.spec.hash])
