"""The ways out: from a channel of the configuration to something that packs letters and takes parcels out."""

from cachewatch.channels.email import EmailChannel
from cachewatch.channels.feed import FeedChannel
from cachewatch.channels.file import FileChannel
from cachewatch.channels.maildir import MaildirChannel
from cachewatch.channels.sendmail import SendmailChannel
from cachewatch.config.model import (
    ChannelConfig,
    EmailConfig,
    FeedConfig,
    FileConfig,
    MaildirConfig,
    SendmailConfig,
)
from cachewatch.deliveries import Channel
from cachewatch.errors import ConfigError


def open_channel(config: ChannelConfig) -> Channel:
    """Return the channel that `config` describes; raises ConfigError where it cannot work as configured."""
    match config:
        case EmailConfig():
            return EmailChannel(config)
        case SendmailConfig():
            return SendmailChannel(config)
        case MaildirConfig():
            return MaildirChannel(config)
        case FileConfig():
            return FileChannel(config)
        case FeedConfig():
            return FeedChannel(config)
        case _:
            raise ConfigError(f"channel {config.name}: no channels of type {config.type!r}")
