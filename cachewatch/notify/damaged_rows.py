"""Damaged rows of the state: rebuilt where the result is certain, else set aside; everything else continues."""

from cachewatch.channels import open_channel
from cachewatch.core.delivery import Message
from cachewatch.errors import CachewatchError, DamagedRow
from cachewatch.notify import operator_notices
from cachewatch.notify.alerts import Alert, AlertKey, AlertKind, open_within
from cachewatch.notify.operator_notices import Notice
from cachewatch.notify.pass_context import Context
from cachewatch.store import digests, outbox, scheduled_runs
from cachewatch.store.checksums import of_message
from cachewatch.store.database import Connection
from cachewatch.store.digests import DigestState, DigestSummary
from cachewatch.store.outbox import Delivery


def rebuilt(connection: Connection, context: Context, delivery: Delivery) -> Message | None:
    """Return the message of a delivery as its channel packs it from the stored digest, if that may be sent.

    It may if it is what was stored, to the byte, or if nothing of this delivery can have arrived yet.
    """
    found = _repacked(connection, context, delivery)
    checksum = outbox.checksum(connection, delivery.id)
    for message in found:
        if of_message(message) == checksum:
            return message
    return found[0] if found and not delivery.may_have_arrived else None


def repair(connection: Connection, context: Context, delivery: Delivery) -> Message | None:
    """Put bytes that are damaged right, if that can be, and return them."""
    message = rebuilt(connection, context, delivery)
    if message is not None:
        outbox.replace_message(connection, delivery.id, message)
        said = "its stored bytes were damaged or deleted, and rebuilt from the digest"
        outbox.note(connection, delivery.id, "rebuilt", said, context.clock())
        context.log_within(connection, delivery).warning("delivery.rebuilt")
    return message


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


def _repacked(connection: Connection, context: Context, delivery: Delivery) -> list[Message]:
    """Return what the channel makes of the digest for the same target: in full, and in short."""
    config = context.config.channels.get(delivery.channel)
    stored = _digest(connection, delivery.digest)
    if config is None or stored is None or delivery.copy:
        return []
    try:
        channel = open_channel(config)
        packed = [
            message for rendered in (stored.rendered, stored.short) for message in channel.build_messages(rendered)
        ]
    except CachewatchError:
        return []
    return [message for message in packed if message.target == delivery.target]


def _digest(connection: Connection, key: str) -> digests.DigestRecord | None:
    try:
        return digests.get(connection, key)
    except DamagedRow:
        return None
