"""The form of an SQLite database, which it has in `user_version`: made, looked up, or upgraded.

A database that holds something is copied aside before its first step.
"""

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, Engine

from cachewatch.errors import StateError
from cachewatch.store.lock import in_turn
from cachewatch.store.migrations import REVISIONS, take_steps
from cachewatch.store.schema import FORM, make_tables
from cachewatch.store.sqlite_backup import copy_aside

# Every form has these tables.
_ALWAYS = {"cursors", "digests", "deliveries"}


def version_of(connection: Connection) -> int:
    """Return the form of a database; 0 if it is empty."""
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())


def check_ours(connection: Connection, path: Path) -> None:
    """Raise StateError if the database at `path` is of another program; one without tables is nobody's."""
    tables = set(connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars())
    version = version_of(connection)
    # Tables and form are made in one transaction.
    is_ours = tables >= _ALWAYS if version else not tables
    if not is_ours:
        raise StateError(f"{path}: is not a state of cachewatch; name another folder in `state:`")


def bring_up(engine: Engine, path: Path, form: int = FORM, folders: Sequence[Path] = (REVISIONS,)) -> None:
    """Make the tables, or take the steps that are missing; raise StateError where a newer version was here."""
    version = _version(engine)
    if version > form:
        raise StateError(
            f"{path}: written by a newer cachewatch (form {version}, this one knows {form}); "
            "install that one, or restore the backup of the older form"
        )
    if version == 0:
        _make(engine)
    elif version < form:
        # Nobody shall copy aside what somebody else is changing.
        with in_turn(path.with_name(f"{path.name}.upgrade")):
            if (version := _version(engine)) < form:
                copy_aside(engine, path.with_name(f"{path.name}.form-{version}"))
                take_steps(engine, version_of, note, form=form, folders=folders)


def _version(engine: Engine) -> int:
    with engine.connect() as connection:
        return version_of(connection)


def _make(engine: Engine) -> None:
    """Make all tables at once; of two that do, the other may have been faster."""
    with engine.execution_options(writes=True).begin() as connection:
        if version_of(connection) == 0:
            make_tables(connection)
            note(connection, FORM)


def note(connection: Connection, form: int) -> None:
    """Write down the form of a database."""
    connection.exec_driver_sql(f"PRAGMA user_version = {form}")
