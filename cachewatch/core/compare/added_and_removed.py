"""What was added to packages and removed from them, as DeepDiff finds it. It is used here and nowhere else.

DeepDiff gets what each package has of each kind: that it is there, the values of its facts, and
the signatures of its vanished or new specs, each with their number. What is equal on both sides
is left out before, so a package that was merely rebuilt costs nothing. DeepDiff never sees a
list of specs, on which it is quadratic and pairs the wrong ones, and several packages share one
call, because each call has a price of its own.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from deepdiff import DeepDiff
from msgspec import Struct, field

from cachewatch.core.model import FACTS, Delta, Signature
from cachewatch.core.package_facts import NO_FACTS, Facts
from cachewatch.core.spack_spellings import NO_COMPILER

Counts = Counter[Signature]
# The values of one kind that only the first side of a package has, and those that only the second one has.
Values = tuple[Sequence[Any], Sequence[Any]]

_PACKAGE = "package"
_SPECS = "specs"


class SpecSide(Struct, frozen=True):
    """One side of a package: its facts, and how many specs of each signature are on no other side."""

    facts: Facts | None  # None where there is no document
    specs: Counts


class Matched(Struct, frozen=True):
    """What was added to a package and removed from it."""

    is_added: bool = False  # the package itself
    is_removed: bool = False
    facts: Mapping[str, Delta] = field(default_factory=lambda: dict.fromkeys(FACTS, Delta()))
    vanished: Counts = field(default_factory=Counter)  # of the signatures of which not as many came
    new: Counts = field(default_factory=Counter)


def find_deltas(pairs: Iterable[tuple[SpecSide, SpecSide]]) -> list[Matched]:
    """Return what was added and removed between the two sides of each package."""
    differing = [_differing(before, after) for before, after in pairs]
    if not any(differing):
        return [_NOTHING] * len(differing)
    return [_found(answer) for answer in _answers(differing)]


def known_compilers(delta: Delta, before: frozenset[str], after: frozenset[str]) -> Delta:
    """Return `delta` without what is missing only because a side that names no compiler may have any."""
    return Delta(
        added=() if NO_COMPILER in before else tuple(c for c in delta.added if c != NO_COMPILER),
        removed=() if NO_COMPILER in after else tuple(c for c in delta.removed if c != NO_COMPILER),
    )


_NOTHING = Matched()


def _differing(before: SpecSide, after: SpecSide) -> dict[str, Values]:
    """Return, by kind, the values of either side that are not equal on both."""
    differing: dict[str, Values] = {}
    if (before.facts is None) != (after.facts is None):
        differing[_PACKAGE] = ([None], []) if after.facts is None else ([], [None])
    old_facts, new_facts = before.facts or NO_FACTS, after.facts or NO_FACTS
    for name in FACTS:
        old, new = old_facts[name], new_facts[name]
        if old != new:
            differing[name] = (list(old - new), list(new - old))
    if before.specs != after.specs:
        differing[_SPECS] = (
            [pair for pair in before.specs.items() if after.specs.get(pair[0]) != pair[1]],
            [pair for pair in after.specs.items() if before.specs.get(pair[0]) != pair[1]],
        )
    return differing


def _answers(differing: Sequence[Mapping[str, Values]]) -> list[dict[str, Values]]:
    """Return what DeepDiff says was removed and added, of each package."""
    # DeepDiff takes ten microseconds for each difference that it reports. So the values of one kind are one text, in
    # which a number stands for each; as sets, it would hash every value again and report each alone.
    numbers: dict[Hashable, int] = {}
    before, after = (
        {
            (package, name): " ".join([str(numbers.setdefault(value, len(numbers))) for value in values[side]])
            for package, kinds in enumerate(differing)
            for name, values in kinds.items()
        }
        for side in (0, 1)
    )
    values = list(numbers)
    answers: list[dict[str, Values]] = [{} for _ in differing]
    for level in _deep_diff(before, after).get("values_changed", ()):
        package, name = level.up.t1_child_rel.param  # the key; level.path() makes a text of it first
        went, came = ([values[int(number)] for number in text.split()] for text in (level.t1, level.t2))
        answers[package][name] = went, came
        level.up.down = None  # the two name each other, which keeps them until the collector runs
    return answers


def _found(differing: Mapping[str, Values]) -> Matched:
    if not differing:
        return _NOTHING
    went, came = ({name: values[side] for name, values in differing.items()} for side in (0, 1))
    return Matched(
        is_added=bool(came.get(_PACKAGE)),
        is_removed=bool(went.get(_PACKAGE)),
        facts={name: Delta(tuple(sorted(came.get(name, ()))), tuple(sorted(went.get(name, ())))) for name in FACTS},
        vanished=Counter(dict(went.get(_SPECS, ()))),
        new=Counter(dict(came.get(_SPECS, ()))),
    )


def _deep_diff(before: object, after: object) -> Mapping[str, Any]:
    diff: Mapping[str, Any] = DeepDiff(
        before,
        after,
        ignore_private_variables=False,
        report_repetition=True,
        threshold_to_diff_deeper=0,
        view="tree",
    )
    return diff
