"""Send digests to chats and webhooks: what is sent, how text from documents is made harmless, and Apprise.

A chat shows a title, three to five bullets and a link, in its own layout. The name of a package must not notify
anybody: chats are told to notify no one where they can be told, and what looks like a mention is broken up
everywhere. Apprise is an extra: this module alone uses it, and loads it when a channel needs it.
"""

import importlib
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from hashlib import sha256
from html import escape
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from cachewatch.config.channels import AppriseConfig
from cachewatch.core.names import UNFIT, UNSEEN, safe
from cachewatch.report.values import (
    SENT,
    DeliveryOutcome,
    DeliveryResult,
    Message,
    RenderedDigest,
    SentHistory,
    Transport,
)


class Markdown(Enum):
    """The dialects of chats."""

    DISCORD = "discord"
    MATTERMOST = "mattermost"


_UNFIT = re.compile(f"[{UNFIT}]")
# Whatever stands between the sign and the word: `@**all**` calls in Zulip, and nobody sees a soft hyphen.
_MENTION = re.compile(
    rf"(?<![\w.])@|@(?=[^\w\s]*(?:all|channel|everyone|here|room|stream|topic)\b)|<(?=[!@#])|@(?=[{UNSEEN}])"
)
_LINKED = re.compile(r"(?<=\])(?=[(\[])|(?<=\w:)(?=//)|(?<=www)(?=\.)")
# What a chat takes for markup within a line and at its start; a backslash more than that would be seen where messages
# are shown as they were sent, as in notifications. An underscore within a word (x86_64) is none in any chat.
_OF_ALL = r"[\\`*\[]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|~(?=~)|(?<=~)~"
_MARKUP = {
    # Spoilers; emoji, times and commands.
    Markdown.DISCORD: (rf"{_OF_ALL}|\|(?=\|)|(?<=\|)\||<(?=a?:|t:|/|id:)", r"#(?=#{0,2} )|>|-(?=#? )|\d{1,9}\.(?= )"),
    # Channels; formulas.
    Markdown.MATTERMOST: (rf"{_OF_ALL}|(?<![A-Za-z0-9])~(?=\w)|\$", r"#|>|[-+](?=[ -]|$)|\d{1,9}[.)](?= |$)"),
}
_COMMAND = re.compile(r"Command: (?:cachewatch|git|spack) ")
_UNFIT_FOR_NAME = re.compile(r"[^A-Za-z0-9._+~-]+")


def one_line(text: str, most: int = 200) -> str:
    """Return `text` as one line of at most `most` characters, without anything that cannot be seen."""
    line = safe(" ".join(text.split()))
    return line if len(line) <= most else line[: most - 3].rstrip() + "..."


def one_word(text: str) -> str:
    """Return an ASCII word for `text` that can stand in an identifier; different texts give different words."""
    word = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:60]
    return word if word == text else f"{word}-{_mark(text)}".lstrip("-")


def file_name(text: str) -> str:
    """Return `text` as one part of a path; different texts give different parts."""
    name = _UNFIT_FOR_NAME.sub("-", text).lstrip(".-")[:100]
    return name if name and name == text else f"{name or 'x'}-{_mark(text)}"


def plain_lines(text: str) -> str:
    """Return the lines of a plain text, with everything that is not plainly visible written as an escape."""
    lines = text.replace("\r\n", "\n").expandtabs().split("\n")
    return "\n".join(map(safe, lines))


def markup(text: str) -> str:
    """Return HTML or XML in which no character is forbidden or turns the text around."""
    return _UNFIT.sub("\ufffd", text.replace("\r\n", "\n"))


def markdown(text: str, chat: Markdown, *, is_start: bool = True) -> str:
    """Return one line as it is, in the Markdown of a chat; `is_start` tells whether nothing stands before it."""
    within, at_start = _MARKUP[chat]
    first = ""
    if is_start and (found := re.match(at_start, text)):
        first, text = f"{text[: found.end() - 1]}\\{found[0][-1]}", text[found.end() :]
    return first + re.sub(within, r"\\\g<0>", text)


