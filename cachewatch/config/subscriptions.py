"""The sections `subscriptions:` and `silences:`: who is notified of what and when, and which changes are hidden."""

from collections.abc import Iterable
from datetime import date, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ValidationInfo, model_validator

from cachewatch.config.channels import MAIL_TYPES
from cachewatch.config.schedules_and_dates import parse_when
from cachewatch.config.sections_and_mistakes import (
    ConfigContext,
    ConfigSection,
    checked,
    key,
    mistake,
    not_in_file,
    unknown,
)
from cachewatch.config.value_types_and_secrets import (
    ConvertedFrom,
    Day,
    DurationOrNever,
    FromText,
    Glob,
    Once,
    PathInFolder,
    Range,
    Recipient,
    Several,
    Text,
    whole_number,
)
from cachewatch.core.advice.urgency_and_levels import CAN_BE_URGENT
from cachewatch.core.filters_and_default_kinds import DEFAULT, GROUPS, Globs, chosen_kinds, kinds_named
from cachewatch.core.model import Kind
from cachewatch.errors import ConfigError
from cachewatch.report.digest_and_message_values import USUAL_ROWS
from cachewatch.runtime.files_and_locks import shipped_template

_CRON = {"type": "object", "properties": {"cron": {"type": "string"}}, "required": ["cron"]}
_EXAMPLES = ["each revision", "daily 07:30", "weekly mon 07:30", "monthly 1 07:30"]
_SCHEDULE_SCHEMA = {"oneOf": [{"type": "string", "examples": _EXAMPLES}, _CRON | {"additionalProperties": False}]}


def _change(text: str) -> str:
    kinds_named(text.removeprefix("+").removeprefix("-"))
    return text


def _chosen(words: Iterable[str], _: ConfigContext) -> frozenset[Kind]:
    chosen = chosen_kinds(words)
    if not chosen:
        raise ConfigError("selects no kind of change; see `cachewatch help kinds`")
    return chosen


def _urgent(words: Iterable[str], context: ConfigContext) -> frozenset[Kind]:
    chosen = _chosen(words, context)
    if chosen.isdisjoint(CAN_BE_URGENT):
        raise ConfigError(
            "has nothing that is sent at once: that is what is gone, or suspicious; "
            "add one of gone, lost, place-lost, stack-lost, removed, tag-removed, suspicious"
        )
    return chosen


def _cron(value: Any) -> Any:
    """Turn `when: {cron: 30 7 * * 1}`, a schedule written as a section, into the text `cron: 30 7 * * 1`."""
    is_cron = isinstance(value, dict) and value.keys() == {"cron"} and isinstance(value["cron"], str)
    return f"cron: {value['cron']}" if is_cron else value


def _when(text: str, context: ConfigContext) -> str:
    parse_when(text, context.zone)
    return text


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
    """Raise ConfigError if channels send mail and `to` is empty, or the other way round."""
    mails = [name for name in channels if context.channels.get(name) in MAIL_TYPES]
    if mails and not to:
        raise ConfigError(f"lacks `to:`: the channel {mails[0]} sends mail, and has to know to whom")
    if to and not mails:
        raise ConfigError("has `to:`, but none of its channels sends mail; add one to `channels:`")


_Change = Annotated[str, FromText(_change, type="string", pattern=f"^[+-]?({'|'.join([*GROUPS, *Kind])})$")]
Changes = Annotated[frozenset[Kind], ConvertedFrom(Several[_Change], _chosen)]
UrgentChanges = Annotated[frozenset[Kind], ConvertedFrom(Several[_Change], _urgent)]
When = Annotated[str, FromText(_when, **_SCHEDULE_SCHEMA), BeforeValidator(_cron)]
ChannelNames = Once[Annotated[str, FromText(_channel)]]
Addresses = Once[Recipient]


