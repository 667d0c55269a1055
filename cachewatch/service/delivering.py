"""Send what the state holds, parcel by parcel, and write down what became of each.

No transaction is open while a carrier works. A parcel whose answer we did not live to write
down is sent again: the same bytes under the same Message-ID.
"""

import random
from datetime import datetime, timedelta

from msgspec.structs import replace

from cachewatch.channels import open_channel
from cachewatch.deliveries import Answer, Carrier, Parcel, Verdict
from cachewatch.errors import CachewatchError
from cachewatch.safetext import safe
from cachewatch.service import alerts
from cachewatch.service.alerts import Alert, AlertKey, AlertKind
from cachewatch.service.context import Context
from cachewatch.service.readers import why_not
from cachewatch.service.reviewing import suppression
from cachewatch.store import digests, health, outbox, suppressions
from cachewatch.store.database import Connection
from cachewatch.store.outbox import OPEN, Delivery, State

# Minutes between attempts; the last one repeats.
_PAUSES = (1, 5, 15, 60, 240)
_BLOCKED = _LONGEST_ASKED = timedelta(hours=1)
_REFUSALS = 3


def deliver_all(context: Context) -> int:
    """Send everything that is due; return how many deliveries failed for good."""
    # Of what fails operators are told at once, perhaps through a channel that had its turn.
    return _deliver_due(context) + _deliver_due(context)


def _deliver_due(context: Context) -> int:
    with context.database.read() as connection:
        names = outbox.due_channels(connection, context.clock())
    return sum(deliver(context, name) for name in names)


def tell_of_gone(context: Context) -> None:
    """Tell operators of deliveries that wait for a channel which is not configured any more."""
    with context.database.read() as connection:
        names = outbox.due_channels(connection, context.clock())
    for name in names:
        if name not in context.config.channels:
            alerts.open_now(context, _unknown(name))


def deliver(context: Context, name: str) -> int:
    """Send everything that is due through one channel; return how many deliveries failed for good."""
    config = context.config.channels.get(name)
    if config is None:
        alerts.open_now(context, _unknown(name))
        return 0
    with context.database.read() as connection:
        fares = health.channel(connection, name)
    if fares.blocked_until is not None and fares.blocked_until > context.clock():
        return 0
    try:
        channel = open_channel(config)
        with channel.open(lambda target, most: _shelf(context, name, target, most)) as carrier:
            return _deliver_each(context, name, carrier)
    except CachewatchError as error:
        _block(context, name, str(error))
        return 0


def _shelf(context: Context, name: str, target: str, most: int) -> list[Parcel]:
    with context.database.read() as connection:
        return list(outbox.shelf(connection, name, target, most))


def _deliver_each(context: Context, name: str, carrier: Carrier) -> int:
    dead = 0
    while name in context.config.channels and not context.is_ending.is_set():
        found = _next(context, name)
        if found is None:
            break
        delivery, parcel = found
        answer = _attempt(carrier, parcel)
        state = _settle(context, delivery, answer)
        dead += state is State.DEAD
        if answer.verdict is Verdict.BLOCKED:
            _block(context, name, answer.said)
        if answer.verdict is Verdict.BLOCKED or answer.is_channel:
            break
    return dead


def _next(context: Context, name: str) -> tuple[Delivery, Parcel] | None:
    """Claim the next parcel that somebody still wants; those before it are given up."""
    with context.database.write() as connection:
        while (delivery := outbox.claim(connection, name, context.clock())) is not None:
            if not _is_dropped(connection, context, delivery):
                return delivery, outbox.parcel(connection, delivery.id)
    return None


def _is_dropped(connection: Connection, context: Context, delivery: Delivery) -> bool:
    """Give up a delivery to somebody who was taken out of the configuration since it was made."""
    subscription = digests.subscription_of(connection, delivery.digest)
    said = why_not(context.config, subscription, delivery.channel, delivery.target)
    if said:
        outbox.settle(connection, delivery, State.DROPPED, now=context.clock(), said=said, counts=False)
        context.log_within(connection).warning(
            "delivery.dropped", id=delivery.id, channel=delivery.channel, target=delivery.target, said=said
        )
    return bool(said)


