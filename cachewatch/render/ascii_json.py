"""JSON in ASCII, so that it does no harm wherever it is shown."""

import re
from typing import Any

import msgspec

_NOT_ASCII = re.compile("[\x7f-\U0010ffff]")


def encode(value: Any) -> bytes:
    """Encode plain values as JSON in ASCII."""
    return ascii_only(msgspec.json.encode(value))


def ascii_only(data: bytes) -> bytes:
    """Escape everything in JSON `data` that is not plain ASCII."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return _NOT_ASCII.sub(_escape, data.decode("utf-8")).encode("ascii")


def _escape(match: re.Match[str]) -> str:
    # JSON has escapes of 16 bits; what lies beyond takes two.
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(units[i : i + 2], 'big'):04x}" for i in range(0, len(units), 2))
