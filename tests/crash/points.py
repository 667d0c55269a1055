"""The named places in a pass at which it is killed: before or after a function does its work."""

from typing import Any

from cachewatch.notify import creating, delivering, messages, passes, pending, polling
from cachewatch.notify.context import Context
from cachewatch.store import cursors, digests, health, outbox
from cachewatch.store.database import Database

_PLACES: tuple[tuple[Any, str], ...] = (
    (Context, "pin"),
    (Database, "tidy"),
    (creating, "store"),
    (creating, "compose"),
    (creating, "build_messages"),
    (cursors, "advance"),
    (delivering, "_attempt"),
    (delivering, "_settle"),
    (digests, "add"),
    (digests, "forget"),
    (health, "save_channel"),
    (health, "save_source"),
    (outbox, "add"),
    (outbox, "claim"),
    (outbox, "message"),
    (outbox, "requeue_interrupted"),
    (outbox, "settle"),
    (messages, "_packed"),
    (passes, "clean_up"),
    (polling, "_succeeded"),
    (pending, "begin"),
    (pending, "has_news"),
)

POINTS = {
    f"{'after' if is_after else 'before'} {getattr(module, '__name__', '').rpartition('.')[2]}.{name}": (
        module,
        name,
        is_after,
    )
    for module, name in _PLACES
    for is_after in (False, True)
}
