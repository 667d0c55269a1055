"""What a digest needs of a changeset: capped lines, exact counts, and all that changed as CSV."""

import heapq
import zlib
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

from msgspec import Struct

from cachewatch.core.changesets import Changeset
from cachewatch.core.model import Kind, Machine, PackageChange
from cachewatch.core.statement_values import Line
from cachewatch.core.statements import select_statements
from cachewatch.core.versions import is_newer, newest
from cachewatch.report.data import CsvCollector, csv_table
from cachewatch.report.formats import report_of
from cachewatch.report.values import (
    Example,
    Table,
    TagDigest,
    VersionsChange,
)

# Compressed. A mail makes a third more of it, and many servers refuse 10 MiB.
MOST_CSV = 4 * 2**20
_MOST_EXAMPLES = 3

Wants = Callable[[Set[Kind]], bool]
Ranked = tuple[int, int, str, Example]


class Taken(Struct, frozen=True):
    """What was collected of some packages."""

    versions: tuple[VersionsChange, ...]
    examples: list[Ranked]
    csv: bytes


class DigestCollector:
    """What is kept of packages for a digest, beside its statements."""

    def __init__(self, wants: Wants, *, has_table: bool = True) -> None:
        """Keep what is of the kinds that `wants` chooses."""
        self._wants = wants
        self._versions: list[VersionsChange] = []
        self._examples: list[Ranked] = []
        self._csv = CsvCollector()
        self._has_table = has_table

    def add(self, change: PackageChange) -> None:
        """Take what there is to say of one package."""
        if not self._wants(change.kinds):
            return
        delta = change.facts["versions"]
        if delta:
            self._versions.append(VersionsChange(change.package, delta.added, delta.removed))
        if self._has_table:
            self._csv.add(change)
        self._examples = _best([*self._examples, *_examples(change)])

    def take(self) -> Taken:
        """Hand over what was collected."""
        examples, self._examples = self._examples, []
        versions, self._versions = tuple(self._versions), []
        return Taken(versions, examples, csv_table(self._csv.take()))


def read_tag_digest(
    changeset: Changeset,
    *,
    source: str = "",
    wants: Wants,
    wants_line: Callable[[Line], bool] | None = None,
    room: int | None = None,
) -> TagDigest:
    """Take all packages of `changeset`, which was made with a DigestCollector.

    `wants` chooses what happened to the whole tag, and lines too unless `wants_line` does. The
    table may take as many bytes as there is `room`, and MOST_CSV if nothing is said.
    """
    examples: list[Ranked] = []
    versions: list[VersionsChange] = []
    table = _Packer(changeset.after.tag or "", MOST_CSV if room is None else room)
    for taken in changeset.collected():
        versions += taken.versions
        examples = _best([*examples, *taken.examples])
        table.add(taken.csv)
    outcome = changeset.outcome
    parted = select_statements(outcome.statements, wants_line or (lambda line: wants(line.kinds)), wants)
    return TagDigest(
        source=source,
        report=report_of(outcome, wants),
        statements=parted.statements,
        rest=parted.rest,
        versions=tuple(versions),
        examples=tuple(example for *_, example in examples),
        table=table.finish(),
        unreadable=outcome.unreadable,
    )


def _best(examples: Iterable[Ranked]) -> list[Ranked]:
    return heapq.nsmallest(_MOST_EXAMPLES, examples, key=lambda ranked: ranked[:3])


def _examples(change: PackageChange) -> Iterator[Ranked]:
    """Yield what to install: of a new package sooner than of a new version, of what has more new specs sooner.

    It is the newest version that stacks build, if it is newer than all that were there.
    """
    came = {signature: count for signature, count in change.came.counts.items() if signature.stacks}
    version = newest({version for signature in came for version in signature.versions} or {""})
    had = change.before["versions"]
    if not version or (had and not is_newer(version, newest(had))):
        return
    # Of a version that is newer than all that were there, every build is new.
    builds = {signature: count for signature, count in came.items() if version in signature.versions}
    yield (
        0 if Kind.PACKAGE_ADDED in change.kinds else 1,
        -sum(builds.values()),
        change.package,
        Example(
            package=change.package,
            version=version,
            stacks=tuple(sorted({stack for signature in builds for stack in signature.stacks})),
            machines=tuple(sorted({Machine(each.platform, each.os, each.target) for each in builds})),
        ),
    )


class _Packer:
    """Compresses lines as they come, up to a limit; what grows beyond it is dropped."""

    def __init__(self, tag: str, most: int) -> None:
        self._most = most
        self._tag = csv_table([{"tag": tag}]).split(b",", 1)[0]
        self._gzip: Any = None  # takes a quarter of a megabyte, and most tables stay empty
        self._parts: list[bytes] = []
        self._packed = self._size = 0

    def add(self, lines: bytes) -> None:
        """Take lines without a tag, each of which therefore begins with a comma."""
        self._size += len(lines)
        if lines and self._packed <= self._most:
            self._gzip = self._gzip or zlib.compressobj(6, wbits=31)
            tagged = b"".join(self._tag + line for line in lines.splitlines(keepends=True))
            self._keep(self._gzip.compress(tagged))

    def finish(self) -> Table:
        """Return what there is."""
        if not self._size:
            return Table()
        self._keep(self._gzip.flush())
        if self._packed > self._most:
            return Table(b"", self._size, is_complete=False)
        return Table(b"".join(self._parts), self._size)

    def _keep(self, packed: bytes) -> None:
        self._packed += len(packed)
        self._parts.append(packed)
        if self._packed > self._most:
            self._parts.clear()
