"""When the service ran last, and its last outage: a time in which nothing ran."""

from datetime import datetime

from sqlalchemy import Connection, select
from sqlalchemy.dialects.sqlite import insert

from cachewatch.store.schema import service
from cachewatch.store.timestamps import to_datetime, to_text

RAN = "ran"
BEGAN = "outage began"
ENDED = "outage ended"


def moment(connection: Connection, name: str) -> datetime | None:
    """Return one of the times above, if it is known."""
    row = connection.execute(select(service.c.value).where(service.c.name == name)).one_or_none()
    return None if row is None else to_datetime(row.value)


def save(connection: Connection, name: str, at: datetime) -> None:
    """Write down one of the times above."""
    value = to_text(at)
    new = insert(service).values(name=name, value=value)
    connection.execute(new.on_conflict_do_update(index_elements=["name"], set_={"value": value}))
