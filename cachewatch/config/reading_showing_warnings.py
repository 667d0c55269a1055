"""Find the configuration file and read it into a checked `Config`; report every mistake with its line.

Values stay text as written until the type of their key converts them: 07:30 is no number, and `no` is no boolean. The
second part shows the configuration with all defaults and masked secrets, and its JSON Schema, and warns of odd settings.
"""

import json
import os
import re
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit, urlunsplit

import msgspec
import yaml
from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from cachewatch.config.schedules_and_quiet_times import WEEKDAYS, check_zone, duration_in_words
from cachewatch.config.sections import (
    NOT_A_KEY,
    Broken,
    ConfigContext,
    ConfigKey,
    ConfigNode,
    ConfigSection,
    holds,
    keys_of,
)
from cachewatch.config.settings_and_subscriptions import Config, Subscription, WholeConfig
from cachewatch.config.sources_and_channels import Credentials, MailConfig, channel_models, source_models
from cachewatch.config.value_types_and_secrets import PostgresAddress, Secret, path_in
from cachewatch.core.filters_and_spec_patterns import Globs
from cachewatch.core.kinds_and_specs import Kind
from cachewatch.errors import ConfigError
from cachewatch.runtime.files_and_locks import folder_around, read_inside, shared_kind


def read_whole(node: ConfigNode, context: ConfigContext) -> Config:
    """Return the Config in `node`, the root of the file. Raises ConfigError with all mistakes, if any."""
    values = node.plain | {NOT_A_KEY: node.file}
    _look_ahead(values, context)
    try:
        config = WholeConfig.model_validate(values, context=context, by_alias=True, by_name=False)
    except ValidationError as error:
        types = {"channels": channel_models(), "sources": source_models()}
        for detail in error.errors(include_url=False, include_input=False):
            location = detail["loc"]
            if location[2:3] and location[2] in types.get(str(location[0]), ()):
                location = (*location[:2], *location[3:])  # without the type, which pydantic adds after the name
            context.note(node.at(location), detail["msg"])
        context.raise_mistakes()
        raise ConfigError(f"{node.file}: is not a valid configuration") from error
    # The digests of a subscription in another file would reveal what its environment contains.
    for name, subscription in config.subscriptions.items():
        path, theirs = subscription.match.environment, node.at(("subscriptions", name, "match", "environment"))
        if path and theirs.file != node.file and not folder_around(path, config.environment_folders):
            context.note(theirs, f"{path} is in none of the `environment_folders:`; the operator can add its folder")
    context.raise_mistakes()  # also those that break nothing, such as a repeated key
    return config


def _look_ahead(values: Mapping[str, Any], context: ConfigContext) -> None:
    """Store in `context` the names and settings in `values`, the whole file, that checks of several sections need."""
    sources, subscriptions, channels = (
        section if isinstance(section := values.get(name), dict) else {}
        for name in ("sources", "subscriptions", "channels")
    )
    context.sources, context.subscriptions = frozenset(sources), frozenset(subscriptions)
    context.channels = {name: str(each.get("type", "")) for name, each in channels.items() if isinstance(each, dict)}
    with suppress(ConfigError):  # which is reported when the key is read
        if isinstance(zone := values.get("timezone"), str):
            context.zone = check_zone(zone)
    with suppress(ConfigError):
        if isinstance(templates := values.get("templates_dir"), str):
            context.templates = path_in(context.folder, templates)


_MOST_BYTES = 2**20
_MOST_DEPTH = 32
_HALF = re.compile("[\ud800-\udfff]")
_HINTS = {
    "a single document": "a file may contain only one, so remove the ---",
    "mapping values are not allowed": "a colon followed by a space starts a section; put quotes around the text",
    "cannot start any token": "text cannot begin with @, %, ` or a tab; put quotes around it, and indent with spaces",
    "scanning a tag": "text that begins with ! needs quotes around it",
    "did not find expected ',' or ']'": "a list that begins with [ ends with ]",
    "did not find expected ',' or '}'": "a section that begins with { ends with }",
    "alias": "text that begins with * needs quotes around it",
    "anchor": "text that begins with & needs quotes around it",
}


