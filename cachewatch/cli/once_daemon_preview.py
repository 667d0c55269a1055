"""The commands that run the service: `once`, `daemon`, and `preview`, which prints what `once` would send now."""

import logging
import os
import sys
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from zoneinfo import ZoneInfo

import click

from cachewatch.cli.config_commands import TEMPLATES_OPTION, configured, log_format, page, reading
from cachewatch.cli.help_and_exit_codes import examples
from cachewatch.cli.shared_options_and_filters import completing
from cachewatch.cli.terminal import format_option, is_on_terminal, palette, say, tell, warn, write_lines, write_text
from cachewatch.config.reading_showing_warnings import read_config
from cachewatch.config.schedules_and_quiet_times import minute, quiet_until
from cachewatch.config.settings_and_subscriptions import Config
from cachewatch.config.sources_and_channels import FileConfig, MailConfig, Source, WebhookConfig
from cachewatch.core.escaping_and_mentions import markup, plain_lines, safe
from cachewatch.errors import AnotherInstance, SourceError, TemplateError, UsageError
from cachewatch.git.remote_urls_and_fetch_errors import is_url
from cachewatch.git.revision_names_and_times import resolve
from cachewatch.operators.status_problems_explanations import ServiceStatus, find_problems, read_status
from cachewatch.report.diff_blocks_and_colours import COLOURS_OF_KINDS
from cachewatch.report.digest_and_message_values import Form
from cachewatch.report.digests.body_and_table import Section, sections
from cachewatch.report.environment_words import MEANINGS
from cachewatch.report.words_file import words
from cachewatch.runtime.log import Log, open_log
from cachewatch.service.context_and_source_copies import Context, copy_for_now
from cachewatch.service.deciding_and_storing import is_left_out
from cachewatch.service.digest_assembly_and_hold_times import ChannelMessages, compose, pack_messages
from cachewatch.service.passes_and_leadership import leading, ping, poll, resume, run_pass
from cachewatch.service.streams_starts_silences import REGULAR, URGENT, Stream, first_revision, read_stream, streams_of
from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store import digests_and_holds as digests
from cachewatch.store import health_and_alerts as health
from cachewatch.store.schema import utc_now
from cachewatch.store.transactions_and_sqlite import copy_rows, has_state, only_one, open_database


def _summary(context: Context, before: ServiceStatus, begun: datetime) -> list[str]:
    """Return lines that sum up a pass, which began at `begun`, when the status of the service was `before`."""
    after = read_status(context)
    with context.database.read() as connection:
        newest = deliveries.find(connection, limit=500)
        touched = [each for each in reversed(newest) if max(each.created, each.settled_at or each.created) >= begun]
        digest_of = {each.digest: digests.find(connection, each.digest) for each in touched}
    failed = {alert.name: alert.detail for alert in after.alerts if alert.kind == "digest-failed"}
    held = [each for each in after.held if each.since >= begun]
    told = {digest.subscription for digest in digest_of.values() if digest} | {each.subscription for each in held}
    told |= failed.keys()
    return page(
        "once.txt.j2",
        begun.astimezone(ZoneInfo(context.config.timezone)),
        status=after,
        revisions={source.name: source.revision for source in before.sources},
        # Those that the pass created or tried to deliver.
        digests=[(digest, [each for each in touched if each.digest == key]) for key, digest in digest_of.items()],
        failed=failed,
        held=held,
        idle=[each for each in after.streams if each.stream == "regular" and each.subscription not in told],
        is_first=any(source.revision is None for source in before.sources),
        waiting={
            each.health.name: sum(each.queue.get(state, 0) for state in deliveries.OPEN) for each in after.channels
        },
        problems=find_problems(after, context.config, context.clock()).all,
    )


@examples("cachewatch once --config /etc/cachewatch/cachewatch.yaml", "cachewatch once --log-format json 2>> once.log")
@click.command
@configured
@log_format
def once(*, config: Config, log_format: str) -> int:
    """Fetch, compare and deliver what is due, then exit.

    For cron, CI or a systemd timer. Exits with 3 if a source could not be read, with 8 if a digest could not be
    created, and with 7 if a delivery failed permanently, its address is suppressed, or a channel does not work until
    it is repaired. On a terminal, it ends with a summary.
    """
    os.umask(0o077)
    with only_one(config.folder):
        try:
            return _run_once(config, log_format)
        except AnotherInstance:
            raise  # whose process pings the monitoring service
        except Exception:
            ping(config, Log(), is_whole=False)
            raise


