"""What a webhook is sent: a digest as JSON, or a message in the form that a chat wants.

Nobody is called by what a package is named: chats are told to ring no one where they can be
told, and what looks like a call is broken up everywhere.
"""

import json
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from cachewatch.channels.escaping import markup, one_line, plain_lines, shortened, without_links, without_mentions
from cachewatch.core.delivery import RenderedDigest

_MATTERMOST = 16_000  # characters; beyond 16383 a message is refused
_SLACK = 4_000  # as its documentation advises
_DISCORD = 2_000
_MATRIX = 20_000  # twice, as text and as HTML; an event holds 64 kB
_NO_EMBEDS = 1 << 2


def webhook_body(preset: str, rendered: RenderedDigest) -> bytes:
    """Return the body of the request, in pure ASCII."""
    return json.dumps(_PRESETS[preset](rendered)).encode("ascii")


def chat_text(rendered: RenderedDigest, most: int) -> str:
    """Return the plain text of a digest for a chat."""
    text = without_links(without_mentions(plain_lines(rendered.text)), rendered.archive_url)
    return shortened(text, most, rendered.archive_url)


def chat_title(rendered: RenderedDigest) -> str:
    """Return what stands above a digest in a chat."""
    about = "cachewatch" if rendered.is_notice else f"cachewatch {one_line(rendered.subscription, 40)}"
    return without_links(without_mentions(f"{about}: {one_line(rendered.title)}"))


def _json(rendered: RenderedDigest) -> Mapping[str, Any]:
    return {
        "type": "cachewatch.notice" if rendered.is_notice else "cachewatch.digest",
        "key": rendered.key,
        "subscription": rendered.subscription,
        "title": rendered.title,
        "period": rendered.period,
        "created": rendered.created.isoformat(),
        "is_urgent": rendered.is_urgent,
        "tags": rendered.tags,
        "kinds": rendered.kinds,
        "revisions": rendered.revisions,
        "archive_url": rendered.archive_url,
        "digest": json.loads(rendered.json) if rendered.json else None,
        "text": rendered.text,
    }


def _mattermost(rendered: RenderedDigest) -> Mapping[str, Any]:
    text = without_mentions(markup(rendered.markdown))
    return {"username": "cachewatch", "text": shortened(text, _MATTERMOST, rendered.archive_url)}


def _slack(rendered: RenderedDigest) -> Mapping[str, Any]:
    text = shortened(escape(f"{chat_title(rendered)}\n{chat_text(rendered, _SLACK)}", quote=False), _SLACK)
    return {"text": text, "mrkdwn": False, "link_names": False, "unfurl_links": False}


def _discord(rendered: RenderedDigest) -> Mapping[str, Any]:
    text = shortened(without_mentions(markup(rendered.markdown)), _DISCORD, rendered.archive_url)
    return {"username": "cachewatch", "content": text, "allowed_mentions": {"parse": []}, "flags": _NO_EMBEDS}


def _matrix(rendered: RenderedDigest) -> Mapping[str, Any]:
    """Return what Hookshot's webhooks take."""
    title, text = chat_title(rendered), chat_text(rendered, _MATRIX)
    html = f"<p><strong>{escape(title)}</strong></p><pre>{escape(text)}</pre>"
    return {"username": "cachewatch", "text": f"{title}\n{text}", "html": html}


_PRESETS: Mapping[str, Callable[[RenderedDigest], Mapping[str, Any]]] = {
    "json": _json,
    "mattermost": _mattermost,
    "slack": _slack,
    "discord": _discord,
    "matrix": _matrix,
}
