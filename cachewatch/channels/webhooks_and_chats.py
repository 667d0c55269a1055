"""Send digests to webhooks, as JSON or in the layout of a chat, and to chats through Apprise, an optional package.

Requests carry an Idempotency-Key that is the same for all attempts, so that the receiver can tell a repetition, and, if
a signing key is configured, the signature of Standard Webhooks over that key, the time and the body.

A chat shows a title, three to five bullets and a link, in its own layout. The name of a package must not notify
anybody: mentions are broken up for every chat, and switched off where a chat has an option for that.
"""

import base64
import binascii
import hmac
import importlib
import json
import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from html import escape
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from cachewatch.config.sources_and_channels import AppriseConfig, WebhookConfig
from cachewatch.config.value_types_and_secrets import Secret
from cachewatch.core.escaping_and_mentions import (
    chat_markdown,
    hash_mark,
    one_line,
    shortened,
    without_links,
    without_mentions,
)
from cachewatch.errors import HttpError, RefusedAddress
from cachewatch.http import client as http
from cachewatch.http.allowed_addresses import without_secret_url
from cachewatch.report.digest_and_message_values import (
    SENT,
    DeliveryOutcome,
    DeliveryResult,
    Message,
    OneByOne,
    RenderedDigest,
)
from cachewatch.report.words_file import entries

_LATER = frozenset({408, 425, 429})
_THIS_MESSAGE = frozenset({400, 406, 409, 411, 415, 422, 451})


