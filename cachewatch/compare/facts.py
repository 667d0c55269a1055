"""What a package consists of, and how that differs. DeepDiff is used here and nowhere else.

DeepDiff sees the facts that differ and the kept specs that differ, never a list of specs:
it is quadratic there and pairs the wrong ones. It is imported when something differs at
all, because importing it costs more than comparing a small commit.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from cachewatch.facts import Facts
from cachewatch.model import FACTS, Delta, Signature
from cachewatch.spelling import NO_COMPILER


def differing_facts(before: Facts, after: Facts, *, is_compiler_unknown: bool = False) -> dict[str, Delta]:
    """Return what came and went of each fact, empty where nothing did.

    Where compilers are written differently on the two sides, a side that names none may
    have any, so nothing is said to be missing there.
    """
    deltas = dict.fromkeys(FACTS, Delta())
    differing = [name for name in FACTS if before[name] != after[name]]
    if differing:
        deltas |= _deltas(tuple((name, before[name], after[name]) for name in differing))
    if is_compiler_unknown:
        deltas["compilers"] = _known_compilers(deltas["compilers"], before["compilers"], after["compilers"])
    return deltas


@lru_cache(maxsize=128)
def differing_fields(before: Signature, after: Signature) -> frozenset[str]:
    """Return the names of the fields in which two specs of one hash differ."""
    diff = _deep_diff(_fields(before), _fields(after))
    return frozenset(str(level.path(output_format="list")[0]) for report in diff.values() for level in report)


@lru_cache(maxsize=128)
def _deltas(differing: tuple[tuple[str, frozenset[str], frozenset[str]], ...]) -> dict[str, Delta]:
    # As the keys of one dict, not as sets, of which DeepDiff would hash every item again.
    diff = _deep_diff(
        {(name, value): None for name, before, _ in differing for value in before},
        {(name, value): None for name, _, after in differing for value in after},
    )
    came, went = (_values(diff.get(report, ())) for report in ("dictionary_item_added", "dictionary_item_removed"))
    return {name: Delta(tuple(sorted(came[name])), tuple(sorted(went[name]))) for name, _, _ in differing}


def _values(levels: Iterable[Any]) -> Mapping[str, list[str]]:
    values: defaultdict[str, list[str]] = defaultdict(list)
    for level in levels:
        ((fact, value),) = level.path(output_format="list")
        values[fact].append(value)
    return values


def load_deepdiff() -> None:
    """Import DeepDiff before it is needed, for a process that has nothing better to do."""
    import deepdiff  # noqa: F401, PLC0415


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


def _known_compilers(delta: Delta, before: frozenset[str], after: frozenset[str]) -> Delta:
    return Delta(
        added=() if NO_COMPILER in before else tuple(c for c in delta.added if c != NO_COMPILER),
        removed=() if NO_COMPILER in after else tuple(c for c in delta.removed if c != NO_COMPILER),
    )
