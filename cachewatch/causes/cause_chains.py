"""How causes reached a package in one revision: for each, the shortest way down the dependency graph."""

from collections import Counter

from msgspec import Struct

from cachewatch.causes.step_causes import Step
from cachewatch.core.causes import Cause

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
