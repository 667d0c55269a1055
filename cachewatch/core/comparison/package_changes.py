"""Compare two documents of one package, and describe the changes of the package. The rules are in docs/laws.md.

Read `compare_all` first. Both sides are brought into one form; DeepDiff then reports what was added and removed;
matching and judging (matching_and_verdicts.py) start from its report. Only rebuilt specs and changed stacks of kept
specs are known without it. A selection is applied last, to the judged package, so that a pair stays a pair, and a
verdict is on the whole place. Only selected specs are counted: if only one spec of a pair is selected, it came into the
selection or left it.
"""

import gc
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from cachewatch.core.comparison.kept_and_reused_hashes import in_one_form
from cachewatch.core.comparison.loss_classes import judge_losses
from cachewatch.core.comparison.matching_and_verdicts import (
    BySignature,
    account,
    class_of,
    count_specs,
    judge_places,
    judge_versions,
    judged_by_places,
    kinds_of,
    matched_across,
    place_changes,
    seen_in_stacks,
    without,
)
from cachewatch.core.filters_and_spec_patterns import Selection
from cachewatch.core.kinds_and_specs import (
    FACTS,
    NO_FACTS,
    REGRADED,
    VALUES,
    Delta,
    Document,
    Facts,
    MachineLoss,
    Outside,
    PackageChange,
    Place,
    PlaceChange,
    Signature,
    SignatureCount,
    Spec,
    SpecMatch,
    Specs,
    StackChange,
    Status,
    Verdict,
    facts_of,
    places_in,
    places_of,
)
from cachewatch.core.versions_spellings_targets import NO_COMPILER, newest

# DeepDiff imports these where they are installed, which takes up to half a second; it needs them for their own types only.
# Programs that use our API may compare such values with DeepDiff themselves, so only commands do without.
_UNUSED = ({"numpy", "pandas", "polars", "pydantic"} - sys.modules.keys()) if "cachewatch.cli" in sys.modules else ()
try:
    sys.modules.update(dict.fromkeys(_UNUSED))  # type: ignore[arg-type]  # what is None cannot be imported
    from deepdiff import DeepDiff
    from deepdiff.helper import notpresent
finally:
    for _name in _UNUSED:
        del sys.modules[_name]


class SpecSide(Struct, frozen=True):
    """One side of a package: its facts, and, by signature, the number of specs whose hash the other side lacks."""

    facts: Facts
    specs: BySignature


# Both sides of a package; None if it has no document there.
SpecSides = tuple[SpecSide | None, SpecSide | None]


_Values = defaultdict[str, list[str]]  # by the names of facts


class Reported(Struct, frozen=True):
    """The differences that DeepDiff reports for one package, in pairs: what was removed, then what was added."""

    package: list[bool] = field(default_factory=lambda: [False, False])  # whether it is the package itself
    facts: tuple[_Values, _Values] = field(default_factory=lambda: (_Values(list), _Values(list)))
    specs: tuple[BySignature, BySignature] = field(default_factory=lambda: (Counter(), Counter()))

    def delta(self, name: str) -> Delta:
        """Return the added and removed values of the fact `name`."""
        removed, added = (tuple(sorted(side.get(name, ()))) for side in self.facts)
        return Delta(added, removed)


def report_differences(pairs: Mapping[str, SpecSides]) -> Mapping[str, Reported]:
    """Return the differences between the two sides of each package.

    DeepDiff, which is used here and nowhere else, compares all packages in one call, because each call has a fixed
    cost. Each side is one mapping, without what is equal, and flat because DeepDiff copies the path to each difference:

        {(package, "versions", version): {}, ..., (package, "specs", version): {key: count}, ...}

    A key is a number, which stands for a signature; the section "package" tells that a side has the package.
    """
    keys: dict[Signature, str] = {}
    before: _Plain = {}
    after: _Plain = {}
    for package, sides in pairs.items():
        _add_plain(package, sides, before, after, keys)
    reported: defaultdict[str, Reported] = defaultdict(Reported)
    if before or after:
        gc.freeze()  # so that only DeepDiff's results, which have cycles of references, are collected
        try:
            _read_report(before, after, {key: signature for signature, key in keys.items()}, reported)
            gc.collect(0)
        finally:
            gc.unfreeze()
    return reported


