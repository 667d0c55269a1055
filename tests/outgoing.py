"""Digests and channels with defaults, so that a test names only what matters to it."""

import email
import email.policy
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from cachewatch.config.sources_and_channels import ChannelConfig, EmailConfig, MaildirConfig, Smtp
from cachewatch.report.digest_and_message_values import SENT, DeliveryResult, Message, RenderedDigest, open_channel

CREATED = datetime(2026, 8, 3, 5, 30, tzinfo=UTC)
SENDER = "Cachewatch <cachewatch@hpc.example.org>"


def texts(value: Any) -> Iterator[str]:
    """Yield every text in a value of JSON."""
    if isinstance(value, str):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(one)


def elements(html: str) -> set[str]:
    """Name all elements of `html`, which has no script in an attribute."""
    found: set[str] = set()

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.add(tag)
            assert not any(name.startswith("on") for name, _ in attrs)

    Reader().feed(html)
    return found


def rendered(number: int = 0, **values: Any) -> RenderedDigest:
    """Return a digest; each number is another digest, a week after the one before."""
    defaults: dict[str, Any] = {
        "key": f"ml-team/{number}",
        "subscription": "ml-team",
        "title": "3 removed, 12 added, 41 updated - develop",
        "period": f"{(CREATED + timedelta(weeks=number - 1)):%Y-%m-%d}..{(CREATED + timedelta(weeks=number)):%Y-%m-%d}",
        "created": CREATED + timedelta(weeks=number),
        "to": ("kim@example.org",),
        "tags": ("develop",),
        "kinds": ("removed", "added"),
        "revisions": ("0123456789abcdef..fedcba9876543210",),
        "text": f"Three packages went, twelve came.\n\nFrom here on: digest {number}\n.\n",
        "html": f'<html lang="en"><head><title>x</title></head><body><p>Digest {number}: gcc@12 &#8594; ü</p></body></html>',
        "feed": f"<p>Digest {number}: gcc@12 &#8594; ü</p>",
        "markdown": f"# Digest {number}\n\nThree packages went.\n",
        "json": b'{"digest": %d}' % number,
    }
    return RenderedDigest(**(defaults | values))


def email_config(port: int, *, name: str = "mail", smtp: dict[str, Any] | None = None, **values: Any) -> EmailConfig:
    """Return the configuration of a channel to a server on this machine, without TLS unless told."""
    server: dict[str, Any] = {"host": "127.0.0.1", "port": port, "security": "none", "timeout": timedelta(seconds=5)}
    everything: dict[str, Any] = {"name": name, "sender": SENDER, "smtp": Smtp(**(server | (smtp or {})))}
    return EmailConfig(**(everything | values))


def maildir_config(path: Path, **values: Any) -> MaildirConfig:
    """Return the configuration of a channel into a Maildir."""
    everything: dict[str, Any] = {"name": "inbox", "sender": SENDER, "path": path}
    return MaildirConfig(**(everything | values))


def no_shelf(target: str, most: int) -> Sequence[Message]:
    """Say that nothing was sent before."""
    return ()


class Shelves:
    """What was sent before, as the store would tell."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    def __call__(self, target: str, most: int) -> Sequence[Message]:
        """Return the newest messages to a target."""
        return [message for message in reversed(self.sent) if message.target == target][:most]


def deliver(config: ChannelConfig, sent_history: Shelves, *rendered_digests: RenderedDigest) -> list[DeliveryResult]:
    """Deliver digests, and put what was sent on the sent history."""
    channel, answers = open_channel(config), []
    with channel.open(sent_history) as transport:
        for one in rendered_digests:
            for message in channel.build_messages(one):
                answers.append(transport.deliver(message))
                if answers[-1] == SENT:
                    sent_history.sent.append(message)
    return answers


def send(config: ChannelConfig, *rendered_digests: RenderedDigest) -> list[DeliveryResult]:
    """Send digests in one run and return the answers, one for each message."""
    channel = open_channel(config)
    with channel.open(no_shelf) as transport:
        return [transport.deliver(message) for one in rendered_digests for message in channel.build_messages(one)]


def read(payload: bytes) -> EmailMessage:
    """Return a mail as a mail program has it."""
    message = email.message_from_bytes(payload, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    return message


def part(message: EmailMessage, kind: str) -> str:
    """Return the plain or the HTML part."""
    found = message.get_body((kind,))
    assert isinstance(found, EmailMessage)
    return str(found.get_content()).replace("\r\n", "\n")


_FULL = rendered(archive_url="https://example.org/x", attachments=())
HEADERS = set(read(open_channel(email_config(25)).build_messages(_FULL)[0].payload).keys())  # that a digest may have
