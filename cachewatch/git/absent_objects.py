"""Which objects a partial clone lacks, and how many are fetched at a time."""

from collections.abc import Iterable, Iterator, Sequence

# What was fetched stays, so a fetch that is interrupted, or takes too long, loses no more than these.
_MOST = 20_000


def absent_of(ids: Iterable[str], listed: bytes) -> list[str]:
    """Return those of `ids` that git has not listed, each once.

    They stay in their order: what is sent together, as the versions of one document, is small as differences.
    """
    here = set(listed.decode().split())
    return [one for one in dict.fromkeys(ids) if one not in here]


def at_once(absent: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield what to fetch at a time."""
    for start in range(0, len(absent), _MOST):
        yield absent[start : start + _MOST]