def read_config(given: Path | None, *, with_secrets: bool = True) -> Config:
    """Return the checked contents of the file `given` (None: the usual one), and of `subscriptions.d/*.yaml` beside it.

    If not `with_secrets`, reads no secrets from files or variables. Raises ConfigError with every mistake and its line.
    """
    path = given or usual_config()
    if path is None:
        remedy = f"create one with `cachewatch init`, or name it with --config or ${VARIABLE}"
        raise ConfigError(f"there is no configuration ({', '.join(map(str, _places()))}); {remedy}")
    context = ConfigContext(file=path, with_secrets=with_secrets)
    try:
        entries = dict(_read_file(path, context, is_ours=True))
    except Broken:
        context.raise_mistakes()
        raise
    _add_subscriptions(entries, path, context)
    return read_whole(ConfigNode(value=entries, file=path, line=1, path=""), context)


def _add_subscriptions(entries: dict[str, ConfigNode], path: Path, context: ConfigContext) -> None:
    """Add the subscriptions in the files of `subscriptions.d` beside `path` to `entries`, in place."""
    main = entries.get("subscriptions")
    known = dict(main.value) if main and isinstance(main.value, Mapping) else {}
    folder, files = path.parent / "subscriptions.d", []
    try:
        files = sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        context.mistakes.add((str(folder), 0, "", f"cannot be read: {error.strerror}"))
    for file in (each for each in files if each.suffix in (".yaml", ".yml") and not each.name.startswith(".")):
        with suppress(Broken):
            theirs = dict(_read_file(file, context, is_ours=False))
            own = theirs.pop("subscriptions", None)
            for node in theirs.values():
                context.note(node, "is not allowed here; files in subscriptions.d contain only `subscriptions:`")
            for name, node in _as_section(own, context).items() if own else ():
                if name in known:
                    context.note(node, f"stands in {known[name].file}:{known[name].line} already; choose another name")
                known.setdefault(name, node)
    if known and not (main and isinstance(main.value, str | tuple)):  # which is a mistake
        line = main.line if main else 1
        entries["subscriptions"] = ConfigNode(value=known, file=path, line=line, path="subscriptions")


def _as_section(node: ConfigNode, context: ConfigContext) -> Mapping[str, ConfigNode]:
    """Return the keys and values of a section. Raises Broken, with a mistake in `context`, if `node` is no section."""
    if not isinstance(node.value, Mapping):
        context.note(node, holds(node.plain, "section"))
        raise Broken
    return node.value


def _read_file(path: Path, context: ConfigContext, *, is_ours: bool) -> Mapping[str, ConfigNode]:
    """Return the sections of the YAML file `path`. Raises Broken if it is unusable.

    If not `is_ours`, somebody else may have written the file; it must not be a link that leads out of its folder.
    """
    content, line = b"", 0
    try:
        if is_ours:
            with path.open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
        else:  # somebody else may have written it, and must not make us read other files with our rights
            content = read_inside(path.parent, path.name, most=_MOST_BYTES)
        if len(content) > _MOST_BYTES:
            raise ConfigError(f"is larger than {_MOST_BYTES // 2**20} MiB, the limit for a configuration")
        return _as_section(_Tree(path, context).read(content.decode("utf-8-sig")), context)
    except UnicodeDecodeError as error:
        line, message = content[: error.start].count(b"\n") + 1, "is not UTF-8 text; save it as UTF-8"
    except yaml.YAMLError as error:
        line, message = _explain(error, content)
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
    except ConfigError as error:
        message = str(error)
    context.mistakes.add((str(path), line, "", message))
    raise Broken


