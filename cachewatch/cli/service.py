"""The commands that run or explain the service: `once`, `daemon`, `preview`, `test` and `explain`.

`preview` prints what `once` would send now, and changes nothing; `test` sends a real message through one channel.
"""

import logging
import os
import sys
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from datetime import datetime
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from zoneinfo import ZoneInfo

import click
from msgspec import Struct

from cachewatch.channels import open_channel
from cachewatch.channels.chats import markup, plain_lines
from cachewatch.cli.config import configured, configured_without_secrets, elsewhere, log_format, reading
from cachewatch.cli.mistakes import completing, examples
from cachewatch.cli.operate import when
from cachewatch.cli.template import TEMPLATES_OPTION
from cachewatch.cli.terminal import FORMAT_OPTION, is_on_terminal, log_stream, steps, write_json, write_lines
from cachewatch.config.channels import FileConfig, MailConfig, WebhookConfig
from cachewatch.config.model import Config
from cachewatch.config.reading import read_config
from cachewatch.config.schedule import minute, quiet_until
from cachewatch.config.sources import Source
from cachewatch.config.types import parse_mail
from cachewatch.core.names import did_you_mean, safe
from cachewatch.errors import AnotherInstance, DeliveryError, SourceError, TemplateError, UnknownRevision, UsageError
from cachewatch.git.remote import is_url
from cachewatch.operators.explaining import SubscriptionAnswer, explain_package, packages_now
from cachewatch.operators.status import ProblemList, ServiceStatus, StreamStatus, find_problems, read_status
from cachewatch.report.digest_mail import render_notice
from cachewatch.report.samples import Grade, body_of, lint_digest
from cachewatch.report.values import DeliveryOutcome, Form, Notice
from cachewatch.report.words import number
from cachewatch.runtime.log import Log, open_log
from cachewatch.service.compose import ChannelMessages, PendingDigest, build_messages, compose
from cachewatch.service.context import Context, copy_for_now
from cachewatch.service.create import is_left_out
from cachewatch.service.passes import Result, leading, ping, put_in_force, run_pass
from cachewatch.service.poll import poll
from cachewatch.service.recipients import resume
from cachewatch.service.stream_state import StreamState, read_stream
from cachewatch.service.streams import REGULAR, URGENT, Stream, streams_of
from cachewatch.store import digests, health, outbox
from cachewatch.store.database import copy_rows
from cachewatch.store.digests import DigestSummary
from cachewatch.store.health import SourceHealth
from cachewatch.store.outbox import OPEN, Delivery
from cachewatch.store.schema import utc_now
from cachewatch.store.sqlite import has_state, only_one, open_database

_MOST_DELIVERIES = 500


class PassSummary(Struct, frozen=True):
    """The state before and after a pass, and the digests that it created or tried to deliver."""

    begun: datetime  # in the configured time zone
    before: ServiceStatus
    after: ServiceStatus
    problems: ProblemList
    delivered: tuple[tuple[DigestSummary | None, tuple[Delivery, ...]], ...]  # by digest; None for notices to operators


def summarize(context: Context, before: ServiceStatus, begun: datetime) -> PassSummary:
    """Return a summary of the pass that began at `begun`; `before` is the status at that time."""
    after = read_status(context)
    with context.database.read() as connection:
        touched = [
            each
            for each in reversed(outbox.find(connection, limit=_MOST_DELIVERIES))
            if each.created >= begun or (each.settled_at is not None and each.settled_at >= begun)
        ]
        keys = dict.fromkeys(each.digest for each in touched)
        delivered = tuple(
            (digests.find(connection, key), tuple(each for each in touched if each.digest == key)) for key in keys
        )
    problems = find_problems(after, context.config, context.clock())
    begun = begun.astimezone(ZoneInfo(context.config.timezone))
    return PassSummary(begun, before, after, problems, delivered)


def lines(summary: PassSummary) -> Iterator[str]:
    """Yield the summary for a terminal."""
    then = {source.name: source for source in summary.before.sources}
    yield "SOURCES"
    for source in summary.after.sources:
        yield f"  {source.name}  {_source(source, then.get(source.name), summary.begun)}"
    yield "DIGESTS"
    yield from _digests(summary)
    yield from _waiting(summary)
    if summary.problems.all:
        yield "PROBLEMS  (`cachewatch status` says more)"
        yield from (f"  {problem.what}" for problem in summary.problems.all)


