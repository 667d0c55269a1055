"""Open the state, wherever the configuration says that it is."""

from pathlib import Path

from cachewatch.config.state_address import State
from cachewatch.store.database import Database
from cachewatch.store.timestamps import Clock, utc_now


def open_database(
    state: State, *, must_exist: bool = False, is_checked: bool = False, clock: Clock = utc_now
) -> Database:
    """Open the state to work on it; one that is not there is made, unless it `must_exist`."""
    if isinstance(state, Path):
        from cachewatch.store.sqlite import SqliteDatabase  # noqa: PLC0415  one of the two is enough

        return SqliteDatabase(state, must_exist=must_exist, is_checked=is_checked, clock=clock)
    from cachewatch.store.postgresql import PostgresDatabase  # noqa: PLC0415

    return PostgresDatabase(state, must_exist=must_exist, clock=clock)


def open_to_read(state: State) -> Database:
    """Open the state for who changes nothing: it is neither made nor upgraded."""
    if isinstance(state, Path):
        from cachewatch.store.sqlite import SqliteToRead  # noqa: PLC0415

        return SqliteToRead(state)
    from cachewatch.store.postgresql import PostgresDatabase  # noqa: PLC0415

    return PostgresDatabase(state, may_write=False)


def has_state(state: State) -> bool:
    """Tell whether there is a state, perhaps one that we may not read."""
    if isinstance(state, Path):
        from cachewatch.store.sqlite import has_file  # noqa: PLC0415

        return has_file(state)
    from cachewatch.store.postgresql import has_tables  # noqa: PLC0415

    return has_tables(state)
