"""Versions, compilers and targets stack by stack: what a digest has as its one table.

A line says what became of one package in one stack. Lines are grouped by stack, by package or
by kind; what groups do not print they count.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from zlib import crc32

from msgspec import Struct, field
from msgspec.structs import replace

from cachewatch.causes import Cause
from cachewatch.model import Direction, Kind, PackageChange, Rung, StackVersions
from cachewatch.versions import sorted_versions

_JUDGED = (Direction.UPGRADE, Direction.DOWNGRADE, Direction.CHANGED)
_REPLACED = (Rung.UPGRADED, Rung.DOWNGRADED)

Wants = Callable[[Set[Kind]], bool]
Swap = tuple[str, str]  # what was there and what is now; empty for nothing


class Entry(Struct, frozen=True, kw_only=True):
    """What became of one package in some stacks."""

    package: str
    direction: Direction | None = None  # None where the versions stayed
    gone: tuple[str, ...] = ()  # versions, oldest first
    came: tuple[str, ...] = ()
    stayed: tuple[str, ...] = ()
    compilers: tuple[Swap, ...] = ()
    targets: tuple[Swap, ...] = ()
    stacks: tuple[str, ...] = ()  # where the group does not say it

    @property
    def swaps(self) -> "Swaps":
        """What else could say all of this; empty if nothing could."""
        if self.direction is not None:
            return frozenset()
        return frozenset(
            (fact, old, new)
            for fact, swaps in (("compilers", self.compilers), ("targets", self.targets))
            for old, new in swaps
        )


class Group(Struct):
    """The first lines of one group, and how many there are."""

    rows: list[Entry] = field(default_factory=list)
    lines: int = 0
    trace: int = 0  # of all lines: groups that say the same are told once

    def add(self, entry: Entry, most: int) -> None:
        """Count `entry`, and keep it if it may be printed."""
        if len(self.rows) < most:
            self.rows.append(entry)
        self.lines += 1
        self.trace += crc32(repr(entry).encode())

    def join(self, other: "Group", most: int) -> None:
        """Append the lines of packages that come after these."""
        self.rows += other.rows[: max(0, most - len(self.rows))]
        self.lines += other.lines
        self.trace += other.trace


class TableGroup(Struct, frozen=True):
    """Some lines of the table under their heading; an empty name stands for no stack."""

    names: tuple[str, ...]
    rows: tuple[Entry, ...]
    lines: int  # printed or not


Swaps = frozenset[tuple[str, str, str]]
Groups = dict[tuple[str, Swaps], Group]
# How many packages have lines that exactly these could say.
Heads = Counter[frozenset[Swaps]]


class Table:
    """Collects the lines of all packages of one tag."""

    def __init__(self, most: int, wants: Wants, group_by: str) -> None:
        """Keep `most` lines a group; `group_by` is stack, package or kind."""
        self._most = most
        self._wants = wants
        self._group_by = group_by
        self._groups: Groups = {}
        self._heads: Heads = Counter()

    def add(self, change: PackageChange) -> None:
        """Take the lines of one package."""
        entries = entries_of(change, self._wants)
        for name, entry in self._named(entries):
            self._groups.setdefault((name, entry.swaps), Group()).add(entry, self._most)
        if entries:
            self._heads[frozenset(entry.swaps for entry in entries)] += 1

    def take(self) -> tuple[Groups, Heads]:
        """Hand over what was collected, and begin anew."""
        taken = self._groups, self._heads
        self._groups, self._heads = {}, Counter()
        return taken

    def join(self, taken: tuple[Groups, Heads]) -> None:
        """Append what another table handed over, of packages that come after these."""
        groups, heads = taken
        for key, group in groups.items():
            self._groups.setdefault(key, Group()).join(group, self._most)
        self._heads.update(heads)

    def packages(self, explains: Callable[[Cause], bool]) -> int:
        """Count the packages that the groups speak of, printed or not."""
        return sum(
            count for kinds, count in self._heads.items() if not all(_is_told(swaps, explains) for swaps in kinds)
        )

    def groups(self, explains: Callable[[Cause], bool]) -> tuple[TableGroup, ...]:
        """Return all groups by name, those with the same lines as one."""
        found: dict[str, Group] = {}
        for (name, swaps), group in self._groups.items():
            if not _is_told(swaps, explains):
                found.setdefault(name, Group()).join(group, sys.maxsize)
        alike: dict[tuple[int, int], list[str]] = {}
        for name, group in found.items():
            alike.setdefault((group.lines, group.trace), []).append(name)
        made = [_table_group(names, found[names[0]], self._most) for names in alike.values()]
        return tuple(sorted(made, key=lambda group: group.names))

    def _named(self, entries: Mapping[Entry, list[str]]) -> Iterator[tuple[str, Entry]]:
        for entry, stacks in entries.items():
            if self._group_by == "stack":
                yield from ((stack, entry) for stack in stacks)
            else:
                name = _kind_of(entry) if self._group_by == "kind" else ""
                yield name, replace(entry, stacks=tuple(sorted(filter(None, stacks))))


def _is_told(swaps: Swaps, explains: Callable[[Cause], bool]) -> bool:
    return bool(swaps) and all(explains(Cause(swap=swap)) for swap in swaps)


def _table_group(names: Iterable[str], group: Group, most: int) -> TableGroup:
    rows = sorted(group.rows, key=lambda entry: entry.package)
    return TableGroup(tuple(sorted(names)), tuple(rows[:most]), group.lines)


def _kind_of(entry: Entry) -> str:
    if entry.direction is not None:
        return {Direction.UPGRADE: "upgraded", Direction.DOWNGRADE: "downgraded"}.get(entry.direction, "other versions")
    return "compilers" if entry.compilers else "targets"


def entries_of(change: PackageChange, wants: Wants) -> Mapping[Entry, list[str]]:
    """Return what became of `change` in its stacks: the stacks of each line, "" for none.

    Stacks that have the package on one side only are told elsewhere.
    """
    versions = {entry.stack: entry for entry in change.stack_versions if entry.direction in _JUDGED}
    compilers = _compilers(change) if wants({Kind.COMPILER}) else {}
    targets = _targets(change) if wants({Kind.TARGET}) else {}
    stayed = {p.stack for p in change.copies_before} & {p.stack for p in change.copies_after}
    found: dict[Entry, list[str]] = {}
    for stack in sorted(stayed | {stack for stack in compilers if not stack}):
        judged = versions.get(stack)
        if judged is not None and not (wants(_KINDS[judged.direction]) and _is_news(judged)):
            judged = None
        old, new = (frozenset(judged.before), frozenset(judged.after)) if judged else (frozenset(), frozenset())
        entry = Entry(
            package=change.package,
            direction=judged.direction if judged else None,
            gone=tuple(sorted_versions(old - new)),
            came=tuple(sorted_versions(new - old)),
            stayed=tuple(sorted_versions(old & new)),
            compilers=compilers.get(stack, ()),
            targets=targets.get(stack, ()),
        )
        if entry.direction or entry.compilers or entry.targets:
            found.setdefault(entry, []).append(stack)
    for entry in _nowhere(change, wants):
        found.setdefault(entry, []).append("")
    return found


def _is_news(judged: StackVersions) -> bool:
    """Tell whether more happened than that older versions went, which is told as a loss."""
    return judged.direction is not Direction.CHANGED or not set(judged.after) <= set(judged.before)


_KINDS = {
    Direction.UPGRADE: {Kind.UPGRADED},
    Direction.DOWNGRADE: {Kind.DOWNGRADED},
    Direction.CHANGED: {Kind.VERSION_ADDED, Kind.VERSION_REMOVED},
}


def _nowhere(change: PackageChange, wants: Wants) -> Iterator[Entry]:
    """Yield versions that took others' place where no stack builds them."""
    pairs = {
        (p.rung, p.before.versions, p.after.versions)
        for p in change.pairings
        if p.rung in _REPLACED and not p.after.stacks
    }
    for rung, gone, came in sorted(pairs):
        direction = Direction.UPGRADE if rung is Rung.UPGRADED else Direction.DOWNGRADE
        if wants(_KINDS[direction]):
            yield Entry(package=change.package, direction=direction, gone=gone, came=came)