def _run_once(config: Config, log_format: str) -> int:
    service = _opened(config, log_format)
    with closing(service.database), leading(service):
        resume(service)
        before, begun = read_status(service), utc_now()
        new = ", ".join(safe(source.name) for source in before.sources if source.revision is None)
        if new and is_on_terminal():
            # The first fetch takes long, and the log has lines only for work that is finished.
            tell(f"fetching {new} for the first time, which may take minutes ...")
        result = run_pass(service)
        if is_on_terminal():
            write_lines(_summary(service, before, begun))
        is_undelivered = result.dead or result.suppressed or result.blocked
        code = 3 if result.failed_sources else 8 if result.failed_digests else 7 if is_undelivered else 0
        ping(config, service.log, is_whole=code == 0)
    return code


@examples("cachewatch daemon --config /etc/cachewatch/cachewatch.yaml", "cachewatch daemon --log-format json")
@click.command
@configured
@log_format
def daemon(*, config: Config, log_format: str) -> int:
    """Fetch, compare and deliver whenever something is due.

    Runs until it receives SIGTERM, which lets the current delivery finish. SIGHUP reloads the configuration.
    """
    from cachewatch.daemon.jobs_signals_and_health import Daemon  # noqa: PLC0415  the scheduler is slow to load

    os.umask(0o077)
    with only_one(config.folder):
        service = _opened(config, log_format)
        with closing(service.database):
            return Daemon(service, lambda: read_config(config.path)).run()


def _opened(config: Config, form: str) -> Context:
    """Return a Context with the opened state of `config`; write the log in the format `form` ("text" or "json")."""
    database = open_database(config.database, is_checked=True)
    # The clock by its name here, which the model and the crash tests replace.
    return Context(config=config, database=database, log=open_log(form), clock=utc_now)


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
@format_option("text", "html", "markdown", "json", "eml")
@click.option(
    "--channel",
    metavar="NAME",
    shell_complete=completing("channels"),
    help="Preview the message for this channel, not for the first one that supports the format.",
)
@click.option("--open", "is_opened", is_flag=True, help="Show the HTML in a browser.")
@TEMPLATES_OPTION
def preview(
    *,
    config: Config,
    subscription: str | None,
    since: str | None,
    urgent: bool,
    format_: str,
    channel: str | None,
    is_opened: bool,
    templates_dir: Path | None,
) -> int:
    """Print the digest that SUBSCRIPTION would receive from `cachewatch once` now.

    SUBSCRIPTION may be left out if there is only one. The output is byte for byte what would be sent (text on a
    terminal is folded to its width), and nothing if nothing would be sent. Nothing is sent or stored. Repositories and folders on this machine are fetched into a copy of
    the state, which is forgotten again. Sources on the network are shown as of the last fetch; `cachewatch once` fetches
    first. Before the first `once`, those that do not begin at their newest revision are fetched into the copy, too.
    Exits with 3 if no source could be read yet, and with 6 if a template of your own is wrong: then cachewatch's own
    are used, as `once` does.
    """
    if templates_dir is not None:
        config = config.model_copy(update={"templates_dir": templates_dir.absolute()})
    stream = _stream(config, subscription, URGENT if urgent else REGULAR)
    with _state(config, stream, since) as service:
        now = _Preview(config, service, stream, since)
        built = pack_messages(config, stream, now.draft.digest, forms=frozenset(Form))
        packed = tuple(each for each in built if channel in (None, each.channel))
        if not packed:
            names = ", ".join(each.channel for each in built)
            raise UsageError(f"{channel} is not a channel of this subscription; its channels: {names}")
        for note in now.notes():
            say(note)
    problems = dict.fromkeys(each.problem for each in packed if each.problem)
    for problem in problems:
        say(f"cachewatch's own templates are used, because one of yours is wrong: {problem}")
    is_unread = len(now.unfetched) == len(stream.sources)
    code = TemplateError.exit_code if problems else SourceError.exit_code if is_unread else 0
    if not now.is_sent:
        return code
    if is_opened:
        with NamedTemporaryFile(prefix="cachewatch-", suffix=".html", delete=False) as page:
            page.write(_sent(config, packed, "html"))
        is_shown = webbrowser.open(Path(page.name).as_uri())
        none = "no browser can be opened: there is none, or no display"
        say(f"opening {page.name}" if is_shown else f"{none}; the page is {page.name}")
    elif format_ == "text":
        listed = sections(now.draft.digest, words(None if problems else config.templates_dir))
        write_text("".join(_in_colours(_sent(config, packed, format_).decode(), listed)))
    else:
        sys.stdout.buffer.write(_sent(config, packed, format_))
    return code


