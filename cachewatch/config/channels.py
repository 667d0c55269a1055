"""The section `channels:`: where digests are delivered, and the keys of each type of channel."""

from collections.abc import Mapping
from datetime import timedelta
from importlib.util import find_spec
from os.path import normpath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from cachewatch.config.schedules_and_dates import parse_size
from cachewatch.config.sections_and_mistakes import ConfigContext, ConfigSection, key, mistake, mistake_at, not_in_file
from cachewatch.config.value_types_and_secrets import (
    ByName,
    ByType,
    ConvertedFrom,
    Duration,
    FromText,
    Host,
    Mail,
    Mode,
    Once,
    Password,
    PathInFolder,
    Secret,
    SecretUrl,
    Sender,
    Several,
    Size,
    Text,
    Unsubscribe,
    WithSecrets,
    placeholders,
    secret,
    whole_number,
)
from cachewatch.errors import ConfigError
from cachewatch.hooks import extensions, models
from cachewatch.http.allowed_addresses import is_loopback
from cachewatch.report.digest_and_message_values import MAX_HTML

_LEAST_HTML = 10_000
MAIL_TYPES = ("email", "sendmail", "maildir")
PORTS = {"starttls": 587, "tls": 465, "none": 25}


def _place(text: str, context: ConfigContext) -> str:
    """Return a path with placeholders, relative to the folder of the configuration file."""
    return str(context.folder / text)


def _html_size(text: str) -> int:
    size = parse_size(text)
    if size < _LEAST_HTML:
        raise ConfigError("is too small for any mail; use at least 10kB (e-mail clients cut off at 100kB)")
    return size


def _type(name: str) -> Any:
    """Declare the key `type:`, which is required and determines the other keys of a channel."""
    return Field(name, description="type of the channel", json_schema_extra={"required": True})


class Retry(ConfigSection):
    """How failed deliveries are repeated."""

    lasting: Duration = key("how long a delivery is tried", timedelta(days=5), name="for")


class ChannelConfig(ConfigSection):
    """The keys of all types of channel."""

    type: str = _type("")
    name: str = not_in_file()
    retry: Retry = key("what happens when a delivery fails", Retry())
    archive: Annotated[str | None, placeholders("subscription", "period", "key")] = key(
        "URL of a digest in the archive, with `{subscription}`, `{period}` and `{key}`, which messages link to",
        None,
        if_left_out="that of another channel of the subscription",
    )


class Smtp(WithSecrets):
    """The mail server."""

    host: Host = key("name or address of the mail server")
    security: Literal["starttls", "tls", "none"] = key(
        "how the connection is encrypted; only `none` allows an unencrypted one", "starttls"
    )
    port: Annotated[int, whole_number(1, 65535)] = key(
        "port of the mail server",
        lambda values: PORTS[values["security"]],
        if_left_out="587 for `starttls`, 465 for `tls`, 25 for `none`",
    )
    user: Text | None = key("user name for the login", None, if_left_out="no login")
    password: Password | None = secret("password", "password for the login", None)
    ca_file: PathInFolder | None = key(
        "file of certificates to trust instead of the system's", None, if_left_out="the system's certificates"
    )
    timeout: Duration = key(
        "maximum time for one reply of the server; the reply to a whole message may take ten times as long",
        timedelta(seconds=60),
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.user is None) != (self.password is None):
            raise mistake("`user:` and `password_file:` belong together; set both or neither")
        if self.security == "none" and self.user is not None and not is_loopback(self.host):
            raise mistake("would send the password unencrypted; use `security: starttls` or tls")
        return self


class MailConfig(WithSecrets, ChannelConfig):
    """The keys of all types of channel that send mail."""

    sender: Sender = key("sender of the mail: `Name <name@example.org>`", name="from")
    reply_to: Mail | None = key("address that replies go to", None, if_left_out="the address of `from`")
    bounces: Mail | None = key(
        "envelope sender, which receives undeliverable mail", None, if_left_out="the address of `from`"
    )
    list_domain: Host | None = key(
        "domain of the List-Id, by which recipients filter mail", None, if_left_out="the domain of `from`"
    )
    unsubscribe: Unsubscribe | None = key(
        "`mailto:` or `https:` address where recipients unsubscribe, with `{subscription}`, `{recipient}` and `{token}`",
        None,
        if_left_out="no List-Unsubscribe header",
    )
    unsubscribe_key: Password | None = secret("unsubscribe_key", "key of the `{token}` in `unsubscribe:`", None)
    attach: Literal["csv"] | None = key(
        "`csv` attaches every change as `changes.csv`, or `changes.csv.gz` above a megabyte",
        None,
        if_left_out="no attachment",
    )
    max_html: Annotated[Size, FromText(_html_size)] = key(
        "maximum size of the HTML part, at least 10kB; e-mail clients cut off at 100kB", MAX_HTML, if_left_out="90kB"
    )

    @model_validator(mode="after")
    def _check_token(self) -> Self:
        if ("{token}" in (self.unsubscribe or "")) != (self.unsubscribe_key is not None):
            raise mistake(
                "`{token}` in `unsubscribe:` and `unsubscribe_key_file:` belong together; set both or neither"
            )
        return self


