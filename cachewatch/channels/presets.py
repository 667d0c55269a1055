"""What a webhook is sent: a digest as JSON, or a message in the form that a chat wants.

Nobody is called by what a package is named: chats are told to ring no one where they can be
told, and what looks like a call is broken up everywhere.
"""

import json
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from cachewatch.channels.clean import markup, one_line, plain_lines, shortened, without_links, without_mentions
from cachewatch.core.delivery import Letter

_MATTERMOST = 16_000  # characters; beyond 16383 a message is refused
_SLACK = 4_000  # as its documentation advises
_DISCORD = 2_000
_MATRIX = 20_000  # twice, as text and as HTML; an event holds 64 kB
_NO_EMBEDS = 1 << 2


def message(preset: str, letter: Letter) -> bytes:
    """Return the body of the request, in pure ASCII."""
    return json.dumps(_PRESETS[preset](letter)).encode("ascii")


def chat_text(letter: Letter, most: int) -> str:
    """Return the plain text of a letter for a chat."""
    text = without_links(without_mentions(plain_lines(letter.text)), letter.archive_url)
    return shortened(text, most, letter.archive_url)


def chat_title(letter: Letter) -> str:
    """Return what stands above a letter in a chat."""
    about = "cachewatch" if letter.is_notice else f"cachewatch {one_line(letter.subscription, 40)}"
    return without_links(without_mentions(f"{about}: {one_line(letter.title)}"))


def _json(letter: Letter) -> Mapping[str, Any]:
    return {
        "type": "cachewatch.notice" if letter.is_notice else "cachewatch.digest",
        "key": letter.key,
        "subscription": letter.subscription,
        "title": letter.title,
        "period": letter.period,
        "created": letter.created.isoformat(),
        "is_urgent": letter.is_urgent,
        "tags": letter.tags,
        "kinds": letter.kinds,
        "revisions": letter.revisions,
        "archive_url": letter.archive_url,
        "digest": json.loads(letter.json) if letter.json else None,
        "text": letter.text,
    }


def _mattermost(letter: Letter) -> Mapping[str, Any]:
    text = without_mentions(markup(letter.markdown))
    return {"username": "cachewatch", "text": shortened(text, _MATTERMOST, letter.archive_url)}


def _slack(letter: Letter) -> Mapping[str, Any]:
    text = shortened(escape(f"{chat_title(letter)}\n{chat_text(letter, _SLACK)}", quote=False), _SLACK)
    return {"text": text, "mrkdwn": False, "link_names": False, "unfurl_links": False}


def _discord(letter: Letter) -> Mapping[str, Any]:
    text = shortened(without_mentions(markup(letter.markdown)), _DISCORD, letter.archive_url)
    return {"username": "cachewatch", "content": text, "allowed_mentions": {"parse": []}, "flags": _NO_EMBEDS}


def _matrix(letter: Letter) -> Mapping[str, Any]:
    """Return what Hookshot's webhooks take."""
    title, text = chat_title(letter), chat_text(letter, _MATRIX)
    html = f"<p><strong>{escape(title)}</strong></p><pre>{escape(text)}</pre>"
    return {"username": "cachewatch", "text": f"{title}\n{text}", "html": html}


_PRESETS: Mapping[str, Callable[[Letter], Mapping[str, Any]]] = {
    "json": _json,
    "mattermost": _mattermost,
    "slack": _slack,
    "discord": _discord,
    "matrix": _matrix,
}
