"""Render templates: ours as they are, those of users in a cage. Jinja2 is used here and nowhere else.

A user's template is a file of the same name in their folder, and is preferred to ours. As soon
as there is such a folder, everything is rendered in a process of its own, with a sandbox, a
deadline and limits to memory and output; it is given plain data only, and so can reach nothing.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from cachewatch.errors import TemplateError
from cachewatch.render import elapsed_time, filters
from cachewatch.runtime import resources
from cachewatch.runtime.parallel import apart
from cachewatch.runtime.untrusted_files import read_inside

# HTML and XML; all else is text, where an ampersand is one.
_MARKUP = ("html.j2", "xml.j2")

_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]*(/[a-z0-9_][a-z0-9_.-]*)*", re.IGNORECASE)

_SECONDS = 20.0
_MEGABYTES = 1024
_LONGEST_OUTPUT = 10 * 2**20
_LONGEST_TEMPLATE = 2**20

Context = Mapping[str, Any]
Job = tuple[str, Context]  # the name of a template, and what it is given


def render(name: str, **context: Any) -> str:
    """Render our own template `name`, or raise TemplateError saying which and why."""
    return _render(_own(), name, {"words": elapsed_time, **context})


def render_all(jobs: Sequence[Job], folder: Path | None = None) -> list[str]:
    """Render templates with plain data, preferring those that the user has in `folder`."""
    if folder is None:
        return [_render(_own(), name, context) for name, context in jobs]
    try:
        return apart(_render_caged, str(folder), list(jobs), seconds=_SECONDS, megabytes=_MEGABYTES)
    except (TimeoutError, MemoryError) as error:
        names = ", ".join(name for name, _ in jobs)
        raise TemplateError(f"{folder}: {names}: {str(error) or 'it takes too much memory'}") from error


def source(name: str, folder: Path | None = None) -> tuple[str, str] | None:
    """Return the text of a template and where it is, the user's before ours; None if there is none."""
    if not _NAME.fullmatch(name):
        return None  # nothing outside of the two folders is a template
    if folder is not None:
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return _read(folder, name), str(folder / name)
    text = resources.template(name)
    return None if text is None else (text, f"templates/{name}")


def _read(folder: Path, name: str) -> str:
    file = folder / name
    try:
        return read_inside(folder, name, most=_LONGEST_TEMPLATE).decode("utf-8")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise
    except OSError as error:
        raise TemplateError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TemplateError(f"{file}: is not UTF-8") from error


def _render_caged(folder: str, jobs: Sequence[Job]) -> list[str]:
    environment = _caged(Path(folder))
    return [_render(environment, name, context) for name, context in jobs]


def _render(environment: jinja2.Environment, name: str, context: Context) -> str:
    try:
        pieces = environment.get_template(name).generate(**context)
        return _joined(name, pieces)
    except TemplateError:
        raise
    except MemoryError as error:
        raise TemplateError(f"{name}: takes too much memory") from error
    except Exception as error:  # a template may call anything it is given, and get it wrong in any way
        raise TemplateError(_describe(name, error)) from error


def _joined(name: str, pieces: Any) -> str:
    parts, length = [], 0
    for piece in pieces:
        parts.append(piece)
        length += len(piece)
        if length > _LONGEST_OUTPUT:
            raise TemplateError(f"{name}: writes more than {_LONGEST_OUTPUT // 2**20} MiB")
    return "".join(parts)


@cache
def _own() -> jinja2.Environment:
    return _prepared(jinja2.Environment(autoescape=jinja2.select_autoescape(_MARKUP), loader=_loader(None), **_OPTIONS))


def _caged(folder: Path) -> jinja2.Environment:
    environment = ImmutableSandboxedEnvironment(
        autoescape=jinja2.select_autoescape(_MARKUP), loader=_loader(folder), **_OPTIONS
    )
    return _prepared(environment)


_OPTIONS: dict[str, Any] = {
    "undefined": jinja2.StrictUndefined,
    "trim_blocks": True,
    "lstrip_blocks": True,
    "keep_trailing_newline": True,
}


def _loader(folder: Path | None) -> jinja2.BaseLoader:
    def load(name: str) -> tuple[str, str, None] | None:
        found = source(name, folder)
        return None if found is None else (*found, None)

    return jinja2.FunctionLoader(load)


def _prepared(environment: jinja2.Environment) -> jinja2.Environment:
    environment.globals.pop("lipsum")
    environment.filters |= filters.FILTERS
    return environment


def _describe(name: str, error: Exception) -> str:
    """Say which file and line is wrong, and what is."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"{error.filename or error.name or name}: line {error.lineno}: {error.message}"
    if isinstance(error, jinja2.TemplateNotFound):
        return f"{name}: there is no template {error.name}"
    place, trace = "", error.__traceback__
    while trace is not None:
        # Jinja2 makes frames of templates look as if they were files.
        if trace.tb_frame.f_code.co_filename.endswith(".j2"):
            place = f"{trace.tb_frame.f_code.co_filename}: line {trace.tb_lineno}"
        trace = trace.tb_next
    return (
        f"{place or name}: {error}"
        if isinstance(error, jinja2.TemplateError)
        else f"{place or name}: {type(error).__name__}: {error}"
    )