def _attempt(carrier: Carrier, parcel: Parcel) -> Answer:
    try:
        return carrier.deliver(parcel)
    except Exception as error:  # noqa: BLE001  a bug of a channel must not lose a digest, nor stop the others
        return Answer(verdict=Verdict.DEFERRED, said=f"the channel failed: {safe(repr(error))}", may_have_arrived=True)


def _settle(context: Context, delivery: Delivery, answer: Answer) -> State:
    now = context.clock()
    with context.database.write() as connection:
        delivery = _end_blockade(connection, context, delivery, answer)
        state, due, said = _judge(connection, context, delivery, answer)
        outbox.settle(
            connection,
            delivery,
            state,
            now=now,
            said=said,
            due=due,
            may_have_arrived=answer.may_have_arrived,
            counts=answer.verdict is not Verdict.BLOCKED,
        )
        _note_channel(connection, delivery, answer, said, now)
        _note_target(connection, context, delivery, state, answer)
        health.count(connection, f'deliveries_total{{channel="{delivery.channel}",result="{state}"}}')
    say = context.log.info if state is State.SENT else context.log.warning
    say(f"delivery.{state}", id=delivery.id, channel=delivery.channel, target=delivery.target, said=said)
    return state


def _end_blockade(connection: Connection, context: Context, delivery: Delivery, answer: Answer) -> Delivery:
    """Note that the channel works, if it did not: what waited for it was not tried, so that time does not count."""
    name = delivery.channel
    if answer.verdict is Verdict.BLOCKED or answer.is_channel:
        return delivery
    key = AlertKey(AlertKind.CHANNEL_DOWN, name)
    since = alerts.resolve_within(connection, context, key, f"the channel {name} works again")
    if since is None:
        return delivery
    now = context.clock()
    for each in outbox.find(connection, states=OPEN, channel=name):
        outbox.prolong(connection, each.id, each.give_up + (now - max(since, each.created)))
    return outbox.delivery(connection, delivery.id) or delivery


def _judge(
    connection: Connection, context: Context, delivery: Delivery, answer: Answer
) -> tuple[State, datetime | None, str]:
    """Turn an answer into the delivery's new state, when it is due again, and the words for it."""
    now = context.clock()
    if answer.verdict is Verdict.SENT:
        return State.SENT, None, answer.said
    if answer.verdict is Verdict.DEAD:
        return State.DEAD, None, answer.said
    if answer.verdict is Verdict.BLOCKED:
        return State.QUEUED, now + _BLOCKED, answer.said
    if answer.verdict is Verdict.TOO_LARGE:
        return _shorten(connection, context, delivery, answer)
    if now >= delivery.give_up:
        return State.DEAD, None, f"given up after {(now - delivery.created).days} days: {answer.said}"
    return State.DEFERRED, now + max(_pause(delivery.attempts), _asked_for(answer)), answer.said


def _shorten(
    connection: Connection, context: Context, delivery: Delivery, answer: Answer
) -> tuple[State, datetime | None, str]:
    """Put the short form of the letter in the place of what was too large; if that was it, give up."""
    stored = digests.get(connection, delivery.digest)
    config = context.config.channels.get(delivery.channel)
    if stored is None or config is None:
        return State.DEAD, None, answer.said
    letter = replace(stored.short, to=(delivery.target,))
    shorter = next((p for p in open_channel(config).pack(letter) if p.target == delivery.target), None)
    if shorter is None or len(shorter.payload) >= len(outbox.parcel(connection, delivery.id).payload):
        return State.DEAD, None, answer.said
    outbox.replace_parcel(connection, delivery.id, shorter)
    return State.QUEUED, context.clock(), f"{answer.said}; in short next"


