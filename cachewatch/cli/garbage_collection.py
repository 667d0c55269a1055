"""Keep Python's collector from searching what was loaded for garbage: it is in use to the end.

In a run of a tenth of a second, that would be a fifth of the time.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Load something, and count it among what is never garbage."""
    gc.disable()
    try:
        yield
    finally:
        keep()
        gc.enable()


def keep() -> None:
    """Never search again what there is now; at the end of the program, that is everything."""
    gc.freeze()


@contextmanager
def searching_seldom() -> Iterator[None]:
    """Search for garbage less often while something is compared: that makes many values and few cycles."""
    usual = gc.get_threshold()
    gc.set_threshold(100_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@contextmanager
def paused() -> Iterator[None]:
    """Do not search at all while a graph is read and walked: that makes a million values and no cycles."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
