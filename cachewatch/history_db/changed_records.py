"""Find which records of two neighbouring versions of a document may differ, without looking at each of them.

The generator sorts records by their hashes, and neighbouring versions have long runs of records in common, which are skipped
at the speed of memory. In whatever order records are, the answer is right: it only takes longer to find, or is not found.
"""

from collections.abc import Sequence
from itertools import compress, count
from operator import ne
from typing import Any

_HASH = '"hash": "'
_HASH_LENGTH = 32
# With more changes than these, and one in so many records, looking at every record is as fast.
_FEW, _SHARE = 16, 8

Pieces = Sequence[str]  # the texts of records, as `split_at_braces` cuts them


def changed_records(old: Pieces, new: Pieces) -> tuple[list[str], list[str]] | None:
    """Return the records of `old` and of `new` without runs that both have; None if that are too many.

    What is in one of the lists and not in the other one differs.
    """
    before: list[str] = []
    after: list[str] = []
    most = _FEW + len(new) // _SHARE
    i = j = 0
    while True:
        run = _common(old, i, new, j)
        if run is None:
            break
        i, j = i + run, j + run
        first, second = old[i], new[j]
        if len(before) + len(after) > most:
            return None
        hash_before, hash_after = _hash_in(first), _hash_in(second)
        if hash_before <= hash_after:
            before.append(first)
            i += 1
        if hash_after <= hash_before:
            after.append(second)
            j += 1
    shorter = min(len(old) - i, len(new) - j)
    return before + list(old[i + shorter :]), after + list(new[j + shorter :])


def _common(old: Pieces, i: int, new: Pieces, j: int) -> int | None:
    """Return how many records from these places on are the same; None if all are, up to the end of one of the lists."""
    left: Any = iter(old)
    right: Any = iter(new)
    # Lists let their iterators begin anywhere.
    left.__setstate__(i)
    right.__setstate__(j)
    return next(compress(count(), map(ne, left, right)), None)


def _hash_in(piece: str) -> str:
    place = piece.find(_HASH) + len(_HASH)
    return piece[place : place + _HASH_LENGTH]
