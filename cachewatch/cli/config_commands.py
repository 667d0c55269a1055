"""The command `config`, and what commands use to read the configuration and to open its state."""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from functools import partial, wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import click
import msgspec
from msgspec.structs import replace

from cachewatch.cli import shared_options_and_filters as filters
from cachewatch.cli import terminal
from cachewatch.cli.help_and_exit_codes import SuggestingGroup, examples
from cachewatch.config import reading_showing_warnings as configs
from cachewatch.config.schedules_and_quiet_times import (
    Schedule,
    duration_in_words,
    minute,
    parse_when,
    quiet_until,
    second,
)
from cachewatch.config.settings_and_subscriptions import Config, Match
from cachewatch.config.sources_and_channels import Source
from cachewatch.config.value_types_and_secrets import parse_mail
from cachewatch.core.escaping_and_mentions import safe, safe_lines
from cachewatch.core.filters_and_spec_patterns import Globs, every_compiler
from cachewatch.core.names_and_layouts import did_you_mean, in_order
from cachewatch.environments import open_environment
from cachewatch.errors import CachewatchError, ConfigError, DeliveryError, TemplateError, UnknownRevision, UsageError
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import resolve, resolve_upstream
from cachewatch.git.tags_and_documents import list_revision, stacks_of, tags_of
from cachewatch.git.trees import folders, nothing_found
from cachewatch.operators.status_problems_explanations import explain_package
from cachewatch.report.dates_and_totals import how_long
from cachewatch.report.digest_and_message_values import DeliveryOutcome, Notice, RenderedDigest, open_channel
from cachewatch.report.digests.rendering_and_sizes import render_digest, render_notice
from cachewatch.report.template_rendering import render
from cachewatch.report.template_rendering import source as template_source
from cachewatch.report.words_file import entries, values_of
from cachewatch.runtime.log import open_log
from cachewatch.service.context_and_source_copies import Context, watched_copy
from cachewatch.service.streams_starts_silences import in_a_row
from cachewatch.store.schema import utc_now
from cachewatch.store.transactions_and_sqlite import Database, has_state, open_database, open_to_read

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


def configured(command: Callable[..., Any], *, with_secrets: bool = True) -> Callable[..., Any]:
    """Return `command` with the option --config; it gets the file as `config`, read with secrets if `with_secrets`."""

    @CONFIG_OPTION
    @wraps(command)
    def with_config(*arguments: Any, config_file: Path | None, **options: Any) -> Any:
        return command(*arguments, config=configs.read_config(config_file, with_secrets=with_secrets), **options)

    return with_config


# For commands that neither send nor fetch, so that they need no access to secrets.
configured_without_secrets = partial(configured, with_secrets=False)
log_format = click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", help="Format of log events on standard error."
)


def reading(config: Config) -> AbstractContextManager[Context]:
    """Return a context manager that yields a Context with the state of `config`, opened only to read, and closes it."""
    return working_on(config, open_to_read(config.database))


@contextmanager
def elsewhere(config: Config) -> Iterator[Context]:
    """Yield a Context with an empty state in a temporary folder; the state of `config` is not created or opened."""
    with TemporaryDirectory(prefix="cachewatch-") as folder, working_on(config, open_database(Path(folder))) as context:
        yield context


@contextmanager
def working_on(config: Config, database: Database) -> Iterator[Context]:
    """Yield a Context with the open `database`, and close the database at the end."""
    with closing(database):
        yield Context(config=config, database=database, log=open_log())


def page(template: str, now: datetime, **values: Any) -> list[str]:
    """Return `template` as lines for a terminal; texts in `values` are made harmless, times are relative to `now`."""
    plain = _harmless(msgspec.to_builtins(values, builtin_types=(datetime,)))
    times = {name: partial(show, zone=str(now.tzinfo)) for name, show in (("minute", minute), ("second", second))}
    return render(template, now=now, in_a_row=in_a_row, when=partial(_when, now=now), **times, **plain).splitlines()


