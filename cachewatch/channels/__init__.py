"""The ways out: from a channel of the configuration to something that packs digests and takes messages out."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from cachewatch.channels.chat import AppriseChannel
from cachewatch.channels.email import EmailChannel
from cachewatch.channels.feed import FeedChannel
from cachewatch.channels.file import FileChannel
from cachewatch.channels.maildir import MaildirChannel
from cachewatch.channels.sendmail import SendmailChannel
from cachewatch.channels.smtp import LONGEST_ATTEMPT
from cachewatch.channels.webhook import WebhookChannel
from cachewatch.config.model import (
    AppriseConfig,
    ChannelConfig,
    EmailConfig,
    FeedConfig,
    FileConfig,
    MaildirConfig,
    SendmailConfig,
    WebhookConfig,
)
from cachewatch.core.delivery import Channel

_CHANNELS: Mapping[type[ChannelConfig], Callable[[Any], Channel]] = {
    EmailConfig: EmailChannel,
    SendmailConfig: SendmailChannel,
    MaildirConfig: MaildirChannel,
    FileConfig: FileChannel,
    FeedConfig: FeedChannel,
    WebhookConfig: WebhookChannel,
    AppriseConfig: AppriseChannel,
}

# Names that are looked up, disks of other machines, the plugins of a chat: what has no deadline of ours.
_OTHERS = timedelta(minutes=15)


def open_channel(config: ChannelConfig) -> Channel:
    """Return the channel that `config` describes; raises ConfigError where it takes what is not installed."""
    return _CHANNELS[type(config)](config)


def longest_attempt(config: ChannelConfig) -> timedelta:
    """Return how long handing over one message may take, all deadlines together."""
    match config:
        case EmailConfig():
            return LONGEST_ATTEMPT * config.smtp.timeout + _OTHERS
        case SendmailConfig() | WebhookConfig():
            return config.timeout + _OTHERS
        case _:
            return _OTHERS
