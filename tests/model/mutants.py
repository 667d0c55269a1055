"""Wrong ways of doing it, which the model must find: they show that it has teeth."""

from collections.abc import Callable, Mapping
from typing import Any

from crash.mutants import MUTANTS as CRASH_MUTANTS
from sqlalchemy import delete

from cachewatch.store import cursors_and_remembered as cursors
from cachewatch.store.schema import cursors as table
from cachewatch.store.transactions_and_sqlite import Connection


def _unread_forgotten() -> None:
    """Remember nothing of documents that could not be read."""
    vars(cursors)["_note_unread"] = lambda *_: None


def _cursor_deleted() -> None:
    """Forget what was told of a tag when it vanishes."""
    advance = cursors.advance

    def forget(connection: Connection, advances: Any, now: Any) -> None:
        advances = list(advances)
        advance(connection, advances, now)
        for each in advances:
            where = {"subscription": each.subscription, "stream": each.stream, "source": each.source}
            gone = [step.tag for step in each.tags if step.revision is None]
            connection.execute(delete(table).filter_by(**where).where(table.c.tag.in_(gone)))

    cursors.advance = forget


def _begun_anew() -> None:
    """Take a stream without cursors for one that has not begun."""
    position = cursors.position_of

    def without_memory(*arguments: Any) -> Any:
        found = position(*arguments)
        return found if found is not None and found.cursors else None

    vars(cursors)["position_of"] = without_memory


MUTANTS: Mapping[str, Callable[[], None]] = {
    "cursor first": CRASH_MUTANTS["cursor first"],
    "send first": CRASH_MUTANTS["send first"],
    "random id": CRASH_MUTANTS["random id"],
    "unread forgotten": _unread_forgotten,
    "cursor deleted": _cursor_deleted,
    "begun anew": _begun_anew,
}
