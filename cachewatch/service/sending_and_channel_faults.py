"""Send the queued messages one by one, and store the result of each.

No transaction is open while a message is sent: a delivery is claimed before. If the process ends before it stored a
result, the message is sent again: the same bytes with the same Message-ID.

In order: the channel returns a DeliveryResult, which has a DeliveryOutcome and the server's reply; `_Run` may decide
that the channel is at fault; `_judge` makes an `_Outcome` of the result, the DeliveryState and the reason to store.
"""

import re
import socket
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.escaping_and_mentions import safe
from cachewatch.errors import DamagedRow, StateError
from cachewatch.report.dates_and_totals import how_long
from cachewatch.report.digest_and_message_values import (
    DeliveryOutcome,
    DeliveryResult,
    Message,
    Transport,
    open_channel,
)
from cachewatch.runtime.files_and_locks import shared_kind
from cachewatch.runtime.log import error_message, traceback_of
from cachewatch.service import alerts_and_silent_sources as alerts
from cachewatch.service import recipients_and_retries as recipients
from cachewatch.service.alerts_and_silent_sources import Alert
from cachewatch.service.context_and_source_copies import Context
from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store import digests_and_holds as digests
from cachewatch.store import health_and_alerts as health
from cachewatch.store.delivery_queue_and_order import OPEN, Delivery, DeliveryState
from cachewatch.store.health_and_alerts import AlertKey, AlertKind, Counter
from cachewatch.store.transactions_and_sqlite import Connection

# After so many failures of a channel in a row, operators are alerted.
_AWAY = 3
# A run through a channel ends after the connection was lost, or timed out, over so many messages in a row.
_MOST_LOST = 3
# Where a message was refused, and with which codes: RCPT: 550 5.7.1
_CODES = re.compile(r"[^:(]*: (\d{3}( \d\.\d{1,3}\.\d{1,3})?|\w+)")
# Seconds between attempts to store a result; after these, the next run does it.
_PATIENCE = (1.0, 2.0, 4.0, 8.0)
_DAMAGED = "its stored bytes are damaged; `cachewatch state check` looks for more, and a backup has what was stored"

_Answered = tuple[Delivery, DeliveryResult]
_Claimed = tuple[Delivery, Message]


class _Outcome(Struct, frozen=True):
    state: DeliveryState
    said: str
    due: datetime | None = None
    shorter: Message | None = None  # a short form to send instead


def deliver_all(context: Context, *, is_last: bool) -> None:
    """Send what is due through all channels; `is_last` as in `deliver`."""
    for _ in range(2):  # the second time for notices of failures, perhaps through a channel that was used before
        with context.database.read() as connection:
            due = deliveries.due_channels(connection, context.clock())
        notices = context.notices
        for name in due:
            deliver(context, name, is_last=is_last)
        if context.notices == notices:
            break


def report_removed_channels(context: Context) -> None:
    """Open an alert for each channel that has waiting deliveries but is no longer configured."""
    with context.database.read() as connection:
        names = deliveries.due_channels(connection, context.clock())
    for name in names:
        if name not in context.config.channels:
            alerts.open_now(context, _channel_alert(name))


def deliver(context: Context, name: str, *, is_last: bool = True) -> None:
    """Send what is due through channel `name`; unless it `is_last` in a pass, leave refusals for the next run."""
    for answered in list(context.unwritten.values()):  # results that could not be stored before
        if answered[0].channel == name:
            _settle(context, *answered)
    context.database.check_place()
    config = context.config.channels.get(name)
    if config is None:
        alerts.open_now(context, _channel_alert(name))
        return
    with context.database.read() as connection:
        is_blocked = health.channel(connection, name).is_blocked(context.clock())
        is_interrupted = bool(deliveries.find(connection, states=(DeliveryState.SENDING,), channel=name, limit=1))
    if is_interrupted:
        _release_claims(context, name, context.clock() + recipients.longest_attempt(config))
    if is_blocked:
        return
    try:
        with open_channel(config).open(lambda target, most: _sent_before(context, name, target, most)) as transport:
            run, claimed = _Run(context, name, is_last=is_last), _next(context, name)
            while claimed is not None:
                delivery, message = claimed
                claimed = run.take(delivery, _attempt(transport, message))
            run.end()
    except StateError:
        raise  # the channel is not to blame
    except Exception as error:  # noqa: BLE001  whatever a channel raises stops only itself
        _block(context, name, error_message(error), traceback_of(error))


