"""The models of the whole configuration file, as immutable values; `reading_showing_warnings.py` makes them from a file."""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, ValidationInfo, create_model, model_validator

from cachewatch.config import value_types_and_secrets as types
from cachewatch.config.schedules_and_quiet_times import check_zone, parse_days, parse_when, quiet_until
from cachewatch.config.sections import ConfigContext, ConfigSection, checked, key, mistake, not_in_file, unknown
from cachewatch.config.sources_and_channels import MAIL_TYPES, Channels, Sources
from cachewatch.core.advice.urgency_and_levels import CAN_BE_URGENT
from cachewatch.core.filters_and_spec_patterns import DEFAULT, GROUPS, Globs, chosen_kinds, kinds_named
from cachewatch.core.kinds_and_specs import Kind
from cachewatch.errors import ConfigError
from cachewatch.hooks import Settings, extensions, models
from cachewatch.report.digest_and_message_values import USUAL_ROWS
from cachewatch.runtime.files_and_locks import shipped_template

_CRON = {"type": "object", "properties": {"cron": {"type": "string"}}, "required": ["cron"]}
_EXAMPLES = ["each revision", "daily 07:30", "weekly mon 07:30", "monthly 1 07:30"]
_SCHEDULE_SCHEMA = {"oneOf": [{"type": "string", "examples": _EXAMPLES}, _CRON | {"additionalProperties": False}]}


def _chosen(words: Iterable[str], _: ConfigContext) -> frozenset[Kind]:
    chosen = chosen_kinds(words)
    if not chosen:
        raise ConfigError("selects no kind of change; see `cachewatch help kinds`")
    return chosen


def _urgent(words: Iterable[str], context: ConfigContext) -> frozenset[Kind]:
    chosen = _chosen(words, context) & CAN_BE_URGENT
    if not chosen:
        remedy = "add one of gone, lost, place-lost, stack-lost, removed, tag-removed, suspicious"
        raise ConfigError(f"has nothing that is sent at once: that is what is gone, or suspicious; {remedy}")
    return chosen


def _cron(value: Any) -> Any:
    """Return a schedule that is a section, `{cron: 30 7 * * 1}`, as text, `cron: 30 7 * * 1`; others unchanged."""
    is_cron = isinstance(value, dict) and value.keys() == {"cron"} and isinstance(value["cron"], str)
    return f"cron: {value['cron']}" if is_cron else value


def _channel(name: str, context: ConfigContext) -> str:
    if name not in context.channels:
        raise ConfigError(f"there is no channel {name!r}; {unknown(name, context.channels)}")
    return name


def _source(pattern: str, context: ConfigContext) -> str:
    if not any(Globs([pattern.removeprefix("!")])(name) for name in context.sources):
        raise ConfigError(f"there is no source {pattern!r}; {unknown(pattern, context.sources)}")
    return pattern


def _template(name: str, context: ConfigContext) -> str:
    own = context.templates / name if context.templates else None
    if "/" in name or not name.endswith(".html.j2"):
        raise ConfigError(f"{name!r} is not a digest template; write a name that ends with .html.j2")
    if not (own and own.is_file()) and shipped_template(name) is None:
        where = f"in {context.templates} or " if context.templates else ""
        raise ConfigError(f"there is no template {name!r} {where}among cachewatch's own")
    return name


def _renamed_from(name: str, context: ConfigContext) -> str:
    if name in context.subscriptions:
        raise ConfigError(f"{name} is configured; write the name of a subscription that no longer exists")
    return name


def check_recipients(to: Iterable[str], channels: Iterable[str], context: ConfigContext) -> None:
    """Raise ConfigError if one of `channels` sends mail and `to` is empty, or if none does and `to` is not empty."""
    mails = [name for name in channels if context.channels.get(name) in MAIL_TYPES]
    if mails and not to:
        raise ConfigError(f"lacks `to:`: the channel {mails[0]} sends mail, and has to know to whom")
    if to and not mails:
        raise ConfigError("has `to:`, but none of its channels sends mail; add one to `channels:`")


_Change = Annotated[
    str,
    types.CheckedText(
        lambda text: kinds_named(text.removeprefix("+").removeprefix("-")),
        type="string",
        pattern=f"^[+-]?({'|'.join([*GROUPS, *Kind])})$",
    ),
]
Changes = Annotated[frozenset[Kind], types.ConvertedFrom(types.Several[_Change], _chosen)]
UrgentChanges = Annotated[frozenset[Kind], types.ConvertedFrom(types.Several[_Change], _urgent)]
When = Annotated[
    str, types.CheckedText(lambda text, file: parse_when(text, file.zone), **_SCHEDULE_SCHEMA), BeforeValidator(_cron)
]
ChannelNames = types.Once[Annotated[str, types.FromText(_channel)]]
Addresses = types.Once[types.Recipient]


