"""Who may write, of the hosts that share a database: a lease with a number that grows whenever another takes over.

A host that was cut off or stopped may not know that its lease is over; its number is an old one then, and it writes nothing.
"""

from datetime import timedelta

from sqlalchemy import Column, Connection, Integer, MetaData, Table, select, update

from cachewatch.errors import AnotherInstance, StateError
from cachewatch.store.column_types import Moment, Text
from cachewatch.store.timestamps import database_time
from cachewatch.store.upserts import put_computed

# Renewed every RENEWAL; after LASTING another host takes over at its next attempt.
LASTING, RENEWAL = timedelta(seconds=20), timedelta(seconds=5)

# Of the one database, so that it neither moves nor is backed up.
leader_metadata = MetaData()
_leader = Table(
    "leader",
    leader_metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # one row: 1
    Column("owner", Text, nullable=False),  # HOST/PROCESS/NUMBER
    Column("until", Moment, nullable=False),  # by the database's clock
    Column("token", Integer, nullable=False),
)


def take(connection: Connection, owner: str) -> int:
    """Take the lease, or renew it, and return its number; raise AnotherInstance while another has it."""
    is_over = _leader.c.until <= database_time(connection)
    row = connection.execute(select(_leader, is_over.label("is_over"))).one_or_none()
    if row is not None and row.owner != owner and not row.is_over:
        raise AnotherInstance(f"{row.owner} works on this state; stop it, or wait until its lease is over")
    token = 1 if row is None else row.token + (row.owner != owner)
    put_computed(
        connection, _leader, {"id": 1}, {"owner": owner, "until": database_time(connection, LASTING), "token": token}
    )
    return int(token)


def give_back(connection: Connection, owner: str) -> None:
    """Let another take the lease at once."""
    connection.execute(update(_leader).filter_by(owner=owner).values(until=database_time(connection)))


def check(connection: Connection, token: int) -> None:
    """Raise StateError if another took over since the lease had this number."""
    row = connection.execute(select(_leader)).one_or_none()
    if row is None or row.token != token:
        raise StateError(f"{row.owner if row else 'nobody'} took over this state; this process stores nothing more")


def holder(connection: Connection) -> str | None:
    """Return who has the lease, unless it is over."""
    query = select(_leader.c.owner).where(_leader.c.until > database_time(connection))
    return connection.execute(query).scalar_one_or_none()
