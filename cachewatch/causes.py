"""What a change of some specs is due to, so that what happened to a whole tag is told once."""

from msgspec import Struct

from cachewatch.model import PackageChange, Signature, Status


class Cause(Struct, frozen=True):
    """What changed about some specs; where that happened to the whole tag, an event tells it.

    `gained` and `lost` are stacks, `swap` is a fact of which one value took another's place.
    """

    gained: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    swap: tuple[str, str, str] | None = None  # fact, old value, new value
    is_surplus: bool = False  # a copy less of what is still there


NO_CAUSE = Cause()


def swap_of(change: PackageChange, fact: str) -> tuple[str, str, str] | None:
    """Return which value of `fact` took which other's place, if it is one for one."""
    delta = change.facts[fact]
    if len(delta.added) == 1 and len(delta.removed) == 1:
        return (fact, delta.removed[0], delta.added[0])
    return None


def cause_of_loss(change: PackageChange, signature: Signature, *, is_last: bool) -> Cause:
    """Return what specs of `signature` went with; a whole package goes with all its stacks."""
    if change.status is Status.REMOVED:
        return Cause(lost=change.before["stacks"])
    swap = _swap_with(change, signature, 1)
    return Cause(swap=swap) if swap else Cause(lost=frozenset(signature.stacks), is_surplus=not is_last)


def cause_of_gain(change: PackageChange, signature: Signature) -> Cause:
    """Return what specs of `signature` came with; a whole package comes with all its stacks."""
    if change.status is Status.ADDED:
        return Cause(gained=change.after["stacks"])
    swap = _swap_with(change, signature, 2)
    return Cause(swap=swap) if swap else Cause(gained=frozenset(signature.stacks))


def cause_of_move(before: Signature, after: Signature) -> Cause:
    """Return the stacks between which specs moved."""
    had, has = frozenset(before.stacks), frozenset(after.stacks)
    return Cause(gained=has - had, lost=had - has)


def _swap_with(change: PackageChange, signature: Signature, place: int) -> tuple[str, str, str] | None:
    for fact, value in (("targets", signature.target), ("oses", signature.os)):
        swap = swap_of(change, fact)
        if swap and swap[place] == value:
            return swap
    return None
