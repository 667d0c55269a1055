"""Count what became of the specs of a package, and name the kinds of change that this amounts to."""

from collections.abc import Iterable, Mapping

from cachewatch.compare.ladder import Account
from cachewatch.model import Delta, Direction, Kind, Restacked, Rung, SpecCounts, StackVersions, Status


def count_specs(before: int, after: int, account: Account, left_over: int) -> SpecCounts:
    """Count an account by rung; `before`, `after` and `left_over` are taken as they are."""
    by_rung = dict.fromkeys(Rung, 0)
    for pairing in account.pairings:
        by_rung[pairing.rung] += pairing.count
    gone, new = (sum([alike.count for alike in side]) for side in (account.gone, account.new))
    paired = sum(by_rung.values())
    added, removed = paired + new, paired + gone
    return SpecCounts(
        before=before,
        after=after,
        added=added,
        removed=removed,
        new=new,
        gone=gone,
        net_added=added - by_rung[Rung.REBUILT],
        net_removed=removed - by_rung[Rung.REBUILT],
        left_over=left_over,
        **by_rung,
    )


def kinds_of(
    status: Status,
    facts: Mapping[str, Delta],
    stack_versions: Iterable[StackVersions],
    counts: SpecCounts,
    restacked: Iterable[Restacked],
    *,
    has_left_over: bool,
    has_lost_places: bool,
) -> frozenset[Kind]:
    """Return every kind of change that holds for the package."""
    directions = {entry.direction for entry in stack_versions}
    claims = {
        Kind.PACKAGE_ADDED: status is Status.ADDED,
        Kind.PACKAGE_REMOVED: status is Status.REMOVED,
        Kind.LAST_COPY_REMOVED: has_lost_places,
        Kind.LEFT_OVER: has_left_over,
        Kind.VERSION_ADDED: facts["versions"].added,
        Kind.VERSION_REMOVED: facts["versions"].removed,
        Kind.UPGRADED: counts.upgraded or Direction.UPGRADE in directions,
        Kind.DOWNGRADED: counts.downgraded or Direction.DOWNGRADE in directions,
        Kind.STACK_ADDED: facts["stacks"].added or any(r.gained for r in restacked),
        Kind.STACK_REMOVED: facts["stacks"].removed or any(r.lost for r in restacked),
        Kind.COMPILER: counts.recompiled or facts["compilers"],
        Kind.OS: facts["oses"] or facts["platforms"],
        Kind.TARGET: facts["targets"],
        Kind.VARIANT: facts["variants"],
        Kind.RECONFIGURED: counts.reconfigured,
        Kind.MOVED: counts.moved,
        Kind.SPEC_ADDED: counts.new,
        Kind.SPEC_REMOVED: counts.gone,
        Kind.REBUILT: counts.rebuilt,
    }
    return frozenset(kind for kind, holds in claims.items() if holds)
