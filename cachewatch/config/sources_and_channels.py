"""The sections `sources:` and `channels:`: what is watched and how it is polled, and where digests are delivered."""

import re
from collections.abc import Mapping
from datetime import timedelta
from importlib.util import find_spec
from os.path import normpath
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from cachewatch.config import value_types_and_secrets as types
from cachewatch.config.schedules_and_quiet_times import parse_size
from cachewatch.config.sections import ConfigContext, ConfigSection, checked, key, mistake, mistake_at, not_in_file
from cachewatch.core.names_and_layouts import ANYWHERE, Layout
from cachewatch.errors import ConfigError
from cachewatch.hooks import extensions, models
from cachewatch.http.allowed_addresses import check_secrecy, is_loopback
from cachewatch.report.digest_and_message_values import MAX_HTML, Form

_OF_CACHES = ("token_file", "login_file")
_SCP_LIKE = re.compile(r"[\w.@-]+:(?!//).+")
# A URL that everybody may know: no path of this machine, and nothing that looks like a secret.
_PUBLIC = re.compile(r"(?:https?|git)://[^@?#]+")
_LEAST_PERIOD = timedelta(seconds=1)


def _repository(text: str, context: ConfigContext) -> str:
    """Return a URL unchanged; resolve a path from the configuration's folder. Raises ConfigError for any other text."""
    if not text or not text.isprintable() or text.startswith("-"):
        raise ConfigError(f"{text!r} is not an address; write a URL such as https://host/repository.git, or a path")
    if "://" in text:
        try:
            password = urlsplit(text).password
        except ValueError as error:
            raise ConfigError(f"{text!r} is not a URL: {error}") from error
        if password is not None:
            remedy = "remove it and name a file under `credentials:`"
            raise ConfigError(f"contains a password, which would end up in logs; {remedy}")
        return text
    is_scp_like = _SCP_LIKE.fullmatch(text) and "/" not in text.partition(":")[0]
    return text if is_scp_like else str(types.path_in(context.folder, text))


Address = Annotated[str, types.FromText(_repository)]
SecretPath = Annotated[
    Path,
    types.FromText(
        lambda name, file: (types.find_secret_file if file.with_secrets else types.path_in)(file.folder, name),
        type="string",
    ),
]


class Poll(ConfigSection):
    """How often the source is polled."""

    every: types.Duration = key("time between two polls, at least one second", timedelta(hours=1))
    jitter: types.Duration = key(
        "maximum random delay of a poll, so that clients do not all poll at the same time",
        lambda values: min(timedelta(minutes=5), values["every"] / 12),
        if_left_out="5m, or a twelfth of `every` if that is less",
    )
    timeout: types.Duration = key("time after which a poll is given up", timedelta(minutes=10))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.every < _LEAST_PERIOD or self.timeout < _LEAST_PERIOD:
            raise mistake("every and timeout must be at least a second")
        return self


class Credentials(ConfigSection):
    """How to log in. Git uses no other credentials; secrets are in files that only their owner can read."""

    ssh_key: SecretPath | None = key("private key for git over ssh", None, name="ssh_key_file", if_left_out="none")
    known_hosts: types.PathInFolder | None = key(
        "public keys of the servers that git may contact over ssh", None, name="known_hosts_file", if_left_out="none"
    )
    store: SecretPath | None = key(
        "file in the format of git-credential-store, for git over https", None, name="store_file", if_left_out="none"
    )
    helper: types.Text | None = key(
        "any other credential helper, as in git's `credential.helper`", None, if_left_out="none"
    )
    token_file: SecretPath | None = key("file that contains a bearer token for a build cache", None, if_left_out="none")
    login_file: SecretPath | None = key(
        "file that contains `user:password` on one line, for a build cache", None, if_left_out="none"
    )