def _harmless(value: Any) -> Any:
    if isinstance(value, dict):
        return {_harmless(key): _harmless(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_harmless, value))
    return safe(value) if isinstance(value, str) else value


def _when(moment: datetime | None, now: datetime) -> str:
    """Return `moment` in the zone of `now`, and how far it is from `now`: `... (2 hours ago)`; None becomes "never"."""
    if moment is None:
        return "never"
    distance = f"{how_long(now - moment)} ago" if moment <= now else f"in {how_long(moment - now)}"
    return f"{minute(moment, str(now.tzinfo))} ({distance})"


# The option of `diff` for each key of `match:` that is checked.
_OPTION_OF = {key: option for option, key in filters.SELECTED.items() if key != "versions"}


def unknown_filters(context: Context) -> Iterator[str]:
    """Yield a message for each unreadable source, each unknown `since:`, and each filter that matches nothing."""
    matches = _matches(context.config)
    seen: dict[str, filters.Values] = {}
    tags: dict[str, filters.Values] = {}  # all, watched or not
    for name, source in context.config.sources.items():
        own = [match for match in matches.values() if Globs(match.sources)(name)]
        asked = {(option, each) for match in own for key, option in _OPTION_OF.items() for each in getattr(match, key)}
        try:
            with _opened(context, source) as repository:
                all_tags, seen[name] = _look(repository, source, sorted(asked))
                yield from _unknown_since(repository, source)
        except CachewatchError as error:
            yield f"sources.{name}: {error}; its filters were not checked"
            continue
        tags[name] = {"tag": all_tags}
        yield from _unknown(f"sources.{name}.tags", "tag", source.tags, {name: tags[name]})
    for where, match in matches.items():
        of_match = {name: values for name, values in seen.items() if Globs(match.sources)(name)}
        for key, option in _OPTION_OF.items():
            yield from _unknown(f"{where}.{key}", option, getattr(match, key), of_match)
        if pin := getattr(match, "pinned", None):
            yield from _unknown(f"{where}.pinned", "tag", [pin], {name: tags[name] for name in of_match})


def _matches(config: Config) -> dict[str, Match]:
    """Return the filters of all subscriptions and silences, by their places in the configuration."""
    found: dict[str, Match] = {f"subscriptions.{name}.match": one.match for name, one in config.subscriptions.items()}
    return found | {f"silences.{one.name}.match": one.match for one in config.silences}


@contextmanager
def _opened(context: Context, source: Source) -> Iterator[Repository]:
    """Yield the copy of `source`, or a temporary copy of a local repository. Raises UsageError if there is neither."""
    watched = context.watched(source)
    with TemporaryDirectory(prefix="cachewatch-") as folder:
        if not context.clone_folder(source.name).exists():
            is_here = Path(source.address).exists()
            if source.address.startswith("/") and not is_here:
                raise UsageError(f"there is nothing at {source.address}; correct `git:`, or `cachewatch once` fails")
            if source.type != "git" or not is_here:
                raise UsageError("nothing has been fetched yet; run `cachewatch once` first")
            watched = watched_copy(source, Path(folder) / "clone.git")
            watched.update()
        with closing(watched.open()) as repository:
            yield repository


def _unknown_since(repository: Repository, source: Source) -> Iterator[str]:
    try:
        if source.since is not None:
            resolve_upstream(repository, source.since)
    except CachewatchError as error:
        # A local repository may have it all the same.
        fetched = "; the service fetches one branch alone, and tags of git" if source.type == "git" else ""
        yield f"sources.{source.name}.since: {error}{fetched if isinstance(error, UnknownRevision) else ''}"


