"""What values must look like: each form reads one, and says the same as JSON Schema for editors."""

import re
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from pathlib import Path
from string import Formatter
from typing import Any

from msgspec import Struct

from cachewatch.config.nodes import Broken, Context, Node, unknown
from cachewatch.core.durations import DURATION, SIZE, parse_duration, parse_size
from cachewatch.errors import ConfigError, UsageError

Read = Callable[[Node, Context], Any]
Schema = dict[str, Any]


class Form(Struct, frozen=True):
    """What a value must look like; `read` raises a UsageError that says what is wrong and what to do."""

    read: Read
    schema: Schema


def of_text(parse: Callable[[str], Any], **schema: Any) -> Form:
    """Return the form of a single value that `parse` understands."""
    return Form(lambda node, _: parse(node.text()), {"type": "string", **schema})


def attempt(read: Read, node: Node, context: Context) -> Any:
    """Read a value; what is wrong with it is noted where it stands, and raised as Broken."""
    try:
        return read(node, context)
    except Broken:
        raise
    except UsageError as error:
        context.note(node, str(error))
        raise Broken from error


def list_of(form: Form, *, is_set: bool = False) -> Form:
    """Return the form of a list, which may be a single value; in a set, none stands twice."""

    def read(node: Node, context: Context) -> tuple[Any, ...]:
        values = each(form.read, node.items(), context)
        twice = [value for value in values if values.count(value) > 1]
        if is_set and twice:
            raise ConfigError(f"{twice[0]!r} is listed twice; remove one")
        return values

    items = {"type": "array", "items": form.schema, **({"uniqueItems": True} if is_set else {})}
    return Form(read, {"oneOf": [form.schema, items]})


def each(read: Read, nodes: Iterable[Node], context: Context) -> tuple[Any, ...]:
    """Read all of `nodes`, so that every mistake is noted before Broken is raised."""
    values, is_broken = [], False
    for node in nodes:
        try:
            values.append(attempt(read, node, context))
        except Broken:
            is_broken = True
    if is_broken:
        raise Broken
    return tuple(values)


def choice(*words: str) -> Form:
    """Return the form of one of some words."""

    def parse(text: str) -> str:
        if text not in words:
            raise ConfigError(f"{text!r} is not one of its values; {unknown(text, words)}")
        return text

    return Form(lambda node, _: parse(node.text()), {"enum": list(words)})


def number(least: int, most: int) -> Form:
    """Return the form of a whole number."""

    def parse(text: str) -> int:
        digits = text.replace("_", "")
        if not re.fullmatch(r"\d{1,15}", digits, re.ASCII) or not least <= int(digits) <= most:
            raise ConfigError(f"{text!r} is not a whole number from {least} to {most}")
        return int(digits)

    return Form(lambda node, _: parse(node.text()), {"type": "integer", "minimum": least, "maximum": most})


def template(*names: str, needed: Iterable[str] = ()) -> Form:
    """Return the form of a path or URL with `{names}` to be filled in, some of which it must have."""

    def parse(text: str) -> str:
        try:
            fields = [(name, form or kind) for _, name, form, kind in Formatter().parse(text) if name is not None]
        except ValueError as error:
            raise ConfigError(f"{text!r}: {error}; braces may only enclose names, as in {{subscription}}") from error
        for name, extra in fields:
            if name not in names or extra:
                raise ConfigError(f"{{{name}}} is not a placeholder here; {unknown(name, names)}")
        for name in needed:
            if name not in dict(fields):
                raise ConfigError(f"{text!r} lacks {{{name}}}, without which one digest would overwrite another")
        return text

    return of_text(parse)


def _text(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ConfigError("is empty or contains control characters; write one line of text")
    return text


def _mode(text: str) -> int:
    if not re.fullmatch(r"0?[0-7]{3}", text) or not int(text, 8) & 0o400 or int(text, 8) & 0o113:
        raise ConfigError(f"{text!r} is not a mode of a file that its owner reads and not everybody writes; write 0644")
    return int(text, 8)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a date; write it as 2026-12-01") from error


def path_in(folder: Path, text: str) -> Path:
    """Return the path that `text` means in `folder`; ~ is the user's home."""
    try:
        return folder / Path(_text(text)).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{text} has no home folder to begin with; write the whole path") from error


def _path(node: Node, context: Context) -> Path:
    return path_in(context.folder, node.text())


TEXT = of_text(_text)
# Unquoted, editors may take it for a number.
MODE = Form(
    lambda node, _: _mode(node.text()), {"oneOf": [{"type": "string", "pattern": "^0?[0-7]{3}$"}, {"type": "integer"}]}
)
DAY = of_text(_day, format="date")
DURATIONS = of_text(parse_duration, pattern=DURATION)


def _duration_or_never(text: str) -> timedelta | None:
    try:
        return None if text == "never" else parse_duration(text)
    except ConfigError as error:
        raise ConfigError(f"{error}, or never") from error


DURATION_OR_NEVER = Form(
    lambda node, _: _duration_or_never(node.text()),
    {"oneOf": [{"const": "never"}, {"type": "string", "pattern": DURATION}]},
)
SIZES = Form(
    lambda node, _: parse_size(node.text()), {"oneOf": [{"type": "string", "pattern": SIZE}, {"type": "integer"}]}
)
PATH = Form(_path, {"type": "string"})
