"""Take up the state as another process left it, before anything else is done with it."""

from cachewatch.mounts import shared_kind
from cachewatch.service import operators
from cachewatch.service.context import Context
from cachewatch.service.operators import Notice
from cachewatch.store import outbox


def resume(context: Context) -> None:
    """Send again what was in hand, and say what is odd about the state."""
    with context.database.write() as connection:
        count = outbox.requeue_interrupted(connection, context.clock())
    if count:
        context.log.warning("deliveries.interrupted", count=count)
    if kind := shared_kind(context.folder):
        context.log.warning("state.shared", folder=context.folder, file_system=kind)
    if context.database.is_new and any(context.clone_folder(source).exists() for source in context.config.sources):
        _tell_of_loss(context)


def _tell_of_loss(context: Context) -> None:
    """Clones without a database are what somebody left who deleted it, or mounted another disk."""
    path = context.database.path
    context.log.warning("state.lost", database=path)
    notice = Notice(
        topic="state",
        title="the state was lost and begins anew",
        lines=(
            f"{path} was gone or empty, though the clones beside it are there.",
            "Sources begin again as at their first run: what changed since the last digest is not told.",
            "What waited to be sent is lost with it.",
            "If there is a copy (`cachewatch backup`), stop cachewatch, put it in that place, and start again.",
        ),
    )
    with context.database.write() as connection:
        operators.notify_within(connection, context, notice)
