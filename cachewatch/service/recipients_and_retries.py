"""Deliveries that wait or fail: who is still a recipient, when to retry or give up, and which addresses are suppressed.

An address that refuses digests for days is suppressed: it gets one a week, to see whether it accepts them. Addresses of
operators are never suppressed, since nobody else is notified of problems.
"""

import random
from collections.abc import Collection, Iterable, Iterator
from datetime import timedelta

from cachewatch.config import sources_and_channels as kinds
from cachewatch.config.settings_and_subscriptions import Config, Subscription
from cachewatch.config.value_types_and_secrets import address_of
from cachewatch.service.alerts_and_silent_sources import OPERATORS, Alert, open_within, resolve_within
from cachewatch.service.context_and_source_copies import Context
from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store.delivery_queue_and_order import Delivery, DeliveryState
from cachewatch.store.digests_and_holds import subscription_of
from cachewatch.store.health_and_alerts import AlertKey, AlertKind
from cachewatch.store.transactions_and_sqlite import Connection


def why_not(connection: Connection, config: Config, delivery: Delivery) -> str:
    """Return why a delivery must not be sent any more; "" if it may be sent."""
    subscription, channel, target = subscription_of(connection, delivery.digest), delivery.channel, delivery.target
    if channel not in config.channels:
        return ""
    # One that is no longer configured may have been renamed: those who still get something get its digests.
    known = (subscription,) if subscription in (*config.subscriptions, OPERATORS) else config.subscriptions
    if not is_used(config, channel, known):
        return f"{subscription} no longer uses {channel}"
    if not is_recipient(config, channel, target, known):
        return f"{target} is no longer a recipient of {subscription}"
    return ""


def is_recipient(config: Config, channel: str, target: str, names: Iterable[str] | None = None) -> bool:
    """Tell whether a subscription in `names` (None: any, or the operators) sends to `target` through `channel`."""
    # What was made for an address is for no file, if the channel became one.
    takes_any = "@" not in target or "/" in target
    ways = ((to, takes_any and not to) for _, through, to in _ways(config, names) if through == channel)
    return any(is_open or target.lower() in to for to, is_open in ways)


def is_operator(config: Config, channel: str, target: str) -> bool:
    """Tell whether notices to operators are sent to `target` through `channel`."""
    return is_recipient(config, channel, target, (OPERATORS,))