class Source(ConfigSection):
    """The keys of all types of source."""

    name: str = not_in_file()
    type: str = key("`git`: a repository or a folder of documents; the other types are those below", "git")
    address: str = not_in_file()  # the name of the source, unless its type has a key for the address
    tags: types.Several[types.Glob] = key("tags to watch", (), if_left_out="all")
    poll: Poll = key("how often the source is polled", Poll())
    stale_after: types.Duration = key(
        "time without news after which operators are notified; digests say so too,"
        " unless the source is usually silent for that long",
        timedelta(days=4),
    )
    first_run: Literal["silent", "report"] = key(
        "what the first pass does: `silent` begins at the newest revision, `report` reports that revision", "silent"
    )
    since: types.Text | None = key("date or revision to begin at", None, if_left_out="the newest revision")
    credentials: Annotated[
        dict[str, str],
        types.ConvertedFrom(
            Credentials, lambda found, _: {name: str(value) for name, value in found if value is not None}
        ),
    ] = key("how to log in", {})

    @property
    def public_address(self) -> str:
        """The URL of the repository, if readers of digests may open it; "" if they may not."""
        return self.address if self.type == "git" and _PUBLIC.fullmatch(self.address) else ""

    @property
    def layout(self) -> Layout:
        """Where documents lie in the repository."""
        return ANYWHERE


class GitSource(Source):
    """A git repository, or a folder of documents."""

    address: Address = key(
        "URL or path of the repository, or path of a folder of documents; a URL must not contain a password", name="git"
    )
    branch: types.Text | None = key("branch of the repository", None, if_left_out="the repository's default branch")
    documents: types.Text | None = key(
        "where the documents of a repository are, as a path with {package} and, if need be, {tag} in it, such as"
        " `catalogue/{tag}/{package}/specs.md`",
        None,
        if_left_out="`_cache/`, or else wherever a text file is a document",
    )

    @property
    def layout(self) -> Layout:
        """Where documents lie in the repository."""
        return Layout.parse(self.documents) if self.documents else ANYWHERE

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.documents:
            checked(Layout.parse, self.documents)
        if any(name in _OF_CACHES for name in self.credentials):
            raise mistake("`credentials:` of the type git are ssh_key_file, known_hosts_file, store_file or helper")
        return self


class LiveSource(Source):
    """A live build cache at a URL, recorded at each poll."""

    address: Address = key("URL or path of what is published", name="url")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if any(name not in _OF_CACHES for name in self.credentials):
            raise mistake(f"`credentials:` of the type {self.type} are token_file or login_file")
        if self.credentials and self.address.startswith(("http://", "oci+http://")):
            checked(check_secrecy, self.address.removeprefix("oci+"))  # they would be sent over a network unencrypted
        return self


def source_models() -> Mapping[str, type[ConfigSection]]:
    """Return the model of each type of source, by type."""
    own: dict[str, type[ConfigSection]] = {"git": GitSource}
    return own | models([kind for kind in extensions().source_kinds if kind.type not in own])


Sources = types.ByName[Annotated[Source, types.ByType("sources", source_models, "git")]]


MAIL_TYPES = ("email", "sendmail", "maildir")
PORTS = {"starttls": 587, "tls": 465, "none": 25}


_OF_DIGEST = ("subscription", "period", "key")
# A path with placeholders, relative to the folder of the configuration file.
_PATH = types.FromText(lambda text, file: str(file.folder / text))


def _html_size(text: str) -> int:
    size = parse_size(text)
    if size < 10_000:
        raise ConfigError("is too small for any mail; use at least 10kB (e-mail clients cut off at 100kB)")
    return size


def _type(name: str) -> Any:
    return Field(name, description="type of the channel", json_schema_extra={"required": True})


class Retry(ConfigSection):
    """How failed deliveries are repeated."""

    lasting: types.Duration = key("how long a delivery is tried", timedelta(days=5), name="for")


class ChannelConfig(ConfigSection):
    """The keys of all types of channel."""

    forms: ClassVar[frozenset[Form]] = frozenset({Form.MARKDOWN, Form.JSON})  # that it needs beside text and HTML
    type: str = _type("")
    name: str = not_in_file()
    retry: Retry = key("what happens when a delivery fails", Retry())
    archive: Annotated[str | None, types.placeholders(*_OF_DIGEST)] = key(
        "URL of a digest in the archive, with `{subscription}`, `{period}` and `{key}`, which messages link to",
        None,
        if_left_out="that of another channel of the subscription",
    )


