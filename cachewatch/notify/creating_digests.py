"""Create the digest of a stream that is due: plan the ranges, compare them, assemble the digest, store it.

The first three steps write nothing (assembling_digests.py). Storing is one transaction (storing_digests.py): whatever ends the process,
either the recipients will get the digest and the cursors have moved, or neither. Sending works from what is stored.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.schedule import is_quiet
from cachewatch.errors import DamagedRow, StateError
from cachewatch.notify import alerts, due_digests
from cachewatch.notify.alerts import Alert, AlertKey, AlertKind
from cachewatch.notify.assembling_digests import PendingDigest, compose, split, unconfirmed
from cachewatch.notify.building_messages import ChannelMessages, build_messages
from cachewatch.notify.digest_streams import Stream
from cachewatch.notify.held_digests import over
from cachewatch.notify.pass_context import Context, EndingError
from cachewatch.notify.shared_comparisons import Comparisons
from cachewatch.notify.storing_digests import finish, reason_of, store
from cachewatch.runtime.log import said_of, traceback_of
from cachewatch.store import digests, held
from cachewatch.store.held import Hold, first_held

_A_MONTH = timedelta(days=28)


class _Held(Struct, frozen=True):
    keys: list[str]  # of the digests of a stream
    holds: tuple[Hold, ...]


def create_digest(context: Context, stream: Stream, comparisons: Comparisons) -> None:
    """Create and store the digest of `stream` if it is due; operators are notified of a failure."""
    with _failures(context, stream):
        due_digests.begin(context, stream)
        now = context.clock()
        slot = due_digests.due_slot(context, stream, now)
        if is_quiet(context.config.quiet, now):
            return  # held, and merged into the first digest afterwards
        was_held = _held(context, stream)
        due = over(context.config, stream, was_held.holds, was_held.holds, now)
        has_waited = bool(was_held.keys and due)
        if slot is None and not has_waited and not (stream.is_each_revision and due_digests.has_news(context, stream)):
            return
        draft = compose(context, stream, occasion=slot.due.isoformat() if slot else "", comparisons=comparisons)
        if draft.hold and not has_waited and due_digests.is_held(context, stream, draft.advances):
            # Operators were asked about this very step, and have not answered yet.
            if slot is not None:
                with context.database.write() as connection:
                    finish(connection, stream, slot, None, now)
            return
        drafts = [
            (each, _messages(context, stream, each, now))
            for each in _what_goes_out(context, stream, draft, was_held, comparisons)
        ]
        for each, _ in drafts:
            context.pin(each.advances)
        with context.database.write() as connection:
            if digests.held(connection, stream.subscription.name, stream.name) != was_held.keys:
                return  # an operator answered meanwhile: the next pass goes on from there
            held_before = was_held.keys
            for each, packed in drafts:
                store(connection, context, stream, each, packed, held_before=held_before)
                held_before = []
            if slot is not None:
                made, packed = drafts[0]
                finish(connection, stream, slot, made.digest.key if packed else None, now)
        for each, packed in drafts:
            _log(context, stream, each, packed)


def _what_goes_out(
    context: Context, stream: Stream, draft: PendingDigest, was_held: _Held, comparisons: Comparisons
) -> tuple[PendingDigest, ...]:
    """Return the digest to be stored; if operators had their time for some of what it is held for, that goes out by itself."""
    holds = [replace(hold, counted_from=first_held(was_held.holds, hold.event)) for hold in draft.holds]
    due = over(context.config, stream, holds, holds, context.clock())
    if not due:
        return (draft,)
    return (unconfirmed(draft),) if len(due) == len(holds) else split(context, stream, holds, due, comparisons)


def _messages(context: Context, stream: Stream, draft: PendingDigest, now: datetime) -> tuple[ChannelMessages, ...]:
    if is_left_out(context, stream, draft, now):
        return ()
    return build_messages(context.config, stream, draft.digest)


@contextmanager
def _failures(context: Context, stream: Stream) -> Iterator[None]:
    """Alert operators while digests of `stream` cannot be created, whatever the reason: other streams go on."""
    key = AlertKey(AlertKind.DIGEST_FAILED, stream.subscription.name, stream.name)
    name = f"{stream.subscription.name}/{stream.name}"
    try:
        yield
    except EndingError:
        raise
    except Exception as error:
        if isinstance(error, StateError) and not isinstance(error, DamagedRow):
            raise  # the digest is not to blame
        context.go_on()  # whatever it worked with was perhaps ended by us
        title = f"digests cannot be created for {name}"
        alerts.open_now(context, Alert(key=key, title=title, lines=(said_of(error),)))
        # After that: where nothing can be stored, the digest is not to blame.
        log = context.log.bind(subscription=stream.subscription.name, stream=stream.name)
        log.error("digest.failed", error=said_of(error), traceback=traceback_of(error))
    else:
        alerts.resolve_now(context, key, f"digests can be created again for {name}")


def _held(context: Context, stream: Stream) -> _Held:
    """Return what of a stream is held, and for what."""
    where = stream.subscription.name, stream.name
    with context.database.read() as connection:
        return _Held(digests.held(connection, *where), held.holds_of(connection, *where))


def is_left_out(context: Context, stream: Stream, draft: PendingDigest, now: datetime) -> bool:
    """Tell whether there is nothing to send: nothing happened, and nobody wants an empty digest."""
    if not draft.is_empty:
        return False
    if stream.is_urgent or stream.subscription.if_empty == "skip":
        return True
    if stream.subscription.if_empty == "send":
        return False
    with context.database.read() as connection:
        last = digests.last_created(connection, stream.subscription.name, stream.name)
    return last is not None and now - last < _A_MONTH


def _log(context: Context, stream: Stream, draft: PendingDigest, packed: tuple[ChannelMessages, ...]) -> None:
    event = "digest.empty" if not packed else "digest.held" if draft.hold else "digest.queued"
    context.log.info(
        event,
        subscription=stream.subscription.name,
        stream=stream.name,
        digest=draft.digest.key[:12] if packed else None,
        deliveries=sum(len(each.messages) for each in packed) or None,
        reason=reason_of(draft),
    )