def _unknown(where: str, option: str, patterns: Sequence[str], seen: Mapping[str, filters.Values]) -> Iterator[str]:
    """Yield a message for each of `patterns` that matches no value in `seen`.

    If each one alone matches a value, but all together select none, yield a single message about all `patterns`.
    `where` is the place of `patterns` in the configuration, `option` their filter; `seen` has values of each source.
    """
    if not seen or not patterns:
        return
    values = {option: {value for each in seen.values() for value in each[option]}}
    newest = f"in the newest revision of {', '.join(seen)}"
    alone = filters.unmatched([(option, each) for each in patterns], values)
    for _, pattern in alone:
        yield f"{where}: {pattern}: {filters.nothing_has(option, pattern, values, newest)}"
    together = Globs(every_compiler(patterns) if option == "compiler" else patterns)
    if not alone and not any(map(together, values[option])):
        yield f"{where}: {', '.join(patterns)}: no {option} matches all of this {newest}"


def _look(repository: Repository, source: Source, asked: filters.Asked) -> tuple[set[str], filters.Values]:
    """Return all tags of the newest revision of `source`, and the values that each filter finds in the watched tags.

    `asked` are pairs of a filter and a pattern; documents are read only as long as one of these pairs needs them.
    """
    revision = resolve(repository, "HEAD")
    trees = tags_of(repository, revision).ids
    if not trees:
        raise UnknownRevision(nothing_found(repository, revision.commit, "HEAD"))
    watched = in_order(filter(Globs(source.tags), trees))
    declared = stacks_of(repository, revision)
    values: dict[str, set[str]] = {name: set() for name in filters.SELECTED}
    values["tag"].update(watched)
    values["package"].update(package for tag in watched for package in folders(repository, trees[tag]).ids)
    values["stack"].update(stack for tag in watched for stack in declared.get(tag, ()))
    for tag in watched:
        excluding = [one for one in asked if one[1].startswith("!")]  # what they leave may be in any tag
        if not any(name in filters.FACTS for name, _ in (*filters.unmatched(asked, values), *excluding)):
            break
        listing = list_revision(repository, replace(revision, tag=tag), lambda _: True)
        filters.add_facts(values, list(listing.blobs.values()), listing.reader)
    return set(trees), values


@click.group(cls=SuggestingGroup)
def config() -> None:
    """Check, show or try the configuration and templates."""


@examples("cachewatch config check", "cachewatch config check --source --strict")
@config.command
@CONFIG_OPTION
@click.option("--no-secrets", is_flag=True, help="Do not read secrets (for machines that do not have them).")
@click.option(
    "--source",
    "is_source_asked",
    is_flag=True,
    help="Also warn about filters that match nothing in the sources, as fetched or on this machine, and a `since:` that is no revision.",
)
@click.option("--strict", is_flag=True, help="With --source, exit with 2 if there are warnings.")
def check(*, config_file: Path | None, no_secrets: bool, is_source_asked: bool, strict: bool) -> int:
    """Check the configuration file: list all mistakes, or summarize it.

    The summary lists sources, channels and subscriptions, and when each digest is due next.
    """
    if strict and not is_source_asked:
        raise UsageError("--strict requires --source")
    now = datetime.now(UTC)
    config = configs.read_config(config_file, with_secrets=not no_secrets)
    if config.templates_dir is not None:
        from cachewatch.cli.sample_digests import sample_digest  # noqa: PLC0415  `once` needs none

        # With sample data, to find undefined names before a digest is due.
        for template in sorted({each.template or "digest.html.j2" for each in config.subscriptions.values()}):
            render_digest(sample_digest(), templates_dir=config.templates_dir, template=template)
    _check_environments(config)
    terminal.write_lines(_report(config, now))
    for advice in configs.advise(config, now.astimezone(ZoneInfo(config.timezone)).date()):
        terminal.say(f"note: {advice}")
    if is_source_asked:
        with elsewhere(config) as context:
            unknown = list(unknown_filters(context))
        for each in unknown:
            terminal.warn(each)
        if not unknown:
            click.echo("filters: each matches something in the newest revisions")
        return 2 if unknown and strict else 0
    filtered = any(getattr(match, key) for match in _matches(config).values() for key in _OPTION_OF)
    if filtered or any(source.tags or source.since for source in config.sources.values()):
        what = "whether the sources have what `since:` and filters name"
        terminal.say(f"note: {what} was not checked; `cachewatch config check --source` does that")
    return 0


