"""Patterns of subscriptions: globs, `/regular expressions/`, version ranges; a leading ! excludes."""

from cachewatch.config.forms import Form, list_of, of_text
from cachewatch.core.patterns import matcher
from cachewatch.core.versions import parse_ranges
from cachewatch.errors import ConfigError


def _glob(text: str) -> str:
    body = text.removeprefix("!")
    if not body or not text.isprintable():
        raise ConfigError(f"{text!r} is not a pattern; write a glob such as py-* or !*-rocm, or /a regular expression/")
    matcher(body)
    return text


def _range(text: str) -> str:
    parse_ranges(text.removeprefix("!"))
    return text


GLOBS: Form = list_of(of_text(_glob))
RANGES: Form = list_of(of_text(_range))
