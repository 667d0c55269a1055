"""Durations and sizes as people write them: 5m, 1h30m, 4d; 90kB, 2MiB."""

import re
from datetime import timedelta

from cachewatch.errors import ConfigError

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
_BYTES = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_PART = r"(\d{1,6})([smhdwy])"
DURATION = rf"^(0|({_PART})+)$"
SIZE = r"^\d{1,12} ?(B|kB|MB|GB|KiB|MiB|GiB)?$"


def parse_duration(text: str) -> timedelta:
    """Understand 30s, 5m, 1h30m, 4d, 2w or 2y (of 365 days)."""
    if not re.fullmatch(DURATION, text, re.ASCII):
        raise ConfigError(f"{text!r} is not a duration; write 30s, 5m, 1h, 4d, 2w or 2y")
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in re.findall(_PART, text))
    if seconds > 100 * _SECONDS["y"]:
        raise ConfigError(f"{text!r} is longer than a hundred years")
    return timedelta(seconds=seconds)


def duration_in_words(duration: timedelta) -> str:
    """Write a duration as `parse_duration` reads it."""
    seconds = int(duration.total_seconds())
    text = ""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        text += f"{count}{unit}" if count else ""
    return text or "0"


def parse_size(text: str) -> int:
    """Understand 90kB, 1MiB or a number of bytes."""
    match = re.fullmatch(r"(\d{1,12}) ?([A-Za-z]*)", text, re.ASCII)
    if match is None or match[2] not in _BYTES:
        raise ConfigError(f"{text!r} is not a size; write 90kB, 2MB, 64KiB or a number of bytes")
    return int(match[1]) * _BYTES[match[2]]
