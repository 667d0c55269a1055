"""The flow of a comparison: two documents of one package in, what happened to the package out.

Read `compare_all` first. Each package is prepared alone; DeepDiff then says of all of them
what was added and removed (added_and_removed.py), and everything that follows works on its answer: the matching
(rebuilt_and_upgraded.py), the verdicts of places (place_verdicts.py), the classes of specs (spec_classes.py) and the
kinds of change (change_kinds.py). Only what was merely rebuilt, and kept specs in other stacks,
are known without it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from cachewatch.core.compare.added_and_removed import Matched, SpecSide, find_deltas, known_compilers
from cachewatch.core.compare.normalizing import in_one_form
from cachewatch.core.compare.package_kinds import count_specs, kinds_of, moves_of
from cachewatch.core.compare.place_verdicts import judge_places, place_changes, places_of
from cachewatch.core.compare.rebuilt_and_upgraded import account
from cachewatch.core.compare.replacements import matched_across
from cachewatch.core.compare.spec_classes import class_of_new, class_of_vanished
from cachewatch.core.compare.versions_per_stack import judge_versions
from cachewatch.core.model import (
    Delta,
    Document,
    PackageChange,
    Place,
    Signature,
    SignatureCount,
    Spec,
    Specs,
    StackChange,
    Status,
    places_in,
)
from cachewatch.core.package_facts import NO_FACTS, Facts, facts_of


class Pair(Struct, frozen=True):
    """The documents of one package; None where there is none."""

    package: str
    before: Document | None
    after: Document | None


class _Prepared(Struct, frozen=True, kw_only=True):
    """A package of which something differs: both sides in one form, and which of their specs are on no other side.

    A hash that names another spec now is in `went` and in `came`.
    """

    package: str
    old: Specs
    new: Specs
    had: Facts | None
    has: Facts | None
    went: Specs
    came: Specs
    restacked: tuple[StackChange, ...]
    is_compiler_unknown: bool

    @property
    def sides(self) -> tuple[SpecSide, SpecSide]:
        """Return what DeepDiff compares."""
        return SpecSide(self.had, self.went.counts), SpecSide(self.has, self.came.counts)


def compare(
    package: str, before: Document | None, after: Document | None, *, is_pruned: bool = True
) -> PackageChange | None:
    """Return what happened to `package`, or None if nothing but the form of its document changed."""
    (change,) = compare_all([Pair(package, before, after)], is_pruned=is_pruned)
    return change


def compare_all(pairs: Iterable[Pair], *, is_pruned: bool = True) -> Iterator[PackageChange | None]:
    """Yield what happened to each package, in one call of DeepDiff for all of them.

    `is_pruned` tells whether specs that no stack builds will disappear from this tag, which
    is so in develop and not in releases and snapshots.
    """
    prepared = [_prepare(pair) for pair in pairs]
    deltas = iter(find_deltas(one.sides for one in prepared if one is not None))
    for one in prepared:
        yield None if one is None else _change(one, next(deltas), is_pruned=is_pruned)


def _prepare(pair: Pair) -> _Prepared | None:
    """Bring both sides into one form, and part what was kept from the rest; None if nothing happened."""
    before, after = pair.before, pair.after
    old, new = (Specs.of({}) if side is None else side.specs for side in (before, after))
    has_hashes = all(side.has_hashes for side in (before, after) if side is not None)
    old, new, kept, differing = in_one_form(pair.package, old, new, has_hashes=has_hashes)
    went, came = old.without(kept), new.without(kept)
    restacked = _restacked(old, new, differing)
    if not (went or came or restacked) and before is not None and after is not None:
        return None
    return _Prepared(
        package=pair.package,
        old=old,
        new=new,
        had=_facts(before, old),
        has=_facts(after, new),
        went=went,
        came=came,
        restacked=restacked,
        is_compiler_unknown=before is not None
        and after is not None
        and before.compiler_form is not after.compiler_form,
    )


def _facts(document: Document | None, specs: Specs) -> Facts | None:
    """Return the facts of `specs`, which a `document` that holds just them has already."""
    if document is None:
        return None
    return document.facts if specs is document.specs else facts_of(specs.counts)


def _change(one: _Prepared, found: Matched, *, is_pruned: bool) -> PackageChange:
    """Return what happened to a package, by what DeepDiff found."""
    unknown = one.is_compiler_unknown
    rebuilt = _equal(one.went.counts, one.came.counts)
    accounted = account(Counter(rebuilt | found.vanished), Counter(rebuilt | found.new), is_compiler_unknown=unknown)
    touched = _touched((*found.vanished, *found.new), one.restacked)
    after = _applied(one.old.counts, found, one.restacked)
    judged = judge_places(touched, one.old.counts, after, is_compiler_unknown=unknown)
    gone, new = matched_across(
        [
            SignatureCount(s, count, class_of_vanished(s, judged, is_compiler_unknown=unknown))
            for s, count in accounted.gone
        ],
        [SignatureCount(s, count, class_of_new(s, judged, is_compiler_unknown=unknown)) for s, count in accounted.new],
    )
    status = Status.ADDED if found.is_added else Status.REMOVED if found.is_removed else Status.CHANGED
    facts = _known(found.facts, one)
    places = place_changes(judged)
    unreferenced = _unreferenced(one.new)
    newly_unreferenced = _newly_unreferenced(one, found) if is_pruned else ()
    counts = count_specs(
        accounted.matches, gone, new, before=len(one.old), after=len(one.new), unreferenced=len(unreferenced)
    )
    return PackageChange(
        package=one.package,
        status=status,
        facts=facts,
        stack_versions=tuple(judge_versions({place.stack for place in touched}, one.old.counts, after)),
        places=places,
        counts=counts,
        matches=accounted.matches,
        gone=gone,
        new=new,
        came=one.came,
        went=one.went,
        restacked=one.restacked,
        unreferenced=unreferenced,
        newly_unreferenced=newly_unreferenced,
        kinds=kinds_of(
            status,
            facts,
            places,
            counts,
            moves_of(accounted.matches, one.restacked),
            has_unreferenced=bool(newly_unreferenced),
        ),
        before=one.had or NO_FACTS,
        after=one.has or NO_FACTS,
        specs_before=one.old,
        specs_after=one.new,
    )


def _equal(went: Counter[Signature], came: Counter[Signature]) -> dict[Signature, int]:
    """Return the signatures of which as many came as went; DeepDiff was not asked about them."""
    return {signature: count for signature, count in went.items() if came.get(signature) == count}


def _known(facts: Mapping[str, Delta], one: _Prepared) -> Mapping[str, Delta]:
    if not one.is_compiler_unknown or one.had is None or one.has is None:
        return facts
    compilers = known_compilers(facts["compilers"], one.had["compilers"], one.has["compilers"])
    return {**facts, "compilers": compilers}


def _touched(signatures: Iterable[Signature], restacked: Iterable[StackChange]) -> frozenset[Place]:
    """Return the places in which something may have happened."""
    touched = {places_of(signature) for signature in signatures}
    touched |= {places_in(kept.gained + kept.lost, kept.after.target) for kept in restacked}
    return frozenset[Place]().union(*touched)


def _applied(
    before: Mapping[Signature, int], found: Matched, restacked: Sequence[StackChange]
) -> Mapping[Signature, int]:
    """Return the specs there are after what was found; what was rebuilt is as it was."""
    if not (found.vanished or found.new or restacked):
        return before
    after = Counter(before)
    after.subtract(found.vanished)
    after.update(found.new)
    for kept in restacked:
        after[kept.before] -= 1
        after[kept.after] += 1
    return +after


def _unreferenced(specs: Specs) -> tuple[str, ...]:
    if not any(signature.is_unreferenced for signature in specs.counts):
        return ()
    return tuple(sorted(spec_hash for spec_hash, signature in specs.items() if signature.is_unreferenced))


def _newly_unreferenced(one: _Prepared, found: Matched) -> tuple[Spec, ...]:
    """Return the kept specs that lost their last stack, and the new ones that have none, unless they were rebuilt."""
    more = {s for s, count in found.new.items() if s.is_unreferenced and count > found.vanished[s]}
    hashes = {kept.hash for kept in one.restacked if kept.after.is_unreferenced}
    if more:
        hashes |= {spec_hash for spec_hash, signature in one.came.items() if signature in more}
    return tuple(Spec(spec_hash, one.new[spec_hash]) for spec_hash in sorted(hashes))


def _restacked(old: Specs, new: Specs, kept: Iterable[str]) -> tuple[StackChange, ...]:
    """Return those of the `kept` hashes whose stacks changed."""
    moved = (h for h in kept if old[h].stacks != new[h].stacks)
    return tuple(StackChange(spec_hash, old[spec_hash], new[spec_hash]) for spec_hash in sorted(moved))