def _in_colours(text: str, listed: Sequence[Section]) -> Iterator[str]:
    """Yield the lines of the digest `text`; headings of its sections, `listed`, have the colour of what they mean."""
    paint = palette().paint
    meanings = {str(kind): colour for kind, colour in COLOURS_OF_KINDS.items()}
    meanings |= {str(name): colour for name, (_, colour) in MEANINGS.items()}
    colours = {one.heading.upper(): meanings.get(one.name, "") for one in listed}
    for line in text.splitlines(keepends=True):
        heading = max((one for one in colours if line.startswith(one)), key=len, default="")
        yield f"{paint(paint(heading, 'bold'), colours.get(heading, ''))}{line.removeprefix(heading)}"


def _stream(config: Config, subscription: str | None, name: str) -> Stream:
    """Return the stream `name` (regular, urgent) of `subscription` (None: the only one). Raises UsageError if none."""
    names = ", ".join(config.subscriptions) or "none"
    if not subscription and len(config.subscriptions) != 1:
        raise UsageError(f"preview needs a subscription; configured: {names}")
    subscription = subscription or next(iter(config.subscriptions))
    for stream in streams_of(config):
        if stream.subscription.name == subscription and stream.name == name:
            return stream
    if subscription in config.subscriptions:
        raise UsageError(f"{subscription} has no urgent digests; see `urgent:` in {config.path}")
    raise UsageError(f"no subscription {subscription!r}; configured: {names}")


@contextmanager
def _state(config: Config, stream: Stream, since: str | None) -> Iterator[Context]:
    """Yield a Context with the state that the next pass would find: in a temporary copy if sources must be fetched.

    Fetches sources on this machine and, before the first pass, git sources of which earlier revisions are needed.
    """
    here = [each for each in stream.sources if _is_here(each)]
    with ExitStack() as stack:
        stored = stack.enter_context(reading(config)) if has_state(config.database) else None
        if stored and not here:
            yield stored
            return
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="cachewatch-")))
        own = config.model_copy(update={"state": folder})
        # The log of the service does not belong to the output of a preview.
        context = Context(config=own, database=open_database(folder), log=open_log(level=logging.CRITICAL))
        stack.enter_context(closing(context.database))
        if stored:
            with stored.database.read() as old, context.database.write() as new:
                copy_rows(old, new, but=("bodies", "deliveries", "attempts"))  # of messages, which may be large
            for source in stream.sources:
                copy_for_now(stored.clone_folder(source.name), context.clone_folder(source.name))
            for failed, error in _fetched(context, here):
                warn(f"the source {failed} cannot be read: {error}")
        else:
            # Live build caches have no earlier revisions.
            fetched = [each for each in stream.sources if (since or _begins_earlier(each)) and each.type == "git"]
            if fetched:
                names = ", ".join(each.name for each in fetched)
                say(f"nothing was fetched yet; fetching {names} for this preview alone ...")
            for failed, error in _fetched(context, [*fetched, *(each for each in here if each not in fetched)]):
                raise SourceError(f"the source {failed}: {error}")
        yield context


def _fetched(context: Context, sources: Sequence[Source]) -> Iterator[tuple[str, str]]:
    """Fetch `sources`; yield the name and the error of each that cannot be read."""
    for source in sources:
        if not poll(context, source):
            with context.database.read() as connection:
                yield source.name, health.source(connection, source.name).error


def _begins_earlier(source: Source) -> bool:
    return source.since is not None or source.first_run == "report"


def _is_here(source: Source) -> bool:
    """Tell whether a source is a repository or folder on this machine, which can be fetched quickly."""
    return source.type == "git" and (not is_url(source.address) or source.address.startswith("file:"))


