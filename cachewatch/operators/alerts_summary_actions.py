"""Commands of operators on digests and deliveries; the review of all alerts, and the daily summary of open alerts.

The review makes alerts agree with the state, whoever changed it, so that no alert stays open without a cause.
"""

from collections.abc import Collection
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from msgspec import structs

from cachewatch.config.schedules_and_quiet_times import duration_in_words, minute
from cachewatch.config.settings_and_subscriptions import Config
from cachewatch.core.advice.waits_and_reminders import confirmed
from cachewatch.errors import UsageError
from cachewatch.operators.status_problems_explanations import LATE, PATIENCE, find_problems, read_status, shown_by_state
from cachewatch.report.digest_and_message_values import Message, open_channel
from cachewatch.service import alerts_and_silent_sources as notices
from cachewatch.service import recipients_and_retries as recipients
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.digest_assembly_and_hold_times import place, questions
from cachewatch.service.streams_starts_silences import streams_of
from cachewatch.service.unreadable_documents import unreadable, unreadable_sources
from cachewatch.store import cursors_and_remembered as cursors
from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store import digests_and_holds as digests
from cachewatch.store import health_and_alerts as health
from cachewatch.store.delivery_queue_and_order import OPEN, WAITING, Delivery, DeliveryState
from cachewatch.store.digests_and_holds import DigestState, DigestSummary
from cachewatch.store.health_and_alerts import OF_HOLDS, AlertKey, AlertKind, OpenAlert
from cachewatch.store.transactions_and_sqlite import Connection

_TITLES = {
    AlertKind.SOURCE_LATE: "the source {} is not polled",
    AlertKind.DIGEST_LATE: "the digest of {} is late",
    AlertKind.DELIVERY_LATE: "deliveries through {} wait",
}
# Alerts of kinds that only the review resolves, when it does not find their cause any more.
_REVIEWED = LATE | {AlertKind.SOURCE_UNREADABLE}
_OF_SOURCES = {AlertKind.SOURCE_FAILED, AlertKind.SOURCE_INCOMPLETE, AlertKind.SOURCE_EMPTY, AlertKind.SOURCE_STALE}
_OF_SOURCES |= {AlertKind.WORK_FAILED}
_SUMMARY_AT = time(8)  # in the configured time zone; fixed, so that neither a late pass nor a restart moves it
_LISTED = 200  # problems in a summary
_REPLACED = "A newer digest took the place of what was held: nothing in it is unusual any longer, or the time was over."
_RETRIED = (*WAITING, DeliveryState.SENDING, DeliveryState.DEAD, DeliveryState.SUPPRESSED, DeliveryState.DROPPED)


def review(context: Context) -> bool:
    """Open and resolve alerts so that they agree with the state; return True if there is no alert and no problem."""
    now, config = context.clock(), context.config
    with context.database.read() as connection:
        causes = (health.all_alerts, digests.all_held, deliveries.all_suppressed)
        unread, newest = cursors.unreadable(connection), health.newest_revisions(connection)
        is_well = not unread and not any(each(connection) for each in causes)
    # If nothing ran, late work opens no alert.
    has_run = context.started is not None and now - context.started >= PATIENCE
    problems = shown_by_state(read_status(context), config, now) if has_run else ()
    late_ones = [each for each in problems if each.kind in LATE]
    if is_well and not late_ones:
        return True
    wholly = list(unreadable_sources(context, unread, newest))
    still = [*(problem.key for problem in late_ones), *(alert.key for alert in wholly)]
    with context.database.write() as connection:
        recipients.try_again(connection, context)
        resolve_settled(connection, context, still)
        alerts = list(questions(config, digests.all_held(connection)))
        alerts += [unreadable(*where, reasons) for where, reasons in cursors.unreadable(connection).items()]
        alerts += [recipients.alert(one.channel, one.target, one.said) for one in deliveries.all_suppressed(connection)]
        for one in late_ones:
            title = _TITLES[one.kind].format(one.name)
            wholly.append(notices.Alert(key=one.key, title=title, lines=(one.what,), commands=("cachewatch status",)))
        for alert in (*alerts, *wholly):
            if _may_last(connection, config, alert.key):
                notices.open_within(connection, context, alert)
        for each in health.all_alerts(connection):
            if each.resolved_at is not None:
                notices.resolve_within(connection, context, each.key, _end(config, each))
    return False