Patterns = types.Several[types.Glob]


def _filter(about: str) -> Any:
    return key(about, (), if_left_out="all")


class Match(ConfigSection):
    """What is selected: all keys must match; one matching pattern of each key is enough; `!` excludes."""

    sources: types.Several[Annotated[types.Glob, types.FromText(_source)]] = _filter("names of sources")
    tags: Patterns = _filter("tags, such as `develop` or `v*`")
    packages: Patterns = _filter("names of packages, such as `py-*` or `!py-test*`")
    stacks: Patterns = _filter("stacks, such as `ml-linux-*`")
    targets: Patterns = _filter("targets, such as `x86_64_v3`")
    oses: Patterns = _filter("operating systems, such as `ubuntu*`")
    compilers: Patterns = _filter("compilers, such as `gcc` (every version of it) or `gcc@13*`")
    versions: types.Several[types.Range] = _filter("versions as Spack writes them: `@1.2:`, `@:2`, `@1.2.3`, `@=1.2`")


class SubscriptionMatch(Match):
    """What a subscription selects: all keys must match; one matching pattern of each key is enough; `!` excludes."""

    environment: types.PathInFolder | None = key(
        "a `spack.lock`, a `spack.yaml` or their folder: only the packages that the environment needs",
        None,
        if_left_out="packages of any environment",
    )
    pinned: types.Text | None = key(
        "a snapshot that you stay with, such as `develop-2025-06-01`; digests compare it with the newest",
        None,
        if_left_out="none",
    )


class Urgent(ConfigSection):
    """Which changes are also sent immediately, and through which channels."""

    changes: UrgentChanges = key("kinds of change that are urgent, if something is gone with them or is suspicious")
    channels: ChannelNames = key("channels that deliver urgent digests")
    to: Addresses = key("recipients of urgent mail", (), if_left_out="those of the subscription")


class Limit(ConfigSection):
    """How large a digest may be."""

    rows: Annotated[int, types.whole_number(1, 100_000)] = key("maximum lines of each list; files have all", USUAL_ROWS)
    hold_above: Annotated[int, types.whole_number(1, 10**9)] = key(
        "number of changed specs above which operators must confirm a digest", 5000
    )
    hold_for: types.DurationOrNever = key(
        "time that operators have to confirm it before the digest is sent as not confirmed, or `never`;"
        " urgent digests wait for an hour at most",
        timedelta(hours=24),
    )


class Subscription(ConfigSection):
    """Who is notified of what, and when."""

    name: str = not_in_file()
    description: types.Text = key("purpose of the subscription, which recipients see", "", if_left_out="none")
    to: Addresses = key(
        "addresses for channels that send mail, one message each: `kim@example.org` or `Kim Lee <kim@example.org>`",
        (),
        if_left_out="required for mail",
    )
    match: SubscriptionMatch = key("what the subscription selects", SubscriptionMatch(), if_left_out="everything")
    changes: Changes = key("kinds of change to report", DEFAULT, if_left_out="`[default]`")
    when: When = key("when digests are due", "each revision")
    urgent: Urgent | None = key(
        "which changes are also sent immediately, and through which channels", None, if_left_out="none"
    )
    channels: ChannelNames = key("channels that deliver the digests")
    if_empty: Literal["skip", "send", "monthly"] = key(
        "what happens if nothing changed: `skip` sends no digest, `send` sends an empty one,"
        " `monthly` does if the last one is a month old, to show that the service works",
        "skip",
    )
    renamed_from: Annotated[str | None, types.FromText(_renamed_from)] = key(
        "old name of the subscription; it continues where that one was. Remove this key afterwards",
        None,
        if_left_out="a new name begins at the newest revision, or at the `since:` of a source",
    )
    publish: bool = key(
        "`true` shows its digests to everybody, on the site that `cachewatch site --config` generates",
        False,
        if_left_out="`false`",
    )
    limit: Limit = key("how large a digest may be", Limit())
    template: Annotated[str | None, types.FromText(_template)] = key(
        "digest template in `templates_dir:`, such as `ours.html.j2`", None, if_left_out="cachewatch's own"
    )

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        if context := info.context:
            checked(check_recipients, self.to, self.channels, context)
            urgent = self.urgent
            if urgent is not None and any(context.channels[channel] in MAIL_TYPES for channel in urgent.channels):
                checked(check_recipients, urgent.to or self.to, urgent.channels, context)
        return self


