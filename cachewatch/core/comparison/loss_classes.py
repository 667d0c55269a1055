"""Judge losses: what does a tag still have instead of the specs that a place or a machine lost?

A place is one stack and one target; a machine is a platform, operating system and target. A user of such a machine
finds in the tag, in any stack, the same binary, an equal one, another one, or nothing. The newest version that the
place had for each platform and operating system is judged, with each of its sets of variants; the loss has the worst of
these classes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter

from msgspec.structs import replace

from cachewatch.core.comparison.matching_and_verdicts import Combinations, PlaceJudgement
from cachewatch.core.kinds_and_specs import (
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
from cachewatch.core.versions_spellings_targets import (
    NO_COMPILER,
    is_newer,
    newest,
    runnable,
    runs,
    sorted_versions,
    that_matter,
)

_System = tuple[str, str]  # platform and operating system


# The specs of one version by those of their variants that matter, by version.
_Builds = Mapping[str, Mapping[frozenset[str], Sequence[Signature]]]


class _Remains:
    """The current specs of a package in a tag, with which lost specs are compared."""

    def __init__(
        self,
        before: Mapping[Signature, int],
        after: Iterable[Signature],
        restacked: Iterable[StackChange],
        *,
        is_pruned: bool,
    ) -> None:
        self._before, self._is_pruned = before, is_pruned
        self._kept: defaultdict[Signature, list[StackChange]] = defaultdict(list)
        for kept in restacked:
            self._kept[kept.before].append(kept)
        self._after: defaultdict[_System, list[Signature]] = defaultdict(list)
        for signature in after:
            self._after[signature.platform, signature.os].append(signature)
        # By the machine that runs them: what stacks build, and what no stack builds.
        self._builds: dict[tuple[_System, str], tuple[_Builds, _Builds]] = {}

    def judge(self, before: Iterable[Signature], target: str) -> Loss:
        """Return the loss of the specs `before`, which a place on `target` lost for all or some operating systems."""
        systems: defaultdict[_System, list[Signature]] = defaultdict(list)
        for signature in before:
            systems[signature.platform, signature.os].append(signature)
        had = {system: _by_version(found) for system, found in systems.items()}
        worst = self._worst(had, {system: newest(found) for system, found in had.items()}, target)
        others = {version for found in had.values() for version in found} - {"", worst.version}
        older = (self._worst(had, dict.fromkeys(had, one), target) for one in sorted_versions(others))
        return replace(worst, older=tuple(older)[::-1])

    def _worst(self, had: Mapping[_System, _Builds], versions: Mapping[_System, str], target: str) -> Loss:
        losses = []
        for system in sorted(had):
            lost = had[system].get(versions[system], {})
            if (system, target) not in self._builds:
                serving = [one for one in self._after.get(system, ()) if runs(target, one.target)]
                self._builds[system, target] = (
                    _by_version(one for one in serving if one.stacks),
                    _by_version(one for one in serving if not one.stacks),
                )
            there = self._builds[system, target]
            losses += [self._judge(versions[system], own, lost[own], target, there) for own in sorted(lost, key=sorted)]
        worst = max(losses, key=lambda one: (LOSS_ORDER.index(one.loss_class), not one.has_copies, one.version))
        same = (one.builds for one in losses if one.loss_class is worst.loss_class)
        return replace(worst, builds=tuple(chain.from_iterable(same)))

    def _judge(
        self,
        version: str,
        variants: frozenset[str],
        lost: Sequence[Signature],
        target: str,
        builds: tuple[_Builds, _Builds],
    ) -> Loss:
        """Return the loss of the specs `lost`, which all have this `version` and these `variants`.

        `builds` has the present specs that machines of `target` run: those that stacks build, then those that none
        builds.
        """
        there, unbuilt = builds
        same = [kept for signature in lost for kept in self._kept.get(signature, ())]
        built = [kept.after for kept in same if kept.after.stacks]
        # Else some of the binaries are gone, and those that are left are their equals.
        is_whole = all(len(self._kept.get(signature, ())) == self._before[signature] for signature in lost)
        if same and is_whole and (built or not self._is_pruned):
            return Loss(loss_class=LossClass.KEPT, version=version, stacks=_stacks(built))
        others = there.get(version, {})
        if variants in others:
            equal, other_target = _nearest(others[variants], target)
            compilers = {one.compiler for one in equal}
            is_unnamed = NO_COMPILER in compilers or any(one.compiler in {*compilers, NO_COMPILER} for one in lost)
            named = "" if is_unnamed else max(compilers)
            return Loss(
                loss_class=LossClass.EQUAL, version=version, stacks=_stacks(equal), target=other_target, compiler=named
            )
        if same and not self._is_pruned:
            return Loss(loss_class=LossClass.KEPT, version=version, stacks=_stacks(built))
        if same:
            going = tuple(sorted((Spec(kept.hash, kept.after) for kept in same), key=lambda one: one.hash))
            return Loss(loss_class=LossClass.GOING, version=version, builds=going)
        if others:
            nearest = min(others, key=lambda one: (len(one ^ variants), min(others[one])))
            found, other_target = _nearest(others[nearest], target)
            return Loss(
                loss_class=LossClass.OTHER,
                version=version,
                stacks=_stacks(found),
                target=other_target,
                variants=tuple(sorted(nearest - variants)),
            )
        best = newest({"", *there})
        is_other = is_newer(best, version)
        found, other_target = _nearest([*chain.from_iterable(there[best].values())] if best else (), target)
        return Loss(
            loss_class=LossClass.OTHER if is_other else LossClass.GONE,
            version=version,
            there=best,
            stacks=_stacks(found),
            target=other_target,
            builds=() if is_other else (Spec("", min(lost)),),
            has_copies=not is_other and variants in unbuilt.get(version, ()),
        )


def _nearest(found: Sequence[Signature], target: str) -> tuple[Sequence[Signature], str]:
    """Return all of `found`, and "", if one is for `target`; else those for the best other target, and this target."""
    targets = {one.target for one in found}
    if not targets or target in targets:
        return found, ""
    best = max(targets, key=lambda one: (len(runnable(one)), one))
    return [one for one in found if one.target == best], best


def _by_version(signatures: Iterable[Signature]) -> _Builds:
    builds: defaultdict[str, defaultdict[frozenset[str], list[Signature]]] = defaultdict(lambda: defaultdict(list))
    for one in signatures:
        for version in one.versions or ("",):
            builds[version][that_matter(one.variants)].append(one)
    return builds


def _stacks(signatures: Iterable[Signature]) -> tuple[str, ...]:
    return tuple(sorted({stack for signature in signatures for stack in signature.stacks}))


def judge_losses(
    judged: Mapping[Place, PlaceJudgement],
    before: Mapping[Signature, int],
    after: Iterable[Signature],
    restacked: Iterable[StackChange],
    *,
    is_pruned: bool,
) -> tuple[Mapping[Place, Loss], tuple[MachineLoss, ...]]:
    """Return the loss of each lost place, and the machines lost by places that keep other builds.

    `judged` has the verdicts on places, `before` (with numbers of specs) and `after` the signatures of both states, and
    `restacked` the kept specs whose stacks changed. `is_pruned`: will specs that no stack builds be removed?
    """
    lost: dict[Place, set[_System]] = {}
    for place, one in judged.items():
        systems = _systems(one.before) - _systems(one.after)
        if one.after:  # a platform or operating system that records do not give is no machine
            systems = {system for system in systems if all(system)}
        if systems and (one.after or one.verdict is Verdict.LOST):
            lost[place] = systems
    if not lost:
        return {}, ()
    remains = _Remains(before, after, restacked, is_pruned=is_pruned)
    had: dict[Place, list[Signature]] = {place: [] for place in lost}
    for signature in before:
        for place in signature.places & lost.keys():
            had[place].append(signature)
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


def _systems(contents: Combinations) -> set[_System]:
    return set(map(attrgetter("platform", "os"), contents))
