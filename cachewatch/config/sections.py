"""The base of all sections of the configuration file: frozen pydantic models whose errors are plain sentences.

pydantic collects all errors of a section with their locations; reading_showing_warnings.py finds the lines. The file is
validated by alias, so that `from:` may fill the field `sender`; code makes values by the names of fields.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

from msgspec import Struct, field
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from cachewatch.core.names_and_layouts import similar
from cachewatch.errors import ConfigError, UsageError


class Nothing:
    """The value of a key that the file gives no value. It is not None, which optional keys would accept."""


NOTHING = Nothing()
_WANTED = {
    "value": "give it one value, or remove the line",
    "list": "give it a list: [one, two]",
    "section": "it takes keys and values, indented below it",
}


class ConfigNode(Struct, frozen=True, kw_only=True, dict=True):
    """One value of the file with its line. A single value is text, not parsed yet; None if the file gives no value."""

    value: "str | Mapping[str, ConfigNode] | tuple[ConfigNode, ...] | None"
    file: Path
    line: int
    path: str  # of keys, such as sources.public.poll.every or subscriptions.ml.to[1]

    @cached_property
    def plain(self) -> Any:
        """The value as a plain dict, list or text, without lines; NOTHING for a key without a value."""
        if isinstance(self.value, Mapping):
            return {key: each.plain for key, each in self.value.items()}
        if isinstance(self.value, tuple):
            return [each.plain for each in self.value]
        return NOTHING if self.value is None else self.value

    def at(self, location: Iterable[int | str]) -> "ConfigNode":
        """Return the node at `location` (keys and indexes), or the nearest one around it that exists."""
        node = self
        for part in location:
            if isinstance(node.value, Mapping) and part in node.value:
                node = node.value[str(part)]
            elif isinstance(node.value, tuple) and isinstance(part, int):
                node = node.value[part]
        return node


class Broken(Exception):
    """A value is unusable; its mistakes are already recorded in the ConfigContext."""


class ConfigContext(Struct, kw_only=True):
    """What is known about the file while it is read, and the mistakes found so far."""

    file: Path
    zone: str = "UTC"
    with_secrets: bool = True  # False leaves all secrets empty; they need not exist
    sources: frozenset[str] = frozenset()
    subscriptions: frozenset[str] = frozenset()
    channels: Mapping[str, str] = {}  # the type of each
    templates: Path | None = None
    mistakes: set[tuple[str, int, str, str]] = field(default_factory=set)  # file, line, path of keys and message

    @property
    def folder(self) -> Path:
        """The folder to which paths in the file are relative."""
        return self.file.absolute().parent

    def note(self, node: ConfigNode, message: str) -> None:
        """Record the mistake `message` at the line of `node`."""
        self.mistakes.add((str(node.file), node.line, node.path, message))

    def raise_mistakes(self) -> None:
        """Raise ConfigError with all recorded mistakes, if there are any."""
        lines = [
            ": ".join(filter(None, (f"{file}:{line}" if line else file, path, message)))
            for file, line, path, message in sorted(self.mistakes)
        ]
        if lines:
            count = [f"{min(self.mistakes)[0]}: {len(lines)} mistakes"] if len(lines) > 1 else []
            raise ConfigError("\n".join([*count, *lines]))


def holds(value: object, wanted: str) -> str:
    """Return the message that `value` has the wrong type; the right one is `wanted`: "value", "list" or "section"."""
    kinds = {Nothing: "nothing", str: "text", list: "a list", tuple: "a list"}
    return f"holds {kinds.get(type(value), 'a section')}; {_WANTED[wanted]}"


def unknown(word: str, known: Iterable[str]) -> str:
    """Return the end of a message about the unknown `word`: a similar word of `known`, or else all of `known`."""
    known = sorted(known)
    if close := similar(word, known, 1):
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(known)}" if known else "there are none"


T = TypeVar("T")

# The alias of fields that no key fills, such as the name of an entry. A YAML file cannot contain this character.
NOT_A_KEY = "\0"
_OURS = "cachewatch"
_QUOTED = re.compile("'([^']*)'")
_FOLLOWS_ANOTHER = "default_factory_not_called"  # the field that it depends on has an error of its own
_WANTED_TYPE = dict.fromkeys(("model_type", "dict_type", "model_attributes_type"), "section") | {"tuple_type": "list"}


def key(about: str | Mapping[str, str], default: Any = ..., *, name: str = "", if_left_out: str = "") -> Any:
    """Return the declaration of a field that the key of the same name fills, or the key `name`, if given.

    `about` describes the key, or maps each of several keys for the field to its description. `if_left_out` says what
    happens without the key, where `default` does not.
    """
    keys = {} if isinstance(about, str) else dict(about)
    options: dict[str, Any] = {
        "default_factory" if callable(default) else "default": default,
        "validation_alias": AliasChoices(*keys) if keys else name or None,
        "description": None if keys else about,
        "json_schema_extra": {"if_left_out": if_left_out, "keys": keys},
    }
    return Field(**options)


def not_in_file() -> Any:
    """Return the declaration of a field that no key of the file fills."""
    return Field(validation_alias=NOT_A_KEY)


class ConfigSection(BaseModel):
    """A section with fixed keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, validate_by_name=True, validate_by_alias=True
    )

    @model_validator(mode="wrap")
    @classmethod
    def _describe(cls, data: Any, handler: Callable[[Any], Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            described = [
                InitErrorDetails(type=mistake(sentence), loc=each["loc"], input=None)
                for each in error.errors(include_url=False)
                if (sentence := _sentence(cls, each, data))
            ]
            raise ValidationError.from_exception_data(cls.__name__, described) from None


class ConfigKey(Struct, frozen=True):
    """One key of a section, and the field that it fills."""

    name: str
    names: list[str]  # all keys that fill the same field
    attribute: str
    field: FieldInfo
    about: str
    if_left_out: str  # the effect of leaving the key out in words, if that is no plain value
    is_required: bool  # the section must have this key itself, not another one for the same field


def keys_of(section: type[ConfigSection]) -> dict[str, ConfigKey]:
    """Return the keys of a section, by name."""
    keys: dict[str, ConfigKey] = {}
    for attribute, own in section.model_fields.items():
        alias = own.validation_alias
        names = list(map(str, alias.choices if isinstance(alias, AliasChoices) else [alias or attribute]))
        more: dict[str, Any] = own.json_schema_extra if isinstance(own.json_schema_extra, dict) else {}
        is_required = "required" in more or (own.is_required() and len(names) == 1)
        for name in names if NOT_A_KEY not in names else ():
            about = more.get("keys", {}).get(name) or own.description or ""
            keys[name] = ConfigKey(name, names, attribute, own, about, more.get("if_left_out", ""), is_required)
    return keys


def mistake(message: object) -> PydanticCustomError:
    """Return a pydantic error with the text `message`."""
    return PydanticCustomError(_OURS, "{message}", {"message": str(message)})


def checked(parse: Callable[..., T], *values: Any) -> T:
    """Return `parse(*values)`. Raises a pydantic error in place of a UsageError, with its message."""
    try:
        return parse(*values)
    except UsageError as error:
        raise mistake(error) from None


def mistake_at(location: tuple[str, ...], message: str) -> ValidationError:
    """Return a pydantic error at `location`, the keys within the value that is being validated."""
    return ValidationError.from_exception_data("", [InitErrorDetails(type=mistake(message), loc=location, input=None)])


def _sentence(section: type[ConfigSection], error: ErrorDetails, data: Any) -> str | None:
    kind, value = error["type"], error["input"]
    if kind == _OURS:
        return error["msg"]
    if kind == _FOLLOWS_ANOTHER:
        return None
    if kind == "missing":
        return _missing(section, str(error["loc"][-1]), data)
    if kind == "extra_forbidden":
        name, keys = str(error["loc"][-1]), keys_of(section)
        said = f"set only one: one of {', '.join(keys[name].names)}" if name in keys else ""
        return said or f"there is no such key; {unknown(name, keys)}"
    if kind == "literal_error" and isinstance(value, str):
        return f"{value!r} is not one of its values; {unknown(value, _QUOTED.findall(error['ctx']['expected']))}"
    # Values that code passed get pydantic's own message.
    is_of_file = isinstance(value, str | list | dict | Nothing)
    return holds(value, _WANTED_TYPE.get(kind, "value")) if is_of_file else error["msg"]


def _missing(section: type[ConfigSection], name: str, data: Any) -> str | None:
    keys = keys_of(section)
    if name not in keys:
        return f"lacks {name}"
    names = keys[name].names
    if len(names) == 1:
        return f"lacks `{name}:` ({keys[name].about.partition(';')[0]})"
    if isinstance(data, dict) and data.keys() - keys.keys() - {NOT_A_KEY}:
        return None  # one of them is probably misspelt, which is another mistake
    return f"lacks `{names[1]}:` (or `{names[2]}:`)"
