"""Where copies of a package can be installed from, and what versions each stack has."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set

from cachewatch.model import Direction, Place, Signature, StackVersions
from cachewatch.versions import is_newer, newest, sorted_versions


def count_places(counts: Mapping[Signature, int], sees_stack: Callable[[str], bool] | None) -> Mapping[Place, int]:
    """Count the copies of each version in each stack that is seen, for each target."""
    copies: dict[Place, int] = {}
    for signature, count in counts.items():
        for stack in signature.stacks:
            if sees_stack is None or sees_stack(stack):
                for version in signature.versions:
                    place = Place(version, stack, signature.target)
                    copies[place] = copies.get(place, 0) + count
    return copies


def lost_places(before: Mapping[Place, int], after: Mapping[Place, int]) -> tuple[Place, ...]:
    """Return the places that had a copy and have none now: a loss that somebody will notice."""
    return tuple(sorted(before.keys() - after.keys(), key=lambda p: (p.stack, p.version, p.target)))


def judge_versions(before: Iterable[Place], after: Iterable[Place]) -> Iterator[StackVersions]:
    """Judge versions stack by stack: one package can go up in one and down in another."""
    had, has = _by_stack(before), _by_stack(after)
    for stack in sorted(had.keys() | has.keys()):
        old, new = had.get(stack, frozenset()), has.get(stack, frozenset())
        if old != new:
            yield StackVersions(stack, tuple(sorted_versions(old)), tuple(sorted_versions(new)), _direction(old, new))


def _by_stack(places: Iterable[Place]) -> Mapping[str, Set[str]]:
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