@examples("cachewatch config show", "cachewatch config show --config /etc/cachewatch/cachewatch.yaml")
@config.command
@configured_without_secrets
@terminal.FORMAT_OPTION
def show(*, config: Config, format_: str) -> None:
    """Print the effective configuration, with defaults and with secrets masked."""
    if format_ == "json":
        terminal.write_json("config", {"config": configs.shown_values(config)})
    else:
        terminal.write_text(configs.show_config(config))


@examples("cachewatch config schema > cachewatch.schema.json", "cachewatch config schema | jq '.properties | keys'")
@config.command
def schema() -> None:
    """Print the JSON Schema of the configuration file, for editors."""
    click.echo(configs.json_schema(), nl=False)


def _check_environments(config: Config) -> None:
    """Raise ConfigError if environments of subscriptions cannot be read; its message names all of them."""
    mistakes = []
    for name, subscription in config.subscriptions.items():
        try:
            if subscription.match.environment is not None:
                open_environment(subscription.match.environment, config.environment_folders)
        except UsageError as error:
            mistakes.append(f"{config.path}: subscriptions.{name}.match.environment: {error}")
    if mistakes:
        raise ConfigError("\n".join(mistakes))


def _report(config: Config, now: datetime) -> list[str]:
    """Return a summary of `config` as lines, with the times after `now` when digests are due next."""

    def users(channel: str) -> list[str]:
        names = [each.name for each in config.subscriptions.values() if channel in configs.channels_of(each)]
        return [*names, "operators"] if channel in config.operators.channels else names

    def due(schedule: Schedule) -> list[str]:
        dates, slot = list[str](), schedule.next_after(now)
        while slot is not None and len(dates) < 3:
            times = (slot, quiet_until(config.quiet, slot, config.timezone))
            planned, sent = (f"{each.astimezone(ZoneInfo(config.timezone)):%a %Y-%m-%d %H:%M}" for each in times)
            dates.append(planned if planned == sent else f"{planned} (quiet, sent {sent})")
            slot = schedule.next_after(slot)
        return dates

    words = {"users": users, "due": due, "schedule_of": partial(parse_when, zone=config.timezone)}
    return render("check.txt.j2", config=config, in_words=duration_in_words, **words).splitlines()


@examples("cachewatch config test mail", "cachewatch config test mail --to you@example.org")
@click.command
@configured
@click.argument("channel", shell_complete=filters.completing("channels"))
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
    opened, now = open_channel(config.channels[channel]), utc_now()
    notice = Notice(
        key=f"test-{now:%Y%m%dT%H%M%S%f}",
        title="this is a test",
        is_test=True,
        said=(f"The channel {channel} works.", "No action is required."),
        created=now,
        zone=config.timezone,
    )
    messages = opened.build_messages(render_notice(notice, to=to or config.operators.to))
    if not messages:
        raise UsageError(f"no recipients: use --to ADDRESS, or set `operators: to:` in {config.path}")
    failed = []
    with opened.open(lambda *_: ()) as transport:
        for message in messages:
            answer = transport.deliver(message)
            click.echo(f"{message.target}: {answer.outcome}{': ' + safe(answer.detail) if answer.detail else ''}")
            failed += [] if answer.outcome is DeliveryOutcome.SENT else [message.target]
    if failed:
        what = f"the test message did not reach {', '.join(failed)}, and is not tried again"
        raise DeliveryError(f"{what}; fix `channels: {channel}:` in {config.path}")


@examples(
    "cachewatch config explain py-torch", "cachewatch config explain hdf5 --config /etc/cachewatch/cachewatch.yaml"
)
@click.command
@configured_without_secrets
@click.argument("package", shell_complete=filters.completing("packages"))
@terminal.FORMAT_OPTION
def explain(*, config: Config, package: str, format_: str) -> None:
    """Show which subscriptions report changes of PACKAGE.

    Lists why, when and through which channels; and for the other subscriptions, why not.
    """
    # Before the first pass there is no state.
    with (reading if has_state(config.database) else elsewhere)(config) as context:
        answers, names = explain_package(context, package)
    if names and package not in names:
        terminal.warn(f"no source has a package {package} now{did_you_mean(package, sorted(names))}")
    if format_ == "json":
        terminal.write_json("explain", answers)
    else:
        terminal.write_lines(page("explain.txt.j2", utc_now(), answers=answers))


