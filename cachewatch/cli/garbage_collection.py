"""Keep Python's collector from searching what was loaded for garbage: it is in use to the end.

In a run of a tenth of a second, that would be a fifth of the time.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Load, compare or walk something without searching, and count what there is then among what is never garbage.

    That makes up to a million values and no cycles.
    """
    was_searching = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        keep()
        if was_searching:
            gc.enable()


def keep() -> None:
    """Never search again what there is now; at the end of the program, that is everything."""
    gc.freeze()


@contextmanager
def searching_seldom() -> Iterator[None]:
    """Search for garbage less often while something is recorded: that makes many values and few cycles."""
    usual = gc.get_threshold()
    gc.set_threshold(100_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
