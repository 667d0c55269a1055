"""A digest: the selected changes of one span, for one subscription, as values to be rendered."""

from datetime import datetime

from msgspec import Struct

from cachewatch.model import Side
from cachewatch.report import Report


class Span(Struct, frozen=True, kw_only=True):
    """What a digest covers of one source."""

    source: str
    address: str  # where the repository is, without secrets
    before: Side
    after: Side
    revisions: int | None = None  # in between, counting the newest; None where that is unknown
    newest: datetime | None = None  # when the newest data was published, UTC
    checked: datetime | None = None  # when the source was last asked with success, UTC
    notes: tuple[str, ...] = ()  # such as: history was rewritten; no news for 5 days


class TagDigest(Struct, frozen=True, kw_only=True):
    """What happened to one tag of one source."""

    source: str
    report: Report


class Silenced(Struct, frozen=True):
    """How many packages a silence kept out of a digest, and why."""

    name: str
    packages: int
    reason: str
    until: str


class Digest(Struct, frozen=True, kw_only=True):
    """All that a template may say: the documented, stable context of digest templates."""

    key: str
    subscription: str
    description: str = ""
    created: datetime
    period: str  # 2026-07-27 or 2026-07-27..2026-08-02
    is_urgent: bool = False
    is_sample: bool = False  # made by `preview` or `test`: nobody waits for it
    spans: tuple[Span, ...]
    tags: tuple[TagDigest, ...]
    silenced: tuple[Silenced, ...] = ()
    why: tuple[str, ...] = ()  # the patterns of the subscription, in words
    commands: tuple[str, ...] = ()  # that show the same changes
    archive_url: str | None = None
    unsubscribe: str | None = None  # mailto: or https:
    operator: str = ""  # who runs this, as people may write to them
    links: str = ""  # base of links to the catalogue's pages; empty for none
    group_by: str = "stack"
