"""DeepDiff decides what was added and removed: as set arithmetic would, and nothing else is reported."""

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import Run
from helpers import Record, parsed, record, two_folders
from hypothesis import example, given
from hypothesis import strategies as st
from pairs import some_pair

from cachewatch.core.comparison import package_changes
from cachewatch.core.comparison.package_changes import Pair, SpecSide, SpecSides, compare, compare_all
from cachewatch.core.comparison.package_items import items_of
from cachewatch.core.kinds_and_specs import FACTS, Delta, Kind, MatchKind, PackageChange, Signature
from cachewatch.core.statement_kinds import StatementKind
from cachewatch.report.json_and_safe_csv import package_json

values = st.frozensets(
    st.text(max_size=6) | st.sampled_from(["__v", "a']['b", 'x"]["y', "root", "1", "01", "None"]), max_size=5
)
facts = st.fixed_dictionaries(dict.fromkeys(FACTS, values))
texts = st.tuples(st.text(max_size=3), st.text(max_size=3))
lists = dict.fromkeys(("versions", "variants", "stacks"), texts)
words: dict[str, Any] = dict.fromkeys(("compiler", "os"), st.text(max_size=3))
words |= {"platform": st.just("linux"), "target": st.sampled_from(["a", "b"])}
signatures = st.builds(Signature, **lists, **words)


counted = st.dictionaries(signatures, st.integers(1, 3) | st.just(1000), max_size=4).map(Counter)
sides = st.none() | st.builds(SpecSide, facts, counted)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=6) | st.just("__p"), st.tuples(sides, sides), max_size=4))
@example({"zlib": (SpecSide(dict.fromkeys(FACTS, frozenset({"__private"})), Counter()), None)})
def test_what_was_added_and_removed(pairs: dict[str, SpecSides]) -> None:
    """Of several packages in one call, nothing is dropped, invented, misnamed or given to another package."""
    reported = package_changes.report_differences(pairs)
    nothing = SpecSide(dict.fromkeys(FACTS, frozenset()), Counter())
    for package, (before, after) in pairs.items():
        found, (old, new) = reported[package], (before or nothing, after or nothing)
        for name in FACTS:
            had, has = old.facts[name], new.facts[name]
            assert found.delta(name) == Delta(tuple(sorted(has - had)), tuple(sorted(had - has)))
        assert found.package == [before is not None and after is None, before is None and after is not None]
        assert found.specs[0] == {s: n for s, n in old.specs.items() if new.specs[s] != n}
        assert found.specs[1] == {s: n for s, n in new.specs.items() if old.specs[s] != n}


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


def report_nothing(*_: object, **__: object) -> dict[str, object]:
    """Report no difference, whatever there is."""
    return {}


def test_nothing_is_found_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """If DeepDiff reports nothing, only rebuilt specs and kept specs in other stacks are left, and the totals hold."""
    with_report = changes()
    monkeypatch.setattr(package_changes, "DeepDiff", report_nothing)
    without = changes()

    assert [change.restacked for change in without] == [c.restacked for c in with_report if c.package in names(without)]
    of_kept = {Kind.STACK_ADDED, Kind.STACK_REMOVED, Kind.PLACE_LOST, Kind.PLACE_GAINED, Kind.UNREFERENCED}
    for change in without:
        assert {match.kind for match in change.matches} <= {MatchKind.REBUILT}
        assert not any((change.gone, change.new, *change.facts.values()))
        assert change.kinds <= {Kind.REBUILT} | (of_kept if change.restacked else set())
        assert change.counts.adds_up
        assert change.counts.added == change.counts.rebuilt == len(change.added) == len(change.removed)
        told = {one.stories[-1].kind for one in items_of(change)}
        of_moved = {StatementKind.MOVED, StatementKind.UNREFERENCED} if change.restacked else set()
        assert told <= {StatementKind.REBUILT} | of_moved
        if not change.restacked:
            assert not change.places
            assert not change.stack_versions
    assert names(without) == {"p0", "p1", "p6"}
    found = {kind for change in with_report for kind in change.kinds}
    assert found > {Kind.UPGRADED, Kind.PACKAGE_ADDED, Kind.PACKAGE_REMOVED, Kind.VARIANT}


def names(found: list[PackageChange]) -> set[str]:
    """Return the packages to which something happened."""
    return {change.package for change in found}


def test_nothing_is_reported_beside_it(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If DeepDiff reports nothing, no report names anything but rebuilt specs and kept specs in other stacks."""
    chance = Random(3)
    pairs = {f"package{n}x": some_pair(chance) for n in range(60)}
    before, after = ({name: pair[side] for name, pair in pairs.items()} for side in (0, 1))
    states = two_folders(tmp_path, before | {"left": [record(1)]}, after | {"joined": [record(2)]})
    arguments = ("diff", *states, "--jobs", "1", "--all", "--format")
    monkeypatch.setattr(package_changes, "DeepDiff", report_nothing)

    found = run(*arguments, "json")

    assert "add up" not in found.error
    (changeset,) = json.loads(found.output)["changesets"]
    for statement in changeset["statements"]:
        counts = statement["items"]
        assert statement["kind"] in ("rebuilt", "rebuild-wave") or counts["vanished"] == counts["new"] == 0
    for package in changeset["packages"]:
        assert package["status"] == "changed"
        assert len(package["specs"]["added"]) == len(package["specs"]["removed"]) == package["specs"]["rebuilt"]
        assert not any(change for name in FACTS for change in package[name].values())
        assert package["specs"]["rebuilt"] or package["specs"]["restacked"]
    summary = changeset["summary"]["specs"]
    assert summary["added"] == summary["removed"] == summary["rebuilt"]
    assert "joined" not in run(*arguments, "text").output


def test_packages_are_compared_together_as_each_alone() -> None:
    """Several packages share a call of DeepDiff, and each gets its own answer."""
    together = changes()
    alone: list[Any] = []
    for n, sides in enumerate(everything()):
        alone.append(compare(f"p{n}", *(side if side is None else parsed(side) for side in sides)))
    assert list(map(package_json, alone)) == list(map(package_json, together))
