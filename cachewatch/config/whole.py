"""The whole file: its sections together, and what one must know of another."""

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from cachewatch.config.addresses import LISTEN, WEB, url_parser
from cachewatch.config.channels import CHANNELS
from cachewatch.config.forms import DURATIONS, PATH, Form, each, number, of_text
from cachewatch.config.model import Config, Monitor, Operators, Retention
from cachewatch.config.nodes import Broken, Context, Node
from cachewatch.config.secrets import secret_keys
from cachewatch.config.sources import SOURCES
from cachewatch.config.subscriptions import ADDRESSES, CHANNEL_NAMES, SILENCES, SUBSCRIPTIONS, check_recipients
from cachewatch.config.tables import Key, Table
from cachewatch.core.schedule import Quiet, check_zone, parse_days, quiet_until
from cachewatch.errors import ConfigError

VERSION = "1"


def _version(text: str) -> int:
    if text != VERSION:
        raise ConfigError(f"{text!r} is another version of this file than {VERSION}, the one this cachewatch reads")
    return int(text)


def _folder(node: Node, context: Context) -> Path:
    path: Path = PATH.read(node, context)
    if not path.is_dir():
        raise ConfigError(f"{path} is not a folder; create it, or remove the line")
    return path


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a date; write 2026-12-24, or 2026-12-24T18:00") from error
    if not 2000 <= moment.year < 3000:
        raise ConfigError(f"{text!r} is not in this millennium")
    return moment


def _end(text: str) -> datetime:
    """Return the first moment after a day or time that is still quiet."""
    moment = _moment(text)
    try:
        is_day = bool(date.fromisoformat(text))
    except ValueError:
        is_day = False
    return moment + timedelta(days=1) if is_day else moment


_QUIET = Table(
    "A time in which nothing is sent; what happens then is told afterwards",
    {
        "days": Key(of_text(parse_days), "days of the week: sat-sun, or mon,wed"),
        "from": Key(of_text(_moment), "first day, or moment (2026-12-24, 2026-12-24T18:00)", "start"),
        "to": Key(of_text(_end), "last day, or the moment of its end", "end"),
    },
    dict,
)


def _quiet(node: Node, context: Context) -> Quiet:
    values = _QUIET.read(node, context)
    zone = ZoneInfo(context.zone)
    for end in values.keys() & {"start", "end"}:
        values[end] = values[end] if values[end].tzinfo else values[end].replace(tzinfo=zone)
    if ("start" in values) != ("end" in values) or not values:
        raise ConfigError("needs `days:`, or `from:` and `to:`, or all of them")
    quiet = Quiet(zone=context.zone, **values)
    if quiet.start and quiet.end and quiet.start >= quiet.end:
        raise ConfigError("ends before it begins; write the earlier date at `from:`")
    return quiet


def _quiets(node: Node, context: Context) -> tuple[Quiet, ...]:
    quiets = each(_quiet, node.items() if not isinstance(node.value, Mapping) else (node,), context)
    start = datetime(2026, 1, 1, tzinfo=ZoneInfo(context.zone))
    if quiet_until([quiet for quiet in quiets if not quiet.end], start) - start > timedelta(days=30):
        raise ConfigError("covers every day of the week, so nothing would ever be sent")
    return quiets


def _operators(node: Node, context: Context) -> Operators:
    operators: Operators = _OPERATORS.read(node, context)
    check_recipients(operators.to, operators.channels, context)
    return operators


_OPERATORS = Table(
    "Who hears of trouble with cachewatch itself; readers never do",
    {
        "channels": Key(CHANNEL_NAMES, "where notices go", is_needed=True),
        "to": Key(ADDRESSES, "addresses that get them by mail"),
        "after_failures": Key(number(1, 1000), "how often a thing fails before they hear of it (3)"),
    },
    Operators,
)

