"""What a digest tells, topic by topic: as many lines as are printed, and exact counts of the rest."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from msgspec import Struct, field

from cachewatch.causes import Cause
from cachewatch.model import Kind
from cachewatch.report.board import Bucket, merged
from cachewatch.report.rows import Row, Section


class Topic(StrEnum):
    """What lines can be about, worst first. The first four need somebody's attention."""

    GONE = "gone"  # whole packages
    LOST = "lost"  # places that have nothing of the package any more
    LEFT_OVER = "left-over"
    DOWNGRADED = "downgraded"
    UPGRADED = "upgraded"
    NEW = "new"  # whole packages
    ADDED = "added"  # versions, and copies where there was none
    RETIRED = "retired"  # older versions, and combinations, that a place has no more
    STACKS = "stacks"
    COMPILERS = "compilers"
    VARIANTS = "variants"
    FEWER = "fewer"  # specs of what is still there, or was replaced
    MORE = "more"  # copies of what was there
    REBUILT = "rebuilt"


ATTENTION = (Topic.GONE, Topic.LOST, Topic.LEFT_OVER, Topic.DOWNGRADED)

_TOPICS = {
    Section.LEFT_OVER: Topic.LEFT_OVER,
    Section.DOWNGRADED: Topic.DOWNGRADED,
    Section.UPGRADED: Topic.UPGRADED,
    Section.STACKS: Topic.STACKS,
    Section.COMPILERS: Topic.COMPILERS,
    Section.VARIANTS: Topic.VARIANTS,
    Section.REBUILT: Topic.REBUILT,
}


class TopicReport(Struct, frozen=True, kw_only=True):
    """One topic of one tag. Lines that are not among `rows` are counted all the same."""

    topic: Topic
    rows: tuple[Row, ...]
    packages: int  # that it is about, printed or not
    specs: int
    lines: int  # that speak of no specs of their own, printed or not
    explained_specs: int  # that events speak of instead
    kinds: frozenset[Kind]


class Pile(Struct):
    """The lines of one topic and cause."""

    bucket: Bucket = field(default_factory=Bucket)
    kinds: set[Kind] = field(default_factory=set)


Piles = dict[tuple[Topic, Cause], Pile]
# How many packages have lines of a topic for exactly these causes.
Heads = Counter[tuple[Topic, frozenset[Cause]]]


class Ledger:
    """Collects the lines of all packages of one tag, topic by topic."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._piles: Piles = {}
        self._heads: Heads = Counter()

    def add(self, rows: Iterable[Row]) -> None:
        """Take all lines of one package."""
        causes: dict[Topic, set[Cause]] = {}
        for row in rows:
            topic = topic_of(row)
            pile = self._pile(topic, row.cause)
            pile.bucket.add(row, self._most)
            pile.kinds |= row.kinds
            causes.setdefault(topic, set()).add(row.cause)
        self._heads.update((topic, frozenset(found)) for topic, found in causes.items())

    def take(self) -> tuple[Piles, Heads]:
        """Hand over what was collected, and begin anew."""
        taken = self._piles, self._heads
        self._piles, self._heads = {}, Counter()
        return taken

    def join(self, taken: tuple[Piles, Heads]) -> None:
        """Append what another ledger handed over, of packages that come after these."""
        piles, heads = taken
        for key, other in piles.items():
            pile = self._pile(*key)
            pile.bucket.join(other.bucket, self._most)
            pile.kinds |= other.kinds
        self._heads.update(heads)

    def reports(self, explains: Callable[[Cause], bool]) -> Iterator[TopicReport]:
        """Yield the topics that have something to say, without the lines that events explain."""
        for topic in Topic:
            told = [pile for (t, cause), pile in self._piles.items() if t is topic and explains(cause)]
            left = [pile for (t, cause), pile in self._piles.items() if t is topic and not explains(cause)]
            if told or left:
                yield self._report(topic, left, told, explains)

    def _report(
        self, topic: Topic, left: list[Pile], told: list[Pile], explains: Callable[[Cause], bool]
    ) -> TopicReport:
        rows = merged(sorted((row for pile in left for row in pile.bucket.rows), key=lambda row: row.package))
        return TopicReport(
            topic=topic,
            rows=tuple(rows[: self._most]),
            packages=sum(
                count for (t, causes), count in self._heads.items() if t is topic and not all(map(explains, causes))
            ),
            specs=sum(pile.bucket.specs for pile in left),
            lines=sum(pile.bucket.uncounted for pile in left),
            explained_specs=sum(pile.bucket.specs for pile in told),
            kinds=frozenset().union(*(pile.kinds for pile in left)),
        )

    def _pile(self, topic: Topic, cause: Cause) -> Pile:
        return self._piles.setdefault((topic, cause), Pile())


def topic_of(row: Row) -> Topic:
    """Return what a line is about."""
    if row.section is Section.REMOVED:
        if Kind.PACKAGE_REMOVED in row.kinds:
            return Topic.GONE
        return {"R!": Topic.LOST, "R ": Topic.RETIRED}.get(row.state, Topic.FEWER)
    if row.section is Section.ADDED:
        if Kind.PACKAGE_ADDED in row.kinds:
            return Topic.NEW
        return Topic.MORE if row.state[0].islower() else Topic.ADDED
    return _TOPICS[row.section]