def resolve_settled(
    connection: Connection, context: Context, still: Collection[AlertKey] | None = None, *, end: str = _REPLACED
) -> None:
    """Mark alerts without a cause as resolved; `still`: keys for which a review found a cause (None: no review).

    `end` is stored with an alert about a held digest: a sentence that says why the digest is not held any more.
    """
    for alert in health.all_open(connection):
        is_over = alert.key.kind in _REVIEWED and still is not None and alert.key not in still
        if is_over or not _may_last(connection, context.config, alert.key):
            health.mark_resolved(connection, alert, context.clock(), end if alert.key.kind in OF_HOLDS else "")


def _may_last(connection: Connection, config: Config, key: AlertKey) -> bool:
    """Tell whether the cause of an alert may still exist, according to the state and the configuration."""
    match key.kind:
        case kind if kind in _OF_SOURCES:
            lasts = key.name in config.sources or key.name == notices.DAEMON
        case AlertKind.DOCUMENTS_UNREADABLE:
            unread = health.unread_by(connection, key.name, key.part)
            lasts = key.name in config.sources and not _streams(config).isdisjoint(unread)
        case kind if kind in OF_HOLDS:
            lasts = any(hold.alert == key for digest in digests.all_held(connection) for hold in digest.holds)
        case AlertKind.DIGEST_FAILED | AlertKind.TEMPLATE_FAILED:
            lasts = any(name == key.name and key.part in ("", stream) for name, stream in _streams(config))
        case AlertKind.CHANNEL_DOWN:
            lasts = recipients.is_used(config, key.name) or key.name in deliveries.oldest_open(connection)
        case AlertKind.DELIVERY_FAILED:
            states = (DeliveryState.DEAD, *OPEN)  # and was not dropped
            failed = deliveries.find(connection, states=states, channel=key.name, target=key.part, limit=1)
            lasts = bool(failed) and recipients.is_recipient(config, key.name, key.part)
        case AlertKind.ADDRESS_SUPPRESSED:
            is_left_out = deliveries.is_suppressed(connection, key.name, key.part)
            lasts = is_left_out and recipients.is_recipient(config, key.name, key.part)
        case _:
            lasts = True  # the review, or the daemon, resolves it
    return lasts


def _streams(config: Config) -> set[tuple[str, str]]:
    return {(stream.subscription.name, stream.name) for stream in streams_of(config)}


def _end(config: Config, over: OpenAlert) -> str:
    """Return the sentence that tells operators why the alert `over` is resolved."""
    key = over.key
    match key.kind:
        case AlertKind.SUSPICIOUS_LOSS:
            return f"no digest is held for a loss in {place(key.name, key.part)}"
        case AlertKind.LARGE_CHANGE:
            return f"no large change in {place(key.name, key.part)} is held"
        case AlertKind.DOCUMENTS_UNREADABLE if key.name in config.sources:
            return f"documents of {key.part} in {key.name} were repaired or removed"
        case AlertKind.SOURCE_UNREADABLE if key.name in config.sources:
            return f"documents of the source {key.name} can be read again"
        case AlertKind.ADDRESS_SUPPRESSED if recipients.is_recipient(config, key.name, key.part):
            return f"{key.part} receives digests again"
        case _:
            return f"closed: {over.title}"


