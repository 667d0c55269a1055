"""A digest on its way to its recipients: what a channel receives, builds and reports.

A channel turns one digest into messages, one per recipient, file or address, whose bytes are
final: they are stored before anything is sent, and every retry sends the same ones.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from msgspec import Struct


class Attachment(Struct, frozen=True):
    """A file that goes with a digest."""

    name: str
    content_type: str
    content: bytes


class Form(StrEnum):
    """A form of a digest that only some channels want; all others are made for each digest."""

    MARKDOWN = "md"
    FEED = "feed.html"
    PAGE = "page.html"


class RenderedDigest(Struct, frozen=True, kw_only=True):
    """One rendered digest (or notice to operators), in the forms that its channels want; others are empty."""

    key: str  # names this digest for good: the same span of the same subscription has the same
    subscription: str
    title: str  # the subject of a mail, without any prefix of its own
    period: str  # 2026-07-27 or 2026-07-27..2026-08-02; fit for a file name
    created: datetime  # UTC; the date of the mail, and fixed with the bytes
    to: tuple[str, ...] = ()  # whom a mail goes to; other channels know their place
    is_urgent: bool = False
    is_notice: bool = False  # to operators, about cachewatch itself
    tags: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    revisions: tuple[str, ...] = ()  # before..after of each source
    archive_url: str | None = None
    subtitle: str = ""  # of which tags and days it is
    bullets: tuple[str, ...] = ()  # what a chat shows: a line each, the most important first
    text: str
    html: str
    page: str = ""  # all of it as a page of an archive, with a place for neighbours.py
    feed: str = ""  # the same as HTML for inside of another page, without any styles
    markdown: str = ""
    json: bytes
    attachments: tuple[Attachment, ...] = ()


class Message(Struct, frozen=True, kw_only=True):
    """The final bytes for one target."""

    key: str  # of the digest
    target: str  # an address, a path or a URL without secrets; unique within a digest
    payload: bytes
    content_type: str
    message_id: str | None = None
    created: datetime


class DeliveryOutcome(StrEnum):
    """What became of a message."""

    SENT = "sent"
    DEFERRED = "deferred"  # try again later
    DEAD = "dead"  # no retry can help this message
    BLOCKED = "blocked"  # the channel is to blame, not the message: no attempt is used up
    TOO_LARGE = "too-large"  # a shorter form may pass
    RAISED = "raised"  # the channel has a bug, which this message or any other brings to light


class DeliveryResult(Struct, frozen=True, kw_only=True):
    """What a transport reports of one attempt."""

    outcome: DeliveryOutcome
    detail: str = ""  # the other side's words, without secrets and control characters
    may_have_arrived: bool = False  # the connection was lost after all was handed over
    is_address: bool = False  # DEAD because of the recipient: other digests to it will fail too
    is_channel: bool = False  # the channel does not work now: all other messages of this run would fail too
    is_lost: bool = False  # the connection was lost over this message: the channel is at fault if others fail too
    traceback: str | None = None  # of what the channel raised, for the log
    retry_after: float | None = None  # seconds, where the other side asked for them


SENT = DeliveryResult(outcome=DeliveryOutcome.SENT)


class Transport(Protocol):
    """Takes messages out, one after the other, over one connection where there is one."""

    def deliver(self, message: Message) -> DeliveryResult:
        """Hand over one message; every failure is an answer, never an exception."""


# Returns the messages that were sent to a target before, newest first, at most so many.
SentHistory = Callable[[str, int], Sequence[Message]]


class Channel(Protocol):
    """A way out, as configured under one name."""

    name: str

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return the final bytes for every target of `digest`."""

    def rebuild_message(self, rendered: RenderedDigest, original: Message) -> Message:
        """Return a message that repeats what was sent before, marked as resent."""

    def open(self, sent_history: SentHistory) -> AbstractContextManager[Transport]:
        """Begin a run of deliveries; nothing is connected before the first message."""
