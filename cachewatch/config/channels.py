"""`channels:` where digests go, and what each way out wants to know."""

from collections.abc import Mapping
from importlib.util import find_spec
from os.path import normpath
from typing import Any

from cachewatch.config.addresses import HOST, MAIL, SENDER, UNSUBSCRIBE, is_loopback, url_parser
from cachewatch.config.forms import (
    DURATIONS,
    MODE,
    PATH,
    SIZES,
    TEXT,
    Form,
    Schema,
    choice,
    list_of,
    number,
    template,
)
from cachewatch.config.model import (
    AppriseConfig,
    ChannelConfig,
    EmailConfig,
    FeedConfig,
    FileConfig,
    MaildirConfig,
    Retry,
    Secret,
    SendmailConfig,
    Smtp,
    WebhookConfig,
)
from cachewatch.config.nodes import Broken, Context, Node, unknown
from cachewatch.config.secrets import secret_keys
from cachewatch.config.tables import Key, Table, named
from cachewatch.errors import ConfigError

_PORTS = {"starttls": 587, "tls": 465, "none": 25}
_LEAST_HTML = 10_000
MAIL_TYPES = ("email", "sendmail", "maildir")


def _make_smtp(**values: Any) -> Smtp:
    security = values.get("security", "starttls")
    values.setdefault("port", _PORTS[security])
    if ("user" in values) != ("password" in values):
        raise ConfigError("`user:` and `password_file:` belong together; set both or neither")
    if security == "none" and "user" in values and not is_loopback(values["host"]):
        raise ConfigError("would send the password unencrypted; use `security: starttls` or tls")
    return Smtp(**values)


def _make_file(**values: Any) -> FileConfig:
    if len(values.get("formats", ())) > 1 and "{ext}" not in values["path"]:
        raise ConfigError("writes several formats into one file; put {ext} into `path:`")
    if "keep" in values and "{period}" not in values["path"]:
        raise ConfigError(
            "removes files by their age (`keep:`), so `path:` must contain the period; put {period} into it"
        )
    return FileConfig(**values)


def _make_apprise(**values: Any) -> AppriseConfig:
    if find_spec("apprise") is None:
        raise ConfigError("requires Apprise, which is not installed; install cachewatch[apprise]")
    return AppriseConfig(**{**values, "urls": tuple(map(Secret, values["urls"].reveal().split()))})


def _placed(form: Form) -> Form:
    """Return the form of a path that is relative to the folder of the file."""

    def read(node: Node, context: Context) -> str:
        return str(context.folder / str(form.read(node, context)))

    return Form(read, form.schema)


def _size_of_html(node: Node, context: Context) -> int:
    size: int = SIZES.read(node, context)
    if size < _LEAST_HTML:
        raise ConfigError("is too small for any mail; use at least 10kB (e-mail clients cut off at 100kB)")
    return size


RETRY = Table(
    "What happens when the other side is not there",
    {"for": Key(DURATIONS, "how long a delivery is tried (5d)", "lasting")},
    Retry,
)

SMTP = Table(
    "The mail server",
    {
        "host": Key(HOST, "its name", is_needed=True),
        "port": Key(number(1, 65535), "587 for starttls, 465 for tls, 25 for none"),
        "security": Key(
            choice("starttls", "tls", "none"), "how the connection is kept secret; never plain unless none"
        ),
        "user": Key(TEXT, "who logs in"),
        **secret_keys("password", "what the user logs in with"),
        "ca_file": Key(PATH, "certificates to trust instead of the system's"),
        "timeout": Key(DURATIONS, "how long one answer may take (60s)"),
    },
    _make_smtp,
)

_ALL: Mapping[str, Key] = {"type": Key(TEXT, "what kind of channel it is"), "retry": Key(RETRY.form(), RETRY.about)}

_MAIL: Mapping[str, Key] = {
    **_ALL,
    "from": Key(SENDER, "who the mail is from: Name <name@example.org>", "sender", is_needed=True),
    "reply_to": Key(MAIL, "where answers go"),
    "bounces": Key(MAIL, "where undeliverable mail comes back to"),
    "list_domain": Key(HOST, "the domain of the List-Id, by which mail is filtered"),
    "unsubscribe": Key(
        UNSUBSCRIBE, "mailto: or https: where readers take themselves off, with {subscription}, {recipient}"
    ),
    "archive": Key(template("subscription", "period", "key"), "URL of the digest in the archive, with {subscription}"),
    "max_html": Key(Form(_size_of_html, SIZES.schema), "size of the HTML part (90kB: what mail programs show)"),
}

