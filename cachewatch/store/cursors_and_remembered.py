"""The revision up to which each stream was compared, its unreadable documents, and what subscriptions remember."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import Connection, delete, insert, select, union, update

from cachewatch.core.advice.waits_and_reminders import Memory, Remembered, merged
from cachewatch.store.schema import cursors, digests, filled, holds, put, remembered, slots, streams, unread


def remembered_by(connection: Connection, subscription: str) -> Remembered:
    """Return the facts that a subscription remembers; damaged ones are left out."""
    facts = []
    for row in connection.execute(select(remembered).filter_by(subscription=subscription).order_by(remembered.c.key)):
        with suppress(msgspec.DecodeError):
            facts.append(msgspec.msgpack.decode(row.content, type=Memory))
    return Remembered(tuple(facts))


class Unread(Struct, frozen=True, kw_only=True):
    """A document that could not be read, and the earlier version to compare it with later."""

    package: str
    base: str  # the revision with its last readable version, or one before the document existed
    base_tag: str  # the tag in that revision
    since: str  # the first revision in which it was unreadable
    reason: str
    blob: str | None = None  # its object id in git, if it crashed the worker: it is read again only when it changes


class CursorUpdate(Struct, frozen=True, kw_only=True):
    """The revision up to which a tag is now reported (None if the tag was removed), and its unreadable documents."""

    tag: str
    revision: str | None
    unread: tuple[Unread, ...] = ()


class Advance(Struct, frozen=True, kw_only=True):
    """The new position of a stream in one source, after the stream was compared up to `revision`."""

    subscription: str
    stream: str
    source: str
    revision: str
    tags: tuple[CursorUpdate, ...] = ()
    learned: tuple[Memory, ...] = ()  # facts that the subscription remembers from now on
    forgotten: tuple[str, ...] = ()  # the keys of facts that it forgets

    @property
    def revisions(self) -> frozenset[str]:
        """All revisions of the source that later comparisons from this position need."""
        places = {update.revision for update in self.tags if update.revision}
        bases = {each.base for step in self.tags for each in step.unread}
        kept = {fact.revision or "" for fact in self.learned}
        return frozenset({self.revision, *places, *bases, *kept} - {""})


class Cursor(Struct, frozen=True):
    """The revision up to which a stream has reported changes of a tag."""

    revision: str
    vanished_at: datetime | None = None  # when the stream reported the tag as removed


class Position(Struct, frozen=True, kw_only=True):
    """The position of a stream in one source."""

    revision: str
    cursors: Mapping[str, Cursor]  # by tag
    unread: Mapping[str, tuple[Unread, ...]]  # by tag


def position_of(connection: Connection, subscription: str, stream: str, source: str) -> Position | None:
    """Return the position of a stream in a source; None if the stream has never been compared with that source."""
    where = {"subscription": subscription, "stream": stream, "source": source}
    begun = connection.execute(select(streams).filter_by(**where)).one_or_none()
    if begun is None:
        return None
    known = {row.tag: filled(Cursor, row) for row in connection.execute(select(cursors).filter_by(**where))}
    documents: dict[str, tuple[Unread, ...]] = {}
    for row in connection.execute(select(unread).filter_by(**where).order_by(unread.c.tag, unread.c.package)):
        documents[row.tag] = (*documents.get(row.tag, ()), filled(Unread, row))
    return Position(revision=begun.revision, cursors=known, unread=documents)


def compared_revisions(connection: Connection) -> Mapping[tuple[str, str, str], str]:
    """Return the revision up to which each stream was compared, by subscription, stream and source."""
    return {(row.subscription, row.stream, row.source): row.revision for row in connection.execute(select(streams))}


def advance(connection: Connection, advances: Iterable[Advance], now: datetime) -> None:
    """Store the new positions of old and new streams, and update the facts that their subscriptions remember."""
    for move in advances:
        where = {"subscription": move.subscription, "stream": move.stream, "source": move.source}
        begun = {**where, "revision": move.revision, "begun_at": now}
        put(connection, streams, tuple(where), begun, only_new=("begun_at",))
        moved = {**where, "moved_at": now, "vanished_at": None}
        there = (step for step in move.tags if step.revision is not None)
        put(connection, cursors, (*where, "tag"), *({**moved, "tag": of.tag, "revision": of.revision} for of in there))
        had_unread = {row.tag for row in connection.execute(select(unread).filter_by(**where))}
        for step in move.tags:
            of_tag = {**where, "tag": step.tag}
            if step.revision is None:
                # If the tag returns, it is compared with what was reported last; until then nobody repairs documents.
                connection.execute(update(cursors).filter_by(**of_tag).values(vanished_at=now))
                connection.execute(update(unread).filter_by(**of_tag, readable_at=None).values(readable_at=now))
            elif step.unread or step.tag in had_unread:
                _note_unread(connection, of_tag, step.unread, now)
        known = {one.key: one for one in remembered_by(connection, move.subscription).facts} if move.learned else {}
        facts = []
        for fact in move.learned:
            whole = merged(known.get(fact.key), fact)  # with what other streams of the subscription have stored
            content = {"revision": whole.revision, "content": msgspec.msgpack.encode(whole), "noted_at": now}
            facts.append({"subscription": move.subscription, "key": fact.key, "source": move.source, **content})
        put(connection, remembered, ("subscription", "key"), *facts)
        forgotten = delete(remembered).filter_by(subscription=move.subscription)
        connection.execute(forgotten.where(remembered.c.key.in_(move.forgotten)))


def _note_unread(connection: Connection, where: Mapping[str, str], found: tuple[Unread, ...], now: datetime) -> None:
    """Store `found` as unreadable at `where` (stream, tag); for other streams, mark documents now readable as such."""
    known = {row.package: row.noted_at for row in connection.execute(select(unread).filter_by(**where))}
    connection.execute(delete(unread).filter_by(**where))
    for each in found:
        noted_at = known.get(each.package, now)
        connection.execute(insert(unread).values(**where, **asdict(each), noted_at=noted_at))
    readable = known.keys() - {each.package for each in found}
    elsewhere = update(unread).filter_by(source=where["source"], tag=where["tag"], readable_at=None)
    connection.execute(elsewhere.where(unread.c.package.in_(readable)).values(readable_at=now))


def unreadable(connection: Connection) -> Mapping[tuple[str, str], Mapping[str, str]]:
    """Return the reason why each unreadable document cannot be read: by (source, tag), then by package."""
    reasons: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    query = select(unread).filter_by(readable_at=None).order_by(unread.c.source, unread.c.tag)
    for row in connection.execute(query):
        reasons[row.source, row.tag][row.package] = row.reason
    return reasons


def blobs_not_to_read(connection: Connection) -> Mapping[str, Mapping[str, str]]:
    """Return the documents that crashed a worker process: by source, then by object id, with the reason."""
    reasons: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for row in connection.execute(select(unread).where(unread.c.blob.is_not(None))):
        reasons[row.source][row.blob] = row.reason
    return reasons


def revisions_in_use(connection: Connection, source: str) -> frozenset[str]:
    """Return the revisions of `source` that some stream will need for later comparisons."""
    used = (cursors.c.revision, streams.c.revision, unread.c.base, remembered.c.revision)
    queries = (select(column.label("used")).where(column.table.c.source == source) for column in used)
    return frozenset(row.used for row in connection.execute(union(*queries)) if row.used is not None)


def forget(connection: Connection, before: datetime) -> None:
    """Delete facts stored before `before`, and cursors of tags removed before; such tags are new if they return."""
    connection.execute(delete(remembered).where(remembered.c.noted_at < before))
    connection.execute(delete(cursors).where(cursors.c.vanished_at < before))


def subscriptions(connection: Connection) -> frozenset[str]:
    """Return the subscriptions that have at least one stream with a position."""
    return frozenset(row.subscription for row in connection.execute(select(streams.c.subscription).distinct()))


def rename(connection: Connection, old: str, new: str) -> bool:
    """Move all data of the subscription `old` to `new`; return False, and do nothing, if `old` has no stream."""
    if old not in subscriptions(connection):
        return False
    for table in (streams, cursors, unread, slots, holds, remembered):
        connection.execute(delete(table).filter_by(subscription=new))
        connection.execute(update(table).filter_by(subscription=old).values(subscription=new))
    connection.execute(update(digests).filter_by(subscription=old).values(subscription=new))
    return True
