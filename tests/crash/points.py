"""The named places in a pass at which it is killed: before or after a function does its work."""

from typing import Any

from cachewatch.service import deciding_and_storing as creating_digests
from cachewatch.service import digest_assembly as building_messages
from cachewatch.service import passes_and_leadership as run_pass
from cachewatch.service import poll as poll_source
from cachewatch.service import sending_and_channel_faults as sending_deliveries
from cachewatch.service.context_and_source_copies import Context
from cachewatch.store import cursors_and_remembered as cursors
from cachewatch.store import deliveries as outbox
from cachewatch.store import digests_and_holds as digests
from cachewatch.store import health_and_alerts as health
from cachewatch.store.sqlite_and_process_lock import SqliteDatabase

_PLACES: tuple[tuple[Any, str], ...] = (
    (Context, "pin"),
    (SqliteDatabase, "tidy"),
    (creating_digests, "store"),
    (creating_digests, "compose"),
    (creating_digests, "build_messages"),
    (cursors, "advance"),
    (sending_deliveries, "_attempt"),
    (sending_deliveries, "_settle"),
    (digests, "add"),
    (digests, "forget_digests"),
    (health, "put_health"),
    (outbox, "share"),
    (outbox, "add"),
    (outbox, "claim"),
    (outbox, "message"),
    (outbox, "settle"),
    (building_messages, "_packed"),
    (run_pass, "clean_up"),
    (poll_source, "_succeeded"),
    (creating_digests, "read_stream"),
    (creating_digests, "decide"),
    (creating_digests, "write_decision"),
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
