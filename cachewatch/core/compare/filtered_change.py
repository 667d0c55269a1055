"""The part of what happened to a package that somebody chose.

Everything is judged on the whole package first, and a selection then picks from the result:
so a pair stays a pair if one of the two was chosen, and a verdict is that of the whole place.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.compare.package_kinds import count_specs, kinds_of, moves_of
from cachewatch.core.model import Delta, PackageChange, Place, Signature, SignatureCount, Specs, StackChange
from cachewatch.core.package_facts import VALUES, facts_of

Chooses = Callable[[Signature], bool]
SeesStack = Callable[[str], bool]


class _Chosen(Struct, frozen=True):
    """How many of the vanished and of the new specs of each signature are chosen, and which kept ones moved."""

    vanished: Counter[Signature]
    new: Counter[Signature]
    restacked: tuple[StackChange, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.vanished or self.new or self.restacked)

    def signatures(self) -> Iterator[Signature]:
        """Yield each signature to which something happened."""
        yield from self.vanished
        yield from self.new
        for kept in self.restacked:
            yield kept.before
            yield kept.after


def part_of(change: PackageChange, chooses: Chooses, sees_stack: SeesStack | None) -> PackageChange | None:
    """Return what of `change` happened to specs that are chosen, or took or lost their place to one; None for nothing.

    Of stacks, only what is seen is said.
    """
    is_seen = sees_stack or (lambda _: True)
    matches = tuple(p for p in change.matches if chooses(p.before) or chooses(p.after))
    gone, new = (tuple(a for a in side if chooses(a.signature)) for side in (change.gone, change.new))
    moved = [k for k in change.restacked if chooses(k.before) or chooses(k.after)]
    restacked = tuple(k for k in moved if any(map(is_seen, k.gained + k.lost)))
    chosen = _Chosen(
        _added_up((*((p.before, p.count) for p in matches), *_counted(gone))),
        _added_up((*((p.after, p.count) for p in matches), *_counted(new))),
        restacked,
    )
    if chosen.is_empty:
        return None
    went, came = _some(change.went, chosen.vanished), _some(change.came, chosen.new)
    still = _still(change, chooses)
    hashes = came.hashes | {k.hash for k in moved}
    unreferenced = tuple(
        h for h in change.unreferenced if h in hashes or (h not in change.came and chooses(_of(change, h)))
    )
    newly_unreferenced = tuple(spec for spec in change.newly_unreferenced if spec.hash in hashes)
    kept = still.total() + len(moved)
    counts = count_specs(
        matches, gone, new, before=kept + len(went), after=kept + len(came), unreferenced=len(unreferenced)
    )
    facts = _facts(change.facts, chosen, is_seen)
    touched = {Place(stack, s.target) for s in chosen.signatures() for stack in s.stacks}
    stacks = {place.stack for place in touched}
    places = tuple(p for p in change.places if is_seen(p.stack) and Place(p.stack, p.target) in touched)
    has_unreferenced = bool(newly_unreferenced)
    before, after = (_facts_of(side, chooses, is_seen) for side in (change.specs_before, change.specs_after))
    return replace(
        change,
        facts=facts,
        stack_versions=tuple(v for v in change.stack_versions if is_seen(v.stack) and v.stack in stacks),
        places=places,
        counts=counts,
        matches=matches,
        gone=gone,
        new=new,
        came=came,
        went=went,
        restacked=restacked,
        unreferenced=unreferenced,
        newly_unreferenced=newly_unreferenced,
        kinds=kinds_of(
            change.status, facts, places, counts, moves_of(matches, restacked), has_unreferenced=has_unreferenced
        ),
        before=before,
        after=after,
    )


def _counted(side: Iterable[SignatureCount]) -> Iterator[tuple[Signature, int]]:
    return ((alike.signature, alike.count) for alike in side)


def _added_up(counted: Iterable[tuple[Signature, int]]) -> Counter[Signature]:
    counts: Counter[Signature] = Counter()
    for signature, count in counted:
        counts[signature] += count
    return counts


def _some(specs: Specs, wanted: Mapping[Signature, int]) -> Specs:
    """Return as many specs of each signature as are wanted; which of equals is the same, so the first by hash."""
    if specs.counts == wanted:
        return specs
    left = dict(wanted)
    some = {}
    for spec_hash, signature in specs.in_order():
        if left.get(signature):
            left[signature] -= 1
            some[spec_hash] = signature
    return Specs.of(some)


def _still(change: PackageChange, chooses: Chooses) -> Counter[Signature]:
    """Count the chosen specs to which nothing happened."""
    kept = change.specs_before.counts - change.went.counts
    kept.subtract(k.before for k in change.restacked)
    return Counter({signature: count for signature, count in kept.items() if count > 0 and chooses(signature)})


def _of(change: PackageChange, spec_hash: str) -> Signature:
    return change.specs_after[spec_hash]


def _facts(facts: Mapping[str, Delta], chosen: _Chosen, is_seen: SeesStack) -> Mapping[str, Delta]:
    """Return those facts that came or went with a chosen spec."""
    signatures = list(chosen.signatures())
    part = {}
    for name, delta in facts.items():
        values = {value for s in signatures for value in VALUES[name](s)} if delta else set()
        if name == "stacks":
            values = set(filter(is_seen, values))
        part[name] = Delta(
            *(tuple(value for value in side if value in values) for side in (delta.added, delta.removed))
        )
    return part


def _facts_of(specs: Specs, chooses: Chooses, is_seen: SeesStack) -> Mapping[str, frozenset[str]]:
    facts = facts_of(list(filter(chooses, specs.counts)))
    return {**facts, "stacks": frozenset(filter(is_seen, facts["stacks"]))}
