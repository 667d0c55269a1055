"""`cachewatch status`: the health of sources and channels, and which digests are due next."""

from datetime import datetime
from zoneinfo import ZoneInfo

import click

from cachewatch.cli.help_examples import examples
from cachewatch.cli.load_configuration import configured_without_secrets
from cachewatch.cli.open_state import reading
from cachewatch.cli.output import FORMAT_OPTION, write_json, write_lines
from cachewatch.config.model import Config
from cachewatch.core.untrusted_text import safe
from cachewatch.notify.notice_sentences import in_a_row
from cachewatch.notify.problems import Problem, Problems, find_problems
from cachewatch.notify.status import (
    ChannelStatus,
    HeldDigest,
    SilenceStatus,
    Status,
    StreamStatus,
    read_status,
)
from cachewatch.render.elapsed_time import how_long
from cachewatch.store.health import SourceHealth
from cachewatch.store.timestamps import utc_now


@click.command(epilog=examples("cachewatch status", "cachewatch status --check --format json"))
@configured_without_secrets
@click.option(
    "--check", "is_check", is_flag=True, help="Print only problems and warnings; exit with 1 if there is a problem."
)
@FORMAT_OPTION
@click.pass_context
def status(command: click.Context, /, *, config: Config, is_check: bool, format_: str) -> None:
    """Show the health of sources and channels, and what is due."""
    with reading(config) as context:
        found = read_status(context)
    now = utc_now().astimezone(ZoneInfo(config.timezone))
    problems = find_problems(found, config, now)
    if format_ == "json":
        write_json(problems if is_check else found)
    else:
        write_lines(map(safe, _check_lines(problems) if is_check else _lines(found, problems, now)))
    command.exit(int(is_check and not problems.is_ready))


def _check_lines(found: Problems) -> list[str]:
    lines = [f"problem: {_in_a_line(problem)}" for problem in found.problems]
    lines += [f"warning: {_in_a_line(problem)}" for problem in found.warnings]
    return lines or ["no problems"]


def _in_a_line(problem: Problem) -> str:
    return f"{problem.what}: {problem.detail}" if problem.detail else problem.what


def _lines(found: Status, problems: Problems, now: datetime) -> list[str]:
    lines = ["SOURCES"]
    lines += [line for source in found.sources for line in _source(source, now)]
    lines += ["", "NEXT"]
    if found.quiet_until is not None:
        lines.append(f"  quiet hours until {when(found.quiet_until, now)}")
    lines += [_stream(stream, now) for stream in found.streams]
    lines += ["", "CHANNELS"]
    lines += [line for channel in found.channels for line in _channel(channel, now)]
    if found.held:
        lines += ["", "HELD"]
        lines += [line for held in found.held for line in _held(held, now)]
    if found.silences:
        lines += ["", "SILENCES"]
        lines += [_silence(silence) for silence in found.silences]
    for heading, those in (("PROBLEMS", problems.problems), ("WARNINGS", problems.warnings)):
        if those:
            lines += ["", heading]
            lines += [line for problem in those for line in _problem(problem, now)]
    return lines


def _source(source: SourceHealth, now: datetime) -> list[str]:
    if source.revision is None:
        lines = [f"  {source.name}  nothing fetched yet"]
    else:
        lines = [f"  {source.name}  {source.revision[:10]} of {when(source.revision_time, now)}"]
    lines.append(f"    polled {when(source.polled_at, now)}, last success {when(source.succeeded_at, now)}")
    if source.failures:
        lines.append(f"    {in_a_row(source.failures)}: {source.error}")
    return lines


def _stream(stream: StreamStatus, now: datetime) -> str:
    name = stream.subscription if stream.stream == "regular" else f"{stream.subscription} ({stream.stream})"
    due = f", next {when(stream.due, now)}" if stream.due else ""
    return f"  {name}  {stream.schedule}{due}"


def _channel(channel: ChannelStatus, now: datetime) -> list[str]:
    counts = ", ".join(f"{count:,} {state}" for state, count in sorted(channel.queue.items())) or "nothing yet"
    name = channel.health.name
    lines = [f"  {name}  {counts}"]
    if not channel.is_configured:
        advice = f": configure it again, or drop the deliveries in `cachewatch deliveries list --open --channel {name}`"
        lines.append(f"    no longer configured{advice if channel.oldest else ''}")
    if channel.oldest is not None:
        lines.append(f"    oldest delivery waiting since {when(channel.oldest, now)}")
    if channel.health.blocked_until is not None and channel.health.blocked_until > now:
        lines.append(f"    blocked, next attempt {when(channel.health.blocked_until, now)}")
    error_at, sent_at = channel.health.error_at, channel.health.sent_at
    if error_at is not None and (sent_at is None or sent_at <= error_at):
        lines.append(f"    last error {when(error_at, now)}: {channel.health.error}")
    return lines


def _held(held: HeldDigest, now: datetime) -> list[str]:
    key, name = held.key[:12], held.subscription if held.stream == "regular" else f"{held.subscription} ({held.stream})"
    gone = "" if held.is_configured else ", a subscription that is no longer configured"
    out = "not sent until it is released or dropped"
    if held.goes_out_at is not None:
        out = f"sent {when(held.goes_out_at, now)}, marked as not confirmed by the operators"
    return [
        f"  {name}  {held.title}{gone}",
        f"    since {when(held.since, now)}: {held.reason}",
        f"    {out}",
        f"    `cachewatch deliveries release {key}`, or `drop {key} --reason '...'`",
    ]


def _silence(silence: SilenceStatus) -> str:
    until = f"until {silence.until}" if silence.is_active else f"ended on {silence.until}, remove it"
    return f"  {silence.name}  {until}: {silence.reason}"


def _problem(problem: Problem, now: datetime) -> list[str]:
    lines = [f"  {problem.what}"]
    lines += [f"    since {when(problem.since, now)}"] if problem.since else []
    return [*lines, f"    {problem.detail}"] if problem.detail else lines


def when(moment: datetime | None, now: datetime) -> str:
    """Say a moment, in the time zone of `now`, and how far away it is."""
    if moment is None:
        return "never"
    seconds = (now - moment).total_seconds()
    span = how_long(abs(seconds))
    return f"{moment.astimezone(now.tzinfo):%Y-%m-%d %H:%M %Z} ({f'{span} ago' if seconds >= 0 else f'in {span}'})"
