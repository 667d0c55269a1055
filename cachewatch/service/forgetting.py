"""Forget alerts of what the configuration names no more: nothing else would ever resolve them."""

from cachewatch.config.model import Config
from cachewatch.service.alerts import AlertKey, AlertKind
from cachewatch.service.context import Context
from cachewatch.service.readers import is_reader
from cachewatch.service.tracks import tracks_of
from cachewatch.store import alerts, digests, outbox
from cachewatch.store.database import Connection


def forget_gone(context: Context) -> None:
    """Forget every alert of a source, channel, recipient or subscription that is gone, and of which nothing waits."""
    with context.database.write() as connection:
        for alert in alerts.all_open(connection):
            if not _is_live(connection, context.config, alert.key):
                alerts.remove(connection, alert.key)


def _is_live(connection: Connection, config: Config, key: AlertKey) -> bool:
    """Tell whether an alert can still come to an end by itself, or has to be decided."""
    match key.kind:
        case (
            AlertKind.SOURCE_FAILED
            | AlertKind.SOURCE_INCOMPLETE
            | AlertKind.SOURCE_STALE
            | AlertKind.DOCUMENTS_UNREADABLE
            | AlertKind.SUSPICIOUS_LOSS
        ):
            return key.name in config.sources
        case AlertKind.DIGEST_FAILED:
            return any((track.subscription.name, track.name) == (key.name, key.part) for track in tracks_of(config))
        case AlertKind.DIGEST_HELD:
            return bool(digests.held(connection, key.name, key.part))
        case AlertKind.TEMPLATE_FAILED:
            return key.name in config.subscriptions
        case AlertKind.CHANNEL_DOWN:
            return key.name in config.channels or key.name in outbox.oldest_open(connection)
        case AlertKind.DELIVERY_FAILED | AlertKind.ADDRESS_SUPPRESSED:
            return key.name in config.channels and is_reader(config, key.name, key.part)
