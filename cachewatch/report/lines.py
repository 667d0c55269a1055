"""What happened to a package, as lines: first what came and went, then what took whose place."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from msgspec.structs import replace

from cachewatch.causes import Cause, cause_of_gain, cause_of_loss, cause_of_move
from cachewatch.model import Alike, Direction, Kind, PackageChange, Pairing, Place, Rung, Signature, Spec, Status
from cachewatch.report.cover import name_stacks, spots_of
from cachewatch.report.rows import Row, Section
from cachewatch.spelling import NO_COMPILER

Item = TypeVar("Item")

_OF_FACTS = {Kind.COMPILER, Kind.OS, Kind.TARGET, Kind.VARIANT, Kind.STACK_ADDED, Kind.STACK_REMOVED}
_MERELY_REBUILT = frozenset({Kind.REBUILT})
_WITH_SPECS = {Section.ADDED, Section.REMOVED, Section.STACKS, Section.COMPILERS, Section.VARIANTS}


def rows_of(change: PackageChange) -> Iterator[Row]:
    """Return the lines that tell everything about `change`; their counts add up to its counts."""
    for row in _rows(change):
        # What came and went of the facts of a package did so with the specs of these lines.
        yield replace(row, kinds=row.kinds | (change.kinds & _OF_FACTS)) if row.section in _WITH_SPECS else row


def _rows(change: PackageChange) -> Iterator[Row]:
    if change.kinds != _MERELY_REBUILT:
        yield from _gone(change)
        yield from _left_over(change)
        yield from _regraded(change)
        yield from _judged(change)
        yield from _new(change)
        yield from _moved(change)
        yield from _restacked(change)
        yield from _recompiled(change)
        yield from _reconfigured(change)
    yield from _rebuilt(change)


def _gone(change: PackageChange) -> Iterator[Row]:
    is_whole = change.status is Status.REMOVED
    copies = change.copies_after

    def alike(gone: Alike) -> tuple[tuple[str, ...], bool, Cause]:
        is_last = is_whole or _misses(gone.signature, copies)
        return gone.signature.versions, is_last, cause_of_loss(change, gone.signature, is_last=is_last)

    for (versions, is_last, cause), group in _grouped(change.gone, alike):
        left = sum(copies.get(place, 0) for place in {p for gone in group for p in _places(gone.signature)})
        kinds = {
            Kind.SPEC_REMOVED: True,
            Kind.PACKAGE_REMOVED: is_whole,
            Kind.LAST_COPY_REMOVED: is_last,
            Kind.VERSION_REMOVED: not set(versions).isdisjoint(change.facts["versions"].removed),
        }
        yield Row(
            section=Section.REMOVED,
            state="R!" if is_last else "r ",
            package=change.package,
            before=_join(versions),
            count=_count(group),
            spots=spots_of(gone.signature for gone in group),
            all_stacks=change.before["stacks"],
            note=_loss(is_whole, kinds[Kind.VERSION_REMOVED], is_last, left),
            kinds=_true(kinds),
            cause=cause,
        )


def _loss(is_whole: bool, is_version: bool, is_last: bool, left: int) -> str:
    if is_whole:
        return "package gone"
    if is_version:
        return "version gone"
    return "last copy" if is_last else f"{left} left" if left else ""


def _new(change: PackageChange) -> Iterator[Row]:
    is_whole = change.status is Status.ADDED

    def alike(new: Alike) -> tuple[tuple[str, ...], bool, Cause]:
        is_first = is_whole or _misses(new.signature, change.copies_before)
        return new.signature.versions, is_first, cause_of_gain(change, new.signature)

    for (versions, is_first, cause), group in _grouped(change.new, alike):
        is_new_version = not set(versions).isdisjoint(change.facts["versions"].added)
        kinds = {Kind.SPEC_ADDED: True, Kind.PACKAGE_ADDED: is_whole, Kind.VERSION_ADDED: is_new_version}
        note = "new package" if is_whole else "new version" if is_new_version else "" if is_first else "another copy"
        yield Row(
            section=Section.ADDED,
            state="A*" if is_whole else "A " if is_first else "a ",
            package=change.package,
            after=_join(versions),
            count=_count(group),
            spots=spots_of(new.signature for new in group),
            all_stacks=change.after["stacks"],
            note=note,
            kinds=_true(kinds),
            cause=cause,
        )


def _left_over(change: PackageChange) -> Iterator[Row]:
    def versions(spec: Spec) -> tuple[str, ...]:
        return spec.signature.versions

    for found, group in _grouped(change.newly_left_over, versions):
        yield Row(
            section=Section.LEFT_OVER,
            state="L ",
            package=change.package,
            before=_join(found),
            count=len(group),
            spots=spots_of(spec.signature for spec in group),
            note="goes at the next prune",
            kinds=frozenset({Kind.LEFT_OVER}),
        )


def _regraded(change: PackageChange) -> Iterator[Row]:
    def versions(pairing: Pairing) -> tuple[Rung, tuple[str, ...], tuple[str, ...]]:
        return pairing.rung, pairing.before.versions, pairing.after.versions

    for (rung, before, after), group in _grouped(_pairings(change, Rung.UPGRADED, Rung.DOWNGRADED), versions):
        is_upgrade = rung is Rung.UPGRADED
        yield Row(
            section=Section.UPGRADED if is_upgrade else Section.DOWNGRADED,
            state="U " if is_upgrade else "D ",
            package=change.package,
            before=_join(before),
            after=_join(after),
            count=_count(group),
            spots=spots_of(pairing.after for pairing in group),
            all_stacks=change.after["stacks"],
            kinds=frozenset({Kind.UPGRADED if is_upgrade else Kind.DOWNGRADED}),
        )


def _judged(change: PackageChange) -> Iterator[Row]:
    """Say what became of versions stack by stack, where no pair of specs says it."""
    paired = _pairings(change, Rung.UPGRADED, Rung.DOWNGRADED)
    told = {stack for pairing in paired for stack in pairing.after.stacks}
    judged = [
        entry
        for entry in change.stack_versions
        if entry.direction in (Direction.UPGRADE, Direction.DOWNGRADE) and entry.stack not in told
    ]
    for (direction, before, after), group in _grouped(judged, lambda e: (e.direction, e.before, e.after)):
        is_upgrade = direction is Direction.UPGRADE
        yield Row(
            section=Section.UPGRADED if is_upgrade else Section.DOWNGRADED,
            state="U " if is_upgrade else "D ",
            package=change.package,
            before=_join(before),
            after=_join(after),
            count=None,
            move=name_stacks(entry.stack for entry in group),
            note="specs under added and removed",
            kinds=frozenset({Kind.UPGRADED if is_upgrade else Kind.DOWNGRADED}),
        )


def _moved(change: PackageChange) -> Iterator[Row]:
    moves = [(p.before, p.after, p.count) for p in _pairings(change, Rung.MOVED)]
    yield from _stack_rows(change, "M ", moves, "rebuilt", Kind.MOVED)


def _restacked(change: PackageChange) -> Iterator[Row]:
    moves = [(kept.before, kept.after, 1) for kept in change.restacked]
    yield from _stack_rows(change, "S ", moves, "same binaries", None)


def _stack_rows(
    change: PackageChange,
    state: str,
    moves: Iterable[tuple[Signature, Signature, int]],
    note: str,
    kind: Kind | None,
) -> Iterator[Row]:
    def by_move(move: tuple[Signature, Signature, int]) -> tuple[tuple[str, ...], Cause]:
        before, after, _ = move
        return before.versions, cause_of_move(before, after)

    for (versions, cause), group in _grouped(moves, by_move):
        kinds = {Kind.STACK_ADDED: bool(cause.gained), Kind.STACK_REMOVED: bool(cause.lost)}
        signs = [f"+{name_stacks(cause.gained)}"] if cause.gained else []
        signs += [f"-{name_stacks(cause.lost)}"] if cause.lost else []
        yield Row(
            section=Section.STACKS,
            state=state,
            package=change.package,
            before=_join(versions),
            count=sum(count for _, _, count in group),
            move=" ".join(signs),
            note=note,
            kinds=_true(kinds) | ({kind} if kind else set()),
            cause=cause,
        )


def _recompiled(change: PackageChange) -> Iterator[Row]:
    def compilers(pairing: Pairing) -> tuple[str, str]:
        return pairing.before.compiler, pairing.after.compiler

    for (before, after), group in _grouped(_pairings(change, Rung.RECOMPILED), compilers):
        yield Row(
            section=Section.COMPILERS,
            state="C ",
            package=change.package,
            before=_name_compiler(before),
            after=_name_compiler(after),
            count=_count(group),
            spots=spots_of(pairing.after for pairing in group),
            all_stacks=change.after["stacks"],
            kinds=frozenset({Kind.COMPILER}),
            cause=Cause(swap=("compilers", before, after)),
        )


def _reconfigured(change: PackageChange) -> Iterator[Row]:
    def variants(pairing: Pairing) -> tuple[tuple[str, ...], tuple[str, ...]]:
        before, after = pairing.before.variants, pairing.after.variants
        return tuple(v for v in before if v not in after), tuple(v for v in after if v not in before)

    for (before, after), group in _grouped(_pairings(change, Rung.RECONFIGURED), variants):
        yield Row(
            section=Section.VARIANTS,
            state="V ",
            package=change.package,
            before=" ".join(before) or "(unset)",
            after=" ".join(after) or "(unset)",
            count=_count(group),
            spots=spots_of(pairing.after for pairing in group),
            all_stacks=change.after["stacks"],
            kinds=frozenset({Kind.RECONFIGURED, Kind.VARIANT}),
        )


def _rebuilt(change: PackageChange) -> Iterator[Row]:
    group = _pairings(change, Rung.REBUILT)
    if group:
        yield Row(
            section=Section.REBUILT,
            state="  ",
            package=change.package,
            count=_count(group),
            spots=spots_of(pairing.after for pairing in group),
            all_stacks=change.after["stacks"],
            kinds=frozenset({Kind.REBUILT}),
        )


def _pairings(change: PackageChange, *rungs: Rung) -> list[Pairing]:
    return [pairing for pairing in change.pairings if pairing.rung in rungs]


Key = TypeVar("Key", bound=Hashable)


def _grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> Iterable[tuple[Key, list[Item]]]:
    groups: defaultdict[Key, list[Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups.items()


def _misses(signature: Signature, copies: Mapping[Place, int]) -> bool:
    """Tell whether some place of this signature has no copy among `copies`."""
    return any(place not in copies for place in _places(signature))


def _places(signature: Signature) -> Iterator[Place]:
    return (Place(v, stack, signature.target) for v in signature.versions for stack in signature.stacks)


def _count(group: Iterable[Alike | Pairing]) -> int:
    return sum(item.count for item in group)


def _true(kinds: Mapping[Kind, bool]) -> frozenset[Kind]:
    return frozenset(kind for kind, holds in kinds.items() if holds)


def _join(versions: tuple[str, ...]) -> str:
    return ", ".join(versions) or "(no version)"


def _name_compiler(compiler: str) -> str:
    return "no compiler" if compiler == NO_COMPILER else compiler
