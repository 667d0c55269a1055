"""Messages for chats and webhooks, functions that make text from documents harmless in them, and channels of Apprise.

A chat shows a title, three to five bullets and a link, in its own layout. The name of a package must not notify
anybody: where the service has an option for that, nobody is notified, and mentions are broken up everywhere. Apprise is
an extra: only this module uses it, and loads it when a channel needs it.
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
from typing import Any, cast
from urllib.parse import urlsplit

from msgspec import Struct

from cachewatch.config.channels import AppriseConfig
from cachewatch.core.names import UNFIT, UNSEEN, safe, shortened
from cachewatch.report.values import (
    SENT,
    DeliveryOutcome,
    DeliveryResult,
    Message,
    RenderedDigest,
    SentHistory,
    Transport,
)
from cachewatch.report.words_file import entries


class Markdown(Enum):
    """The dialects of Markdown in chats."""

    DISCORD = "discord"
    MATTERMOST = "mattermost"


_UNFIT = re.compile(f"[{UNFIT}]")
# Also with characters between the sign and the word: Zulip has `@**all**`, and soft hyphens are invisible.
_MENTION = re.compile(
    rf"(?<![\w.])@|@(?=[^\w\s]*(?:all|channel|everyone|here|room|stream|topic)\b)|<(?=[!@#])|@(?=[{UNSEEN}])"
)
_LINKED = re.compile(r"(?<=\])(?=[(\[])|(?<=\w:)(?=//)|(?<=www)(?=\.)")
# What a chat reads as markup within a line and at its start; other backslashes would be visible where messages
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
    """Return `text` as one line of at most `most` characters, with invisible characters escaped."""
    return shortened(safe(" ".join(text.split())), most)


def one_word(text: str) -> str:
    """Return an ASCII word made from `text` for use in identifiers; different texts give different words."""
    word = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:60]
    return word if word == text else f"{word}-{_mark(text)}".lstrip("-")


def file_name(text: str) -> str:
    """Return a file name made from `text`; different texts give different names."""
    name = _UNFIT_FOR_NAME.sub("-", text).lstrip(".-")[:100]
    return name if name and name == text else f"{name or 'x'}-{_mark(text)}"


def plain_lines(text: str) -> str:
    """Return a plain text of several lines with all invisible characters escaped."""
    lines = text.replace("\r\n", "\n").expandtabs().split("\n")
    return "\n".join(map(safe, lines))


def markup(text: str) -> str:
    """Return HTML or XML without forbidden characters and without those that reverse the direction of text."""
    return _UNFIT.sub("\ufffd", text.replace("\r\n", "\n"))


def markdown(text: str, chat: Markdown, *, is_start: bool = True) -> str:
    """Return one line, escaped for the Markdown of a chat; `is_start` tells that it is at the start of a line."""
    within, at_start = _MARKUP[chat]
    first = ""
    if is_start and (found := re.match(at_start, text)):
        first, text = f"{text[: found.end() - 1]}\\{found[0][-1]}", text[found.end() :]
    return first + re.sub(within, r"\\\g<0>", text)


def without_secret_url(text: str, url: str) -> str:
    """Return `text` without the path and query of `url`, which are secret."""
    parts = urlsplit(url)
    for secret in (parts.path, parts.query, *(part for part in parts.path.split("/") if len(part) >= 8)):
        text = text.replace(secret, "***") if len(secret) > 1 else text
    return text


def without_mentions(text: str) -> str:
    """Return `text` with mentions broken up, so that no chat notifies anybody; `gcc@12` is no mention."""
    return _MENTION.sub("\\g<0>\u200b", text)


def without_links(line: str) -> str:
    """Return a line in which no chat shows a link; a line with a command is unchanged, so that it can be copied."""
    return line if _COMMAND.match(line) else _LINKED.sub("\u200b", line)


def _mark(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


_NAME = "cachewatch"
_LINK_TEXT = "The whole digest"
# In characters. Limits: a header of Slack 150, a title of Discord 256, its description 4,096, and an embed 6,000.
_TITLE, _MARKED_TITLE, _BULLET, _MARKED_UP = 150, 256, 500, 4_000
# Addresses to which every chat can link.
_ADDRESS = re.compile(r"https?://[!-~]{1,1000}")
# The label of a bullet, up to its first colon.
_LABEL = re.compile(r"([^:]{1,60}:) (?=\S)")


class _Brief(Struct, frozen=True):
    """The part of a digest that every chat shows, as plain text without mentions and links."""

    title: str
    bullets: tuple[tuple[str, str], ...]  # the label, which is bold and may be empty, and the text
    about: str
    link: str | None
    colour: str  # of the bar beside it, as mails have it: #1a7f37


def webhook_body(preset: str, rendered: RenderedDigest) -> bytes:
    """Return the body of a webhook's request in the layout of `preset`, in pure ASCII."""
    return json.dumps(_PRESETS[preset](rendered)).encode("ascii")


