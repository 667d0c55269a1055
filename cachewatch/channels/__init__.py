"""Open the channels of the configuration, and say how long one message may take in each type of channel.

A channel's module is loaded when a channel of its type is opened: a Maildir needs no HTTP client, and a webhook no
SMTP.
"""

from datetime import timedelta

from cachewatch.config.channels import ChannelConfig, EmailConfig, SendmailConfig, WebhookConfig
from cachewatch.hooks import extensions, load
from cachewatch.report.values import Channel

# The class for each type of channel, which takes its configuration.
CHANNELS = {
    "email": "cachewatch.channels.smtp:EmailChannel",
    "sendmail": "cachewatch.channels.mail:SendmailChannel",
    "maildir": "cachewatch.channels.mail:MaildirChannel",
    "file": "cachewatch.channels.files:FileChannel",
    "feed": "cachewatch.channels.feed:FeedChannel",
    "webhook": "cachewatch.channels.webhook:WebhookChannel",
    "apprise": "cachewatch.channels.chats:AppriseChannel",
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
