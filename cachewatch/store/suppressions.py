"""Addresses that are left out because they kept refusing."""

from datetime import datetime

from msgspec import Struct
from sqlalchemy import Connection, delete, func, select

from cachewatch.store.queries import rows_of
from cachewatch.store.schema import attempts, deliveries, suppressed
from cachewatch.store.upserts import insert_new

# How the story of a delivery says that its address refused it.
REFUSED = "refused"


class Suppressed(Struct, frozen=True):
    """An address that is left out."""

    channel: str
    target: str
    since: datetime
    said: str  # by its server, when it was refused last


def is_suppressed(connection: Connection, channel: str, target: str) -> bool:
    """Tell whether an address is left out because it kept refusing."""
    where = {"channel": channel, "target": target}
    return connection.execute(rows_of(suppressed, *where), where).first() is not None


def all_suppressed(connection: Connection) -> list[Suppressed]:
    """Return every address that is left out."""
    rows = connection.execute(select(suppressed).order_by(suppressed.c.channel, suppressed.c.target))
    return [Suppressed(row.channel, row.target, row.since, row.said) for row in rows]


def suppress(connection: Connection, channel: str, target: str, said: str, now: datetime) -> None:
    """Leave an address out from now on."""
    values = {"channel": channel, "target": target, "since": now, "said": said}
    insert_new(connection, suppressed, values)


def restore(connection: Connection, channel: str, target: str) -> bool:
    """Take an address in again, and tell whether it was left out."""
    return connection.execute(delete(suppressed).filter_by(channel=channel, target=target)).rowcount > 0


def count_since(connection: Connection, since: datetime) -> int:
    """Count the deliveries that were made since a moment for addresses that are left out."""
    query = select(func.count()).where(deliveries.c.state == "suppressed", deliveries.c.created >= since)
    return int(connection.execute(query).scalar_one())


def refusals_in_a_row(connection: Connection, channel: str, target: str) -> list[datetime]:
    """Return when an address refused digests since it last took one: of each digest, the last time."""
    of_target = (deliveries.c.channel == channel, deliveries.c.target == target)
    taken = select(func.max(deliveries.c.settled_at)).where(*of_target, deliveries.c.state == "sent")
    last = connection.execute(taken).scalar()
    query = (
        select(func.max(attempts.c.at))
        .join(deliveries, deliveries.c.id == attempts.c.delivery)
        .where(*of_target, attempts.c.event == REFUSED, *([attempts.c.at > last] if last else []))
        .group_by(deliveries.c.digest)
    )
    return list(connection.execute(query).scalars())


def last_attempt(connection: Connection, channel: str, target: str) -> datetime | None:
    """Return when anything was tried for an address last."""
    query = (
        select(func.max(attempts.c.at))
        .join(deliveries, deliveries.c.id == attempts.c.delivery)
        .where(deliveries.c.channel == channel, deliveries.c.target == target)
    )
    return connection.execute(query).scalar()