def _compilers(change: PackageChange) -> Mapping[str, tuple[Swap, ...]]:
    """Return which compilers came to and went from each stack."""
    found: dict[str, set[Swap]] = {}

    def note(stacks: Iterable[str], old: str, new: str) -> None:
        for stack in stacks:
            found.setdefault(stack, set()).add((old, new))

    recompiled = [pair for pair in change.pairings if pair.rung is Rung.RECOMPILED]
    for pair in recompiled:
        note(pair.after.stacks or ("",), pair.before.compiler, pair.after.compiler)
    # What came or went altogether did so with new or vanished specs.
    told = {compiler for pair in recompiled for compiler in (pair.before.compiler, pair.after.compiler)}
    for alike in change.new:
        if alike.signature.compiler in set(change.facts["compilers"].added) - told:
            note(alike.signature.stacks, "", alike.signature.compiler)
    for alike in change.gone:
        if alike.signature.compiler in set(change.facts["compilers"].removed) - told:
            note(alike.signature.stacks, alike.signature.compiler, "")
    return {stack: _paired(swaps) for stack, swaps in found.items()}


def _targets(change: PackageChange) -> Mapping[str, tuple[Swap, ...]]:
    """Return which targets came to and went from each stack."""
    before, after = ({(p.stack, p.target) for p in copies} for copies in (change.copies_before, change.copies_after))
    found: dict[str, set[Swap]] = {}
    for stack, target in before - after:
        found.setdefault(stack, set()).add((target, ""))
    for stack, target in after - before:
        found.setdefault(stack, set()).add(("", target))
    return {stack: _paired(swaps) for stack, swaps in found.items()}


def _paired(swaps: Set[Swap]) -> tuple[Swap, ...]:
    """Say that one took the other's place where one went and one came."""
    if len(swaps) == 2:
        (first_old, first_new), (second_old, second_new) = sorted(swaps)
        if not first_old and not second_new:
            return ((second_old, first_new),)
    return tuple(sorted(swaps))
