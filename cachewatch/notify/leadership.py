"""Which of several hosts works on a state that they share; on a state of one host, its lock has decided that."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from cachewatch.errors import AnotherInstance, CachewatchError
from cachewatch.notify.pass_context import Context
from cachewatch.store.leader_lease import LASTING, RENEWAL


class Leadership:
    """Whether this process works, or waits until the other one ends."""

    def __init__(self, context: Context, begin: Callable[[], None]) -> None:
        """Know nothing yet; `begin` is called whenever this process becomes the one that works."""
        self._context = context
        self._begin = begin
        self._has_begun = False  # and no other is known to have taken over since
        self._ends = 0.0  # by our own clock, and not later than by the database's
        self.other = "nobody"

    @property
    def is_ours(self) -> bool:
        """Tell whether this process works, as far as it knows."""
        return not self._context.database.is_shared or time.monotonic() < self._ends

    def renew(self) -> None:
        """Take or renew the lease, if no other process has it; raise StateError if the database cannot be asked."""
        context, began = self._context, time.monotonic()
        try:
            context.database.lead(context.owner)
        except AnotherInstance:
            self._lose(context.database.leader() or "nobody")
            return
        if not self._has_begun:
            self._begin()
            if context.database.is_shared:
                context.log.info("leader.began", database=context.database.place)
        self._has_begun, self._ends = True, began + LASTING.total_seconds()

    def give_back(self) -> None:
        """Let another process begin at once."""
        self._ends = 0.0
        with suppress(CachewatchError):  # or it begins when the lease is over
            self._context.database.step_down(self._context.owner)

    def _lose(self, other: str) -> None:
        if self._has_begun:
            self._context.log.warning("leader.lost", to=other)
        self.other, self._has_begun, self._ends = other, False, 0.0


@contextmanager
def leading(context: Context) -> Iterator[None]:
    """Be the one that works, for a single pass; raise AnotherInstance where another does."""
    database = context.database
    database.lead(context.owner)
    if not database.is_shared:
        yield
        return
    is_over = threading.Event()
    renewing = threading.Thread(target=_renew, args=(context, is_over), daemon=True)
    renewing.start()
    try:
        yield
    finally:
        is_over.set()
        renewing.join()
        with suppress(CachewatchError):
            database.step_down(context.owner)


def _renew(context: Context, is_over: threading.Event) -> None:
    while not is_over.wait(RENEWAL.total_seconds()):
        # If the lease is lost, the next transaction of the pass says so.
        with suppress(CachewatchError):
            context.database.lead(context.owner)
