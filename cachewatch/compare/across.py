"""Find the specs that another compiler, operating system or target took over.

The ladder never crosses operating systems and targets, and asks for equal stacks. So after a
migration the old specs are lost and the new ones gained; this says which belong together.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from cachewatch.model import Alike, Signature


def matched_across(gone: Sequence[Alike], new: Sequence[Alike]) -> tuple[tuple[Alike, ...], tuple[Alike, ...]]:
    """Return both sides with the counterpart of each spec that has one.

    Counterparts share a stack, their versions and their variants; those that differ least come first.
    """
    if not gone or not new:
        return tuple(gone), tuple(new)
    left = {number: alike.count for number, alike in enumerate(new)}
    by_key: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for number, alike in enumerate(new):
        by_key[_key(alike.signature)].append(number)
    vanished: list[Alike] = []
    found: defaultdict[int, list[Alike]] = defaultdict(list)
    for alike in gone:
        count = alike.count
        for number in _candidates(alike.signature, by_key[_key(alike.signature)], new):
            taken = min(count, left[number])
            if taken:
                count -= taken
                left[number] -= taken
                vanished.append(replace(alike, count=taken, counterpart=new[number].signature))
                found[number].append(replace(new[number], count=taken, counterpart=alike.signature))
        if count:
            vanished.append(replace(alike, count=count))
    came = [
        part
        for number, alike in enumerate(new)
        for part in (*found[number], *([replace(alike, count=left[number])] if left[number] else []))
    ]
    return tuple(vanished), tuple(came)


def _key(signature: Signature) -> tuple[object, ...]:
    return signature.versions, signature.variants


def _candidates(signature: Signature, numbers: Iterable[int], new: Sequence[Alike]) -> list[int]:
    sharing = [n for n in numbers if not set(signature.stacks).isdisjoint(new[n].signature.stacks)]
    return sorted(sharing, key=lambda n: _distance(signature, new[n].signature))


def _distance(one: Signature, other: Signature) -> int:
    return (one.target != other.target) + (one.os != other.os) + (one.compiler != other.compiler)
