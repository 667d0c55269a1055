"""`cachewatch preview` and `cachewatch explain`: who would be sent what, and why. Nothing is changed."""

import sys
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default

import click

from cachewatch.channels.escaping import markup, plain_lines
from cachewatch.cli.completing import completing
from cachewatch.cli.help_examples import examples
from cachewatch.cli.load_configuration import configured
from cachewatch.cli.open_state import reading
from cachewatch.config.model import Config, FileConfig, MailConfig, WebhookConfig
from cachewatch.core.delivery import Form
from cachewatch.errors import UsageError
from cachewatch.notify.assembling_digests import PendingDigest, compose
from cachewatch.notify.building_messages import ChannelMessages, build_messages
from cachewatch.notify.digest_streams import REGULAR, URGENT, Stream, streams_of
from cachewatch.notify.pass_context import Context
from cachewatch.store import health

_FORMS = ("text", "html", "markdown", "json", "eml")


@click.command(
    epilog=examples(
        "cachewatch preview my-packages",
        "cachewatch preview my-packages --since 2025-06-01 --format html > preview.html",
    )
)
@configured
@click.argument("subscription", required=False, shell_complete=completing("subscriptions"))
@click.option("--since", metavar="REVISION", help="Start at this revision or date, not at the last reported one.")
@click.option("--urgent", is_flag=True, help="Preview the urgent digest, not the regular one.")
@click.option("--format", "form", type=click.Choice(_FORMS), default="text", help="Output format.")
@click.option(
    "--channel",
    metavar="NAME",
    shell_complete=completing("channels"),
    help="Preview the message for this channel, not for the first one that supports the format.",
)
@click.option("--lint", is_flag=True, help="Check the mail for problems in common e-mail clients, and print them.")
@click.pass_context
def preview(
    context: click.Context,
    /,
    *,
    config: Config,
    subscription: str | None,
    since: str | None,
    urgent: bool,
    form: str,
    channel: str | None,
    lint: bool,
) -> None:
    """Print the digest that SUBSCRIPTION would receive now.

    It may be left out if there is only one. The output is byte for byte what would be sent. Nothing is sent or stored.
    """
    stream = _stream(config, subscription or _only_subscription(config), URGENT if urgent else REGULAR)
    with reading(config) as service:
        draft = compose(service, stream, since=since)
        packed = _through(channel, build_messages(config, stream, draft.digest, forms=frozenset(Form)))
        _warn_of_unfetched(service, stream)
    _say(draft, stream, since)
    if lint:
        context.exit(_lint(config, packed))
    sys.stdout.buffer.write(_sent(config, packed, form))


def _only_subscription(config: Config) -> str:
    """Return the name of the only subscription, or raise UsageError with the names of all."""
    if len(config.subscriptions) != 1:
        raise UsageError(f"preview needs a subscription; configured: {', '.join(config.subscriptions) or 'none'}")
    return next(iter(config.subscriptions))


def _stream(config: Config, subscription: str, name: str) -> Stream:
    for stream in streams_of(config):
        if stream.subscription.name == subscription and stream.name == name:
            return stream
    if subscription in config.subscriptions:
        raise UsageError(f"{subscription} has no urgent digests; see `urgent:` in {config.path}")
    raise UsageError(f"no subscription {subscription!r}; configured: {', '.join(config.subscriptions) or 'none'}")


def _warn_of_unfetched(service: Context, stream: Stream) -> None:
    """Say of which sources there is nothing yet: that nothing changed there is not known."""
    with service.database.read() as connection:
        names = [source.name for source in stream.sources if health.source(connection, source.name).revision is None]
    if names:
        click.echo(
            f"cachewatch: warning: nothing has been fetched yet of {', '.join(names)}; run `cachewatch once` first",
            err=True,
        )


def _say(draft: PendingDigest, stream: Stream, since: str | None) -> None:
    if draft.is_empty:
        name = stream.subscription.name
        what = "nothing would be sent" if stream.subscription.if_empty == "skip" else "the digest says so"
        earlier = "an earlier --since" if since else f"`cachewatch preview {name} --since HEAD~1`"
        click.echo(
            f"cachewatch: no changes since {since or 'the last report'} match {name}: {what}; "
            f"{earlier} shows older changes",
            err=True,
        )
    if draft.hold:
        click.echo(f"cachewatch: this digest would be held for the operators: {draft.hold}", err=True)


def _through(channel: str | None, packed: tuple[ChannelMessages, ...]) -> tuple[ChannelMessages, ...]:
    found = tuple(each for each in packed if channel in (None, each.channel))
    if not found:
        raise UsageError(
            f"{channel} is not a channel of this subscription; its channels: {', '.join(each.channel for each in packed)}"
        )
    return found


def _sent(config: Config, packed: tuple[ChannelMessages, ...], form: str) -> bytes:
    """Return the bytes that the first of these channels sends in this form."""
    first = packed[0]
    if form == "eml":
        mails = [each for each in packed if isinstance(config.channels[each.channel], MailConfig)]
        if not mails:
            raise UsageError(
                f"{', '.join(each.channel for each in packed)}: no mail channel; choose another form with --format"
            )
        for each in mails:
            if each.messages:
                return each.messages[0].payload
        raise UsageError("the subscription has no recipients of mail; choose another form with --format")
    if form == "json":
        is_webhook = isinstance(config.channels[first.channel], WebhookConfig)
        return first.messages[0].payload if is_webhook else first.rendered.json
    from cachewatch.render.mail_lint import body_of  # noqa: PLC0415

    mail = _mail(config, first) if form != "markdown" else None
    if mail is not None:
        return body_of(mail, "plain" if form == "text" else "html").encode()
    return _text(config, first, form).encode()


def _text(config: Config, packed: ChannelMessages, form: str) -> str:
    rendered = packed.rendered
    if form == "text":
        return plain_lines(rendered.text)
    is_page = form == "html" and isinstance(config.channels[packed.channel], FileConfig)
    return markup(rendered.page if is_page else getattr(rendered, form))


def _mail(config: Config, packed: ChannelMessages) -> EmailMessage | None:
    """Return the finished mail for the first recipient of a mail channel: with links of their own."""
    if not isinstance(config.channels[packed.channel], MailConfig) or not packed.messages:
        return None
    return BytesParser(EmailMessage, policy=default).parsebytes(packed.messages[0].payload)


def _lint(config: Config, packed: tuple[ChannelMessages, ...]) -> int:
    from cachewatch.render.mail_lint import Grade, lint_digest  # noqa: PLC0415  few ask for it

    first = packed[0]
    findings = lint_digest(_mail(config, first) or first.rendered, bases=_bases(config))
    for finding in findings:
        click.echo(f"{finding.grade}: {finding.where}: {finding.message}")
    if not findings:
        click.echo("no problems found")
    return int(any(finding.grade is Grade.ERROR for finding in findings))


def _bases(config: Config) -> list[str]:
    """Return what links may begin with."""
    channels = config.channels.values()
    unsubscribe = [channel.unsubscribe for channel in channels if isinstance(channel, MailConfig)]
    named = [config.links, *(channel.archive for channel in channels), *unsubscribe]
    return [base.partition("{")[0] for base in named if base]
