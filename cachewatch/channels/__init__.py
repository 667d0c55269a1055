"""The ways out: from a channel of the configuration to something that packs digests and takes messages out.

A channel's module is loaded when a channel of its type is opened: a Maildir needs no HTTP client, and a webhook no SMTP.
"""

from collections.abc import Callable, Mapping
from typing import Any

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


def open_channel(config: ChannelConfig) -> Channel:
    """Return the channel that `config` describes; raises ConfigError where it takes what is not installed."""
    return _OPENERS[type(config)](config)


def _email(config: EmailConfig) -> Channel:
    from cachewatch.channels.smtp_channel import EmailChannel

    return EmailChannel(config)


def _sendmail(config: SendmailConfig) -> Channel:
    from cachewatch.channels.sendmail import SendmailChannel

    return SendmailChannel(config)


def _maildir(config: MaildirConfig) -> Channel:
    from cachewatch.channels.maildir import MaildirChannel

    return MaildirChannel(config)


def _file(config: FileConfig) -> Channel:
    from cachewatch.channels.file import FileChannel

    return FileChannel(config)


def _feed(config: FeedConfig) -> Channel:
    from cachewatch.channels.feed import FeedChannel

    return FeedChannel(config)


def _webhook(config: WebhookConfig) -> Channel:
    from cachewatch.channels.webhook import WebhookChannel

    return WebhookChannel(config)


def _apprise(config: AppriseConfig) -> Channel:
    from cachewatch.channels.apprise_channel import AppriseChannel

    return AppriseChannel(config)


_OPENERS: Mapping[type[ChannelConfig], Callable[[Any], Channel]] = {
    EmailConfig: _email,
    SendmailConfig: _sendmail,
    MaildirConfig: _maildir,
    FileConfig: _file,
    FeedConfig: _feed,
    WebhookConfig: _webhook,
    AppriseConfig: _apprise,
}
