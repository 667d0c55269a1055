"""A checked configuration as a file again: everything that holds, with the defaults, and stars for secrets."""

import json
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from cachewatch.config.model import ChannelConfig, Config, Limit, Secret, Source
from cachewatch.core.durations import duration_in_words
from cachewatch.core.kinds import MEANINGS
from cachewatch.core.schedule import WEEKDAYS, Quiet

# Where a key of the file has another name than the field that it fills.
_KEYS = {"sender": "from", "lasting": "for", "start": "from", "end": "to"}
_KEYS |= {name: f"{name}_file" for name in ("ssh_key", "known_hosts", "netrc", "store")}
# Commands, with whatever their arguments are.
_SECRET = ("helper",)
_NOT_IN_THE_FILE = ("name", "path", "zone", "options")


def show_config(config: Config) -> str:
    """Return the text of a file that says what `config` says, but for its secrets."""
    values = _plain(config)
    values["silences"] = {silence.name: _plain(silence) for silence in config.silences}
    return "".join(f"{line}\n" for line in _lines(values, ""))


def _plain(value: Any) -> Any:
    """Return `value` as a file has it."""
    if isinstance(value, Struct):
        return _section(value)
    if isinstance(value, Mapping):
        return {_KEYS.get(key, key): "***" if key in _SECRET else _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    match value:
        case Secret():
            return "***"
        case timedelta():
            return duration_in_words(value)
        case date():
            return value.isoformat()
        case frozenset():
            return [kind.value for kind in MEANINGS if kind in value]
        case _:
            return str(value) if isinstance(value, Path) else value


def _section(value: Struct) -> dict[str, Any]:
    fields = {name: getattr(value, name) for name in value.__struct_fields__ if name not in _NOT_IN_THE_FILE}
    match value:
        case Source():
            address = _masked(fields.pop("address"))
            fields = {"type": fields.pop("type"), "git" if value.type == "git" else "url": address} | fields
            fields |= value.options
        case ChannelConfig():
            fields = {"type": value.type} | fields
            if hasattr(value, "path"):
                fields["path"] = value.path
            if hasattr(value, "mode"):
                fields["mode"] = f"{value.mode:04o}"
        case Limit():
            fields["hold_for"] = "never" if value.hold_for is None else value.hold_for
        case Quiet():
            fields["days"] = ",".join(WEEKDAYS[day][:3] for day in sorted(value.days)) or None
        case _:
            pass
    return {_KEYS.get(name, name): _plain(item) for name, item in fields.items() if item not in (None, (), "", {})}


def _masked(address: str) -> str:
    """Return an address without what servers take for a token: the user of http, and all that follows a `?`."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https"):
        return address
    user, at, host = parts.netloc.rpartition("@")
    query = "***" if parts.query else ""
    return urlunsplit((parts.scheme, f"***@{host}" if at and user else host, parts.path, query, ""))


def _lines(values: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            if value:
                yield f"{indent}{key}:"
                yield from _lines(value, f"{indent}  ")
        elif value is not None:
            yield f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}"
