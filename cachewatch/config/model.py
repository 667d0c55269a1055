"""What the configuration file says, as frozen values; reading.py makes and checks them."""

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from cachewatch.core.model import Kind
from cachewatch.core.schedule import Quiet


class Secret:
    """Something that must not be shown: it has no text form but its stars."""

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret itself, for the one who needs it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"


class Poll(Struct, frozen=True, kw_only=True):
    """How often a source is asked."""

    every: timedelta = timedelta(hours=1)
    jitter: timedelta = timedelta(minutes=5)
    timeout: timedelta = timedelta(minutes=10)


class Source(Struct, frozen=True, kw_only=True):
    """Where revisions come from."""

    name: str
    type: str = "git"  # git | buildcache | catalogue
    address: str  # `git:` or `url:` in the file
    branch: str | None = None  # None is the one that the repository's HEAD names
    tags: tuple[str, ...] = ()  # globs; empty is all
    poll: Poll = Poll()
    stale_after: timedelta = timedelta(days=4)
    first_run: str = "silent"  # silent | report
    since: str | None = None  # a date or revision to start from
    credentials: Mapping[str, str] = {}  # what git or the HTTP client is given, by the names of the file
    options: Mapping[str, str] = {}
    max_index: int | None = None  # bytes of an index of a build cache, unpacked


class Match(Struct, frozen=True, kw_only=True):
    """What a subscription or a silence is about; keys are ANDed, patterns of one key ORed."""

    sources: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    oses: tuple[str, ...] = ()
    compilers: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()  # Spack's ranges: @1.2:, @:2, @1.2.3
    environment: Path | None = None
    pinned: str | None = None


class Urgent(Struct, frozen=True, kw_only=True):
    """Some kinds of change at once, through other channels."""

    changes: frozenset[Kind]
    channels: tuple[str, ...]
    to: tuple[str, ...] = ()


class Limit(Struct, frozen=True, kw_only=True):
    """How much a digest may hold."""

    rows: int = 25
    hold_above: int = 5000  # changed specs; operators are asked before such a digest goes out
    hold_for: timedelta | None = timedelta(hours=24)  # then it goes out, as not confirmed; None is never


class Subscription(Struct, frozen=True, kw_only=True):
    """Who wants to hear of what, and when."""

    name: str
    description: str = ""
    to: tuple[str, ...] = ()
    match: Match = Match()
    changes: frozenset[Kind]
    when: str = "each revision"  # as written; core/schedule.py understands it
    urgent: Urgent | None = None
    channels: tuple[str, ...]
    group_by: str | None = None  # without effect
    if_empty: str = "skip"  # skip | send | monthly
    renamed_from: str | None = None
    limit: Limit = Limit()
    template: str | None = None


class Silence(Struct, frozen=True, kw_only=True):
    """Changes that nobody should hear of for a time."""

    name: str
    match: Match
    changes: frozenset[Kind] | None = None  # None is all
    until: date  # the first day on which they are told again
    reason: str

    def is_active(self, day: date) -> bool:
        """Tell whether it holds on `day`, in the configuration's time zone."""
        return day < self.until


class Operators(Struct, frozen=True, kw_only=True):
    """Who hears of trouble with cachewatch itself."""

    channels: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    after_failures: int = 3


class Monitor(Struct, frozen=True, kw_only=True):
    """Where health and figures can be read, and who is pinged."""

    listen: str | None = None  # host:port
    ping_url: Secret | None = None


class Retry(Struct, frozen=True, kw_only=True):
    """How long a delivery is tried."""

    lasting: timedelta = timedelta(days=5)


class ChannelConfig(Struct, frozen=True, kw_only=True):
    """What all channels have."""

    type: ClassVar[str] = ""
    name: str
    retry: Retry = Retry()


class Smtp(Struct, frozen=True, kw_only=True):
    """A mail server."""

    host: str
    port: int = 587
    security: str = "starttls"  # starttls | tls | none
    user: str | None = None
    password: Secret | None = None
    ca_file: Path | None = None  # whom to trust instead of those whom this machine trusts
    timeout: timedelta = timedelta(seconds=60)  # for each answer; the one to a whole message may take ten times that


class MailConfig(ChannelConfig, frozen=True, kw_only=True):
    """What all ways of sending mail have."""

    sender: str  # `from:` in the file
    reply_to: str | None = None
    bounces: str | None = None  # the envelope's sender
    list_domain: str | None = None
    unsubscribe: str | None = None  # mailto: or https:; {subscription} and {recipient} are filled in
    archive: str | None = None  # base URL of the archive; {subscription} and {period} are filled in
    max_html: int = 90_000  # bytes


class EmailConfig(MailConfig, frozen=True, kw_only=True):
    """Mail through an SMTP server."""

    type: ClassVar[str] = "email"
    smtp: Smtp


class SendmailConfig(MailConfig, frozen=True, kw_only=True):
    """Mail through the machine's own sendmail program."""

    type: ClassVar[str] = "sendmail"
    command: tuple[str, ...] = ("/usr/sbin/sendmail", "-i")
    timeout: timedelta = timedelta(seconds=60)


class MaildirConfig(MailConfig, frozen=True, kw_only=True):
    """Mail put into a Maildir."""

    type: ClassVar[str] = "maildir"
    path: Path


class FileConfig(ChannelConfig, frozen=True, kw_only=True):
    """Files; {subscription}, {period}, {key} and {ext} are filled in."""

    type: ClassVar[str] = "file"
    path: str
    formats: tuple[str, ...] = ("md",)  # md | html | json | txt
    keep: timedelta | None = None
    mode: int = 0o644  # of the files; a web server has to read them


class FeedConfig(ChannelConfig, frozen=True, kw_only=True):
    """An Atom feed per subscription; {subscription} is filled in."""

    type: ClassVar[str] = "feed"
    path: str
    entries: int = 100
    url: str | None = None  # where the feed can be fetched; {subscription} is filled in
    mode: int = 0o644


class WebhookConfig(ChannelConfig, frozen=True, kw_only=True):
    """JSON to a URL."""

    type: ClassVar[str] = "webhook"
    url: Secret
    preset: str = "json"  # json | mattermost | slack | discord | matrix
    signing_key: Secret | None = None  # for the headers of Standard Webhooks
    timeout: timedelta = timedelta(seconds=30)


class AppriseConfig(ChannelConfig, frozen=True, kw_only=True):
    """Chats, through Apprise (an extra)."""

    type: ClassVar[str] = "apprise"
    urls: tuple[Secret, ...]


class Retention(Struct, frozen=True, kw_only=True):
    """How long the state keeps what is done."""

    payload: timedelta = timedelta(days=30)  # the bytes of messages that were sent or dropped
    metadata: timedelta = timedelta(days=400)  # digests, and what became of their deliveries


class Config(Struct, frozen=True, kw_only=True):
    """The whole file."""

    path: Path
    version: int = 1
    timezone: str = "UTC"
    state: Path
    links: str = ""
    templates_dir: Path | None = None
    sources: Mapping[str, Source]
    channels: Mapping[str, ChannelConfig]
    subscriptions: Mapping[str, Subscription]
    operators: Operators = Operators()
    silences: tuple[Silence, ...] = ()
    quiet: tuple[Quiet, ...] = ()
    monitor: Monitor = Monitor()
    retention: Retention = Retention()