# The built-in files that users can override, and their purposes.
_TEMPLATES = {
    "digest.html.j2": "the mail, as HTML",
    "digest.txt.j2": "the mail, as text",
    "digest.md.j2": "for files, as Markdown",
    "digest.chat.j2": "the bullets of a chat message, one on each line",
    "digest.subject.j2": "the subject, behind the name of the subscription; also the title elsewhere",
    "digest.feed.html.j2": "the entry of a feed",
    "digest.page.html.j2": "the page in an archive, which is never cut",
    "notice.html.j2": "alerts to operators, as HTML",
    "notice.txt.j2": "alerts to operators, as text",
    "notice.md.j2": "alerts to operators, as Markdown",
    "notice.chat.j2": "alerts to operators, as bullets of a chat message",
    "notice.feed.html.j2": "alerts to operators, as the entry of a feed",
    "words.toml": "every sentence of digests; your file replaces single entries",
    "theme.toml": "colours, name, logo and last sentence; your file replaces single entries",
    "_header.html.j2": "above the headline: the name and logo of the theme",
    "_style.html.j2": "widths, and colours in the dark, that e-mail clients accept",
    "_lead.html.j2": "below the headline: what to do, what happened, what is still open",
    "_lists.html.j2": "the table",
    "_footer.html.j2": "the period, why the recipient gets this, how to unsubscribe",
    "_page.css.j2": "the style of pages",
    "_page.js.j2": "the filter of pages",
}


def _own(folder: Path | None) -> set[str]:
    return {file.name for file in folder.iterdir() if file.suffix in (".j2", ".toml")} if folder else set()


TEMPLATES_OPTION = click.option(
    "--templates-dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Folder of your own templates (in place of `templates_dir:` of the configuration).",
)


