"""Times as people read them, in the time zone of the configuration."""

from datetime import datetime
from zoneinfo import ZoneInfo


def minute(moment: datetime, zone: str = "UTC") -> str:
    """Return a time to the minute, with its zone: `2025-06-02 07:00 CEST`."""
    return f"{moment.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M %Z}"


def second(moment: datetime, zone: str = "UTC") -> str:
    """Return a time to the second, with its zone: `2025-06-02 07:00:12 CEST`."""
    return f"{moment.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M:%S %Z}"
