"""The specs of one tag that a revision rebuilt, with the causes: small enough to keep, and to send between processes."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress

from cachewatch.causes.step_causes import Step
from cachewatch.core.causes import Explanation
from cachewatch.core.model import Document, Signature
from cachewatch.core.statements import RebuiltSpecs
from cachewatch.errors import DocumentError
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
