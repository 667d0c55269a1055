"""Open the configured channels, the ways to deliver digests (each module is loaded on demand); hide secrets of URLs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast
from urllib.parse import urlsplit

from cachewatch.config.sources_and_channels import ChannelConfig
from cachewatch.hooks import extensions, load
from cachewatch.report.digest_and_message_values import Channel, SentHistory, Transport

CHANNELS = {
    "email": "cachewatch.channels.smtp:EmailChannel",
    "sendmail": "cachewatch.channels.mail:SendmailChannel",
    "maildir": "cachewatch.channels.mail:MaildirChannel",
    "file": "cachewatch.channels.files_and_feeds:FileChannel",
    "feed": "cachewatch.channels.files_and_feeds:FeedChannel",
    "webhook": "cachewatch.channels.webhooks_and_chats:WebhookChannel",
    "apprise": "cachewatch.channels.webhooks_and_chats:AppriseChannel",
}


def open_channel(config: ChannelConfig) -> Channel:
    """Return the channel that `config` describes. Raises ConfigError if it needs a package that is not installed."""
    kinds = {kind.type: kind.channel for kind in extensions().channel_kinds} | CHANNELS
    return cast("Channel", load(kinds[config.type])(config))


class OneByOne:
    """A base class for channels that deliver messages one by one; the channel itself is the Transport."""

    _sent_history: SentHistory = staticmethod(lambda *_: ())

    @contextmanager
    def open(self, sent_history: SentHistory) -> Iterator[Transport]:
        """Yield the channel for a run of deliveries, then call `end`; `sent_history` finds earlier messages."""
        self._sent_history = sent_history
        try:
            yield cast("Transport", self)
        finally:
            self.end()

    def end(self) -> None:
        """End a run of deliveries; a subclass may override this, which does nothing."""


def without_secret_url(text: str, url: str) -> str:
    """Return `text` with the secret parts of `url` (the path, long parts of it, and the query) replaced by `***`."""
    parts = urlsplit(url)
    for secret in (parts.path, parts.query, *(part for part in parts.path.split("/") if len(part) >= 8)):
        text = text.replace(secret, "***") if len(secret) > 1 else text
    return text