class _Tree:
    """Converts the YAML text of `file` to ConfigNodes; a node to which several aliases refer is converted once."""

    def __init__(self, file: Path, context: ConfigContext) -> None:
        self._make = partial(ConfigNode, file=file)
        self._context = context
        self._made: dict[yaml.Node, ConfigNode] = {}

    def read(self, text: str) -> ConfigNode:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):  # PyYAML's composer would recurse
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MOST_DEPTH:
                self._refuse(event, "", f"is nested more than {_MOST_DEPTH} levels deep")
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
        return self._node(root, 1, "", ()) if root else self._make(value={}, line=1, path="")

    def _node(self, node: yaml.Node, line: int, path: str, around: tuple[yaml.Node, ...]) -> ConfigNode:
        """Return the YAML node at `path` as a ConfigNode; `line`: of its key; `around`: the nodes that contain it."""
        if node in around:
            self._refuse(node, path, f"contains itself; {_HINTS['alias']}")
        if node not in self._made:
            if not node.tag.startswith("tag:yaml.org,2002:"):
                self._refuse(node, path, f"{node.tag} is read as a YAML tag; {_HINTS['scanning a tag']}")
            self._made[node] = self._make(value=self._value(node, path, (*around, node)), line=line, path=path)
        return self._made[node]

    def _value(self, node: Any, path: str, around: tuple[yaml.Node, ...]) -> Any:
        if isinstance(node, yaml.MappingNode):
            section: dict[str, ConfigNode] = {}
            for name, value in node.value:
                if not isinstance(name, yaml.ScalarNode):
                    self._refuse(name, path, "has a key that is not a word")
                key, line = self._text(name, path), _line_of(name)
                place = f"{path}.{key}" if path else key
                if key in section:
                    twice = f"stands in line {section[key].line} already; keep one of them"
                    self._context.note(self._make(value=None, line=line, path=place), twice)
                section.setdefault(key, self._node(value, line, place, around))
            return section
        if isinstance(node, yaml.SequenceNode):
            return tuple(self._node(v, _line_of(v), f"{path}[{n}]", around) for n, v in enumerate(node.value, 1))
        text = self._text(node, path)
        return None if not node.style and text.lower() in ("", "~", "null") else text

    def _text(self, node: Any, path: str) -> str:
        if "\0" in node.value or _HALF.search(node.value):
            self._refuse(node, path, "contains a character that text cannot contain")
        return str(node.value)

    def _refuse(self, at: yaml.Node | yaml.Event, path: str, message: str) -> NoReturn:
        self._context.note(self._make(value=None, line=_line_of(at), path=path), message)
        raise Broken


def _line_of(at: Any) -> int:
    return int(at.start_mark.line) + 1


def _explain(error: yaml.YAMLError, content: bytes) -> tuple[int, str]:
    """Return the line of a YAML `error` in `content`, or where an unclosed bracket or quote opens; and a message."""
    text = " ".join(str(error).split())
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or text
    hint = next((hint for words, hint in _HINTS.items() if words in text), "check the line, and the one above it")
    line = content.decode(errors="replace")[: getattr(error, "position", 0)].count("\n")
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        is_open = str(error.problem).startswith(("did not find", "found unexpected end"))
        line = int(((is_open and error.context_mark) or error.problem_mark).line)
    return line + 1, f"is not YAML: {problem}; {hint}"


NAME = "cachewatch.yaml"
VARIABLE = "CACHEWATCH_CONFIG"


def usual_config() -> Path | None:
    """Return the configuration file to read by default: $CACHEWATCH_CONFIG, or a usual file; None if none exists."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else next((place for place in _places() if place.is_file()), None)


def _places() -> Iterator[Path]:
    # The file names programs to run, so a file of another user in the current folder is ignored.
    here = Path(NAME)
    if not here.is_file() or here.stat().st_uid in (0, os.geteuid()):
        yield here
    yield Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "cachewatch" / NAME
    yield Path("/etc/cachewatch") / NAME


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
        """Return a schema that forbids keys which do not match the pattern for names; pydantic's allows any key."""
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
    """Return the default of `key`, or the effect of leaving it out; "" if the key is required or there is no effect."""
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