class Silence(ConfigSection):
    """Changes that are hidden for a time."""

    name: str = not_in_file()
    match: Match = key("what the silence selects")
    changes: Changes | None = key("kinds of change to hide", None, if_left_out="all kinds")
    until: types.Day = key("first day on which the changes are reported again")
    reason: types.Text = key("reason for the silence, which recipients see")

    def is_active(self, day: date) -> bool:
        """Tell whether the silence is in force on `day`, in the time zone of the configuration."""
        return day < self.until

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        if info.context and self.match == Match():
            raise mistake("would silence everything; set in `match:` what to silence")
        return self


VERSION = "1"
_SYSTEM_STATE = Path("/var/lib/cachewatch")
_DEFAULT_STATE = "`$STATE_DIRECTORY`; for root `/var/lib/cachewatch` if that exists; else `~/.local/state/cachewatch`"


def _version(text: str) -> int:
    if text != VERSION:
        raise ConfigError(f"{text!r} is another version of this file than {VERSION}, the one this cachewatch reads")
    return int(text)


def _folder(text: str, context: ConfigContext) -> Path:
    path = types.path_in(context.folder, text)
    if not path.is_dir():
        raise ConfigError(f"{path} is not a folder; create it, or remove the line")
    return path


def _default_state() -> Path:
    if given := os.environ.get("STATE_DIRECTORY"):
        return Path(given.partition(":")[0])
    if os.geteuid() == 0 and _SYSTEM_STATE.is_dir():
        return _SYSTEM_STATE  # of a service, whose operator root is; nothing is created there unasked
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "cachewatch"


def _moment(text: str, context: ConfigContext) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a date; write 2026-12-24, or 2026-12-24T18:00") from error
    if not 2000 <= moment.year < 3000:
        raise ConfigError(f"{text!r} is not in this millennium")
    return moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(context.zone))


def _end(text: str, context: ConfigContext) -> datetime:
    """Return the end of quiet time in `text`: if it is a day, the moment after that day, or else the time itself."""
    moment = _moment(text, context)
    with suppress(ValueError):
        date.fromisoformat(text)
        moment += timedelta(days=1)  # it is a day
    return moment


class QuietTime(ConfigSection):
    """A time in which no digest is made; one digest reports the changes afterwards."""

    days: Annotated[frozenset[int], types.FromText(parse_days, type="string")] = key(
        "days of the week, such as `sat-sun` or `mon,wed`", frozenset(), if_left_out="all days"
    )
    start: Annotated[datetime | None, types.FromText(_moment, type="string")] = key(
        "first day or time, such as `2026-12-24` or `2026-12-24T18:00`", None, name="from", if_left_out="always"
    )
    end: Annotated[datetime | None, types.FromText(_end, type="string")] = key(
        "last day, which is included, or the time of the end", None, name="to", if_left_out="always"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.start is None) != (self.end is None) or not (self.days or self.start):
            raise mistake("needs `days:`, or `from:` and `to:`, or all of them")
        if self.start and self.end and self.start >= self.end:
            raise mistake("ends before it begins; write the earlier date at `from:`")
        return self


def _check_quiets(quiets: tuple[QuietTime, ...], info: ValidationInfo) -> tuple[QuietTime, ...]:
    zone = info.context.zone if info.context else "UTC"
    start = datetime(2026, 1, 1, tzinfo=ZoneInfo(zone))
    if quiet_until([quiet for quiet in quiets if not quiet.end], start, zone) - start > timedelta(days=30):
        raise mistake("covers every day of the week, so nothing would ever be sent")
    return quiets


class Operators(ConfigSection):
    """Who is notified of problems with cachewatch itself; recipients of digests never are."""

    channels: ChannelNames = key("channels that deliver alerts")
    to: Addresses = key("addresses for channels that send mail", (), if_left_out="required for mail")
    after_failures: Annotated[int, types.whole_number(1, 1000)] = key(
        "number of failures in a row of one source before operators are notified", 3
    )

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        if info.context:
            checked(check_recipients, self.to, self.channels, info.context)
        return self


