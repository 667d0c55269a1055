"""Open the state, wherever the configuration says that it is."""

from pathlib import Path

from cachewatch.store.database import Database
from cachewatch.store.sqlite import SqliteDatabase, has_file
from cachewatch.store.sqlite_read_only import SqliteToRead
from cachewatch.store.timestamps import Clock, utc_now


def open_database(
    state: Path, *, must_exist: bool = False, is_checked: bool = False, clock: Clock = utc_now
) -> Database:
    """Open the state to work on it; one that is not there is made, unless it `must_exist`."""
    return SqliteDatabase(state, must_exist=must_exist, is_checked=is_checked, clock=clock)


def open_to_read(state: Path, *, may_be_older: bool = False) -> Database:
    """Open the state for who changes nothing: it is neither made nor upgraded."""
    return SqliteToRead(state, may_be_older=may_be_older)


def has_state(state: Path) -> bool:
    """Tell whether there is a state, perhaps one that we may not read."""
    return has_file(state)