_Plain = dict[tuple[str, str, str], dict[str, int]]  # by package, section and value


def _add_plain(package: str, sides: SpecSides, before: _Plain, after: _Plain, keys: dict[Signature, str]) -> None:
    """Add what differs in `package` to `before` and `after`, and its signatures, with new numbers, to `keys`."""
    had, has = (NO_FACTS if side is None else side.facts for side in sides)
    for name in FACTS:
        if had[name] != has[name]:
            before.update({(package, name, value): {} for value in had[name] - has[name]})
            after.update({(package, name, value): {} for value in has[name] - had[name]})
    counts = [BySignature() if side is None else side.specs for side in sides]
    for plain, side, own, others in zip((before, after), sides, counts, reversed(counts), strict=True):
        if side is not None and None in sides:
            plain[package, "package", ""] = {}
        for signature, count in own.items():
            if others.get(signature) != count:
                of_version = plain.setdefault((package, "specs", ", ".join(signature.versions)), {})
                of_version[keys.setdefault(signature, str(len(keys)))] = count


def _read_report(
    before: _Plain, after: _Plain, signatures: Mapping[str, Signature], reported: Mapping[str, Reported]
) -> None:
    """Compare `before` with `after`; add the differences to `reported`. `signatures` has signatures by number."""
    report = DeepDiff(before, after, view="tree", threshold_to_diff_deeper=0, ignore_private_variables=False)
    for level in chain.from_iterable(report.values()):
        (package, section, name), *key = _path(level)
        of_package = reported[package]
        for side, value in enumerate((level.t1, level.t2)):
            if value is notpresent:
                continue
            if section == "specs":
                specs = {key[0]: value} if key else value
                of_package.specs[side].update({signatures[own]: count for own, count in specs.items()})
            elif section == "package":
                of_package.package[side] = True
            else:
                of_package.facts[side][section].append(name)


def _path(level: Any) -> list[Any]:
    """Return the keys that lead to `level` of the report of DeepDiff, whose own method takes three times as long."""
    keys = []
    while (level := level.up) is not None:
        keys.append((level.t1_child_rel or level.t2_child_rel).param)
    return keys[::-1]


class Pair(Struct, frozen=True):
    """The documents of one package on both sides; None for a side without the package."""

    package: str
    before: Document | None
    after: Document | None


class _Prepared(Struct, frozen=True, kw_only=True):
    """A package with differences: both sides in one form, and the specs that only one side has.

    A hash that names different specs on both sides is in both `removed` and `added`.
    """

    package: str
    old: Specs
    new: Specs
    sides: SpecSides  # for DeepDiff
    removed: Specs
    added: Specs
    restacked: tuple[StackChange, ...]
    is_compiler_unknown: bool


def compare(
    package: str, before: Document | None, after: Document | None, *, is_pruned: bool = True
) -> PackageChange | None:
    """Return the changes of `package`; None if nothing, or only form, changed. For `is_pruned`, see `compare_all`."""
    (change,) = compare_all([Pair(package, before, after)], is_pruned=is_pruned)
    return change


def compare_all(pairs: Iterable[Pair], *, is_pruned: bool = True) -> Iterator[PackageChange | None]:
    """Yield the changes of each package, or None if it did not change; DeepDiff is called once for all packages.

    `is_pruned` tells whether specs that no stack builds will be removed from the tag, as happens in `develop` but not
    in releases and snapshots.
    """
    prepared = [_prepare(pair) for pair in pairs]
    reported = report_differences({one.package: one.sides for one in prepared if one is not None})
    for one in prepared:
        yield None if one is None else _change_of(one, reported[one.package], is_pruned=is_pruned)


