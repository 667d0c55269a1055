"""A whole copy of the database, made while others work on it."""

import os
from pathlib import Path

from sqlalchemy import Engine

from cachewatch.errors import StateError


def copy_whole(engine: Engine, target: Path) -> None:
    """Copy the database to `target`, which is there at the end, whole and on the disk, or not at all."""
    draft = draft_of(target)
    try:
        draft.unlink(missing_ok=True)  # of a run that was cut off
        # VACUUM refuses transactions, and what it writes INTO is not flushed.
        with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            connection.exec_driver_sql("VACUUM INTO ?", (str(draft),))
        _flush(draft)
        draft.replace(target)
        _flush(target.parent)
    except OSError as error:
        raise StateError(f"{target}: {error.strerror}; nothing else was changed") from error


def draft_of(target: Path) -> Path:
    """Return where the copy is made that becomes `target`."""
    return target.with_name(f"{target.name}.new")


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