class EmailConfig(MailConfig):
    """Mail through an SMTP server."""

    type: Literal["email"] = _type("email")
    smtp: Smtp = key("the mail server")


class SendmailConfig(MailConfig):
    """Mail through the sendmail program of this machine."""

    type: Literal["sendmail"] = _type("sendmail")
    command: Several[Text] = key("program and its options", ("/usr/sbin/sendmail", "-i"))
    timeout: Duration = key("maximum run time of the program", timedelta(seconds=60))


class MaildirConfig(MailConfig):
    """Mail that is stored in a Maildir."""

    type: Literal["maildir"] = _type("maildir")
    path: PathInFolder = key("folder of the Maildir")


class FileConfig(ChannelConfig):
    """Files of an archive."""

    type: Literal["file"] = _type("file")
    path: Annotated[
        str, FromText(_place), placeholders("subscription", "period", "key", "ext", needed="subscription")
    ] = key(
        "path of the files, with `{subscription}`, with `{period}` or `{key}` to tell digests apart,"
        " and optionally `{ext}`; no other channel may write to it"
    )
    overwrite: bool = key(
        "`true` keeps only the newest digest of each subscription, for a `path:` without `{period}` and `{key}`",
        False,
        if_left_out="`false`: every digest has a file of its own",
    )
    formats: Once[Literal["md", "html", "json", "txt"]] = key("formats to write", ("md",))
    keep: Duration | None = key("age at which files are removed", None, if_left_out="never removed")
    mode: Mode = key("permissions of the files", 0o644)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.formats) > 1 and "{ext}" not in self.path:
            raise mistake("writes several formats into one file; put {ext} into `path:`")
        if not self.overwrite and "{period}" not in self.path and "{key}" not in self.path:
            raise mistake(
                "writes each digest over the one before; put {period} or {key} into `path:`, or set `overwrite: true`"
                " to keep only the newest digest of each subscription"
            )
        if self.keep is not None and "{period}" not in self.path:
            raise mistake(
                "removes files by their age (`keep:`), so `path:` must contain the period; put {period} into it"
            )
        return self


class FeedConfig(ChannelConfig):
    """An Atom feed for each subscription."""

    type: Literal["feed"] = _type("feed")
    path: Annotated[str, FromText(_place), placeholders("subscription", needed="subscription")] = key(
        "path of the feeds, with `{subscription}`; no other channel may write to it"
    )
    entries: Annotated[int, whole_number(1, 10_000)] = key("maximum number of digests in a feed", 100)
    url: Annotated[str | None, placeholders("subscription")] = key(
        "URL of the feed, with `{subscription}`; feed readers and validators ask for it",
        None,
        if_left_out="the feed does not name its URL",
    )
    page: Annotated[str | None, placeholders("subscription")] = key(
        "URL of the page that the feed belongs to, with `{subscription}`", None, if_left_out="the newest digest"
    )
    mode: Mode = key("permissions of the feed", 0o644)


class WebhookConfig(WithSecrets, ChannelConfig):
    """JSON that is posted to a URL."""

    type: Literal["webhook"] = _type("webhook")
    url: SecretUrl = secret("url", "URL to post to")
    preset: Literal["json", "mattermost", "slack", "discord", "matrix"] = key(
        "service that the JSON is made for", "json"
    )
    signing_key: Password | None = secret("signing_key", "key that signs requests, as in Standard Webhooks", None)
    timeout: Duration = key("maximum time for a reply", timedelta(seconds=30))


class AppriseConfig(WithSecrets, ChannelConfig):
    """Chats, through Apprise; requires the extra `cachewatch[apprise]`."""

    type: Literal["apprise"] = _type("apprise")
    urls: Annotated[
        tuple[Secret, ...], ConvertedFrom(Password, lambda urls, _: tuple(map(Secret, urls.reveal().split())))
    ] = secret("urls", "URLs of Apprise, separated by spaces or lines")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if find_spec("apprise") is None:
            raise mistake("requires Apprise, which is not installed; install cachewatch[apprise]")
        return self


_OWN = (EmailConfig, SendmailConfig, MaildirConfig, FileConfig, FeedConfig, WebhookConfig, AppriseConfig)


def channel_models() -> Mapping[str, type[ConfigSection]]:
    """Return the model of each type of channel."""
    own: dict[str, type[ConfigSection]] = {str(each.model_fields["type"].default): each for each in _OWN}
    return own | models([kind for kind in extensions().channel_kinds if kind.type not in own])


def _check_paths(channels: dict[str, ChannelConfig]) -> dict[str, ChannelConfig]:
    """Raise an error if two channels write the same file, because each would overwrite the other's."""
    writers: dict[str, str] = {}
    for name, channel in channels.items():
        paths = [channel.path] if isinstance(channel, FeedConfig) else []
        if isinstance(channel, FileConfig):
            paths = [channel.path.replace("{ext}", ext) for ext in channel.formats]
        for path in map(normpath, paths):
            if (other := writers.setdefault(path, name)) != name:
                raise mistake_at((name,), f"writes {path}, as the channel {other} does; give it another `path:`")
    return channels


Channels = Annotated[ByName[Annotated[ChannelConfig, ByType("channels", channel_models)]], AfterValidator(_check_paths)]
