"""Damaged rows of the state are set aside and reported; everything else continues."""

from cachewatch.errors import DamagedRow
from cachewatch.notify import operator_notices
from cachewatch.notify.alerts import Alert, AlertKey, AlertKind, open_within
from cachewatch.notify.operator_notices import Notice
from cachewatch.notify.pass_context import Context
from cachewatch.store import digests, outbox, scheduled_runs
from cachewatch.store.database import Connection
from cachewatch.store.digests import DigestState, DigestSummary


def bury_unknown(context: Context) -> None:
    """Put deliveries into the dead letters of which nobody knows any more what became of them."""
    said = "its stored state was damaged: it may have been sent, or not"
    with context.database.write() as connection:
        digests.settle_unknown(connection, said, context.clock())
        for each in outbox.bury_unknown(connection, said, context.clock()):
            alert = Alert(
                key=AlertKey(AlertKind.DELIVERY_FAILED, each.channel, each.target),
                title=f"the delivery record of a digest for {each.target} is damaged",
                lines=(f"Delivery {each.id} through {each.channel}: {said}.",),
                commands=(f"cachewatch deliveries show {each.id}", f"cachewatch deliveries retry {each.id}"),
            )
            open_within(connection, context, alert)
            context.log_within(connection, each).error("delivery.dead", said=said)


def set_aside_damaged(context: Context) -> None:
    """Set aside what is held and damaged: its cursors were not moved, so the next digest tells the same."""
    with context.database.read() as connection:
        found = digests.damaged_held(connection)
    for record, error in found:
        with context.database.write() as connection:
            set_aside(connection, context, record, error)


def set_aside(connection: Connection, context: Context, record: DigestSummary, error: DamagedRow) -> None:
    """Set aside one digest that is held and damaged, and let its stream be due now."""
    now = context.clock()
    digests.settle(connection, record.key, DigestState.DAMAGED, str(error), now)
    scheduled_runs.hasten(connection, record.subscription, record.stream, now)
    notice = Notice(
        topic=f"damaged {record.subscription}/{record.stream}",
        title=f"a digest for {record.subscription} that was held is damaged",
        lines=(str(error), "It was not sent, and its cursors did not move: the next one reports the same."),
    )
    operator_notices.notify_within(connection, context, notice)
    context.log_within(connection).error(
        "digest.damaged", digest=record.key[:12], subscription=record.subscription, error=str(error)
    )
