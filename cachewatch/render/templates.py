"""Render the templates in templates/. Jinja2 is used here and nowhere else."""

from functools import cache
from typing import Any

import jinja2

from cachewatch import resources
from cachewatch.errors import TemplateError
from cachewatch.render import filters, words

# HTML and XML; all else is text, where an ampersand is one.
_MARKUP = ("html.j2", "xml.j2")


def render(name: str, **context: Any) -> str:
    """Render our own template `name`, or raise TemplateError saying which and why."""
    environment = _own()
    try:
        return environment.get_template(name).render(words=words, **context)
    except jinja2.TemplateError as error:
        raise TemplateError(f"templates/{name}: {_describe(error)}") from error


@cache
def _own() -> jinja2.Environment:
    return _prepared(
        jinja2.Environment(
            autoescape=jinja2.select_autoescape(_MARKUP, default_for_string=True),
            loader=jinja2.FunctionLoader(resources.template),
            **_options(),
        )
    )


def _options() -> dict[str, Any]:
    return {
        "undefined": jinja2.StrictUndefined,
        "trim_blocks": True,
        "lstrip_blocks": True,
        "keep_trailing_newline": True,
    }


def _prepared(environment: jinja2.Environment) -> jinja2.Environment:
    environment.globals.pop("lipsum")
    environment.filters |= filters.FILTERS
    return environment


def _describe(error: jinja2.TemplateError) -> str:
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"line {error.lineno}: {error.message}"
    if isinstance(error, jinja2.TemplateNotFound):
        return f"there is no template {error.name}"
    return str(error)
