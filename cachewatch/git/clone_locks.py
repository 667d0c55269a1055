"""The locks beside a clone: which process updates it, and whether a git process writes to it.

    NAME.git.lock     held by who updates the clone; no git and no forked worker inherits it
    NAME.git.running  shared by all who write it, pins among them; their gits inherit it

So whoever gets the second one alone knows that no git writes, not even one of a cachewatch that
was killed, and that no lock of git's in there belongs to anybody.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cachewatch.errors import BrokenSource, SourceError
from cachewatch.git.processes import handing_on
from cachewatch.git.stale_files import unlock
from cachewatch.runtime.atomic_files import open_lock

# In the folder of a recorded history, which is no clone.
RECORDING_LOCK = "cachewatch.lock"
# Longer than a git takes to end that ends with us.
PATIENCE_SECONDS = 15.0
_PAUSE_SECONDS = 0.05

_held: set[int] = set()


class Writing:
    """A share in the lock of all who write a clone."""

    def __init__(self, lock: int) -> None:
        self._lock = lock
        self.was_alone = False  # when it began

    @contextmanager
    def alone(self, seconds: float) -> Iterator[bool]:
        """Wait until nobody else writes, and keep it so; tell whether that came to pass in time."""
        is_alone = _taken(self._lock, seconds)
        try:
            yield is_alone
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_SH)  # for a moment at most: others are alone for no longer


@contextmanager
def locked(folder: Path, *, seconds: float) -> Iterator[None]:
    """Be the only one, of all processes and threads, who updates the clone at `folder`."""
    with _opened(folder, "lock") as lock:
        if not _taken(lock, seconds):
            raise SourceError(f"{folder}: another cachewatch has been working on this clone for long")
        yield


@contextmanager
def writing(folder: Path, *, seconds: float = 0.0) -> Iterator[Writing]:
    """Let gits write the clone at `folder`, beside those of others; first the locks go that nobody holds any more.

    `seconds` is how long to wait for gits that are about to end.
    """
    with _opened(folder, "running") as lock:
        share = Writing(lock)
        with share.alone(seconds) as share.was_alone:
            if share.was_alone:
                unlock(folder)
        with handing_on(lock):
            yield share


@contextmanager
def _opened(folder: Path, what: str) -> Iterator[int]:
    path = folder.with_name(f"{folder.name}.{what}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = open_lock(path)
    except OSError as error:
        raise BrokenSource(f"{path}: {error.strerror}; cachewatch needs a folder there that it may write") from error
    _held.add(lock)
    try:
        yield lock
    finally:
        _held.discard(lock)
        os.close(lock)


def _taken(lock: int, seconds: float) -> bool:
    """Take a lock for us alone, and tell whether that was possible in time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE_SECONDS)
        else:
            return True


def _let_go() -> None:
    """Leave the locks to the process that we were forked from: they last until every copy is closed."""
    for lock in _held:
        os.close(lock)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)
