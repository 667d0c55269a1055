"""What pages say, as values for templates, and where the plots draw it.

All text from documents has passed `stories.shown`. Shapes are drawn in percent of the width that there is, and words
are ordinary text beside them, so that a plot is as readable on a phone as on paper. docs/site.md says why no library
draws them.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from cachewatch.extensions.site.stories import ToldFact

_MOST_TICKS = 4
_LAST_TICK = 84.0  # beyond it a mark would touch the one at the end
_STEPS = (1, 2, 7, 14)  # days; beyond that, months
_MONTHS = (1, 2, 3, 6, 12, 24, 60)
_NARROWEST, _WIDEST = 0.4, 3.0


class Tick(Struct, frozen=True):
    """A mark on an axis."""

    at: float
    label: str


class Clock(Struct, frozen=True):
    """Where each revision is on the axis of time, in percent."""

    places: tuple[float, ...]
    ticks: tuple[Tick, ...]


def clock(times: Sequence[datetime | None], *, past: float = 1) -> Clock:
    """Place revisions in time; clocks that run backwards, or are missing, stand still.

    Less than all of the width may be for the `past`: what the last revision brought is seen
    in what is left, however long it has been there.
    """
    seconds: list[float] = []
    for time in times:
        last = seconds[-1] if seconds else 0.0
        seconds.append(last if time is None else max(last, time.timestamp()))
    known = [s for s in seconds if s > 0] or [0.0]
    first, last = known[0], known[-1]
    if last <= first:
        return Clock(tuple(round(past * 100 * n / max(1, len(times) - 1), 2) for n in range(len(times))), ())
    places = tuple(round(past * max(0.0, 100 * (s - first) / (last - first)), 2) for s in seconds)
    ticks = _ticks(datetime.fromtimestamp(first, UTC), datetime.fromtimestamp(last, UTC))
    if past < 1:
        scaled = (Tick(round(past * tick.at, 2), tick.label) for tick in ticks)
        ticks = (*(tick for tick in scaled if tick.at <= _LAST_TICK), Tick(100, "latest"))
    return Clock(places, ticks)


def _ticks(first: datetime, last: datetime) -> tuple[Tick, ...]:
    span = (last - first).total_seconds()

    def at(moment: datetime) -> float:
        return round(100 * (moment - first).total_seconds() / span, 2)

    days = span / 86400
    step = next((s for s in _STEPS if days / s <= _MOST_TICKS), None)
    if step is not None:
        day = first.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        found = [day + timedelta(days=n) for n in range(0, int(days) + 1, step)]
        return tuple(Tick(at(d), f"{d.day} {d:%b}") for d in found if d <= last)
    months = next((m for m in _MONTHS if days / 30 / m <= _MOST_TICKS), _MONTHS[-1])
    start = first.year * 12 + first.month  # the month after the first
    starts = (datetime(m // 12, m % 12 + 1, 1, tzinfo=UTC) for m in range(start, start + int(days / 28) + 2))
    chosen = [d for d in starts if d <= last and (d.month - 1) % min(months, 12) == 0]
    return tuple(Tick(at(d), f"{d:%b %Y}") for d in chosen)


def steps(places: Sequence[float], values: Sequence[int], top: int) -> str:
    """Return the path of a line that holds each value until the next, and the last; 0 is at the bottom (100)."""
    height = [round(100 - 100 * value / max(1, top), 1) for value in values]
    path = f"M{places[0]:g} {height[0]:g}"
    for (x, y), old in zip(list(zip(places, height, strict=True))[1:], height, strict=False):
        path += f"H{x:g}" + (f"V{y:g}" if y != old else "")
    return path if places[-1] == 100 else f"{path}H100"


def area(places: Sequence[float], values: Sequence[int], top: int) -> str:
    """Return the path of what lies below that line."""
    return f"{steps(places, values, top)}V100H{places[0]:g}Z"


def bars(places: Sequence[float], values: Sequence[int], top: int) -> str:
    """Return the path of one bar for each value; what is there at all is seen."""
    width = min(_WIDEST, max(_NARROWEST, 70 / max(1, len(places))))
    path = ""
    for place, value in zip(places, values, strict=True):
        if value:
            left = max(0.0, min(100 - width, place - width / 2))
            height = max(4.0, 100 * value / max(1, top))
            path += f"M{left:.2f} 100v-{height:.1f}h{width:.2f}v{height:.1f}z"
    return path


class Link(Struct, frozen=True):
    """A name, and where its page is; without an address it is only a name."""

    text: str
    address: str = ""


class DatedRevision(Struct, frozen=True):
    """A revision, to be read."""

    day: str  # 2025-05-24, or empty where the commit has no date that a calendar holds
    commit: str  # short
    calendar_day: str = ""  # 24 May 2025


class Figure(Struct, frozen=True):
    """A number and what it counts."""

    number: str
    label: str


class Curve(Struct, frozen=True):
    """One small plot over time: what is counted, drawn, and said in words."""

    name: Link
    title: str  # the plot in a sentence
    line: str  # paths; one of them may be empty
    area: str
    bars: str
    value: str  # now, or in total
    note: str
    tone: str = ""  # a class of site.css
    about: str = ""  # what the name means
    top: str = ""  # what the top of the plot stands for; the bottom is 0


class PlotMark(Struct, frozen=True):
    """Something that happened to the whole tag, on the axis of time."""

    at: float
    tone: str
    letter: str
    title: str


class Plot(Struct, frozen=True):
    """Curves over one axis of time, and the same as a table."""

    curves: tuple[Curve, ...]
    ticks: tuple[Tick, ...]
    first: DatedRevision
    last: DatedRevision
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[PlotMark, ...] = ()


class LagRow(Struct, frozen=True):
    """How late versions came to one stack."""

    stack: Link
    arrivals: int
    median: str
    most: str
    at: float  # the median, in percent of the axis
    until: float  # nine tenths of all
    title: str


class MatrixRow(Struct, frozen=True):
    """One stack: for which targets it builds, and how many specs it has of each version."""

    stack: Link
    targets: str
    counts: tuple[int, ...]
    is_unreferenced: bool = False


class Matrix(Struct, frozen=True):
    """Stacks by versions, the newest version first."""

    versions: tuple[str, ...]
    rows: tuple[MatrixRow, ...]
    older: tuple[str, ...] = ()  # versions for which there is no room
    more_older: int = 0


class BuildRow(Struct, frozen=True):
    """Specs that differ in nothing but their hash."""

    version: str
    hashes: tuple[str, ...]
    more_hashes: int
    configuration: str  # compiler, operating system and target
    stacks: str
    variants: str  # that not all builds of the package have


class Builds(Struct, frozen=True):
    """What can be installed: all specs, alike ones together."""

    rows: tuple[BuildRow, ...]
    count: int
    more: int
    shared: str  # variants that all of them have


class Install(Struct, frozen=True):
    """How to install one binary: the newest version, where most stacks build it."""

    setup: tuple[str, ...]  # commands that are given once
    command: str
    about: str
    variants: str


class Bar(Struct, frozen=True):
    """One stay of a version in a stack, drawn."""

    left: float
    width: float
    lane: int
    label: str
    tone: str


class Lane(Struct, frozen=True):
    """All stays in one stack."""

    stack: Link
    title: str
    height: int  # in lanes
    bars: tuple[Bar, ...]


class StayRow(Struct, frozen=True):
    """One stay of a version in a stack, in words."""

    stack: Link
    version: str
    came: DatedRevision
    is_dated: bool
    went: DatedRevision | None
    lag: str


class Happening(Struct, frozen=True):
    """What one revision did."""

    moment: DatedRevision
    counts: tuple[Figure, ...]
    specs: str
    came: tuple[Link, ...] = ()
    went: tuple[Link, ...] = ()
    more_came: int = 0
    more_went: int = 0
    packages: int = 0
    note: str = ""


class PackageRow(Struct, frozen=True):
    """One package in a list."""

    name: Link
    versions: str
    more_versions: int
    specs: int
    stacks: int
    targets: str
    day: str = ""
    note: str = ""
    tone: str = ""


class TagRow(Struct, frozen=True):
    """One tag in a list."""

    name: Link
    packages: int
    specs: int
    versions: str = ""
    note: str = ""


class ChainStep(Struct, frozen=True):
    """One package on the way from a cause to a rebuild."""

    name: Link
    note: str  # what happened to it, at the cause
    top: int  # pixels


class CauseChain(Struct, frozen=True):
    """A cause in words, and the way from it to the package as a picture; without steps it is in the package itself."""

    words: str
    title: str
    steps: tuple[ChainStep, ...]
    height: int  # pixels


class Reasons(Struct, frozen=True):
    """Why a package was rebuilt the last time."""

    moment: DatedRevision
    chains: tuple[CauseChain, ...]


class LostRow(Struct, frozen=True):
    """A stack that has no build of a package any more."""

    stack: Link
    moment: DatedRevision


class PackagePage(Struct, frozen=True, kw_only=True):
    """Everything about one package."""

    name: str
    tag: str
    lead: str
    gone: DatedRevision | None
    since: DatedRevision | None
    lost: tuple[LostRow, ...]
    more_lost: int
    figures: tuple[Figure, ...]
    upstream: str  # the address of Spack's own page about it, if there is one
    install: Install | None
    matrix: Matrix | None
    is_pruned: bool
    builds: Builds
    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    stays: tuple[StayRow, ...]
    more_stays: int
    specs: Plot | None
    reasons: Reasons | None
    happenings: tuple[Happening, ...]
    more_happenings: int
    baseline: DatedRevision | None
    tags: tuple[TagRow, ...]
    feed: str
    stack_feeds: tuple[Link, ...]


class StackPage(Struct, frozen=True, kw_only=True):
    """Everything about one stack."""

    name: str
    tag: str
    lead: str
    figures: tuple[Figure, ...]
    plot: Plot | None
    happenings: tuple[Happening, ...]
    more_happenings: int
    packages: tuple[PackageRow, ...]
    feed: str


class MoveSection(Struct, frozen=True):
    """What happened to some packages between two tags, a line each."""

    title: str
    tone: str
    rows: tuple[tuple[Link, str, str], ...]  # package, what happened, where
    more: int


class Move(Struct, frozen=True):
    """What moving from another tag to that of the page means, or on from it to another one."""

    key: str  # of the part of the page
    word: str  # from or to
    other: Link
    verdict: str
    counts: tuple[Figure, ...]
    sections: tuple[MoveSection, ...]


class TagPage(Struct, frozen=True, kw_only=True):
    """Everything about one tag."""

    name: str
    figures: tuple[Figure, ...]
    moves: tuple[Move, ...]
    packages: tuple[PackageRow, ...]


class DigestRow(Struct, frozen=True):
    """One digest in the list."""

    title: Link
    subscription: str
    period: str
    day: str


class DigestsPage(Struct, frozen=True, kw_only=True):
    """The digests that were published."""

    digests: tuple[DigestRow, ...]
    feeds: tuple[Link, ...]


class Card(Struct, frozen=True):
    """A few lines of the first screen."""

    title: str
    lines: tuple["CardLine", ...]
    nothing: str  # what is said where there are no lines
    onward: Link | None = None


class CardLine(Struct, frozen=True):
    """One line of a card: a clause that may begin with a link."""

    text: str
    link: Link | None = None
    tone: str = ""


class RevisionRow(Struct, frozen=True):
    """One revision in a list: what it did, in clauses."""

    moment: DatedRevision
    address: str
    facts: tuple[ToldFact, ...]
    more: int
    size: str


class RevisionSection(Struct, frozen=True):
    """Statements of one kind, or one about the whole tag."""

    tone: str
    title: str
    name: str
    total: str
    notes: tuple[str, ...]
    named: tuple[Link, ...]
    more_named: str
    rows: tuple[tuple[Link, str, str, str], ...]
    more: str


class RevisionPage(Struct, frozen=True, kw_only=True):
    """What one revision did."""

    tag: str
    commit: str
    moment: DatedRevision
    before: DatedRevision
    earlier: Link | None
    later: Link | None
    total: str
    sections: tuple[RevisionSection, ...]


class IndexPage(Struct, frozen=True, kw_only=True):
    """The first page."""

    tag: str
    day: str  # 20 Nov 2026
    published: str  # RFC 3339; empty where the commit has no date that a calendar holds
    lead: str
    cards: tuple[Card, ...]
    figures: tuple[Figure, ...]
    churn: Plot | None
    stacks: Plot | None
    lags: tuple[LagRow, ...]
    lag_ticks: tuple[Tick, ...]