def chat_text(rendered: RenderedDigest) -> str:
    """Return the text below the title for a chat that shows plain text; the title if there is nothing else."""
    brief = _brief(rendered)
    return "\n".join(_lines(brief)) or brief.title


def chat_title(rendered: RenderedDigest) -> str:
    """Return the title of a digest in a chat."""
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
        colour=entries("theme.toml")["colors"][rendered.level],
    )


def _bullet(line: str) -> tuple[str, str]:
    line = _harmless(line, _BULLET)
    label = _LABEL.match(line)
    return (label[1], line[label.end() :]) if label else ("", line)


def _harmless(text: str, most: int) -> str:
    """Return one line of at most `most` characters without mentions and links for any chat."""
    return shortened(without_links(without_mentions(one_line(text, most))), most)


def _lines(brief: _Brief) -> Iterator[str]:
    """Yield the lines below the title for a chat that shows plain text."""
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
    """Return a message with one attachment, a form that older clients show too."""
    brief = _brief(rendered)
    attachment = {
        "fallback": brief.title,
        "color": brief.colour,
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
        "color": int(brief.colour.removeprefix("#"), 16),
        "timestamp": rendered.created.isoformat(),
    }
    if brief.about:
        embed["footer"] = {"text": brief.about}
    if brief.link:
        embed["url"] = brief.link
    return {"username": _NAME, "embeds": [embed], "allowed_mentions": {"parse": []}}


def _marked_up(brief: _Brief, chat: Markdown) -> str:
    """Return as many bullets as fit, and the link, in the Markdown of a chat."""
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
    """Return a message of blocks with literal text, in which Slack reads no markup.

    `text` is shown in notifications, and by other chats that accept Slack's messages but not its blocks.
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
    """Return a message for the webhooks of Hookshot, a bridge to Matrix."""
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


class WithoutSession:
    """A channel that delivers its messages one by one, without a session with a server."""

    @contextmanager
    def open(self, sent_history: SentHistory) -> Iterator[Transport]:  # noqa: ARG002  the contract of a channel
        """Begin a run of deliveries."""
        yield cast("Transport", self)


class AppriseChannel(WithoutSession):
    """Chats that Apprise reaches, each by one URL.

    Apprise tells whether a message was sent, and writes the reason of a failure only to its log.
    """

    def __init__(self, config: AppriseConfig) -> None:
        self.name = config.name
        self._urls = {_target(url.reveal()): url.reveal() for url in config.urls}

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return one message for each chat."""
        return [self._message(rendered, target) for target in self._urls]

    def rebuild_message(self, rendered: RenderedDigest, original: Message) -> Message:
        """Return the message again, marked as resent."""
        return self._message(rendered, original.target, "Resent: ")

    def deliver(self, message: Message) -> DeliveryResult:
        """Send one message."""
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
    """Return a name for a URL that reveals only the kind of chat."""
    return f"{one_line(url.partition('://')[0], 20)}:{_mark(url)}"