def _waiting(summary: PassSummary) -> Iterator[str]:
    """Yield how many deliveries wait for each channel, and when they are retried."""
    for channel in summary.after.channels:
        count = sum(channel.queue.get(state, 0) for state in OPEN)
        if count:
            blocked = channel.health.blocked_until
            again = f"; next attempt {when(blocked, summary.begun)}" if blocked else ""
            yield f"  {channel.health.name}: {number(count, 'delivery', 'deliveries')} waiting{again}"


def _source(source: SourceHealth, then: SourceHealth | None, now: datetime) -> str:
    if source.failures:
        return f"cannot be read: {source.error}"
    if source.revision is None:
        return "nothing fetched yet"
    is_same = then is not None and then.revision == source.revision
    is_first = then is None or then.revision is None
    what = "unchanged" if is_same else "fetched for the first time" if is_first else "new"
    return f"{source.revision[:10]} of {when(source.revision_time, now)}, {what}"


def _digests(summary: PassSummary) -> Iterator[str]:
    told = set()
    for digest, deliveries in summary.delivered:
        told.add(digest.subscription if digest else "")
        yield f"  {digest.subscription}: {digest.title}" if digest else "  an alert to the operators"
        yield from (f"    {_delivery(each)}" for each in deliveries)
    failed = {alert.name: alert.detail for alert in summary.after.alerts if alert.kind == "digest-failed"}
    yield from (f"  {name}: could not be created: {detail}" for name, detail in failed.items())
    held = [each for each in summary.after.held if each.since >= summary.begun]
    yield from (f"  {each.subscription}: held for the operators: {each.reason}" for each in held)
    quiet = told | failed.keys() | {each.subscription for each in held}
    for stream in (each for each in summary.after.streams if each.stream == "regular"):
        if stream.subscription not in quiet:
            yield f"  {stream.subscription}: nothing to send now; {_next(stream, summary)}"


def _next(stream: StreamStatus, summary: PassSummary) -> str:
    due = f"next {when(stream.due, summary.begun)}" if stream.due else f"next {stream.schedule}"
    if any(source.revision is None for source in summary.before.sources):
        return f"it begins here, {due} (`cachewatch preview {stream.subscription}` says how to see one now)"
    return due


def _delivery(delivery: Delivery) -> str:
    said = f": {delivery.said}" if delivery.said and delivery.state != "sent" else ""
    return f"{delivery.channel} -> {delivery.target}: {delivery.state}{said}"


_DIGEST_FAILED = 8


@examples("cachewatch once --config /etc/cachewatch/cachewatch.yaml", "cachewatch once --log-format json 2>> once.log")
@click.command
@configured
@log_format
@click.pass_context
def once(context: click.Context, /, *, config: Config, log_format: str) -> None:
    """Fetch, compare and deliver what is due, then exit.

    For cron, CI or a systemd timer. Exits with 3 if a source could not be read, with 8 if a digest could not be
    created, and with 7 if a delivery failed permanently, its address is suppressed, or a channel does not work until
    it is repaired. On a terminal, it ends with a summary.
    """
    os.umask(0o077)
    with only_one(config.folder), _pinged_if_it_fails(config), ExitStack() as stack:
        with steps() as doing:
            service = _opened(config, log_format, doing)
            stack.enter_context(closing(service.database))
            stack.enter_context(leading(service))
            resume(service)
            put_in_force(service)
            before, begun = read_status(service), utc_now()
            if is_on_terminal():
                # The first fetch takes long, and the log has lines only for work that is finished.
                new = ", ".join(safe(source.name) for source in before.sources if source.revision is None)
                if new:
                    click.echo(f"fetching {new} for the first time, which may take minutes ...", err=True)
            result = run_pass(service)
        if is_on_terminal():
            write_lines(map(safe, lines(summarize(service, before, begun))))
        ping(config, service.log, is_whole=_status(result) == 0)
    context.exit(_status(result))


@contextmanager
def _pinged_if_it_fails(config: Config) -> Iterator[None]:
    """Ping the monitoring service about an exception in the block, but not if another process does the work."""
    try:
        yield
    except AnotherInstance:
        raise
    except Exception:
        ping(config, Log(), is_whole=False)
        raise


def _status(result: Result) -> int:
    if result.failed_sources:
        return 3
    if result.failed_digests:
        return _DIGEST_FAILED
    return 7 if result.is_undelivered else 0


