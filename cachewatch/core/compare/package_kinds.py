"""Count what became of the specs of a package, and name the kinds of change that this amounts to."""

from collections.abc import Iterable, Iterator, Mapping

from cachewatch.core.model import (
    Delta,
    Kind,
    MatchKind,
    PlaceChange,
    Signature,
    SignatureCount,
    SpecClass,
    SpecCounts,
    SpecMatch,
    StackChange,
    Status,
)


def count_specs(
    matches: Iterable[SpecMatch],
    gone: Iterable[SignatureCount],
    new: Iterable[SignatureCount],
    *,
    before: int,
    after: int,
    unreferenced: int,
) -> SpecCounts:
    """Count specs by kind of match and class; `before`, `after` and `unreferenced` are taken as they are."""
    by_kind = dict.fromkeys(MatchKind, 0)
    for match in matches:
        by_kind[match.kind] += match.count
    by_class: dict[SpecClass, int] = {}
    sums = []
    for side in (gone, new):
        total = 0
        for alike in side:
            by_class[alike.spec_class] = by_class.get(alike.spec_class, 0) + alike.count
            total += alike.count
        sums.append(total)
    gone_specs, new_specs = sums
    paired = sum(by_kind.values())
    added, removed = paired + new_specs, paired + gone_specs
    return SpecCounts(
        before=before,
        after=after,
        added=added,
        removed=removed,
        new=new_specs,
        gone=gone_specs,
        net_added=added - by_kind[MatchKind.REBUILT],
        net_removed=removed - by_kind[MatchKind.REBUILT],
        unreferenced=unreferenced,
        **by_kind,
        **by_class,
    )


def moves_of(matches: Iterable[SpecMatch], restacked: Iterable[StackChange]) -> Iterator[tuple[Signature, Signature]]:
    """Yield the specs that other stacks build now, before and after."""
    yield from ((match.before, match.after) for match in matches if match.kind is MatchKind.MOVED)
    yield from ((kept.before, kept.after) for kept in restacked)


def kinds_of(
    status: Status,
    facts: Mapping[str, Delta],
    places: Iterable[PlaceChange],
    counts: SpecCounts,
    moves: Iterable[tuple[Signature, Signature]],
    *,
    has_unreferenced: bool,
) -> frozenset[Kind]:
    """Return every kind of change that holds for the package; there is no other source of them.

    A package that came or went has no other versions, compilers, systems, targets or variants than before: it had none,
    or has none. `moves` are specs that other stacks build now, kept or rebuilt.
    """
    moves = tuple(moves)
    has_both = status is Status.CHANGED
    claims = {
        Kind.PACKAGE_ADDED: status is Status.ADDED,
        Kind.PACKAGE_REMOVED: status is Status.REMOVED,
        Kind.UNREFERENCED: has_unreferenced,
        Kind.VERSION_ADDED: has_both and facts["versions"].added,
        Kind.VERSION_REMOVED: has_both and facts["versions"].removed,
        Kind.UPGRADED: counts.upgraded,
        Kind.DOWNGRADED: counts.downgraded,
        Kind.STACK_ADDED: facts["stacks"].added or any(set(a.stacks) - set(b.stacks) for b, a in moves),
        Kind.STACK_REMOVED: facts["stacks"].removed or any(set(b.stacks) - set(a.stacks) for b, a in moves),
        Kind.COMPILER: has_both and (counts.recompiled or facts["compilers"]),
        Kind.OS: has_both and (facts["oses"] or facts["platforms"]),
        Kind.TARGET: has_both and facts["targets"],
        Kind.VARIANT: has_both and facts["variants"],
        Kind.RECONFIGURED: counts.reconfigured,
        Kind.MOVED: counts.moved,
        Kind.SPEC_ADDED: counts.new,
        Kind.SPEC_REMOVED: counts.gone,
        Kind.REBUILT: counts.rebuilt,
    }
    kinds = {kind for kind, holds in claims.items() if holds}
    return frozenset(kinds.union(*(place.kinds for place in places)))
