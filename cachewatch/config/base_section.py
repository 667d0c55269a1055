"""The base of all sections of the file: a frozen pydantic model whose mistakes are sentences.

pydantic collects every error of a section with its location; `build_config.py` finds the line. The file is
validated by alias, so that `from:` may fill the field `sender`; code makes values by the names of fields.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

from msgspec import Struct
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from cachewatch.config.nodes import Nothing, holds, unknown
from cachewatch.errors import UsageError

T = TypeVar("T")

# The alias of fields that no key fills: the name of an entry, the path of the file. YAML cannot contain it.
NOT_A_KEY = "\0"
_OURS = "cachewatch"
_QUOTED = re.compile("'([^']*)'")
_FOLLOWS_ANOTHER = "default_factory_not_called"  # the field that it depends on has an error of its own
_WANTED = {"model_type": "section", "dict_type": "section", "model_attributes_type": "section", "tuple_type": "list"}


def key(about: str | Mapping[str, str], default: Any = ..., *, name: str = "", if_left_out: str = "") -> Any:
    """Declare a key; `about` says what it means, or maps several keys that fill the field to what each means.

    `name` is the key if it is not called like the field; `if_left_out` says in the documentation what holds
    without the key, where that is no plain value.
    """
    keys = {} if isinstance(about, str) else dict(about)
    options: dict[str, Any] = {
        "default_factory" if callable(default) else "default": default,
        "validation_alias": AliasChoices(*keys) if keys else name or None,
        "description": None if keys else about,
        "json_schema_extra": {"if_left_out": if_left_out, "keys": keys},
    }
    return Field(**options)


def obsolete() -> Any:
    """Declare a key that old files may contain. It has no effect, and no page or message names it."""
    return Field(None, json_schema_extra={"deprecated": True})


def not_in_file() -> Any:
    """Declare a field that no key of the file fills."""
    return Field(validation_alias=NOT_A_KEY)


class Section(BaseModel):
    """A section with fixed keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, validate_by_name=True, validate_by_alias=True
    )

    @model_validator(mode="wrap")
    @classmethod
    def _describe(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            described = [line for each in error.errors(include_url=False) if (line := _described(cls, each, data))]
            raise ValidationError.from_exception_data(cls.__name__, described) from None


class Key(Struct, frozen=True):
    """One key of a section, and the field that it fills."""

    name: str
    attribute: str
    field: FieldInfo

    @property
    def names(self) -> list[str]:
        """Return all keys that fill the same field."""
        return _names(self.attribute, self.field)

    @property
    def about(self) -> str:
        """Return what the key means."""
        return str(self._extra.get("keys", {}).get(self.name) or self.field.description)

    @property
    def if_left_out(self) -> str:
        """Return what holds without the key, where that is no plain value."""
        return str(self._extra.get("if_left_out", ""))

    @property
    def is_required(self) -> bool:
        """Tell whether the file must have this key, and not one of several."""
        return bool(self._extra.get("required")) or (self.field.is_required() and len(self.names) == 1)

    @property
    def is_obsolete(self) -> bool:
        """Tell whether the key is read and has no effect any more."""
        return "deprecated" in self._extra

    @property
    def _extra(self) -> dict[str, Any]:
        return self.field.json_schema_extra if isinstance(self.field.json_schema_extra, dict) else {}


def keys_of(section: type[Section]) -> dict[str, Key]:
    """Return the keys of a section."""
    keys = (
        Key(name, attribute, field)
        for attribute, field in section.model_fields.items()
        for name in _names(attribute, field)
    )
    return {key.name: key for key in keys if key.name != NOT_A_KEY}


def _names(attribute: str, field: FieldInfo) -> list[str]:
    alias = field.validation_alias
    return [str(each) for each in alias.choices] if isinstance(alias, AliasChoices) else [str(alias or attribute)]


def mistake(message: object) -> PydanticCustomError:
    """Return an error with a sentence of ours."""
    return PydanticCustomError(_OURS, "{message}", {"message": str(message)})


def checked(parse: Callable[..., T], *values: Any) -> T:
    """Call `parse`; what it says becomes an error of the key."""
    try:
        return parse(*values)
    except UsageError as error:
        raise mistake(error) from None


def mistake_at(location: tuple[str, ...], message: str) -> ValidationError:
    """Return an error that belongs to a value inside the one that is validated."""
    return ValidationError.from_exception_data("", [InitErrorDetails(type=mistake(message), loc=location, input=None)])


def _described(section: type[Section], error: ErrorDetails, data: Any) -> InitErrorDetails | None:
    sentence = _sentence(section, error, data)
    return InitErrorDetails(type=mistake(sentence), loc=error["loc"], input=None) if sentence else None


def _sentence(section: type[Section], error: ErrorDetails, data: Any) -> str | None:
    kind, value = error["type"], error["input"]
    if kind == _OURS:
        return error["msg"]
    if kind == _FOLLOWS_ANOTHER:
        return None
    if kind == "missing":
        return _missing(section, str(error["loc"][-1]), data)
    if kind == "extra_forbidden":
        return _extra(section, str(error["loc"][-1]))
    if kind == "literal_error" and isinstance(value, str):
        return f"{value!r} is not one of its values; {unknown(value, _QUOTED.findall(error['ctx']['expected']))}"
    # Code is told what pydantic says.
    is_of_file = isinstance(value, str | list | dict | Nothing)
    return holds(value, _WANTED.get(kind, "value")) if is_of_file else error["msg"]


def _missing(section: type[Section], name: str, data: Any) -> str | None:
    keys = keys_of(section)
    if name not in keys:
        return f"lacks {name}"
    names = keys[name].names
    if len(names) == 1:
        return f"lacks `{name}:` ({keys[name].about.partition(';')[0]})"
    if isinstance(data, dict) and data.keys() - keys.keys() - {NOT_A_KEY}:
        return None  # one of them is probably misspelt, which is another mistake
    return f"lacks `{names[1]}:` (or `{names[2]}:`)"


def _extra(section: type[Section], name: str) -> str:
    keys = keys_of(section)
    if name in keys:
        return f"set only one: one of {', '.join(keys[name].names)}"
    return f"there is no such key; {unknown(name, (each for each in keys if not keys[each].is_obsolete))}"
