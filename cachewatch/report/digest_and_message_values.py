"""The values of reports: a digest, a notice to operators, a rendered digest, and the messages and results of channels.

A digest takes these forms: a TagDigest for each tag; the Digest, with all of them; a PendingDigest, which also says how
cursors move (service/digest_assembly_and_hold_times); a RenderedDigest, its texts; a Message for each target, the final
bytes; and ChannelMessages, those for one channel. Channels, opened by `open_channel`, deliver messages. The state stores a DigestRecord and returns it, without its content,
as a DigestSummary or, with the reasons why it is held (Holds), as a HeldDigest (store/digests_and_holds).

The bytes of messages are stored before anything is sent, and every retry sends the same ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from html import escape
from typing import Any, Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.advice.actions import outdated_packages
from cachewatch.core.advice.environment_coverage import CoverageChange
from cachewatch.core.advice.urgency_and_levels import assess
from cachewatch.core.advice.verbs_and_reasons import Alternative, Assessment, Because, ComparedTag, Known, Pinned, Verb
from cachewatch.core.advice.waits_and_reminders import Remembered
from cachewatch.core.changesets import Report
from cachewatch.core.filters_and_spec_patterns import Globs
from cachewatch.core.kinds_and_specs import Delta, Machine, Side, Unreadable
from cachewatch.core.statement_kinds import Statement
from cachewatch.hooks import extensions, load
from cachewatch.report.json_and_safe_csv import CsvTable
from cachewatch.report.words_file import Words, fill


class Outage(Struct, frozen=True):
    """A period, longer than usual, in which a source published nothing."""

    since: datetime
    until: datetime


class Note(Struct, frozen=True):
    """A remark on a comparison: its text is the entry `key` of `[notes]` in words.toml, filled with `values`."""

    key: str
    values: Mapping[str, str] = {}

    def said(self, words: Words) -> str:
        """Return the remark as a sentence, worded by `words`."""
        return fill(words.text("notes", self.key), 2, self.values)


class Span(Struct, frozen=True, kw_only=True):
    """The part of a source that a digest covers: from one revision to a later one."""

    source: str
    address: str  # public URL of the repository; empty where readers have none
    before: Side
    after: Side
    revisions: int | None = None  # number of revisions in between, with the newest; None if unknown
    newest: datetime | None = None  # when the newest data was published, UTC
    checked: datetime | None = None  # when the source was last asked with success, UTC
    gaps: tuple[Outage, ...] = ()  # between revisions
    mirror: str | None = None  # where Spack installs from; {tag} is filled in
    unread: tuple[str, ...] = ()  # packages whose documents cannot be read: their changes are reported later
    is_unknown: bool = False  # the changes are unknown: the last reported state exists nowhere any more
    notes: tuple[Note, ...] = ()  # such as: history was rewritten


class Example(Struct, frozen=True, kw_only=True):
    """The newest version of a package, as an example to install."""

    package: str
    version: str
    stacks: tuple[str, ...]  # that build it
    machines: tuple[Machine, ...]
    variants: tuple[str, ...] = ()  # that all its builds have and other versions were also built without


class TagDigest(Struct, frozen=True, kw_only=True):
    """What a digest reports about one tag of one source."""

    source: str
    report: Report
    statements: tuple[Statement, ...] = ()  # reported ones, most important first
    rest: tuple[Statement, ...] = ()  # statements that are only summed up: of kinds that nobody asked for, or silenced
    versions: Mapping[str, Delta] = {}  # that packages gained and lost
    examples: tuple[Example, ...] = ()
    installable: tuple[str, ...] = ()  # packages of which there is a newer version than before, or which are new
    table: CsvTable = CsvTable()
    unreadable: tuple[Unreadable, ...] = ()  # documents that could not be compared
    silenced: frozenset[str] = frozenset()  # packages of which a silence hides something
    still_missing: tuple[str, ...] = ()  # packages of snapshots before the base that the new snapshot still lacks

    def outdated(self, *, is_wait_over: bool) -> list[tuple[str, frozenset[str]]]:
        """Return packages of which lock files may name builds that are gone, each with the stacks of these builds.

        Builds of versions that newer ones replaced do not count. `is_wait_over` tells whether earlier digests asked
        readers to wait until this one. Return nothing for a snapshot that is compared with an earlier one.
        """
        args = self.report.tag, self.statements, self.rest, self.silenced
        return [] if base_of(self.report) else [*outdated_packages(*args, is_wait_over=is_wait_over)]


class Silenced(Struct, frozen=True):
    """A silence, by which an operator hides packages for some time; `packages` counts those hidden from a digest."""

    name: str
    packages: int
    reason: str
    until: str


USUAL_ROWS = 25  # of a list in a digest
MAX_HTML = 90_000  # bytes of a mail: Gmail cuts what is longer than about 102,000; lists and gateways add some


class Digest(Struct, frozen=True, kw_only=True, dict=True):
    """Everything that a digest can report; docs/templates.md describes what templates get of it."""

    key: str
    subscription: str
    description: str = ""
    created: datetime
    period: str  # 2026-07-27 or 2026-07-27..2026-08-02
    is_urgent: bool = False
    is_sample: bool = False  # made by `preview` or `test`: nobody waits for it
    unconfirmed: str = ""  # why operators were asked first, if it is sent without their answer
    spans: tuple[Span, ...]
    tags: tuple[TagDigest, ...]
    remembered: Remembered = Remembered()  # by the subscription, before this digest
    environment: CoverageChange | None = None  # what changed for the binaries of the watched environment
    pinned: tuple[Pinned, ...] = ()
    known: Known = Known()  # what is remembered of earlier digests
    alternative: Alternative | None = None  # the snapshot with most binaries of the environment, if known
    silenced: tuple[Silenced, ...] = ()
    why: tuple[str, ...] = ()  # the patterns of the subscription, in words
    stacks: Globs = Globs()  # the stacks that the subscription selects
    commands: tuple[str, ...] = ()  # of cachewatch, to show the same changes
    archive_url: str | None = None
    unsubscribe: str | None = None  # mailto: or https:
    zone: str = "UTC"  # time zone for all times
    operator: str = ""  # who runs cachewatch, with an address to write to
    links: str = ""  # base of links to the catalogue's pages; empty for none
    rows: int = USUAL_ROWS  # of each list, at most

    @cached_property
    def sources(self) -> frozenset[str]:
        """The names of the sources that the digest compares."""
        return frozenset(span.source for span in self.spans)

    @cached_property
    def assessment(self) -> Assessment:
        """What readers should do because of the digest."""
        known = _known(self.known, self.remembered, self.created)
        return assess(
            tuple(
                ComparedTag(
                    source=tag.source,
                    tag=report.after.tag or report.before.tag or report.after.name,
                    base=base_of(report),
                    since=(report.before.time or "")[:10],
                    day=newest_day(report),
                    statements=tag.statements,
                    outdated=tuple(sorted({name for name, _ in tag.outdated(is_wait_over=known.was_waiting)})),
                    is_incomplete=bool(tag.unreadable) or bool(report.losses),
                )
                for tag, report in ((tag, tag.report) for tag in self.tags)
            ),
            environment=self.environment,
            pins=self.pinned,
            known=known,
            alternative=self.alternative,
            is_unknown=any(span.is_unknown for span in self.spans),
        )

    def is_pinned_to(self, tag: str) -> bool:
        """Tell whether readers are pinned to the snapshot `tag`, and this snapshot still exists."""
        return any(pin.tag == tag and not pin.is_gone for pin in self.pinned)

    @property
    def is_empty(self) -> bool:
        """Whether nothing happened that the subscription reports."""
        has_news = any(pin.is_news for pin in self.pinned) or self.environment or self.assessment.lifted
        if not self.is_urgent and (has_news or any(one.because is Because.PRUNED for one in self.assessment.due)):
            return False
        return not any(tag.statements or tag.report.events for tag in self.tags)


def base_of(report: Report) -> str:
    """Return the earlier snapshot that a new one is compared with; "" if a tag is compared with its earlier state."""
    before, after = report.before.tag, report.after.tag
    return before if before and after and before != after else ""


def newest_day(report: Report) -> str:
    """Return the UTC day of the later revision, with the time if both revisions are of that day; "" if unknown."""
    before, after = report.before.time or "", report.after.time or ""
    return after[: 16 if before[:10] == after[:10] else 10]


def _known(known: Known, remembered: Remembered, now: datetime) -> Known:
    """Return `known` with the facts in `remembered`; its `tasks` are only those that digests still repeat at `now`."""
    since = {(one.source, Verb(one.verb), one.subject): one.since for one in remembered.actions}
    tasks = [(replace(one.task, since=one.since), one.is_repeated(now)) for one in remembered.actions if one.task]
    return replace(
        known,
        since={**since, **known.since},
        met=known.met | remembered.met,
        confirmed=known.confirmed | remembered.confirmed,
        waiting={(one.source, one.last.tag): one.left for one in remembered.suspicions},
        tasks=tuple(task for task, is_repeated in tasks if is_repeated),
        quiet=tuple(task for task, is_repeated in tasks if task.is_copy and not is_repeated),
    )


class Notice(Struct, frozen=True, kw_only=True):
    """A message to operators about cachewatch itself."""

    key: str
    created: datetime
    title: str  # such as: source public cannot be read
    is_good: bool = False  # it says that something works again
    is_test: bool = False  # `cachewatch config test` sent it
    said: tuple[str, ...] = ()  # what happened, a sentence each
    facts: tuple[tuple[str, str], ...] = ()  # such as: ("last success", "2026-07-27 04:10 UTC")
    remedy: str = ""  # what to do
    commands: tuple[str, ...] = ()
    zone: str = "UTC"  # time zone for all times
    operator: str = ""


PLACE = "<!-- neighbours --><!-- /neighbours -->"


def with_neighbours(page: str, *, previous: str | None, following: str | None) -> str:
    """Return `page`, the HTML of a digest, with links to the URLs `previous` and `following` (None: no link)."""
    named = (("prev", previous, "Previous"), ("next", following, "Next"))
    links = [f'<a rel="{rel}" href="{escape(to)}">{word} digest</a>' for rel, to, word in named if to]
    said = f'<nav class="neighbours" aria-label="Digests">{" ".join(links)}</nav>' if links else ""
    return page.replace(PLACE, PLACE.replace("--><!--", f"-->{said}<!--"), 1)


class Attachment(Struct, frozen=True):
    """A file that is attached to a digest."""

    name: str
    content_type: str
    content: bytes


class Form(StrEnum):
    """A form of a digest that is made only if a channel needs it; plain text and the HTML of a mail are always made."""

    MARKDOWN = "md"
    FEED = "feed.html"
    PAGE = "page.html"
    JSON = "json"


class RenderedDigest(Struct, frozen=True, kw_only=True):
    """A rendered digest (or notice to operators), in the forms that its channels need; other forms are empty."""

    key: str  # a lasting name; the same span of the same subscription has the same key
    subscription: str
    title: str  # the subject of a mail, without any prefix of its own
    period: str  # 2026-07-27 or 2026-07-27..2026-08-02; fit for a file name
    created: datetime  # UTC; the date of the mail, and fixed with the bytes
    to: tuple[str, ...] = ()  # the recipients of a mail; other channels know their targets
    is_urgent: bool = False
    is_notice: bool = False  # to operators, about cachewatch itself
    tags: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    revisions: tuple[str, ...] = ()  # before..after of each source
    archive_url: str | None = None
    subtitle: str = ""  # of which tags and days it is
    level: str = "calm"  # alarm | notice | calm: colours follow it
    advice: str = ""  # the first thing to do
    bullets: tuple[str, ...] = ()  # what a chat shows: a line each, the most important first
    text: str
    html: str
    page: str = ""  # all of it as a page of an archive, with an empty place for links to its neighbours
    feed: str = ""  # HTML without styles, to put into another page
    markdown: str = ""
    json: bytes = b""
    attachments: tuple[Attachment, ...] = ()

    def message(self, target: str, payload: bytes, content_type: str, message_id: str | None = None) -> "Message":
        """Return a message for `target` (an address, path or URL) with `payload`: this digest in one of its forms."""
        return Message(self.key, target, payload, content_type, self.created, message_id)


class Message(Struct, frozen=True):
    """The final bytes for one recipient, file or address."""

    key: str  # of the digest
    target: str  # an address, a path or a URL without secrets; unique within a digest
    payload: bytes
    content_type: str
    created: datetime
    message_id: str | None = None


class DeliveryOutcome(StrEnum):
    """The result of an attempt to deliver a message."""

    SENT = "sent"
    DEFERRED = "deferred"  # try again later
    DEAD = "dead"  # no retry can help this message
    BLOCKED = "blocked"  # the channel is to blame, not the message: no attempt is used up
    TOO_LARGE = "too-large"  # a shorter form may pass
    RAISED = "raised"  # the code of the channel raised an exception, so it has a bug


class DeliveryResult(Struct, frozen=True):
    """The outcome of one attempt to deliver a message, with the reasons."""

    outcome: DeliveryOutcome
    detail: str = ""  # what the server or an error says, without secrets and control characters
    may_have_arrived: bool = False  # the connection was lost after all was handed over
    is_address: bool = False  # DEAD because of the recipient: other digests to it will fail too
    is_channel: bool = False  # the channel does not work now: all other messages of this run would fail too
    is_lost: bool = False  # the connection was lost over this message: the channel is at fault if others fail too
    traceback: str | None = None  # of what the channel raised, for the log
    retry_after: float | None = None  # seconds, if the server asked to wait

    @property
    def is_refused(self) -> bool:
        """Whether the server refused the recipient permanently."""
        return self.is_address and self.outcome is DeliveryOutcome.DEAD


SENT = DeliveryResult(outcome=DeliveryOutcome.SENT)


class Transport(Protocol):
    """Delivers messages one after the other, over one connection if the channel uses connections."""

    def deliver(self, message: Message) -> DeliveryResult:
        """Deliver one message. Failures are returned, never raised."""


# A function of a target and a number: it returns up to so many messages sent to the target before, newest first.
SentHistory = Callable[[str, int], Sequence[Message]]


class Channel(Protocol):
    """A configured way to send digests."""

    name: str

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return the final messages of a digest, one for each recipient, file or address."""

    def rebuild_message(self, rendered: RenderedDigest, original: Message) -> Message:
        """Return a message with the same content as `original`, marked as resent."""

    def open(self, sent_history: SentHistory) -> AbstractContextManager[Transport]:
        """Return a context with a Transport; `sent_history(target, n)` returns the last `n` messages to `target`."""


