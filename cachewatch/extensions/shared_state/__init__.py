"""A state that several hosts share, in a PostgreSQL database."""

from typing import Any

from cachewatch.hooks import extends, load


@extends
def open_state(address: Any) -> Any:
    """Return the state on a server."""
    return load(f"{__name__}.postgresql:ServerState")(address)