def _release_claims(context: Context, name: str, later: datetime) -> None:
    """Queue interrupted deliveries of channel `name` again: those of this host now, those of others at `later`."""
    host, now = f"{socket.gethostname()}/", context.clock()
    is_alone = not context.database.is_shared and not shared_kind(context.config.folder)
    with context.database.write() as connection:
        claimed = deliveries.find(connection, states=(DeliveryState.SENDING,), channel=name)
        for each in claimed:
            is_ours = is_alone or (each.claimed_by or "").startswith(host)
            deliveries.requeue(connection, each.id, now if is_ours else later, now)
    context.log.warning("deliveries.interrupted", channel=name, count=len(claimed))


def _sent_before(context: Context, name: str, target: str, most: int) -> list[Message]:
    """Return the last `most` messages to `target`, newest first; a future date becomes that of the message before."""
    with context.database.read() as connection:
        newest_first = deliveries.sent_history(connection, name, target, most)
    now, before, messages = context.clock(), datetime.fromtimestamp(0, UTC), []
    for message in reversed(newest_first):
        before = message.created if message.created <= now else before
        messages.append(replace(message, created=before))
    return messages[::-1]


class _Run:
    """One run of deliveries through a channel, which decides from all results whose fault a failure is.

    If several recipients are refused alike and none is accepted, if the connection is lost over each message, or if
    each raises an error, the channel is at fault, and no delivery counts that as an attempt.
    """

    def __init__(self, context: Context, name: str, *, is_last: bool) -> None:
        self._context, self._name, self._is_last = context, name, is_last
        self._undecided: list[_Answered] = []
        self._has_worked = False

    def take(self, delivery: Delivery, answer: DeliveryResult) -> _Claimed | None:
        """Store the result `answer`, or keep it until its cause is known; return the next message, or None to end."""
        is_blocked = answer.outcome is DeliveryOutcome.BLOCKED
        if is_blocked or answer.is_channel:
            self.end(is_away=True)
            _settle(self._context, delivery, answer)
            if is_blocked:
                _block(self._context, self._name, answer.detail)
            return None
        is_refused = answer.outcome in (DeliveryOutcome.DEAD, DeliveryOutcome.RAISED) and not self._has_worked
        if answer.is_lost or is_refused:
            self._undecided.append((delivery, answer))
            # Each lost connection may have taken minutes.
            is_over = sum(each.is_lost for _, each in self._undecided) >= _MOST_LOST
            return None if is_over else _next(self._context, self._name)
        if answer.outcome is not DeliveryOutcome.DEFERRED:
            self._has_worked = True
            for each in self._undecided:
                _settle(self._context, *each)
            self._undecided = []
        return _settle(self._context, delivery, answer, goes_on=True)

    def end(self, *, is_away: bool = False) -> None:
        """Decide and store the results that are still undecided; `is_away`: the server cannot be reached."""
        alike = defaultdict[str, list[_Answered]](list)
        for delivery, answer in self._undecided:
            # Equal refusals have the step and the codes of the server in common, even if their words differ.
            codes = _CODES.match(answer.detail)
            alike["lost" if answer.is_lost else codes[0] if codes else answer.detail].append((delivery, answer))
        self._undecided = []
        # Last the channel's own faults: storing any other result marks the channel as working.
        for group in sorted(alike.values(), key=partial(_is_at_fault, is_away=is_away)):
            if _is_at_fault(group, is_away=is_away):
                self._pause_channel(group)
            elif not self._is_last and group[0][1].outcome is DeliveryOutcome.DEAD:
                now, queued = self._context.clock(), DeliveryState.QUEUED
                with self._context.database.write() as connection:  # retried with the later deliveries of the pass
                    for delivery, answer in group:
                        deliveries.settle(connection, delivery, queued, now=now, said=answer.detail, counts=False)
            else:
                for each in group:  # the fault of its own message
                    _settle(self._context, *each)

    def _pause_channel(self, group: Sequence[_Answered]) -> None:
        first = group[0][1]
        if not first.is_lost:
            said = f"{len(group)} recipients were refused alike, and none was accepted: {first.detail}"
            _block(self._context, self._name, first.detail if first.outcome is DeliveryOutcome.RAISED else said)
        outcome = DeliveryOutcome.DEFERRED if first.is_lost else DeliveryOutcome.BLOCKED
        for delivery, answer in group:
            _settle(self._context, delivery, replace(answer, outcome=outcome, is_channel=True, is_address=False))


