"""A digest -> the final bytes for every channel and target."""

import logging
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.channels import open_channel
from cachewatch.config.model import ChannelConfig, Config, MailConfig
from cachewatch.core.delivery import Letter, Parcel
from cachewatch.errors import TemplateError
from cachewatch.notify.streams import Track
from cachewatch.render.mail import MAX_HTML, render_letter
from cachewatch.report.digest import Digest
from cachewatch.runtime.log import Log

_LOG = Log(logging.getLogger("cachewatch"))


class Packed(Struct, frozen=True, kw_only=True):
    """What one channel is to deliver."""

    channel: str
    letter: Letter
    short: Letter  # for whom that is too large
    parcels: tuple[Parcel, ...]
    lasting: timedelta
    problem: str = ""  # why the site's own templates could not be used


class _Look(Struct, frozen=True):
    """What letters of one digest differ in from channel to channel."""

    max_html: int = MAX_HTML
    unsubscribe: str | None = None
    archive_url: str | None = None


class _Letters(Struct, frozen=True):
    letter: Letter
    short: Letter
    problem: str


def pack(config: Config, track: Track, digest: Digest) -> tuple[Packed, ...]:
    """Return what every channel of `track` is to deliver; channels whose letters look alike share one."""
    channels = [config.channels[name] for name in track.channels]
    looks = [_look(channel, digest) for channel in channels]
    letters = {look: _letters(config, track, digest, look) for look in dict.fromkeys(looks)}
    return tuple(_packed(channel, letters[look]) for channel, look in zip(channels, looks, strict=True))


def _look(config: ChannelConfig, digest: Digest) -> _Look:
    if isinstance(config, MailConfig):
        return _Look(config.max_html, config.unsubscribe, _archive(config, digest))
    return _Look()


def _letters(config: Config, track: Track, digest: Digest, look: _Look) -> _Letters:
    digest = replace(digest, unsubscribe=look.unsubscribe, archive_url=look.archive_url)
    (letter, problem), (short, _) = (_render(config, track, digest, look.max_html, shortness) for shortness in (0, 2))
    return _Letters(letter, short, problem)


def _packed(config: ChannelConfig, letters: _Letters) -> Packed:
    return Packed(
        channel=config.name,
        letter=letters.letter,
        short=letters.short,
        parcels=tuple(open_channel(config).pack(letters.letter)),
        lasting=config.retry.lasting,
        problem=letters.problem,
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
