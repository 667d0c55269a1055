"""Which machines run builds for another target, by the microarchitectures of archspec, as in Spack."""

from functools import cache


@cache
def runnable(target: str) -> frozenset[str]:
    """Return the targets whose binaries run on machines of `target`: it and its ancestors.

    Of a target that archspec does not know, only its own binaries are known to run there.
    """
    from archspec.cpu import TARGETS  # noqa: PLC0415  slow to load, and seldom needed

    known = TARGETS.get(target)
    return frozenset({target, *(ancestor.name for ancestor in known.ancestors)} if known else {target})


def runs(machine: str, target: str) -> bool:
    """Tell whether machines of the target `machine` run what was built for `target`."""
    return machine == target or target in runnable(machine)


def closeness(target: str) -> int:
    """Return how much of a machine's target another one that it runs makes use of: the higher, the more."""
    return len(runnable(target))
