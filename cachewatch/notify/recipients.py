"""Whether the recipients of a stored delivery still want it: the configuration may have changed since."""

from collections.abc import Collection, Iterable, Iterator

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


def is_operator(config: Config, channel: str, target: str) -> bool:
    """Tell whether notices to operators are sent to `target` through `channel`."""
    return (
        channel in config.channels
        and channel in config.operators.channels
        and _reaches(config, [_operators(config)], channel, target)
    )


def last_addresses(config: Config, suppressed: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return which of these addresses, each behind its channel, leave nobody to reach, and whose they are.

    That is each address of operators, and the addresses of a subscription if it has no other in that channel.
    """
    by_name = {(channel, target.lower()): (channel, target) for channel, target in suppressed}
    found = {}
    for name in (*config.subscriptions, OPERATORS) if suppressed else ():
        for way in _ways_of(config, name):
            for channel in way.channels:
                named = [(channel, address_of(to).lower()) for to in way.to] if _has_addresses(config, channel) else []
                if name == OPERATORS or all(each in by_name for each in named):
                    found.update({by_name[each]: name for each in named if each in by_name})
    return found


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
    return not _has_addresses(config, channel) or target.lower() in {
        address_of(to).lower() for way in ways for to in way.to
    }


def _has_addresses(config: Config, channel: str) -> bool:
    kind = config.channels.get(channel)
    return isinstance(kind, MailConfig) and not isinstance(kind, MaildirConfig)