class Smtp(types.WithSecrets):
    """The mail server."""

    host: types.Host = key("name or address of the mail server")
    security: Literal["starttls", "tls", "none"] = key(
        "how the connection is encrypted; only `none` allows an unencrypted one", "starttls"
    )
    port: Annotated[int, types.whole_number(1, 65535)] = key(
        "port of the mail server",
        lambda values: PORTS[values["security"]],
        if_left_out="587 for `starttls`, 465 for `tls`, 25 for `none`",
    )
    user: types.Text | None = key("user name for the login", None, if_left_out="no login")
    password: types.Password | None = types.secret("password", "password for the login", None)
    ca_file: types.PathInFolder | None = key(
        "file of certificates to trust instead of the system's", None, if_left_out="the system's certificates"
    )
    timeout: types.Duration = key(
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


class MailConfig(types.WithSecrets, ChannelConfig):
    """The keys of all types of channel that send mail."""

    forms: ClassVar[frozenset[Form]] = frozenset()
    sender: types.Sender = key("sender of the mail: `Name <name@example.org>`", name="from")
    reply_to: types.Mail | None = key("address that replies go to", None, if_left_out="the address of `from`")
    bounces: types.Mail | None = key(
        "envelope sender, which receives undeliverable mail", None, if_left_out="the address of `from`"
    )
    list_domain: types.Host | None = key(
        "domain of the List-Id, by which recipients filter mail", None, if_left_out="the domain of `from`"
    )
    unsubscribe: types.Unsubscribe | None = key(
        "`mailto:` or `https:` address where recipients unsubscribe, with `{subscription}`, `{recipient}` and `{token}`",
        None,
        if_left_out="no List-Unsubscribe header",
    )
    unsubscribe_key: types.Password | None = types.secret(
        "unsubscribe_key", "key of the `{token}` in `unsubscribe:`", None
    )
    attach: Literal["csv"] | None = key(
        "`csv` attaches every change as `changes.csv`, or `changes.csv.gz` above a megabyte",
        None,
        if_left_out="no attachment",
    )
    max_html: Annotated[types.Size, types.FromText(_html_size)] = key(
        "maximum size of the HTML part, at least 10kB; e-mail clients cut off at 100kB", MAX_HTML, if_left_out="90kB"
    )

    @model_validator(mode="after")
    def _check_token(self) -> Self:
        if ("{token}" in (self.unsubscribe or "")) != (self.unsubscribe_key is not None):
            both = "`{token}` in `unsubscribe:` and `unsubscribe_key_file:`"
            raise mistake(f"{both} belong together; set both or neither")
        return self


class EmailConfig(MailConfig):
    """Mail through an SMTP server."""

    type: Literal["email"] = _type("email")
    smtp: Smtp = key("the mail server")


class SendmailConfig(MailConfig):
    """Mail through the sendmail program of this machine."""

    type: Literal["sendmail"] = _type("sendmail")
    command: types.Several[types.Text] = key("program and its options", ("/usr/sbin/sendmail", "-i"))
    timeout: types.Duration = key("maximum run time of the program", timedelta(seconds=60))


class MaildirConfig(MailConfig):
    """Mail that is stored in a Maildir."""

    type: Literal["maildir"] = _type("maildir")
    path: types.PathInFolder = key("folder of the Maildir")


class FileConfig(ChannelConfig):
    """Files of an archive."""

    forms: ClassVar[frozenset[Form]] = frozenset({Form.MARKDOWN, Form.PAGE, Form.JSON})
    type: Literal["file"] = _type("file")
    path: Annotated[str, _PATH, types.placeholders(*_OF_DIGEST, "ext", needed="subscription")] = key(
        "path of the files, with `{subscription}`, with `{period}` or `{key}` to tell digests apart,"
        " and optionally `{ext}`; no other channel may write to it"
    )
    overwrite: bool = key(
        "`true` keeps only the newest digest of each subscription, for a `path:` without `{period}` and `{key}`",
        False,
        if_left_out="`false`: every digest has a file of its own",
    )
    formats: types.Once[Literal["md", "html", "json", "txt"]] = key("formats to write", ("md",))
    keep: types.Duration | None = key("age at which files are removed", None, if_left_out="never removed")
    mode: types.Mode = key("permissions of the files", 0o644)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.formats) > 1 and "{ext}" not in self.path:
            raise mistake("writes several formats into one file; put {ext} into `path:`")
        if not self.overwrite and "{period}" not in self.path and "{key}" not in self.path:
            remedy = "set `overwrite: true` to keep only the newest digest of each subscription"
            raise mistake("writes each digest over the one before; put {period} or {key} into `path:`, or " + remedy)
        if self.keep is not None and "{period}" not in self.path:
            why = "removes files by their age (`keep:`), so `path:` must contain the period"
            raise mistake(f"{why}; put {{period}} into it")
        return self