def summarize(context: Context) -> None:
    """Notify operators of all open alerts, once a day, if one of them had been open for 12 hours at 8 o'clock."""
    now, config = context.clock(), context.config
    here = now.astimezone(ZoneInfo(config.timezone))
    due = datetime.combine(here.date() - timedelta(days=here.time() < _SUMMARY_AT), _SUMMARY_AT, here.tzinfo)
    with context.database.read() as connection:
        old = [each for each in health.all_open(connection) if each.opened_at <= due - timedelta(hours=12)]
    if all(each.notified_at is not None and due <= each.notified_at <= now for each in old):
        return
    listed = find_problems(read_status(context), config, now).all
    with context.database.write() as connection:
        alerts = health.all_open(connection)
        keys = {alert.key for alert in alerts}
        # Late work without an alert is left out: the service may have been off.
        listed = tuple(problem for problem in listed if problem.key in keys or problem.kind not in LATE)
        down = {alert.key.name for alert in alerts if alert.key.kind is AlertKind.CHANNEL_DOWN}
        if down.issuperset(config.operators.channels):
            return  # summaries would pile up; one is made when a channel works again
        more, facts = len(listed) - _LISTED, []
        for problem in listed[:_LISTED]:
            since = f"since {minute(problem.since, config.timezone)}" if problem.since else "now"
            facts.append((problem.what, f"{since}: {problem.detail}" if problem.detail else since))
        notice = notices.OperatorNotice(
            topic="summary",
            title="1 alert is open" if len(listed) == 1 else f"{len(listed)} alerts are open",
            lines=(f"`cachewatch status` lists {more} more.",) if more > 0 else (),
            facts=tuple(facts),
            commands=("cachewatch status",),
            avoid=tuple(sorted(down)),
        )
        notices.notify_within(connection, context, notice)
        for alert in alerts:
            health.note_notified(connection, alert.key, now)


def retry(context: Context, number: int, *, is_forced: bool = False) -> None:
    """Queue the unsent delivery `number` again, due now. Raises UsageError if it is being sent and not `is_forced`."""
    now = context.clock()
    with context.database.write() as connection:
        delivery = _delivery(connection, number)
        if delivery.state is DeliveryState.SENDING and not is_forced:
            since = minute(delivery.due, context.config.timezone)
            advice = "comes back by itself if that one has ended; --force sends it now, and perhaps a second time"
            raise UsageError(f"delivery {number} is being sent by {delivery.claimed_by} since {since}, and {advice}")
        if delivery.state not in _RETRIED:
            raise UsageError(f"delivery {number} is {delivery.state}; only what was not sent can be retried")
        _check_recipient(connection, context, delivery)
        message_of(connection, context, number)  # which must still have its text
        said, was_sending = "retried by an operator", delivery.state is DeliveryState.SENDING
        deliveries.settle(connection, delivery, DeliveryState.QUEUED, now=now, said=said, may_have_arrived=was_sending)
        if (config := context.config.channels.get(delivery.channel)) is not None:
            deliveries.prolong(connection, number, now + config.retry.lasting)
        # Whoever asks has repaired the channel, or wants to see whether it was.
        of_channel = health.channel(connection, delivery.channel)
        health.put_health(connection, structs.replace(of_channel, blocked_until=None))


def resend(context: Context, number: int) -> None:
    """Send the sent delivery `number` again as a new message that refers to it, since receivers drop equal copies."""
    now = context.clock()
    with context.database.write() as connection:
        delivery = _delivery(connection, number)
        if delivery.state is not DeliveryState.SENT:
            raise UsageError(f"delivery {number} is {delivery.state}, not sent; use `cachewatch deliveries retry`")
        config = context.config.channels.get(delivery.channel)
        stored = digests.get(connection, delivery.digest)
        if config is None or stored is None:
            raise UsageError(f"delivery {number}: its channel {delivery.channel} is no longer configured")
        _check_recipient(connection, context, delivery)
        original = message_of(connection, context, number)
        again = open_channel(config).rebuild_message(structs.replace(stored.rendered, created=now), original)
        copy, lasting = deliveries.next_copy(connection, delivery), config.retry.lasting
        deliveries.add(connection, delivery.channel, [again], state=DeliveryState.QUEUED, lasting=lasting, copy=copy)
        deliveries.note(connection, number, "resent", "by an operator, as a new message", now)


def message_of(connection: Connection, context: Context, number: int) -> Message:
    """Return the message of the delivery `number`. Raises UsageError if its bytes were deleted."""
    message = deliveries.message(connection, number)
    if message.payload:
        return message
    kept = duration_in_words(context.config.retention.payload)
    preview = f"`cachewatch preview {digests.subscription_of(connection, message.key)} --since REVISION`"
    deleted = f"its text was deleted {kept} after it was sent (`retention: payload`)"
    raise UsageError(f"delivery {number}: {deleted}; {preview} makes one anew")


