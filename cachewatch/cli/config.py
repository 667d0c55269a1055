"""Load the configuration, and its state, for the commands that need them; and `cachewatch config`.

`cachewatch config` checks the file, shows what it means and prints its schema. The check also reads the sources, to
find filters that match nothing there, and a `since:` that is no revision.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import click
from msgspec import Struct
from msgspec.structs import replace

from cachewatch.cli.catalogue import FACTS, Asked, Values, facts_of, nothing_has, unmatched
from cachewatch.cli.mistakes import SuggestingGroup, examples
from cachewatch.cli.terminal import FORMAT_OPTION, write, write_json, write_lines
from cachewatch.config import showing as host_local
from cachewatch.config.model import Config
from cachewatch.config.reading import find_config, read_config
from cachewatch.config.schedule import Schedule, duration_in_words, parse_when, quiet_until
from cachewatch.config.showing import advise, channels_of, json_schema, show_config, shown_values
from cachewatch.config.sources import GitSource, Source
from cachewatch.config.subscriptions import Match, Subscription
from cachewatch.core import names as tag_names
from cachewatch.core.names import safe
from cachewatch.core.selection import Globs
from cachewatch.environments import open_environment
from cachewatch.errors import CachewatchError, ConfigError, UnknownRevision, UsageError
from cachewatch.git.catalogue import list_revision, stacks_of, tags_of
from cachewatch.git.repository import Repository
from cachewatch.git.revisions import Revision, resolve, resolve_upstream
from cachewatch.git.trees import folders, nothing_found
from cachewatch.report.digest_mail import render_digest
from cachewatch.report.samples import sample_digest
from cachewatch.runtime.log import open_log
from cachewatch.service.context import Context
from cachewatch.sources.folders import is_plain, list_path
from cachewatch.store.database import Database
from cachewatch.store.sqlite import open_database, open_to_read

CONFIG_OPTION = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=(
        "Configuration file. If omitted: $CACHEWATCH_CONFIG, ./cachewatch.yaml, the user's file, "
        "or the system's file, whichever is found first."
    ),
)


def configured(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option `--config`, and call it with the argument `config`, the checked configuration.

    A file with mistakes ends the command with exit code 2 and a list of all of them.
    """
    return _configured(command, with_secrets=True)


def configured_without_secrets(command: Callable[..., Any]) -> Callable[..., Any]:
    """Do as `configured` for a command that neither sends nor fetches, so that it needs no access to secrets."""
    return _configured(command, with_secrets=False)


def _configured(command: Callable[..., Any], *, with_secrets: bool) -> Callable[..., Any]:
    @CONFIG_OPTION
    @wraps(command)
    def with_config(*arguments: Any, config_file: Path | None, **options: Any) -> Any:
        return command(*arguments, config=load(config_file, with_secrets=with_secrets), **options)

    return with_config


def load(file: Path | None, *, with_secrets: bool = True) -> "Config":
    """Find, read and check the configuration file; raises ConfigError with all mistakes."""
    return read_config(find_config(file), with_secrets=with_secrets)


log_format = click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", help="Format of log events on standard error."
)


def working_on(config: Config) -> AbstractContextManager[Context]:
    """Open the state of `config` for a command that changes it, also while the service works on it."""
    return _with(config, open_database(config.database, must_exist=True))


def reading(config: Config) -> AbstractContextManager[Context]:
    """Open the state of `config` read-only; write permission is not needed."""
    return _with(config, open_to_read(config.database))


@contextmanager
def elsewhere(config: Config) -> Iterator[Context]:
    """Open an empty state in a temporary folder, so that the service's folder is never created by another user."""
    with TemporaryDirectory(prefix="cachewatch-") as folder, _with(config, open_database(Path(folder))) as context:
        yield context


@contextmanager
def _with(config: Config, database: Database) -> Iterator[Context]:
    try:
        yield Context(config=config, database=database, log=open_log())
    finally:
        database.close()


