"""What a killed git process leaves in a clone: locks and partial packs."""

import logging
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

# Where a git may run on that we cannot see, its locks have lost their owner when they are that old.
_STALE_SECONDS = 15 * 60.0
_STALE_REF_SECONDS = 3600.0
_SCRAP_SECONDS = 3600.0
# Everywhere but among the objects, which have hundreds of folders and no locks.
_LOCKS = ("*.lock", "refs/**/*.lock", "objects/*.lock", "objects/info/**/*.lock", "objects/pack/*.lock")
_SCRAPS = ("objects/pack/tmp_*", "objects/??/tmp_obj_*", "objects/tmp_*")


def unlock(folder: Path) -> None:
    """Remove all locks of git's from the clone at `folder`, in which no git runs."""
    for path in _locks(folder):
        _remove(path)


def tidy(folder: Path, *, is_alone: bool) -> None:
    """Remove what was left in and beside the clone at `folder`; unless we are alone there, only what is old."""
    scraps = [path for pattern in _SCRAPS for path in folder.glob(pattern)]
    for path in [*scraps, *folder.parent.glob(f"{folder.name}.new-*")]:
        if is_alone or _is_older(path, _SCRAP_SECONDS):
            _remove(path)
    for path in _locks(folder):
        of_a_ref = path.is_relative_to(folder / "refs") or path.name in ("HEAD.lock", "packed-refs.lock")
        if is_alone or _is_older(path, _STALE_REF_SECONDS if of_a_ref else _STALE_SECONDS):
            _remove(path)


def _locks(folder: Path) -> Iterator[Path]:
    return (path for pattern in _LOCKS for path in folder.glob(pattern))


def _is_older(path: Path, seconds: float) -> bool:
    with suppress(FileNotFoundError):
        return time.time() - path.lstat().st_mtime >= seconds
    return False


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    logger.warning("%s: removed; the git that made it is gone", path)
