"""How many specs of each version each place has, and what versions each stack has."""

from collections.abc import Iterable, Iterator, Mapping, Set

from cachewatch.model import Direction, Signature, StackVersions, VersionPlace
from cachewatch.versions import is_newer, newest, sorted_versions


def count_places(counts: Mapping[Signature, int]) -> Mapping[VersionPlace, int]:
    """Count the specs of each version in each stack, for each target."""
    copies: dict[VersionPlace, int] = {}
    for signature, count in counts.items():
        for stack in signature.stacks:
            for version in signature.versions:
                place = VersionPlace(version, stack, signature.target)
                copies[place] = copies.get(place, 0) + count
    return copies


def judge_versions(
    stacks: Set[str], before: Iterable[VersionPlace], after: Iterable[VersionPlace]
) -> Iterator[StackVersions]:
    """Judge versions stack by stack: one package can go up in one and down in another."""
    if not stacks:
        return
    had, has = _by_stack(before), _by_stack(after)
    for stack in sorted(stacks):
        old, new = had.get(stack, frozenset()), has.get(stack, frozenset())
        if old != new:
            yield StackVersions(stack, tuple(sorted_versions(old)), tuple(sorted_versions(new)), _direction(old, new))


def _by_stack(places: Iterable[VersionPlace]) -> Mapping[str, Set[str]]:
    versions: dict[str, set[str]] = {}
    for place in places:
        versions.setdefault(place.stack, set()).add(place.version)
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
