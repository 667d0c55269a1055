"""Warn of what is valid in a configuration but probably not meant.

Among it: paths that each host has for itself although several hosts share the state.
"""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from shutil import which

from cachewatch.config.channels import (
    ChannelConfig,
    EmailConfig,
    FeedConfig,
    FileConfig,
    MailConfig,
    MaildirConfig,
    SendmailConfig,
)
from cachewatch.config.model import Config
from cachewatch.config.secrets import PostgresAddress
from cachewatch.config.sources import Source
from cachewatch.config.subscriptions import Subscription
from cachewatch.core.selection import Globs
from cachewatch.runtime.files import shared_kind


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
    yield from _links_for_others(config)
    yield from obsolete_keys(config)
    yield from _missing(config)


def _links_for_others(config: Config) -> Iterator[str]:
    """Yield a sentence for each link that unsubscribes at a click, and that anybody can make for anybody."""
    for name, channel in config.channels.items():
        if not isinstance(channel, MailConfig) or channel.unsubscribe_key is not None:
            continue
        if (channel.unsubscribe or "").startswith("https:"):
            yield (
                f"channels.{name}.unsubscribe: a click unsubscribes whoever the link names, and anybody can make one for"
                " others; add {token}, and `unsubscribe_key_file:` with its key"
            )


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


def of_channel(config: Config, channel: ChannelConfig) -> Iterator[str]:
    """Yield a sentence about a channel that writes files, if hosts may share the state."""
    folder = _target(channel)
    if folder is not None and isinstance(config.state, PostgresAddress):
        kind = shared_kind(folder)
        yield f"on shared storage: {folder} ({kind})" if kind else f"host-local: other hosts do not see {folder}"


def of_source(config: Config, source: Source) -> Iterator[str]:
    """Yield a sentence about a source whose history is recorded, if hosts may share the state."""
    if source.type != "git" and isinstance(config.state, PostgresAddress) and not shared_kind(config.folder):
        yield "host-local: each host records its own history; the first digest after a takeover cannot tell what changed"


def _target(channel: ChannelConfig) -> Path | None:
    """Return the folder in which everything is that a channel writes on this host."""
    match channel:
        case MaildirConfig():
            return channel.path
        case FileConfig() | FeedConfig():
            return Path(f"{channel.path.partition('{')[0]}x").absolute().parent
        case _:
            return None