class Match(ConfigSection):
    """What is selected: all keys must match; one matching pattern of each key is enough; `!` excludes."""

    sources: Several[Annotated[Glob, FromText(_source)]] = key("names of sources", (), if_left_out="all")
    tags: Several[Glob] = key("tags, such as `develop` or `v*`", (), if_left_out="all")
    packages: Several[Glob] = key("names of packages, such as `py-*` or `!py-test*`", (), if_left_out="all")
    stacks: Several[Glob] = key("stacks, such as `ml-linux-*`", (), if_left_out="all")
    targets: Several[Glob] = key("targets, such as `x86_64_v3`", (), if_left_out="all")
    oses: Several[Glob] = key("operating systems, such as `ubuntu*`", (), if_left_out="all")
    compilers: Several[Glob] = key("compilers, such as `gcc` (every version of it) or `gcc@13*`", (), if_left_out="all")
    versions: Several[Range] = key(
        "versions as Spack writes them: `@1.2:`, `@:2`, `@1.2.3`, `@=1.2`", (), if_left_out="all"
    )


class SubscriptionMatch(Match):
    """What a subscription selects: all keys must match; one matching pattern of each key is enough; `!` excludes."""

    environment: PathInFolder | None = key(
        "a `spack.lock`, a `spack.yaml` or their folder: only the packages that the environment needs",
        None,
        if_left_out="packages of any environment",
    )
    pinned: Text | None = key(
        "a snapshot that you stay with, such as `develop-2025-06-01`; digests compare it with the newest",
        None,
        if_left_out="none",
    )


class Urgent(ConfigSection):
    """Kinds of change that are also sent immediately."""

    changes: UrgentChanges = key("kinds of change that are urgent, if something is gone with them or is suspicious")
    channels: ChannelNames = key("channels that deliver urgent digests")
    to: Addresses = key("recipients of urgent mail", (), if_left_out="those of the subscription")


class Limit(ConfigSection):
    """How large a digest may be."""

    rows: Annotated[int, whole_number(1, 100_000)] = key("maximum lines of each list; files have all", USUAL_ROWS)
    hold_above: Annotated[int, whole_number(1, 10**9)] = key(
        "number of changed specs above which operators must confirm a digest", 5000
    )
    hold_for: DurationOrNever = key(
        "time that operators have to confirm it before the digest is sent as not confirmed, or `never`;"
        " urgent digests wait for an hour at most",
        timedelta(hours=24),
    )


class Subscription(ConfigSection):
    """Who is notified of what, and when."""

    name: str = not_in_file()
    description: Text = key("purpose of the subscription, which recipients see", "", if_left_out="none")
    to: Addresses = key(
        "addresses for channels that send mail, one message each: `kim@example.org` or `Kim Lee <kim@example.org>`",
        (),
        if_left_out="required for mail",
    )
    match: SubscriptionMatch = key("what the subscription selects", SubscriptionMatch(), if_left_out="everything")
    changes: Changes = key("kinds of change to report", DEFAULT, if_left_out="`[default]`")
    when: When = key("when digests are due", "each revision")
    urgent: Urgent | None = key("kinds of change that are also sent immediately", None, if_left_out="none")
    channels: ChannelNames = key("channels that deliver the digests")
    if_empty: Literal["skip", "send", "monthly"] = key(
        "what happens if nothing changed: `skip` sends no digest, `send` sends an empty one,"
        " `monthly` does if the last one is a month old, to show that the service works",
        "skip",
    )
    renamed_from: Annotated[str | None, FromText(_renamed_from)] = key(
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
    template: Annotated[str | None, FromText(_template)] = key(
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
    until: Day = key("first day on which the changes are reported again")
    reason: Text = key("reason for the silence, which recipients see")

    def is_active(self, day: date) -> bool:
        """Tell whether the silence is in force on `day`, in the time zone of the configuration."""
        return day < self.until

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        if info.context and self.match == Match():
            raise mistake("would silence everything; set in `match:` what to silence")
        return self
