"""A whole copy of the database, made while others work on it."""

import filecmp
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from sqlalchemy import Engine

from cachewatch.errors import StateError


def copy_whole(engine: Engine, target: Path) -> None:
    """Copy the database to `target`, which must not exist; it is there at the end, whole and on the disk, or not."""
    with _drafted(engine, target) as draft:
        if os.path.lexists(target):
            raise StateError(f"{target}: already exists; choose another file name")
        _take_name(draft, target)


def copy_aside(engine: Engine, target: Path) -> None:
    """Copy the database to `target`, or to `target.2`, `target.3` ... where another file is there.

    A copy of the same, which a run made that was cut off later, is left as it is.
    """
    with _drafted(engine, target) as draft:
        for number in count(1):
            name = target if number == 1 else target.with_name(f"{target.name}.{number}")
            if not os.path.lexists(name):
                _take_name(draft, name)
                return
            if name.is_file() and filecmp.cmp(draft, name, shallow=False):
                return


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


def _take_name(draft: Path, name: Path) -> None:
    draft.replace(name)
    _flush(name.parent)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
