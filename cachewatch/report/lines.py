"""What happened to a package, as lines: first what came and went, then what took whose place."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from msgspec.structs import replace

from cachewatch.causes import Cause, cause_of_gain, cause_of_loss, cause_of_move
from cachewatch.model import (
    Alike,
    Direction,
    Kind,
    PackageChange,
    Pairing,
    PlaceChange,
    Rung,
    Signature,
    Spec,
    SpecClass,
    Status,
    Verdict,
    VersionPlace,
)
from cachewatch.report.cover import name_stacks, spots_of
from cachewatch.report.rows import Row, Section
from cachewatch.spelling import NO_COMPILER

Item = TypeVar("Item")

_OF_FACTS = {Kind.COMPILER, Kind.OS, Kind.TARGET, Kind.VARIANT, Kind.STACK_ADDED, Kind.STACK_REMOVED}
_WITH_SPECS = {Section.ADDED, Section.REMOVED, Section.STACKS, Section.COMPILERS, Section.VARIANTS}
_MERELY_REBUILT = frozenset({Kind.REBUILT})

# The place keeps its versions.
_SURPLUS = (SpecClass.PRUNED, SpecClass.DROPPED, SpecClass.SURPLUS)
# Somebody may miss one of these, though the place keeps its newest version.
_MISSED = (SpecClass.RETIRED, SpecClass.DROPPED)
_COPIES = (SpecClass.EXTRA_COPY, SpecClass.UNREFERENCED_NEW)
_VERDICTS = {Direction.UPGRADE: Verdict.UPGRADED, Direction.DOWNGRADE: Verdict.DOWNGRADED}
_KIND_OF_CLASS = {
    SpecClass.LOST: Kind.PLACE_LOST,
    SpecClass.RETIRED: Kind.RETIRED,
    SpecClass.DROPPED: Kind.NARROWED,
    SpecClass.GAINED: Kind.PLACE_GAINED,
    SpecClass.EXTENDED: Kind.EXTENDED,
    SpecClass.NEW_COMBINATION: Kind.WIDENED,
}


def rows_of(change: PackageChange) -> Iterator[Row]:
    """Return the lines that tell everything about `change`; their counts and kinds add up to its own."""
    if change.kinds == _MERELY_REBUILT:
        yield from _rebuilt(change)
        return
    rows = list(_rows(change)) or list(_empty(change))
    missing = change.kinds.difference(*(row.kinds for row in rows))
    for place, row in enumerate(rows):
        # What came and went of the facts of a package did so with the specs of these lines.
        kinds = row.kinds | (_OF_FACTS if row.section in _WITH_SPECS else set()) | (set() if place else missing)
        yield replace(row, kinds=change.kinds & kinds)


def _rows(change: PackageChange) -> Iterator[Row]:
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


def _empty(change: PackageChange) -> Iterator[Row]:
    """Say that a document without specs came or went."""
    if change.status is Status.CHANGED:
        return
    is_added = change.status is Status.ADDED
    yield Row(
        section=Section.ADDED if is_added else Section.REMOVED,
        state="A*" if is_added else "R!",
        package=change.package,
        count=None,
        note=f"{'new package' if is_added else 'package gone'}, without specs",
        kinds=change.kinds,
    )


# Versions, class, compiler and system if the combination is what came or went, and the cause.
_Likeness = tuple[tuple[str, ...], SpecClass, tuple[str, str] | None, Cause]


def _gone(change: PackageChange) -> Iterator[Row]:
    is_whole = change.status is Status.REMOVED
    copies = change.copies_after

    def alike(gone: Alike) -> _Likeness:
        cause = cause_of_loss(change, gone.signature, is_last=gone.spec_class not in _SURPLUS)
        return gone.signature.versions, gone.spec_class, _configuration(gone, SpecClass.DROPPED), cause

    for (versions, spec_class, configuration, cause), group in _grouped(change.gone, alike):
        left = sum(copies.get(place, 0) for place in {p for gone in group for p in _places(gone.signature)})
        is_lost = is_whole or spec_class is SpecClass.LOST
        yield Row(
            section=Section.REMOVED,
            state="R!" if is_lost else "R " if spec_class in _MISSED else "r ",
            package=change.package,
            before=_join(versions),
            count=_count(group),
            spots=spots_of(gone.signature for gone in group),
            all_stacks=change.before["stacks"],
            note="package gone" if is_whole else _loss(spec_class, configuration, left),
            kinds=_kinds_of_alike(change, group, Kind.SPEC_REMOVED)
            | _true({Kind.PACKAGE_REMOVED: is_whole, Kind.VERSION_REMOVED: _has(change, versions, is_added=False)}),
            cause=cause,
        )


def _loss(spec_class: SpecClass, configuration: tuple[str, str] | None, left: int) -> str:
    if configuration:
        return f"no other of {_name_configuration(configuration)}"
    if spec_class is SpecClass.SURPLUS:
        return f"{left} left" if left else ""
    return {SpecClass.LOST: "none left", SpecClass.PRUNED: "pruned"}.get(spec_class, spec_class.value)


def _new(change: PackageChange) -> Iterator[Row]:
    is_whole = change.status is Status.ADDED

    def alike(new: Alike) -> _Likeness:
        configuration = _configuration(new, SpecClass.NEW_COMBINATION)
        return new.signature.versions, new.spec_class, configuration, cause_of_gain(change, new.signature)

    for (versions, spec_class, configuration, cause), group in _grouped(change.new, alike):
        is_new_version = _has(change, versions, is_added=True)
        note = "new package" if is_whole else "new version" if is_new_version else _gain(spec_class, configuration)
        yield Row(
            section=Section.ADDED,
            state="A*" if is_whole else "a " if spec_class in _COPIES else "A ",
            package=change.package,
            after=_join(versions),
            count=_count(group),
            spots=spots_of(new.signature for new in group),
            all_stacks=change.after["stacks"],
            note=note,
            kinds=_kinds_of_alike(change, group, Kind.SPEC_ADDED)
            | _true({Kind.PACKAGE_ADDED: is_whole, Kind.VERSION_ADDED: is_new_version}),
            cause=cause,
        )


def _gain(spec_class: SpecClass, configuration: tuple[str, str] | None) -> str:
    if configuration:
        return f"first of {_name_configuration(configuration)}"
    return {SpecClass.EXTRA_COPY: "another copy", SpecClass.UNREFERENCED_NEW: "of no stack"}.get(spec_class, "")


def _configuration(alike: Alike, spec_class: SpecClass) -> tuple[str, str] | None:
    """Return compiler and system where the combination is what came or went."""
    return (alike.signature.compiler, alike.signature.os) if alike.spec_class is spec_class else None


def _name_configuration(configuration: tuple[str, str]) -> str:
    compiler, system = configuration
    return ", ".join(filter(None, (_name_compiler(compiler), system, "with these variants")))


def _kinds_of_alike(change: PackageChange, group: Iterable[Alike], kind: Kind) -> frozenset[Kind]:
    """Return what the class of these specs means, and what that did to their places."""
    kinds = {kind}
    for alike in group:
        of_class = _KIND_OF_CLASS.get(alike.spec_class)
        if of_class:
            kinds.add(of_class)
            kinds |= {
                k for place in _changed(change, [alike.signature]) if of_class in place.kinds for k in place.kinds
            }
    return frozenset(kinds)


def _kinds_of_places(change: PackageChange, signatures: Iterable[Signature]) -> frozenset[Kind]:
    """Return what happened in the places of these specs."""
    return frozenset(kind for place in _changed(change, signatures) for kind in place.kinds)


def _changed(change: PackageChange, signatures: Iterable[Signature]) -> list[PlaceChange]:
    touched = {(stack, signature.target) for signature in signatures for stack in signature.stacks}
    return [place for place in change.places if (place.stack, place.target) in touched]


def _has(change: PackageChange, versions: Iterable[str], *, is_added: bool) -> bool:
    """Tell whether one of `versions` came to the package, or went from it."""
    delta = change.facts["versions"]
    return not set(versions).isdisjoint(delta.added if is_added else delta.removed)


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
    def versions(pairing: Pairing) -> tuple[Rung, tuple[str, ...], tuple[str, ...], bool]:
        return pairing.rung, pairing.before.versions, pairing.after.versions, _stays(change, pairing)

    for (rung, before, after, stays), group in _grouped(_pairings(change, Rung.UPGRADED, Rung.DOWNGRADED), versions):
        is_upgrade = rung is Rung.UPGRADED
        yield Row(
            section=Section.UPGRADED if is_upgrade else Section.DOWNGRADED,
            state="U " if is_upgrade else "D ",
            package=change.package,
            before="" if stays else _join(before),
            after=_join(after),
            count=_count(group),
            spots=spots_of(pairing.after for pairing in group),
            all_stacks=change.after["stacks"],
            note=f"added, {_join(before)} stays" if stays else "",
            kinds=_kinds_of_places(change, (p.after for p in group))
            | _true(
                {
                    Kind.UPGRADED if is_upgrade else Kind.DOWNGRADED: True,
                    Kind.VERSION_ADDED: _has(change, after, is_added=True),
                    Kind.VERSION_REMOVED: _has(change, before, is_added=False),
                }
            ),
        )


def _stays(change: PackageChange, pairing: Pairing) -> bool:
    """Tell whether the old version is still wherever the new one came."""
    places = list(_places(pairing.before))
    return bool(places) and all(place in change.copies_after for place in places)


def _judged(change: PackageChange) -> Iterator[Row]:
    """Say what became of versions stack by stack, where no pair of specs says it."""
    paired = _pairings(change, Rung.UPGRADED, Rung.DOWNGRADED)
    told = {stack for pairing in paired for stack in pairing.after.stacks}
    verdicts = {(place.stack, place.verdict) for place in change.places}
    judged = [
        entry
        for entry in change.stack_versions
        if entry.stack not in told and (entry.stack, _VERDICTS.get(entry.direction)) in verdicts
    ]
    for (direction, before, after), group in _grouped(judged, lambda e: (e.direction, e.before, e.after)):
        is_upgrade = direction is Direction.UPGRADE
        went, came = (tuple(v for v in one if v not in other) for one, other in ((before, after), (after, before)))
        stay = _join(tuple(v for v in before if v in after)) if set(before) & set(after) else ""
        what = "" if went and came else "added, " if came else "gone, "
        kind = Kind.UPGRADED if is_upgrade else Kind.DOWNGRADED
        yield Row(
            section=Section.UPGRADED if is_upgrade else Section.DOWNGRADED,
            state="U " if is_upgrade else "D ",
            package=change.package,
            before=_join(went) if went else "",
            after=_join(came) if came else "",
            count=None,
            move=name_stacks(entry.stack for entry in group),
            note=(f"{what}{stay} stays; " if stay else "") + "specs under added and removed",
            kinds=_true(
                {
                    kind: True,
                    Kind.VERSION_ADDED: _has(change, came, is_added=True),
                    Kind.VERSION_REMOVED: _has(change, went, is_added=False),
                }
            ),
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
            kinds=_true(kinds)
            | ({kind} if kind else set())
            | _kinds_of_places(change, [signature for before, after, _ in group for signature in (before, after)]),
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
            kinds=_kinds_of_places(change, (p.after for p in group)) | {Kind.COMPILER},
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
            kinds=_kinds_of_places(change, (p.after for p in group)) | {Kind.RECONFIGURED, Kind.VARIANT},
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


def _places(signature: Signature) -> Iterator[VersionPlace]:
    return (VersionPlace(v, stack, signature.target) for v in signature.versions for stack in signature.stacks)


def _count(group: Iterable[Alike | Pairing]) -> int:
    return sum(item.count for item in group)


def _true(kinds: Mapping[Kind, bool]) -> frozenset[Kind]:
    return frozenset(kind for kind, holds in kinds.items() if holds)


def _join(versions: tuple[str, ...]) -> str:
    return ", ".join(versions) or "(no version)"


def _name_compiler(compiler: str) -> str:
    return "no compiler" if compiler == NO_COMPILER else compiler