class WebhookChannel(OneByOne):
    """Sends digests to a URL as JSON."""

    def __init__(self, config: WebhookConfig) -> None:
        self.name = config.name
        self._config = config

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return one message, the body of a request."""
        return [self._message(rendered, rendered.key)]

    def rebuild_message(self, rendered: RenderedDigest, original: Message) -> Message:
        """Return the message again, marked as resent, with a new Idempotency-Key, so that receivers accept it."""
        title = f"Resent: {rendered.title.removeprefix('Resent: ')}"
        return self._message(replace(rendered, title=title), f"{original.message_id} {rendered.created.isoformat()}")

    def deliver(self, message: Message) -> DeliveryResult:
        """Send one request, and return what the status of the answer means."""
        url, seconds = self._config.url.reveal(), self._config.timeout.total_seconds()
        try:
            answer = http.post(url, message.payload, headers=self._headers(message), seconds=seconds)
        except HttpError as error:
            is_ours = not error.is_transient and not error.was_sent  # the certificate, the proxy
            outcome = DeliveryOutcome.BLOCKED if is_ours else DeliveryOutcome.DEFERRED
            said = self._without_secrets(str(error))
            return DeliveryResult(outcome, said, may_have_arrived=error.was_sent, is_channel=True)
        except RefusedAddress as error:
            return DeliveryResult(DeliveryOutcome.BLOCKED, self._without_secrets(str(error)), is_channel=True)
        return self._meaning(answer)

    def _message(self, rendered: RenderedDigest, identity: str) -> Message:
        target = place(self._config.url)
        name = sha256(f"{self.name}\0{target}\0{identity}".encode(errors="surrogatepass")).hexdigest()[:32]
        body = webhook_body(self._config.preset, rendered)
        return rendered.message(target, body, "application/json", f"digest-{name}")

    def _headers(self, message: Message) -> dict[str, str]:
        name = message.message_id or ""
        headers = {"Content-Type": message.content_type, "Idempotency-Key": name}
        if self._config.signing_key is not None:
            secret, moment = self._config.signing_key.reveal(), str(int(time.time()))
            key = secret.encode()
            if secret.startswith("whsec_"):
                with suppress(binascii.Error):  # the text that follows may be no base64
                    key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
            signed = f"{name}.{moment}.".encode() + message.payload
            mac = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
            headers |= {"webhook-id": name, "webhook-timestamp": moment, "webhook-signature": f"v1,{mac}"}
        return headers

    def _meaning(self, answer: http.Answer) -> DeliveryResult:
        status = answer.status
        if 200 <= status < 300:
            return SENT
        reply = self._without_secrets(f"{status} {answer.body[:1000].decode('utf-8', 'replace')}")
        if status in _LATER or status >= 500:
            return DeliveryResult(DeliveryOutcome.DEFERRED, reply, retry_after=answer.retry_after(), is_channel=True)
        if status == 413:
            return DeliveryResult(DeliveryOutcome.TOO_LARGE, reply)
        if status in _THIS_MESSAGE:
            return DeliveryResult(DeliveryOutcome.DEAD, reply)
        if 300 <= status < 400:
            reply = f"{status}: the URL redirects; configure the new address"
        return DeliveryResult(DeliveryOutcome.BLOCKED, reply, is_channel=True)

    def _without_secrets(self, text: str) -> str:
        """Return `text` as one line with the secrets, parts of the URL and the signing key, replaced by `***`."""
        text = without_secret_url(text, self._config.url.reveal())
        if self._config.signing_key is not None:
            text = text.replace(self._config.signing_key.reveal(), "***")
        return one_line(text, 300)


def place(url: Secret) -> str:
    """Return scheme and host of `url`; the rest is secret."""
    parts = urlsplit(url.reveal())
    return one_line(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}")


_NAME = "cachewatch"
_LINK_TEXT = "The whole digest"
_AS_IT_IS = ("key", "subscription", "title", "bullets", "period", "is_urgent", "level", "tags", "kinds", "revisions")
# In characters. Limits: a header of Slack 150, a title of Discord 256, its description 4,096, and an embed 6,000.
_TITLE, _MARKED_TITLE, _BULLET, _MARKED_UP = 150, 256, 500, 4_000
_ADDRESS = re.compile(r"https?://[!-~]{1,1000}")  # addresses to which every chat can link
_LABEL = re.compile(r"([^:]{1,60}:) (?=\S)")  # the label of a bullet, up to its first colon


class _Brief:
    """The part of a digest that chats show, as plain text without mentions and links."""

    def __init__(self, rendered: RenderedDigest) -> None:
        self.title = chat_title(rendered)
        self.bullets = [  # the label, which is bold and may be empty, and the text
            (label[1], line[label.end() :]) if (label := _LABEL.match(line)) else ("", line)
            for line in (_harmless(bullet, _BULLET) for bullet in rendered.bullets)
        ]
        self.about = _harmless(rendered.subtitle, _BULLET)
        link = rendered.archive_url
        self.link = link if link and _ADDRESS.fullmatch(link) and not set('<>"') & set(link) else None
        self.colour: str = entries("theme.toml")["colors"][rendered.level]  # of the bar beside it: #1a7f37
        self.created = rendered.created


def webhook_body(preset: str, rendered: RenderedDigest) -> bytes:
    """Return the body of a request as ASCII JSON: the whole digest, or a message for the chat that `preset` names."""
    if preset != "json":
        return json.dumps(_CHATS[preset](_Brief(rendered))).encode("ascii")
    body = {
        "type": "cachewatch.notice" if rendered.is_notice else "cachewatch.digest",
        **{name: getattr(rendered, name) for name in _AS_IT_IS},
        "created": rendered.created.isoformat(),
        "archive_url": rendered.archive_url,
        "digest": json.loads(rendered.json) if rendered.json else None,
        "text": rendered.text,
    }
    return json.dumps(body).encode("ascii")


def chat_text(rendered: RenderedDigest) -> str:
    """Return the text below the title, for a chat that shows plain text; the title if there is no such text."""
    brief = _Brief(rendered)
    return "\n".join(_lines(brief)) or brief.title


def chat_title(rendered: RenderedDigest) -> str:
    """Return the title of a digest for chats, `URGENT cachewatch ml: ...`, on one line without mentions and links."""
    urgent = "URGENT " if rendered.is_urgent else ""
    about = _NAME if rendered.is_notice else f"{_NAME} {one_line(rendered.subscription, 40)}"
    return _harmless(f"{urgent}{about}: {rendered.title}", _TITLE)


def _harmless(text: str, most: int) -> str:
    """Return `text` on one line of up to `most` characters, without what any chat takes for a mention or link."""
    return shortened(without_links(without_mentions(one_line(text, most))), most)


def _lines(brief: _Brief) -> Iterator[str]:
    """Yield the lines below the title for a chat that shows plain text."""
    for label, text in brief.bullets:
        yield f"- {label} {text}" if label else f"- {text}"
    if brief.about:
        yield brief.about
    if brief.link:
        yield f"{_LINK_TEXT}: {brief.link}"


def _mattermost(brief: _Brief) -> Mapping[str, Any]:
    attachment = {
        "fallback": brief.title,
        "color": brief.colour,
        "title": brief.title,
        "text": _marked_up(brief, "mattermost"),
        "footer": brief.about,
    }
    if brief.link:
        attachment["title_link"] = brief.link
    return {"username": _NAME, "attachments": [attachment]}


def _discord(brief: _Brief) -> Mapping[str, Any]:
    embed: dict[str, Any] = {
        "title": chat_markdown(brief.title, "discord")[:_MARKED_TITLE],
        "description": _marked_up(brief, "discord"),
        "color": int(brief.colour.removeprefix("#"), 16),
        "timestamp": brief.created.isoformat(),
    }
    if brief.about:
        embed["footer"] = {"text": brief.about}
    if brief.link:
        embed["url"] = brief.link
    return {"username": _NAME, "embeds": [embed], "allowed_mentions": {"parse": []}}


def _marked_up(brief: _Brief, chat: str) -> str:
    """Return the first bullets, as many as fit, and the link, in the Markdown of `chat`."""
    link = f"[{_LINK_TEXT}](<{brief.link}>)" if brief.link else ""
    lines = [
        f"- **{chat_markdown(label, chat, is_start=False)}** {chat_markdown(text, chat, is_start=False)}"
        if label
        else f"- {chat_markdown(text, chat)}"
        for label, text in brief.bullets
    ]
    while len(said := "\n".join(filter(None, (*lines, link)))) > _MARKED_UP:
        lines.pop()
    return said


def _slack(brief: _Brief) -> Mapping[str, Any]:
    blocks: list[Mapping[str, Any]] = [{"type": "header", "text": _plain(brief.title)}]
    listed = []
    for label, text in brief.bullets:
        bold = [{"type": "text", "text": f"{label} ", "style": {"bold": True}}] if label else []
        listed.append({"type": "rich_text_section", "elements": [*bold, {"type": "text", "text": text}]})
    if listed:
        bullets = {"type": "rich_text_list", "style": "bullet", "elements": listed}
        blocks.append({"type": "rich_text", "elements": [bullets]})
    if brief.link:
        link = {"type": "link", "url": brief.link, "text": _LINK_TEXT}
        blocks.append({"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [link]}]})
    if brief.about:
        blocks.append({"type": "context", "elements": [_plain(brief.about)]})
    # For notifications, and other chats that accept Slack's messages but not its blocks.
    whole = escape("\n".join([brief.title, *_lines(brief)]), quote=False)
    return {"text": whole, "blocks": blocks, "mrkdwn": False, "link_names": False, "unfurl_links": False}


def _plain(text: str) -> Mapping[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _matrix(brief: _Brief) -> Mapping[str, Any]:
    labels = [f"<strong>{escape(label)}</strong> " if label else "" for label, _ in brief.bullets]
    items = [f"<li>{label}{escape(text)}</li>" for label, (_, text) in zip(labels, brief.bullets, strict=True)]
    html = [f"<p><strong>{escape(brief.title)}</strong></p>"]
    html += [f"<ul>{''.join(items)}</ul>"] if items else []
    html += [f"<p><em>{escape(brief.about)}</em></p>"] if brief.about else []
    html += [f'<p><a href="{escape(brief.link)}">{_LINK_TEXT}</a></p>'] if brief.link else []
    return {"username": _NAME, "text": "\n".join([brief.title, *_lines(brief)]), "html": "".join(html)}


_CHATS = {"mattermost": _mattermost, "slack": _slack, "discord": _discord, "matrix": _matrix}


class AppriseChannel(OneByOne):
    """Sends digests to chats that Apprise can reach, each by a URL."""

    def __init__(self, config: AppriseConfig) -> None:
        self.name = config.name
        urls = [url.reveal() for url in config.urls]
        # The names reveal only the type of chat.
        self._urls = {f"{one_line(url.partition('://')[0], 20)}:{hash_mark(url)}": url for url in urls}

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return one message for each chat."""
        return [self._message(rendered, target) for target in self._urls]

    def rebuild_message(self, rendered: RenderedDigest, original: Message) -> Message:
        """Return the message for the chat that got `original`, marked as resent."""
        return self._message(rendered, original.target, "Resent: ")

    def deliver(self, message: Message) -> DeliveryResult:
        """Send one message to its chat, and return the result."""
        url = self._urls.get(message.target)
        if url is None:
            return DeliveryResult(DeliveryOutcome.DEAD, f"{message.target} is no longer configured")
        apprise: Any = importlib.import_module("apprise")  # half a second that only those pay who use it
        chats, parts = apprise.Apprise(), json.loads(message.payload)
        if not chats.add(url):
            return DeliveryResult(DeliveryOutcome.BLOCKED, f"Apprise does not understand the URL of {message.target}")
        with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as log:  # which alone has the reason
            try:
                if chats.notify(title=parts["title"], body=parts["body"], body_format="text"):
                    return SENT
            except Exception:  # noqa: BLE001, S110  plugins for a hundred services raise what they like
                pass
            text = log.getvalue()
        for secret in re.split(r"[/?&=:@]+", url):
            text = text.replace(secret, "***") if len(secret) >= 8 else text
        return DeliveryResult(DeliveryOutcome.DEFERRED, one_line(f"Apprise could not send it: {text}", 300))

    def _message(self, rendered: RenderedDigest, target: str, mark: str = "") -> Message:
        message = {"title": mark + chat_title(rendered), "body": chat_text(rendered)}
        return rendered.message(target, json.dumps(message).encode("ascii"), "application/json")
