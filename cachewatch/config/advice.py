"""What is no mistake in a configuration, but probably not what was meant."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from shutil import which

from cachewatch.config.model import Config, EmailConfig, SendmailConfig, Subscription
from cachewatch.core.filter_patterns import Globs
from cachewatch.runtime.filesystems import shared_kind


def advise(config: Config, day: date) -> Iterator[str]:
    """Yield sentences about what a reader of the file should look at."""
    used = {channel for subscription in config.subscriptions.values() for channel in channels_of(subscription)}
    used |= set(config.operators.channels)
    for name in config.channels:
        if name not in used:
            yield f"channels.{name} is not used"
    for name in config.sources:
        if not any(Globs(s.match.sources)(name) for s in config.subscriptions.values()):
            yield f"sources.{name} is polled, but no subscription uses it"
    for silence in config.silences:
        if not silence.is_active(day):
            yield f"silences.{silence.name} ended on {silence.until}; remove it"
    if not config.subscriptions:
        yield "there are no subscriptions, so no digests are sent"
    if not config.operators.channels:
        yield "there are no operators, so nobody is notified of alerts"
    yield from obsolete_keys(config)
    yield from _missing(config)


def obsolete_keys(config: Config) -> Iterator[str]:
    """Yield a sentence for every key that is read and has no effect any more."""
    for subscription in config.subscriptions.values():
        if subscription.group_by is not None:
            yield f"subscriptions.{subscription.name}.group_by no longer has any effect: lists are grouped by package; remove it"


def channels_of(subscription: Subscription) -> tuple[str, ...]:
    """Return all channels that a subscription uses."""
    urgent = subscription.urgent.channels if subscription.urgent else ()
    return (*subscription.channels, *urgent)


def _missing(config: Config) -> Iterator[str]:
    """Say what is named and not there, or not as it should be, on this machine and now."""
    if kind := shared_kind(config.folder):
        yield f"state: {config.folder} is on {kind}: work on it from one machine only, and choose a local disk if you can"
    for channel in config.channels.values():
        if isinstance(channel, SendmailConfig) and which(channel.command[0]) is None:
            yield f"channels.{channel.name}.command: there is no program {channel.command[0]} here"
        if isinstance(channel, EmailConfig) and channel.smtp.ca_file and not channel.smtp.ca_file.is_file():
            yield f"channels.{channel.name}.smtp.ca_file: there is no file {channel.smtp.ca_file} here"
    for source in config.sources.values():
        if source.address.startswith("/") and not Path(source.address).exists():
            yield f"sources.{source.name}: there is nothing at {source.address} yet"
