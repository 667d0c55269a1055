"""Look through a whole state for what is damaged."""

from collections.abc import Iterator

from sqlalchemy import Connection, select

from cachewatch.errors import StateError
from cachewatch.store import digests, outbox
from cachewatch.store.schema import deliveries
from cachewatch.store.schema import digests as digests_table


def problems(connection: Connection) -> Iterator[str]:
    """Yield a sentence for each digest and delivery that is damaged, or does not fit the others."""
    keys = connection.execute(select(digests_table.c.key).order_by(digests_table.c.key)).scalars().all()
    for key in keys:
        yield from _of_digest(connection, key)
    for row in connection.execute(select(deliveries.c.id, deliveries.c.digest).order_by(deliveries.c.id)).all():
        yield from _of_delivery(connection, row.id)
        if row.digest not in keys:
            yield f"delivery {row.id}: its digest {row.digest[:12]} is missing"


def counts(connection: Connection) -> tuple[int, int]:
    """Return how many digests and deliveries there are."""
    of = (digests_table.c.key, deliveries.c.id)
    digest_count, delivery_count = (len(connection.execute(select(column)).all()) for column in of)
    return digest_count, delivery_count


def _of_digest(connection: Connection, key: str) -> Iterator[str]:
    try:
        digests.get(connection, key)
    except StateError as error:
        yield str(error)


def _of_delivery(connection: Connection, number: int) -> Iterator[str]:
    try:
        outbox.message(connection, number)
    except StateError as error:
        yield str(error)