_MONITOR = Table(
    "Where health and figures can be read, and who is pinged",
    {
        "listen": Key(LISTEN, "host:port for /healthz, /readyz and /metrics; nothing listens if left out"),
        **secret_keys("ping_url", "a URL that is fetched after each pass", url_parser("https", "http")),
    },
    Monitor,
)


def _make_retention(**values: timedelta) -> Retention:
    retention = Retention(**values)
    if retention.metadata < retention.payload:
        raise ConfigError(
            "`metadata:` is shorter than `payload:`; bytes cannot be kept longer than what they belong to"
        )
    return retention


_RETENTION = Table(
    "How long the state keeps what is done",
    {
        "payload": Key(DURATIONS, "the bytes of messages that were sent or dropped (30d)"),
        "metadata": Key(DURATIONS, "digests, and what became of their deliveries (400d)"),
    },
    _make_retention,
)

WHOLE = Table(
    "The configuration of cachewatch",
    {
        "version": Key(Form(lambda node, _: _version(node.text()), {"const": 1}), "version of this file's form: 1"),
        "timezone": Key(of_text(check_zone), "time zone of schedules and dates (UTC)"),
        "state": Key(PATH, "folder for what is remembered ($STATE_DIRECTORY, else one of the user's)"),
        "links": Key(WEB, "base of links to the catalogue's pages"),
        "templates_dir": Key(Form(_folder, {"type": "string"}), "folder of your own templates"),
        "sources": Key(SOURCES, "where revisions come from, by names", is_needed=True),
        "channels": Key(CHANNELS, "where digests go, by names"),
        "subscriptions": Key(SUBSCRIPTIONS, "who wants to hear of what, and when, by names"),
        "operators": Key(Form(_operators, _OPERATORS.schema()), _OPERATORS.about),
        "silences": Key(SILENCES, "changes that nobody should hear of for a time, by names"),
        "quiet": Key(
            Form(_quiets, {"oneOf": [_QUIET.schema(), {"type": "array", "items": _QUIET.schema()}]}),
            "times in which no digest is made",
        ),
        "monitor": Key(_MONITOR.form(), _MONITOR.about),
        "retention": Key(_RETENTION.form(), _RETENTION.about),
    },
    dict,
)


def read_whole(node: Node, context: Context) -> Config:
    """Make a Config of the file's tree, or raise ConfigError with all its mistakes."""
    try:
        _look_ahead(node.section(), context)
        values = WHOLE.read(node, context)
        values["silences"] = tuple(values.get("silences", {}).values())
        values.setdefault("state", _default_state())
        config = Config(path=node.file, **{"channels": {}, "subscriptions": {}, **values})
    except Broken:
        context.raise_mistakes()
        raise
    context.raise_mistakes()  # a key that stands twice breaks nothing, and is a mistake still
    return config


def _look_ahead(entries: Mapping[str, Node], context: Context) -> None:
    """Learn what sections refer to, whether or not those others are right."""

    def names(section: str) -> Mapping[str, Node]:
        value = entries[section].value if section in entries else None
        return value if isinstance(value, Mapping) else {}

    context.sources = frozenset(names("sources"))
    context.subscriptions = frozenset(names("subscriptions"))
    types = {
        name: node.value.get("type") for name, node in names("channels").items() if isinstance(node.value, Mapping)
    }
    context.channels = {name: str(node.value) if node else "" for name, node in types.items()}
    zone = entries.get("timezone")
    if zone is not None and isinstance(zone.value, str):
        with suppress(ConfigError):  # which is told when the key is read
            context.zone = check_zone(zone.value)
    templates = entries.get("templates_dir")
    if templates is not None and isinstance(templates.value, str):
        with suppress(ConfigError):
            context.templates = PATH.read(templates, context)


def _default_state() -> Path:
    if given := os.environ.get("STATE_DIRECTORY"):
        return Path(given.partition(":")[0])
    if os.geteuid() == 0:
        return Path("/var/lib/cachewatch")
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "cachewatch"
