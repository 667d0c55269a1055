"""Keep house: pins that no cursor needs, clones, digests of long ago, the database's log."""

from datetime import timedelta

from cachewatch.errors import CachewatchError
from cachewatch.service.context import Context
from cachewatch.store import cursors, digests

_KEPT = timedelta(days=400)


def keep_house(context: Context) -> None:
    """Do what nobody waits for; nothing here may stop anything else."""
    for source in context.config.sources.values():
        with context.database.read() as connection:
            used = cursors.revisions_in_use(connection, source.name)
            used |= digests.revisions_held(connection, source.name)
        try:
            context.watched(source).tidy(used)
        except CachewatchError as error:
            context.log.warning("source.untidy", source=source.name, error=str(error))
    with context.database.write() as connection:
        forgotten = digests.forget(connection, context.clock() - _KEPT)
    if forgotten:
        context.log.info("digests.forgotten", count=forgotten)
    context.database.tidy()
