"""Create the digest of a stream that is due, and store it with its deliveries and cursors in one transaction.

All of it is one transaction: whatever ends us, either the readers will be told and the cursors
moved, or neither. Sending is another matter, and works from what is stored alone.
"""

from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.schedule import is_quiet
from cachewatch.errors import CachewatchError
from cachewatch.notify import alerts, pending
from cachewatch.notify.alerts import Alert, AlertKey, AlertKind
from cachewatch.notify.composing import PendingDigest, compose, unconfirmed
from cachewatch.notify.context import Context
from cachewatch.notify.held import waits_no_more
from cachewatch.notify.messages import ChannelMessages, build_messages
from cachewatch.notify.sharing import Comparisons
from cachewatch.notify.streams import Stream
from cachewatch.store import cursors, digests, health, held, outbox, slots
from cachewatch.store.cursors import Advance
from cachewatch.store.database import Connection
from cachewatch.store.digests import DigestRecord, DigestState
from cachewatch.store.held import Hold
from cachewatch.store.outbox import State
from cachewatch.store.slots import Slot

_A_MONTH = timedelta(days=28)


class _Held(Struct, frozen=True):
    keys: list[str]  # of the digests of a stream
    holds: tuple[Hold, ...]


def announce(context: Context, stream: Stream, comparisons: Comparisons) -> None:
    """Make and store the digest of `stream` if it is due; a failure is told to operators."""
    key = AlertKey(AlertKind.DIGEST_FAILED, stream.subscription.name, stream.name)
    name = f"{stream.subscription.name}/{stream.name}"
    try:
        pending.begin(context, stream)
        _announce(context, stream, comparisons)
    except CachewatchError as error:
        context.go_on()  # whatever it worked with was perhaps ended by us
        title = f"digests cannot be created for {name}"
        alerts.open_now(context, Alert(key=key, title=title, lines=(str(error),)))
        # After that: where nothing can be stored, it is no fault of this digest.
        context.log.error("digest.failed", subscription=stream.subscription.name, stream=stream.name, error=str(error))
    else:
        alerts.resolve_now(context, key, f"digests can be created again for {name}")


def _announce(context: Context, stream: Stream, comparisons: Comparisons) -> None:
    now = context.clock()
    slot = pending.due_slot(context, stream, now)
    if is_quiet(context.config.quiet, now):
        return  # held, and merged into the first digest afterwards
    was_held = _held(context, stream, now)
    has_waited = bool(was_held.keys) and waits_no_more(context.config, stream, was_held.holds, was_held.holds, now)
    if slot is None and not has_waited and not (stream.is_each_revision and pending.has_news(context, stream)):
        return
    draft = compose(context, stream, occasion=slot.due.isoformat() if slot else "", comparisons=comparisons)
    if draft.hold and not has_waited and pending.is_held(context, stream, draft.advances):
        # Operators were asked about this very step, and have not answered yet.
        _let_pass(context, stream, slot, now)
        return
    if draft.hold and waits_no_more(context.config, stream, draft.holds, was_held.holds, now):
        draft = unconfirmed(draft)
    packed = () if _is_left_out(context, stream, draft, now) else build_messages(context.config, stream, draft.digest)
    context.pin(draft.advances)
    with context.database.write() as connection:
        if digests.held(connection, stream.subscription.name, stream.name) != was_held.keys:
            return  # an operator answered meanwhile: the next pass goes on from there
        _store(connection, context, stream, draft, packed)
        if slot is not None:
            _finish(connection, stream, slot, draft.digest.key if packed else None, now)
    _log(context, stream, draft, packed)


def _held(context: Context, stream: Stream, now: datetime) -> _Held:
    """Return what of a stream is held, and for what; the time of what an older version held begins now."""
    where = stream.subscription.name, stream.name
    with context.database.read() as connection:
        found = _Held(digests.held(connection, *where), held.holds_of(connection, *where))
    if all(hold.counted_from is not None for hold in found.holds):
        return found
    with context.database.write() as connection:
        for hold in found.holds:
            held.count_from(connection, *where, hold.event, hold.counted_from or now)
    return _Held(found.keys, tuple(replace(hold, counted_from=hold.counted_from or now) for hold in found.holds))


def _let_pass(context: Context, stream: Stream, slot: Slot | None, now: datetime) -> None:
    if slot is not None:
        with context.database.write() as connection:
            _finish(connection, stream, slot, None, now)