def _prepare(pair: Pair) -> _Prepared | None:
    """Bring both sides of a package into one form, and separate kept specs from others; None if nothing changed."""
    before, after = pair.before, pair.after
    old, new = (Specs.of({}) if side is None else side.specs for side in (before, after))
    has_hashes = all(side.has_hashes for side in (before, after) if side is not None)
    is_compiler_unknown = before is not None and after is not None and before.compiler_form is not after.compiler_form
    old, new, kept, differing = in_one_form(old, new, has_hashes=has_hashes, is_compiler_unknown=is_compiler_unknown)
    removed, added = old.without(kept), new.without(kept)
    moved = sorted(h for h in differing if old[h].stacks != new[h].stacks)
    restacked = tuple(StackChange(spec_hash, old[spec_hash], new[spec_hash]) for spec_hash in moved)
    if not (removed or added or restacked) and before is not None and after is not None:
        return None
    return _Prepared(
        package=pair.package,
        old=old,
        new=new,
        sides=(_side(before, old, removed), _side(after, new, added)),
        removed=removed,
        added=added,
        restacked=restacked,
        is_compiler_unknown=is_compiler_unknown,
    )


def _side(document: Document | None, specs: Specs, own: Specs) -> SpecSide | None:
    """Return the facts of all `specs`, and the `own` ones, which the other side lacks; None if `document` is None."""
    if document is None:
        return None
    return SpecSide(document.facts if specs is document.specs else facts_of(specs.counts), own.counts)


def _change_of(prepared: _Prepared, reported: Reported, *, is_pruned: bool) -> PackageChange | None:
    """Return the changes of a package: those `reported`, rebuilt specs, changed stacks; None if there are none.

    `is_pruned`: whether the tag loses specs without a stack; in snapshots and releases, nothing is pruned.
    """
    unknown = prepared.is_compiler_unknown
    vanished, new = reported.specs
    # DeepDiff is not given equal counts.
    # As many on both sides, with other hashes: DeepDiff gets only what differs.
    rebuilt = {s: count for s, count in prepared.removed.counts.items() if prepared.added.counts.get(s) == count}
    if not (any(reported.package) or vanished or new or rebuilt or prepared.restacked):
        return None
    all_vanished, all_new = Counter({**rebuilt, **vanished}), Counter({**rebuilt, **new})
    before = prepared.old.counts
    # The later state: the earlier one with the reported changes applied, so that nothing else is a change.
    after = without(before, vanished)
    after.update(new)
    if prepared.restacked:
        after.update(kept.after for kept in prepared.restacked)
        after = without(after, Counter(kept.before for kept in prepared.restacked))
    moved = (places_in(kept.gained + kept.lost, kept.after.target) for kept in prepared.restacked)
    touched = places_of((*vanished, *new)).union(*moved)  # the places that may have changed
    judged = judge_places(touched, before, after, is_compiler_unknown=unknown)
    matches, *unmatched = account(all_vanished, all_new, judged, is_compiler_unknown=unknown)
    losses, machines_lost = judge_losses(judged, before, after, prepared.restacked, is_pruned=is_pruned)
    places = place_changes(judged, losses)
    matches = tuple(judged_by_places(matches, places))
    gone, added = matched_across(
        *(
            [SignatureCount(s, count, class_of(s, judged, whole, is_compiler_unknown=unknown)) for s, count in side]
            for side, whole in zip(unmatched, (Verdict.LOST, Verdict.GAINED), strict=True)
        )
    )
    removed_hashes, added_hashes = _some(prepared.removed, all_vanished), _some(prepared.added, all_new)
    unreferenced: tuple[str, ...] = ()
    if any(signature.is_unreferenced for signature in prepared.new.counts):
        unreferenced = tuple(sorted(h for h, signature in prepared.new.items() if signature.is_unreferenced))
    is_removed, is_added = reported.package
    had = NO_FACTS if prepared.sides[0] is None else prepared.sides[0].facts
    deltas = {name: reported.delta(name) for name in FACTS}
    change = PackageChange(
        package=prepared.package,
        status=Status.ADDED if is_added else Status.REMOVED if is_removed else Status.CHANGED,
        facts=_known(deltas, prepared.sides) if unknown else deltas,
        stack_versions=tuple(judge_versions({place.stack for place in touched}, before, after)),
        places=places,
        machines_lost=machines_lost,
        counts=count_specs(
            matches,
            gone,
            added,
            before=len(prepared.old),
            after=len(prepared.old) - len(removed_hashes) + len(added_hashes),
            unreferenced=len(unreferenced),
        ),
        matches=matches,
        gone=gone,
        new=added,
        added_hashes=added_hashes,
        removed_hashes=removed_hashes,
        restacked=prepared.restacked,
        unreferenced=unreferenced,
        newly_unreferenced=_newly_unreferenced(prepared, reported) if is_pruned else (),
        kinds=frozenset(),
        is_compiler_unknown=unknown,
        is_pruned=is_pruned,
        before=had,
        after={
            name: had[name].difference(delta.removed).union(delta.added) if delta else had[name]
            for name, delta in deltas.items()
        },
        specs_before=prepared.old,
        specs_after=prepared.new,
    )
    return replace(change, kinds=kinds_of(change))


