"""Find out which binaries of an environment a build cache has.

An environment needs binaries with certain hashes, for its operating systems and targets. `cover` compares them with the
specs of a cache; `compare_coverage` tells what changed for them between two states of a cache, or what moving from one
snapshot to another would gain and lose. Binaries can be installed whichever stack built them, so only needs in advice
about some stacks name a stack.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core import versions_spellings_targets as spack
from cachewatch.core.graphs_and_attribution import Cause
from cachewatch.core.kinds_and_specs import LossClass, Machine, Signature
from cachewatch.core.versions_spellings_targets import NO_COMPILER, that_matter, variant_name

# The specs of each package, by hash.
Holdings = Mapping[str, Mapping[str, Signature]]


class Nearest(StrEnum):
    """What a cache has for a needed binary; the first value that applies is used."""

    SAME = "same"  # the same hash
    EQUAL = "equal"  # a build with another hash, equal in all attributes
    SIMILAR = "similar"  # another build of the same version that these machines run
    NONE = "none"  # no such build


class Need(Struct, frozen=True, kw_only=True):
    """One binary that an environment needs, or an abstract spec."""

    package: str
    version: str  # of an abstract spec, the range that it allows: 1.2:1.4
    hash: str = ""  # empty for an abstract spec
    platform: str = ""
    os: str = ""
    target: str = ""
    compiler: str = ""  # empty if unknown
    variants: tuple[str, ...] | None = None  # None if unknown
    is_root: bool = False
    stack: str = ""  # the stack that must build it; empty for any

    @property
    def place(self) -> tuple[str, str, str, str]:
        """The stack that must build the binary, and the platform, system and target that need it; "" for any."""
        return (self.stack, self.platform, self.os, self.target)

    @property
    def sort_key(self) -> tuple[str, str, str, str]:
        """A key that sorts by package, then version, hash and target."""
        return (self.package, self.version, self.hash, self.target)


class Environment(Struct, frozen=True, kw_only=True):
    """The binaries that an environment needs, and the number of its externals."""

    name: str
    needs: tuple[Need, ...]  # sorted
    externals: int = 0

    @property
    def hashes(self) -> frozenset[str]:
        """The hashes of all needed binaries."""
        return frozenset(need.hash for need in self.needs if need.hash)

    @property
    def versions(self) -> frozenset[tuple[str, str]]:
        """The packages and versions of all needed binaries."""
        return frozenset((need.package, need.version) for need in self.needs)

    @property
    def packages(self) -> frozenset[str]:
        """The packages of all needed binaries."""
        return frozenset(need.package for need in self.needs)

    @property
    def oses(self) -> frozenset[str]:
        """The operating systems of its machines; empty if a needed binary names none, so that any is possible."""
        found = frozenset(need.os for need in self.needs)
        return frozenset() if "" in found else found

    @property
    def targets(self) -> frozenset[str]:
        """The targets whose binaries its machines run; empty if a needed binary names none: then any is possible."""
        found = frozenset(need.target for need in self.needs)
        return frozenset() if "" in found else frozenset().union(*map(spack.runnable, found))


class Resolution(Struct, frozen=True):
    """A needed binary, and what the cache has for it."""

    need: Need
    nearest: Nearest
    after_prune: Nearest | None = None  # the nearest build after the next prune, if that is worse
    others: tuple[str, ...] = ()  # hashes of other usable builds of the version, the most similar first
    differs: tuple[str, ...] = ()  # attributes of the most similar of them that differ from the need
    lacks_compiler: bool = False  # the need names no compiler, and all of these builds do
    versions: tuple[str, ...] = ()  # other versions for the same machines, oldest first; only if nearest is none
    without: tuple[str, ...] = ()  # needed variants that the newest of them, or the most similar build, does not have
    elsewhere: tuple[str, ...] = ()  # other systems with the version, as linux-rhel8-zen4; likewise
    # Causes of another hash, each with the path of packages to what differs; only if equal and recorded.
    causes: tuple[tuple[Cause, tuple[str, ...]], ...] = ()

    @property
    def is_met(self) -> bool:
        """Whether the cache has the needed binary or, for an abstract spec, any build of the needed version."""
        return self.nearest is Nearest.SAME or (not self.need.hash and self.nearest is not Nearest.NONE)

    @property
    def loss_class(self) -> LossClass:
        """The class of the loss of this binary, from the same classes as for lost places and machines."""
        if self.is_met and self.after_prune is None:
            return LossClass.KEPT
        if self.is_met or self.after_prune is Nearest.NONE:
            return LossClass.GOING
        if self.nearest is Nearest.NONE:
            return LossClass.OTHER if self.has_newer else LossClass.GONE
        has_other_variants = any(text.startswith("variants ") for text in self.differs)
        return LossClass.OTHER if has_other_variants else LossClass.EQUAL

    @property
    def left(self) -> Nearest:
        """What the cache will have for the needed binary after a prune, which removes specs that no stack builds."""
        return self.after_prune or self.nearest

    @property
    def has_newer(self) -> bool:
        """Whether the newest other version for the same machines is newer than the needed version."""
        return bool(self.suggestion) and spack.is_newer(self.suggestion, self.need.version)

    @property
    def suggestion(self) -> str:
        """The newest other version for the same machines; "" if there is none."""
        return self.versions[-1] if self.versions else ""


class Coverage(Struct, frozen=True):
    """What a cache has for each need of an environment."""

    environment: Environment
    needs: tuple[Resolution, ...]

    @property
    def met(self) -> int:
        """The number of needs that are met."""
        return sum(covered.is_met for covered in self.needs)

    def of_class(self, wanted: LossClass) -> tuple[Resolution, ...]:
        """Return the needs whose class of loss is `wanted`."""
        return tuple(covered for covered in self.needs if covered.loss_class is wanted)


class CoverageChange(Struct, frozen=True):
    """What changed for the binaries of an environment between two states; in each list, the most important come first.

    `before.met - len(removed) + len(added) == after.met`.
    """

    before: Coverage
    after: Coverage
    removed: tuple[Resolution, ...]  # no longer met, as in the later state
    added: tuple[Resolution, ...]  # newly met
    newly_lost: tuple[Resolution, ...]  # not met before either, but then had another build, or one of these variants
    restored: tuple[Resolution, ...]  # still not met, but now have another build, or one of these variants
    newly_going: tuple[Resolution, ...]  # no stack builds them any more, or all that would do in their place

    def __bool__(self) -> bool:
        return any((self.removed, self.added, self.newly_lost, self.restored, self.newly_going))


def cover(environment: Environment, holdings: Holdings, *, is_pruned: bool = True) -> Coverage:
    """Return what a cache has for each need of `environment`; `holdings` has the specs of the cache, by package.

    `is_pruned` tells whether specs that no stack builds will be removed, as happens in branches.
    """
    return Coverage(
        environment,
        tuple(_covered(need, holdings.get(need.package, {}), is_pruned=is_pruned) for need in environment.needs),
    )


def compare_coverage(before: Coverage, after: Coverage) -> CoverageChange:
    """Return the changes for the binaries of one environment between two states of a cache."""
    nothing = {covered.need: covered for covered in cover(after.environment, {}).needs}
    had = nothing | {covered.need: covered for covered in before.needs}
    pairs = [(had[covered.need], covered) for covered in after.needs]
    unmet = [(old, new) for old, new in pairs if not old.is_met and not new.is_met]
    going = LossClass.GOING
    return CoverageChange(
        before,
        after,
        removed=_worst_first(new for old, new in pairs if old.is_met and not new.is_met),
        added=_worst_first(new for old, new in pairs if new.is_met and not old.is_met),
        newly_lost=_worst_first(new for old, new in unmet if _is_better(old, new)),
        restored=_worst_first(new for old, new in unmet if _is_better(new, old)),
        newly_going=_worst_first(new for old, new in pairs if new.loss_class is going and old.loss_class is not going),
    )


def _is_better(mine: Resolution, other: Resolution) -> bool:
    """Tell whether only `mine` has a usable build or, if both have one, only `mine` has the needed variants."""
    if Nearest.NONE in (mine.nearest, other.nearest):
        return mine.nearest is not other.nearest is Nearest.NONE
    return mine.loss_class is LossClass.EQUAL and other.loss_class is LossClass.OTHER


def better(mine: Resolution | None, other: Resolution) -> Resolution:
    """Return what two caches together have for a need: `mine` of one (None: nothing known), `other` of the other."""
    if mine is None:
        return other
    best, rest = sorted((mine, other), key=lambda covered: (_place(covered.nearest), len(covered.differs)))
    left = min(mine.left, other.left, key=_place)
    after_prune = None if left is best.nearest else left
    if best.nearest is not rest.nearest:
        return replace(best, after_prune=after_prune)
    return replace(
        best,
        after_prune=after_prune,
        others=tuple(dict.fromkeys((*best.others, *rest.others))),
        versions=(versions := tuple(spack.sorted_versions({*best.versions, *rest.versions}))),
        without=(best if best.versions[-1:] == versions[-1:] else rest).without,
        elsewhere=tuple(sorted({*best.elsewhere, *rest.elsewhere})),
    )


def best(one: Coverage, other: Coverage) -> Coverage:
    """Return what two caches together have for an environment; `one` and `other` are what each has alone."""
    return Coverage(one.environment, tuple(map(better, one.needs, other.needs)))


def _place(nearest: Nearest) -> int:
    return list(Nearest).index(nearest)


def _worst_first(found: Iterable[Resolution]) -> tuple[Resolution, ...]:
    # Roots, which the user named, come before their dependencies.
    return tuple(sorted(found, key=lambda c: (-_place(c.left), not c.need.is_root, c.need.sort_key)))


def _covered(need: Need, specs: Mapping[str, Signature], *, is_pruned: bool) -> Resolution:
    if need.stack:
        runnable = [spec for spec in set(specs.values()) if is_runnable(need, spec)]
        # Without builds in its stack, those of other stacks count, if it is clear which ones the machine runs.
        if any(need.stack in spec.stacks for spec in runnable) or len({spec.platform for spec in runnable}) > 1:
            specs = {spec_hash: spec for spec_hash, spec in specs.items() if need.stack in spec.stacks}
    best = _found(need, specs, is_pruned=is_pruned)
    if not is_pruned or best.nearest is Nearest.NONE or not any(spec.is_unreferenced for spec in set(specs.values())):
        return best
    built = {spec_hash: spec for spec_hash, spec in specs.items() if not spec.is_unreferenced}
    left = _found(need, built, is_pruned=True)
    if left.nearest is best.nearest:
        return best
    return replace(best, after_prune=left.nearest, versions=left.versions, without=left.without)


def _found(need: Need, specs: Mapping[str, Signature], *, is_pruned: bool) -> Resolution:
    if need.hash and need.hash in specs:
        return Resolution(need, Nearest.SAME)
    is_wanted = spack.Versions([f"={need.version}"] if need.hash else [need.version] if need.version else [])
    signatures = set(specs.values())  # of which there are far fewer than specs
    builds = {spec for spec in signatures if any(map(is_wanted, spec.versions))}
    usable = {spec for spec in builds if is_runnable(need, spec)}
    if not usable:
        return _lost(need, signatures, builds, is_pruned=is_pruned)
    equal = {spec for spec in usable if need.hash and not _differences(need, spec)}
    if equal:
        return Resolution(
            need,
            Nearest.EQUAL,
            others=tuple(sorted(h for h, spec in specs.items() if spec in equal)),
            lacks_compiler=_lacks_compiler(need, equal),
        )
    distances = {spec: _distance(need, spec) for spec in usable}
    others = sorted((distances[spec], spec_hash) for spec_hash, spec in specs.items() if spec in usable)
    nearest = specs[others[0][1]]
    return Resolution(
        need,
        Nearest.SIMILAR,
        others=tuple(spec_hash for _, spec_hash in others),
        differs=_differences(need, nearest),
        without=tuple(sorted(that_matter(need.variants or ()) - that_matter(nearest.variants))),
        lacks_compiler=_lacks_compiler(need, usable),
    )


def _lost(need: Need, specs: Iterable[Signature], builds: Iterable[Signature], *, is_pruned: bool) -> Resolution:
    # Specs that may be pruned at any time are not suggested.
    built = [spec for spec in specs if is_runnable(need, spec) and not (is_pruned and spec.is_unreferenced)]
    versions = spack.sorted_versions({version for spec in built for version in spec.versions})
    there = frozenset[str]().union(*(spec.variants for spec in built if versions[-1] in spec.versions))
    known = set(map(variant_name, there))
    return Resolution(
        need,
        Nearest.NONE,
        versions=tuple(versions),
        without=tuple(
            one for one in need.variants or () if variant_name(one) in known and one in that_matter({one} - there)
        ),
        elsewhere=tuple(sorted({f"{spec.platform}-{spec.os}-{spec.target}" for spec in builds})),
    )


def is_runnable(need: Need, spec: Signature | Machine) -> bool:
    """Tell whether the machine of `need` can run builds for `spec`; what `need` does not give matches anything."""
    return (
        need.platform in ("", spec.platform)
        and need.os in ("", spec.os)
        and (not need.target or spack.runs(need.target, spec.target))
    )


def _differences(need: Need, spec: Signature) -> tuple[str, ...]:
    """Return the attributes in which the build `spec` differs from `need`; unknown attributes do not count."""
    differences = []
    if need.target not in ("", spec.target):
        differences.append(f"target {spec.target}")
    if _has_another_compiler(need, spec):
        differences.append(f"compiler {spec.compiler}")
    if need.variants is not None and (others := _other_variants(need.variants, spec.variants)):
        differences.append(f"variants {' '.join(others)}")
    return tuple(differences)


def _has_another_compiler(need: Need, spec: Signature) -> bool:
    return need.compiler not in ("", NO_COMPILER, spec.compiler) and spec.compiler != NO_COMPILER


def _lacks_compiler(need: Need, specs: Iterable[Signature]) -> bool:
    return need.compiler in ("", NO_COMPILER) and all(spec.compiler != NO_COMPILER for spec in specs)


def _other_variants(needed: Iterable[str], there: Iterable[str]) -> list[str]:
    """Return variants in `there` that are not `needed`, and `~NAME` or `no NAME` for names that only `needed` has."""
    needed, there = that_matter(needed), that_matter(there)
    known = set(map(variant_name, there))
    lacking = sorted((variant for variant in needed if variant_name(variant) not in known), key=variant_name)
    named = (f"~{one[1:]}" if one.startswith("+") else f"no {variant_name(one)}" for one in lacking)
    return [*sorted(there - needed, key=variant_name), *named]


def _distance(need: Need, spec: Signature) -> tuple[int, bool, int]:
    """Return a key that sorts builds, nearest to a need first: by differing variants, compiler, then target."""
    others = that_matter(spec.variants) ^ that_matter(spec.variants if need.variants is None else need.variants)
    # Of the targets that a machine runs, the one with most ancestors uses most of it.
    return (len(others), _has_another_compiler(need, spec), -len(spack.runnable(spec.target)))
