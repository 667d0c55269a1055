"""`cachewatch config`: check the configuration file, show what it means, print its schema."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from cachewatch.cli.help_examples import examples
from cachewatch.cli.load_configuration import CONFIG_OPTION, configured_without_secrets, load
from cachewatch.cli.open_state import elsewhere
from cachewatch.cli.output import FORMAT_OPTION, write, write_json
from cachewatch.cli.unknown_filters import unknown_filters
from cachewatch.cli.usage_errors import SuggestingGroup
from cachewatch.config import host_local
from cachewatch.config.advice import advise, channels_of
from cachewatch.config.model import Config, Match, Subscription
from cachewatch.config.schema import json_schema
from cachewatch.config.showing import show_config, shown_values
from cachewatch.core.durations import duration_in_words
from cachewatch.core.schedule import Schedule, parse_when, quiet_until
from cachewatch.core.untrusted_text import safe
from cachewatch.environments.lockfiles import open_environment
from cachewatch.errors import ConfigError, UsageError
from cachewatch.render.digest_mail import render_digest
from cachewatch.render.sample_digest import sample_digest

_NEXT = 3
_FILTERS = ("tags", "packages", "stacks", "targets", "oses", "compilers")
_UNASKED = "whether the sources have what `since:` and filters name was not checked; `cachewatch config check --source` does that"


@click.group(cls=SuggestingGroup)
def config() -> None:
    """Check or show the configuration."""


@config.command(epilog=examples("cachewatch config check", "cachewatch config check --source --strict"))
@CONFIG_OPTION
@click.option("--no-secrets", is_flag=True, help="Do not read secrets (for machines that do not have them).")
@click.option(
    "--source",
    "is_source_asked",
    is_flag=True,
    help="Also warn about filters that match nothing in the sources, as fetched or on this machine, and a `since:` that is no revision.",
)
@click.option("--strict", is_flag=True, help="With --source, exit with 2 if there are warnings.")
@click.pass_context
def check(
    context: click.Context, /, *, config_file: Path | None, no_secrets: bool, is_source_asked: bool, strict: bool
) -> None:
    """Check the configuration file: list all mistakes, or summarize it.

    The summary lists sources, channels and subscriptions, and when each digest is due next.
    """
    if strict and not is_source_asked:
        raise UsageError("--strict requires --source")
    now = datetime.now(UTC)
    config = load(config_file, with_secrets=not no_secrets)
    _check_templates(config)
    _check_environments(config)
    for line in _report(config, now):
        click.echo(line)
    for advice in advise(config, now.astimezone(ZoneInfo(config.timezone)).date()):
        click.echo(f"cachewatch: note: {advice}", err=True)
    if not is_source_asked and _has_filters(config):
        click.echo(f"cachewatch: note: {_UNASKED}", err=True)
    if is_source_asked:
        context.exit(2 if _warn_of_filters(config) and strict else 0)


def _has_filters(config: Config) -> bool:
    """Tell whether anything is named that the sources may not have."""
    matches: list[Match] = [subscription.match for subscription in config.subscriptions.values()]
    matches += [silence.match for silence in config.silences]
    return any(source.tags or source.since for source in config.sources.values()) or any(
        getattr(match, key) for match in matches for key in _FILTERS
    )


def _warn_of_filters(config: Config) -> bool:
    """Warn of filters that match nothing in their sources, and tell whether there was anything to say."""
    with elsewhere(config) as context:
        found = list(unknown_filters(context))
    if not found:
        click.echo("filters: each matches something in the newest revisions")
    for each in found:
        click.echo(f"cachewatch: warning: {safe(each)}", err=True)
    return bool(found)


@config.command(
    epilog=examples("cachewatch config show", "cachewatch config show --config /etc/cachewatch/cachewatch.yaml")
)
@configured_without_secrets
@FORMAT_OPTION
def show(*, config: Config, format_: str) -> None:
    """Print the effective configuration, with defaults and with secrets masked."""
    if format_ == "json":
        write_json(shown_values(config))
        return
    write([show_config(config).encode()], None, is_for_people=True)


@config.command(
    epilog=examples(
        "cachewatch config schema > cachewatch.schema.json", "cachewatch config schema | jq '.properties | keys'"
    )
)
def schema() -> None:
    """Print the JSON Schema of the configuration file, for editors."""
    click.echo(json_schema(), nl=False)


def _check_templates(config: Config) -> None:
    """Render the user's own templates on sample data, so that an undefined name is found now and not on a Monday."""
    if config.templates_dir is None:
        return

    for template in sorted({s.template or "digest.html.j2" for s in config.subscriptions.values()}):
        render_digest(sample_digest(), templates_dir=config.templates_dir, template=template)


def _check_environments(config: Config) -> None:
    """Read the environments that are watched, which may have been moved or broken since the file was written."""
    mistakes = []
    for subscription in config.subscriptions.values():
        if subscription.match.environment is not None:
            try:
                open_environment(subscription.match.environment, config.environment_folders)
            except UsageError as error:
                mistakes.append(f"{config.path}: subscriptions.{subscription.name}.match.environment: {error}")
    if mistakes:
        raise ConfigError("\n".join(mistakes))


def _report(config: Config, now: datetime) -> Iterator[str]:
    yield f"{config.path}: no mistakes"
    yield f"  state in {config.state}"
    for source in config.sources.values():
        poll = f"polled every {duration_in_words(source.poll.every)}"
        yield f"source {source.name}: {source.address}, {poll}"
        yield from (f"  {said}" for said in host_local.of_source(config, source))
    for channel in config.channels.values():
        users = [s.name for s in config.subscriptions.values() if channel.name in channels_of(s)]
        users += ["operators"] if channel.name in config.operators.channels else []
        yield f"channel {channel.name}: {channel.type}, for {', '.join(users) or 'nobody'}"
        yield from (f"  {said}" for said in host_local.of_channel(config, channel))
    for subscription in config.subscriptions.values():
        yield from _of_subscription(subscription, config, now)
    for silence in config.silences:
        yield f"silence {silence.name}: until {silence.until}"


def _of_subscription(subscription: Subscription, config: Config, now: datetime) -> Iterator[str]:
    schedule = parse_when(subscription.when, config.timezone)
    to = f" to {', '.join(subscription.to)}" if subscription.to else ""
    yield f"subscription {subscription.name}: {', '.join(subscription.channels)}{to}, {schedule.in_words()}"
    dates = list(_next_dates(schedule, config, now))
    if dates:
        yield f"  next: {'; '.join(dates)}"
    if subscription.urgent is not None:
        kinds = ", ".join(sorted(subscription.urgent.changes))
        yield f"  at once through {', '.join(subscription.urgent.channels)}: {kinds}"


def _next_dates(schedule: Schedule, config: Config, moment: datetime) -> Iterator[str]:
    zone = ZoneInfo(config.timezone)
    for _ in range(_NEXT):
        slot = schedule.next_after(moment)
        if slot is None:
            return
        sent = quiet_until(config.quiet, slot)
        held = f" (quiet, sent {_date(sent, zone)})" if sent > slot else ""
        yield f"{_date(slot, zone)}{held}"
        moment = slot


def _date(moment: datetime, zone: ZoneInfo) -> str:
    return moment.astimezone(zone).strftime("%a %Y-%m-%d %H:%M")
