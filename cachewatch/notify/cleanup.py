"""Maintenance: delete pins without a cursor, old digests and deliveries, and clones without a source; tidy the database."""

from cachewatch.config.model import FeedConfig
from cachewatch.errors import CachewatchError
from cachewatch.notify import outages
from cachewatch.notify.alerts import contained
from cachewatch.notify.damaged_rows import set_aside_damaged
from cachewatch.notify.pass_context import Context
from cachewatch.store import cursors, digests, message_bytes, outbox, reported_removals, scheduled_runs


def clean_up(context: Context) -> None:
    """Do what nobody waits for; nothing here may stop anything else."""
    set_aside_damaged(context)
    for source in context.config.sources.values():
        with context.database.read() as connection:
            used = cursors.revisions_in_use(connection, source.name)
            used |= digests.revisions_held(connection, source.name)
        with contained(context, source.name, "maintenance"):
            try:
                context.watched(source).tidy(used)
            except CachewatchError as error:
                context.log.warning("source.untidy", source=source.name, error=str(error))
    _forget(context)
    context.database.tidy()


def _forget(context: Context) -> None:
    """Delete what the state keeps no longer; feeds are written anew from all of their entries, which stay."""
    retention = context.config.retention
    feeds = {name for name, channel in context.config.channels.items() if isinstance(channel, FeedConfig)}
    with context.database.write() as connection:
        now = outages.certain(connection, context.clock())
        digests_gone = digests.forget(connection, now - retention.metadata)
        payloads_gone = outbox.delete_payloads(connection, now - retention.payload, kept_channels=feeds)
        message_bytes.delete_unused(connection)
        scheduled_runs.forget(connection, now - retention.metadata)
        cursors.forget_vanished(connection, now - retention.metadata)
        reported_removals.forget(connection, now - retention.metadata)
    if digests_gone or payloads_gone:
        context.log.info("state.cleaned", digests=digests_gone or None, payloads=payloads_gone or None)
