"""Build the final bytes of a digest for every channel and target."""

from collections.abc import Callable, Mapping, Set
from datetime import timedelta
from functools import cache, partial

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.channels import open_channel
from cachewatch.config.model import ChannelConfig, Config, FeedConfig, FileConfig, MailConfig
from cachewatch.core.delivery import Form, Message, RenderedDigest
from cachewatch.errors import TemplateError
from cachewatch.notify.digest_streams import Stream
from cachewatch.render.digest_mail import MAX_HTML, DigestRenderer
from cachewatch.report.digest import Digest
from cachewatch.runtime.log import Log

_LOG = Log()
# Beside what is made of each digest.
_FORMS: Mapping[type[ChannelConfig], Set[Form]] = {
    FeedConfig: {Form.FEED},
    FileConfig: {Form.MARKDOWN, Form.PAGE},
}


class ChannelMessages(Struct, frozen=True, kw_only=True):
    """What one channel is to deliver."""

    channel: str
    rendered: RenderedDigest
    short: RenderedDigest  # for whom that is too large
    messages: tuple[Message, ...]
    lasting: timedelta
    problem: str = ""  # why the site's own templates could not be used


class _Look(Struct, frozen=True):
    """What digests of one digest differ in from channel to channel."""

    max_html: int = MAX_HTML
    unsubscribe: str | None = None
    archive_url: str | None = None
    attach: bool = False
    is_archived: bool = False
    forms: frozenset[Form] = frozenset(Form)


class _Rendered(Struct, frozen=True):
    rendered: RenderedDigest
    short: RenderedDigest
    problem: str = ""


def build_messages(
    config: Config,
    stream: Stream,
    digest: Digest,
    *,
    forms: frozenset[Form] | None = None,
) -> tuple[ChannelMessages, ...]:
    """Return what every channel of `stream` is to deliver; channels whose digests look alike share one.

    Only what the channels want is rendered, or `forms`.
    """
    forms = _wanted(config, stream) if forms is None else forms
    channels = [config.channels[name] for name in stream.channels]
    archive = next((channel.archive for channel in channels if channel.archive), None)
    looks = [replace(_look(channel, digest, channel.archive or archive), forms=forms) for channel in channels]
    rendered_digests = {look: _render_both(config, stream, digest, look) for look in dict.fromkeys(looks)}
    return tuple(_packed(channel, rendered_digests[look]) for channel, look in zip(channels, looks, strict=True))


def _look(config: ChannelConfig, digest: Digest, archive: str | None) -> _Look:
    url = archive and archive.format(subscription=digest.subscription, period=digest.period, key=digest.key)
    if isinstance(config, MailConfig):
        return _Look(config.max_html, config.unsubscribe, url, config.attach is not None)
    return _Look(archive_url=url, is_archived=isinstance(config, FileConfig))


def _wanted(config: Config, stream: Stream) -> frozenset[Form]:
    """Return the forms that a channel or the site shows."""
    channels = [config.channels[name] for name in stream.channels]
    wanted = {form for kind, forms in _FORMS.items() if any(isinstance(c, kind) for c in channels) for form in forms}
    return frozenset(wanted | {Form.PAGE} if stream.subscription.publish else wanted)


def _render_both(config: Config, stream: Stream, digest: Digest, look: _Look) -> _Rendered:
    """Render with the site's own templates; what these cannot render is not lost but made with ours, and why is said."""
    digest = replace(digest, unsubscribe=look.unsubscribe, archive_url=look.archive_url)
    make = partial(
        DigestRenderer,
        digest,
        to=stream.to,
        max_html=look.max_html,
        attach=look.attach,
        is_archived=look.is_archived,
        forms=look.forms,
    )
    ours = cache(make)
    theirs = cache(partial(make, templates_dir=config.templates_dir, template=stream.subscription.template))
    (rendered, problem), (short, _) = (_render(theirs, ours, stream, shortness) for shortness in (0, 2))
    return _Rendered(rendered, short, problem)


def _render(
    theirs: Callable[[], DigestRenderer], ours: Callable[[], DigestRenderer], stream: Stream, shortness: int
) -> tuple[RenderedDigest, str]:
    try:
        return theirs().render(shortness), ""
    except TemplateError as error:
        _LOG.error("template.failed", subscription=stream.subscription.name, error=str(error))
        return ours().render(shortness), str(error)


def _packed(config: ChannelConfig, rendered_digests: _Rendered) -> ChannelMessages:
    return ChannelMessages(
        channel=config.name,
        rendered=rendered_digests.rendered,
        short=rendered_digests.short,
        messages=tuple(open_channel(config).build_messages(rendered_digests.rendered)),
        lasting=config.retry.lasting,
        problem=rendered_digests.problem,
    )