def _is_at_fault(group: Sequence[_Answered], *, is_away: bool) -> bool:
    answers = [answer for _, answer in group]
    if answers[0].outcome is DeliveryOutcome.RAISED or (answers[0].is_lost and is_away):
        return True
    # A single refused recipient shows nothing about the channel, nor does a digest whose content is refused.
    targets, digests_sent = {each.target for each, _ in group}, {each.digest for each, _ in group}
    is_refused = all(answer.is_address or answer.is_lost for answer in answers)
    return len(targets) > 1 and (is_refused or len(digests_sent) > 1)


def _next(context: Context, name: str) -> _Claimed | None:
    with context.database.write() as connection:
        return _claim(connection, context, name)


def _claim(connection: Connection, context: Context, name: str) -> _Claimed | None:
    """Claim and return the next message of the channel `name`; None if none is due.

    Drop deliveries to recipients that are no longer configured; mark deliveries with damaged messages as dead.
    """
    if name not in context.config.channels or context.is_ending.is_set():
        return None
    while (delivery := deliveries.claim(connection, name, context.clock(), context.owner)) is not None:
        now, log, message = context.clock(), context.log_within(connection, delivery), None
        with suppress(DamagedRow):
            message = deliveries.message(connection, delivery.id)
        if message is None or not message.payload:
            deliveries.settle(connection, delivery, DeliveryState.DEAD, now=now, said=_DAMAGED)
            damaged = DeliveryResult(DeliveryOutcome.DEAD, _DAMAGED)
            _note_target(connection, context, delivery, _Outcome(DeliveryState.DEAD, _DAMAGED), damaged)
            log.error("delivery.dead", said=_DAMAGED)
            continue
        # In a shared state, another host, whose configuration names the recipient, may have queued it.
        why = "" if context.database.is_shared else recipients.why_not(connection, context.config, delivery)
        if not why:
            return delivery, message
        deliveries.settle(connection, delivery, DeliveryState.DROPPED, now=now, said=why, counts=False)
        log.warning("delivery.dropped", said=why)
    return None


def _attempt(transport: Transport, message: Message) -> DeliveryResult:
    try:
        return transport.deliver(message)
    except Exception as error:  # noqa: BLE001  a bug of a channel must not lose a digest, nor stop the others
        said = f"the channel failed: {safe(repr(error))}"
        return DeliveryResult(DeliveryOutcome.RAISED, said, may_have_arrived=True, traceback=traceback_of(error))


def _settle(context: Context, delivery: Delivery, answer: DeliveryResult, *, goes_on: bool = False) -> _Claimed | None:
    """Store the result `answer` of a delivery; if `goes_on`, claim and return the next message, else return None.

    Raises StateError if the state cannot be written for long; the result is then kept in `context` for the next run,
    because otherwise the message would be sent again.
    """
    is_known = context.unwritten.pop(delivery.id, None) is not None
    patience = iter(_PATIENCE)
    while True:
        try:
            return _write_down(context, delivery, answer, goes_on=goes_on)
        except StateError as error:
            if not is_known:
                context.log.error("answer.unwritten", id=delivery.id, said=answer.detail, error=str(error))
            is_known, seconds = True, next(patience, None)
            if seconds is None:
                context.unwritten[delivery.id] = delivery, answer
                raise
            time.sleep(seconds)