@examples("cachewatch daemon --config /etc/cachewatch/cachewatch.yaml", "cachewatch daemon --log-format json")
@click.command
@configured
@log_format
@click.pass_context
def daemon(context: click.Context, /, *, config: Config, log_format: str) -> None:
    """Fetch, compare and deliver whenever something is due.

    Runs until it receives SIGTERM, which lets the current delivery finish. SIGHUP reloads the configuration.
    """
    from cachewatch.daemon import Daemon  # noqa: PLC0415  the scheduler is slow to load

    os.umask(0o077)
    with only_one(config.folder):
        service = _opened(config, log_format)
        with closing(service.database):
            code = Daemon(service, lambda: read_config(config.path)).run()
    context.exit(code)


def _opened(config: Config, form: str, doing: Callable[[str], None] | None = None) -> Context:
    """Open the state; this process must hold its lock on this host. `doing` is called with what is being done."""
    database = open_database(config.database, is_checked=True)
    log = open_log(form, log_stream() if doing else None)
    return Context(config=config, database=database, log=log, clock=utc_now, doing=doing or (lambda _: None))


# The tables of messages, which may be large and are not needed.
_NOT_LOOKED_AT = ("bodies", "deliveries", "attempts")
_FORMS = ("text", "html", "markdown", "json", "eml")


@examples(
    "cachewatch preview my-packages",
    "cachewatch preview my-packages --since 2025-06-01 --open",
    "cachewatch preview my-packages --templates-dir templates --format html > preview.html",
)
@click.command
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
@click.option("--open", "is_opened", is_flag=True, help="Show the HTML in a browser.")
@TEMPLATES_OPTION
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
    is_opened: bool,
    templates_dir: Path | None,
    lint: bool,
) -> None:
    """Print the digest that SUBSCRIPTION would receive from `cachewatch once` now.

    SUBSCRIPTION may be left out if there is only one. The output is byte for byte what would be sent, and nothing if
    nothing would be sent. Nothing is sent or stored. Repositories and folders on this machine are fetched into a copy of
    the state, which is forgotten again. Sources on the network are shown as of the last fetch; `cachewatch once` fetches
    first. Before the first `once`, those that do not begin at their newest revision are fetched into the copy, too.
    Exits with 6 if a template of your own is wrong: then cachewatch's own are used, as `once` does.
    """
    if templates_dir is not None:
        config = config.model_copy(update={"templates_dir": templates_dir.absolute()})
    stream = _stream(config, subscription or _only_subscription(config), URGENT if urgent else REGULAR)
    with _state(config, stream, since) as service:
        with service.database.read() as connection:
            state = read_stream(connection, stream)
        draft = compose(service, stream, state, since=since)
        packed = _through(channel, build_messages(config, stream, draft.digest, forms=frozenset(Form)))
        is_sent = _would_be_sent(stream, state, draft, service.clock(), is_asked=since is not None)
        _say(config, service, stream, state, draft, since=since, is_sent=is_sent)
    problems = dict.fromkeys(each.problem for each in packed if each.problem)
    for problem in problems:
        click.echo(
            f"cachewatch: cachewatch's own templates are used, because one of yours is wrong: {safe(problem)}", err=True
        )
    if lint:
        context.exit(_lint(config, packed) or (TemplateError.exit_code if problems else 0))
    if is_sent and is_opened:
        with NamedTemporaryFile(prefix="cachewatch-", suffix=".html", delete=False) as page:
            page.write(_sent(config, packed, "html"))
        is_shown = webbrowser.open(Path(page.name).as_uri())
        said = f"opening {page.name}" if is_shown else f"there is no browser to open; the file is {page.name}"
        click.echo(f"cachewatch: {said}", err=True)
    elif is_sent:
        sys.stdout.buffer.write(_sent(config, packed, form))
    context.exit(TemplateError.exit_code if problems else 0)


def _state(config: Config, stream: Stream, since: str | None) -> AbstractContextManager[Context]:
    """Open the state as the next pass would find it, with the newest revisions of the sources on this machine.

    Before the first pass, it is empty except for the sources that this pass would fetch.
    """
    if not has_state(config.database):
        named = [source for source in stream.sources if since or _begins_earlier(source)]
        return _first_state(config, named, [*named, *(each for each in stream.sources if _is_here(each))])
    return _next_state(config, stream.sources) if any(map(_is_here, stream.sources)) else reading(config)


def _begins_earlier(source: Source) -> bool:
    return source.since is not None or source.first_run == "report"


def _is_here(source: Source) -> bool:
    """Tell whether a source is a repository or folder on this machine, which is fast to fetch."""
    return source.type == "git" and (not is_url(source.address) or source.address.startswith("file:"))


