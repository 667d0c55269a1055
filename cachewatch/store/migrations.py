"""The form of the tables, which a database has in `alembic_version`: looked up, made, or upgraded by Alembic's revisions.

Alembic is slow to load, and only an upgrade needs it.
"""

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect

from cachewatch.errors import StateError
from cachewatch.store import schema

# Where the revisions are; a test adds one.
FOLDERS = [Path(__file__).with_name("revisions")]
# Every form has these tables.
_ALWAYS = {"cursors", "digests", "deliveries"}
_VERSION = "alembic_version"


def form_of(connection: Connection) -> int | None:
    """Return the form of the tables: none if there are none of ours, 0 of before the first form."""
    tables = set(inspect(connection).get_table_names())
    if not tables >= _ALWAYS:
        return None
    if _VERSION not in tables:
        return 0
    return int(connection.exec_driver_sql(f"SELECT version_num FROM {_VERSION}").scalar_one())  # noqa: S608


def check_form(form: int, place: str) -> None:
    """Raise StateError, which says what to do, where the tables have another form than those of this version."""
    if form == schema.FORM:
        return
    advice = "use the cachewatch that wrote it, or name another place in `state:` to begin a new one"
    if _can_upgrade(form):
        advice = "make a backup with the version that wrote it; `cachewatch once` or the daemon of this one upgrades it"
    raise StateError(f"{place}: has form {form}, and this cachewatch reads form {schema.FORM}; {advice}")


def bring_up(engine: Engine, place: str, make: Callable[[Connection], None] = schema.make_tables) -> bool:
    """Make the tables where there are none, and upgrade older ones; tell whether there were none.

    Raises StateError if another version made them. Whatever is done is done in one transaction.
    """
    with engine.connect() as connection:
        if form_of(connection) == schema.FORM:
            return False
    with engine.execution_options(writes=True).begin() as connection:
        form = form_of(connection)  # another process may have been faster
        if form is None:
            make(connection)
            connection.exec_driver_sql(f"CREATE TABLE {_VERSION} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
            connection.exec_driver_sql(f"INSERT INTO {_VERSION} VALUES ('{schema.FORM}')")  # noqa: S608
        elif _can_upgrade(form):
            _upgrade(connection, form)
        else:
            check_form(form, place)
    return form is None


def _can_upgrade(form: int) -> bool:
    return 0 < form < schema.FORM


def _upgrade(connection: Connection, form: int) -> None:
    from alembic.operations import Operations  # noqa: PLC0415
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    scripts = ScriptDirectory(str(FOLDERS[0]), version_locations=[str(folder) for folder in FOLDERS])
    with Operations.context(MigrationContext.configure(connection)):
        for script in reversed(list(scripts.iterate_revisions(str(schema.FORM), str(form)))):
            script.module.upgrade()
    connection.exec_driver_sql(f"UPDATE {_VERSION} SET version_num = '{schema.FORM}'")  # noqa: S608
