"""Whether a stream is due: where it begins, its next scheduled time, and whether there is a newer revision."""

from collections.abc import Collection
from contextlib import closing
from datetime import datetime

from cachewatch.config.model import Source
from cachewatch.git.catalogue import tags_of
from cachewatch.git.resolving_revisions import resolve
from cachewatch.notify.digest_streams import Stream
from cachewatch.notify.pass_context import Context
from cachewatch.notify.pending_ranges import first_revision
from cachewatch.notify.renamed_subscriptions import ask_about
from cachewatch.store import cursors, digests, health, scheduled_runs
from cachewatch.store.cursors import Advance, CursorUpdate
from cachewatch.store.database import Connection
from cachewatch.store.scheduled_runs import Slot


def begin(context: Context, stream: Stream) -> None:
    """Let a stream begin with each source that it has not begun with, where that source begins."""
    for source in stream.sources:
        with context.database.read() as connection:
            newest = health.source(connection, source.name).revision
            first = cursors.revision_of(connection, stream.subscription.name, stream.name, source.name)
        if newest is not None and first is None:
            _begin(context, stream, source, newest)


def _begin(context: Context, stream: Stream, source: Source, newest_commit: str) -> None:
    with closing(context.open_repository(source)) as repository:
        newest = resolve(repository, newest_commit)
        first = first_revision(repository, source, newest)
        tags = tags_of(repository, newest).ids.keys() | tags_of(repository, first).ids.keys()
    begun = Advance(
        subscription=stream.subscription.name,
        stream=stream.name,
        source=source.name,
        revision=first.commit,
        tags=tuple(
            CursorUpdate(tag=tag, revision=first.commit) for tag in sorted(filter(stream.wants_tag(source), tags))
        ),
    )
    context.pin([begun])
    with context.database.write() as connection:
        ask_about(connection, context, stream.subscription.name)
        cursors.advance(connection, [begun], context.clock())
    context.log.info(
        "stream.begun",
        subscription=stream.subscription.name,
        stream=stream.name,
        source=source.name,
        revision=first.commit,
    )


def due_slot(context: Context, stream: Stream, now: datetime) -> Slot | None:
    """Return the slot that is due now; plan the next one where there is none, or another schedule."""
    if stream.is_each_revision:
        return None
    name = stream.subscription.name
    with context.database.read() as connection:
        slot = scheduled_runs.pending(connection, name, stream.name)
    if slot is None or slot.schedule != stream.schedule_text:
        with context.database.write() as connection:
            scheduled_runs.plan(connection, name, stream.name, stream.schedule_text, stream.schedule.next_after(now))
        return None
    return slot if slot.due <= now else None


def has_news(context: Context, stream: Stream) -> bool:
    """Tell whether some source has a revision that the stream has neither been told nor holds for operators."""
    name = stream.subscription.name
    with context.database.read() as connection:
        held = {each.source: each.revision for each in _held_advances(connection, stream)}
        for source in stream.sources:
            last = cursors.revision_of(connection, name, stream.name, source.name)
            newest = health.source(connection, source.name).revision
            if newest is not None and last is not None and newest != held.get(source.name, last):
                return True
    return False


def is_held(context: Context, stream: Stream, advances: Collection[Advance]) -> bool:
    """Tell whether a digest of the very same steps waits for an operator."""
    with context.database.read() as connection:
        return _held_advances(connection, stream) == frozenset(advances)


def _held_advances(connection: Connection, stream: Stream) -> frozenset[Advance]:
    """Return how far a stream is compared if what is held is released."""
    keys = digests.held(connection, stream.subscription.name, stream.name)
    return frozenset(advance for key in keys for advance in digests.advances(connection, key))
