"""Judge losses: what does a tag still have instead of the specs that a place or a machine lost?

A place is one stack and one target; a machine is a platform, operating system and target. A user of such a machine
finds in the tag, in any stack, the same binary, an equal one, another one, or nothing. The newest version that the
place had for each platform and operating system is judged, with each of its sets of variants; the loss has the worst of
these classes.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from cachewatch.core import versions_spellings_targets as spack
from cachewatch.core.comparison.matching_and_verdicts import Contents, PlaceJudgement
from cachewatch.core.model import (
    LOSS_ORDER,
    Loss,
    LossClass,
    Machine,
    MachineLoss,
    Place,
    Signature,
    Spec,
    StackChange,
    Verdict,
)
from cachewatch.core.versions_spellings_targets import NO_COMPILER, is_newer, newest, sorted_versions, that_matter

_System = tuple[str, str]  # platform and operating system


class Remains:
    """The current specs of a package in a tag; lost specs are compared with them."""

    def __init__(
        self, after: Iterable[Signature], restacked: Iterable[StackChange] = (), *, is_pruned: bool = True
    ) -> None:
        """Take all specs of the later state, and the kept ones whose stacks changed.

        `is_pruned` tells whether specs that no stack builds will be removed, as happens in branches.
        """
        self._is_pruned = is_pruned
        self._kept: defaultdict[Signature, list[StackChange]] = defaultdict(list)
        for one in restacked:
            self._kept[one.before].append(one)
        self._by_system: defaultdict[_System, list[Signature]] = defaultdict(list)
        self._there: dict[tuple[_System, str], _There] = {}  # the specs that run on a target
        for signature in after:
            if signature.stacks:
                self._by_system[signature.platform, signature.os].append(signature)

    def judge(self, before: Iterable[Signature], target: str) -> Loss:
        """Return the loss of a place or machine for `target` that had the specs `before`."""
        systems: defaultdict[_System, list[Signature]] = defaultdict(list)
        for signature in before:
            systems[signature.platform, signature.os].append(signature)
        versions = {
            system: newest({version for signature in found for version in signature.versions} or {""})
            for system, found in systems.items()
        }
        worst = self._worst(systems, versions, target)
        others = {version for found in systems.values() for one in found for version in one.versions} - {worst.version}
        older = (self._worst(systems, dict.fromkeys(systems, one), target) for one in sorted_versions(others))
        return replace(worst, older=tuple(older)[::-1])

    def _worst(
        self, systems: Mapping[_System, Sequence[Signature]], versions: Mapping[_System, str], target: str
    ) -> Loss:
        losses = [
            loss
            for system in sorted(systems)
            for loss in self._of_system(system, systems[system], versions[system], target)
        ]
        worst = max(losses, key=lambda loss: (LOSS_ORDER.index(loss.loss_class), loss.version))
        same = (one.builds for one in losses if one.loss_class is worst.loss_class)
        return replace(worst, builds=tuple(chain.from_iterable(same)))

    def _of_system(self, system: _System, before: Sequence[Signature], version: str, target: str) -> Iterator[Loss]:
        lost: defaultdict[frozenset[str], list[Signature]] = defaultdict(list)
        for signature in before:
            if version in (signature.versions or ("",)):
                lost[that_matter(signature.variants)].append(signature)
        if (system, target) not in self._there:
            self._there[system, target] = _There(
                one for one in self._by_system[system] if spack.runs(target, one.target)
            )
        for variants in sorted(lost, key=sorted):
            yield self._of_variants(version, variants, lost[variants], self._there[system, target])

    def _of_variants(self, version: str, variants: frozenset[str], lost: Sequence[Signature], there: "_There") -> Loss:
        same = [one for signature in lost for one in self._kept.get(signature, ())]
        built = [one.after for one in same if one.after.stacks]
        if built or (same and not self._is_pruned):
            return Loss(loss_class=LossClass.KEPT, version=version, stacks=_stacks(built))
        if (version, variants) not in there.equal:
            if same:
                builds = tuple(sorted((Spec(one.hash, one.after) for one in same), key=lambda one: one.hash))
                return Loss(loss_class=LossClass.GOING, version=version, builds=builds)
            loss = there.without_equal(version, variants)
            return replace(loss, builds=(Spec("", min(lost)),)) if loss.loss_class is LossClass.GONE else loss
        stacks, compilers = there.equal[version, variants]
        is_named = NO_COMPILER not in compilers and not any(
            one.compiler in compilers or one.compiler == NO_COMPILER for one in lost
        )
        named = max(compilers) if is_named else ""
        return Loss(loss_class=LossClass.EQUAL, version=version, stacks=stacks, compiler=named)


class _There:
    """The present specs for one platform and operating system that run on one target."""

    def __init__(self, specs: Iterable[Signature]) -> None:
        self._builds: defaultdict[str, defaultdict[frozenset[str], list[Signature]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for one in specs:
            for version in one.versions or ("",):
                self._builds[version][that_matter(one.variants)].append(one)
        self.equal = {
            (version, variants): (_stacks(builds), frozenset(one.compiler for one in builds))
            for version, by_variants in self._builds.items()
            for variants, builds in by_variants.items()
        }
        versions = self._builds.keys() - {""}
        self._newest = newest(versions) if versions else ""

    def without_equal(self, version: str, variants: frozenset[str]) -> Loss:
        """Return the loss of a version that has no equal build: another build, another version or nothing is there."""
        if version in self._builds:
            others = self._builds[version]
            nearest = min(others, key=lambda one: (len(one ^ variants), min(others[one])))
            return Loss(
                loss_class=LossClass.OTHER,
                version=version,
                stacks=self.equal[version, nearest][0],
                variants=tuple(sorted(nearest - variants)),
            )
        best = self._newest
        return Loss(
            loss_class=LossClass.OTHER if best and is_newer(best, version) else LossClass.GONE,
            version=version,
            there=best,
            stacks=_stacks(chain.from_iterable(self._builds[best].values())) if best else (),
        )


def _stacks(signatures: Iterable[Signature]) -> tuple[str, ...]:
    return tuple(sorted({stack for signature in signatures for stack in signature.stacks}))


def judge_losses(
    judged: Mapping[Place, PlaceJudgement],
    before: Iterable[Signature],
    after: Iterable[Signature],
    restacked: Iterable[StackChange],
    *,
    is_pruned: bool,
) -> tuple[Mapping[Place, Loss], tuple[MachineLoss, ...]]:
    """Return the loss of each lost place, and the machines lost by places that still have other builds.

    `judged` are the verdicts on all places, `before` and `after` the signatures of both states, and `restacked` the
    kept specs whose stacks changed. `is_pruned` tells whether specs that no stack builds will be removed.
    """
    lost = {
        place: _systems(one.before) - _systems(one.after)
        for place, one in judged.items()
        if one.verdict is Verdict.LOST
    }
    # A platform or operating system that records do not give is no machine.
    lost |= {
        place: systems
        for place, one in judged.items()
        if one.after and (systems := {one for one in _systems(one.before) - _systems(one.after) if all(one)})
    }
    if not lost:
        return {}, ()
    remains = Remains(after, restacked, is_pruned=is_pruned)
    had = _in_places(before, lost)
    losses, machines = {}, []
    for place, systems in sorted(lost.items()):
        if judged[place].verdict is Verdict.LOST:
            losses[place] = remains.judge(had[place], place.target)
            continue
        for platform, os in sorted(systems):
            specs = [one for one in had[place] if (one.platform, one.os) == (platform, os)]
            machines.append(
                MachineLoss(
                    stack=place.stack,
                    machine=Machine(platform, os, place.target),
                    versions=tuple(sorted_versions({version for one in specs for version in one.versions})),
                    loss=remains.judge(specs, place.target),
                )
            )
    return losses, tuple(machines)


def _systems(contents: Contents) -> set[_System]:
    return {(one.platform, one.os) for one in contents}


def _in_places(signatures: Iterable[Signature], places: Collection[Place]) -> Mapping[Place, list[Signature]]:
    signatures_at: dict[Place, list[Signature]] = {place: [] for place in places}
    for signature in signatures:
        for place in signature.places:
            if place in signatures_at:
                signatures_at[place].append(signature)
    return signatures_at
