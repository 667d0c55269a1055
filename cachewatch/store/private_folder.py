"""The folder of the state: ours, and closed to others."""

import errno
import os
from pathlib import Path

from cachewatch.errors import StateError
from cachewatch.runtime.atomic_files import check_private


def make_private(folder: Path) -> None:
    """Make the folder of a state where it is missing; raise StateError where others could replace what is in it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"{folder}: {error.strerror}; choose another folder with `state:`") from error
    try:
        check_private(folder)
    except OSError as error:
        raise StateError(f"{folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        is_read_only = bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
        reason = os.strerror(errno.EROFS) if is_read_only else "not writable"
        raise StateError(f"{folder}: {reason}; choose another folder with `state:`")
