"""Repair the state before anything else is done with it: take up unfinished work, and set damaged rows aside."""

from cachewatch.config.advice import obsolete_keys
from cachewatch.errors import DamagedRow
from cachewatch.runtime.files import shared_kind
from cachewatch.service import alerts as operator_notices
from cachewatch.service import recipients
from cachewatch.service.alerts import DAEMON, Alert, Notice, open_within
from cachewatch.service.context import Context
from cachewatch.store import digests, outbox
from cachewatch.store import digests as scheduled_runs
from cachewatch.store import health as alerts
from cachewatch.store.database import Connection
from cachewatch.store.digests import DigestState, DigestSummary
from cachewatch.store.health import AlertKey, AlertKind


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


def set_aside(connection: Connection, context: Context, record: DigestSummary, error: DamagedRow) -> None:
    """Set aside one digest that is held and damaged; its cursors were not moved, and its stream is due now."""
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


def resume(context: Context) -> None:
    """Take up a state, and say what is odd about it."""
    with context.database.write() as connection:
        # Of the daemon that ran before: it read another file, and its jobs are gone.
        for alert in alerts.all_open(connection):
            if alert.key.name == DAEMON:
                alerts.mark_resolved(connection, alert.key, context.clock())
    recover(context)
    bury_unknown(context)
    if context.database.repaired:
        _tell_of_damage(context)
    if kind := shared_kind(context.folder):
        context.log.warning("state.shared", folder=context.folder, file_system=kind)
    say_obsolete_keys(context)
    if context.database.is_new and any(context.clone_folder(source).exists() for source in context.config.sources):
        _tell_of_loss(context)


def say_obsolete_keys(context: Context) -> None:
    """Log what the configuration says without effect."""
    for sentence in obsolete_keys(context.config):
        context.log.warning("config.obsolete", advice=sentence)


def recover(context: Context) -> None:
    """Put right what time alone can break; cheap where nothing is wrong, so that it is asked before any work.

    Raises StateError if the state was taken away: nothing more is sent from it.
    """
    context.database.check_place()
    recipients.account(context)


def _tell_of_damage(context: Context) -> None:
    """Values that a flipped bit gave another type are whole again; other bits may have flipped unseen."""
    place, values = context.database.place, ", ".join(context.database.repaired)
    context.log.error("state.repaired", database=place, values=values)
    notice = Notice(
        topic="state",
        title="the state was damaged, and repaired",
        lines=(
            f"{place}: {values} had another type, and has its own again.",
            "A disk that changes bits may have changed others: look at the disk, and restore a backup.",
        ),
        commands=("cachewatch state check",),
    )
    with context.database.write() as connection:
        operator_notices.notify_within(connection, context, notice)


def _tell_of_loss(context: Context) -> None:
    """Clones without a database are what somebody left who deleted it, or mounted another disk."""
    place = context.database.place
    context.log.warning("state.lost", database=place)
    notice = Notice(
        topic="state",
        title="the state was lost and starts empty",
        lines=(
            f"{place} was missing or empty, although the clones beside it exist.",
            "Sources start again as on their first run: changes since the last digest are not reported.",
            "Deliveries that were waiting are lost.",
            "If you have a copy (`cachewatch backup`), stop cachewatch, put the copy in that place, and start again.",
        ),
    )
    with context.database.write() as connection:
        operator_notices.notify_within(connection, context, notice)
