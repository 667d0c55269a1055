"""What moving from one snapshot to another means: values in, values out, one outcome for each package.

Who stays with a snapshot wants to know of three things: what the other one lacks, what it has in
another version, and whether the binaries are the same at all. "Nothing is lost" says nothing of
the last: a snapshot that was built anew has other hashes throughout.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from cachewatch.core.model import PackageChange, PackageCounts, Place, PlaceChange, Specs, Status, Verdict


class Outcome(StrEnum):
    """What a package is in the other snapshot: the first of these that holds."""

    LOST = "lost"  # a place of it is
    DOWNGRADED = "downgraded"  # in a place
    UPGRADED = "upgraded"  # in a place
    GAINED = "gained"  # a place of it is
    CHANGED = "changed"  # its newest versions stay everywhere, but older ones or combinations do not
    REBUILT = "rebuilt"  # only hashes differ
    SAME = "same"


_BY_VERDICT = {
    Verdict.LOST: Outcome.LOST,
    Verdict.DOWNGRADED: Outcome.DOWNGRADED,
    Verdict.UPGRADED: Outcome.UPGRADED,
    Verdict.GAINED: Outcome.GAINED,
    Verdict.RETIRED: Outcome.CHANGED,
    Verdict.EXTENDED: Outcome.CHANGED,
    Verdict.NARROWED: Outcome.CHANGED,
    Verdict.WIDENED: Outcome.CHANGED,
    Verdict.SAME: Outcome.SAME,
}
_ORDER = list(Outcome)


class PackageOutcome(Struct, frozen=True, kw_only=True):
    """What one package is in the other snapshot."""

    package: str
    outcome: Outcome
    is_whole: bool = False  # lost or gained in all places, not in some
    before: str = ""  # of up- and downgrades, the newest versions where it happened
    after: str = ""
    places: tuple[Place, ...] = ()  # in which it is so, sorted; none where only hashes differ
    keeps_hashes: bool = True  # whether any of its hashes is in both


class SnapshotMove(Struct, frozen=True, kw_only=True):
    """What moving from `base` to `target` means; both are tags."""

    base: str
    target: str
    packages: tuple[PackageOutcome, ...]  # all but those that are the same, worst first
    same: int = 0

    def of(self, outcome: Outcome) -> tuple[PackageOutcome, ...]:
        """Return the packages of one outcome."""
        return tuple(found for found in self.packages if found.outcome is outcome)

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """How many packages there are of each outcome; their sum is all packages of both snapshots."""
        counted = Counter(found.outcome for found in self.packages)
        return {outcome: counted[outcome] for outcome in Outcome} | {Outcome.SAME: self.same}

    @property
    def is_safe(self) -> bool:
        """Whether nothing is lost, and nothing becomes older."""
        return not self.of(Outcome.LOST) and not self.of(Outcome.DOWNGRADED)

    @property
    def has_other_hashes_only(self) -> bool:
        """Whether no hash of `base` is in `target`: all that is installed by hash is installed anew."""
        return bool(self.packages) and not self.same and not any(found.keeps_hashes for found in self.packages)


def outcome_of(change: PackageChange) -> PackageOutcome:
    """Say what one package is in the other snapshot."""
    told = [(_BY_VERDICT[place.verdict], place) for place in change.places]
    worst = min((outcome for outcome, _ in told), key=_ORDER.index, default=_without_places(change))
    where = [place for outcome, place in told if outcome is worst]
    first, last = _versions(worst, where)
    return PackageOutcome(
        package=change.package,
        outcome=worst,
        is_whole=(worst is Outcome.LOST and not _is_anywhere(change.specs_after))
        or (worst is Outcome.GAINED and not _is_anywhere(change.specs_before)),
        before=first,
        after=last,
        places=tuple(sorted(Place(place.stack, place.target) for place in where)),
        keeps_hashes=change.counts.before > change.counts.removed or bool(change.went.hashes & change.came.hashes),
    )


def move_of(
    base: str, target: str, outcomes: Iterable[PackageOutcome], packages: PackageCounts | None = None
) -> SnapshotMove:
    """Put the outcomes of packages together.

    `packages` counts those of both snapshots, so that those that are the same are known; without
    it they are left out.
    """
    found = [outcome for outcome in outcomes if outcome.outcome is not Outcome.SAME]
    total = 0 if packages is None else packages.before + packages.added
    return SnapshotMove(
        base=base,
        target=target,
        packages=tuple(sorted(found, key=lambda o: (_ORDER.index(o.outcome), not o.is_whole, o.package))),
        same=max(0, total - len(found)),
    )


def _without_places(change: PackageChange) -> Outcome:
    """Judge a package that no stack builds, or of which nothing but hashes differs."""
    if change.status is Status.REMOVED:
        return Outcome.LOST
    if change.status is Status.ADDED:
        return Outcome.GAINED
    return Outcome.REBUILT if change.counts.added or change.counts.removed else Outcome.SAME


def _is_anywhere(specs: Specs) -> bool:
    return any(signature.stacks for signature in specs.counts)


def _versions(outcome: Outcome, places: Iterable[PlaceChange]) -> tuple[str, str]:
    """Return from what to what it went in most places; nothing where no version was replaced."""
    if outcome not in (Outcome.UPGRADED, Outcome.DOWNGRADED):
        return "", ""
    # A record may name no version at all.
    pairs = Counter(("".join(place.before[-1:]), "".join(place.after[-1:])) for place in places)
    return min(pairs, key=lambda pair: (-pairs[pair], pair))
