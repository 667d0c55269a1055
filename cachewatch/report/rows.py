"""The lines of a report, as values: one for each package and change.

The state is two characters. A capital says that somebody can notice, a small letter that
there is one copy more or less; `!` marks a loss, `*` a new package.
"""

from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.causes import NO_CAUSE, Cause
from cachewatch.model import Kind
from cachewatch.report.cover import Spots, cover


class Section(Enum):
    """The sections of a report, worst first."""

    REMOVED = "removed"
    LEFT_OVER = "left over"
    DOWNGRADED = "downgraded"
    UPGRADED = "upgraded"
    ADDED = "added"
    STACKS = "stacks"
    COMPILERS = "compilers"
    VARIANTS = "variants"
    REBUILT = "rebuilt"


class Row(Struct, frozen=True, kw_only=True):
    """One line. `before` and `after` are versions or the like; a count of None is told elsewhere."""

    section: Section
    state: str
    package: str
    before: str = ""
    after: str = ""
    count: int | None
    spots: Spots = ()
    all_stacks: frozenset[str] = frozenset()  # of the package
    move: str = ""  # between stacks, in place of spots
    note: str = ""
    kinds: frozenset[Kind]
    cause: Cause = NO_CAUSE

    @property
    def where(self) -> str:
        """Where it happened, in few words."""
        return self.move or cover(self.spots, self.all_stacks)

    def says_as_much(self, other: "Row") -> bool:
        """Tell whether two lines differ only in where and how often."""
        return self.words == other.words

    def joined(self, other: "Row") -> "Row":
        """Return one line for both."""
        count = None if self.count is None else self.count + (other.count or 0)
        return replace(self, count=count, spots=self.spots + other.spots, kinds=self.kinds | other.kinds)

    @property
    def words(self) -> tuple[str, ...]:
        """All that a line says but where and how often."""
        return (self.state, self.package, self.before, self.after, self.move, self.note)