def _of_own_templates(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return `command` with --templates-dir, whose default is `templates_dir:` of the configuration, or None."""

    @TEMPLATES_OPTION
    @CONFIG_OPTION
    @wraps(command)
    def with_templates(*arguments: Any, templates_dir: Path | None, config_file: Path | None, **options: Any) -> Any:
        if templates_dir is None and (file := config_file or configs.usual_config()):
            templates_dir = configs.read_config(file, with_secrets=False).templates_dir
        return command(*arguments, templates_dir=templates_dir, **options)

    return with_templates


@click.group(cls=SuggestingGroup)
def template() -> None:
    """List, print, render and check message templates."""


@examples("cachewatch config template list", "cachewatch config template list --templates-dir templates")
@template.command("list")
@_of_own_templates
@terminal.FORMAT_OPTION
def list_templates(*, templates_dir: Path | None, format_: str) -> None:
    """List all templates; a * marks those that DIR, or `templates_dir:` of the configuration, overrides or adds."""
    own = _own(templates_dir)
    purposes = {**_TEMPLATES, **dict.fromkeys(sorted(own - _TEMPLATES.keys()), "your own")}
    if format_ == "json":
        rows = [{"name": name, "purpose": said, "own": name in own} for name, said in purposes.items()]
        terminal.write_json("templates", rows)
        return
    terminal.write_lines(f"{'*' if name in own else ' '} {safe(name):<20} {said}" for name, said in purposes.items())


@examples(
    "cachewatch config template show digest.html.j2",
    "cachewatch config template show _footer.html.j2 > templates/_footer.html.j2",
)
@template.command("show")
@click.argument("name")
@TEMPLATES_OPTION
def show_template(*, name: str, templates_dir: Path | None) -> None:
    """Print one of cachewatch's own templates, as a starting point, or with --templates-dir one of that folder."""
    if (shown := template_source(name, templates_dir)) is None:
        raise UsageError(f"no template {name}; see `cachewatch config template list`")
    terminal.write([shown[0].encode()], None)


@examples(
    "cachewatch config template render digest.html.j2 -o digest.html",
    "cachewatch config template render notice.txt.j2 --templates-dir templates",
)
@template.command("render")
@click.argument("name")
@_of_own_templates
@terminal.OUTPUT_OPTION
def render_template(*, name: str, templates_dir: Path | None, output: str | None) -> None:
    """Render a template with sample data.

    NAME is digest.html.j2, notice.txt.j2 or the like, or one of your own templates.
    """
    terminal.write([_rendered(name, templates_dir).encode()], output)


@examples(
    "cachewatch config template diff", "cachewatch config template diff --templates-dir templates -o changes.diff"
)
@template.command("diff")
@_of_own_templates
@terminal.OUTPUT_OPTION
def diff_templates(*, templates_dir: Path | None, output: str | None) -> None:
    """Show in what your templates differ from cachewatch's own, as `diff -u` does."""
    if templates_dir is None:
        remedy = "name their folder by --templates-dir, or in `templates_dir:`"
        raise UsageError(f"there are no templates of your own; {remedy}")
    lines: list[str] = []
    for name in sorted(_own(templates_dir)):
        ours, theirs = template_source(name), template_source(name, templates_dir)
        if ours and theirs and name.endswith(".toml"):
            before, after = (
                [safe(f"{'.'.join((*path, key))} = {value!r}") for path, key, value in values_of(entries(name, folder))]
                for folder in (None, templates_dir)
            )
            lines += difflib.unified_diff(before, after, f"cachewatch/{name}", theirs[1], n=0, lineterm="")
        elif ours and theirs:
            before, after = ours[0].splitlines(), theirs[0].splitlines()
            lines += difflib.unified_diff(before, after, f"cachewatch/{name}", theirs[1], lineterm="")
    terminal.write_lines(lines, output)


@examples("cachewatch config template check", "cachewatch config template check --templates-dir templates")
@template.command("check")
@_of_own_templates
def check_templates(*, templates_dir: Path | None) -> int:
    """Render every template with sample data, and report each mistake once."""
    whole = {name for name in _TEMPLATES.keys() | _own(templates_dir) if name[0] != "_" and name.endswith(".j2")}
    mistakes: set[str] = set()
    for name in sorted(whole):
        try:
            _rendered(name, templates_dir, only=name)
        except TemplateError as error:
            if str(error) not in mistakes:  # several templates have the same part
                terminal.tell(f"cachewatch: {safe_lines(str(error))}")
            mistakes.add(str(error))
            click.echo(f"{safe(name)}: wrong")
        else:
            click.echo(f"{safe(name)}: ok")
    return TemplateError.exit_code if mistakes else 0


def _rendered(name: str, folder: Path | None, only: str = "") -> str:
    from cachewatch.cli.sample_digests import sample_digest, sample_notice  # noqa: PLC0415  as above

    base, _, form = name.removesuffix(".j2").partition(".")
    forms: dict[str, Callable[[RenderedDigest], str]] = {
        "html": lambda digest: digest.html,
        "txt": lambda digest: digest.text,
        "md": lambda digest: digest.markdown,
        "chat": lambda digest: "".join(f"{bullet}\n" for bullet in digest.bullets),
        "subject": lambda digest: f"{digest.title}\n",
        "feed.html": lambda digest: digest.feed,
        "page.html": lambda digest: digest.page,
    }
    if form not in forms or not base or name.startswith("_"):
        whole = "only whole templates such as digest.html.j2 can be rendered"
        raise UsageError(f"{name}: {whole}; parts are rendered as part of them")
    if base == "notice":
        return forms[form](render_notice(sample_notice(), templates_dir=folder, only=only))
    return forms[form](render_digest(sample_digest(), templates_dir=folder, template=f"{base}.html.j2", only=only))
