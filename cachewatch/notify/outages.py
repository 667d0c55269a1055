"""Time in which nothing ran does not count: no delivery is given up because of it, and nothing is deleted at its end."""

from datetime import datetime, timedelta

from cachewatch.config.model import ChannelConfig, Config
from cachewatch.notify.backoff import LONGEST_PAUSE
from cachewatch.notify.held_digests import held_for
from cachewatch.notify.pass_context import Context
from cachewatch.store import held, outages, outbox
from cachewatch.store.database import Connection

# Between two times at which we write down that we run.
_PRECISION = timedelta(minutes=10)
# For so long the end of an outage may be a clock that is wrong.
_DOUBT = timedelta(days=1)


def account(context: Context) -> None:
    """Write down that the service runs, and make up for the time in which it did not.

    What is open then has as much time left as if one pause between two attempts had passed, and what is held too.
    """
    now = context.clock()
    with context.database.read() as connection:
        ran = outages.moment(connection, outages.RAN)
    if ran is not None and ran <= now < ran + _PRECISION:
        return
    with context.database.write() as connection:
        ran = outages.moment(connection, outages.RAN)
        outages.save(connection, outages.RAN, now)
        if ran is None:
            return
        _postpone(connection, context.config, ran, now)
        if now - ran <= LONGEST_PAUSE:
            return
        outages.save(connection, outages.BEGAN, ran)
        outages.save(connection, outages.ENDED, now)
        count = sum(_prolong(connection, context.config, each, ran, now) for each in outbox.all_open(connection))
    context.log.info("outage.ended", since=f"{ran:%Y-%m-%dT%H:%M:%SZ}", deliveries=count or None)


def longest(config: Config, channel: str | None) -> timedelta:
    """Return how long a delivery through `channel`, or any, is tried."""
    if channel is not None and channel in config.channels:
        return config.channels[channel].retry.lasting
    return max(each.retry.lasting for each in (ChannelConfig(name=""), *config.channels.values()))


def certain(connection: Connection, now: datetime) -> datetime:
    """Return `now`, or for a day after an outage its beginning: what made it may be a clock that is ahead."""
    began, ended = outages.moment(connection, outages.BEGAN), outages.moment(connection, outages.ENDED)
    if began is None or ended is None or now - ended >= _DOUBT:
        return now
    return min(began, now)


def _postpone(connection: Connection, config: Config, ran: datetime, now: datetime) -> None:
    """Let what is held wait for as much longer; a gap counts for half of the time that it waits at most."""
    for subscription, stream, hold in held.all_holds(connection):
        lasting = held_for(config, subscription, stream)
        counted = LONGEST_PAUSE if lasting is None else min(LONGEST_PAUSE, max(lasting / 2, 2 * _PRECISION))
        if hold.counted_from is not None and (lost := now - max(ran, hold.counted_from) - counted) > timedelta(0):
            held.count_from(connection, subscription, stream, hold.event, hold.counted_from + lost)


def _prolong(connection: Connection, config: Config, each: outbox.Delivery, ran: datetime, now: datetime) -> bool:
    lost = now - max(ran, each.created) - LONGEST_PAUSE
    if lost <= timedelta(0):
        return False
    outbox.prolong(connection, each.id, min(each.give_up + lost, now + longest(config, each.channel)))
    return True
