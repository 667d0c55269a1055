"""A line on a terminal for work that tells nothing of itself: what is being done, and for how long.

It needs a thread, so it is not for what starts processes by forking.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from cachewatch.core.untrusted_text import safe

_FIRST_SECONDS, _WIDEST = 1.0, 100
_ERASE = "\r\x1b[K"


@contextmanager
def waiting(describe: Callable[[], str]) -> Iterator[None]:
    """Show what `describe` says once a second while something lasts longer than one; only on a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    ended = Event()
    ticking = Thread(target=_tick, args=(describe, ended), name="waiting", daemon=True)
    ticking.start()
    try:
        yield
    finally:
        ended.set()
        ticking.join()


def _tick(describe: Callable[[], str], ended: Event) -> None:
    begun, is_drawn = time.monotonic(), False
    while not ended.wait(_FIRST_SECONDS):
        is_drawn = True
        text = f"{safe(describe())[:_WIDEST]} ({time.monotonic() - begun:.0f} s)"
        sys.stderr.write(f"{_ERASE}{text}")
        sys.stderr.flush()
    if is_drawn:
        sys.stderr.write(_ERASE)
        sys.stderr.flush()
