"""Bring a database to the form of this version: the numbered steps of steps.py, each in a transaction of its own.

A database that holds something is copied aside before its first step.
"""

from pathlib import Path

from sqlalchemy import Connection, Engine

from cachewatch.errors import StateError
from cachewatch.store.lock import in_turn
from cachewatch.store.migration_steps import STEPS, Step
from cachewatch.store.sqlite_backup import copy_whole


def version_of(connection: Connection) -> int:
    """Return how many steps a database has behind it."""
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())


def migrate(engine: Engine, path: Path, steps: tuple[Step, ...] = STEPS) -> None:
    """Take the steps that are missing; raise StateError where a newer version was here."""
    version = _version(engine)
    if version > len(steps):
        raise StateError(
            f"{path}: written by a newer cachewatch (form {version}, this one knows {len(steps)}); "
            "install that one, or restore the backup of the older form"
        )
    if version == 0:
        _make(engine, steps)
    elif version < len(steps):
        # Nobody shall copy aside what somebody else is changing.
        with in_turn(path.with_name(f"{path.name}.upgrade")):
            if (version := _version(engine)) < len(steps):
                copy_whole(engine, path.with_name(f"{path.name}.form-{version}"))
                _take(engine, steps)


def _version(engine: Engine) -> int:
    with engine.connect() as connection:
        return version_of(connection)


def _make(engine: Engine, steps: tuple[Step, ...]) -> None:
    """Take all steps at once: a new database has every form or none, and nothing that is worth a copy."""
    with engine.execution_options(writes=True).begin() as connection:
        # Of two that make a new database, the other may have been faster.
        for number, step in enumerate(steps[version_of(connection) :], version_of(connection) + 1):
            step(connection)
            connection.exec_driver_sql(f"PRAGMA user_version = {number}")


def _take(engine: Engine, steps: tuple[Step, ...]) -> None:
    for number, step in enumerate(steps, 1):
        with engine.execution_options(writes=True).begin() as connection:
            if version_of(connection) < number:
                step(connection)
                connection.exec_driver_sql(f"PRAGMA user_version = {number}")