def without_secret_url(text: str, url: str) -> str:
    """Return `text` without the parts of `url` behind its server: who knows them may use it."""
    parts = urlsplit(url)
    for secret in (parts.path, parts.query, *(part for part in parts.path.split("/") if len(part) >= 8)):
        text = text.replace(secret, "***") if len(secret) > 1 else text
    return text


def without_mentions(text: str) -> str:
    """Return `text` in which no chat sees a call to anybody; `gcc@12` is none."""
    return _MENTION.sub("\\g<0>\u200b", text)


def without_links(line: str) -> str:
    """Return a line in which no chat sees a link; a command can be copied as it is."""
    return line if _COMMAND.match(line) else _LINKED.sub("\u200b", line)


def _mark(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


_NAME = "cachewatch"
_LINK_TEXT = "The whole digest"
# In characters. A header of Slack holds 150, a title of Discord 256, its description 4,096, and an embed 6,000.
_TITLE, _MARKED_TITLE, _BULLET, _MARKED_UP = 150, 256, 500, 4_000
# What can be linked to in every chat.
_ADDRESS = re.compile(r"https?://[!-~]{1,1000}")
# What stands before the first colon of a bullet.
_LABEL = re.compile(r"([^:]{1,60}:) (?=\S)")
# The colour of the bar beside a message.
_COLOURS = {"alarm": 0xCF222E, "notice": 0xBF8700, "calm": 0x0969DA}


class _Brief(Struct, frozen=True):
    """What every chat shows of a digest, as plain text that calls nobody and links nowhere."""

    title: str
    bullets: tuple[tuple[str, str], ...]  # the label, which is bold and may be empty, and the text
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
        colour=_COLOURS[rendered.level],
    )


def _bullet(line: str) -> tuple[str, str]:
    line = _harmless(line, _BULLET)
    label = _LABEL.match(line)
    return (label[1], line[label.end() :]) if label else ("", line)


def _harmless(text: str, most: int) -> str:
    """Return one line of at most `most` characters that calls nobody and links nowhere, in any chat."""
    line = without_links(without_mentions(one_line(text, most)))
    return line if len(line) <= most else f"{line[: most - 3]}..."


def _lines(brief: _Brief) -> Iterator[str]:
    """Yield the lines below the title where a chat shows plain text."""
    for label, text in brief.bullets:
        yield f"- {label} {text}" if label else f"- {text}"
    if brief.about:
        yield brief.about
    if brief.link:
        yield f"{_LINK_TEXT}: {brief.link}"


_AS_IT_IS = ("key", "subscription", "title", "bullets", "period", "is_urgent", "level", "tags", "kinds", "revisions")


