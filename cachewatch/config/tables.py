"""Sections of the file: which keys they have, what each means, and what they make together."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from cachewatch.config.forms import Form, Schema, attempt
from cachewatch.config.nodes import Broken, Context, Node, unknown
from cachewatch.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Key(Struct, frozen=True):
    """One key of a section."""

    form: Form
    about: str  # for editors and for people; without a full stop
    field: str = ""  # of the value that the section makes, if it is called otherwise
    is_needed: bool = False
    is_obsolete: bool = False  # still read, so that old files stay good, but named to nobody

    def schema(self) -> Schema:
        """Return the same as JSON Schema."""
        return {"deprecated": True} if self.is_obsolete else {**self.form.schema, "description": self.about}


class Table(Struct, frozen=True):
    """A section with fixed keys. `make` gets the values by their fields and may raise ConfigError."""

    about: str
    keys: Mapping[str, Key]
    make: Callable[..., Any]

    def form(self) -> Form:
        """Return the form of such a section."""
        return Form(self.read, self.schema())

    def read(self, node: Node, context: Context, **known: Any) -> Any:
        """Read a section; `known` goes to `make` as it is. Every mistake is noted before Broken is raised."""
        entries = node.section()
        is_broken = False
        for name in entries.keys() - self.keys.keys():
            context.note(entries[name], f"there is no such key; {unknown(name, self._named)}")
            is_broken = True
        values: dict[str, Any] = {}
        for name in self.keys:
            try:
                self._read_key(name, node, values, context)
            except Broken:
                is_broken = True
        if is_broken:
            raise Broken
        return self.make(**values, **known)

    def _read_key(self, name: str, node: Node, values: dict[str, Any], context: Context) -> None:
        key = self.keys[name]
        entry = node.section().get(name)
        if entry is not None:
            value = attempt(key.form.read, entry, context)
            field = key.field or name
            if field in values:
                same = [other for other, its in self.keys.items() if (its.field or other) == field]
                context.note(entry, f"set only one: one of {', '.join(same)}")
                raise Broken
            values[field] = value
        elif key.is_needed:
            context.note(node, f"lacks `{name}:` ({key.about})")
            raise Broken

    @property
    def _named(self) -> list[str]:
        return [name for name, key in self.keys.items() if not key.is_obsolete]

    def schema(self) -> Schema:
        """Return the same as JSON Schema."""
        return {
            "type": "object",
            "description": self.about,
            "properties": {name: key.schema() for name, key in self.keys.items()},
            "required": [name for name, key in self.keys.items() if key.is_needed],
            "additionalProperties": False,
        }


def named(read_entry: Callable[[str, Node, Context], Any], schema: Schema, about: str) -> Form:
    """Return the form of a section whose keys are names that the user gives."""

    def checked(name: str, node: Node, context: Context) -> Any:
        check_name(name)
        return read_entry(name, node, context)

    def read(node: Node, context: Context) -> dict[str, Any]:
        found: dict[str, Any] = {}
        is_broken = False
        for name, entry in node.section().items():
            try:
                found[name] = attempt(partial(checked, name), entry, context)
            except Broken:
                is_broken = True
        if is_broken:
            raise Broken
        return found

    return Form(
        read,
        {
            "type": "object",
            "description": about,
            "propertyNames": {"pattern": f"^{_NAME.pattern}$"},
            "additionalProperties": schema,
        },
    )


def check_name(name: str) -> str:
    """Return `name` if it can stand in paths, headers and commands."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a valid name: use up to 64 digests, digits, dots, dashes and underscores, a digest or digit first"
        )
    return name