class Monitor(types.WithSecrets):
    """The address of the health and metrics pages, and the URL to ping."""

    listen: types.Listen | None = key(
        "`host:port` for `/healthz`, `/readyz` and `/metrics`", None, if_left_out="nothing listens"
    )
    ping_url: types.SecretUrl | None = types.secret(
        "ping_url",
        "URL to ping after each pass without a failure; if it is one of healthchecks, `/fail` below it after the others",
        None,
    )


class Retention(ConfigSection):
    """How long the state keeps digests and the bytes of their messages."""

    payload: types.Duration = key(
        "how long the bytes of messages that were sent or dropped are kept; feeds keep theirs", timedelta(days=30)
    )
    metadata: types.Duration = key(
        "how long digests and the history of their deliveries are kept, and removed tags are remembered",
        timedelta(days=400),
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.metadata < self.payload:
            why = "bytes cannot be kept longer than what they belong to"
            raise mistake(f"`metadata:` is shorter than `payload:`; {why}")
        return self


class Config(types.WithSecrets):
    """The configuration of cachewatch."""

    path: Path = not_in_file()
    version: Annotated[int, types.FromText(_version, const=1)] = key("format of this file", 1)
    timezone: Annotated[str, types.FromText(check_zone)] = key(
        "time zone of schedules, days and dates, such as `Europe/Berlin`", "UTC"
    )
    state: Annotated[
        types.StatePlace, types.FromText(lambda text, file: types.state_named(text, file.folder), type="string")
    ] = key(
        "folder for clones, cursors and deliveries; refused if everybody may write in it, or if it belongs"
        " to another user; or the address of a PostgreSQL database for cursors and deliveries,"
        " such as `postgresql://cachewatch@db.example.org/cachewatch`",
        _default_state,
        if_left_out=_DEFAULT_STATE,
    )
    state_folder: types.PathInFolder = key(
        "folder of this host for clones, if `state:` is a database", _default_state, if_left_out=_DEFAULT_STATE
    )
    state_password: types.PasswordReadLater | None = types.secret("state_password", "password for the database", None)
    links: types.Web = key("base URL of links to the pages of the catalogue", "", if_left_out="no links")
    templates_dir: Annotated[Path | None, types.FromText(_folder, type="string")] = key(
        "folder of your own templates", None, if_left_out="cachewatch's own"
    )
    environment_folders: types.Several[types.PathInFolder] = key(
        "folders below which environments of subscriptions in `subscriptions.d` must lie", (), if_left_out="none"
    )
    sources: Sources = key("where revisions come from, by name")
    channels: Channels = key("where digests go, by name", {}, if_left_out="none")
    subscriptions: types.ByName[Subscription] = key(
        "who is notified of what, and when, by name", {}, if_left_out="none"
    )
    operators: Operators = key(
        "who is notified of problems with cachewatch itself", Operators(channels=()), if_left_out="nobody"
    )
    silences: Annotated[
        tuple[Silence, ...], types.ConvertedFrom(types.ByName[Silence], lambda entries, _: tuple(entries.values()))
    ] = key("changes that are hidden for a time, by name", (), if_left_out="none")
    quiet: Annotated[tuple[QuietTime, ...], types.OneOrMore(dict), AfterValidator(_check_quiets)] = key(
        "times in which no digest is made", (), if_left_out="none"
    )
    monitor: Monitor = key(
        "where health and metrics can be read, and which URL is pinged", Monitor(), if_left_out="neither"
    )
    retention: Retention = key("how long the state keeps what is done", Retention())

    @model_validator(mode="after")
    def _check(self) -> Self:
        own = {"state_password", "state_folder"} & self.model_fields_set
        if own and isinstance(self.state, Path):
            raise mistake(f"`{min(own)}:` is for a `state:` in a database, and this one is a folder; remove it")
        return self

    @property
    def folder(self) -> Path:
        """The folder in which this host keeps its clones and its lock."""
        return self.state if isinstance(self.state, Path) else self.state_folder

    @property
    def database(self) -> types.StatePlace:
        """The place of cursors and deliveries: a folder, or the address of a database with its password."""
        where = self.state
        return where if isinstance(where, Path) else types.PostgresAddress(where.url, self.state_password)


def _with_extensions() -> type[Config]:
    rows: Sequence[Settings] = [row for row in extensions().hook.settings() if row.type not in Config.model_fields]
    found, about = models(rows), {row.type: row.about for row in rows}
    fields: dict[str, Any] = {name: (each, key(about[name], each())) for name, each in found.items()}
    return create_model("WholeConfig", __base__=Config, __module__=__name__, **fields)


WholeConfig = _with_extensions()  # the model of the whole file, with the sections of extensions