def _known(facts: Mapping[str, Delta], sides: SpecSides) -> Mapping[str, Delta]:
    """Return `facts` without compilers that only one side names, if the other has specs without a named compiler."""
    added, removed = (
        ()
        if other is None or NO_COMPILER in other.facts["compilers"]
        else tuple(compiler for compiler in own if compiler != NO_COMPILER)
        for own, other in zip((facts["compilers"].added, facts["compilers"].removed), sides, strict=True)
    )
    return {**facts, "compilers": Delta(added, removed)}


def _newly_unreferenced(prepared: _Prepared, reported: Reported) -> tuple[Spec, ...]:
    """Return kept specs that lost their last stack, and new specs without a stack that were not rebuilt."""
    vanished, new = reported.specs
    more = {s for s, count in new.items() if s.is_unreferenced and count > vanished[s]}
    hashes = {kept.hash for kept in prepared.restacked if kept.after.is_unreferenced}
    if more:
        hashes |= {spec_hash for spec_hash, signature in prepared.added.items() if signature in more}
    return tuple(Spec(spec_hash, prepared.new[spec_hash]) for spec_hash in sorted(hashes))


def part_of(change: PackageChange, selection: Selection) -> PackageChange | None:
    """Return the part of `change` on selected specs and specs paired with these; None if there is no such part.

    Only selected stacks are named. If `selection` filters compilers, systems or versions, a place (a stack on a target)
    without a selected build counts as lost, whatever else it has.
    """
    chooses, sees_stack = selection.chooses, selection.stacks
    seen = [one for one in change.places if sees_stack(one.stack)]
    matches = tuple(judged_by_places(_chosen_sides(change.matches, chooses), seen))
    gone, new = (tuple(alike for alike in side if chooses(alike.signature)) for side in (change.gone, change.new))
    if not sees_stack.is_open:
        matches, gone, new = seen_in_stacks(matches, gone, new, sees_stack)
    moved = tuple(_chosen_sides(change.restacked, chooses))
    restacked = tuple(kept for kept in moved if any(map(sees_stack, kept.gained + kept.lost)))
    vanished, added = BySignature(), BySignature()
    for match in matches:
        vanished[match.before] += match.count
        added[match.after] += match.count
    for counts, unmatched in ((vanished, gone), (added, new)):
        for alike in unmatched:
            counts[alike.signature] += alike.count
    if not (vanished or added or restacked):
        return None
    signatures = {*vanished, *added, *(side for kept in restacked for side in (kept.before, kept.after))}
    removed, gained = _some(change.removed_hashes, vanished), _some(change.added_hashes, added)
    hashes = gained.hashes | {kept.hash for kept in moved}
    removed, gained = (Specs.of({h: s for h, s in specs.items() if chooses(s)}) for specs in (removed, gained))
    unreferenced = tuple(
        h
        for h in change.unreferenced
        if h in hashes or (h not in change.added_hashes and chooses(change.specs_after[h]))
    )
    same = change.specs_before.counts - change.removed_hashes.counts - Counter(kept.before for kept in change.restacked)
    still = sum(count for signature, count in same.items() if chooses(signature))
    touched = places_of(signatures)
    stacks = {place.stack for place in touched if sees_stack(place.stack)}
    places, machines_lost = _chosen_places(change, frozenset(p for p in touched if p.stack in stacks), selection)
    if selection.versions.is_open:
        gone, new = _classed_anew(change, gone, new, selection)
    facts = {}  # the values that selected specs added or removed
    for name, delta in change.facts.items():
        values = {v for s in signatures for v in VALUES[name](s) if name != "stacks" or sees_stack(v)} if delta else ()
        facts[name] = Delta(*(tuple(v for v in side if v in values) for side in (delta.added, delta.removed)))
    before, after = (
        {**own, "stacks": frozenset(filter(sees_stack, own["stacks"]))}
        for own in (
            facts_of([s for s in side.counts if chooses(s)]) for side in (change.specs_before, change.specs_after)
        )
    )
    part = replace(
        change,
        facts=facts,
        stack_versions=tuple(v for v in change.stack_versions if v.stack in stacks),
        places=places,
        machines_lost=machines_lost,
        counts=count_specs(
            matches,
            gone,
            new,
            moved,
            before=still + sum(not kept.entered for kept in moved) + len(removed),
            after=still + sum(not kept.left for kept in moved) + len(gained),
            unreferenced=len(unreferenced),
        ),
        matches=matches,
        gone=gone,
        new=new,
        added_hashes=gained,
        removed_hashes=removed,
        restacked=restacked,
        unreferenced=unreferenced,
        newly_unreferenced=tuple(spec for spec in change.newly_unreferenced if spec.hash in hashes),
        before=before,
        after=after,
    )
    return replace(part, kinds=kinds_of(part))