CHANNELS_BY_TYPE: Mapping[str, Table] = {
    "email": Table(
        "Mail through an SMTP server",
        {**_MAIL, "smtp": Key(SMTP.form(), SMTP.about, is_needed=True)},
        EmailConfig,
    ),
    "sendmail": Table(
        "Mail through the machine's own sendmail program",
        {
            **_MAIL,
            "command": Key(list_of(TEXT), "the program and its options ([/usr/sbin/sendmail, -i])"),
            "timeout": Key(DURATIONS, "how long it may take (60s)"),
        },
        SendmailConfig,
    ),
    "maildir": Table(
        "Mail put into a Maildir", {**_MAIL, "path": Key(PATH, "the Maildir", is_needed=True)}, MaildirConfig
    ),
    "file": Table(
        "Files of an archive",
        {
            **_ALL,
            "path": Key(
                _placed(template("subscription", "period", "key", "ext", needed=["subscription"])),
                "where files go, with {subscription}, {period}, {key}, {ext}",
                is_needed=True,
            ),
            "formats": Key(list_of(choice("md", "html", "json", "txt"), is_set=True), "what is written ([md])"),
            "keep": Key(DURATIONS, "when files are removed; never if left out"),
            "mode": Key(MODE, "who may read the files (0644: everybody)"),
        },
        _make_file,
    ),
    "feed": Table(
        "An Atom feed for each subscription",
        {
            **_ALL,
            "path": Key(
                _placed(template("subscription", needed=["subscription"])),
                "where feeds go, with {subscription}",
                is_needed=True,
            ),
            "entries": Key(number(1, 10_000), "how many digests a feed holds (100)"),
            "url": Key(template("subscription"), "where the feed can be fetched, with {subscription}"),
            "mode": Key(MODE, "who may read the feed (0644: everybody)"),
        },
        FeedConfig,
    ),
    "webhook": Table(
        "JSON to a URL",
        {
            **_ALL,
            **secret_keys("url", "where to", url_parser("https", "http")),
            "preset": Key(choice("json", "mattermost", "slack", "discord", "matrix"), "whose form the JSON has (json)"),
            **secret_keys("signing_key", "what requests are signed with"),
            "timeout": Key(DURATIONS, "how long an answer may take (30s)"),
        },
        WebhookConfig,
    ),
    "apprise": Table(
        "Chats, through Apprise (an extra of the package)",
        {**_ALL, **secret_keys("urls", "Apprise's URLs, with spaces or lines between them")},
        _make_apprise,
    ),
}

_NEEDED_SECRETS = {"webhook": "url", "apprise": "urls"}


def _read_channel(name: str, node: Node, context: Context) -> ChannelConfig:
    entries = node.section()
    if "type" not in entries:
        raise ConfigError(f"lacks `type:`; it is one of {', '.join(CHANNELS_BY_TYPE)}")
    kind = entries["type"].text()
    if kind not in CHANNELS_BY_TYPE:
        raise ConfigError(f"there is no type {kind!r} of channels; {unknown(kind, CHANNELS_BY_TYPE)}")
    table, secret = CHANNELS_BY_TYPE[kind], _NEEDED_SECRETS.get(kind)
    is_understood = entries.keys() <= table.keys.keys()  # what is misspelt does not also lack
    if secret and is_understood and not entries.keys() & {secret, f"{secret}_file", f"{secret}_env"}:
        raise ConfigError(f"lacks `{secret}_file:` (or `{secret}_env:`)")

    def make(type: str, **values: Any) -> Any:  # noqa: A002, ARG001  as the key is called
        return table.make(name=name, **values)

    channel: ChannelConfig = Table(table.about, table.keys, make).read(node, context)
    return channel


def _schema() -> Schema:
    """Return the schema of a channel: its type says which keys it has."""
    kinds = {kind: table.schema() for kind, table in CHANNELS_BY_TYPE.items()}
    for kind, schema in kinds.items():
        schema["properties"]["type"] = {"const": kind, "description": schema["description"]}
    return {
        "type": "object",
        "properties": {"type": {"enum": list(CHANNELS_BY_TYPE)}},
        "required": ["type"],
        "allOf": [
            {"if": {"properties": {"type": {"const": kind}}, "required": ["type"]}, "then": schema}
            for kind, schema in kinds.items()
        ],
    }


_NAMED = named(_read_channel, _schema(), "Where digests go, by names")


def _read_channels(node: Node, context: Context) -> dict[str, ChannelConfig]:
    """Read all channels, no two of which may write the same file: one would undo what the other did."""
    channels: dict[str, ChannelConfig] = _NAMED.read(node, context)
    writers: dict[str, str] = {}
    for name, channel in channels.items():
        for path in _written(channel):
            if (other := writers.setdefault(path, name)) != name:
                context.note(
                    node.section()[name], f"writes {path}, as the channel {other} does; give it another `path:`"
                )
                raise Broken
    return channels


def _written(channel: ChannelConfig) -> set[str]:
    match channel:
        case FileConfig():
            return {normpath(channel.path.replace("{ext}", ext)) for ext in channel.formats}
        case FeedConfig():
            return {normpath(channel.path)}
        case _:
            return set()


CHANNELS = Form(_read_channels, _NAMED.schema)
