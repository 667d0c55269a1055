"""Sums over all packages, revision by revision."""

from collections.abc import Mapping

from msgspec import Struct

from cachewatch.history.values import NO_STACK, TagHistory


class Totals(Struct, frozen=True, kw_only=True):
    """What a tag held after each revision, and what each changed; lists are by revision."""

    specs: list[int]
    packages: list[int]  # that have a document
    changed: list[int]  # packages that something happened to
    stacks: Mapping[str, list[int]]  # specs of each stack
    unreferenced: list[int]
    churn: Mapping[str, list[int]]  # specs by what became of them; nothing in the first revision


def totals_of(past: TagHistory) -> Totals:
    """Count what `past` tells."""
    count = len(past.revisions)
    specs, packages, changed = ([0] * count for _ in range(3))
    stacks: dict[str, list[int]] = {NO_STACK: [0] * count}
    churn: dict[str, list[int]] = {}
    for history in past.packages:
        before, was_there = 0, False
        for step in history.steps:
            specs[step.revision] += step.specs - before
            packages[step.revision] += (not step.is_gone) - was_there
            before, was_there = step.specs, not step.is_gone
            for stack, gained in step.stacks.items():
                stacks.setdefault(stack, [0] * count)[step.revision] += gained
            if not step.is_baseline:
                changed[step.revision] += 1
                for kind, number in step.counts.items():
                    churn.setdefault(kind, [0] * count)[step.revision] += number
    return Totals(
        specs=_summed(specs),
        packages=_summed(packages),
        changed=changed,
        stacks={stack: _summed(gains) for stack, gains in stacks.items() if stack != NO_STACK},
        unreferenced=_summed(stacks[NO_STACK]),
        churn=churn,
    )


def _summed(gains: list[int]) -> list[int]:
    total = 0
    return [total := total + gain for gain in gains]
