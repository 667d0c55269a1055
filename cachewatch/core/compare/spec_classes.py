"""What class each spec is of that nothing took the place of, or that takes nothing's place."""

from collections.abc import Mapping

from cachewatch.core.compare.place_verdicts import PlaceJudgement, combinations_of, places_of
from cachewatch.core.model import Place, Signature, SpecClass, Verdict

_REPLACED = (Verdict.UPGRADED, Verdict.DOWNGRADED)


def class_of_vanished(
    signature: Signature, judged: Mapping[Place, PlaceJudgement], *, is_compiler_unknown: bool
) -> SpecClass:
    """Return the class of a vanished spec: the first that holds."""
    if not signature.stacks:
        return SpecClass.PRUNED
    found = [judged[place] for place in places_of(signature) if place in judged]
    if any(judgement.verdict is Verdict.LOST for judgement in found):
        return SpecClass.LOST
    versions = signature.versions or ("",)
    left = [judgement for judgement in found if not judgement.versions_left.isdisjoint(versions)]
    if left:
        is_replaced = any(judgement.verdict in _REPLACED for judgement in left)
        return SpecClass.REPLACED if is_replaced else SpecClass.RETIRED
    combinations = combinations_of(signature, is_compiler_unknown=is_compiler_unknown)
    if any(not judgement.left.isdisjoint(combinations) for judgement in found):
        return SpecClass.DROPPED
    return SpecClass.SURPLUS


def class_of_new(
    signature: Signature, judged: Mapping[Place, PlaceJudgement], *, is_compiler_unknown: bool
) -> SpecClass:
    """Return the class of a new spec: the first that holds."""
    if not signature.stacks:
        return SpecClass.UNREFERENCED_NEW
    found = [judged[place] for place in places_of(signature) if place in judged]
    if any(judgement.verdict is Verdict.GAINED for judgement in found):
        return SpecClass.GAINED
    versions = signature.versions or ("",)
    came = [judgement for judgement in found if not judgement.versions_came.isdisjoint(versions)]
    if came:
        is_successor = any(judgement.verdict in _REPLACED for judgement in came)
        return SpecClass.SUCCESSOR if is_successor else SpecClass.EXTENDED
    combinations = combinations_of(signature, is_compiler_unknown=is_compiler_unknown)
    if any(not judgement.came.isdisjoint(combinations) for judgement in found):
        return SpecClass.NEW_COMBINATION
    return SpecClass.EXTRA_COPY
