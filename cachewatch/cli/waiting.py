"""A line on a terminal for work that tells nothing of itself: what is being done, and for how long.

It needs a thread, so what starts processes by forking has to look for threads first, as runtime/limited_process.py does.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import TextIOBase
from threading import Event, Thread
from typing import TextIO, cast

from cachewatch.core.untrusted_text import safe

_FIRST_SECONDS, _WIDEST = 1.0, 100
_ERASE = "\r\x1b[K"


@contextmanager
def waiting(describe: Callable[[], str]) -> Iterator[None]:
    """Show what `describe` says once a second while something lasts longer than one; only on a terminal."""
    if not is_drawing():
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


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Yield what takes each step that begins, and show the last one; before the first step, there is no thread."""
    begun: list[str] = []
    with ExitStack() as stack:

        def begin(step: str) -> None:
            begun.append(step)
            if len(begun) == 1:
                stack.enter_context(waiting(lambda: begun[-1]))

        yield begin


class ErasingStream(TextIOBase):
    """Standard error for a log that is written meanwhile: each of its lines takes the place of the drawn one."""

    def write(self, text: str) -> int:
        """Write `text` at the beginning of the line."""
        sys.stderr.write(f"{_ERASE}{text}")
        return len(text)

    def flush(self) -> None:
        """Show what was written."""
        sys.stderr.flush()


def log_stream() -> TextIO:
    """Return where a log goes that is written while a line is drawn."""
    return cast("TextIO", ErasingStream()) if is_drawing() else sys.stderr


def is_drawing() -> bool:
    """Tell whether there is a terminal to draw on."""
    return sys.stderr is not None and sys.stderr.isatty()


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
