"""Find the specs that another compiler, operating system or target took over.

The matching never crosses operating systems and targets, and asks for equal stacks. So after a
migration the old specs are lost and the new ones gained; this says which belong together.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from msgspec.structs import replace

from cachewatch.core.model import Signature, SignatureCount

# Which of target, operating system and compiler have to be equal: all of them first, none of them last.
_EQUAL = sorted(product((True, False), repeat=3), key=lambda equal: -sum(equal))


def matched_across(
    gone: Sequence[SignatureCount], new: Sequence[SignatureCount]
) -> tuple[tuple[SignatureCount, ...], tuple[SignatureCount, ...]]:
    """Return both sides with the counterpart of each spec that has one.

    Counterparts share a stack, their versions and their variants; those that differ least come first.
    """
    if not gone or not new:
        return tuple(gone), tuple(new)
    free = _Free(new, {_built(alike.signature): number for number, alike in enumerate(gone)})
    vanished: list[SignatureCount] = []
    found: defaultdict[int, list[SignatureCount]] = defaultdict(list)
    for alike in gone:
        count = alike.count
        for number, taken in free.take(alike.signature, count):
            count -= taken
            vanished.append(replace(alike, count=taken, counterpart=new[number].signature))
            found[number].append(replace(new[number], count=taken, counterpart=alike.signature))
        if count:
            vanished.append(replace(alike, count=count))
    came = [
        part
        for number, alike in enumerate(new)
        for part in (*found[number], *([replace(alike, count=free.left[number])] if free.left[number] else []))
    ]
    return tuple(vanished), tuple(came)


class _Free:
    """The new specs that are no counterpart yet, by whatever makes them one: nobody looks at them one by one."""

    def __init__(self, new: Sequence[SignatureCount], wanted: Mapping[tuple[object, ...], int]) -> None:
        self.left = [alike.count for alike in new]
        self._wanted = wanted  # a number stands for versions and variants, which are long
        self._queues: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for number in reversed(range(len(new))):
            signature = new[number].signature
            if (built := wanted.get(_built(signature))) is not None:
                for equal in _EQUAL:
                    for key in _keys(signature, built, equal):
                        self._queues[key].append(number)

    def take(self, signature: Signature, count: int) -> Iterator[tuple[int, int]]:
        """Take `count` counterparts of `signature`, and yield their numbers and how many of each."""
        built = self._wanted[_built(signature)]
        for differing in range(4):
            keys = [key for equal in _EQUAL if sum(equal) == 3 - differing for key in _keys(signature, built, equal)]
            queues = [self._queues[key] for key in keys if key in self._queues]
            while count and (number := self._first(queues)) is not None:
                taken = min(count, self.left[number])
                self.left[number] -= taken
                count -= taken
                yield number, taken

    def _first(self, queues: Iterable[list[int]]) -> int | None:
        """Return the first of those that are left, and forget those that are not."""
        for queue in queues:
            while queue and not self.left[queue[-1]]:
                queue.pop()
        return min((queue[-1] for queue in queues if queue), default=None)


def _built(signature: Signature) -> tuple[object, ...]:
    return signature.versions, signature.variants


def _keys(signature: Signature, built: int, equal: Iterable[bool]) -> Iterator[tuple[object, ...]]:
    values = (signature.target, signature.os, signature.compiler)
    same = tuple(value if is_equal else None for value, is_equal in zip(values, equal, strict=True))
    return ((stack, built, *same) for stack in signature.stacks)