def _write_down(context: Context, delivery: Delivery, answer: DeliveryResult, *, goes_on: bool) -> _Claimed | None:
    now, is_away = context.clock(), answer.outcome is DeliveryOutcome.BLOCKED or answer.is_channel
    with context.database.write() as connection:
        delivery = delivery if is_away or answer.is_lost else _note_channel_works(connection, context, delivery)
        outcome = _judge(connection, context, delivery, answer)
        event = "away" if answer.is_channel and outcome.state is DeliveryState.DEFERRED else ""
        is_ours = deliveries.settle(
            connection,
            delivery,
            outcome.state,
            now=now,
            said=outcome.said,
            due=outcome.due,
            may_have_arrived=answer.may_have_arrived,
            counts=not is_away,
            event=deliveries.REFUSED if answer.is_refused else event,
        )
        _note_channel(connection, context, delivery, answer, outcome.said)
        log = context.log_within(connection, delivery).bind(said=outcome.said, traceback=answer.traceback)
        if is_ours:
            _note_target(connection, context, delivery, outcome, answer)
            write = {DeliveryState.SENT: log.info, DeliveryState.DEAD: log.error}.get(outcome.state, log.warning)
            write(f"delivery.{outcome.state}")
        else:
            log.warning("answer.late")
        return _claim(connection, context, delivery.channel) if goes_on else None


def _note_channel_works(connection: Connection, context: Context, delivery: Delivery) -> Delivery:
    """Mark a channel as working again; prolong its deliveries by the time it was down. Return the new `delivery`."""
    name = delivery.channel
    key = AlertKey(AlertKind.CHANNEL_DOWN, name)
    since = alerts.resolve_within(connection, context, key, f"the channel {name} works again")
    if since is None:
        return delivery
    now, give_up = context.clock(), delivery.give_up
    most = now + recipients.retried_for(context.config, name)
    for each in deliveries.find(connection, states=OPEN, channel=name):
        prolonged = min(each.give_up + (now - max(since, each.created)), most)
        deliveries.prolong(connection, each.id, prolonged)
        give_up = prolonged if each.id == delivery.id else give_up
    return replace(delivery, give_up=give_up)


def _judge(connection: Connection, context: Context, delivery: Delivery, answer: DeliveryResult) -> _Outcome:
    now = context.clock()
    if answer.outcome is DeliveryOutcome.SENT:
        return _Outcome(DeliveryState.SENT, answer.detail)
    if answer.outcome is DeliveryOutcome.DEAD:
        # A digest for a suppressed address, tried once a week, is kept until it is accepted.
        is_kept = answer.is_address and deliveries.is_suppressed(connection, delivery.channel, delivery.target)
        return _Outcome(DeliveryState.SUPPRESSED if is_kept else DeliveryState.DEAD, answer.detail)
    if answer.outcome is DeliveryOutcome.TOO_LARGE:
        return _shortened(connection, context, delivery, answer)
    if answer.outcome is DeliveryOutcome.BLOCKED:
        return _Outcome(DeliveryState.QUEUED, answer.detail, due=now + recipients.BLOCKED)
    if not answer.is_channel and recipients.is_given_up(connection, context, delivery):
        return _Outcome(DeliveryState.DEAD, f"given up after {how_long(now - delivery.created)}: {answer.detail}")
    rest = recipients.pause(1 if answer.is_channel else delivery.attempts, answer.retry_after)
    return _Outcome(DeliveryState.DEFERRED, answer.detail, due=now + rest)


def _shortened(connection: Connection, context: Context, delivery: Delivery, answer: DeliveryResult) -> _Outcome:
    """Return the outcome for a digest refused as too large: send its short form or, if that is no shorter, give up."""
    config = context.config.channels.get(delivery.channel)
    try:
        stored = digests.get(connection, delivery.digest)
        size = len(deliveries.message(connection, delivery.id).payload)
    except DamagedRow as error:
        return _Outcome(DeliveryState.DEAD, f"{answer.detail}; {error}")
    if stored is None or config is None:
        return _Outcome(DeliveryState.DEAD, answer.detail)
    rendered = replace(stored.short, to=(delivery.target,))
    shorter = next((p for p in open_channel(config).build_messages(rendered) if p.target == delivery.target), None)
    if shorter is None or len(shorter.payload) >= size:
        return _Outcome(DeliveryState.DEAD, answer.detail)
    return _Outcome(DeliveryState.QUEUED, f"{answer.detail}; in short next", due=context.clock(), shorter=shorter)


