"""One process works on a state at a time."""

import fcntl
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cachewatch.errors import AnotherInstance, StateError
from cachewatch.runtime.atomic_files import open_lock
from cachewatch.store.private_folder import make_private

_SIGNATURE = 100  # bytes of the word that the holder leaves
# Older versions did not fill it up, or left out the host; after a power cut there may be zeros.
_OURS = re.compile(rb"\d+( on [^\n]+)? *\n|\0*")


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
            holder = _signature(folder, handle) or "unknown"
            raise AnotherInstance(
                f"{folder}: process {holder} uses this state; stop it, or wait until it is done"
            ) from error
        _signature(folder, handle)
        _sign(folder, handle)
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


def _signature(folder: Path, handle: int) -> str:
    """Return who holds it, or held it last; raise StateError where somebody else wrote the file."""
    found = os.pread(handle, _SIGNATURE + 1, 0)
    if len(found) > _SIGNATURE or not _OURS.fullmatch(found):
        raise StateError(
            f"{folder / 'lock'}: is not a lock of cachewatch; move it away, or choose another folder with `state:`"
        )
    return found.decode("ascii", "replace").strip("\0 \n")


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
