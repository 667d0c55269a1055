"""The named places in a pass at which it is killed: before or after a function does its work."""

from typing import Any

from cachewatch.service import (
    deciding_and_storing,
    digest_assembly_and_hold_times,
    passes_and_leadership,
    sending_and_channel_faults,
)
from cachewatch.service.context_and_source_copies import Context
from cachewatch.store import cursors_and_remembered as cursors
from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store import digests_and_holds as digests
from cachewatch.store import health_and_alerts as health
from cachewatch.store.transactions_and_sqlite import SqliteDatabase

_PLACES: tuple[tuple[Any, str], ...] = (
    (Context, "pin"),
    (SqliteDatabase, "tidy"),
    (deciding_and_storing, "store"),
    (deciding_and_storing, "compose"),
    (deciding_and_storing, "pack_messages"),
    (cursors, "advance"),
    (sending_and_channel_faults, "_attempt"),
    (sending_and_channel_faults, "_settle"),
    (digests, "add"),
    (digests, "forget_digests"),
    (health, "put_health"),
    (deliveries, "share"),
    (deliveries, "add"),
    (deliveries, "claim"),
    (deliveries, "message"),
    (deliveries, "settle"),
    (digest_assembly_and_hold_times, "_render_both"),
    (passes_and_leadership, "clean_up"),
    (passes_and_leadership, "_succeeded"),
    (deciding_and_storing, "read_stream"),
    (deciding_and_storing, "decide"),
    (deciding_and_storing, "write_decision"),
)

POINTS = {
    f"{when} {getattr(module, '__name__', '').rpartition('.')[2]}.{name}": (module, name, when == "after")
    for module, name in _PLACES
    for when in ("before", "after")
}
