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
    specs: defaultdict[Cause, set[str]] = defaultdict(set)
    for spec_hash, found in causes.items():
        for cause in found:
            specs[cause].add(spec_hash)
    taken = _greedily({spec_hash: set(found) for spec_hash, found in causes.items()}, specs)
    done = [
        Attributed(cause=cause, hashes=tuple(sorted(specs[cause])), attributed=tuple(sorted(taken.get(cause, ()))))
        for cause in specs
    ]
    return tuple(sorted(done, key=lambda one: (-len(one.attributed), -len(one.hashes), one.cause.sort_key)))


def _greedily(left: dict[str, set[Cause]], specs: Mapping[Cause, set[str]]) -> Mapping[Cause, set[str]]:
    counts = Counter({cause: len(hashes) for cause, hashes in specs.items()})
    taken: dict[Cause, set[str]] = {}
    while counts:
        cause = min(counts, key=lambda one: (-counts[one], one.what is What.NOT_DESCRIBED, one.sort_key))
        mine = {spec_hash for spec_hash in specs[cause] if spec_hash in left}
        if mine:
            taken[cause] = mine
        for spec_hash in mine:
            for other in left.pop(spec_hash):
                counts[other] -= 1
        counts = +counts  # without those that explain nothing more
    return taken
