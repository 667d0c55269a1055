"""Collects the lines of a report while packages stream by, and keeps no more than are printed.

Lines wait under their cause, because only at the end is it known which causes happened to
the whole tag. Boards of separate processes are put together in the order of their packages.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct, field

from cachewatch.causes import Cause
from cachewatch.model import PackageChange
from cachewatch.report.lines import rows_of
from cachewatch.report.rows import Row, Section


class Bucket(Struct):
    """The first lines of one section, state and cause, and what all of them amount to."""

    rows: list[Row] = field(default_factory=list)
    specs: int = 0
    uncounted: int = 0  # lines that speak of no specs of their own

    def add(self, row: Row, most: int) -> None:
        """Count `row`, and keep it if it may be printed."""
        if len(self.rows) < most:
            self.rows.append(row)
        self.specs += row.count or 0
        self.uncounted += row.count is None

    def join(self, other: "Bucket", most: int) -> None:
        """Append the lines of packages that come after these."""
        self.rows += other.rows[: max(0, most - len(self.rows))]
        self.specs += other.specs
        self.uncounted += other.uncounted


Buckets = dict[tuple[Section, str, Cause], Bucket]


class SectionReport(Struct, frozen=True):
    """One section: what is printed, what is not, and what an event already told."""

    section: Section
    rows: tuple[Row, ...]
    specs: int  # that lines speak of, printed or not
    hidden_specs: int
    hidden_lines: int  # that speak of no specs of their own
    explained_specs: int  # that events speak of instead


class Board:
    """The lines of all packages of one tag."""

    def __init__(self, most: int, wants: Callable[[Row], bool]) -> None:
        """Keep `most` lines a section, of the rows that `wants` chooses."""
        self._most = most
        self._wants = wants
        self._buckets: Buckets = {}

    def add(self, change: PackageChange) -> None:
        """Take the lines of one package."""
        self.add_rows(rows_of(change))

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Take lines of one package that were made before."""
        for row in filter(self._wants, rows):
            self._bucket(row.section, row.state, row.cause).add(row, self._most_of(row.section))

    def take(self) -> Buckets:
        """Hand over what was collected, and begin anew."""
        taken, self._buckets = self._buckets, {}
        return taken

    def join(self, taken: Buckets) -> None:
        """Append what another board handed over, of packages that come after these."""
        for key, bucket in taken.items():
            self._bucket(*key).join(bucket, self._most_of(key[0]))

    def sections(self, explains: Callable[[Cause], bool]) -> Iterator[SectionReport]:
        """Yield the sections that have something to say, without the lines that events explain."""
        for section in Section:
            told = [b for (s, _, cause), b in self._buckets.items() if s is section and explains(cause)]
            left = [b for (s, _, cause), b in self._buckets.items() if s is section and not explains(cause)]
            if told or left:
                yield _section(section, left, told, self._most_of(section))

    def _most_of(self, section: Section) -> int:
        # What was merely rebuilt is a number to most readers.
        return self._most // 4 if section is Section.REBUILT else self._most

    def _bucket(self, section: Section, state: str, cause: Cause) -> Bucket:
        return self._buckets.setdefault((section, state, cause), Bucket())


def _section(section: Section, left: Sequence[Bucket], told: Sequence[Bucket], most: int) -> SectionReport:
    rows = merged(sorted((row for bucket in left for row in bucket.rows), key=_severity))[:most]
    specs = sum(bucket.specs for bucket in left)
    uncounted = sum(row.count is None for row in rows)
    return SectionReport(
        section=section,
        rows=tuple(rows),
        specs=specs,
        hidden_specs=specs - sum(row.count or 0 for row in rows),
        hidden_lines=sum(bucket.uncounted for bucket in left) - uncounted,
        explained_specs=sum(bucket.specs for bucket in told),
    )


def _severity(row: Row) -> tuple[bool, str]:
    # Losses and firsts before copies more or less, each by package.
    return (row.state[0].islower(), row.package)


def merged(rows: Iterable[Row]) -> list[Row]:
    """Put lines together that had different causes but say the same."""
    found: list[Row] = []
    for row in rows:
        if found and found[-1].says_as_much(row):
            found[-1] = found[-1].joined(row)
        else:
            found.append(row)
    return found