def last_addresses(config: Config, suppressed: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return a mapping of suppressed addresses to the subscription that they leave without any address in a channel.

    Addresses are pairs of a channel and a target. All suppressed addresses of operators are mapped to OPERATORS.
    """
    by_name = {(channel, target.lower()): (channel, target) for channel, target in suppressed}
    last = {}
    for name, channel, to in _ways(config):
        named = [(channel, address) for address in to]
        if name == OPERATORS or by_name.keys() >= {*named}:
            last.update({by_name[each]: name for each in named if each in by_name})
    return last


def is_used(config: Config, channel: str, names: Iterable[str] | None = None) -> bool:
    """Tell whether a subscription in `names` (None: any, or the operators) uses `channel`."""
    return any(through == channel for _, through, _ in _ways(config, names))


def _ways(config: Config, names: Iterable[str] | None = None) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (name, channel, mail addresses) of each channel of the subscriptions `names` (None: all, and operators)."""
    for name in (*config.subscriptions, OPERATORS) if names is None else names:
        own = config.operators if name == OPERATORS else config.subscriptions[name]
        ways = [(own.channels, own.to)]
        if isinstance(own, Subscription) and own.urgent is not None:
            ways.append((own.urgent.channels, own.urgent.to or own.to))
        for channels, to in ways:
            for channel in channels:
                kind = config.channels[channel]
                is_mail = isinstance(kind, kinds.MailConfig) and not isinstance(kind, kinds.MaildirConfig)
                yield name, channel, [address_of(each).lower() for each in to] if is_mail else []


# Minutes between attempts; the last one repeats.
_MINUTES = (1, 5, 15, 60, 240)
# The longest pause that a server can ask for, and the pause of a channel that somebody has to repair.
LONGEST_ASKED = BLOCKED = timedelta(hours=1)


def pause(attempts: int, asked: float | None = None) -> timedelta:
    """Return how long to wait after `attempts` failures, varied at random.

    `asked` is the pause that the server asked for, in seconds. Wait at least this long, or an hour if it is longer.
    """
    minutes = _MINUTES[min(attempts, len(_MINUTES)) - 1]
    usual = timedelta(minutes=minutes) * random.uniform(0.9, 1.2)  # noqa: S311  nothing is to be kept secret
    return max(usual, min(timedelta(seconds=asked or 0), LONGEST_ASKED))


def retried_for(config: Config, channel: str) -> timedelta:
    """Return how long a delivery through `channel` is retried; for an unknown channel, the longest time of any."""
    if channel in config.channels:
        return config.channels[channel].retry.lasting
    return max(each.retry.lasting for each in (kinds.ChannelConfig(name=""), *config.channels.values()))


def is_given_up(connection: Connection, context: Context, delivery: Delivery) -> bool:
    """Tell whether a delivery is given up: its time is over, and it was tried three times over at least a day."""
    now, lasting = context.clock(), retried_for(context.config, delivery.channel)
    history = deliveries.history(connection, delivery.id)
    first = next((at for at, event, _ in history if event == DeliveryState.DEFERRED), None)
    if first is None or delivery.attempts < 3:
        return False
    # An end that is further ahead than possible was stored by a wrong clock.
    end = delivery.give_up if delivery.give_up <= now + lasting else first + lasting
    return now >= end and now - first >= min(lasting, timedelta(days=1))


def note_refusal(connection: Connection, context: Context, delivery: Delivery, reply: str) -> bool:
    """Suppress an address that refused 3 digests over 3 days, now with `reply`; return whether it is suppressed."""
    name, target, now = delivery.channel, delivery.target, context.clock()
    if deliveries.is_suppressed(connection, name, target):
        return True
    refusals = deliveries.refusals(connection, name, target)
    is_lasting = len(refusals) >= 3 and now - min(refusals) >= timedelta(days=3)
    if not is_lasting or is_operator(context.config, name, target):
        return False
    deliveries.suppress_address(connection, name, target, reply, now)
    # Waiting deliveries are kept with later ones, so that all are sent in order.
    for each in deliveries.find(connection, states=deliveries.WAITING, channel=name, target=target):
        deliveries.settle(connection, each, DeliveryState.SUPPRESSED, now=now, said=reply)
    resolve_within(connection, context, AlertKey(AlertKind.DELIVERY_FAILED, name, target), "")
    open_within(connection, context, alert(name, target, reply))
    return True


def alert(channel: str, target: str, reply: str) -> Alert:
    """Return the alert that `channel` sends no more digests to the address `target`, whose server answered `reply`."""
    return Alert(
        key=AlertKey(AlertKind.ADDRESS_SUPPRESSED, channel, target),
        title=f"{target} receives no more digests",
        lines=(
            f"It has refused every digest through {channel} for days: {reply}",
            "New digests for it are kept. One of them is tried once a week; when it is taken, or you restore the address, all are sent.",
        ),
        commands=(f"cachewatch deliveries restore {channel} {target}", "cachewatch deliveries list --dead"),
    )


def try_again(connection: Connection, context: Context) -> None:
    """Queue the oldest digest kept for each suppressed address once a week; restore addresses of operators."""
    now = context.clock()
    for each in deliveries.all_suppressed(connection):
        if is_operator(context.config, each.channel, each.target):
            restore(connection, context, each.channel, each.target)
            continue
        all_of_it = deliveries.find(connection, channel=each.channel, target=each.target)
        kept = [one for one in all_of_it if one.state is DeliveryState.SUPPRESSED]
        is_under_way = any(one.state in deliveries.OPEN for one in all_of_it)
        last = max((one.settled_at for one in all_of_it if one.settled_at is not None), default=each.since)
        if kept and not is_under_way and abs(now - last) >= timedelta(days=7):
            _send(connection, context, kept[-1], "tried again after a week")


def restore(connection: Connection, context: Context, channel: str, target: str) -> bool:
    """End the suppression of `target` in `channel` and send what was kept for it; return whether it was suppressed."""
    was_suppressed = deliveries.restore_address(connection, channel, target)
    if was_suppressed:
        for each in deliveries.find(connection, states=(DeliveryState.SUPPRESSED,), channel=channel, target=target):
            _send(connection, context, each, "its address was restored")
    return was_suppressed


def _send(connection: Connection, context: Context, delivery: Delivery, said: str) -> None:
    now = context.clock()
    deliveries.settle(connection, delivery, DeliveryState.QUEUED, now=now, said=said)
    deliveries.prolong(connection, delivery.id, now + retried_for(context.config, delivery.channel))


# Times the timeout of a mail server: a session that is lost before the end of a message, and a new one, 15 each.
LONGEST_ATTEMPT = 30
# For what has no deadline of its own: looking up names, network disks, plugins for chats.
_WITHOUT_DEADLINE = timedelta(minutes=15)


def longest_attempt(config: kinds.ChannelConfig) -> timedelta:
    """Return the longest time that sending one message may take: the sum of all deadlines."""
    if isinstance(config, kinds.EmailConfig):
        return LONGEST_ATTEMPT * config.smtp.timeout + _WITHOUT_DEADLINE
    timeout = config.timeout if isinstance(config, kinds.SendmailConfig | kinds.WebhookConfig) else timedelta(0)
    return timeout + _WITHOUT_DEADLINE
