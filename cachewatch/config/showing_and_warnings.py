"""Show the configuration with all defaults and masked secrets, and its JSON Schema; warn of odd settings."""

import json
import textwrap
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from cachewatch.config.schedules_and_dates import WEEKDAYS, duration_in_words
from cachewatch.config.sections import ConfigKey, ConfigSection, keys_of
from cachewatch.config.settings_and_subscriptions import Config, Subscription, WholeConfig
from cachewatch.config.sources_and_channels import Credentials, MailConfig
from cachewatch.config.value_types_and_secrets import PostgresAddress, Secret
from cachewatch.core.filters_and_spec_patterns import Globs
from cachewatch.core.kinds_and_specs import Kind
from cachewatch.runtime.files_and_locks import shared_kind

_WHOLE: Any = {"break_long_words": False, "break_on_hyphens": False}
_LEFT_OUT: tuple[Any, ...] = (None, (), "", {}, frozenset())


def show_config(config: Config) -> str:
    """Return `config` as the text of a configuration file, with all defaults, and with stars for secrets."""
    return "".join(f"{line}\n" for line in _lines(shown_values(config), ""))


def shown_values(config: Config) -> dict[str, Any]:
    """Return the values that `show_config` shows, as plain dictionaries and lists."""
    values = _section(config) | {"silences": {silence.name: _section(silence) for silence in config.silences}}
    if isinstance(config.state, Path):
        del values["state_folder"]  # which is for a state in a database
    return values


def _section(section: ConfigSection) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key in keys_of(type(section)).values():
        value = getattr(section, key.attribute)
        if key.name == key.names[0] and (value not in _LEFT_OUT or key.attribute == "hold_for"):
            values[key.name] = written(value, key.attribute)
    return values


def written(value: Any, name: str) -> Any:  # noqa: C901, PLR0911, PLR0912  one for each type
    """Return the value of the field `name` as it is written in the configuration file, with stars for a secret."""
    match value:
        case ConfigSection():
            return _section(value)
        case tuple():
            return [written(item, name) for item in value]
        case dict() if name == "credentials":
            return _section(Credentials(**value))
        case dict():
            return {key: written(item, key) for key, item in value.items()}
        case Secret():
            return "***"
        case timedelta():
            return duration_in_words(value)
        case date():
            return value.isoformat()
        case frozenset() if name == "days":
            return ",".join(WEEKDAYS[day][:3] for day in sorted(value))
        case frozenset():
            return [kind.value for kind in Kind if kind in value]
        case Path() | PostgresAddress():
            return str(value)
        case _ if name == "helper":  # a command, with whatever its arguments are
            return "***"
        case _ if name == "hold_for":
            return "never"
        case _ if name == "mode":
            return f"{value:04o}"
        case _:
            return _masked(value) if name == "address" else value


def _masked(address: str) -> str:
    """Return `address`; if it is an http URL, with stars for its user and query, which may be tokens."""
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
            line = f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}"
            is_list = isinstance(value, list)
            yield from textwrap.wrap(line, 78, subsequent_indent=f"{indent}  ", **_WHOLE) if is_list else [line]


_OF_PYTHON = ("default", "description", "if_left_out", "keys", "required", "title")


def json_schema() -> bytes:
    """Return the JSON Schema of the configuration file, with a line end."""
    schema = WholeConfig.model_json_schema(schema_generator=_OfFile)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "cachewatch.yaml"}
    return msgspec.json.format(msgspec.json.encode(head | schema), indent=1) + b"\n"


class _OfFile(GenerateJsonSchema):
    """Generates the schema of what is written in the file (no value is null), not that of the parsed values."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Forbid keys that do not match the pattern for names; pydantic's schema would allow them with any value."""
        found = super().dict_schema(schema)
        ((pattern, values),) = found.pop("patternProperties").items()
        return found | {"propertyNames": {"pattern": pattern}, "additionalProperties": values}

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """Return a schema in which `type` selects the allowed keys, so that editors mark a wrong key."""
        types = {str(name): self.generate_inner(each) for name, each in schema["choices"].items()}
        default = schema.get("metadata", {}).get("default")
        needed: JsonSchemaValue = {"required": ["type"]}
        cases: list[JsonSchemaValue] = []
        for name, each in types.items():
            is_it: JsonSchemaValue = {"properties": {"type": {"const": name}}}
            cases.append({"if": is_it if name == default else is_it | needed, "then": each})
        known: JsonSchemaValue = {"type": "object", "properties": {"type": {"enum": list(types)}}}
        return (known if default else known | needed) | {"allOf": cases}

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Return a schema that describes each key, also if several keys fill one field."""
        shown = super().model_schema(schema)
        shown.pop("title", None)
        keys = keys_of(schema["cls"])
        properties, shown["properties"] = shown["properties"], {}
        for name, own in keys.items():
            form = {word: value for word, value in properties[own.names[0]].items() if word not in _OF_PYTHON}
            default = f" Default: {default}." if (default := default_of(own)) else ""
            shown["properties"][name] = form | {"description": f"{own.about[:1].upper()}{own.about[1:]}.{default}"}
        shown["required"] = [name for name, each in keys.items() if each.is_required]
        return shown


def default_of(key: ConfigKey) -> str:
    """Return the default of `key`, or a phrase on what holds without it; "" if it is required or has no effect."""
    default, is_required = key.field.default, key.is_required or key.field.is_required()
    if key.if_left_out or is_required or isinstance(default, ConfigSection) or default in (None, {}):
        return key.if_left_out
    value = written(default, key.attribute)
    return f"`[{', '.join(value)}]`" if isinstance(value, list) else f"`{value}`"


def advise(config: Config, day: date) -> Iterator[str]:
    """Yield warnings about settings that are probably not intended; `day` is today, for silences."""
    used = {channel for subscription in config.subscriptions.values() for channel in channels_of(subscription)}
    used |= set(config.operators.channels)
    for name in config.channels:
        if name not in used:
            yield f"channels.{name} is not used"
    for name in config.sources:
        if not any(Globs(s.match.sources)(name) for s in config.subscriptions.values()):
            yield f"sources.{name} is polled, but no subscription uses it"
    for silence in config.silences:
        if not silence.is_active(day):
            yield f"silences.{silence.name} ended on {silence.until}; remove it"
    if not config.subscriptions:
        yield "there are no subscriptions, so no digests are sent"
    if not config.operators.channels:
        yield "there are no operators, so nobody is notified of alerts"
    yield from _missing(config)


def channels_of(subscription: Subscription) -> tuple[str, ...]:
    """Return the names of all channels of a subscription, for regular and urgent digests."""
    urgent = subscription.urgent.channels if subscription.urgent else ()
    return (*subscription.channels, *urgent)


def _missing(config: Config) -> Iterator[str]:
    """Yield warnings about the state's folder, links to unsubscribe, and sources that do not exist here."""
    if kind := shared_kind(config.folder):
        yield f"state: {config.folder} is on {kind}: work on it from one machine only, and choose a local disk if you can"
    for channel in config.channels.values():
        # A link that unsubscribes at a click, without a token: anybody can make one for any recipient.
        link = channel.unsubscribe if isinstance(channel, MailConfig) and not channel.unsubscribe_key else None
        if link and link.startswith("https:"):
            yield (
                f"channels.{channel.name}.unsubscribe: a click unsubscribes whoever the link names, and anybody can make"
                " one for others; add {token}, and `unsubscribe_key_file:` with its key"
            )
    for source in config.sources.values():
        if source.address.startswith("/") and not Path(source.address).exists():
            yield f"sources.{source.name}: there is nothing at {source.address} yet"
