"""What templates can do to a value; docs/templates.md lists these."""

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from cachewatch.core.untrusted_text import safe
from cachewatch.render.elapsed_time import how_long
from cachewatch.render.statement_phrases import number

# What means something in the middle of a line; our templates never begin one with data. A single underscore within
# a word (x86_64) means nothing, and people read these files as they are, too.
_MARKDOWN = re.compile(r"([\\`*\[\]<|~&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|\.(?<=www\.))")
# What GitHub and GitLab make a mention of a person or a link to an issue, which they do after they read the Markdown: on
# GitHub neither a backslash nor an entity helps. Both leave out code spans.
_REFERENCE = re.compile(
    r"((?:(?<![A-Za-z0-9])@[A-Za-z0-9][\w/-]*|[#!][0-9]+|(?<![A-Za-z0-9])G[HL]-[0-9]+)+)", re.IGNORECASE
)


def markdown(text: str) -> str:
    """Escape everything that Markdown, or a forge that shows it, would take for its own, where it stands."""
    parts = _REFERENCE.split(safe(text))
    return "".join(code(part) if number % 2 else _MARKDOWN.sub(r"\\\1", part) for number, part in enumerate(parts))


def code(text: str) -> str:
    """Return `text` as a code span that nothing inside can end."""
    text = safe(text).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else ""


def day(time: str | None, zone: str = "UTC") -> str:
    """Return the day of a time: 1 June 2025."""
    if not time:
        return "unknown"
    moment = datetime.fromisoformat(time).astimezone(ZoneInfo(zone))
    return f"{moment.day} {moment:%B %Y}"


def moment(time: str | None, zone: str = "UTC") -> str:
    """Return a time to the minute: 1 June 2025 06:00 CEST."""
    if not time:
        return "unknown"
    return f"{day(time, zone)} {datetime.fromisoformat(time).astimezone(ZoneInfo(zone)):%H:%M %Z}"


def days_between(since: str, until: str) -> str:
    """Return how far two times are apart: 3 days."""
    return how_long((datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds())


def fill(text: str, first: str = "", rest: str = "", width: int = 78) -> str:
    """Break `text` into lines that begin with `first` and then with `rest`."""
    lines = textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=True, break_on_hyphens=False
    )
    return "\n".join(lines)


def arrows(text: str) -> str:
    """Return `text` with arrows in place of what stands for them in ASCII; no line begins with one."""
    return text.replace(" -> ", "\u00a0\u2192 ")


def short(revision: str | None) -> str:
    """Return as much of a revision as people read."""
    return (revision or "")[:10]


def with_news(tags: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Choose the tags of which there is something to do, to report, to add up, or to warn of."""
    return [
        tag
        for tag in tags
        if tag["same_as"]
        or tag["act"]
        or tag["know"]
        or tag["events"]
        or tag["accounting"]
        or tag["changes"]["lines"]
        or tag["warnings"]
        or tag["more_warnings"]
    ]


def shares(counts: Mapping[str, int]) -> str:
    """Say how many there are of each: `1 lost, 2 upgraded, 236 rebuilt`."""
    return ", ".join(f"{count:,} {'the same' if name == 'same' else name}" for name, count in counts.items() if count)


FILTERS: dict[str, Callable[..., Any]] = {
    "md": markdown,
    "code": code,
    "safe_text": safe,
    "number": "{:,}".format,
    "counted": number,
    "day": day,
    "moment": moment,
    "days_until": days_between,
    "fill": fill,
    "arrows": arrows,
    "shares": shares,
    "short": short,
    "with_news": with_news,
}
