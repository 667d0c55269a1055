"""An environment, and a pinned snapshot, as plain data for templates and JSON."""

from collections.abc import Callable, Iterable
from typing import Any

from cachewatch.coverage import CoverageChange, Covered, Standing
from cachewatch.digests import Pinned, TagDigest
from cachewatch.statements import StatementKind

Data = dict[str, Any]
Clean = Callable[[str], str]

_MOST_PINNED = 5
# What the newest snapshot has less of, and more of.
_LOSSES = (StatementKind.PACKAGE_REMOVED, StatementKind.PLACE_LOST, StatementKind.DOWNGRADED)
_GAINS = (StatementKind.UPGRADED, StatementKind.PACKAGE_ADDED, StatementKind.PLACE_GAINED)


def coverage_data(change: CoverageChange, most: int, clean: Clean) -> Data:
    """Say what became of the binaries of an environment; no list has more than `most` rows."""
    counts = change.after.counts
    return {
        "name": clean(change.after.environment.name),
        "binaries": len(change.after.needs),
        "externals": change.after.environment.externals,
        "before": change.before.counts[Standing.CACHED],
        "after": counts[Standing.CACHED],
        "other_builds": counts[Standing.OTHER_BUILD],
        "from_source": counts[Standing.FROM_SOURCE],
        "now_from_source": change.now_from_source,
        "left_over": len(change.after.left_over),
        "gone": _listed(change.gone, most, clean),
        "rebuilt": _listed(change.rebuilt, most, clean),
        "came": _listed(change.came, most, clean),
        "newly_left_over": _listed(change.newly_left_over, most, clean),
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
    # What somebody asked for by name comes before what that depends on.
    shown = sorted(listed, key=lambda covered: (not covered.need.is_root, covered.need.sort_key))[:most]
    return {"count": len(listed), "rows": [_row(covered, clean) for covered in shown], "more": len(listed) - len(shown)}


def _row(covered: Covered, clean: Clean) -> Data:
    need = covered.need
    return {
        "package": clean(need.package),
        "version": clean(need.version),
        "hash": clean(need.hash),
        "is_root": need.is_root,
        "other_builds": len(covered.others),
        "differs": [clean(text) for text in covered.differs[:_MOST_PINNED]],
        "versions": [clean(version) for version in covered.versions[-_MOST_PINNED:]],
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
