"""Keep the state of the service in a PostgreSQL database, which several hosts can share."""

from typing import Any

from cachewatch.hooks import extends, load


@extends
def open_state(address: Any) -> Any:
    """Return the state in the PostgreSQL database at `address`, without connecting to it."""
    return load(f"{__name__}.postgresql:ServerState")(address)
