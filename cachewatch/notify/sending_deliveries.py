"""Send the queued messages one by one, and record the result of each.

No transaction is open while a transport works: a delivery is claimed by a lease that outlives any
attempt. An answer that cannot be written down is kept in memory, and tried again. A message whose
answer we did not live to write down is sent again: the same bytes under the same Message-ID.
"""

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.channels import open_channel
from cachewatch.core.delivery import DeliveryOutcome, DeliveryResult, Message, Transport
from cachewatch.core.untrusted_text import safe
from cachewatch.errors import DamagedRow, StateError
from cachewatch.notify import alerts, outages
from cachewatch.notify.alert_review import suppression
from cachewatch.notify.alerts import Alert, AlertKey, AlertKind
from cachewatch.notify.backoff import BLOCKED, LONGEST_ASKED, pause
from cachewatch.notify.damaged_rows import rebuilt, repair
from cachewatch.notify.notice_sentences import days
from cachewatch.notify.pass_context import Context
from cachewatch.notify.recipients import why_not
from cachewatch.notify.recovery import recover
from cachewatch.notify.wrong_clocks import lease as lease_of
from cachewatch.runtime.log import said_of, traceback_of
from cachewatch.store import digests, health, outbox, suppressions
from cachewatch.store.database import Connection
from cachewatch.store.health import Counter
from cachewatch.store.outbox import OPEN, Delivery, Lease, State

_REFUSALS = 3
# Seconds between attempts to write an answer down; then it is the next run's turn.
_PATIENCE = (1.0, 2.0, 4.0, 8.0)


class _Outcome(Struct, frozen=True):
    """What follows from an answer."""

    state: State
    said: str
    due: datetime | None = None
    shorter: Message | None = None  # to be sent instead


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
    dead = _settle_unwritten(context, name)
    recover(context)
    return dead + _deliver(context, name)


def _deliver(context: Context, name: str) -> int:
    config = context.config.channels.get(name)
    if config is None:
        alerts.open_now(context, _unknown(name))
        return 0
    with context.database.read() as connection:
        channel_health = health.channel(connection, name)
    if channel_health.blocked_until is not None and channel_health.blocked_until > context.clock():
        return 0
    try:
        channel = open_channel(config)
        with channel.open(lambda target, most: _shelf(context, name, target, most)) as transport:
            lease = Lease(owner=context.owner, lasting=lease_of(context.config, name))
            return _deliver_each(context, name, transport, lease)
    except StateError:
        raise  # the channel is not to blame
    except Exception as error:  # noqa: BLE001  whatever a channel raises stops only itself
        _block(context, name, said_of(error), traceback_of(error))
        return 0


def _shelf(context: Context, name: str, target: str, most: int) -> list[Message]:
    with context.database.read() as connection:
        found = outbox.sent_history(connection, name, target, most, partial(rebuilt, connection, context))
    return list(_in_time(found, context.clock()))[::-1]


def _in_time(newest_first: Sequence[Message], now: datetime) -> Iterator[Message]:
    """Yield messages oldest first; one that a clock made that was ahead gets the time of the one before it."""
    before = datetime.fromtimestamp(0, UTC)
    for message in reversed(newest_first):
        before = message.created if message.created <= now else before
        yield replace(message, created=before)


def _deliver_each(context: Context, name: str, transport: Transport, lease: Lease) -> int:
    dead = 0
    while name in context.config.channels and not context.is_ending.is_set():
        found = _next(context, name, lease)
        if found is None:
            break
        delivery, message = found
        if message is None:
            _bury(context, delivery)
            dead += 1
            continue
        answer = _attempt(transport, message)
        state = _settle(context, delivery, answer)
        dead += state is State.DEAD
        if answer.outcome is DeliveryOutcome.BLOCKED:
            _block(context, name, answer.detail)
        if answer.outcome is DeliveryOutcome.BLOCKED or answer.is_channel:
            break
    return dead


def _next(context: Context, name: str, lease: Lease) -> tuple[Delivery, Message | None] | None:
    """Claim the next message that somebody still wants; those before it are given up. One that is damaged for good is None."""
    with context.database.write() as connection:
        while (delivery := outbox.claim(connection, name, context.clock(), lease)) is not None:
            message = _message(connection, context, delivery)
            # Whom damaged bytes are for cannot be known, so that they are not judged by it.
            if message is None or not _is_dropped(connection, context, delivery):
                return delivery, message
    return None


def _message(connection: Connection, context: Context, delivery: Delivery) -> Message | None:
    try:
        found = outbox.message(connection, delivery.id)
        if found.payload:
            return found
    except DamagedRow:
        pass
    return repair(connection, context, delivery)


