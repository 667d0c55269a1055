"""How long handing over one message may take, by the type of the channel."""

from datetime import timedelta

from cachewatch.config.model import ChannelConfig, EmailConfig, SendmailConfig, WebhookConfig

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
