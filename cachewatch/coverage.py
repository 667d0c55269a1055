"""What a cache has of an environment: values in, values out; nothing here reads or writes.

An environment needs binaries by their hashes. `cover` holds them against what there is;
`compare_coverage` says what became of them between two states of a cache, or what moving
from one snapshot to another would gain and lose.
"""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from cachewatch.model import Signature
from cachewatch.versions import Versions, sorted_versions

# The specs of each package, by hash.
Holdings = Mapping[str, Mapping[str, Signature]]


class Standing(StrEnum):
    """How a cache stands to one binary that an environment needs."""

    CACHED = "cached"  # it is there, by its hash
    OTHER_BUILD = "other-build"  # another build of the version is there, for the same system
    FROM_SOURCE = "from-source"  # nothing of that version is


class Need(Struct, frozen=True, kw_only=True):
    """One binary that an environment needs."""

    package: str
    version: str  # of an abstract spec, the versions that it allows: 1.2:1.4
    hash: str = ""  # empty where only an abstract spec is known
    platform: str = ""
    os: str = ""
    target: str = ""
    is_root: bool = False

    @property
    def sort_key(self) -> tuple[str, str, str]:
        """By package, then version and hash."""
        return (self.package, self.version, self.hash)


class Environment(Struct, frozen=True, kw_only=True):
    """What an environment needs of a cache; externals need nothing."""

    name: str
    needs: tuple[Need, ...]  # sorted
    externals: int = 0

    @property
    def hashes(self) -> frozenset[str]:
        """The hashes of all binaries."""
        return frozenset(need.hash for need in self.needs if need.hash)

    @property
    def versions(self) -> frozenset[tuple[str, str]]:
        """The packages and versions of all binaries."""
        return frozenset((need.package, need.version) for need in self.needs)

    @property
    def packages(self) -> frozenset[str]:
        """The packages of all binaries."""
        return frozenset(need.package for need in self.needs)


class Covered(Struct, frozen=True):
    """One need, and what there is."""

    need: Need
    standing: Standing
    is_left_over: bool = False  # it is there, but no stack builds it any more: the next prune takes it
    others: tuple[str, ...] = ()  # hashes of other builds of the version, sorted; only where it is not there itself
    differs: tuple[str, ...] = ()  # in what the other builds are not what is needed, as far as one can know
    versions: tuple[str, ...] = ()  # that are there for the same system; only where the version is not


class Coverage(Struct, frozen=True):
    """All needs of an environment, and what there is."""

    environment: Environment
    needs: tuple[Covered, ...]

    def of(self, standing: Standing) -> tuple[Covered, ...]:
        """Return those of one standing."""
        return tuple(covered for covered in self.needs if covered.standing is standing)

    @property
    def left_over(self) -> tuple[Covered, ...]:
        """Return those that are there, but not for long."""
        return tuple(covered for covered in self.needs if covered.is_left_over)

    @property
    def counts(self) -> Mapping[Standing, int]:
        """How many there are of each standing."""
        counted = Counter(covered.standing for covered in self.needs)
        return {standing: counted[standing] for standing in Standing}


class CoverageChange(Struct, frozen=True):
    """What became of the binaries of an environment between two states."""

    before: Coverage
    after: Coverage
    gone: tuple[Covered, ...]  # were there, and now nothing of their version is
    rebuilt: tuple[Covered, ...]  # were there, and now only another build of their version is
    came: tuple[Covered, ...]  # are there now and were not
    newly_left_over: tuple[Covered, ...]

    @property
    def now_from_source(self) -> int:
        """How many would be built from source now that needed no building before."""
        return len(self.gone) + len(self.rebuilt)

    def __bool__(self) -> bool:
        return bool(self.gone or self.rebuilt or self.came or self.newly_left_over)


def cover(environment: Environment, holdings: Holdings, *, is_pruned: bool = True) -> Coverage:
    """Hold what `environment` needs against what there is.

    `is_pruned` tells whether specs that no stack builds will go, as they do from branches.
    """
    return Coverage(
        environment,
        tuple(_covered(need, holdings.get(need.package, {}), is_pruned=is_pruned) for need in environment.needs),
    )


def compare_coverage(before: Coverage, after: Coverage) -> CoverageChange:
    """Say what became of the binaries of one environment."""
    had = {covered.need: covered for covered in before.needs}
    lost = [covered for covered in after.needs if not _is_cached(covered) and _is_cached(had.get(covered.need))]
    return CoverageChange(
        before,
        after,
        gone=tuple(covered for covered in lost if covered.standing is Standing.FROM_SOURCE),
        rebuilt=tuple(covered for covered in lost if covered.standing is Standing.OTHER_BUILD),
        came=tuple(c for c in after.needs if _is_cached(c) and not _is_cached(had.get(c.need))),
        newly_left_over=tuple(
            c for c in after.needs if c.is_left_over and not ((old := had.get(c.need)) and old.is_left_over)
        ),
    )


def better(one: Covered | None, other: Covered) -> Covered:
    """Return which of two answers about one need is the better one, as where there are two caches."""
    return other if one is None or _rank(other) < _rank(one) else one


def best(one: Coverage, other: Coverage) -> Coverage:
    """Return what two caches together have of one environment."""
    return Coverage(one.environment, tuple(map(better, one.needs, other.needs)))


def _rank(covered: Covered) -> tuple[int, bool, bool]:
    return (list(Standing).index(covered.standing), covered.is_left_over, not covered.versions)


def _is_cached(covered: Covered | None) -> bool:
    return covered is not None and covered.standing is Standing.CACHED


def _covered(need: Need, specs: Mapping[str, Signature], *, is_pruned: bool) -> Covered:
    found = specs.get(need.hash) if need.hash else None
    if found is not None:
        return Covered(need, Standing.CACHED, is_left_over=is_pruned and found.is_left_over)
    usable = {spec_hash: signature for spec_hash, signature in specs.items() if _is_same_system(need, signature)}
    is_wanted = _wanted(need)
    others = {h: signature for h, signature in usable.items() if any(map(is_wanted, signature.versions))}
    if others:
        return Covered(need, Standing.OTHER_BUILD, others=tuple(sorted(others)), differs=_differences(need, others))
    versions = {version for signature in usable.values() for version in signature.versions}
    return Covered(need, Standing.FROM_SOURCE, versions=tuple(sorted_versions(versions)))


def _wanted(need: Need) -> Versions:
    if need.hash:
        return Versions([f"={need.version}"])
    return Versions([need.version] if need.version else [])


def _is_same_system(need: Need, signature: Signature) -> bool:
    return need.platform in ("", signature.platform) and need.os in ("", signature.os)


def _differences(need: Need, others: Mapping[str, Signature]) -> tuple[str, ...]:
    """Name the targets of other builds if none of them is the one that is needed."""
    targets = {signature.target for signature in others.values()}
    if not need.target or need.target in targets:
        return ()
    return tuple(f"target {target}" for target in sorted(targets))