def release(context: Context, name: str) -> DigestSummary:
    """Release the held digest `name`, and return it. It is sent, and the next digest of its stream begins where it ends.

    `name` is the key of a digest, a subscription or SUBSCRIPTION/STREAM.
    """
    return _settle_held(context, name, DigestState.RELEASED, "released by an operator")


def drop_digest(context: Context, name: str, reason: str) -> DigestSummary:
    """Drop the held digest `name`, and return it: its changes are never sent. `name` is the same as for `release`."""
    return _settle_held(context, name, DigestState.DROPPED, reason)


def _settle_held(context: Context, name: str, state: DigestState, reason: str) -> DigestSummary:
    now = context.clock()
    with context.database.write() as connection:
        stored = _held(connection, name)
        digests.settle(connection, stored.key, state, reason, now)
        advances = list(digests.advances(connection, stored.key))
        if state is DigestState.RELEASED:
            advances = [structs.replace(each, learned=confirmed(each.learned)) for each in advances]
            for each in deliveries.find(connection, digest_key=stored.key):
                deliveries.prolong(connection, each.id, each.give_up + (now - stored.created))
        digests.store_holds(connection, stored.subscription, stored.stream, ())
        cursors.advance(connection, advances, now)
        how = reason if state is DigestState.RELEASED else f"dropped: {reason}"
        last = f"The last digest that was held for it, of {stored.subscription}/{stored.stream}, was {how}."
        resolve_settled(connection, context, end=last)
    return stored


def drop_delivery(context: Context, number: int, reason: str) -> None:
    """Drop the unsent delivery `number`, for `reason`; it is never sent."""
    with context.database.write() as connection:
        delivery = _delivery(connection, number)
        if delivery.state not in (*OPEN, DeliveryState.DEAD, DeliveryState.SUPPRESSED):
            raise UsageError(f"delivery {number} is {delivery.state}; only what waits or failed can be dropped")
        deliveries.settle(connection, delivery, DeliveryState.DROPPED, now=context.clock(), said=reason)
        resolve_settled(connection, context)


def restore(context: Context, channel: str, target: str) -> None:
    """End the suppression of the address `target`; send what was kept. Raises UsageError if it is not suppressed."""
    with context.database.write() as connection:
        if not recipients.restore(connection, context, channel, target):
            raise UsageError(f"{target} is not suppressed in {channel}")
        resolve_settled(connection, context)


def _delivery(connection: Connection, number: int) -> Delivery:
    if (delivery := deliveries.delivery(connection, number)) is None:
        raise UsageError(f"there is no delivery {number}; see `cachewatch deliveries list`")
    return delivery


def _check_recipient(connection: Connection, context: Context, delivery: Delivery) -> None:
    if why := recipients.why_not(connection, context.config, delivery):
        raise UsageError(f"delivery {delivery.id}: {why}; see `channels:` and `to:` in {context.config.path}")


def _held(connection: Connection, name: str) -> DigestSummary:
    """Return the held digest that `name` means. Raises UsageError if there is none or several, or if it is not held."""
    held = [each for each in digests.all_held(connection) if name in (each.subscription, _stream(each))]
    if len(held) > 1:
        raise UsageError(f"{name} has {len(held)} held digests; name one of them: {', '.join(map(_stream, held))}")
    key = held[0].key if held else name  # which may be a key
    if (stored := digests.find(connection, key)) is None:
        why = "no held digest has this subscription or key, or several keys begin with it"
        raise UsageError(f"{key}: {why}; see `cachewatch deliveries list --held`")
    if stored.state is not DigestState.HELD:
        newer = ", ".join(each.key[:12] for each in digests.all_held(connection) if _stream(each) == _stream(stored))
        advice = f"{newer} replaced it" if newer else "see `cachewatch deliveries list --held`"
        raise UsageError(f"digest {key} is not held but {stored.state}; {advice}")
    return stored


def _stream(digest: DigestSummary) -> str:
    return f"{digest.subscription}/{digest.stream}"