class OneByOne:
    """A base class for channels that deliver messages one by one; the channel itself is the Transport."""

    _sent_history: SentHistory = staticmethod(lambda *_: ())

    @contextmanager
    def open(self, sent_history: SentHistory) -> Iterator[Transport]:
        """Yield this channel, then call `end`; `sent_history(target, n)` returns the last `n` messages to `target`."""
        self._sent_history = sent_history
        try:
            yield cast("Transport", self)
        finally:
            self.end()

    def end(self) -> None:
        """Do nothing; subclasses may override this, to end a run of deliveries."""


_CHANNELS = {
    "email": "cachewatch.channels.smtp:EmailChannel",
    "sendmail": "cachewatch.channels.mail:SendmailChannel",
    "maildir": "cachewatch.channels.mail:MaildirChannel",
    "file": "cachewatch.channels.files_and_feeds:FileChannel",
    "feed": "cachewatch.channels.files_and_feeds:FeedChannel",
    "webhook": "cachewatch.channels.webhooks_and_chats:WebhookChannel",
    "apprise": "cachewatch.channels.webhooks_and_chats:AppriseChannel",
}


def open_channel(config: Any) -> Channel:
    """Return the channel with the configuration `config`. Raises ConfigError if a package for it is missing."""
    kinds = {kind.type: kind.channel for kind in extensions().channel_kinds} | _CHANNELS
    return cast("Channel", load(kinds[config.type])(config))
