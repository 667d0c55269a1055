"""One process works on a state at a time."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cachewatch.errors import AnotherInstance, StateError


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold the state in `folder`, or raise AnotherInstance with the holder's process and host.

    The lock goes with the process, however that ends, and is not handed to its children.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateError(f"{folder}: {error.strerror}; choose another folder with `state:`") from error
    try:
        _lock(folder, handle)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def _lock(folder: Path, handle: int) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(handle, 100, 0).decode("ascii", "replace").strip() or "unknown"
        raise AnotherInstance(f"{folder}: process {holder} works on this state; stop it, or let it work") from error
    except OSError as error:
        # Lustre that was mounted without `flock`, NFS without a lock server.
        raise StateError(f"{folder}: no locks on this file system ({error.strerror}); choose a local folder") from error
