"""A checked configuration as a file again: everything that holds, with the defaults, and stars for secrets."""

import json
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from cachewatch.config.base_section import Section, keys_of
from cachewatch.config.model import Config, QuietTime, Source
from cachewatch.config.secrets import Secret
from cachewatch.config.sources import Credentials
from cachewatch.config.state_address import PostgresAddress
from cachewatch.core.change_kinds import MEANINGS
from cachewatch.core.durations import duration_in_words
from cachewatch.core.schedule import WEEKDAYS, Quiet

_LEFT_OUT: tuple[Any, ...] = (None, (), "", {}, frozenset())


def show_config(config: Config) -> str:
    """Return the text of a file that says what `config` says, but for its secrets."""
    return "".join(f"{line}\n" for line in _lines(shown_values(config), ""))


def shown_values(config: Config) -> dict[str, Any]:
    """Return the same as plain values."""
    found = _section(config) | {"silences": {silence.name: _section(silence) for silence in config.silences}}
    if isinstance(config.state, Path):
        del found["state_folder"]  # which is for a state in a database
    return found


def _section(section: Section) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in keys_of(type(section)).values():
        value = getattr(section, key.attribute)
        if key.name == key.names[0] and (value not in _LEFT_OUT or key.attribute == "hold_for"):
            found[key.name] = _plain(value, key.attribute)
    if isinstance(section, Source) and section.type != "git":
        found = {"url" if name == "git" else name: value for name, value in found.items()}
    return found


def _plain(value: Any, name: str) -> Any:
    """Return the value of a field as a file has it."""
    match value:
        case Section():
            return _section(value)
        case Quiet():
            return _section(QuietTime(days=value.days, start=value.start, end=value.end))
        case tuple():
            return [_plain(item, name) for item in value]
        case dict() if name == "credentials":
            return _section(Credentials(**value))
        case dict():
            return {key: _plain(item, key) for key, item in value.items()}
        case _:
            return written(value, name)


def written(value: Any, name: str) -> Any:  # noqa: PLR0911  one for each type
    """Return the value of a field as it is written in a file."""
    match value:
        case Secret():
            return "***"
        case timedelta():
            return duration_in_words(value)
        case date():
            return value.isoformat()
        case frozenset() if name == "days":
            return ",".join(WEEKDAYS[day][:3] for day in sorted(value))
        case frozenset():
            return [kind.value for kind in MEANINGS if kind in value]
        case Path() | PostgresAddress():
            return str(value)
        case _:
            return _written(value, name)


def _written(value: Any, name: str) -> Any:
    match name:
        case "helper":  # a command, with whatever its arguments are
            return "***"
        case "hold_for":
            return "never"
        case "mode":
            return f"{value:04o}"
        case "address":
            return _masked(value)
        case _:
            return value


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