@contextmanager
def _first_state(config: Config, named: list[Source], sources: list[Source]) -> Iterator[Context]:
    """Fetch `sources` into a temporary state, and print which of the `named` ones are fetched.

    Live build caches are not fetched, because they have no earlier revisions.
    """
    if names := ", ".join(source.name for source in named if source.type == "git"):
        click.echo(f"cachewatch: nothing was fetched yet; fetching {names} for this preview alone ...", err=True)
    with _state_elsewhere(config) as context:
        for source in {source.name: source for source in sources if source.type == "git"}.values():
            if not poll(context, source):
                with context.database.read() as connection:
                    raise SourceError(f"the source {source.name}: {health.source(connection, source.name).error}")
        yield context


@contextmanager
def _next_state(config: Config, sources: Sequence[Source]) -> Iterator[Context]:
    """Copy the state to a temporary folder, and fetch there those of `sources` that are on this machine."""
    with reading(config) as stored, _state_elsewhere(config) as context:
        with stored.database.read() as old, context.database.write() as new:
            copy_rows(old, new, but=_NOT_LOOKED_AT)
        for source in sources:
            copy_for_now(stored.clone_folder(source.name), context.clone_folder(source.name))
            if _is_here(source) and not poll(context, source):
                with context.database.read() as connection:
                    said = f"the source {source.name} cannot be read: {health.source(connection, source.name).error}"
                click.echo(f"cachewatch: warning: {safe(said)}", err=True)
        yield context


@contextmanager
def _state_elsewhere(config: Config) -> Iterator[Context]:
    """Open an empty state in a temporary folder."""
    with TemporaryDirectory(prefix="cachewatch-") as folder:
        own = config.model_copy(update={"state": Path(folder)})
        # The log of the service does not belong to the output of a preview.
        context = Context(config=own, database=open_database(own.state), log=open_log(level=logging.CRITICAL))
        with closing(context.database):
            yield context


def _would_be_sent(stream: Stream, state: StreamState, draft: PendingDigest, now: datetime, *, is_asked: bool) -> bool:
    """Tell whether a pass would send this digest.

    With `is_asked`, the user asked for it by --since, so it counts as due.
    """
    is_new = any(span.before.revision != span.after.revision for span in draft.digest.spans)
    is_due = is_asked or is_new or not stream.is_each_revision
    return is_due and not is_left_out(stream, state, draft, now)


def _only_subscription(config: Config) -> str:
    """Return the name of the only subscription; raise UsageError, with all names, if there are several."""
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


def _say(
    config: Config,
    service: Context,
    stream: Stream,
    state: StreamState,
    draft: PendingDigest,
    *,
    since: str | None,
    is_sent: bool,
) -> None:
    """Print on standard error why there is no digest, when it is sent, or what is missing in it."""
    name = stream.subscription.name
    unfetched = [each.name for each in stream.sources if state.sources[each.name].revision is None]
    fetched = {
        each.name: state.sources[each.name].succeeded_at
        for each in stream.sources
        if not _is_here(each) and has_state(config.database)
    }
    unasked = {each: minute(at, config.timezone) for each, at in fetched.items() if at is not None}
    is_silent = not since and not state.positions and not any(map(_begins_earlier, stream.sources))
    notes = []
    if unfetched and not is_silent:
        # Why not was just said of sources on this machine, which were tried.
        asked = {each.name for each in stream.sources if not _is_here(each)}
        failed = dict.fromkeys(state.sources[each].error for each in unfetched if each in asked)
        why = safe("; ".join(filter(None, failed)))
        notes.append(
            f"warning: nothing has been fetched yet of {', '.join(unfetched)}{f' ({why})' if why else ''}; run `cachewatch once` first"
        )
    if draft.is_empty and (is_silent or len(unfetched) < len(stream.sources)):
        why = f"no changes since {since or 'the last report'} match {name}"
        why = f"{name} begins at the newest revision" if is_silent else why
        what = "the digest says so" if is_sent else "nothing would be sent"
        base = "" if since else _earlier(service, stream, state)
        earlier = "an earlier --since" if since else base and f"`cachewatch preview {name} --since {base}`"
        notes.append(f"{why}: {what}{f'; {earlier} shows older changes' if earlier else ''}")
    notes += [
        f"warning: {each.package} of {tag.tag} cannot be read; what changed in it is reported later: {safe(each.reason)}"
        for advance in draft.advances
        for tag in advance.tags
        for each in tag.unread
    ]
    notes += [f"{each} as of the last fetch at {at}; `cachewatch once` fetches first" for each, at in unasked.items()]
    if draft.hold:
        notes.append(f"this digest would be held for the operators: {draft.hold}")
    elif is_sent and not since and (later := _later(service, stream)):
        notes.append(f"this digest is sent {later}, with what is new until then")
    for note in notes:
        click.echo(f"cachewatch: {note}", err=True)


