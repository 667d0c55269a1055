"""An environment, and a pinned snapshot, as words and as plain data for templates and JSON."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cachewatch.coverage import CoverageChange, Covered, Standing
from cachewatch.digests import Pinned, TagDigest
from cachewatch.render.coverage import remark
from cachewatch.render.phrases import number
from cachewatch.statements import StatementKind
from cachewatch.versions import is_newer

Data = dict[str, Any]
Clean = Callable[[str], str]

_MOST_PINNED = 5
_MOST_NAMED = 3
# What the newest snapshot has less of, and more of.
_LOSSES = (StatementKind.PACKAGE_REMOVED, StatementKind.PLACE_LOST, StatementKind.DOWNGRADED)
_GAINS = (StatementKind.UPGRADED, StatementKind.PACKAGE_ADDED, StatementKind.PLACE_GAINED)


def headline_of(change: CoverageChange) -> str:
    """Say the one thing to know of an environment, as in a subject; empty where nothing happened to it."""
    total = _noun(change, len(change.after.needs))
    if change.removed:
        return f"{len(change.removed):,} of {total} removed: {_fates(change.removed)}"
    if change.newly_lost:
        needs = "needs a source build" if len(change.newly_lost) == 1 else "need source builds"
        return f"{len(change.newly_lost):,} of {total} lost the other build: {needs}"
    if change.newly_unreferenced:
        return _second_copies(change, total)
    if change.came:
        return f"{len(change.came):,} of {total} added"
    if change.restored:
        has = "has" if len(change.restored) == 1 else "have"
        return f"{len(change.restored):,} of {total} {has} another build again"
    return ""


def advice_of(change: CoverageChange) -> str:
    """Say what to do about it, with what is left of the roots first; empty where nothing is to be done."""
    if lost := change.lost or change.newly_lost:
        return _restoring(change, lost)
    if change.removed:
        return "re-concretize to get the builds that are left"
    if change.newly_unreferenced:
        return "re-concretize before the next prune"
    return ""


def _restoring(change: CoverageChange, lost: Sequence[Covered]) -> str:
    """Say what would restore the binaries that are lost: the newest versions left for the same machines."""
    left = [covered for covered in lost if covered.suggestion]
    bare = [covered.need.package for covered in lost if not covered.suggestion]
    nothing = f"no version is left of {_named(bare)}" if bare else ""
    if not left:
        return nothing
    is_newer_only = all(covered.need.hash and is_newer(covered.suggestion, covered.need.version) for covered in left)
    named = _named(f"{covered.need.package} {covered.suggestion}" for covered in left)
    which = f"only {'newer' if is_newer_only else 'other'} versions are left ({named})"
    return "; ".join(filter(None, (f"re-concretize: for {_noun(change, len(left))} {which}", nothing)))


def _second_copies(change: CoverageChange, total: str) -> str:
    going = change.newly_unreferenced
    has_copies = all(covered.left is Standing.REBUILT for covered in going)
    if has_copies and len(going) == len(change.after.needs):
        return "every binary has a second copy, the old ones go at the next prune"
    goes = "goes" if len(going) == 1 else "go"
    fates = _fates(going, "a second copy" if has_copies else "another build")
    return f"{len(going):,} of {total} {goes} at the next prune: {fates}"


def _fates(found: Sequence[Covered], what: str = "another build") -> str:
    """Say of how many there is another build, and how many need a source build."""
    lost = sum(covered.left is Standing.LOST for covered in found)
    others = len(found) - lost
    who = "it" if len(found) == 1 else "all"
    if not lost:
        return f"{who} {'has' if who == 'it' else 'have'} {what}"
    if not others:
        return "it needs a source build" if who == "it" else "all need source builds"
    needs = "needs a source build" if lost == 1 else "need source builds"
    return f"{others:,} {'has' if others == 1 else 'have'} {what}, {lost:,} {needs}"


def _noun(change: CoverageChange, count: int) -> str:
    if change.after.environment.hashes or not change.after.needs:
        return number(count, "binary", "binaries")
    return number(count, "spec")


def _named(names: Iterable[str]) -> str:
    listed = list(dict.fromkeys(names))
    return ", ".join(listed[:_MOST_NAMED]) + (", ..." if len(listed) > _MOST_NAMED else "")


def coverage_data(change: CoverageChange, most: int, clean: Clean) -> Data:
    """Say what became of the binaries of an environment; no list has more than `most` rows.

    `before - removed + came = after`, and `removed = lost + usable + rebuilt`.
    """
    counts = change.after.counts
    return {
        "name": clean(change.after.environment.name),
        "headline": headline_of(change),
        "advice": clean(advice_of(change)),
        "binaries": len(change.after.needs),
        "externals": change.after.environment.externals,
        "before": change.before.met,
        "after": change.after.met,
        "removed": len(change.removed),
        "with_another_build": change.with_another_build,
        "now": {standing.value: counts[standing] for standing in Standing},
        "unreferenced": len(change.after.unreferenced),
        "lost": _listed(change.lost, most, clean),
        "newly_lost": _listed(change.newly_lost, most, clean),
        "usable": _listed(change.usable, most, clean),
        "rebuilt": _listed(change.rebuilt, most, clean),
        "newly_unreferenced": _listed(change.newly_unreferenced, most, clean),
        "restored": _listed(change.restored, most, clean),
        "came": _listed(change.came, most, clean),
    }


def pinned_data(pinned: Pinned, most: int, clean: Clean) -> Data:
    """Say where a pinned snapshot stands, and what moving to the newest one would gain and lose."""
    most = min(most, _MOST_PINNED)
    return {
        "tag": clean(pinned.tag),
        "source": clean(pinned.source),
        "is_gone": pinned.is_gone,
        "is_near_the_end": pinned.is_near_the_end,
        "newest": clean(pinned.newest),
        "newer": pinned.newer,
        "older": pinned.older,
        "environment": None if pinned.move is None else coverage_data(pinned.move, most, clean),
        "losses": _changes(pinned.whole_move, _LOSSES, most, clean),
        "gains": _changes(pinned.whole_move, _GAINS, most, clean),
    }


def _listed(listed: tuple[Covered, ...], most: int, clean: Clean) -> Data:
    shown = listed[:most]
    return {"count": len(listed), "rows": [_row(covered, clean) for covered in shown], "more": len(listed) - len(shown)}


def _row(covered: Covered, clean: Clean) -> Data:
    need = covered.need
    return {
        "package": clean(need.package),
        "version": clean(need.version),
        "hash": clean(need.hash),
        "is_root": need.is_root,
        "verdict": covered.standing.value,
        "after_prune": covered.left.value,
        "other_builds": len(covered.others),
        "differs": [clean(text) for text in covered.differs],
        "versions": [clean(version) for version in covered.versions[-_MOST_PINNED:]],
        "suggestion": clean(covered.suggestion),
        "elsewhere": [clean(system) for system in covered.elsewhere[:_MOST_PINNED]],
        "remark": clean(remark(covered)),
    }


def _changes(tag: TagDigest | None, kinds: Iterable[StatementKind], most: int, clean: Clean) -> list[Data]:
    statements = tag.statements if tag else ()
    packages = {kind: sorted({p for one in statements if one.kind is kind for p in one.packages}) for kind in kinds}
    return [
        {
            "name": kind.value,
            "packages": len(found),
            "names": [clean(name) for name in found[:most]],
            "more": max(0, len(found) - most),
        }
        for kind, found in packages.items()
        if found
    ]
