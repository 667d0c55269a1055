"""What pages say, as values for templates. All text from documents has passed naming.shown()."""

from msgspec import Struct

from cachewatch.site.plots import Tick


class Link(Struct, frozen=True):
    """A name, and where its page is; without an address it is only a name."""

    text: str
    address: str = ""


class DatedRevision(Struct, frozen=True):
    """A revision, to be read."""

    day: str  # 2025-05-24, or empty where the commit has no date that a calendar holds
    commit: str  # short


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


class Plot(Struct, frozen=True):
    """Curves over one axis of time, and the same as a table."""

    curves: tuple[Curve, ...]
    ticks: tuple[Tick, ...]
    first: DatedRevision
    last: DatedRevision
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class LagRow(Struct, frozen=True):
    """How late versions came to one stack."""

    stack: Link
    arrivals: int
    median: str
    most: str
    at: float  # the median, in percent of the axis
    until: float  # nine tenths of all
    title: str


class Cell(Struct, frozen=True):
    """How many specs there are of a version in a stack for a target."""

    count: int
    is_last: bool = False


class MatrixRow(Struct, frozen=True):
    """One stack of one version."""

    stack: Link
    is_unreferenced: bool
    cells: tuple[Cell, ...]


class MatrixGroup(Struct, frozen=True):
    """All stacks of one version."""

    version: str
    rows: tuple[MatrixRow, ...]


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


class PackagePage(Struct, frozen=True, kw_only=True):
    """Everything about one package."""

    name: str
    tag: str
    lead: str
    gone: DatedRevision | None
    since: DatedRevision | None
    figures: tuple[Figure, ...]
    targets: tuple[str, ...]
    matrix: tuple[MatrixGroup, ...]
    has_last: bool
    has_unreferenced: bool
    compilers: tuple[str, ...]
    oses: tuple[str, ...]
    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    stays: tuple[StayRow, ...]
    more_stays: int
    specs: Plot | None
    happenings: tuple[Happening, ...]
    more_happenings: int
    baseline: DatedRevision | None
    tags: tuple[TagRow, ...]


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


class TagPage(Struct, frozen=True, kw_only=True):
    """Everything about one tag."""

    name: str
    figures: tuple[Figure, ...]
    predecessor: Link | None
    changes: tuple[Figure, ...]
    packages: tuple[PackageRow, ...]


class DigestRow(Struct, frozen=True):
    """One digest in the list."""

    title: Link
    subscription: str
    period: str
    day: str


class IndexPage(Struct, frozen=True, kw_only=True):
    """The first page."""

    tag: str
    lead: str
    unreferenced: str
    figures: tuple[Figure, ...]
    digests: tuple[DigestRow, ...]
    feeds: tuple[Link, ...]
    churn: Plot | None
    stacks: Plot | None
    lags: tuple[LagRow, ...]
    lag_ticks: tuple[Tick, ...]
    happenings: tuple[Happening, ...]
    more_happenings: int
