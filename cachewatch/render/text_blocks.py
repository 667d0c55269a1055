"""What a terminal, Markdown and a page show of statements, as values: blocks of lines, and what a reader asked for."""

import sys
from collections.abc import Iterable, Sequence

from msgspec import Struct

from cachewatch.core.statements import Line, Severity, Statement, StatementKind
from cachewatch.core.statements.values import Counts
from cachewatch.render.diff_totals import Wants, signed
from cachewatch.render.statement_phrases import HEADINGS, MOST_NAMES

ALL = sys.maxsize

# How many packages are named in one place, and how many stacks where there is room.
FEW_NAMES = 5
_MANY_NAMES = 12


class Requested(Struct, frozen=True, kw_only=True):
    """What a reader asked for: `most` lines a section, and which kinds of change."""

    most: int
    wants: Wants
    names_packages: bool = False  # also those that a terminal only counts

    @property
    def is_whole(self) -> bool:
        """Whether nothing is to be cut."""
        return self.most == ALL

    @property
    def names_kinds(self) -> bool:
        """Whether only some kinds of change are asked for."""
        return not self.wants(frozenset())

    @property
    def most_names(self) -> int:
        """How many stacks and the like are named in one place."""
        return ALL if self.is_whole else _MANY_NAMES if self.names_packages else MOST_NAMES


class BlockEntry(Struct, frozen=True, kw_only=True):
    """One line: a package or a place, what happened to it, how many specs that is, and where."""

    name: str
    fact: str = ""
    counts: Counts = Counts()
    here: Counts | None = None  # of a place: all that it lost, also what the line of another place counts
    where: str = ""
    is_harmless: bool = False  # nothing is missed, whatever the heading

    @property
    def specs(self) -> str:
        """How many specs, with their signs."""
        return signed(self.counts if self.here is None else self.here)


class Block(Struct, frozen=True, kw_only=True):
    """A section, or one statement on the whole tag."""

    kind: StatementKind
    severity: Severity
    title: str
    name: str = ""  # what a statement on the whole tag is about
    total: str = ""
    notes: tuple[str, ...] = ()  # each a clause
    named: str = ""  # packages
    entries: tuple[BlockEntry, ...] = ()
    more: str = ""  # what is left out of the entries
    packages: int = 0

    @property
    def is_by_place(self) -> bool:
        """Whether lines are about places, not packages."""
        return self.kind is StatementKind.PLACE_LOST


class Shown(Struct, frozen=True, kw_only=True):
    """All that a report says of changes."""

    blocks: tuple[Block, ...]
    total: str  # one sentence that adds up; where nothing was asked for, it says so


class Chosen(Struct, frozen=True):
    """A statement with those of its lines that were asked for."""

    statement: Statement
    lines: tuple[Line, ...]
    wanted: frozenset[str] | None = None  # packages with changes of the kinds that were asked for, if any were

    @property
    def is_of_tag(self) -> bool:
        """Whether it is told in a block of its own."""
        return self.statement.kind not in HEADINGS

    @property
    def counts(self) -> Counts:
        """All items of these lines."""
        return sum_of(line.counts for line in self.lines)

    @property
    def packages(self) -> Sequence[str]:
        """The packages that are named: those of the lines, most items first."""
        if len(self.lines) == len(self.statement.lines) and not self.is_of_tag:
            found = self.statement.packages
            return found if self.wanted is None else tuple(name for name in found if name in self.wanted)
        return tuple(dict.fromkeys(line.package for line in self.lines))


def sum_of(counts: Iterable[Counts]) -> Counts:
    """Add up counts."""
    return sum(counts, start=Counts())