def _bury(context: Context, delivery: Delivery) -> None:
    """Give up a delivery whose bytes are lost."""
    said = "its stored bytes are damaged, and cannot be rebuilt from the digest; the database may have more damage"
    with context.database.write() as connection:
        if outbox.settle(connection, delivery, State.DEAD, now=context.clock(), said=said):
            answer = DeliveryResult(outcome=DeliveryOutcome.DEAD, detail=said)
            _note_target(connection, context, delivery, _Outcome(State.DEAD, said), answer)
    context.log_of(delivery).error("delivery.dead", said=said)


def _is_dropped(connection: Connection, context: Context, delivery: Delivery) -> bool:
    """Give up a delivery to somebody who was taken out of the configuration since it was made."""
    subscription = digests.subscription_of(connection, delivery.digest)
    said = why_not(context.config, subscription, delivery.channel, delivery.target)
    if said:
        outbox.settle(connection, delivery, State.DROPPED, now=context.clock(), said=said, counts=False)
        context.log_within(connection, delivery).warning("delivery.dropped", said=said)
    return bool(said)


def _attempt(transport: Transport, message: Message) -> DeliveryResult:
    try:
        return transport.deliver(message)
    except Exception as error:  # noqa: BLE001  a bug of a channel must not lose a digest, nor stop the others
        return DeliveryResult(
            outcome=DeliveryOutcome.DEFERRED, detail=f"the channel failed: {safe(repr(error))}", may_have_arrived=True
        )


def _settle_unwritten(context: Context, name: str) -> int:
    """Write down the answers of a channel that could not be; return how many deliveries failed for good."""
    kept = [found for found in list(context.unwritten.values()) if found[0].channel == name]
    return sum(_settle(context, delivery, answer) is State.DEAD for delivery, answer in kept)


def _settle(context: Context, delivery: Delivery, answer: DeliveryResult) -> State | None:
    """Write an answer down, and return the state that follows, if the delivery is still ours.

    Raises StateError where the state cannot be written for long, and keeps the answer for the next run:
    without it, what was sent would be sent again.
    """
    is_known = context.unwritten.pop(delivery.id, None) is not None
    for seconds in (*_PATIENCE, None):
        try:
            return _write_down(context, delivery, answer)
        except StateError as error:
            if not is_known:
                context.log.error("answer.unwritten", id=delivery.id, said=answer.detail, error=str(error))
            is_known = True
            if seconds is None:
                context.unwritten[delivery.id] = delivery, answer
                raise
            time.sleep(seconds)
    raise AssertionError("the last attempt either returned or raised")


def _write_down(context: Context, delivery: Delivery, answer: DeliveryResult) -> State | None:
    now = context.clock()
    with context.database.write() as connection:
        delivery = _end_blockade(connection, context, delivery, answer)
        outcome = _judge(connection, context, delivery, answer)
        is_ours = outbox.settle(
            connection,
            delivery,
            outcome.state,
            now=now,
            said=outcome.said,
            due=outcome.due,
            may_have_arrived=answer.may_have_arrived,
            counts=answer.outcome is not DeliveryOutcome.BLOCKED,
        )
        _note_channel(connection, delivery, answer, outcome.said, now)
        if is_ours:
            _note_target(connection, context, delivery, outcome, answer)
    log = context.log_of(delivery).bind(said=outcome.said)
    if not is_ours:
        log.warning("answer.late")
        return None
    say = log.info if outcome.state is State.SENT else log.warning
    say(f"delivery.{outcome.state}")
    return outcome.state


def _end_blockade(connection: Connection, context: Context, delivery: Delivery, answer: DeliveryResult) -> Delivery:
    """Note that the channel works, if it did not: what waited for it was not tried, so that time does not count."""
    name = delivery.channel
    if answer.outcome is DeliveryOutcome.BLOCKED or answer.is_channel:
        return delivery
    key = AlertKey(AlertKind.CHANNEL_DOWN, name)
    since = alerts.resolve_within(connection, context, key, f"the channel {name} works again")
    if since is None:
        return delivery
    now = context.clock()
    for each in outbox.find(connection, states=OPEN, channel=name):
        lost = now - max(since, each.created)
        outbox.prolong(connection, each.id, min(each.give_up + lost, now + outages.longest(context.config, name)))
    prolonged = outbox.delivery(connection, delivery.id)
    return delivery if prolonged is None else replace(delivery, give_up=prolonged.give_up)


def _judge(connection: Connection, context: Context, delivery: Delivery, answer: DeliveryResult) -> _Outcome:
    """Turn an answer into what follows from it."""
    now = context.clock()
    if answer.outcome is DeliveryOutcome.SENT:
        return _Outcome(State.SENT, answer.detail)
    if answer.outcome is DeliveryOutcome.DEAD:
        return _Outcome(State.DEAD, answer.detail)
    if answer.outcome is DeliveryOutcome.BLOCKED:
        return _Outcome(State.QUEUED, answer.detail, due=now + BLOCKED)
    if answer.outcome is DeliveryOutcome.TOO_LARGE:
        return _shortened(connection, context, delivery, answer)
    if now >= delivery.give_up:
        return _Outcome(State.DEAD, f"given up after {days(now - delivery.created)}: {answer.detail}")
    return _Outcome(State.DEFERRED, answer.detail, due=now + max(pause(delivery.attempts), _asked_for(answer)))


