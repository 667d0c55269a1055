"""What a webhook is sent: a digest as JSON, or a message in the form that a chat wants.

A chat shows a title, three to five bullets and a link, in its own layout. Nobody is called by
what a package is named: chats are told to ring no one where they can be told, and what looks
like a call is broken up everywhere.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import Any

from msgspec import Struct

from cachewatch.channels.escaping import Markdown, markdown, one_line, without_links, without_mentions
from cachewatch.core.delivery import RenderedDigest

_NAME = "cachewatch"
_LINK = "The whole digest"
# In characters. A header of Slack holds 150, a title of Discord 256, its description 4,096, and an embed 6,000.
_TITLE, _MARKED_TITLE, _BULLET, _MARKED_UP = 150, 256, 500, 4_000
# What can be linked to in every chat.
_ADDRESS = re.compile(r"https?://[!-~]{1,1000}")
# What stands before the first colon of a bullet.
_LABEL = re.compile(r"([^:]{1,60}:) (?=\S)")
_CALM, _URGENT = 0x0969DA, 0xCF222E  # the colour of the bar beside a message


class _Bullet(Struct, frozen=True):
    label: str  # is bold; may be empty
    text: str


class _Brief(Struct, frozen=True):
    """What every chat shows of a digest, as plain text that calls nobody and links nowhere."""

    title: str
    bullets: tuple[_Bullet, ...]
    about: str
    link: str | None
    colour: int


def webhook_body(preset: str, rendered: RenderedDigest) -> bytes:
    """Return the body of the request, in pure ASCII."""
    return json.dumps(_PRESETS[preset](rendered)).encode("ascii")


def chat_text(rendered: RenderedDigest) -> str:
    """Return what stands below the title in a chat that shows plain text; the title where that is all."""
    brief = _brief(rendered)
    return "\n".join(_lines(brief)) or brief.title


def chat_title(rendered: RenderedDigest) -> str:
    """Return what stands above a digest in a chat."""
    urgent = "URGENT " if rendered.is_urgent else ""
    about = _NAME if rendered.is_notice else f"{_NAME} {one_line(rendered.subscription, 40)}"
    return _harmless(f"{urgent}{about}: {rendered.title}", _TITLE)


def _brief(rendered: RenderedDigest) -> _Brief:
    link = rendered.archive_url
    return _Brief(
        title=chat_title(rendered),
        bullets=tuple(map(_bullet, rendered.bullets)),
        about=_harmless(rendered.subtitle, _BULLET),
        link=link if link and _ADDRESS.fullmatch(link) and not set('<>"') & set(link) else None,
        colour=_URGENT if rendered.is_urgent else _CALM,
    )


def _bullet(line: str) -> _Bullet:
    line = _harmless(line, _BULLET)
    label = _LABEL.match(line)
    return _Bullet(label[1], line[label.end() :]) if label else _Bullet("", line)


def _harmless(text: str, most: int) -> str:
    """Return one line of at most `most` characters that calls nobody and links nowhere, in any chat."""
    line = without_links(without_mentions(one_line(text, most)))
    return line if len(line) <= most else f"{line[: most - 3]}..."


def _lines(brief: _Brief) -> Iterator[str]:
    """Yield the lines below the title where a chat shows plain text."""
    for bullet in brief.bullets:
        yield f"- {bullet.label} {bullet.text}" if bullet.label else f"- {bullet.text}"
    if brief.about:
        yield brief.about
    if brief.link:
        yield f"{_LINK}: {brief.link}"


def _json(rendered: RenderedDigest) -> Mapping[str, Any]:
    return {
        "type": "cachewatch.notice" if rendered.is_notice else "cachewatch.digest",
        "key": rendered.key,
        "subscription": rendered.subscription,
        "title": rendered.title,
        "bullets": rendered.bullets,
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
    """Return one attachment: the older clients that know no newer form show it too."""
    brief = _brief(rendered)
    attachment = {
        "fallback": brief.title,
        "color": f"#{brief.colour:06x}",
        "title": brief.title,
        "text": _marked_up(brief, Markdown.MATTERMOST),
        "footer": brief.about,
    }
    if brief.link:
        attachment["title_link"] = brief.link
    return {"username": _NAME, "attachments": [attachment]}


def _discord(rendered: RenderedDigest) -> Mapping[str, Any]:
    brief = _brief(rendered)
    embed: dict[str, Any] = {
        "title": markdown(brief.title, Markdown.DISCORD)[:_MARKED_TITLE],
        "description": _marked_up(brief, Markdown.DISCORD),
        "color": brief.colour,
        "timestamp": rendered.created.isoformat(),
    }
    if brief.about:
        embed["footer"] = {"text": brief.about}
    if brief.link:
        embed["url"] = brief.link
    return {"username": _NAME, "embeds": [embed], "allowed_mentions": {"parse": []}}


def _marked_up(brief: _Brief, chat: Markdown) -> str:
    """Return bullets, as many as there is room for, and the link, in the Markdown of a chat."""
    link = f"[{_LINK}](<{brief.link}>)" if brief.link else ""
    lines = [
        f"- **{markdown(each.label, chat, is_start=False)}** {markdown(each.text, chat, is_start=False)}"
        if each.label
        else f"- {markdown(each.text, chat)}"
        for each in brief.bullets
    ]
    while len(said := "\n".join(filter(None, (*lines, link)))) > _MARKED_UP:
        lines.pop()
    return said


def _slack(rendered: RenderedDigest) -> Mapping[str, Any]:
    """Return blocks of literal text: nothing in them is read as Slack's own markup.

    `text` is what notifications show, and chats that take Slack's messages but not its blocks.
    """
    brief = _brief(rendered)
    blocks: list[Mapping[str, Any]] = [{"type": "header", "text": _plain(brief.title)}]
    if brief.bullets:
        listed = {"type": "rich_text_list", "style": "bullet", "elements": [_section(each) for each in brief.bullets]}
        blocks.append({"type": "rich_text", "elements": [listed]})
    if brief.link:
        link = {"type": "link", "url": brief.link, "text": _LINK}
        blocks.append({"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [link]}]})
    if brief.about:
        blocks.append({"type": "context", "elements": [_plain(brief.about)]})
    text = escape("\n".join([brief.title, *_lines(brief)]), quote=False)
    return {"text": text, "blocks": blocks, "mrkdwn": False, "link_names": False, "unfurl_links": False}


def _plain(text: str) -> Mapping[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _section(bullet: _Bullet) -> Mapping[str, Any]:
    label = [{"type": "text", "text": f"{bullet.label} ", "style": {"bold": True}}] if bullet.label else []
    return {"type": "rich_text_section", "elements": [*label, {"type": "text", "text": bullet.text}]}


def _matrix(rendered: RenderedDigest) -> Mapping[str, Any]:
    """Return what Hookshot's webhooks take."""
    brief = _brief(rendered)
    items = [
        f"<li><strong>{escape(each.label)}</strong> {escape(each.text)}</li>"
        if each.label
        else f"<li>{escape(each.text)}</li>"
        for each in brief.bullets
    ]
    html = [f"<p><strong>{escape(brief.title)}</strong></p>"]
    html += [f"<ul>{''.join(items)}</ul>"] if items else []
    html += [f"<p><em>{escape(brief.about)}</em></p>"] if brief.about else []
    html += [f'<p><a href="{escape(brief.link)}">{_LINK}</a></p>'] if brief.link else []
    return {"username": _NAME, "text": "\n".join([brief.title, *_lines(brief)]), "html": "".join(html)}


_PRESETS: Mapping[str, Callable[[RenderedDigest], Mapping[str, Any]]] = {
    "json": _json,
    "mattermost": _mattermost,
    "slack": _slack,
    "discord": _discord,
    "matrix": _matrix,
}