def _classed_anew(
    change: PackageChange, gone: Sequence[SignatureCount], new: Sequence[SignatureCount], selection: Selection
) -> Iterator[tuple[SignatureCount, ...]]:
    """Yield `gone`, then `new`, each spec with the class that follows from the selected stacks and builds alone."""
    sees, unknown = selection.stacks, change.is_compiler_unknown
    touched = frozenset(place for one in (*gone, *new) for place in one.signature.places if sees(place.stack))
    sides = (filter(selection.sees_build, side.counts) for side in (change.specs_before, change.specs_after))
    judged = judge_places(touched, *sides, is_compiler_unknown=unknown)
    for side, whole in ((gone, Verdict.LOST), (new, Verdict.GAINED)):
        yield tuple(
            replace(one, spec_class=class_of(one.signature, judged, whole, is_compiler_unknown=unknown)) for one in side
        )


def _chosen_places(
    change: PackageChange, touched: frozenset[Place], selection: Selection
) -> tuple[tuple[PlaceChange, ...], tuple[MachineLoss, ...]]:
    """Return the changes of places in `touched`, judged only by builds with selected compilers, systems and versions.

    A selected version may be replaced by any version, so only lost and new places are judged by selected versions.
    """
    if selection.compilers.is_open and selection.oses.is_open and selection.versions.is_open:
        others = [one for one in change.places if one.verdict is Verdict.GAINED and not selection.targets(one.target)]
        instead = {new.stack: tuple(one.target for one in others if one.stack == new.stack) for new in others}
        return (
            tuple(
                replace(one, outside=Outside(targets=instead[one.stack])) if one.loss and one.stack in instead else one
                for one in change.places
                if one.place in touched
            ),
            tuple(lost for lost in change.machines_lost if lost.place in touched),
        )
    unknown = change.is_compiler_unknown
    before, after = (
        list(filter(selection.sees_build, side.counts)) for side in (change.specs_before, change.specs_after)
    )
    judged = chosen = judge_places(touched, before, after, is_compiler_unknown=unknown)
    if not selection.versions.is_open:
        before, after = (list(filter(selection.sees_version, side)) for side in (before, after))
        chosen = judge_places(touched, before, after, is_compiler_unknown=unknown)
        new = {place for place, one in judged.items() if one.verdict is Verdict.GAINED}
        alone = {place: one for place, one in chosen.items() if one.verdict is Verdict.LOST or place in new}
        judged = {place: one for place, one in judged.items() if one.verdict is not Verdict.LOST} | alone
    had = {one: change.specs_before.counts[one] for one in before}
    losses, machines = judge_losses(chosen, had, after, change.restacked, is_pruned=change.is_pruned)
    outside = partial(_outside, change, before, selection)
    found = place_changes(judged, losses)
    if not selection.versions.is_open:  # an upgrade from an unselected version to another is none of the selected ones
        found = tuple(
            one
            for one in found
            if one.verdict not in REGRADED or any(map(selection.versions, (*one.before[-1:], *one.after[-1:])))
        )
    return (
        tuple(replace(one, outside=outside(one)) if one.loss else one for one in found),
        tuple(replace(one, outside=outside(one)) for one in machines),
    )


