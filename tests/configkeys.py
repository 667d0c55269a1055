"""Writes the tables of keys in docs/configuration.md from the models: `python tests/configkeys.py`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from cachewatch.config import settings_and_subscriptions as settings
from cachewatch.config import sources_and_channels as channels
from cachewatch.config.reading_showing_warnings import default_of
from cachewatch.config.sections import ConfigKey, ConfigSection, keys_of
from cachewatch.config.sources_and_channels import Credentials, Source, channel_models, source_models

_PAGE = Path(__file__).parents[1] / "docs/configuration.md"
_TABLE = re.compile(r"(?<=<!-- keys: )(\S+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
# Short sections, whose keys stand in the table of the section around them.
_INSIDE = ("history", "poll", "push", "retry", "limit", "urgent", "retention")
_SECTIONS: dict[str, tuple[type[ConfigSection], type[ConfigSection]]] = {
    "top": (settings.WholeConfig, ConfigSection),
    "source": (Source, ConfigSection),
    "credentials": (Credentials, ConfigSection),
    "channel": (channels.ChannelConfig, ConfigSection),
    "mail": (channels.MailConfig, channels.ChannelConfig),
    "smtp": (channels.Smtp, ConfigSection),
    "subscription": (settings.Subscription, ConfigSection),
    "match": (settings.Match, ConfigSection),
    "watch": (settings.SubscriptionMatch, settings.Match),
    "silence": (settings.Silence, ConfigSection),
    "quiet": (settings.QuietTime, ConfigSection),
    "operators": (settings.Operators, ConfigSection),
    "monitor": (settings.Monitor, ConfigSection),
}


def rewritten(page: str) -> str:
    return _TABLE.sub(lambda found: f"{found[1]}{found[2]}\n{table(found[1])}\n", page)


def table(name: str) -> str:
    if name == "types":
        mail, other = channels.MailConfig, channels.ChannelConfig
        bases = {name: mail if issubclass(kind, mail) else other for name, kind in channel_models().items()}
        rows = [f"| `{n}` {row}" for n, kind in channel_models().items() for row in _rows(kind, bases[n])]
        return "\n".join(["| type | key | meaning | if left out |", "|---|---|---|---|", *rows, ""])
    if name == "source-types":
        rows = [f"| `{kind}` {row}" for kind, found in source_models().items() for row in _rows(found, Source)]
        return "\n".join(["| type | key | meaning | if left out |", "|---|---|---|---|", *rows, ""])
    section, base = _SECTIONS[name]
    return "\n".join(["| key | meaning | if left out |", "|---|---|---|", *_rows(section, base), ""])


def _rows(section: type[ConfigSection], base: type[ConfigSection], prefix: str = "") -> Iterator[str]:
    for name, key in keys_of(section).items():
        inside = _section_of(key) if name in _INSIDE else None
        if name in keys_of(base) or (len(key.names) == 3 and name != key.names[0]):
            continue
        if inside is None or key.if_left_out:
            note = " (a secret)" if len(key.names) == 3 else ""
            is_required = key.is_required or (key.field.is_required() and not key.if_left_out)
            if_left_out = "required" if is_required else default_of(key) or "none"
            yield f"| `{prefix}{name}`{note} | {key.about}{_choices(key)} | {if_left_out} |"
        if inside is not None:
            yield from _rows(inside, ConfigSection, f"{name}.")


def _section_of(key: ConfigKey) -> type[ConfigSection] | None:
    kinds = (key.field.annotation, *get_args(key.field.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, ConfigSection)), None)


def _choices(key: ConfigKey) -> str:
    """Return the values that the key can have, unless its description explains them."""
    words = list(_literals(key.field.annotation))
    is_explained = len(words) < 2 or any(f"`{word}`" in key.about for word in words[1:])
    return "" if is_explained else f": {', '.join(f'`{word}`' for word in words)}"


def _literals(annotation: Any) -> Iterator[str]:
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for each in get_args(annotation):
            yield from _literals(each)


if __name__ == "__main__":
    _PAGE.write_text(rewritten(_PAGE.read_text()))
