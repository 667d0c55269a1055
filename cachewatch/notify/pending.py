"""Where each track begins, and what it waits for: the next slot, or the next revision."""

from collections.abc import Collection
from contextlib import closing
from datetime import datetime

from cachewatch.config.model import Source
from cachewatch.errors import UnknownRevision
from cachewatch.git.catalogue import tags_of
from cachewatch.git.repository import Repository
from cachewatch.git.revisions import Revision, resolve
from cachewatch.notify.context import Context
from cachewatch.notify.renames import ask_about
from cachewatch.notify.streams import Track
from cachewatch.store import cursors, digests, health, slots
from cachewatch.store.cursors import Advance, CursorUpdate
from cachewatch.store.database import Connection
from cachewatch.store.slots import Slot


def begin(context: Context, track: Track) -> None:
    """Let a track begin with each source that it has not begun with, where that source begins."""
    for source in track.sources:
        with context.database.read() as connection:
            newest = health.source(connection, source.name).revision
            position = cursors.position_of(connection, track.subscription.name, track.name, source.name)
        if newest is not None and position is None:
            _begin(context, track, source, newest)


def _begin(context: Context, track: Track, source: Source, newest_commit: str) -> None:
    with closing(context.open_repository(source)) as repository:
        newest = resolve(repository, newest_commit)
        first = _first(repository, source, newest)
        tags = tags_of(repository, newest).ids.keys() | tags_of(repository, first).ids.keys()
    begun = Advance(
        subscription=track.subscription.name,
        stream=track.name,
        source=source.name,
        revision=first.commit,
        tags=tuple(
            CursorUpdate(tag=tag, revision=first.commit) for tag in sorted(filter(track.wants_tag(source), tags))
        ),
    )
    context.pin([begun])
    with context.database.write() as connection:
        ask_about(connection, context, track.subscription.name)
        cursors.advance(connection, [begun], context.clock())
    context.log.info(
        "track.begun", subscription=track.subscription.name, track=track.name, source=source.name, revision=first.commit
    )


def _first(repository: Repository, source: Source, newest: Revision) -> Revision:
    """Return the revision that is taken for told: silently the newest, or as the source asks an earlier one."""
    if source.since is not None:
        return resolve(repository, source.since)
    if source.first_run == "report":
        try:
            return resolve(repository, f"{newest.commit}~1")
        except UnknownRevision:
            pass  # there is but one
    return newest


def due_slot(context: Context, track: Track, now: datetime) -> Slot | None:
    """Return the slot that is due now; plan the next one where there is none, or another schedule."""
    if track.is_each_revision:
        return None
    name = track.subscription.name
    with context.database.read() as connection:
        slot = slots.pending(connection, name, track.name)
    if slot is None or slot.schedule != track.schedule_text:
        with context.database.write() as connection:
            slots.plan(connection, name, track.name, track.schedule_text, track.schedule.next_after(now))
        return None
    return slot if slot.due <= now else None


def has_news(context: Context, track: Track) -> bool:
    """Tell whether some source has a revision that the track has neither been told nor holds for operators."""
    name = track.subscription.name
    with context.database.read() as connection:
        held = {each.source: each.revision for each in _held_advances(connection, track)}
        for source in track.sources:
            position = cursors.position_of(connection, name, track.name, source.name)
            newest = health.source(connection, source.name).revision
            if newest is not None and position is not None and newest != held.get(source.name, position.revision):
                return True
    return False


def is_held(context: Context, track: Track, advances: Collection[Advance]) -> bool:
    """Tell whether a digest of the very same steps waits for an operator."""
    with context.database.read() as connection:
        return _held_advances(connection, track) == frozenset(advances)


def _held_advances(connection: Connection, track: Track) -> frozenset[Advance]:
    """Return how far a track is compared if what is held is released."""
    keys = digests.held(connection, track.subscription.name, track.name)
    return frozenset(advance for key in keys for advance in digests.advances(connection, key))