def _shortened(connection: Connection, context: Context, delivery: Delivery, answer: DeliveryResult) -> _Outcome:
    """Return the short form of the digest, which takes the place of what was too large; if that was it, give up."""
    config = context.config.channels.get(delivery.channel)
    try:
        stored, size = digests.get(connection, delivery.digest), len(outbox.message(connection, delivery.id).payload)
    except DamagedRow as error:
        return _Outcome(State.DEAD, f"{answer.detail}; {error}")
    if stored is None or config is None:
        return _Outcome(State.DEAD, answer.detail)
    rendered = replace(stored.short, to=(delivery.target,))
    shorter = next((p for p in open_channel(config).build_messages(rendered) if p.target == delivery.target), None)
    if shorter is None or len(shorter.payload) >= size:
        return _Outcome(State.DEAD, answer.detail)
    return _Outcome(State.QUEUED, f"{answer.detail}; in short next", due=context.clock(), shorter=shorter)


def _asked_for(answer: DeliveryResult) -> timedelta:
    return min(timedelta(seconds=answer.retry_after or 0), LONGEST_ASKED)


def _note_channel(connection: Connection, delivery: Delivery, answer: DeliveryResult, said: str, now: datetime) -> None:
    channel_health = health.channel(connection, delivery.channel)
    if answer.outcome is DeliveryOutcome.SENT:
        health.save_channel(connection, replace(channel_health, blocked_until=None, failures=0, sent_at=now))
        return
    # Where the server is away, the others wait with this one and use up no attempts.
    rest = now + pause(channel_health.failures + 1) if answer.is_channel else channel_health.blocked_until
    failures = channel_health.failures + 1
    health.save_channel(
        connection, replace(channel_health, blocked_until=rest, failures=failures, error=said, error_at=now)
    )


def _note_target(
    connection: Connection, context: Context, delivery: Delivery, outcome: _Outcome, answer: DeliveryResult
) -> None:
    name, target = delivery.channel, delivery.target
    key = AlertKey(AlertKind.DELIVERY_FAILED, name, target)
    health.count(connection, Counter.of("deliveries_total", channel=name, result=outcome.state))
    if outcome.shorter is not None:
        outbox.replace_message(connection, delivery.id, outcome.shorter)
    if outcome.state is State.SENT:
        alerts.resolve_within(connection, context, key, f"{target} can be reached again")
    if outcome.state is State.DEAD and not _is_suppressed(connection, context, delivery, answer):
        lines = (f"Delivery {delivery.id} through {name}: {answer.detail}", "Other deliveries are not affected.")
        title = f"a digest could not be delivered to {target}"
        commands = (f"cachewatch deliveries show {delivery.id}", f"cachewatch deliveries retry {delivery.id}")
        alerts.open_within(connection, context, Alert(key=key, title=title, lines=lines, commands=commands))


def _is_suppressed(connection: Connection, context: Context, delivery: Delivery, answer: DeliveryResult) -> bool:
    """Leave out an address that refused several digests in a row; operators are notified of that instead."""
    name, target = delivery.channel, delivery.target
    if not answer.is_address or suppressions.refusals_in_a_row(connection, name, target) < _REFUSALS:
        return False
    suppressions.suppress(connection, name, target, answer.detail, context.clock())
    alerts.resolve_within(connection, context, AlertKey(AlertKind.DELIVERY_FAILED, name, target), "")
    alerts.open_within(connection, context, suppression(name, target, answer.detail))
    return True


def _block(context: Context, name: str, said: str, traceback: str | None = None) -> None:
    """Let a whole channel rest; what waits for it uses up no attempts."""
    now = context.clock()
    with context.database.write() as connection:
        channel_health = health.channel(connection, name)
        channel_health = replace(
            channel_health, blocked_until=now + BLOCKED, failures=channel_health.failures + 1, error=said, error_at=now
        )
        health.save_channel(connection, channel_health)
        alerts.open_within(connection, context, _blockade(name, said))
    context.log.error("channel.blocked", channel=name, error=said, traceback=traceback)


def _blockade(name: str, said: str) -> Alert:
    return Alert(
        key=AlertKey(AlertKind.CHANNEL_DOWN, name),
        title=f"the channel {name} does not work",
        lines=(said, "Waiting deliveries are kept and retried every hour, or at once after a reload or a restart."),
        avoid=(name,),
    )


def _unknown(name: str) -> Alert:
    return Alert(
        key=AlertKey(AlertKind.CHANNEL_DOWN, name),
        title=f"the channel {name} is no longer configured",
        lines=("Deliveries wait for it: configure it again to send them, or drop them.",),
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
            channel_health = health.channel(connection, name)
            health.save_channel(connection, replace(channel_health, blocked_until=None))
            outbox.hasten(connection, name, context.clock())
