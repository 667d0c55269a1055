"""DeepDiff decides what came and went: it says what set arithmetic says, and nothing is said without it."""

import json
from collections import Counter
from typing import Any

import pytest
from helpers import Record, parsed, record
from hypothesis import example, given
from hypothesis import strategies as st

from cachewatch.core import package_changes as added_and_removed
from cachewatch.core.items import items_of
from cachewatch.core.model import FACTS, Delta, Kind, MatchKind, PackageChange, Signature
from cachewatch.core.package_changes import Pair, SpecSide, compare, compare_all, find_deltas
from cachewatch.core.statement_values import StatementKind
from cachewatch.report.data import package_json

values = st.frozensets(
    st.text(max_size=6) | st.sampled_from(["__v", "a']['b", 'x"]["y', "root", "1", "01", "None"]), max_size=5
)
facts = st.fixed_dictionaries(dict.fromkeys(FACTS, values))
texts = st.tuples(st.text(max_size=3), st.text(max_size=3))
signatures = st.builds(
    Signature,
    versions=texts,
    compiler=st.text(max_size=3),
    os=st.text(max_size=3),
    platform=st.just("linux"),
    target=st.sampled_from(["a", "b"]),
    variants=texts,
    stacks=texts,
)


counted = st.dictionaries(signatures, st.integers(1, 3), max_size=4).map(Counter)
sides = st.builds(SpecSide, st.none() | facts, counted)


@pytest.mark.slow
@given(st.lists(st.tuples(sides, sides), max_size=4))
@example([(SpecSide(dict.fromkeys(FACTS, frozenset({"__private"})), Counter()), SpecSide(None, Counter()))])
def test_what_came_and_went(pairs: list[tuple[SpecSide, SpecSide]]) -> None:
    """Of several packages in one call, nothing is dropped, invented, misnamed or given to another package."""
    for (before, after), found in zip(pairs, find_deltas(pairs), strict=True):
        had, has = (side.facts or dict.fromkeys(FACTS, frozenset()) for side in (before, after))
        assert found.facts == {
            name: Delta(tuple(sorted(has[name] - had[name])), tuple(sorted(had[name] - has[name]))) for name in FACTS
        }
        assert found.is_added == (before.facts is None and after.facts is not None)
        assert found.is_removed == (before.facts is not None and after.facts is None)
        assert found.vanished == {s: n for s, n in before.specs.items() if after.specs[s] != n}
        assert found.new == {s: n for s, n in after.specs.items() if before.specs[s] != n}


def everything() -> list[tuple[list[Record] | None, list[Record] | None]]:
    """Return pairs in which about everything happens that can."""
    one = [record(1), record(2), record(3, stacks=["e4s", "ml"]), record(4, stacks=["root"]), record(5, os="rhel8")]
    return [
        (one, [record(11), record(12, versions=["2.0"]), record(3, stacks=["ml"]), record(14, compiler="llvm@15")]),
        (one, [record(11, stacks=["ml"]), record(12, variants=["+cuda"]), record(3), record(4, stacks=["root"])]),
        (None, one),
        (one, None),
        (one, []),
        (None, []),
        (one, [record(n + 20, **{k: v for k, v in r.items() if k != "hash"}) for n, r in enumerate(one)]),
    ]


def changes() -> list[PackageChange]:
    """Compare all of these in one call."""
    pairs = [Pair(f"p{n}", *(s if s is None else parsed(s) for s in sides)) for n, sides in enumerate(everything())]
    return [change for change in compare_all(pairs) if change is not None]


def test_without_its_answer_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """If DeepDiff found nothing, only what was rebuilt, kept specs in other stacks, and raw lists of hashes are left."""
    with_answer = changes()
    monkeypatch.setattr(added_and_removed, "_deep_diff", lambda before, after: {})
    without = changes()

    assert [change.added for change in without] == [change.added for change in with_answer]
    assert [change.restacked for change in without] == [change.restacked for change in with_answer]
    of_kept = {Kind.STACK_ADDED, Kind.STACK_REMOVED, Kind.PLACE_LOST, Kind.PLACE_GAINED, Kind.UNREFERENCED}
    for change in without:
        assert {match.kind for match in change.matches} <= {MatchKind.REBUILT}
        assert not any((change.gone, change.new, *change.facts.values()))
        assert change.kinds <= {Kind.REBUILT} | (of_kept if change.restacked else set())
        told = {one.stories[-1].kind for one in items_of(change)}
        of_moved = {StatementKind.MOVED, StatementKind.UNREFERENCED} if change.restacked else set()
        assert told <= {StatementKind.REBUILT} | of_moved
        if not change.restacked:
            assert not change.places
            assert not change.stack_versions
    assert {kind for change in with_answer for kind in change.kinds} > {Kind.UPGRADED, Kind.PACKAGE_ADDED, Kind.VARIANT}


def test_packages_are_compared_together_as_each_alone() -> None:
    """Several packages share a call of DeepDiff, and each gets its own answer."""
    together = changes()
    alone: list[Any] = []
    for n, sides in enumerate(everything()):
        alone.append(compare(f"p{n}", *(side if side is None else parsed(side) for side in sides)))
    assert [json.loads(package_json(one)) for one in alone] == [json.loads(package_json(one)) for one in together]


def signature(number: int) -> Signature:
    """Return one of many signatures."""
    return Signature((f"1.{number}",), "gcc@13", "ubuntu22.04", "linux", "x86_64_v3", ("+mpi",), ("e4s",))
