"""The ways out: from a channel of the configuration to something that packs letters and takes parcels out."""

from collections.abc import Callable, Mapping
from typing import Any

from cachewatch.channels.chat import AppriseChannel
from cachewatch.channels.email import EmailChannel
from cachewatch.channels.feed import FeedChannel
from cachewatch.channels.file import FileChannel
from cachewatch.channels.maildir import MaildirChannel
from cachewatch.channels.sendmail import SendmailChannel
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
from cachewatch.deliveries import Channel

_CHANNELS: Mapping[type[ChannelConfig], Callable[[Any], Channel]] = {
    EmailConfig: EmailChannel,
    SendmailConfig: SendmailChannel,
    MaildirConfig: MaildirChannel,
    FileConfig: FileChannel,
    FeedConfig: FeedChannel,
    WebhookConfig: WebhookChannel,
    AppriseConfig: AppriseChannel,
}


def open_channel(config: ChannelConfig) -> Channel:
    """Return the channel that `config` describes; raises ConfigError where it takes what is not installed."""
    return _CHANNELS[type(config)](config)
