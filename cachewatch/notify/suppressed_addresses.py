"""Suppressed addresses: an address that refuses digests for days gets no more, but one a week to see whether it takes them again.

Addresses of operators are never suppressed, since nobody else hears of problems.
"""

from datetime import timedelta

from cachewatch.notify import alerts, outages
from cachewatch.notify.alerts import Alert, AlertKey, AlertKind
from cachewatch.notify.pass_context import Context
from cachewatch.notify.recipients import is_operator
from cachewatch.store import outbox, suppressions
from cachewatch.store.database import Connection
from cachewatch.store.outbox import Delivery, State

# An address is suppressed after so many digests that it refused over so long a time, with none taken in between.
_REFUSALS = 3
_REFUSING_FOR = timedelta(days=3)
_RETRIED_AFTER = timedelta(days=7)


def note_refusal(connection: Connection, context: Context, delivery: Delivery, said: str) -> bool:
    """Suppress the address that refused a delivery if it has done so for days; tell whether it is suppressed now."""
    name, target, now = delivery.channel, delivery.target, context.clock()
    if suppressions.is_suppressed(connection, name, target):
        return True
    refusals = suppressions.refusals_in_a_row(connection, name, target)
    is_lasting = len(refusals) >= _REFUSALS and now - min(refusals) >= _REFUSING_FOR
    if not is_lasting or is_operator(context.config, name, target):
        return False
    suppressions.suppress(connection, name, target, said, now)
    alerts.resolve_within(connection, context, AlertKey(AlertKind.DELIVERY_FAILED, name, target), "")
    alerts.open_within(connection, context, alert(name, target, said))
    return True


def alert(channel: str, target: str, said: str) -> Alert:
    """Return the alert about a suppressed address."""
    return Alert(
        key=AlertKey(AlertKind.ADDRESS_SUPPRESSED, channel, target),
        title=f"{target} receives no more digests",
        lines=(
            f"It has refused every digest through {channel} for days: {said}",
            "New digests for it are kept. One of them is tried once a week; when it is taken, or you restore the address, all are sent.",
        ),
        commands=(f"cachewatch deliveries restore {channel} {target}", "cachewatch deliveries list --dead"),
    )


def try_again(connection: Connection, context: Context) -> None:
    """Let the oldest digest for each suppressed address be due once a week; restore those that are operators' by now."""
    now = context.clock()
    for each in suppressions.all_suppressed(connection):
        if is_operator(context.config, each.channel, each.target):
            restore(connection, context, each.channel, each.target)
            continue
        kept = outbox.find(connection, states=(State.SUPPRESSED,), channel=each.channel, target=each.target)
        last = suppressions.last_attempt(connection, each.channel, each.target) or each.since
        is_under_way = outbox.has_open(connection, each.channel, each.target)
        if kept and not is_under_way and now - last >= _RETRIED_AFTER:
            _send(connection, context, kept[-1], "tried again after a week")


def restore(connection: Connection, context: Context, channel: str, target: str) -> bool:
    """Deliver to an address again, what was kept first; tell whether it was suppressed."""
    was_suppressed = suppressions.restore(connection, channel, target)
    if was_suppressed:
        for each in outbox.find(connection, states=(State.SUPPRESSED,), channel=channel, target=target):
            _send(connection, context, each, "its address was restored")
    return was_suppressed


def _send(connection: Connection, context: Context, delivery: Delivery, said: str) -> None:
    now = context.clock()
    outbox.settle(connection, delivery, State.QUEUED, now=now, said=said)
    outbox.prolong(connection, delivery.id, now + outages.longest(context.config, delivery.channel))
