"""The causes of a whole night: each spec counted once, under the cause that explains most of what is left."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct

from cachewatch.core.causes import Cause, What


class Attributed(Struct, frozen=True, kw_only=True):
    """A cause, all specs that have it, and how many of them are counted here and nowhere else."""

    cause: Cause
    hashes: tuple[str, ...]
    attributed: tuple[str, ...]


def attribute(causes: Mapping[str, Iterable[Cause]]) -> tuple[Attributed, ...]:
    """Return the causes of specs by hash, most specs first; `attributed` has each spec that has any cause once."""
    alike: defaultdict[frozenset[Cause], list[str]] = defaultdict(list)
    for spec_hash, found in causes.items():
        alike[frozenset(found)].append(spec_hash)
    chosen = assign({found: len(hashes) for found, hashes in alike.items()})
    specs: defaultdict[Cause, list[str]] = defaultdict(list)
    taken: defaultdict[Cause, list[str]] = defaultdict(list)
    for found, hashes in alike.items():
        for cause in found:
            specs[cause] += hashes
        if found:
            taken[chosen[found]] += hashes
    done = [
        Attributed(cause=cause, hashes=tuple(sorted(specs[cause])), attributed=tuple(sorted(taken[cause])))
        for cause in specs
    ]
    return tuple(sorted(done, key=lambda one: (-len(one.hashes), -len(one.attributed), one.cause.sort_key)))


def assign(counts: Mapping[frozenset[Cause], int]) -> Mapping[frozenset[Cause], Cause]:
    """Return under which of its causes each set of causes is counted; the mapping says how many specs have a set.

    The cause of most specs takes them all, then that of most of the others, and so on; what another Spack wrote comes
    last, since it says nothing of the software.
    """
    sets: defaultdict[Cause, list[frozenset[Cause]]] = defaultdict(list)
    sizes: Counter[Cause] = Counter()
    for causes, count in counts.items():
        for cause in causes:
            sets[cause].append(causes)
            sizes[cause] += count
    assigned: dict[frozenset[Cause], Cause] = {}
    while sizes:
        cause = min(
            sizes, key=lambda one: (one.what is What.SPACK, -sizes[one], one.what is What.NOT_DESCRIBED, one.sort_key)
        )
        for causes in sets[cause]:
            if causes not in assigned:
                assigned[causes] = cause
                for other in causes:
                    sizes[other] -= counts[causes]
        sizes = +sizes  # without those that explain nothing more
    return assigned
