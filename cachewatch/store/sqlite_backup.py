"""A whole copy of the database, made while others work on it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Engine

from cachewatch.errors import StateError


def copy_whole(engine: Engine, target: Path) -> None:
    """Copy the database to `target`, which must not exist; it is there at the end, whole and on the disk, or not."""
    with _drafted(engine, target) as draft:
        if os.path.lexists(target):
            raise StateError(f"{target}: already exists; choose another file name")
        draft.replace(target)
        _flush(target.parent)


def draft_of(target: Path) -> Path:
    """Return where the copy is made that becomes `target`: a name that nobody else chooses."""
    return target.with_name(f".{target.name}.cachewatch-draft")


@contextmanager
def _drafted(engine: Engine, target: Path) -> Iterator[Path]:
    """Make a copy beside `target`, and remove it at the end unless it has another name by then."""
    draft = draft_of(target)
    try:
        draft.unlink(missing_ok=True)  # of a run that was killed
        try:
            # VACUUM refuses transactions, and what it writes INTO is not flushed.
            with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
                connection.exec_driver_sql("VACUUM INTO ?", (str(draft),))
            _flush(draft)
            yield draft
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
    except OSError as error:
        raise StateError(f"{target}: {error.strerror}; nothing else was changed") from error


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
