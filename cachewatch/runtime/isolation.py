"""Work on untrusted input in a worker process; if that ends, only the document that ended it is lost.

Work is done on many items at once. Where it fails it is done again on halves, down to the single
items that it fails on; those are handed back with the reason.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from cachewatch.errors import OutOfTime, WorkFailed

if TYPE_CHECKING:  # a `diff` needs none
    from cachewatch.runtime.limited_process import Worker

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Sequence[Item]], Result]
Done = Iterator[tuple[Sequence[Item], Result | WorkFailed]]

# As much as one comparison takes at once.
_BATCH_BYTES = 4 * 2**20
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

    def each(
        self, work: Work[Item, Result], items: Iterable[Item], about: Callable[[Item], Piece]
    ) -> Done[Item, Result]:
        """Yield items in their order, each few with what `work` returns for them, or one with the reason why there is nothing."""


class Ledger(Protocol):
    """Remembers what ended a process, also where that was ours."""

    def refusal(self, piece: Piece) -> str:
        """Say why nothing is tried any more; empty where it is."""

    def is_suspect(self, piece: Piece) -> bool:
        """Tell whether it should be tried alone."""

    def begin(self, pieces: Sequence[Piece]) -> None:
        """Note what takes long."""

    def finish(self, pieces: Sequence[Piece]) -> None:
        """Note that nothing is wrong with these."""

    def end(self) -> None:
        """Note that nothing is in hand any more."""

    def fail(self, piece: Piece, reason: str) -> None:
        """Note what cannot be done."""


class Inline:
    """In this process, without limits."""

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
    """In a worker, within the time of its source, and with a memory of what ended it."""

    def __init__(self, worker: "Worker", ledger: Ledger, budget: Budget | None = None) -> None:
        self._worker = worker
        self._ledger = ledger
        self._budget = budget or Budget()

    def each(
        self, work: Work[Item, Result], items: Iterable[Item], about: Callable[[Item], Piece]
    ) -> Done[Item, Result]:
        """Do as Isolation says; work, items and results must be picklable."""
        for batch in _batches(items, about, self._is_odd):
            refusal = self._ledger.refusal(about(batch[0]))
            waiting: list[Sequence[Item]] = [batch]
            while waiting:
                part = waiting.pop()
                found = WorkFailed(refusal) if refusal else self._tried(work, part, about)
                if isinstance(found, WorkFailed) and len(part) > 1:
                    half = len(part) // 2
                    waiting += (part[half:], part[:half])
                else:
                    yield part, found

    def _is_odd(self, piece: Piece) -> bool:
        return bool(self._ledger.refusal(piece)) or self._ledger.is_suspect(piece)

    def _tried(
        self, work: Work[Item, Result], items: Sequence[Item], about: Callable[[Item], Piece]
    ) -> Result | WorkFailed:
        pieces = [about(item) for item in items]
        size = sum(piece.size for piece in pieces)
        usual, left, used = self._worker.seconds_for(size), self._budget.seconds(size), self._worker.used
        if not left:
            return OutOfTime("other documents of its source took too long to compare; it is compared later")
        try:
            result = self._worker.do(
                work, items, size=size, seconds=min(usual, left), when_slow=lambda: self._ledger.begin(pieces)
            )
        except WorkFailed as failure:
            if len(items) == 1:
                self._ledger.fail(pieces[0], str(failure))
            # With more time, it might not have failed.
            return OutOfTime(str(failure)) if left < usual else failure
        else:
            self._ledger.finish(pieces)
            return result
        finally:
            self._budget.spend(size, self._worker.used - used)
            self._ledger.end()


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