class _Preview:
    """The digest of a stream as it would be made now, and notes about it."""

    def __init__(self, config: Config, service: Context, stream: Stream, since: str | None) -> None:
        with service.database.read() as connection:
            state = read_stream(connection, stream)
        self._config, self._service, self._stream, self._since, self._state = config, service, stream, since, state
        self.draft = compose(service, stream, state, since=since)
        # The stream begins at the newest revisions, and has nothing to report yet.
        self._is_silent = not since and not state.positions and not any(map(_begins_earlier, stream.sources))
        needed = () if self._is_silent else stream.sources  # of which something must have been fetched
        self.unfetched = [each for each in needed if state.sources[each.name].revision is None]
        is_new = any(span.before.revision != span.after.revision for span in self.draft.digest.spans)
        is_due = since is not None or is_new or not stream.is_each_revision
        self.is_sent = is_due and not is_left_out(stream, state, self.draft, service.clock())

    def notes(self) -> Iterator[str]:
        """Yield notes for the user: why there is no digest, when it is sent, or what is missing in it."""
        stream, state, since = self._stream, self._state, self._since
        with self._service.database.read() as connection:
            keys = [health.AlertKey(health.AlertKind.SOURCE_EMPTY, each.name) for each in stream.sources]
            empty = [health.get(connection, key) for key in keys]
        yield from (f"warning: {one.title}: {safe(one.detail)}" for one in empty if one and one.resolved_at is None)
        if self.unfetched:
            # Sources on this machine were tried, and the reason was just printed.
            remote = [each for each in self.unfetched if not _is_here(each)]
            why = safe("; ".join(filter(None, dict.fromkeys(state.sources[each.name].error for each in remote))))
            end = "; run `cachewatch once` first" if remote else ""
            end = f": {why}; `cachewatch once` tries again" if why else end
            yield f"warning: nothing has been fetched yet of {', '.join(each.name for each in self.unfetched)}{end}"
        if self.draft.is_empty and (self._is_silent or len(self.unfetched) < len(stream.sources)):
            what = "the digest says so" if self.is_sent else "nothing would be sent"
            name = stream.subscription.name
            earlier = "an earlier --since" if since else f"`cachewatch preview {name} --since REVISION`"
            yield f"{self._why_empty()}: {what}; {earlier} shows older changes"
        for tag in (tag for advance in self.draft.advances for tag in advance.tags):
            for each in tag.unread:
                unread = f"{each.package} of {tag.tag} cannot be read"
                yield f"warning: {unread}; what changed in it is reported later: {safe(each.reason)}"
        for source in stream.sources:
            at = state.sources[source.name].succeeded_at
            if at is not None and not _is_here(source) and has_state(self._config.database):
                fetched = minute(at, self._config.timezone)
                yield f"{source.name} as of the last fetch at {fetched}; `cachewatch once` fetches first"
        if self.draft.hold:
            yield f"this digest would be held for the operators: {self.draft.hold}"
        elif self.is_sent and not since and (later := self._later()):
            yield f"this digest is sent {later}, with what is new until then"

    def _why_empty(self) -> str:
        name = self._stream.subscription.name
        if not self._since and any(map(self._has_one_revision, self._stream.sources)):
            return f"{name} begins at the only revision of its source, which can be compared with none"
        if self._is_silent:
            return f"{name} begins at the newest revision"
        return f"nothing that {name} reports changed since {self._since or 'the last report'}"

    def _has_one_revision(self, source: Source) -> bool:
        """Tell whether the stream is to begin with a report, but the source has only one revision."""
        newest = self._state.sources[source.name].revision
        is_known = source.since is not None or source.name in self._state.positions
        if source.first_run != "report" or is_known or newest is None:
            return False
        with closing(self._service.open_repository(source)) as repository:
            return first_revision(repository, source, resolve(repository, newest)).commit == newest

    def _later(self) -> str:
        """Return in words when the digest is due, such as "on Monday ..."; "" if it is due now."""
        now, stream = self._service.clock(), self._stream
        own = stream.subscription.name, stream.name
        planned = next(e.due for e in read_status(self._service).streams if (e.subscription, e.stream) == own)
        next_one = max(planned or stream.schedule.next_after(now) or now, now)
        due = quiet_until(self._config.quiet, next_one, self._config.timezone)
        return f"on {due.astimezone(ZoneInfo(self._config.timezone)):%A %Y-%m-%d at %H:%M %Z}" if due > now else ""


def _sent(config: Config, packed: tuple[ChannelMessages, ...], form: str) -> bytes:
    """Return what the first suitable channel in `packed` sends as `form`. Raises UsageError if "eml" finds no mail."""
    # Mails have no Markdown, and name attachments.
    mails = [each for each in packed if isinstance(config.channels[each.channel], MailConfig)]
    others = (each for each in packed if each not in mails)
    first = next(others, packed[0]) if form == "markdown" else packed[0]
    channel, rendered = config.channels[first.channel], first.rendered
    if form == "eml":
        for each in mails:
            if each.messages:
                return each.messages[0].payload
        names = ", ".join(each.channel for each in packed)
        why = "the subscription has no recipients of mail" if mails else f"{names}: no mail channel"
        raise UsageError(f"{why}; choose another form with --format")
    if form == "json":
        return first.messages[0].payload if isinstance(channel, WebhookConfig) else rendered.json
    if isinstance(channel, MailConfig) and first.messages and form != "markdown":
        # With the links for the first recipient.
        mail = BytesParser(EmailMessage, policy=default).parsebytes(first.messages[0].payload)
        part = mail.get_body(("plain" if form == "text" else "html",))
        return str(part.get_content()).replace("\r\n", "\n").encode() if part is not None else b""
    if form == "text":
        return plain_lines(f"{rendered.title}\n\n{rendered.text}").encode()
    is_page = form == "html" and isinstance(channel, FileConfig)
    return markup(rendered.page if is_page else getattr(rendered, form)).encode()
