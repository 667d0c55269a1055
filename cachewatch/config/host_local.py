"""Where hosts that share a state write beside it, and whether the others see that."""

from collections.abc import Iterator
from pathlib import Path

from cachewatch.config.model import ChannelConfig, Config, FeedConfig, FileConfig, MaildirConfig
from cachewatch.config.sources import Source
from cachewatch.config.state_address import PostgresAddress
from cachewatch.runtime.filesystems import shared_kind


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
