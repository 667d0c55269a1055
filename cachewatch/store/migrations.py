"""Bring a database to the form of this version: numbered steps, each in a transaction of its own.

A database that holds something is copied aside before its first step, by SQLite's own backup.
"""

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection, Engine

from cachewatch.errors import StateError
from cachewatch.store.schema import metadata

Step = Callable[[Connection], None]


def _first(connection: Connection) -> None:
    metadata.create_all(connection, checkfirst=False)


# The step at index n leads from version n to n + 1. Never change one that was released.
STEPS: tuple[Step, ...] = (_first,)


def version_of(connection: Connection) -> int:
    """Return how many steps a database has behind it."""
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())


def migrate(engine: Engine, path: Path, steps: tuple[Step, ...] = STEPS) -> None:
    """Take the steps that are missing; raise StateError where a newer version was here."""
    with engine.connect() as connection:
        version = version_of(connection)
    if version > len(steps):
        raise StateError(
            f"{path}: written by a newer cachewatch (form {version}, this one knows {len(steps)}); "
            "install that one, or restore the backup of the older form"
        )
    if 0 < version < len(steps):
        _back_up(engine, path, version)
    for number, step in enumerate(steps[version:], version + 1):
        with engine.execution_options(writes=True).begin() as connection:
            # Somebody else may have been faster.
            if version_of(connection) < number:
                step(connection)
                connection.exec_driver_sql(f"PRAGMA user_version = {number}")


def _back_up(engine: Engine, path: Path, version: int) -> None:
    copy = path.with_name(f"{path.name}.form-{version}")
    # VACUUM INTO refuses transactions.
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        copy.unlink(missing_ok=True)
        connection.exec_driver_sql("VACUUM INTO ?", (str(copy),))
