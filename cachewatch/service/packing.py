"""A digest -> the final bytes for every channel and target."""

from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.channels import open_channel
from cachewatch.config.model import ChannelConfig, Config, MailConfig
from cachewatch.deliveries import Letter, Parcel
from cachewatch.digests import Digest
from cachewatch.render.letters import MAX_HTML, render_letter
from cachewatch.service.tracks import Track


class Packed(Struct, frozen=True, kw_only=True):
    """What one channel is to deliver."""

    channel: str
    letter: Letter
    short: Letter  # for whom that is too large
    parcels: tuple[Parcel, ...]
    lasting: timedelta


def pack(config: Config, track: Track, digest: Digest) -> tuple[Packed, ...]:
    """Return what every channel of `track` is to deliver."""
    return tuple(_pack(track, config.channels[name], digest) for name in track.channels)


def _pack(track: Track, config: ChannelConfig, digest: Digest) -> Packed:
    max_html = MAX_HTML
    if isinstance(config, MailConfig):
        digest = replace(digest, unsubscribe=config.unsubscribe, archive_url=_archive(config, digest))
        max_html = config.max_html
    letter = render_letter(digest, to=track.to, max_html=max_html)
    return Packed(
        channel=config.name,
        letter=letter,
        short=render_letter(digest, to=track.to, max_html=max_html, shortness=2),
        parcels=tuple(open_channel(config).pack(letter)),
        lasting=config.retry.lasting,
    )


def _archive(config: MailConfig, digest: Digest) -> str | None:
    if config.archive is None:
        return None
    return config.archive.format(subscription=digest.subscription, period=digest.period, key=digest.key)
