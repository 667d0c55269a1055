"""Open the channels of the configuration, and say how long one message may take in each type of channel.

A channel's module is loaded when a channel of its type is opened: a Maildir needs no HTTP client, and a
webhook no SMTP.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from cachewatch.config.channels import (
    AppriseConfig,
    ChannelConfig,
    EmailConfig,
    FeedConfig,
    FileConfig,
    MaildirConfig,
    SendmailConfig,
    WebhookConfig,
)
from cachewatch.report.values import Channel


def open_channel(config: ChannelConfig) -> Channel:
    """Return the channel that `config` describes; raises ConfigError where it takes what is not installed."""
    return _OPENERS[type(config)](config)


def _email(config: EmailConfig) -> Channel:
    from cachewatch.channels.smtp import EmailChannel

    return EmailChannel(config)


def _sendmail(config: SendmailConfig) -> Channel:
    from cachewatch.channels.local_mail import SendmailChannel

    return SendmailChannel(config)


def _maildir(config: MaildirConfig) -> Channel:
    from cachewatch.channels.local_mail import MaildirChannel

    return MaildirChannel(config)


def _file(config: FileConfig) -> Channel:
    from cachewatch.channels.files import FileChannel

    return FileChannel(config)


def _feed(config: FeedConfig) -> Channel:
    from cachewatch.channels.feed import FeedChannel

    return FeedChannel(config)


def _webhook(config: WebhookConfig) -> Channel:
    from cachewatch.channels.webhook import WebhookChannel

    return WebhookChannel(config)


def _apprise(config: AppriseConfig) -> Channel:
    from cachewatch.channels.chats import AppriseChannel

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


# Times the timeout of a mail server: a session that is lost before the end of a message, 3 and 10, and a new one, 4, 3 and 10.
LONGEST_ATTEMPT = 30
# Names that are looked up, disks of other machines, the plugins of a chat: what has no deadline of ours.
_OTHERS = timedelta(minutes=15)


def longest_attempt(config: ChannelConfig) -> timedelta:
    """Return how long handing over one message may take, all deadlines together."""
    match config:
        case EmailConfig():
            return LONGEST_ATTEMPT * config.smtp.timeout + _OTHERS
        case SendmailConfig() | WebhookConfig():
            return config.timeout + _OTHERS
        case _:
            return _OTHERS
