"""A digest -> the final bytes for every channel and target."""

import logging
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.channels import open_channel
from cachewatch.config.model import ChannelConfig, Config, MailConfig
from cachewatch.deliveries import Letter, Parcel
from cachewatch.digests import Digest
from cachewatch.errors import TemplateError
from cachewatch.render.letters import MAX_HTML, render_letter
from cachewatch.service.log import Log
from cachewatch.service.tracks import Track

_LOG = Log(logging.getLogger("cachewatch"))


class Packed(Struct, frozen=True, kw_only=True):
    """What one channel is to deliver."""

    channel: str
    letter: Letter
    short: Letter  # for whom that is too large
    parcels: tuple[Parcel, ...]
    lasting: timedelta
    problem: str = ""  # why the site's own templates could not be used


def pack(config: Config, track: Track, digest: Digest) -> tuple[Packed, ...]:
    """Return what every channel of `track` is to deliver."""
    return tuple(_pack(config, track, config.channels[name], digest) for name in track.channels)


def _pack(whole: Config, track: Track, config: ChannelConfig, digest: Digest) -> Packed:
    max_html = MAX_HTML
    if isinstance(config, MailConfig):
        digest = replace(digest, unsubscribe=config.unsubscribe, archive_url=_archive(config, digest))
        max_html = config.max_html
    (letter, problem), (short, _) = (_render(whole, track, digest, max_html, shortness) for shortness in (0, 2))
    return Packed(
        channel=config.name,
        letter=letter,
        short=short,
        parcels=tuple(open_channel(config).pack(letter)),
        lasting=config.retry.lasting,
        problem=problem,
    )


def _render(config: Config, track: Track, digest: Digest, max_html: int, shortness: int) -> tuple[Letter, str]:
    """Render with the site's own templates; what these cannot render is not lost but made with ours, and why is said."""
    try:
        letter = render_letter(
            digest,
            to=track.to,
            max_html=max_html,
            shortness=shortness,
            templates_dir=config.templates_dir,
            template=track.subscription.template,
        )
        return letter, ""
    except TemplateError as error:
        _LOG.error("template.failed", subscription=track.subscription.name, error=str(error))
        return render_letter(digest, to=track.to, max_html=max_html, shortness=shortness), str(error)


def _archive(config: MailConfig, digest: Digest) -> str | None:
    if config.archive is None:
        return None
    return config.archive.format(subscription=digest.subscription, period=digest.period, key=digest.key)
