"""Forget troubles of what the configuration names no more: nothing else would ever end them."""

from cachewatch.config.model import Config
from cachewatch.service.context import Context
from cachewatch.service.readers import is_reader
from cachewatch.service.tracks import tracks_of
from cachewatch.store import digests, health, outbox
from cachewatch.store.database import Connection


def forget_gone(context: Context) -> None:
    """Forget every trouble of a source, channel, reader or subscription that is gone, and of which nothing waits."""
    with context.database.write() as connection:
        live = _topics(connection, context.config)
        for topic, *_ in health.all_troubles(connection):
            if topic not in live and not _is_of_a_reader(context.config, topic):
                health.end_trouble(connection, topic)


def _topics(connection: Connection, config: Config) -> set[str]:
    """Return every topic that can still come to an end by itself, or has to be decided."""
    channels = {*config.channels, *outbox.oldest_open(connection)}
    held = {f"{stored.subscription}/{stored.track}" for stored in digests.all_held(connection)}
    tracks = {f"{track.subscription.name}/{track.name}" for track in tracks_of(config)}
    return {
        *(f"{kind} {name}" for kind in ("source", "part of", "stale") for name in config.sources),
        *(f"channel {name}" for name in channels),
        *(f"template {name}" for name in config.subscriptions),
        *(f"digest {name}" for name in tracks),
        *(f"held {name}" for name in held),
    }


def _is_of_a_reader(config: Config, topic: str) -> bool:
    kind, _, rest = topic.partition(" ")
    channel, _, target = rest.partition(" ")
    return kind == "dead" and channel in config.channels and is_reader(config, channel, target)