def _earlier(service: Context, stream: Stream, state: StreamState) -> str:
    """Return the nearest of HEAD~1 to HEAD~3 since which something changed, or "" if none is known."""
    unfetched = [each for each in stream.sources if state.sources[each.name].revision is None]
    if unfetched:
        return "HEAD~1" if all(each.type == "git" and not _is_here(each) for each in unfetched) else ""
    with suppress(SourceError, UnknownRevision):
        for base in ("HEAD~1", "HEAD~2", "HEAD~3"):
            if not compose(service, stream, state, since=base).is_empty:
                return base
    return ""


def _later(service: Context, stream: Stream) -> str:
    """Return in words when the digest is due; "" if that is now."""
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
    """Return the bytes that the first of these channels sends in the format `form`."""
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
    """Return the mail to the first recipient of a mail channel, with links for this recipient; else None."""
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
    """Return the beginnings of links that the configuration allows."""
    channels = config.channels.values()
    unsubscribe = [channel.unsubscribe for channel in channels if isinstance(channel, MailConfig)]
    named = [config.links, *(channel.archive for channel in channels), *unsubscribe]
    return [base.partition("{")[0] for base in named if base]


@examples("cachewatch config test mail", "cachewatch config test mail --to you@example.org")
@click.command(name="test")
@configured
@click.argument("channel", shell_complete=completing("channels"))
@click.option(
    "--to", multiple=True, metavar="ADDRESS", show_default="the operators", help="Recipient of a test mail; repeatable."
)
def test(*, config: Config, channel: str, to: tuple[str, ...]) -> None:
    """Send a test message through CHANNEL, without retries."""
    if channel not in config.channels:
        raise UsageError(f"no channel {channel!r}; configured: {', '.join(config.channels)}")
    for address in to:
        try:
            parse_mail(address)
        except UsageError as error:
            raise UsageError(f"--to {error}") from error
    opened = open_channel(config.channels[channel])
    now = utc_now()
    notice = Notice(
        key=f"test-{now:%Y%m%dT%H%M%S%f}",
        title="this is a test",
        is_test=True,
        said=(f"The channel {channel} works.", "No action is required."),
        created=now,
        zone=config.timezone,
    )
    rendered = render_notice(notice, to=to or config.operators.to)
    messages = opened.build_messages(rendered)
    if not messages:
        raise UsageError(f"no recipients: use --to ADDRESS, or set `operators: to:` in {config.path}")
    failed = []
    with opened.open(lambda *_: ()) as transport:
        for message in messages:
            answer = transport.deliver(message)
            click.echo(f"{message.target}: {answer.outcome}{': ' + safe(answer.detail) if answer.detail else ''}")
            if answer.outcome is not DeliveryOutcome.SENT:
                failed.append(message.target)
    if failed:
        raise DeliveryError(
            f"the test message did not reach {', '.join(failed)}, and is not tried again; fix `channels: {channel}:` in {config.path}"
        )


@examples(
    "cachewatch config explain py-torch", "cachewatch config explain hdf5 --config /etc/cachewatch/cachewatch.yaml"
)
@click.command
@configured_without_secrets
@click.argument("package", shell_complete=completing("packages"))
@FORMAT_OPTION
def explain(*, config: Config, package: str, format_: str) -> None:
    """Show which subscriptions report changes of PACKAGE.

    Lists why, when and through which channels; and for the other subscriptions, why not.
    """
    # Before the first pass there is no state.
    with (reading if has_state(config.database) else elsewhere)(config) as context:
        found = list(explain_package(context, package))
        names = packages_now(context)
    if names and package not in names:
        _warn(package, names)
    if format_ == "json":
        write_json("explain", found)
        return
    write_lines(safe(line) for each in found for line in _lines(each))


def _warn(package: str, names: set[str]) -> None:
    """Warn that no source has the package now, with similar names."""
    hint = did_you_mean(package, sorted(names))
    click.echo(f"cachewatch: warning: no source has a package {safe(package)} now{safe(hint)}", err=True)


def _lines(found: SubscriptionAnswer) -> Iterator[str]:
    yield f"{found.subscription}  {'would be notified' if found.is_notified else 'would not be notified'}"
    yield from (f"  {reason}" for reason in found.reasons)
    if found.is_notified:
        yield f"  {found.when}, through {'; '.join(found.where)}"
    if found.urgent:
        yield f"  at once through {'; '.join(found.urgent)}"
