"""Work on untrusted input in a worker process; if that ends, only the document that ended it is lost.

Work is done on many items at once. Where it fails it is done again on halves, down to the single
items that it fails on; those are handed back with the reason.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from cachewatch.errors import OutOfTime, WorkerEnded, WorkFailed

if TYPE_CHECKING:  # a `diff` needs none
    from cachewatch.runtime.limited_process import Worker

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Sequence[Item]], Result]
Done = Iterator[tuple[Sequence[Item], Result | WorkFailed]]

# As much as one comparison takes at once; a larger document is tried alone, before others use up its time.
_BATCH_BYTES = 4 * 2**20
_ALONE_BYTES = 2**20
# Processor time that work on one source may take in a pass, beyond what comes with each piece of it. Usual work takes a
# tenth of that: what takes longer was made to.
_BUDGET_SECONDS = 20.0
_SECONDS_A_PIECE, _SECONDS_A_MEGABYTE = 0.5, 0.5


class Piece(NamedTuple):
    """What an item is about."""

    package: str
    versions: tuple[str, ...]  # the object ids of its documents
    size: int  # bytes


class Isolation(Protocol):
    """Somewhere to do work."""

    @property
    def refused(self) -> Mapping[str, str]:
        """The documents that ended a process, by object id, with the reason: nothing is done with them."""

    def each(
        self, work: Work[Item, Result], items: Iterable[Item], about: Callable[[Item], Piece]
    ) -> Done[Item, Result]:
        """Yield items in their order, each few with what `work` returns for them, or one with the reason why there is nothing."""


class Inline:
    """In this process, without limits."""

    refused: Mapping[str, str] = MappingProxyType({})

    def each(
        self, work: Work[Item, Result], items: Iterable[Item], about: Callable[[Item], Piece]
    ) -> Done[Item, Result]:
        """Do as Isolation says."""
        for batch in _batches(items, about, lambda _: False):
            yield batch, work(batch)


INLINE = Inline()


class Budget:
    """How much processor time work on one source may still take in this pass, so that other sources are not kept waiting."""

    def __init__(self) -> None:
        self._left = _BUDGET_SECONDS

    def most(self, size: int) -> float:
        """Return how many seconds work on so many bytes may take if nothing else was done."""
        return _BUDGET_SECONDS + _allowance(size)

    def seconds(self, size: int) -> float:
        """Return how many seconds work on so many bytes may take now, 0 for none."""
        if self._left <= -_BUDGET_SECONDS:
            return 0.0
        return max(0.0, self._left) + _allowance(size)

    def spend(self, size: int, used: float) -> None:
        """Note the seconds that work on so many bytes took."""
        self._left = min(_BUDGET_SECONDS, self._left + _allowance(size)) - used


def _allowance(size: int) -> float:
    return _SECONDS_A_PIECE + _SECONDS_A_MEGABYTE * size / 2**20


class Isolated:
    """In a worker, within the time of its source, and without the documents that ended one."""

    def __init__(self, worker: "Worker", refused: Mapping[str, str] = MappingProxyType({})) -> None:
        """`refused` are the documents that ended one before, with the reason; those that do so now join them."""
        self._worker = worker
        self.refused = dict(refused)
        self._budget = Budget()

    def each(
        self, work: Work[Item, Result], items: Iterable[Item], about: Callable[[Item], Piece]
    ) -> Done[Item, Result]:
        """Do as Isolation says; work, items and results must be picklable."""
        for batch in _batches(items, about, self._is_odd):
            refusal = self._refusal(about(batch[0]))
            waiting: list[Sequence[Item]] = [batch]
            while waiting:
                part = waiting.pop()
                found = WorkerEnded(refusal) if refusal else self._tried(work, part, about)
                if isinstance(found, WorkFailed) and len(part) > 1:
                    half = len(part) // 2
                    waiting += (part[half:], part[:half])
                else:
                    yield part, found

    def _is_odd(self, piece: Piece) -> bool:
        return piece.size > _ALONE_BYTES or bool(self._refusal(piece))

    def _refusal(self, piece: Piece) -> str:
        return next((self.refused[version] for version in piece.versions if version in self.refused), "")

    def _tried(
        self, work: Work[Item, Result], items: Sequence[Item], about: Callable[[Item], Piece]
    ) -> Result | WorkFailed:
        pieces = [about(item) for item in items]
        size = sum(piece.size for piece in pieces)
        usual, left = min(self._worker.seconds_for(size), self._budget.most(size)), self._budget.seconds(size)
        used = self._worker.used
        if not left:
            return OutOfTime("other documents of its source took too long to compare; it is compared later")
        try:
            return self._worker.do(work, items, size=size, seconds=min(usual, left))
        except WorkFailed as failure:
            if left < usual and self._worker.used - used >= left:
                return OutOfTime(str(failure))  # with more time, it might not have failed
            versions = list(filter(None, pieces[0].versions))
            if isinstance(failure, WorkerEnded) and len(pieces) == 1 == len(versions):
                self.refused[versions[0]] = str(failure)
            return failure
        finally:
            self._budget.spend(size, self._worker.used - used)


def _batches(
    items: Iterable[Item], about: Callable[[Item], Piece], is_odd: Callable[[Piece], bool]
) -> Iterator[list[Item]]:
    """Yield the items in their order, some megabytes at a time; what is odd, alone."""
    batch: list[Item] = []
    size = 0
    for item in items:
        piece = about(item)
        stands_alone = is_odd(piece)
        if batch and stands_alone:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += piece.size
        if stands_alone or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
