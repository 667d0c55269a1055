"""Whether the recipients of a stored delivery still want it: the configuration may have changed since."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from cachewatch.config.addresses import address_of
from cachewatch.config.model import Config, MailConfig, MaildirConfig, Subscription
from cachewatch.notify.operator_notices import OPERATORS


class Way(Struct, frozen=True):
    """Channels, and whom those of mail go to."""

    channels: tuple[str, ...]
    to: tuple[str, ...]


def why_not(config: Config, subscription: str, channel: str, target: str) -> str:
    """Say why what was made for `subscription` is not to go to `target` any more; empty if it is.

    A subscription that is gone may have been renamed: what waits for it goes to those who
    still get something through the channel, and to nobody else. What a channel that is gone
    should have taken waits for it.
    """
    if channel not in config.channels:
        return ""
    ways = [way for way in _ways_of(config, subscription) if channel in way.channels]
    if not ways:
        return f"{subscription} no longer uses {channel}"
    if not _reaches(config, ways, channel, target):
        return f"{target} is no longer a recipient of {subscription}"
    return ""


def is_recipient(config: Config, channel: str, target: str) -> bool:
    """Tell whether anything is ever sent to `target` through `channel`."""
    ways = _ways_through(config, channel)
    return channel in config.channels and bool(ways) and _reaches(config, ways, channel, target)


def is_used(config: Config, channel: str) -> bool:
    """Tell whether anything is ever sent through a channel."""
    return channel in config.channels and bool(_ways_through(config, channel))


def _ways_through(config: Config, channel: str) -> list[Way]:
    return [way for way in (*_ways(config.subscriptions.values()), _operators(config)) if channel in way.channels]


def _ways_of(config: Config, subscription: str) -> Iterable[Way]:
    if subscription == OPERATORS:
        return [_operators(config)]
    known = config.subscriptions.get(subscription)
    return _ways([known] if known else config.subscriptions.values())


def _ways(subscriptions: Iterable[Subscription]) -> Iterator[Way]:
    for each in subscriptions:
        yield Way(each.channels, each.to)
        if each.urgent is not None:
            yield Way(each.urgent.channels, each.urgent.to or each.to)


def _operators(config: Config) -> Way:
    return Way(config.operators.channels, config.operators.to)


def _reaches(config: Config, ways: Iterable[Way], channel: str, target: str) -> bool:
    kind = config.channels[channel]
    has_addresses = isinstance(kind, MailConfig) and not isinstance(kind, MaildirConfig)
    return not has_addresses or target.lower() in {address_of(to).lower() for way in ways for to in way.to}
