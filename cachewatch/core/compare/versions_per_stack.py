"""What became of the versions of a package in each stack."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set

from cachewatch.core.model import Direction, Signature, StackVersions
from cachewatch.core.versions import is_newer, newest, sorted_versions


def judge_versions(
    stacks: set[str], before: Iterable[Signature], after: Iterable[Signature]
) -> Iterator[StackVersions]:
    """Judge versions stack by stack: one package can go up in one and down in another."""
    if not stacks:
        return
    had, has = _versions(stacks, before), _versions(stacks, after)
    for stack in sorted(stacks):
        old, new = had.get(stack, frozenset()), has.get(stack, frozenset())
        if old != new:
            yield StackVersions(stack, tuple(sorted_versions(old)), tuple(sorted_versions(new)), _direction(old, new))


def _versions(stacks: set[str], signatures: Iterable[Signature]) -> Mapping[str, Set[str]]:
    """Return the versions that each of `stacks` has."""
    versions: defaultdict[str, set[str]] = defaultdict(set)
    for those, has in {(signature.stacks, signature.versions) for signature in signatures}:
        for stack in stacks.intersection(those):
            versions[stack].update(has)
    return versions


def _direction(before: Set[str], after: Set[str]) -> Direction:
    if not before:
        return Direction.ADDED
    if not after:
        return Direction.REMOVED
    if is_newer(newest(after), newest(before)):
        return Direction.UPGRADE
    if is_newer(newest(before), newest(after)):
        return Direction.DOWNGRADE
    return Direction.CHANGED
