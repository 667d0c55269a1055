"""Open the state, wherever the configuration says that it is, and look through all of it for damage."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, select

from cachewatch.config.secrets import PostgresAddress, State
from cachewatch.errors import StateError
from cachewatch.hooks import extensions, lacking
from cachewatch.store import digests, outbox
from cachewatch.store.database import Database
from cachewatch.store.schema import deliveries
from cachewatch.store.schema import digests as digests_table


def open_database(state: State, *, must_exist: bool = False, is_checked: bool = False) -> Database:
    """Open the state to work on it; one that is not there is made, unless it `must_exist`."""
    if isinstance(state, Path):
        from cachewatch.store.sqlite import SqliteDatabase  # noqa: PLC0415  one of the two is enough

        return SqliteDatabase(state, must_exist=must_exist, is_checked=is_checked)
    database: Database = _in_database(state).open(must_exist=must_exist)
    return database


def open_to_read(state: State) -> Database:
    """Open the state for who changes nothing: it is neither made nor upgraded."""
    if isinstance(state, Path):
        from cachewatch.store.sqlite import SqliteToRead  # noqa: PLC0415

        return SqliteToRead(state)
    database: Database = _in_database(state).open_to_read()
    return database


def has_state(state: State) -> bool:
    """Tell whether there is a state, perhaps one that we may not read."""
    if isinstance(state, Path):
        from cachewatch.store.sqlite import has_file  # noqa: PLC0415

        return has_file(state)
    return bool(_in_database(state).exists())


def _in_database(address: PostgresAddress) -> Any:
    found = extensions().hook.open_state(address=address)
    if found is None:
        raise StateError(lacking(f"a state at {address.url}", "shared_state"))
    return found


def problems(connection: Connection) -> Iterator[str]:
    """Yield a sentence for each digest and delivery that is damaged, or does not fit the others."""
    keys = connection.execute(select(digests_table.c.key).order_by(digests_table.c.key)).scalars().all()
    rows = connection.execute(select(deliveries.c.id, deliveries.c.digest).order_by(deliveries.c.id)).all()
    looks: list[Callable[[], object]] = [partial(digests.get, connection, key) for key in keys]
    looks += [partial(outbox.message, connection, row.id) for row in rows]
    for look in looks:
        try:
            look()
        except StateError as error:
            yield str(error)
    for row in rows:
        if row.digest not in keys:
            yield f"delivery {row.id}: its digest {row.digest[:12]} is missing"


def counts(connection: Connection) -> tuple[int, int]:
    """Return how many digests and deliveries there are."""
    digest_count, delivery_count = (
        int(connection.scalar(select(func.count()).select_from(table)) or 0) for table in (digests_table, deliveries)
    )
    return digest_count, delivery_count
