"""The stored state of a stream, which is read as a whole, so that deciding on its digest needs no database.

One transaction finds the streams to look at, and one more reads each of these.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.advice.remembered import Remembered
from cachewatch.errors import DamagedRow
from cachewatch.service.streams import Stream
from cachewatch.store import cursors, digests, health
from cachewatch.store.cursors import Advance, Cursor, Position
from cachewatch.store.database import Connection
from cachewatch.store.digests import DigestSummary, Hold, Slot
from cachewatch.store.health import AlertKey, AlertKind, SourceHealth


class StreamState(Struct, frozen=True, kw_only=True):
    """The stored state of one stream."""

    sources: Mapping[str, SourceHealth]
    positions: Mapping[str, Position]  # by source; only of those with which the stream has begun
    remembered: Remembered  # what its subscription remembers of earlier digests
    slot: Slot | None  # when it is due next
    holds: tuple[Hold, ...]  # the reasons why its digest is held for operators
    held: tuple[str, ...]  # the keys of its held digests
    held_advances: frozenset[Advance]  # how the cursors move if the held digests are released
    digests: tuple[DigestSummary, ...]  # all stored digests of its subscription
    is_failing: bool  # an alert is open because its digests cannot be created

    @property
    def keys(self) -> frozenset[str]:
        """The keys of all digests of the subscription."""
        return frozenset(each.key for each in self.digests)

    @property
    def periods(self) -> frozenset[str]:
        """The periods of all digests of the subscription that were sent."""
        return frozenset(each.period for each in self.digests if each.has_gone_out)

    def begun_with(self, advances: Iterable[Advance]) -> "StreamState":
        """Return the state after the stream has begun with the sources of `advances`."""
        begun = {
            each.source: Position(
                revision=each.revision,
                cursors={step.tag: Cursor(step.revision) for step in each.tags if step.revision is not None},
                unread={step.tag: step.unread for step in each.tags if step.unread},
            )
            for each in advances
        }
        return replace(self, positions={**self.positions, **begun})

    @property
    def has_news(self) -> bool:
        """Whether some source has a revision that is in no digest of the stream, neither a sent nor a held one."""
        compared = {name: position.revision for name, position in self.positions.items()}
        held = {each.source: each.revision for each in self.held_advances}
        return any(
            source.revision is not None and name in compared and source.revision != held.get(name, compared[name])
            for name, source in self.sources.items()
        )


def read_stream(connection: Connection, stream: Stream) -> StreamState:
    """Read the stored state of a stream."""
    of = stream.subscription.name, stream.name
    known = digests.known(connection, of[0])
    held = tuple(each.key for each in known if each.stream == stream.name and each.is_held)
    held_advances: frozenset[Advance] = frozenset()
    with suppress(DamagedRow):  # a digest made anew then takes its place
        held_advances = frozenset(advance for key in held for advance in digests.advances(connection, key))
    return StreamState(
        sources={each.name: health.source(connection, each.name) for each in stream.sources},
        positions=_positions(connection, stream),
        remembered=cursors.remembered_by(connection, of[0]),
        slot=digests.pending(connection, *of),
        holds=digests.holds_of(connection, *of),
        held=held,
        held_advances=held_advances,
        digests=known,
        is_failing=health.get(connection, AlertKey(AlertKind.DIGEST_FAILED, *of)) is not None,
    )


def is_unchanged(connection: Connection, stream: Stream, state: StreamState) -> bool:
    """Tell whether nothing but polls and alerts was stored since `state` was read, so that decisions from it hold."""
    now = read_stream(connection, stream)
    return replace(now, sources=state.sources, is_failing=state.is_failing) == state


def _positions(connection: Connection, stream: Stream) -> Mapping[str, Position]:
    of = stream.subscription.name, stream.name
    found = ((each.name, cursors.position_of(connection, *of, each.name)) for each in stream.sources)
    return {name: position for name, position in found if position is not None}


def is_current(stream: Stream, slot: Slot | None, now: datetime) -> bool:
    """Tell whether `slot` is of the configured schedule, and not after its next time, as after a clock that was ahead."""
    next_one = stream.schedule.next_after(now)
    return slot is not None and slot.schedule == stream.schedule_text and (next_one is None or slot.due <= next_one)


def streams_to_look_at(connection: Connection, streams: Iterable[Stream], now: datetime) -> list[Stream]:
    """Return the streams that have to begin or plan a digest, that are due, hold a digest, or have an open alert."""
    newest, compared = health.newest_revisions(connection), cursors.compared_revisions(connection)
    slots = digests.all_pending(connection)
    open_matters = {(each.key.name, each.key.part) for each in health.all_open(connection)}
    open_matters |= {(subscription, stream) for subscription, stream, _ in digests.all_holds(connection)}
    open_matters |= {(each.subscription, each.stream) for each in digests.all_held(connection)}

    def has_news(stream: Stream) -> bool:
        for source in stream.sources:
            revision = compared.get((stream.subscription.name, stream.name, source.name))
            if source.name in newest and (
                revision is None or (stream.is_each_revision and revision != newest[source.name])
            ):
                return True
        return False

    def is_due(stream: Stream) -> bool:
        slot = slots.get((stream.subscription.name, stream.name))
        return slot is None or slot.due <= now or not is_current(stream, slot, now)

    return [
        stream
        for stream in streams
        if has_news(stream)
        or (not stream.is_each_revision and is_due(stream))
        or (stream.subscription.name, stream.name) in open_matters
    ]