def _pause(attempts: int) -> timedelta:
    """Return how long to wait after so many attempts; not to the second, or what failed together comes back together."""
    minutes = _PAUSES[min(attempts, len(_PAUSES)) - 1]
    return timedelta(minutes=minutes) * random.uniform(0.9, 1.2)  # noqa: S311  nothing is to be kept secret


def _asked_for(answer: Answer) -> timedelta:
    return min(timedelta(seconds=answer.retry_after or 0), _LONGEST_ASKED)


def _note_channel(connection: Connection, delivery: Delivery, answer: Answer, said: str, now: datetime) -> None:
    fares = health.channel(connection, delivery.channel)
    if answer.verdict is Verdict.SENT:
        health.save_channel(connection, replace(fares, blocked_until=None, failures=0, sent_at=now))
        return
    # Where the server is away, the others wait with this one and use up no attempts.
    rest = now + _pause(fares.failures + 1) if answer.is_channel else fares.blocked_until
    failures = fares.failures + 1
    health.save_channel(connection, replace(fares, blocked_until=rest, failures=failures, error=said, error_at=now))


def _note_target(connection: Connection, context: Context, delivery: Delivery, state: State, answer: Answer) -> None:
    name, target = delivery.channel, delivery.target
    key = AlertKey(AlertKind.DELIVERY_FAILED, name, target)
    if state is State.SENT:
        alerts.resolve_within(connection, context, key, f"{target} can be reached again")
    if state is State.DEAD and not _is_suppressed(connection, context, delivery, answer):
        lines = (f"Delivery {delivery.id} through {name}: {answer.said}", "Nothing else is held up by it.")
        title = f"a digest could not be delivered to {target}"
        commands = (f"cachewatch deliveries show {delivery.id}", f"cachewatch deliveries retry {delivery.id}")
        alerts.open_within(connection, context, Alert(key=key, title=title, lines=lines, commands=commands))


def _is_suppressed(connection: Connection, context: Context, delivery: Delivery, answer: Answer) -> bool:
    """Leave out an address that refused several digests in a row; operators are notified of that instead."""
    name, target = delivery.channel, delivery.target
    if not answer.is_address or suppressions.refusals_in_a_row(connection, name, target) < _REFUSALS:
        return False
    suppressions.suppress(connection, name, target, answer.said, context.clock())
    alerts.resolve_within(connection, context, AlertKey(AlertKind.DELIVERY_FAILED, name, target), "")
    alerts.open_within(connection, context, suppression(name, target, answer.said))
    return True


def _block(context: Context, name: str, said: str) -> None:
    """Let a whole channel rest; what waits for it uses up no attempts."""
    now = context.clock()
    with context.database.write() as connection:
        fares = health.channel(connection, name)
        fares = replace(fares, blocked_until=now + _BLOCKED, failures=fares.failures + 1, error=said, error_at=now)
        health.save_channel(connection, fares)
        alerts.open_within(connection, context, _blockade(name, said))
    context.log.error("channel.blocked", channel=name, error=said)


def _blockade(name: str, said: str) -> Alert:
    return Alert(
        key=AlertKey(AlertKind.CHANNEL_DOWN, name),
        title=f"the channel {name} does not work",
        lines=(said, "What waits for it is kept and tried every hour, or at once after a reload or a restart."),
        avoid=(name,),
    )


def _unknown(name: str) -> Alert:
    return Alert(
        key=AlertKey(AlertKind.CHANNEL_DOWN, name),
        title=f"the channel {name} is not configured any more",
        lines=("Deliveries wait for it: configure it again, and they go out, or drop them.",),
        commands=(
            f"cachewatch deliveries list --open --channel {name}",
            "cachewatch deliveries drop NUMBER --reason '...'",
        ),
        avoid=(name,),
    )


def unblock(context: Context) -> None:
    """Try every channel again: the configuration was loaded anew, perhaps to mend one."""
    for name in context.config.channels:
        with context.database.write() as connection:
            fares = health.channel(connection, name)
            health.save_channel(connection, replace(fares, blocked_until=None))
            outbox.hasten(connection, name, context.clock())
