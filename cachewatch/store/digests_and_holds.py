"""Stored digests, the events for which some are held, and slots: the times at which digests of streams are due."""

import lzma
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Row, delete, exists, func, literal, select, union, update

from cachewatch.errors import DamagedRow, StateError
from cachewatch.report.digest_and_message_values import RenderedDigest
from cachewatch.store.cursors_and_remembered import Advance
from cachewatch.store.delivery_queue_and_order import IS_LEFT_OUT, OPEN, DeliveryState, message
from cachewatch.store.health_and_alerts import AlertKey, AlertKind
from cachewatch.store.schema import checksum_of, deliveries, digests, filled, holds, insert_new, put, slots

_Value = TypeVar("_Value")


class DigestState(StrEnum):
    """Whether a digest is delivered, waits for an operator, or was replaced."""

    READY = "ready"
    HELD = "held"  # until an operator releases or drops it, or a newer one takes its place
    RELEASED = "released"
    DROPPED = "dropped"
    SUPERSEDED = "superseded"
    DAMAGED = "damaged"  # what is stored is none of these

    @classmethod
    def _missing_(cls, value: object) -> "DigestState":  # noqa: ARG003  the contract of an Enum
        return cls.DAMAGED


# The state is part of the query's text, so that the partial index of schema.py is used.
IS_HELD = digests.c.state == literal(DigestState.HELD, literal_execute=True)


class DigestSummary(Struct, frozen=True, kw_only=True):
    """A stored digest, without its content."""

    key: str
    subscription: str
    stream: str
    state: DigestState
    title: str
    period: str
    created: datetime
    reason: str


class DigestRecord(DigestSummary, frozen=True, kw_only=True):
    """A stored digest with its content."""

    advances: tuple[Advance, ...]  # new positions, stored when a held digest is released or dropped
    rendered: RenderedDigest
    short: RenderedDigest  # the short form, for recipients whose server refused `rendered` as too large

    @classmethod
    def ready(cls, rendered: RenderedDigest, short: RenderedDigest, *, subscription: str, stream: str) -> Self:
        """Return the record of a digest that is sent without asking operators; `short` is its short form."""
        of = {"subscription": subscription, "stream": stream, "state": DigestState.READY, "reason": ""}
        return filled(cls, rendered, **of, advances=(), rendered=rendered, short=short)


_BYTES = len(checksum_of([]))
# The columns of a DigestSummary.
_ABOUT = tuple(digests.c[name] for name in DigestSummary.__struct_fields__)