# The option of `diff` for each key of `match:`.
_OPTION_OF = {
    "tags": "tag",
    "packages": "package",
    "stacks": "stack",
    "targets": "target",
    "oses": "os",
    "compilers": "compiler",
}


class _Looked(Struct, frozen=True):
    """The values in the newest revision of a source, as far as they were read, and the filters that match none."""

    source: str
    values: Values
    lacks: Asked
    all_tags: frozenset[str]


def unknown_filters(context: Context) -> Iterator[str]:
    """Yield a sentence for each source that cannot be read, each unknown `since:`, and each filter without a match."""
    matches = dict(_matches(context.config))
    looked: list[_Looked] = []
    for source in context.config.sources.values():
        asked = sorted({each for match in matches.values() if _sees(match, source) for each in _asked(match)})
        try:
            looked.append(_look(context, source, asked))
        except CachewatchError as error:
            yield f"sources.{source.name}: {_why_not(context, source, error)}; its filters were not checked"
            continue
        yield from _unknown_since(context, source)
        yield from _unknown(f"sources.{source.name}.tags", "tag", source.tags, _with_all_tags(looked[-1], source))
    for where, match in matches.items():
        seen = [each for each in looked if _sees(match, context.config.sources[each.source])]
        for key, name in _OPTION_OF.items():
            yield from _unknown(f"{where}.{key}", name, getattr(match, key), seen)


def _unknown_since(context: Context, source: Source) -> Iterator[str]:
    """Yield a sentence if `since:` is no revision of the source."""
    if source.since is not None:
        try:
            with closing(_open(context, source)) as repository:
                resolve_upstream(repository, source.since)
        except CachewatchError as error:
            yield f"sources.{source.name}.since: {error}"


def _matches(config: Config) -> Iterator[tuple[str, Match]]:
    for subscription in config.subscriptions.values():
        yield f"subscriptions.{subscription.name}.match", subscription.match
    for silence in config.silences:
        yield f"silences.{silence.name}.match", silence.match


def _sees(match: Match, source: Source) -> bool:
    return Globs(match.sources)(source.name)


def _asked(match: Match) -> Iterator[tuple[str, str]]:
    return ((name, pattern) for key, name in _OPTION_OF.items() for pattern in getattr(match, key))


def _why_not(context: Context, source: Source, error: CachewatchError) -> str:
    if context.clone_folder(source.name).exists() or _is_unfetched(context, source):
        return str(error)
    if source.address.startswith("/") and not Path(source.address).exists():
        return f"there is nothing at {source.address}; correct `git:`, or `cachewatch once` fails"
    return f"{_why_empty(source)}nothing has been fetched yet; run `cachewatch once` first"


def _why_empty(source: Source) -> str:
    """Return the beginning of a sentence on why a local folder has no documents; "" if it has, or is not local."""
    if source.type == "git" and is_plain(Path(source.address)):
        try:
            list_path(source.address, source.layout)
        except CachewatchError as error:
            return f"{error}; "
    return ""


def _open(context: Context, source: Source) -> Repository:
    """Open the clone of a source; before it was first fetched, the repository itself if it is on this machine."""
    if _is_unfetched(context, source):
        return Repository(Path(source.address), source.layout)
    return context.open_repository(source)


def _is_unfetched(context: Context, source: Source) -> bool:
    """Tell whether a source is a repository on this machine that was not fetched yet."""
    path = Path(source.address)
    is_repository = source.type == "git" and path.exists() and not is_plain(path)
    return is_repository and not context.clone_folder(source.name).exists()


def _with_all_tags(looked: _Looked, source: Source) -> Sequence[_Looked]:
    """Return `looked` with all tags of the source, to check the source's own `tags:`."""
    values = {"tag": set(looked.all_tags)}
    return [replace(looked, values=values, lacks=unmatched([("tag", pattern) for pattern in source.tags], values))]