def _json(rendered: RenderedDigest) -> Mapping[str, Any]:
    return {
        "type": "cachewatch.notice" if rendered.is_notice else "cachewatch.digest",
        **{name: getattr(rendered, name) for name in _AS_IT_IS},
        "created": rendered.created.isoformat(),
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
    link = f"[{_LINK_TEXT}](<{brief.link}>)" if brief.link else ""
    lines = [
        f"- **{markdown(label, chat, is_start=False)}** {markdown(text, chat, is_start=False)}"
        if label
        else f"- {markdown(text, chat)}"
        for label, text in brief.bullets
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
        listed = {"type": "rich_text_list", "style": "bullet", "elements": [_section(*each) for each in brief.bullets]}
        blocks.append({"type": "rich_text", "elements": [listed]})
    if brief.link:
        link = {"type": "link", "url": brief.link, "text": _LINK_TEXT}
        blocks.append({"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [link]}]})
    if brief.about:
        blocks.append({"type": "context", "elements": [_plain(brief.about)]})
    text = escape("\n".join([brief.title, *_lines(brief)]), quote=False)
    return {"text": text, "blocks": blocks, "mrkdwn": False, "link_names": False, "unfurl_links": False}


def _plain(text: str) -> Mapping[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _section(label: str, text: str) -> Mapping[str, Any]:
    bold = [{"type": "text", "text": f"{label} ", "style": {"bold": True}}] if label else []
    return {"type": "rich_text_section", "elements": [*bold, {"type": "text", "text": text}]}


def _matrix(rendered: RenderedDigest) -> Mapping[str, Any]:
    """Return what Hookshot's webhooks take."""
    brief = _brief(rendered)
    labels = [f"<strong>{escape(label)}</strong> " if label else "" for label, _ in brief.bullets]
    items = [f"<li>{label}{escape(text)}</li>" for label, (_, text) in zip(labels, brief.bullets, strict=True)]
    html = [f"<p><strong>{escape(brief.title)}</strong></p>"]
    html += [f"<ul>{''.join(items)}</ul>"] if items else []
    html += [f"<p><em>{escape(brief.about)}</em></p>"] if brief.about else []
    html += [f'<p><a href="{escape(brief.link)}">{_LINK_TEXT}</a></p>'] if brief.link else []
    return {"username": _NAME, "text": "\n".join([brief.title, *_lines(brief)]), "html": "".join(html)}


_PRESETS: Mapping[str, Callable[[RenderedDigest], Mapping[str, Any]]] = {
    "json": _json,
    "mattermost": _mattermost,
    "slack": _slack,
    "discord": _discord,
    "matrix": _matrix,
}


class AppriseChannel:
    """Chats, each by one of Apprise's URLs; Apprise says whether a message went, and the reason only in its log."""

    def __init__(self, config: AppriseConfig) -> None:
        self.name = config.name
        self._urls = {_target(url.reveal()): url.reveal() for url in config.urls}

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return one message for each chat."""
        return [self._message(rendered, target) for target in self._urls]

    def rebuild_message(self, rendered: RenderedDigest, original: Message) -> Message:
        """Return the message once more, marked as such."""
        return self._message(rendered, original.target, "Resent: ")

    @contextmanager
    def open(self, sent_history: SentHistory) -> Iterator[Transport]:  # noqa: ARG002  the contract of a channel
        """Begin a run."""
        yield self

    def deliver(self, message: Message) -> DeliveryResult:
        """Hand over one message."""
        url = self._urls.get(message.target)
        if url is None:
            return DeliveryResult(DeliveryOutcome.DEAD, f"{message.target} is no longer configured")
        apprise: Any = importlib.import_module("apprise")  # half a second that only those pay who use it
        chats, parts = apprise.Apprise(), json.loads(message.payload)
        if not chats.add(url):
            return DeliveryResult(DeliveryOutcome.BLOCKED, f"Apprise does not understand the URL of {message.target}")
        with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as said:
            try:
                if chats.notify(title=parts["title"], body=parts["body"], body_format="text"):
                    return SENT
            except Exception:  # noqa: BLE001, S110  plugins for a hundred services raise what they like
                pass
            text = said.getvalue()
        for secret in re.split(r"[/?&=:@]+", url):
            text = text.replace(secret, "***") if len(secret) >= 8 else text
        return DeliveryResult(DeliveryOutcome.DEFERRED, one_line(f"Apprise could not send it: {text}", 300))

    def _message(self, rendered: RenderedDigest, target: str, mark: str = "") -> Message:
        message = {"title": mark + chat_title(rendered), "body": chat_text(rendered)}
        return Message(
            key=rendered.key,
            target=target,
            payload=json.dumps(message).encode("ascii"),
            content_type="application/json",
            created=rendered.created,
        )


def _target(url: str) -> str:
    """Return a name for a URL that tells nothing of it but the kind of chat."""
    return f"{one_line(url.partition('://')[0], 20)}:{_mark(url)}"
