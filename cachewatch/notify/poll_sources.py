"""Poll all sources of a pass at the same time, so that one that hangs delays only what depends on it."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Self

from msgspec import Struct

from cachewatch.config.model import Source
from cachewatch.git.processes import interrupt
from cachewatch.notify.pass_context import Context
from cachewatch.notify.poll_source import has_answered, poll

# How many sources are polled at once: of those that answered last time, and of the others, which may hang again.
ANSWERING, OTHERS = 8, 16
# Digests wait that long for sources that take their time, so that a usual pass makes all of them together.
_GRACE_SECONDS = 5.0
# Less than the unit's TimeoutStopSec, which ends us the hard way.
_ENDING_SECONDS = 20.0
_INTERRUPT_SECONDS = 0.2


class _Ended(Struct, frozen=True):
    """How a poll ended."""

    source: str
    is_answered: bool = False
    error: BaseException | None = None  # why its result could not be stored; a source that fails is no error


class Polls:
    """The polls of one pass; whoever leaves it early ends those that still run."""

    def __init__(self, context: Context) -> None:
        self.failed = 0
        self._context = context
        self._sources = tuple(context.config.sources.values())
        self._ended: SimpleQueue[_Ended] = SimpleQueue()
        self._threads: list[Thread] = []

    def __enter__(self) -> Self:
        if len(self._sources) > 1:  # a single one needs no thread
            answering = [source for source in self._sources if has_answered(self._context, source)]
            self._start(ANSWERING, answering)
            self._start(OTHERS, [source for source in self._sources if source not in answering])
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:
            return
        self._context.is_ending.set()
        deadline = time.monotonic() + _ENDING_SECONDS
        for thread in self._threads:
            while thread.is_alive() and time.monotonic() < deadline:
                interrupt()  # again and again, since it may be about to start the next git
                thread.join(_INTERRUPT_SECONDS)

    def __iter__(self) -> Iterator[frozenset[str]]:
        """Yield the sources that have not answered: soon, then each time that there are fewer, until there are none.

        Raises at the end what kept the result of a poll from being stored.
        """
        pending, errors = {source.name for source in self._sources}, []
        for found in self._rounds():
            for ended in found:
                pending.remove(ended.source)
                self.failed += not ended.is_answered
                errors += [ended.error] if ended.error else []
            yield frozenset(pending)
            if not pending:
                break
        if errors:
            raise errors[0]

    def _rounds(self) -> Iterator[list[_Ended]]:
        """Yield how polls ended, for ever; what waits to be sent does not wait for the first of them."""
        if not self._threads:
            yield []
            yield [_Ended(source.name, poll(self._context, source)) for source in self._sources]
        yield self._within(_GRACE_SECONDS)
        while True:
            yield [self._ended.get()]

    def _within(self, seconds: float) -> list[_Ended]:
        found: list[_Ended] = []
        deadline = time.monotonic() + seconds
        with suppress(Empty):
            while len(found) < len(self._sources):
                found.append(self._ended.get(timeout=max(0.0, deadline - time.monotonic())))
        return found

    def _start(self, most: int, sources: Sequence[Source]) -> None:
        waiting = deque(sources)
        for _ in range(min(most, len(sources))):
            # As daemons: what hangs in spite of everything must not keep the process.
            self._threads.append(Thread(target=self._work, args=(waiting,), name="poll", daemon=True))
            self._threads[-1].start()

    def _work(self, waiting: deque[Source]) -> None:
        with suppress(IndexError):
            while not self._context.is_ending.is_set():
                self._ended.put(self._poll(waiting.popleft()))

    def _poll(self, source: Source) -> _Ended:
        try:
            return _Ended(source.name, poll(self._context, source))
        except BaseException as error:  # noqa: BLE001  raised again when the others are done
            return _Ended(source.name, error=error)
