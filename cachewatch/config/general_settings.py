"""The whole configuration file as immutable values. `reading.py` makes them from a file and lists all mistakes."""

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, ValidationInfo, create_model, model_validator

from cachewatch.config.channels import Channels
from cachewatch.config.schedules_and_dates import Quiet, check_zone, parse_days, quiet_until
from cachewatch.config.sections_and_mistakes import ConfigContext, ConfigSection, checked, key, mistake, not_in_file
from cachewatch.config.sources_and_polling import Sources
from cachewatch.config.subscriptions import Addresses, ChannelNames, Silence, Subscription, check_recipients
from cachewatch.config.value_types_and_secrets import (
    ByName,
    ConvertedFrom,
    Duration,
    FromText,
    Listen,
    OneOrMore,
    PasswordReadLater,
    PathInFolder,
    PostgresAddress,
    SecretUrl,
    Several,
    StatePlace,
    Web,
    WithSecrets,
    path_in,
    secret,
    state_named,
    whole_number,
)
from cachewatch.errors import ConfigError
from cachewatch.hooks import Settings, extensions, models

VERSION = "1"
_SYSTEM_STATE = Path("/var/lib/cachewatch")
_DEFAULT_STATE = "`$STATE_DIRECTORY`; for root `/var/lib/cachewatch` if that exists; else `~/.local/state/cachewatch`"


def _version(text: str) -> int:
    if text != VERSION:
        raise ConfigError(f"{text!r} is another version of this file than {VERSION}, the one this cachewatch reads")
    return int(text)


def _folder(text: str, context: ConfigContext) -> Path:
    path = path_in(context.folder, text)
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
    """Return the first moment after a quiet day or time."""
    moment = _moment(text, context)
    with suppress(ValueError):
        date.fromisoformat(text)
        moment += timedelta(days=1)  # it is a day
    return moment


class QuietTime(ConfigSection):
    """A time in which no digest is made; one digest reports the changes afterwards."""

    days: Annotated[frozenset[int], FromText(parse_days, type="string")] = key(
        "days of the week, such as `sat-sun` or `mon,wed`", frozenset(), if_left_out="all days"
    )
    start: Annotated[datetime | None, FromText(_moment, type="string")] = key(
        "first day or time, such as `2026-12-24` or `2026-12-24T18:00`", None, name="from", if_left_out="always"
    )
    end: Annotated[datetime | None, FromText(_end, type="string")] = key(
        "last day, which is included, or the time of the end", None, name="to", if_left_out="always"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.start is None) != (self.end is None) or not (self.days or self.start):
            raise mistake("needs `days:`, or `from:` and `to:`, or all of them")
        if self.start and self.end and self.start >= self.end:
            raise mistake("ends before it begins; write the earlier date at `from:`")
        return self


def _check_quiets(quiets: tuple[Quiet, ...], info: ValidationInfo) -> tuple[Quiet, ...]:
    start = datetime(2026, 1, 1, tzinfo=ZoneInfo(info.context.zone if info.context else "UTC"))
    if quiet_until([quiet for quiet in quiets if not quiet.end], start) - start > timedelta(days=30):
        raise mistake("covers every day of the week, so nothing would ever be sent")
    return quiets


class Operators(ConfigSection):
    """Who is notified of problems with cachewatch itself; recipients of digests never are."""

    channels: ChannelNames = key("channels that deliver alerts")
    to: Addresses = key("addresses for channels that send mail", (), if_left_out="required for mail")
    after_failures: Annotated[int, whole_number(1, 1000)] = key(
        "number of failures in a row of one source before operators are notified", 3
    )

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        if info.context:
            checked(check_recipients, self.to, self.channels, info.context)
        return self


class Monitor(WithSecrets):
    """The address of the health and metrics pages, and the URL to ping."""

    listen: Listen | None = key(
        "`host:port` for `/healthz`, `/readyz` and `/metrics`", None, if_left_out="nothing listens"
    )
    ping_url: SecretUrl | None = secret(
        "ping_url",
        "URL to ping after each pass without a failure; if it is one of healthchecks, `/fail` below it after the others",
        None,
    )


class Retention(ConfigSection):
    """How long the state keeps digests and the bytes of their messages."""

    payload: Duration = key(
        "how long the bytes of messages that were sent or dropped are kept; feeds keep theirs", timedelta(days=30)
    )
    metadata: Duration = key(
        "how long digests and the history of their deliveries are kept, and removed tags are remembered",
        timedelta(days=400),
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.metadata < self.payload:
            raise mistake(
                "`metadata:` is shorter than `payload:`; bytes cannot be kept longer than what they belong to"
            )
        return self


class Config(WithSecrets):
    """The configuration of cachewatch."""

    path: Path = not_in_file()
    version: Annotated[int, FromText(_version, const=1)] = key("format of this file", 1)
    timezone: Annotated[str, FromText(check_zone)] = key(
        "time zone of schedules, days and dates, such as `Europe/Berlin`", "UTC"
    )
    state: Annotated[StatePlace, FromText(lambda text, file: state_named(text, file.folder), type="string")] = key(
        "folder for clones, cursors and deliveries; refused if everybody may write in it, or if it belongs"
        " to another user; or the address of a PostgreSQL database for cursors and deliveries,"
        " such as `postgresql://cachewatch@db.example.org/cachewatch`",
        _default_state,
        if_left_out=_DEFAULT_STATE,
    )
    state_folder: PathInFolder = key(
        "folder of this host for clones, if `state:` is a database", _default_state, if_left_out=_DEFAULT_STATE
    )
    state_password: PasswordReadLater | None = secret("state_password", "password for the database", None)
    links: Web = key("base URL of links to the pages of the catalogue", "", if_left_out="no links")
    templates_dir: Annotated[Path | None, FromText(_folder, type="string")] = key(
        "folder of your own templates", None, if_left_out="cachewatch's own"
    )
    environment_folders: Several[PathInFolder] = key(
        "folders below which environments of subscriptions in `subscriptions.d` must lie", (), if_left_out="none"
    )
    sources: Sources = key("where revisions come from, by name")
    channels: Channels = key("where digests go, by name", {}, if_left_out="none")
    subscriptions: ByName[Subscription] = key("who is notified of what, and when, by name", {}, if_left_out="none")
    operators: Operators = key(
        "who is notified of problems with cachewatch itself", Operators(channels=()), if_left_out="nobody"
    )
    silences: Annotated[
        tuple[Silence, ...], ConvertedFrom(ByName[Silence], lambda entries, _: tuple(entries.values()))
    ] = key("changes that are hidden for a time, by name", (), if_left_out="none")
    quiet: Annotated[
        tuple[Annotated[Quiet, ConvertedFrom(QuietTime, lambda time, file: Quiet(zone=file.zone, **dict(time)))], ...],
        OneOrMore(dict),
        AfterValidator(_check_quiets),
    ] = key("times in which no digest is made", (), if_left_out="none")
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
    def database(self) -> StatePlace:
        """The place of cursors and deliveries: a folder, or the address of a database with its password."""
        return self.state if isinstance(self.state, Path) else PostgresAddress(self.state.url, self.state_password)


def _with_extensions() -> type[Config]:
    rows: Sequence[Settings] = [row for row in extensions().hook.settings() if row.type not in Config.model_fields]
    found, about = models(rows), {row.type: row.about for row in rows}
    fields: dict[str, Any] = {name: (each, key(about[name], each())) for name, each in found.items()}
    return create_model("WholeConfig", __base__=Config, __module__=__name__, **fields)


WholeConfig = _with_extensions()  # the model of the whole file, with the sections of extensions
