"""When the service ran last, and its last outage: a time in which nothing ran."""

from datetime import datetime

from sqlalchemy import Connection, select

from cachewatch.store.schema import service
from cachewatch.store.upserts import put

RAN = "ran"
BEGAN = "outage began"
ENDED = "outage ended"


def moment(connection: Connection, name: str) -> datetime | None:
    """Return one of the times above, if it is known."""
    row = connection.execute(select(service.c.value).where(service.c.name == name)).one_or_none()
    return None if row is None else row.value


def save(connection: Connection, name: str, at: datetime) -> None:
    """Write down one of the times above."""
    put(connection, service, {"name": name}, {"value": at})