class FeedConfig(ChannelConfig):
    """An Atom feed for each subscription."""

    forms: ClassVar[frozenset[Form]] = frozenset({Form.FEED})
    type: Literal["feed"] = _type("feed")
    path: Annotated[str, _PATH, types.placeholders("subscription", needed="subscription")] = key(
        "path of the feeds, with `{subscription}`; no other channel may write to it"
    )
    entries: Annotated[int, types.whole_number(1, 10_000)] = key("maximum number of digests in a feed", 100)
    url: Annotated[str | None, types.placeholders("subscription")] = key(
        "URL of the feed, with `{subscription}`; feed readers and validators ask for it",
        None,
        if_left_out="the feed does not name its URL",
    )
    page: Annotated[str | None, types.placeholders("subscription")] = key(
        "URL of the page that the feed belongs to, with `{subscription}`", None, if_left_out="the newest digest"
    )
    mode: types.Mode = key("permissions of the feed", 0o644)


class WebhookConfig(types.WithSecrets, ChannelConfig):
    """JSON that is posted to a URL."""

    forms: ClassVar[frozenset[Form]] = frozenset({Form.JSON})
    type: Literal["webhook"] = _type("webhook")
    url: types.SecretUrl = types.secret("url", "URL to post to")
    preset: Literal["json", "mattermost", "slack", "discord", "matrix"] = key(
        "service that the JSON is made for", "json"
    )
    signing_key: types.Password | None = types.secret(
        "signing_key", "key that signs requests, as in Standard Webhooks", None
    )
    timeout: types.Duration = key("maximum time for a reply", timedelta(seconds=30))


class AppriseConfig(types.WithSecrets, ChannelConfig):
    """Chats, through Apprise; requires the extra `cachewatch[apprise]`."""

    forms: ClassVar[frozenset[Form]] = frozenset()
    type: Literal["apprise"] = _type("apprise")
    urls: Annotated[
        tuple[types.Secret, ...],
        types.ConvertedFrom(types.Password, lambda urls, _: tuple(map(types.Secret, urls.reveal().split()))),
    ] = types.secret("urls", "URLs of Apprise, separated by spaces or lines")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if find_spec("apprise") is None:
            raise mistake("requires Apprise, which is not installed; install cachewatch[apprise]")
        return self


_OWN = (EmailConfig, SendmailConfig, MaildirConfig, FileConfig, FeedConfig, WebhookConfig, AppriseConfig)


def channel_models() -> Mapping[str, type[ConfigSection]]:
    """Return the model of each type of channel, by type."""
    own: dict[str, type[ConfigSection]] = {str(each.model_fields["type"].default): each for each in _OWN}
    return own | models([kind for kind in extensions().channel_kinds if kind.type not in own])


def _check_paths(channels: dict[str, ChannelConfig]) -> dict[str, ChannelConfig]:
    """Return `channels`. Raises a pydantic error if two of them write the same file."""
    writers: dict[str, str] = {}
    for name, channel in channels.items():
        paths = [channel.path] if isinstance(channel, FeedConfig) else []
        if isinstance(channel, FileConfig):
            paths = [channel.path.replace("{ext}", ext) for ext in channel.formats]
        for path in map(normpath, paths):
            if (other := writers.setdefault(path, name)) != name:
                raise mistake_at((name,), f"writes {path}, as the channel {other} does; give it another `path:`")
    return channels


Channels = Annotated[
    types.ByName[Annotated[ChannelConfig, types.ByType("channels", channel_models)]], AfterValidator(_check_paths)
]
