"""Up to which revision each track of a subscription was told of each tag."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import Struct
from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.sqlite import insert

from cachewatch.store.moments import to_text
from cachewatch.store.schema import cursors


class Move(Struct, frozen=True, kw_only=True):
    """A cursor's new place; a revision of None takes the cursor away (the tag is gone)."""

    subscription: str
    track: str
    source: str
    tag: str
    revision: str | None


def cursors_of(connection: Connection, subscription: str, track: str, source: str) -> Mapping[str, str]:
    """Return the revision of each tag that the track knows."""
    table = cursors.c
    rows = connection.execute(
        select(table.tag, table.revision).where(
            table.subscription == subscription, table.track == track, table.source == source
        )
    )
    return {row.tag: row.revision for row in rows}


def move(connection: Connection, moves: Iterable[Move], now: datetime) -> None:
    """Put cursors to their new places."""
    for step in moves:
        where = {"subscription": step.subscription, "track": step.track, "source": step.source, "tag": step.tag}
        if step.revision is None:
            connection.execute(delete(cursors).filter_by(**where))
        else:
            place = {"revision": step.revision, "moved_at": to_text(now)}
            connection.execute(
                insert(cursors).values(**where, **place).on_conflict_do_update(index_elements=list(where), set_=place)
            )


def revisions_in_use(connection: Connection, source: str) -> frozenset[str]:
    """Return every revision of `source` that some cursor stands on."""
    rows = connection.execute(select(cursors.c.revision).where(cursors.c.source == source).distinct())
    return frozenset(row.revision for row in rows)
