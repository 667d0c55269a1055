"""`cachewatch preview`: what `cachewatch once` would send now. Nothing is changed."""

import logging
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

import click

from cachewatch.channels.escaping import markup, plain_lines
from cachewatch.cli.completing import completing
from cachewatch.cli.help_examples import examples
from cachewatch.cli.load_configuration import configured
from cachewatch.cli.open_state import reading
from cachewatch.config.model import Config, FileConfig, MailConfig, Source, WebhookConfig
from cachewatch.core.delivery import Form
from cachewatch.core.schedule import quiet_until
from cachewatch.errors import SourceError, UsageError
from cachewatch.notify.assembling_digests import PendingDigest, compose
from cachewatch.notify.building_messages import ChannelMessages, build_messages
from cachewatch.notify.creating_digests import is_left_out
from cachewatch.notify.digest_streams import REGULAR, URGENT, Stream, streams_of
from cachewatch.notify.pass_context import Context
from cachewatch.notify.poll_source import poll
from cachewatch.notify.status import read_status
from cachewatch.render.mail_lint import Grade, body_of, lint_digest
from cachewatch.runtime.log import open_log
from cachewatch.store import cursors, health
from cachewatch.store.opening import has_state, open_database

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
    """Print the digest that SUBSCRIPTION would receive from `cachewatch once` now.

    SUBSCRIPTION may be left out if there is only one. The output is byte for byte what would be sent, and nothing if
    nothing would be sent. Nothing is sent or stored. Before the first `once`, sources that do not begin at their newest
    revision are fetched, and forgotten again.
    """
    stream = _stream(config, subscription or _only_subscription(config), URGENT if urgent else REGULAR)
    with _state(config, stream, since) as service:
        draft = compose(service, stream, since=since)
        packed = _through(channel, build_messages(config, stream, draft.digest, forms=frozenset(Form)))
        is_sent = _would_be_sent(service, stream, draft, is_asked=since is not None)
        _say(service, stream, draft, since, is_sent=is_sent)
    if lint:
        context.exit(_lint(config, packed))
    if is_sent:
        sys.stdout.buffer.write(_sent(config, packed, form))


def _state(config: Config, stream: Stream, since: str | None) -> AbstractContextManager[Context]:
    """Open the state, or before the first pass one that is empty but for what that pass would look at."""
    if has_state(config.database):
        return reading(config)
    return _first_state(config, [source for source in stream.sources if since or _begins_earlier(source)])


def _begins_earlier(source: Source) -> bool:
    return source.since is not None or source.first_run == "report"


@contextmanager
def _first_state(config: Config, sources: list[Source]) -> Iterator[Context]:
    """Fetch `sources` into a state elsewhere; nothing is recorded of build caches, which have no earlier revisions."""
    sources = [source for source in sources if source.type == "git"]
    if sources:
        names = ", ".join(source.name for source in sources)
        click.echo(f"cachewatch: nothing was fetched yet; fetching {names} for this preview alone ...", err=True)
    with TemporaryDirectory(prefix="cachewatch-") as folder:
        own = config.model_copy(update={"state": Path(folder)})
        # What the service would log is not what was asked for.
        context = Context(config=own, database=open_database(own.state), log=open_log(level=logging.CRITICAL))
        with closing(context.database):
            for source in sources:
                if not poll(context, source):
                    with context.database.read() as connection:
                        raise SourceError(f"the source {source.name}: {health.source(connection, source.name).error}")
            yield context


def _would_be_sent(service: Context, stream: Stream, draft: PendingDigest, *, is_asked: bool) -> bool:
    """Tell whether a pass would make this digest; one that was asked for by --since, if it were due."""
    is_new = any(span.before.revision != span.after.revision for span in draft.digest.spans)
    is_due = is_asked or is_new or not stream.is_each_revision
    return is_due and not is_left_out(service, stream, draft, service.clock())


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


def _say(service: Context, stream: Stream, draft: PendingDigest, since: str | None, *, is_sent: bool) -> None:
    """Say on standard error what the digest does not: why there is none, or when it goes out."""
    name = stream.subscription.name
    with service.database.read() as connection:
        unfetched = [each.name for each in stream.sources if health.source(connection, each.name).revision is None]
        begun = [cursors.revision_of(connection, name, stream.name, each.name) for each in stream.sources]
    is_silent = not since and not any(begun) and not any(map(_begins_earlier, stream.sources))
    notes = []
    if unfetched and not is_silent:
        notes.append(f"warning: nothing has been fetched yet of {', '.join(unfetched)}; run `cachewatch once` first")
    if draft.is_empty:
        why = f"no changes since {since or 'the last report'} match {name}"
        why = f"{name} begins at the newest revision" if is_silent else why
        what = "the digest says so" if is_sent else "nothing would be sent"
        earlier = "an earlier --since" if since else f"`cachewatch preview {name} --since HEAD~1`"
        notes.append(f"{why}: {what}; {earlier} shows older changes")
    if draft.hold:
        notes.append(f"this digest would be held for the operators: {draft.hold}")
    elif is_sent and not since and (later := _later(service, stream)):
        notes.append(f"this digest is sent {later}, with what is new until then")
    for note in notes:
        click.echo(f"cachewatch: {note}", err=True)


def _later(service: Context, stream: Stream) -> str:
    """Say when the digest is due; nothing if it is now."""
    now, config = service.clock(), service.config
    streams = read_status(service).streams
    planned = next(
        each.due for each in streams if (each.subscription, each.stream) == (stream.subscription.name, stream.name)
    )
    due = quiet_until(config.quiet, max(planned or stream.schedule.next_after(now) or now, now))
    return f"on {due.astimezone(ZoneInfo(config.timezone)):%A %Y-%m-%d at %H:%M %Z}" if due > now else ""


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