def add(connection: Connection, stored: DigestRecord) -> None:
    """Store a digest unless a digest with the same key is stored."""
    moves = msgspec.msgpack.encode(stored.advances)
    content = msgspec.msgpack.encode((stored.rendered, stored.short))
    # The forms of a digest repeat each other, in large ones at a distance beyond what zlib, or a preset, sees.
    seen = max(2**12, min(1 << len(content).bit_length(), 2**21))
    rendered = lzma.compress(content, filters=[{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": seen}])
    values = {name: getattr(stored, name) for name in DigestSummary.__struct_fields__}
    checksum = checksum_of([moves]) + checksum_of([rendered])
    insert_new(connection, digests, {**values, "moves": moves, "rendered": rendered, "checksum": checksum})


def known(connection: Connection, subscription: str) -> tuple[DigestSummary, ...]:
    """Return all digests of a subscription, sorted by key."""
    query = select(*_ABOUT).filter_by(subscription=subscription).order_by(digests.c.key)
    return tuple(map(_summary, connection.execute(query)))


def find(connection: Connection, key: str) -> DigestSummary | None:
    """Return the digest with this key, or the only one whose key begins with it; None if there is none or several."""
    # Not LIKE, for which SQLite would read all rows.
    begins_so = digests.c.key.between(key, f"{key}\U0010ffff")
    rows = connection.execute(select(*_ABOUT).where(begins_so).order_by(digests.c.key).limit(2)).all()
    return _summary(rows[0]) if len(rows) == 1 or (rows and rows[0].key == key) else None


def get(connection: Connection, key: str) -> DigestRecord | None:
    """Return the digest that `find` finds for `key`, with its content; None if it finds none. Raises DamagedRow."""
    summary = find(connection, key)
    if summary is None:
        return None
    return _stored(connection.execute(select(digests).where(digests.c.key == summary.key)).one())


def advances(connection: Connection, key: str) -> tuple[Advance, ...]:
    """Return the new positions that are stored with the digest `key`. Raises DamagedRow if they are damaged."""
    columns = [digests.c[name] for name in ("key", "moves", "checksum")]
    return _advances(connection.execute(select(*columns).where(digests.c.key == key)).one())


def subscription_of(connection: Connection, key: str) -> str:
    """Return the subscription of the digest `key`; "" if there is no such digest."""
    return str(connection.scalar(select(digests.c.subscription).where(digests.c.key == key)) or "")


def has_any(connection: Connection, subscription: str, stream: str) -> bool:
    """Tell whether any digest of a stream is stored."""
    query = select(digests.c.key).filter_by(subscription=subscription, stream=stream)
    return connection.execute(query.limit(1)).first() is not None


def revisions_held(connection: Connection, source: str) -> frozenset[str]:
    """Return the revisions of `source` that later comparisons will need if the held digests are released or dropped."""
    moves: list[Advance] = []
    for record in all_held(connection):
        with suppress(DamagedRow):  # it is marked as damaged later, and made again
            moves += advances(connection, record.key)
    return frozenset(revision for each in moves if each.source == source for revision in each.revisions)


def settle(connection: Connection, key: str, state: DigestState, reason: str, now: datetime) -> None:
    """Set `state` and `reason` of the held digest `key`; queue its deliveries if it is released, else drop them."""
    connection.execute(update(digests).filter_by(key=key).values(state=state, reason=reason))
    waiting = update(deliveries).filter_by(digest=key, state=DeliveryState.HELD)
    if state is DigestState.RELEASED:
        # Addresses that were suppressed after it was made get nothing from it either.
        connection.execute(waiting.where(IS_LEFT_OUT).values(state=DeliveryState.SUPPRESSED, said=reason))
        connection.execute(waiting.values(state=DeliveryState.QUEUED, said=reason, due=now))
    else:
        connection.execute(waiting.values(state=DeliveryState.DROPPED, said=reason, settled_at=now))


def archive(connection: Connection) -> list[DigestRecord]:
    """Return all digests that were ready or released for delivery, newest first; damaged ones are left out."""
    query = select(digests).where(digests.c.state.in_((DigestState.READY, DigestState.RELEASED)))
    records = []
    for row in connection.execute(query.order_by(digests.c.created.desc(), digests.c.key)):
        with suppress(DamagedRow):
            records.append(_stored(row))
    return records


def forget_digests(connection: Connection, before: datetime) -> int:
    """Delete finished digests created before `before`, and slots done before then; return the number of digests."""
    connection.execute(delete(slots).where(slots.c.done_at < before))
    still = exists().where(deliveries.c.digest == digests.c.key, deliveries.c.state.in_((*OPEN, DeliveryState.HELD)))
    keys = connection.execute(select(digests.c.key).where(digests.c.created < before, ~still)).scalars().all()
    for key in keys:
        connection.execute(delete(deliveries).filter_by(digest=key))
        connection.execute(delete(digests).filter_by(key=key))
    return len(keys)


def _summary(row: Row[Any]) -> DigestSummary:
    return filled(DigestSummary, row, state=DigestState(row.state))


def _stored(row: Row[Any]) -> DigestRecord:
    decode = msgspec.msgpack.Decoder(tuple[RenderedDigest, RenderedDigest]).decode
    content = _decoded(row, "content has", row.rendered, slice(_BYTES, None), lambda it: decode(lzma.decompress(it)))
    state, moves = DigestState(row.state), _advances(row)
    return filled(DigestRecord, row, state=state, advances=moves, rendered=content[0], short=content[1])


def _advances(row: Row[Any]) -> tuple[Advance, ...]:
    return _decoded(row, "cursors have", row.moves, slice(_BYTES), msgspec.msgpack.Decoder(tuple[Advance, ...]).decode)


def _decoded(row: Row[Any], what: str, stored: bytes, part: slice, decode: Callable[[bytes], _Value]) -> _Value:
    """Return `decode(stored)`. Raises DamagedRow on `what` if that fails or `row.checksum[part]` does not match."""
    try:
        if row.checksum[part] == checksum_of([stored]):
            return decode(stored)
        problem = f"its {what} another checksum"
    except (lzma.LZMAError, EOFError, msgspec.DecodeError, TypeError, AttributeError) as error:
        problem = str(error)  # a bit that flipped may make another type of a value
    raise DamagedRow(f"digest {str(row.key)[:12]}: it is damaged ({problem})")


class Hold(Struct, frozen=True, kw_only=True):
    """An event because of which the digest of a stream waits for operators."""

    alert: AlertKey  # the alert that asks operators about the event, one for all subscriptions
    said: str  # the event in a sentence
    content: tuple[str, ...] = ()  # details for operators, one text each
    counted_from: datetime  # since when digests are held for the event


class HeldDigest(DigestSummary, frozen=True, kw_only=True):
    """A held digest without its content, and the events for which it is held."""

    holds: tuple[Hold, ...]


def store_holds(connection: Connection, subscription: str, stream: str, new: Iterable[Hold]) -> None:
    """Store `new` as the events for which the digest of a stream is held, in place of the stored ones."""
    where = {"subscription": subscription, "stream": stream}
    connection.execute(delete(holds).filter_by(**where))
    for hold in new:
        of = {"source": hold.alert.name, "tag": hold.alert.part, "kind": hold.alert.kind}
        values = {"said": hold.said, "content": "\n".join(hold.content), "counted_from": hold.counted_from}
        insert_new(connection, holds, {**where, **of, **values})


def holds_of(connection: Connection, subscription: str, stream: str) -> tuple[Hold, ...]:
    """Return the events for which the digest of a stream is held."""
    query, found = select(holds).filter_by(subscription=subscription, stream=stream), []
    for row in connection.execute(query.order_by(holds.c.source, holds.c.tag, holds.c.kind)):
        # In a damaged row, the kind may be anything.
        kind = AlertKind.SUSPICIOUS_LOSS if row.kind == AlertKind.SUSPICIOUS_LOSS else AlertKind.LARGE_CHANGE
        key = AlertKey(kind, row.source, row.tag)
        found.append(filled(Hold, row, alert=key, content=tuple(row.content.splitlines())))
    return tuple(found)


def streams_held(connection: Connection) -> set[tuple[str, str]]:
    """Return each stream, as (subscription, stream), that has a held digest or stored events to hold one."""
    of_holds = select(holds.c.subscription, holds.c.stream)
    of_digests = select(digests.c.subscription, digests.c.stream).where(IS_HELD)
    return {(row.subscription, row.stream) for row in connection.execute(union(of_holds, of_digests))}


def all_held(connection: Connection) -> list[HeldDigest]:
    """Return all held digests, oldest first."""
    query = select(*_ABOUT).where(IS_HELD).order_by(digests.c.created, digests.c.subscription, digests.c.stream)
    return [
        filled(HeldDigest, row, state=DigestState.HELD, holds=holds_of(connection, row.subscription, row.stream))
        for row in connection.execute(query).all()
    ]


class Slot(Struct, frozen=True, kw_only=True):
    """A time at which a digest of a stream is due."""

    id: int
    subscription: str
    stream: str
    schedule: str  # as configured
    due: datetime


def pending(connection: Connection, **of: str) -> dict[tuple[str, str], Slot]:
    """Return the next unfinished slot by (subscription, stream), of slots whose columns have the values `of`."""
    rows = connection.execute(select(slots).filter_by(done_at=None, **of).order_by(slots.c.due.desc()))
    return {(row.subscription, row.stream): filled(Slot, row) for row in rows}


def plan(connection: Connection, subscription: str, stream: str, schedule: str, due: datetime | None) -> None:
    """Make `due` the only pending slot of a stream, even if a wrong clock marked it as done; None leaves no slot."""
    connection.execute(delete(slots).filter_by(subscription=subscription, stream=stream, done_at=None))
    if due is not None:
        where = {"subscription": subscription, "stream": stream, "due": due}
        put(connection, slots, tuple(where), {**where, "schedule": schedule, "done_at": None, "digest": None})


def finish(connection: Connection, slot: Slot, digest: str | None, now: datetime) -> None:
    """Mark a slot as done; `digest` is the key of the digest made for it, None if none was made."""
    connection.execute(update(slots).filter_by(id=slot.id).values(done_at=now, digest=digest))


def problems(connection: Connection) -> Iterator[str]:
    """Yield a sentence for each damaged digest or delivery, and for each delivery without its digest."""
    keys = connection.execute(select(digests.c.key).order_by(digests.c.key)).scalars().all()
    about = deliveries.c.id, deliveries.c.digest, deliveries.c.state
    rows = connection.execute(select(*about).order_by(deliveries.c.id)).all()
    looks: list[Callable[[], object]] = [partial(get, connection, key) for key in keys]
    looks += [partial(message, connection, row.id) for row in rows]
    for look in looks:
        try:
            look()
        except StateError as error:
            yield str(error)
    for row in rows:
        if row.state not in list(DeliveryState):
            yield f"delivery {row.id}: its state is damaged, so it may have been sent, or not"
        if row.digest not in keys:
            yield f"delivery {row.id}: its digest {row.digest[:12]} is missing"


def counts(connection: Connection) -> list[int]:
    """Return the numbers of digests and of deliveries."""
    return [connection.scalar(select(func.count()).select_from(table)) or 0 for table in (digests, deliveries)]
