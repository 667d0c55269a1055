"""Make the digest of a track that is due, and store it with its deliveries and cursors at once.

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
from cachewatch.notify.composing import Draft, compose, unconfirmed
from cachewatch.notify.context import Context
from cachewatch.notify.held import waits_no_more
from cachewatch.notify.messages import Packed, pack
from cachewatch.notify.sharing import Comparisons
from cachewatch.notify.streams import Track
from cachewatch.store import cursors, digests, health, held, outbox, slots
from cachewatch.store.cursors import Advance
from cachewatch.store.database import Connection
from cachewatch.store.digests import DigestState, Stored
from cachewatch.store.held import Hold
from cachewatch.store.outbox import State
from cachewatch.store.slots import Slot

_A_MONTH = timedelta(days=28)


class _Held(Struct, frozen=True):
    keys: list[str]  # of the digests of a track
    holds: tuple[Hold, ...]


def announce(context: Context, track: Track, comparisons: Comparisons) -> None:
    """Make and store the digest of `track` if it is due; a failure is told to operators."""
    key = AlertKey(AlertKind.DIGEST_FAILED, track.subscription.name, track.name)
    name = f"{track.subscription.name}/{track.name}"
    try:
        pending.begin(context, track)
        _announce(context, track, comparisons)
    except CachewatchError as error:
        context.go_on()  # whatever it worked with was perhaps ended by us
        title = f"digests cannot be created for {name}"
        alerts.open_now(context, Alert(key=key, title=title, lines=(str(error),)))
        # After that: where nothing can be stored, it is no fault of this digest.
        context.log.error("digest.failed", subscription=track.subscription.name, track=track.name, error=str(error))
    else:
        alerts.resolve_now(context, key, f"digests can be created again for {name}")


def _announce(context: Context, track: Track, comparisons: Comparisons) -> None:
    now = context.clock()
    slot = pending.due_slot(context, track, now)
    if is_quiet(context.config.quiet, now):
        return  # held, and merged into the first digest afterwards
    was_held = _held(context, track, now)
    has_waited = bool(was_held.keys) and waits_no_more(context.config, track, was_held.holds, was_held.holds, now)
    if slot is None and not has_waited and not (track.is_each_revision and pending.has_news(context, track)):
        return
    draft = compose(context, track, occasion=slot.due.isoformat() if slot else "", comparisons=comparisons)
    if draft.hold and not has_waited and pending.is_held(context, track, draft.advances):
        # Operators were asked about this very step, and have not answered yet.
        _let_pass(context, track, slot, now)
        return
    if draft.hold and waits_no_more(context.config, track, draft.holds, was_held.holds, now):
        draft = unconfirmed(draft)
    packed = () if _is_left_out(context, track, draft, now) else pack(context.config, track, draft.digest)
    context.pin(draft.advances)
    with context.database.write() as connection:
        if digests.held(connection, track.subscription.name, track.name) != was_held.keys:
            return  # an operator answered meanwhile: the next pass goes on from there
        _store(connection, context, track, draft, packed)
        if slot is not None:
            _finish(connection, track, slot, draft.digest.key if packed else None, now)
    _log(context, track, draft, packed)


def _held(context: Context, track: Track, now: datetime) -> _Held:
    """Return what of a track is held, and for what; the time of what an older version held begins now."""
    where = track.subscription.name, track.name
    with context.database.read() as connection:
        found = _Held(digests.held(connection, *where), held.holds_of(connection, *where))
    if all(hold.counted_from is not None for hold in found.holds):
        return found
    with context.database.write() as connection:
        for hold in found.holds:
            held.count_from(connection, *where, hold.event, hold.counted_from or now)
    return _Held(found.keys, tuple(replace(hold, counted_from=hold.counted_from or now) for hold in found.holds))


def _let_pass(context: Context, track: Track, slot: Slot | None, now: datetime) -> None:
    if slot is not None:
        with context.database.write() as connection:
            _finish(connection, track, slot, None, now)


def _finish(connection: Connection, track: Track, slot: Slot, digest: str | None, now: datetime) -> None:
    slots.finish(connection, slot, digest, now)
    slots.plan(connection, slot.subscription, slot.track, track.schedule_text, track.schedule.next_after(now))


def _is_left_out(context: Context, track: Track, draft: Draft, now: datetime) -> bool:
    """Tell whether there is nothing to send: nothing happened, and nobody wants to hear that."""
    if not draft.is_empty:
        return False
    if track.is_urgent or track.subscription.if_empty == "skip":
        return True
    if track.subscription.if_empty == "send":
        return False
    with context.database.read() as connection:
        last = digests.last_created(connection, track.subscription.name, track.name)
    return last is not None and now - last < _A_MONTH


def _store(connection: Connection, context: Context, track: Track, draft: Draft, packed: tuple[Packed, ...]) -> None:
    now = context.clock()
    for key in digests.held(connection, track.subscription.name, track.name):
        digests.settle(connection, key, DigestState.SUPERSEDED, "a newer digest covers it", now)
    if draft.hold:
        held.hold(connection, track.subscription.name, track.name, draft.holds, now)
    else:
        held.let_go(connection, track.subscription.name, track.name)
    if not (packed and draft.hold):
        cursors.advance(connection, _certain(draft), now)
    if packed:
        _tell_of_templates(connection, context, track, next((each.problem for each in packed if each.problem), ""))
        _store_digest(connection, track, draft, packed, now)


def _certain(draft: Draft) -> tuple[Advance, ...]:
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
    connection: Connection, track: Track, draft: Draft, packed: tuple[Packed, ...], now: datetime
) -> None:
    stored = Stored(
        key=draft.digest.key,
        subscription=track.subscription.name,
        track=track.name,
        state=DigestState.HELD if draft.hold else DigestState.READY,
        title=packed[0].letter.title,
        period=draft.digest.period,
        created=now,
        reason=_why(draft),
        advances=draft.advances if draft.hold else (),
        letter=packed[0].letter,
        short=packed[0].short,
    )
    digests.add(connection, stored)
    state = State.HELD if draft.hold else State.QUEUED
    for each in packed:
        for parcel in each.parcels:
            outbox.add(connection, each.channel, parcel, state=state, lasting=each.lasting)
    health.count(connection, f'digests_total{{subscription="{track.subscription.name}",result="{stored.state}"}}')


def _tell_of_templates(connection: Connection, context: Context, track: Track, problem: str) -> None:
    name = track.subscription.name
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


def _why(draft: Draft) -> str:
    """Say why a digest is held, or that it goes out without an answer."""
    return draft.hold or (draft.digest.unconfirmed and f"not confirmed by the operators: {draft.digest.unconfirmed}")


def _log(context: Context, track: Track, draft: Draft, packed: tuple[Packed, ...]) -> None:
    event = "digest.empty" if not packed else "digest.held" if draft.hold else "digest.queued"
    context.log.info(
        event,
        subscription=track.subscription.name,
        track=track.name,
        digest=draft.digest.key[:12] if packed else None,
        deliveries=sum(len(each.parcels) for each in packed) or None,
        reason=_why(draft),
    )
