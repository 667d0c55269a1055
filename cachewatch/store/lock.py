"""One process works on a state at a time, and one upgrades it."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cachewatch.errors import AnotherInstance, StateError
from cachewatch.runtime.atomic_files import open_lock
from cachewatch.store.private_folder import make_private

_SIGNATURE = 100  # bytes of the word that the holder leaves


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold the state in `folder`, or raise AnotherInstance with the holder's process and host.

    The lock goes with the process, however that ends, and is not handed to its children.
    """
    make_private(folder)
    with _opened(folder / "lock") as handle:
        try:
            _lock(folder, handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(handle, _SIGNATURE, 0).decode("ascii", "replace").strip() or "unknown"
            raise AnotherInstance(
                f"{folder}: process {holder} uses this state; stop it, or wait until it is done"
            ) from error
        _sign(folder, handle)
        yield


@contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """Wait until nobody else holds `path`, a file that is made for this and stays."""
    with _opened(path) as handle:
        _lock(path.parent, handle, fcntl.LOCK_EX)
        yield


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        handle = open_lock(path)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}; fix that, or choose another folder with `state:`") from error
    try:
        yield handle
    finally:
        os.close(handle)


def _lock(folder: Path, handle: int, how: int) -> None:
    try:
        fcntl.flock(handle, how)
    except BlockingIOError:
        raise
    except OSError as error:
        # Lustre that was mounted without `flock`, NFS without a lock server.
        raise StateError(f"{folder}: no locks on this file system ({error.strerror}); choose a local folder") from error


def _sign(folder: Path, handle: int) -> None:
    """Leave word of who holds it, for whoever comes second."""
    try:
        # As long as any other: nothing is ever cut off.
        os.pwrite(
            handle,
            f"{os.getpid()} on {socket.gethostname()}".ljust(_SIGNATURE - 1).encode()[: _SIGNATURE - 1] + b"\n",
            0,
        )
    except OSError as error:
        raise StateError(f"{folder}: {error.strerror}; nothing was changed") from error