def _note_channel(
    connection: Connection, context: Context, delivery: Delivery, answer: DeliveryResult, reason: str
) -> None:
    now, before = context.clock(), health.channel(connection, delivery.channel)
    is_away = answer.is_channel or answer.is_lost
    if is_away and before.is_blocked(now):
        return  # it is noted already
    failures = before.failures + 1 if is_away else 0
    # If the server cannot be reached, the other deliveries wait too, and use up no attempts.
    rest = now + recipients.pause(failures, answer.retry_after) if answer.is_channel else None
    news = {"sent_at": now} if answer.outcome is DeliveryOutcome.SENT else {"error": reason, "error_at": now}
    health.put_health(connection, replace(before, blocked_until=rest, failures=failures, **news))
    if failures >= _AWAY:
        alerts.open_within(connection, context, _channel_alert(delivery.channel, reason))


def _note_target(
    connection: Connection, context: Context, delivery: Delivery, outcome: _Outcome, answer: DeliveryResult
) -> None:
    name, target = delivery.channel, delivery.target
    key = AlertKey(AlertKind.DELIVERY_FAILED, name, target)
    health.count(connection, Counter.of("deliveries_total", channel=name, result=outcome.state))
    if outcome.shorter is not None:
        deliveries.replace_message(connection, delivery.id, outcome.shorter)
    if outcome.state is DeliveryState.SENT:
        recipients.restore(connection, context, name, target)
        alerts.resolve_within(connection, context, key, f"{target} can be reached again")
    if answer.is_refused and recipients.note_refusal(connection, context, delivery, answer.detail):
        return
    if outcome.state is DeliveryState.DEAD or answer.outcome is DeliveryOutcome.RAISED:
        lines = (f"Delivery {delivery.id} through {name}: {answer.detail}", "Other deliveries are not affected.")
        title = f"a digest could not be delivered to {target}"
        commands = (f"cachewatch deliveries show {delivery.id}", f"cachewatch deliveries retry {delivery.id}")
        alerts.open_within(connection, context, Alert(key=key, title=title, lines=lines, commands=commands))


def _block(context: Context, name: str, reason: str, traceback: str | None = None) -> None:
    """Pause the channel `name` for an hour because of `reason`, and open an alert; deliveries lose no attempt."""
    now = context.clock()
    with context.database.write() as connection:
        before = health.channel(connection, name)
        news = {"failures": before.failures + 1, "error": reason, "error_at": now}
        health.put_health(connection, replace(before, blocked_until=now + recipients.BLOCKED, **news))
        alerts.open_within(connection, context, _channel_alert(name, reason))
    context.log.error("channel.blocked", channel=name, error=reason, traceback=traceback)


def _channel_alert(name: str, reason: str = "") -> Alert:
    """Return the alert that the channel `name` does not work because of `reason`; "": that it is not configured."""
    key = AlertKey(AlertKind.CHANNEL_DOWN, name)
    if reason:
        kept = "Waiting deliveries are kept and tried again later, or at once after a reload or a restart."
        return Alert(key=key, title=f"the channel {name} does not work", lines=(reason, kept), avoid=(name,))
    return Alert(
        key=key,
        title=f"the channel {name} is no longer configured",
        lines=("Deliveries wait for it: configure it again to send them, or drop them.",),
        commands=(
            f"cachewatch deliveries list --open --channel {name}",
            "cachewatch deliveries drop NUMBER --reason '...'",
        ),
        avoid=(name,),
    )


def unblock(context: Context) -> None:
    """Make all channels and their deliveries due again after a reload, which may have repaired one."""
    for name in context.config.channels:
        with context.database.write() as connection:
            health.put_health(connection, replace(health.channel(connection, name), blocked_until=None))
            deliveries.hasten(connection, name, context.clock())
