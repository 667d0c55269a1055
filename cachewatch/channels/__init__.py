"""Open the channels of the configuration, say how long one message may take in each, and make text harmless for all.

A channel's module is loaded when a channel of its type is opened: a Maildir needs no HTTP client, and a webhook no
SMTP.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from typing import cast
from urllib.parse import urlsplit

from cachewatch.config.channels import ChannelConfig, EmailConfig, SendmailConfig, WebhookConfig
from cachewatch.core.names_and_escaping import UNFIT, safe, shortened
from cachewatch.hooks import extensions, load
from cachewatch.report.digest_and_message_values import Channel, SentHistory, Transport

# The class for each type of channel, which takes its configuration.
CHANNELS = {
    "email": "cachewatch.channels.smtp:EmailChannel",
    "sendmail": "cachewatch.channels.mail:SendmailChannel",
    "maildir": "cachewatch.channels.mail:MaildirChannel",
    "file": "cachewatch.channels.digest_files:FileChannel",
    "feed": "cachewatch.channels.feed:FeedChannel",
    "webhook": "cachewatch.channels.webhooks_and_chats:WebhookChannel",
    "apprise": "cachewatch.channels.webhooks_and_chats:AppriseChannel",
}


def open_channel(config: ChannelConfig) -> Channel:
    """Return the channel that `config` describes; raises ConfigError if it needs a package that is not installed."""
    kinds = {kind.type: kind.channel for kind in extensions().channel_kinds} | CHANNELS
    channel: Channel = load(kinds[config.type])(config)
    return channel


# Times the timeout of a mail server: a session that is lost before the end of a message, and a new one, 15 each.
LONGEST_ATTEMPT = 30
# For what has no deadline of its own: looking up names, network disks, plugins for chats.
_OTHERS = timedelta(minutes=15)


def longest_attempt(config: ChannelConfig) -> timedelta:
    """Return the longest time that sending one message may take: the sum of all deadlines."""
    match config:
        case EmailConfig():
            return LONGEST_ATTEMPT * config.smtp.timeout + _OTHERS
        case SendmailConfig() | WebhookConfig():
            return config.timeout + _OTHERS
        case _:
            return _OTHERS


class OneByOne:
    """A channel that delivers its messages one by one, without a session with a server."""

    _sent_history: SentHistory = staticmethod(lambda *_: ())

    @contextmanager
    def open(self, sent_history: SentHistory) -> Iterator[Transport]:
        """Begin a run of deliveries; `sent_history` returns what was sent before."""
        self._sent_history = sent_history
        yield cast("Transport", self)


_UNFIT = re.compile(f"[{UNFIT}]")
_UNFIT_FOR_NAME = re.compile(r"[^A-Za-z0-9._+~-]+")


def one_line(text: str, most: int = 200) -> str:
    """Return `text` as one line of at most `most` characters, with invisible characters escaped."""
    return shortened(safe(" ".join(text.split())), most)


def one_word(text: str) -> str:
    """Return an ASCII word made from `text` for use in identifiers; different texts give different words."""
    word = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:60]
    return word if word == text else f"{word}-{hash_mark(text)}".lstrip("-")


def file_name(text: str) -> str:
    """Return a file name made from `text`; different texts give different names."""
    name = _UNFIT_FOR_NAME.sub("-", text).lstrip(".-")[:100]
    return name if name and name == text else f"{name or 'x'}-{hash_mark(text)}"


def plain_lines(text: str) -> str:
    """Return a plain text of several lines with all invisible characters escaped."""
    lines = text.replace("\r\n", "\n").expandtabs().split("\n")
    return "\n".join(map(safe, lines))


def markup(text: str) -> str:
    """Return HTML or XML without forbidden characters and without those that reverse the direction of text."""
    return _UNFIT.sub("\ufffd", text.replace("\r\n", "\n"))


def without_secret_url(text: str, url: str) -> str:
    """Return `text` without the path and query of `url`, which are secret."""
    parts = urlsplit(url)
    for secret in (parts.path, parts.query, *(part for part in parts.path.split("/") if len(part) >= 8)):
        text = text.replace(secret, "***") if len(secret) > 1 else text
    return text


def hash_mark(text: str) -> str:
    """Return eight hexadecimal digits of a hash of `text`."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