def _unknown(where: str, name: str, patterns: Sequence[str], looked: Sequence[_Looked]) -> Iterator[str]:
    """Yield a sentence for each of `patterns` that matches nothing in any of these sources."""
    values = {name: {value for each in looked for value in each.values[name]}}
    sources = ", ".join(each.source for each in looked)
    for pattern in patterns:
        if looked and all((name, pattern) in each.lacks for each in looked):
            said = nothing_has(name, pattern, values, f"in the newest revision of {sources}")
            yield f"{where}: {pattern}: {said}"


def _look(context: Context, source: Source, asked: Asked) -> _Looked:
    """Read the newest revision of a source until all filters match something, beginning with the fastest reads."""
    with closing(_open(context, source)) as repository:
        branch = source.branch if isinstance(source, GitSource) else None
        newest = branch if branch and _is_unfetched(context, source) else "HEAD"
        revision = resolve(repository, newest)
        trees = tags_of(repository, revision).ids
        if not trees:
            raise UnknownRevision(nothing_found(repository, revision.commit, "HEAD"))
        watched = tag_names.in_order(filter(Globs(source.tags), trees))
        values: dict[str, set[str]] = {name: set() for name in (*_OPTION_OF.values(), *FACTS)}
        values["tag"].update(watched)
        values["package"].update(package for tag in watched for package in folders(repository, trees[tag]).ids)
        declared = stacks_of(repository, revision)
        values["stack"].update(stack for tag in watched for stack in declared.get(tag, ()))
        lacks = unmatched(asked, values)
        for tag in watched:
            if not any(name in FACTS for name, _ in lacks):
                break
            _read(repository, replace(revision, tag=tag), values)
            lacks = unmatched(lacks, values)
        return _Looked(source.name, values, lacks, frozenset(trees))


def _read(repository: Repository, revision: Revision, values: dict[str, set[str]]) -> None:
    """Add the values in the documents of one tag to `values`."""
    listing = list_revision(repository, revision, lambda _: True)
    for name, found in facts_of(list(listing.blobs.values()), listing.reader):
        values[name] |= found


_NEXT = 3
_FILTERS = ("tags", "packages", "stacks", "targets", "oses", "compilers")
_UNASKED = "whether the sources have what `since:` and filters name was not checked; `cachewatch config check --source` does that"


@click.group(cls=SuggestingGroup)
def config() -> None:
    """Check, show or try the configuration and templates."""


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
    write_lines(_report(config, now))
    for advice in advise(config, now.astimezone(ZoneInfo(config.timezone)).date()):
        click.echo(f"cachewatch: note: {advice}", err=True)
    if not is_source_asked and _has_filters(config):
        click.echo(f"cachewatch: note: {_UNASKED}", err=True)
    if is_source_asked:
        context.exit(2 if _warn_of_filters(config) and strict else 0)


def _has_filters(config: Config) -> bool:
    """Tell whether the configuration has a filter or `since:` that may not exist in the sources."""
    matches: list[Match] = [subscription.match for subscription in config.subscriptions.values()]
    matches += [silence.match for silence in config.silences]
    return any(source.tags or source.since for source in config.sources.values()) or any(
        getattr(match, key) for match in matches for key in _FILTERS
    )


def _warn_of_filters(config: Config) -> bool:
    """Print a warning for each filter that matches nothing in its sources; tell whether there were any."""
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
        write_json("config", {"config": shown_values(config)})
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
    """Render the user's own templates on sample data, to find undefined names before a digest is due."""
    if config.templates_dir is None:
        return

    for template in sorted({s.template or "digest.html.j2" for s in config.subscriptions.values()}):
        render_digest(sample_digest(), templates_dir=config.templates_dir, template=template)


def _check_environments(config: Config) -> None:
    """Read the environments that are watched; raise ConfigError for those that cannot be read."""
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
