"""The causes of rebuilds between two revisions: the rebuilt specs of a tag, chains of causes, and `diff --why`.

The rebuilt specs with their causes are small enough to keep, and to send between processes. A chain is the shortest
way down the dependency graph from a package to a cause.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial

from msgspec import Struct

from cachewatch.core.causes import Cause, Explanation
from cachewatch.core.changesets import Changeset
from cachewatch.core.model import Document, Side, Signature
from cachewatch.core.selection import Selection
from cachewatch.core.statements import RebuiltSpecs
from cachewatch.errors import DocumentError
from cachewatch.extensions.causes.recorded import Step
from cachewatch.git.repository import Repository


def find_rebuilt(repository: Repository, before: tuple[str, str], after: tuple[str, str]) -> tuple[RebuiltSpecs, ...]:
    """Return what was rebuilt between two states of a tag, each a commit and the tag's name.

    That is nothing where one of them has no dependency graph. Packages that cannot be read are left out.
    """
    return rebuilt_in(Step.between(repository, before, after))


def rebuilt_in(step: Step) -> tuple[RebuiltSpecs, ...]:
    """Return what was rebuilt in a step, as find_rebuilt does."""
    found: list[RebuiltSpecs] = []
    for package in step.packages if step.is_recorded else ():
        with suppress(DocumentError):
            found += _of_package(step, package)
    return tuple(found)


def _of_package(step: Step, package: str) -> Iterator[RebuiltSpecs]:
    old, new = step.before.document(package), step.after.document(package)
    if old is None or new is None:
        return
    alike: defaultdict[Signature, list[Explanation]] = defaultdict(list)
    for one in step.explain_all(package):
        signature = new.specs[one.spec.hash]
        if signature in old.specs.counts and one.predecessor is not None:
            alike[signature].append(one)
    vanished = _vanished(old, new)
    for signature, found in alike.items():
        in_place = vanished[signature]
        for is_beside, some in ((False, found[:in_place]), (True, found[in_place:])):
            for causes, count in Counter(frozenset(one.causes) for one in some).items():
                yield RebuiltSpecs(
                    package=package, signature=signature, causes=causes, count=count, is_beside=is_beside
                )


def _vanished(old: Document, new: Document) -> Counter[Signature]:
    return Counter(signature for spec_hash, signature in old.specs.items() if spec_hash not in new.specs.hashes)


_MOST_CHAINS = 3


class Chain(Struct, frozen=True, array_like=True):
    """A cause, the names on the way to it from the package that was rebuilt, and how many specs have it."""

    cause: Cause
    path: tuple[str, ...]
    specs: int


def find_chains(step: Step, package: str) -> tuple[Chain, ...]:
    """Return the causes of most new specs of a package; those of single specs only if there is room."""
    explained = [one for one in step.explain_all(package) if one.is_match and one.causes]
    counts = Counter(cause for one in explained for cause in one.causes)
    chosen = sorted(counts, key=lambda cause: (-counts[cause], cause.sort_key))[:_MOST_CHAINS]
    paths: dict[Cause, tuple[str, ...]] = {}
    for one in explained:
        wanted = [cause for cause in chosen if cause in one.causes and cause not in paths]
        if wanted:
            found = step.with_paths(one).paths
            paths |= {cause: found[cause] for cause in wanted}
    return tuple(Chain(cause, paths[cause], counts[cause]) for cause in chosen)


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