def _finish(connection: Connection, stream: Stream, slot: Slot, digest: str | None, now: datetime) -> None:
    slots.finish(connection, slot, digest, now)
    slots.plan(connection, slot.subscription, slot.stream, stream.schedule_text, stream.schedule.next_after(now))


def _is_left_out(context: Context, stream: Stream, draft: PendingDigest, now: datetime) -> bool:
    """Tell whether there is nothing to send: nothing happened, and nobody wants to hear that."""
    if not draft.is_empty:
        return False
    if stream.is_urgent or stream.subscription.if_empty == "skip":
        return True
    if stream.subscription.if_empty == "send":
        return False
    with context.database.read() as connection:
        last = digests.last_created(connection, stream.subscription.name, stream.name)
    return last is not None and now - last < _A_MONTH


def _store(
    connection: Connection, context: Context, stream: Stream, draft: PendingDigest, packed: tuple[ChannelMessages, ...]
) -> None:
    now = context.clock()
    for key in digests.held(connection, stream.subscription.name, stream.name):
        digests.settle(connection, key, DigestState.SUPERSEDED, "a newer digest covers it", now)
    if draft.hold:
        held.hold(connection, stream.subscription.name, stream.name, draft.holds, now)
    else:
        held.let_go(connection, stream.subscription.name, stream.name)
    if not (packed and draft.hold):
        cursors.advance(connection, _certain(draft), now)
    if packed:
        _tell_of_templates(connection, context, stream, next((each.problem for each in packed if each.problem), ""))
        _store_digest(connection, stream, draft, packed, now)


def _certain(draft: PendingDigest) -> tuple[Advance, ...]:
    """Return how far streams are compared, without the tags that operators are asked about.

    There is nothing to tell of those, but what is missing now would be news when it is back.
    """
    doubtful = {(hold.event.source, hold.event.tag) for hold in draft.holds}
    return tuple(
        replace(
            advance,
            tags=tuple(
                tag for tag in advance.tags if doubtful.isdisjoint({(advance.source, tag.tag), (advance.source, "")})
            ),
        )
        for advance in draft.advances
    )


def _store_digest(
    connection: Connection, stream: Stream, draft: PendingDigest, packed: tuple[ChannelMessages, ...], now: datetime
) -> None:
    stored = DigestRecord(
        key=draft.digest.key,
        subscription=stream.subscription.name,
        stream=stream.name,
        state=DigestState.HELD if draft.hold else DigestState.READY,
        title=packed[0].rendered.title,
        period=draft.digest.period,
        created=now,
        reason=_why(draft),
        advances=draft.advances if draft.hold else (),
        rendered=packed[0].rendered,
        short=packed[0].short,
    )
    digests.add(connection, stored)
    state = State.HELD if draft.hold else State.QUEUED
    for each in packed:
        for message in each.messages:
            outbox.add(connection, each.channel, message, state=state, lasting=each.lasting)
    health.count(connection, f'digests_total{{subscription="{stream.subscription.name}",result="{stored.state}"}}')


def _tell_of_templates(connection: Connection, context: Context, stream: Stream, problem: str) -> None:
    name = stream.subscription.name
    key = AlertKey(AlertKind.TEMPLATE_FAILED, name)
    if not problem:
        alerts.resolve_within(connection, context, key, f"the templates for {name} work again")
        return
    alert = Alert(
        key=key,
        title=f"a template for {name} is wrong",
        lines=(problem, "Its digests are created with the built-in templates until this is fixed."),
        commands=("cachewatch config check",),
    )
    alerts.open_within(connection, context, alert)


def _why(draft: PendingDigest) -> str:
    """Say why a digest is held, or that it goes out without an answer."""
    return draft.hold or (draft.digest.unconfirmed and f"not confirmed by the operators: {draft.digest.unconfirmed}")


def _log(context: Context, stream: Stream, draft: PendingDigest, packed: tuple[ChannelMessages, ...]) -> None:
    event = "digest.empty" if not packed else "digest.held" if draft.hold else "digest.queued"
    context.log.info(
        event,
        subscription=stream.subscription.name,
        stream=stream.name,
        digest=draft.digest.key[:12] if packed else None,
        deliveries=sum(len(each.messages) for each in packed) or None,
        reason=_why(draft),
    )
