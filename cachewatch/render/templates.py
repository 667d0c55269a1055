"""Render the templates in templates/. Jinja2 is used here and nowhere else."""

import re
from typing import Any

import jinja2

from cachewatch import resources
from cachewatch.errors import TemplateError
from cachewatch.render import words
from cachewatch.safetext import safe

# What means something in the middle of a line; our templates never begin one with data.
_MARKDOWN = re.compile(r"([\\`*_\[\]<|~&]|:(?=//)|\.(?<=www\.))")


def render(name: str, **context: Any) -> str:
    """Render the template `name`, or raise TemplateError saying which and why."""
    try:
        return _environment().get_template(name).render(**context)
    except jinja2.TemplateError as error:
        raise TemplateError(f"templates/{name}: {error}") from error


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(resources.template),
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(enabled_extensions=("html.j2", "atom.j2", "xml.j2")),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["words"] = words
    environment.filters |= {"md": _markdown, "code": _code, "safe_text": safe}
    return environment


def _markdown(text: str) -> str:
    """Escape everything that Markdown would take for its own."""
    return _MARKDOWN.sub(r"\\\1", safe(text))


def _code(text: str) -> str:
    """Return `text` as a code span that nothing inside can end."""
    text = safe(text).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else ""
