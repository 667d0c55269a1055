"""What came to packages and what went from them, as DeepDiff finds it. It is used here and nowhere else.

A package is given to DeepDiff as the keys of one flat mapping: that it is there, the values of
its facts, and the signatures of its vanished or new specs, each with their number. What is
equal on both sides is left out before, so a package that was merely rebuilt costs nothing.
DeepDiff never sees a list of specs, on which it is quadratic and pairs the wrong ones, and
several packages share one call, because each call has a price of its own. It is imported
when something differs at all: importing it costs more than comparing a small commit.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct, field

from cachewatch.core.model import FACTS, Delta, Signature
from cachewatch.core.package_facts import NO_FACTS, Facts
from cachewatch.core.spack_spellings import NO_COMPILER

Counts = Counter[Signature]
# What is compared: of what it is, and the value, which a package has once or not at all.
Entry = tuple[str, Hashable]

_PACKAGE = "package"
_SPECS = "specs"


class SpecSide(Struct, frozen=True):
    """One side of a package: its facts, and how many specs of each signature are on no other side."""

    facts: Facts | None  # None where there is no document
    specs: Counts


class Matched(Struct, frozen=True):
    """What came to a package and what went from it."""

    is_added: bool = False  # the package itself
    is_removed: bool = False
    facts: Mapping[str, Delta] = field(default_factory=lambda: dict.fromkeys(FACTS, Delta()))
    vanished: Counts = field(default_factory=Counter)  # of the signatures of which not as many came
    new: Counts = field(default_factory=Counter)


def find_deltas(pairs: Iterable[tuple[SpecSide, SpecSide]]) -> list[Matched]:
    """Return what came and went between the two sides of each package."""
    entries = [_differing(before, after) for before, after in pairs]
    if not any(went or came for went, came in entries):
        return [_NOTHING] * len(entries)
    return [_found(*answer) for answer in _answers(entries)]


def known_compilers(delta: Delta, before: frozenset[str], after: frozenset[str]) -> Delta:
    """Return `delta` without what is missing only because a side that names no compiler may have any."""
    return Delta(
        added=() if NO_COMPILER in before else tuple(c for c in delta.added if c != NO_COMPILER),
        removed=() if NO_COMPILER in after else tuple(c for c in delta.removed if c != NO_COMPILER),
    )


@lru_cache(maxsize=128)
def differing_fields(before: Signature, after: Signature) -> frozenset[str]:
    """Return the names of the fields in which two specs of one hash differ."""
    diff = _deep_diff(_fields(before), _fields(after))
    return frozenset(str(level.path(output_format="list")[0]) for report in diff.values() for level in report)


def load_deepdiff() -> None:
    """Import DeepDiff before it is needed, for a process that has nothing better to do."""
    import deepdiff  # noqa: F401, PLC0415


_NOTHING = Matched()


def _differing(before: SpecSide, after: SpecSide) -> tuple[list[Entry], list[Entry]]:
    """Return the entries of either side without those that are equal on both."""
    old_facts, new_facts = before.facts or NO_FACTS, after.facts or NO_FACTS
    went: list[Entry] = []
    came: list[Entry] = []
    if (before.facts is None) != (after.facts is None):
        (came if before.facts is None else went).append((_PACKAGE, None))
    for name in FACTS:
        old, new = old_facts[name], new_facts[name]
        if old != new:
            went += [(name, value) for value in old - new]
            came += [(name, value) for value in new - old]
    if before.specs != after.specs:
        went += [(_SPECS, pair) for pair in before.specs.items() if after.specs.get(pair[0]) != pair[1]]
        came += [(_SPECS, pair) for pair in after.specs.items() if before.specs.get(pair[0]) != pair[1]]
    return went, came


def _answers(entries: Sequence[tuple[list[Entry], list[Entry]]]) -> list[tuple[list[Entry], list[Entry]]]:
    """Return what DeepDiff says went and came, of each package."""
    # A number stands for a value, because DeepDiff writes out every key as text, and signatures are long.
    numbers: dict[Hashable, int] = {}
    # As keys, not as sets, of which DeepDiff would hash every item again.
    before, after = (
        {
            (package, name, numbers.setdefault(value, len(numbers))): None
            for package, sides in enumerate(entries)
            for name, value in sides[side]
        }
        for side in (0, 1)
    )
    values = list(numbers)
    diff = _deep_diff(before, after)
    answers: list[tuple[list[Entry], list[Entry]]] = [([], []) for _ in entries]
    for side, report in enumerate(("dictionary_item_removed", "dictionary_item_added")):
        for level in diff.get(report, ()):
            relation = level.up.t1_child_rel or level.up.t2_child_rel
            package, name, number = relation.param  # the key; level.path() makes a text of it first
            answers[package][side].append((name, values[number]))
            level.up.down = None  # the two name each other, and nobody may search for such garbage for long
    return answers


def _found(went: list[Entry], came: list[Entry]) -> Matched:
    if not went and not came:
        return _NOTHING
    added, removed = _by_name(came), _by_name(went)
    return Matched(
        is_added=_PACKAGE in added,
        is_removed=_PACKAGE in removed,
        facts={name: Delta(tuple(sorted(added.get(name, ()))), tuple(sorted(removed.get(name, ())))) for name in FACTS},
        vanished=Counter(dict(removed.get(_SPECS, ()))),
        new=Counter(dict(added.get(_SPECS, ()))),
    )


def _by_name(entries: Iterable[Entry]) -> Mapping[str, list[Any]]:
    values: dict[str, list[Any]] = {}
    for name, value in entries:
        values.setdefault(name, []).append(value)
    return values


def _deep_diff(before: object, after: object) -> Mapping[str, Any]:
    from deepdiff import DeepDiff  # noqa: PLC0415  see above

    diff: Mapping[str, Any] = DeepDiff(
        before,
        after,
        ignore_private_variables=False,
        report_repetition=True,
        threshold_to_diff_deeper=0,
        view="tree",
    )
    return diff


def _fields(s: Signature) -> dict[str, object]:
    return {
        "versions": s.versions,
        "compiler": s.compiler,
        "os": s.os,
        "platform": s.platform,
        "target": s.target,
        "variants": set(s.variants),
        "stacks": set(s.stacks),
    }
