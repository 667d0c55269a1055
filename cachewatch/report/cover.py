"""Say in few words where specs are: stacks and targets, none named twice."""

from collections.abc import Iterable, Set

from cachewatch.model import Signature

_MOST_NAMES = 3

# Targets, each with some stacks; one may come several times.
Spots = tuple[tuple[str, tuple[str, ...]], ...]


def spots_of(signatures: Iterable[Signature]) -> Spots:
    """Return where `signatures` are."""
    return tuple([(signature.target, signature.stacks) for signature in signatures])


def cover(spots: Spots, all_stacks: Set[str] = frozenset()) -> str:
    """Name `spots` as `stacks|targets` parts: `e4s,radiuss|x86_64_v3`.

    Targets with the same stacks share a part. `all_stacks` is what to call "all".
    """
    stacks_of: dict[str, frozenset[str]] = {}
    for target, stacks in spots:
        stacks_of[target] = stacks_of.get(target, frozenset()).union(stacks)
    targets_of: dict[frozenset[str], list[str]] = {}
    for target in sorted(stacks_of):
        targets_of.setdefault(stacks_of[target], []).append(target)
    return "; ".join(
        f"{name_stacks(together, all_stacks)}|{','.join(targets)}" if together else ",".join(targets)
        for together, targets in targets_of.items()
    )


def name_stacks(stacks: Iterable[str], all_stacks: Set[str] = frozenset()) -> str:
    """Return `stacks` as short as can be: braces for what they share, a number beyond a few."""
    stacks = set(stacks)
    if not stacks:
        return "no stack"
    if stacks == all_stacks and len(stacks) > _MOST_NAMES:
        return f"all {len(stacks)} stacks"
    names = _braced(stacks)
    return ",".join(names) if len(names) <= _MOST_NAMES else f"{len(stacks)} stacks"


def _braced(stacks: Iterable[str]) -> list[str]:
    endings: dict[str, list[str]] = {}
    for stack in sorted(stacks):
        family, _, ending = stack.rpartition("-")
        endings.setdefault(family, []).append(ending)
    names = []
    for family, ends in endings.items():
        if not family:
            names += ends
        elif len(ends) == 1:
            names.append(f"{family}-{ends[0]}")
        else:
            names.append(f"{family}-{{{','.join(ends)}}}")
    return sorted(names)
