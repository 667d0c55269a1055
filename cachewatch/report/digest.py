"""A digest: the selected changes of one span, for one subscription, as values to be rendered."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import pairwise

from msgspec import Struct

from cachewatch.core.environment_coverage import CoverageChange
from cachewatch.core.model import Side, Unreadable
from cachewatch.core.statements import Statement
from cachewatch.report.changes import Report
from cachewatch.report.snapshots import SnapshotMove


class Outage(Struct, frozen=True):
    """A time in which a source published nothing, longer than it usually takes."""

    since: datetime
    until: datetime


class Span(Struct, frozen=True, kw_only=True):
    """What a digest covers of one source."""

    source: str
    address: str  # public URL of the repository; empty where readers have none
    before: Side
    after: Side
    revisions: int | None = None  # in between, counting the newest; None where that is unknown
    newest: datetime | None = None  # when the newest data was published, UTC
    checked: datetime | None = None  # when the source was last asked with success, UTC
    gaps: tuple[Outage, ...] = ()  # between revisions; find_outages finds them
    mirror: str | None = None  # where Spack installs from; {tag} is filled in
    unread: tuple[str, ...] = ()  # packages whose documents cannot be read: what changes in them is told later
    is_unknown: bool = False  # what changed cannot be known: the state that was told last is nowhere any more
    notes: tuple[str, ...] = ()  # such as: history was rewritten; no news for 5 days


class Machine(Struct, frozen=True, order=True):
    """What a binary is built for."""

    platform: str
    os: str
    target: str


class Example(Struct, frozen=True, kw_only=True):
    """The newest version of a package, to be tried out."""

    package: str
    version: str
    stacks: tuple[str, ...]  # that build it
    machines: tuple[Machine, ...]


class Table(Struct, frozen=True):
    """The changed specs as lines of CSV without a heading, compressed with gzip."""

    content: bytes = b""
    size: int = 0  # bytes before compression
    is_complete: bool = True  # False if it grew too large, and is empty then


class VersionsChange(Struct, frozen=True):
    """The versions that came to and went from one package."""

    package: str
    added: tuple[str, ...]
    removed: tuple[str, ...]


class TagDigest(Struct, frozen=True, kw_only=True):
    """What happened to one tag of one source."""

    source: str
    report: Report
    statements: tuple[Statement, ...] = ()  # that are told, most important first
    rest: tuple[Statement, ...] = ()  # that are only summed up: kinds that nobody asked for, or somebody silenced
    move: SnapshotMove | None = None  # what moving to it means, where it is a snapshot that is compared with another
    versions: tuple[VersionsChange, ...] = ()
    examples: tuple[Example, ...] = ()
    table: Table = Table()
    unreadable: tuple[Unreadable, ...] = ()  # documents that could not be compared


class Pinned(Struct, frozen=True, kw_only=True):
    """A snapshot that somebody stays with, and what moving to the newest one would gain and lose."""

    tag: str
    source: str = ""  # empty where no source has it, or anything of its series
    is_gone: bool = False
    newest: str = ""  # the newest of the series if that is another one
    newer: int = 0  # how many of the series are newer
    older: int = 0  # and how many are older: where old ones are deleted, these go before it
    move: CoverageChange | None = None  # for the environment, where there is one
    whole_move: TagDigest | None = None  # for the whole selection, where there is none
    is_news: bool = False  # it is gone since the last digest, or there is a newer one since

    @property
    def is_near_the_end(self) -> bool:
        """Whether it is among the two oldest of the series, of which newer ones are there."""
        return not self.is_gone and self.newer > 0 and self.older <= 1


class Return(Struct, frozen=True, kw_only=True):
    """Something that is back in a tag, of which these readers were told that it is gone."""

    source: str
    tag: str
    kind: str  # stack | package | tag
    name: str
    gone_since: datetime  # when they were told
    revision: str  # in which it was gone
    packages_before: int
    packages_now: int
    specs_before: int
    specs_now: int


class Silenced(Struct, frozen=True):
    """How many packages a silence kept out of a digest, and why."""

    name: str
    packages: int
    reason: str
    until: str


class Digest(Struct, frozen=True, kw_only=True):
    """All that a template may say; docs/templates.md describes what templates are given of it."""

    key: str
    subscription: str
    description: str = ""
    created: datetime
    period: str  # 2026-07-27 or 2026-07-27..2026-08-02
    is_urgent: bool = False
    is_sample: bool = False  # made by `preview` or `test`: nobody waits for it
    unconfirmed: str = ""  # for what it was held, if it goes out though the operators did not answer
    spans: tuple[Span, ...]
    tags: tuple[TagDigest, ...]
    returns: tuple[Return, ...] = ()  # of what these readers were told is gone
    environment: CoverageChange | None = None  # what became of the binaries of the environment that is watched
    pinned: tuple[Pinned, ...] = ()
    silenced: tuple[Silenced, ...] = ()
    why: tuple[str, ...] = ()  # the patterns of the subscription, in words
    commands: tuple[str, ...] = ()  # that show the same changes
    archive_url: str | None = None
    unsubscribe: str | None = None  # mailto: or https:
    zone: str = "UTC"  # in which times are said
    operator: str = ""  # who runs this, as people may write to them
    links: str = ""  # base of links to the catalogue's pages; empty for none
    rows: int = 25  # of each list, at most

    @property
    def is_empty(self) -> bool:
        """Whether nothing happened of what was asked for."""
        if any(pin.is_news for pin in self.pinned) or (self.environment and not self.is_urgent):
            return False
        return not any(tag.statements or tag.report.events for tag in self.tags)


class Notice(Struct, frozen=True, kw_only=True):
    """Something that operators must know of cachewatch itself."""

    key: str
    created: datetime
    title: str  # such as: source public cannot be read
    is_good: bool = False  # it works again
    said: tuple[str, ...] = ()  # what happened, a sentence each
    facts: tuple[tuple[str, str], ...] = ()  # such as: ("last success", "2026-07-27 04:10 UTC")
    remedy: str = ""  # what to do
    commands: tuple[str, ...] = ()
    zone: str = "UTC"  # in which times are said
    operator: str = ""


# Of so many revisions the rhythm of a source is learnt, and from so few intervals it cannot be.
LEARNT_FROM, _FEW_INTERVALS = 10, 3
# Times of the rhythm after which there is a gap, which readers have no use for if it is shorter than a day.
_TIMES, _SHORTEST = 3, timedelta(days=1)


def longest_pause(times: Iterable[datetime]) -> timedelta | None:
    """Return after what time without a revision there is a gap, learnt from when the last ones were made; None if they are few.

    The rhythm is what three quarters of the intervals do not exceed: neither gaps among them nor revisions that come in
    quick succession make it another one.
    """
    ordered = sorted(times)
    intervals = sorted(b - a for a, b in pairwise(ordered))
    if len(intervals) < _FEW_INTERVALS:
        return None
    return max(_TIMES * intervals[len(intervals) * 3 // 4], _SHORTEST)


def find_outages(times: Iterable[datetime], longest: timedelta) -> tuple[Outage, ...]:
    """Return where more than `longest` passed between two of `times`, in any order."""
    ordered = sorted(times)
    return tuple(Outage(a, b) for a, b in pairwise(ordered) if b - a > longest)
