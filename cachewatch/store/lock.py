"""One process works on a state at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cachewatch.errors import AnotherInstance, StateError


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold the state in `folder`, or raise AnotherInstance with the holder's process number.

    The lock goes with the process, however that ends, and is not handed to its children.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateError(f"{folder}: {error.strerror}; choose another folder with `state:`") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise AnotherInstance(f"{folder}: process {holder} works on this state; stop it, or let it work") from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)
