"""Chats through Apprise, which is an extra: the only module that talks to it, and it loads it when it must."""

import importlib.util
import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from cachewatch.channels.chat_forms import chat_text, chat_title
from cachewatch.channels.escaping import one_line
from cachewatch.config.model import AppriseConfig, Secret
from cachewatch.core.delivery import (
    SENT,
    DeliveryOutcome,
    DeliveryResult,
    Message,
    RenderedDigest,
    SentHistory,
    Transport,
)
from cachewatch.errors import ConfigError


class AppriseChannel:
    """Chats, each by one of Apprise's URLs."""

    def __init__(self, config: AppriseConfig) -> None:
        if importlib.util.find_spec("apprise") is None:
            raise ConfigError(
                f"channel {config.name}: requires Apprise, which is not installed; run: pip install 'cachewatch[apprise]'"
            )
        self.name = config.name
        self._urls = {_target(url): url for url in config.urls}

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return one message for each chat."""
        return [self._message(rendered, target) for target in self._urls]

    def rebuild_message(self, rendered: RenderedDigest, original: Message) -> Message:
        """Return the message once more, marked as such."""
        return self._message(rendered, original.target, "Resent: ")

    @contextmanager
    def open(self, sent_history: SentHistory) -> Iterator[Transport]:  # noqa: ARG002  the contract of a channel
        """Begin a run."""
        yield _AppriseTransport(self._urls)

    def _message(self, rendered: RenderedDigest, target: str, mark: str = "") -> Message:
        message = {"title": mark + chat_title(rendered), "body": chat_text(rendered)}
        return Message(
            key=rendered.key,
            target=target,
            payload=json.dumps(message).encode("ascii"),
            content_type="application/json",
            created=rendered.created,
        )


class _AppriseTransport:
    """Hands messages to Apprise, which says whether they went, and the reason only in its log."""

    def __init__(self, urls: dict[str, Secret]) -> None:
        self._urls = urls

    def deliver(self, message: Message) -> DeliveryResult:
        """Hand over one message."""
        url = self._urls.get(message.target)
        if url is None:
            return DeliveryResult(outcome=DeliveryOutcome.DEAD, detail=f"{message.target} is no longer configured")
        apprise: Any = importlib.import_module("apprise")  # half a second that only those pay who use it
        chats = apprise.Apprise()
        if not chats.add(url.reveal()):
            return DeliveryResult(
                outcome=DeliveryOutcome.BLOCKED, detail=f"Apprise does not understand the URL of {message.target}"
            )
        with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as said:
            is_sent = _notify(chats, json.loads(message.payload))
            return (
                SENT
                if is_sent
                else DeliveryResult(outcome=DeliveryOutcome.DEFERRED, detail=_discreet(said.getvalue(), url))
            )


def _notify(chats: Any, message: dict[str, str]) -> bool:
    try:
        return bool(chats.notify(title=message["title"], body=message["body"], body_format="text"))
    except Exception:  # noqa: BLE001  plugins for a hundred services raise what they like
        return False


def _discreet(text: str, url: Secret) -> str:
    """Return Apprise's warnings without what could be a secret of the URL."""
    for secret in re.split(r"[/?&=:@]+", url.reveal()):
        text = text.replace(secret, "***") if len(secret) >= 8 else text
    return one_line(f"Apprise could not send it: {text}", 300)


def _target(url: Secret) -> str:
    """Return a name for a URL that tells nothing of it but the kind of chat."""
    text = url.reveal()
    return f"{one_line(text.partition('://')[0], 20)}:{sha256(text.encode()).hexdigest()[:8]}"