def _outside(
    change: PackageChange, before: Iterable[Signature], selection: Selection, lost: PlaceChange | MachineLoss
) -> Outside | None:
    """Return builds in `lost` that `selection` refuses, or None; `before` has the earlier specs that are selected."""

    def of_place(specs: Iterable[Signature]) -> list[Signature]:
        own = [one for one in specs if lost.place in one.places]
        return own if isinstance(lost, PlaceChange) else [one for one in own if one.os == lost.machine.os]

    had, there = of_place(before), of_place(change.specs_after.counts)
    if not there:
        return None
    same_build = [one for one in there if selection.sees_build(one)]
    versions = {version for one in same_build for version in one.versions}
    if versions and not selection.versions.is_open:
        return Outside(version=newest(versions))
    compilers, oses = (
        tuple(sorted({getattr(one, name) for one in there} - {getattr(one, name) for one in had} - {"", NO_COMPILER}))
        for name in ("compiler", "os")
    )
    return Outside(compilers=compilers, oses=oses) if compilers or oses else None


_TwoSided = TypeVar("_TwoSided", SpecMatch, StackChange)


def _chosen_sides(changes: Iterable[_TwoSided], chooses: Callable[[Signature], bool]) -> Iterator[_TwoSided]:
    """Yield `changes` with a spec that `chooses` accepts; mark them `entered` if it refuses the old, `left` if the new."""
    for two_sided in changes:
        is_before, is_after = chooses(two_sided.before), chooses(two_sided.after)
        if is_before and is_after:
            yield two_sided
        elif is_before or is_after:
            yield replace(two_sided, entered=is_after, left=is_before)


def _some(specs: Specs, wanted: Mapping[Signature, int]) -> Specs:
    """Return, for each signature, as many of `specs` as `wanted` says: those with the lowest hashes."""
    if specs.counts.items() == wanted.items():  # much faster than counters themselves
        return specs
    left = dict(wanted)
    some = {}
    for spec_hash, signature in specs.in_order():
        if left.get(signature):
            left[signature] -= 1
            some[spec_hash] = signature
    return Specs.of(some)
