"""Digests as they are kept: what was told to whom, and the cursors that went with it."""

import zlib
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Row, delete, exists, func, literal, select, update
from sqlalchemy.dialects.sqlite import insert

from cachewatch.deliveries import Letter
from cachewatch.store.cursors import Advance, advances_from
from cachewatch.store.moments import by_database, to_moment, to_moment_or_none, to_text
from cachewatch.store.outbox import OPEN, State
from cachewatch.store.schema import deliveries, digests, suppressed


class DigestState(StrEnum):
    """What became of a digest."""

    READY = "ready"
    HELD = "held"  # until an operator releases or drops it, or a newer one takes its place
    RELEASED = "released"
    DROPPED = "dropped"
    SUPERSEDED = "superseded"


# In the text of a query, so that it finds the partial index of schema.py.
IS_HELD = digests.c.state == literal(DigestState.HELD, literal_execute=True)


class Stored(Struct, frozen=True, kw_only=True):
    """A digest as it is kept."""

    key: str
    subscription: str
    track: str
    state: DigestState
    title: str
    period: str
    created: datetime
    reason: str
    advances: tuple[Advance, ...]  # that go with it if it is released or dropped
    letter: Letter
    short: Letter  # for whom it was too large


def add(connection: Connection, stored: Stored) -> bool:
    """Store a digest unless it is there already, and tell whether it was new."""
    done = connection.execute(
        insert(digests)
        .values(
            key=stored.key,
            subscription=stored.subscription,
            track=stored.track,
            state=stored.state,
            title=stored.title,
            period=stored.period,
            created=to_text(stored.created),
            reason=stored.reason,
            moves=msgspec.msgpack.encode(stored.advances),
            letter=_packed(stored.letter),
            short=_packed(stored.short),
        )
        .on_conflict_do_nothing()
    )
    return done.rowcount > 0


def get(connection: Connection, key: str) -> Stored | None:
    """Return the digest whose key begins with `key`, if there is just one."""
    row = connection.execute(select(digests).where(digests.c.key == key)).one_or_none()
    if row is not None:
        return _stored(row)
    # Not LIKE, for which SQLite looks through all of them.
    begins_so = digests.c.key.between(key, f"{key}\U0010ffff")
    rows = connection.execute(select(digests).where(begins_so).limit(2)).all()
    return _stored(rows[0]) if len(rows) == 1 else None


def subscription_of(connection: Connection, key: str) -> str:
    """Return for which subscription a digest was made."""
    return str(connection.execute(select(digests.c.subscription).filter_by(key=key)).scalar_one())


def all_held(connection: Connection) -> list[Stored]:
    """Return every digest that waits for an operator, oldest first."""
    found = [_stored(row) for row in connection.execute(select(digests).where(IS_HELD))]
    return sorted(found, key=lambda stored: (stored.created, stored.key))


def held(connection: Connection, subscription: str, track: str) -> list[str]:
    """Return the keys of the digests of a track that wait for an operator."""
    query = select(digests.c.key).where(digests.c.subscription == subscription, digests.c.track == track, IS_HELD)
    return [row.key for row in connection.execute(query)]


def last_created(connection: Connection, subscription: str, track: str) -> datetime | None:
    """Return when the newest digest of a track was made; a time that is yet to come was written by a wrong clock."""
    query = select(func.max(digests.c.created)).where(
        digests.c.subscription == subscription, digests.c.track == track, digests.c.created <= by_database()
    )
    return to_moment_or_none(connection.execute(query).scalar())


def revisions_held(connection: Connection, source: str) -> frozenset[str]:
    """Return the revisions of `source` that cursors move to if a held digest is released."""
    advances = (each for stored in all_held(connection) for each in stored.advances if each.source == source)
    return frozenset(revision for each in advances for revision in each.revisions)


def settle(connection: Connection, key: str, state: DigestState, reason: str, now: datetime) -> None:
    """Release, drop or supersede a held digest, and its deliveries with it."""
    connection.execute(update(digests).filter_by(key=key).values(state=state, reason=reason))
    waiting = update(deliveries).filter_by(digest=key, state=State.HELD)
    if state is DigestState.RELEASED:
        # Who is suppressed since it was made gets nothing from it either.
        left_out = exists().where(
            suppressed.c.channel == deliveries.c.channel, suppressed.c.target == deliveries.c.target
        )
        connection.execute(waiting.where(left_out).values(state=State.SUPPRESSED, said=reason))
        connection.execute(waiting.values(state=State.QUEUED, said=reason, due=to_text(now)))
    else:
        connection.execute(waiting.values(state=State.DROPPED, said=reason, settled_at=to_text(now)))


def archive(connection: Connection) -> list[Stored]:
    """Return every digest that went out, newest first."""
    query = (
        select(digests)
        .where(digests.c.state.in_((DigestState.READY, DigestState.RELEASED)))
        .order_by(digests.c.created.desc(), digests.c.key)
    )
    return [_stored(row) for row in connection.execute(query)]


def forget(connection: Connection, before: datetime) -> int:
    """Delete digests older than `before` of which nothing is open, with their deliveries."""
    still = exists().where(deliveries.c.digest == digests.c.key, deliveries.c.state.in_((*OPEN, State.HELD)))
    query = select(digests.c.key).where(digests.c.created < to_text(before), ~still)
    keys = [row.key for row in connection.execute(query)]
    for key in keys:
        connection.execute(delete(deliveries).filter_by(digest=key))
        connection.execute(delete(digests).filter_by(key=key))
    return len(keys)


def _stored(row: Row[Any]) -> Stored:
    return Stored(
        key=row.key,
        subscription=row.subscription,
        track=row.track,
        state=DigestState(row.state),
        title=row.title,
        period=row.period,
        created=to_moment(row.created),
        reason=row.reason,
        advances=advances_from(row.moves),
        letter=_unpacked(row.letter),
        short=_unpacked(row.short),
    )


def _packed(letter: Letter) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(letter))


def _unpacked(content: bytes) -> Letter:
    return msgspec.msgpack.decode(zlib.decompress(content), type=Letter)
