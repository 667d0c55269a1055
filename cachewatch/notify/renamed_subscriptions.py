"""A subscription with a new name continues where its old name stood."""

from cachewatch.notify import operator_notices
from cachewatch.notify.operator_notices import OPERATORS, Notice
from cachewatch.notify.pass_context import Context
from cachewatch.store import cursors
from cachewatch.store.database import Connection


def take_over_renamed(context: Context) -> None:
    """Let each subscription with `renamed_from:` go on where that one stands, if it is not done."""
    renamed = {each.name: each.renamed_from for each in context.config.subscriptions.values() if each.renamed_from}
    if not renamed:
        return
    with context.database.read() as connection:
        known = cursors.subscriptions(connection)
    for new, old in renamed.items():
        if old in known:
            with context.database.write() as connection:
                cursors.rename(connection, old, new)
            context.log.info("subscription.renamed", subscription=new, renamed_from=old)


def ask_about(connection: Connection, context: Context, new: str) -> None:
    """Notify operators of a subscription that is about to begin while others have gone: it may be one of those."""
    known = cursors.subscriptions(connection)
    gone = sorted(known - context.config.subscriptions.keys() - {OPERATORS})
    if new in known or not gone:
        return
    notice = Notice(
        topic=f"new {new}",
        title=f"the subscription {new} is new and does not continue an earlier one",
        lines=(
            f"The state has subscriptions that are no longer configured: {', '.join(gone)}.",
            f"If {new} is one of them under a new name, write `renamed_from: {gone[0]}` below it in {context.config.path}:",
            "it then continues where the old one stopped, and nothing is lost or sent again.",
            "Without that, it begins at the newest revision, or where `since:` of a source says.",
        ),
    )
    operator_notices.notify_within(connection, context, notice)
