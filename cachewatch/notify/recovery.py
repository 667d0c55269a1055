"""Recover what another process left unfinished, before anything else is done with the state."""

import socket

from cachewatch.config.advice import obsolete_keys
from cachewatch.notify import operator_notices, outages, wrong_clocks
from cachewatch.notify.alerts import DAEMON
from cachewatch.notify.damaged_rows import bury_unknown, set_aside_damaged
from cachewatch.notify.operator_notices import Notice
from cachewatch.notify.pass_context import Context
from cachewatch.runtime.filesystems import shared_kind
from cachewatch.store import alerts, outbox


def resume(context: Context) -> None:
    """Send again what was in hand, and say what is odd about the state."""
    kind = shared_kind(context.folder)
    with context.database.write() as connection:
        # The state's lock says that nobody else is at work, as far as this file system tells other hosts of locks.
        host = socket.gethostname() if kind or context.database.is_shared else None
        count = outbox.requeue_interrupted(connection, context.clock(), host)
        # Of the daemon that ran before: it read another file, and its jobs are gone.
        for alert in alerts.all_open(connection):
            if alert.key.name == DAEMON:
                alerts.mark_resolved(connection, alert.key, context.clock())
    recover(context)
    bury_unknown(context)
    set_aside_damaged(context)
    if context.database.mended:
        _tell_of_damage(context)
    if count:
        context.log.warning("deliveries.interrupted", count=count)
    if kind:
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
    wrong_clocks.correct(context)
    outages.account(context)
    _requeue_expired(context)


def _requeue_expired(context: Context) -> None:
    with context.database.read() as connection:
        if not outbox.expired_leases(connection):
            return
    with context.database.write() as connection:
        expired = outbox.requeue_expired(connection, context.clock())
    for each in expired:
        context.log_of(each).warning("lease.expired", owner=each.lease_owner)


def _tell_of_damage(context: Context) -> None:
    """Values that a flipped bit gave another type are whole again; other bits may have flipped unseen."""
    place, values = context.database.place, ", ".join(context.database.mended)
    context.log.error("state.mended", database=place, values=values)
    notice = Notice(
        topic="state",
        title="the state was damaged, and mended",
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
