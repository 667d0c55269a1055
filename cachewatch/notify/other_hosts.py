"""What another host fetched that this one does not have: hosts share the state, but each has its own clones.

Whoever takes over polls at once. Until then nothing is compared that would take what only the other host has, and no operator
is told that it cannot be.
"""

from cachewatch.config.model import Source
from cachewatch.errors import StateError
from cachewatch.notify.pass_context import Context
from cachewatch.store import cursors, digests, health


def sources_behind(context: Context) -> frozenset[str]:
    """Name the sources whose revisions in use are not all on this host, and may be after its next poll."""
    if not context.database.is_shared:
        return frozenset()
    return frozenset(name for name, source in context.config.sources.items() if _is_behind(context, source))


def _is_behind(context: Context, source: Source) -> bool:
    try:
        return bool(_lacking(context, source))
    except StateError:
        raise
    except Exception:  # noqa: BLE001  its poll says what is wrong, and the other sources go on
        return True


def catch_up(context: Context, source: Source) -> None:
    """Get what digests are to be compared with, and what another host fetched; raise SourceError if that is not known."""
    lacking = _lacking(context, source) if context.database.is_shared else frozenset()
    if not lacking:
        return
    lost = context.watched(source).recall(lacking)
    context.lost.update((source.name, revision) for revision in lost)
    context.log.info("source.caught_up", source=source.name, fetched=len(lacking - lost), lost=len(lost) or None)


def _lacking(context: Context, source: Source) -> frozenset[str]:
    """Return the revisions that are not here, but for those of which we know that upstream has them no more."""
    with context.database.read() as connection:
        used = cursors.revisions_in_use(connection, source.name) | digests.revisions_held(connection, source.name)
        newest = health.source(connection, source.name).revision
    wanted = {revision for revision in (*used, newest) if revision and (source.name, revision) not in context.lost}
    return context.watched(source).lacking(wanted)
