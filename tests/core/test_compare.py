"""The laws of comparing: one table of what becomes what, and what must hold of anything."""

import random
from typing import Any

import pytest
from helpers import Record, parsed, record, records, signature, spec_hash
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from pairs import some_pair

from cachewatch.core.comparison.kept_and_reused_hashes import describe_not_written, describe_reused
from cachewatch.core.comparison.package_changes import compare, part_of
from cachewatch.core.comparison.package_items import items_of
from cachewatch.core.filters_and_spec_patterns import Globs, Selection
from cachewatch.core.kinds_and_specs import Delta, Kind, PackageChange, SpecClass, SpecCounts, Status
from cachewatch.core.statement_kinds import Counts
from cachewatch.core.versions_spellings_targets import Versions

RUNGS = ("rebuilt", "moved", "upgraded", "downgraded", "recompiled", "reconfigured", "new", "gone")


def changed(before: list[Record] | None, after: list[Record] | None, **options: Any) -> PackageChange:
    """Compare documents of these records, between which there must be a difference."""
    found = maybe_changed(before, after, **options)
    assert found is not None
    return found


def maybe_changed(before: list[Record] | None, after: list[Record] | None, **options: Any) -> PackageChange | None:
    """Compare documents of these records."""
    sides = [None if found is None else parsed(found) for found in (before, after)]
    return compare("zlib", *sides, **options)


def match_kinds(change: PackageChange) -> dict[str, int]:
    """Return the counts that are not zero."""
    return {name: count for name in RUNGS if (count := getattr(change.counts, name))}


BECOMES: dict[str, Any] = {
    "all attributes equal: rebuilt": ({}, {}, {"rebuilt": 1}),
    "all but stacks: moved": ({}, {"stacks": ["ml", "root"]}, {"moved": 1}),
    "left by every stack: moved": ({}, {"stacks": ["root"]}, {"moved": 1}),
    "a newer version: upgraded": ({}, {"versions": ["1.10"]}, {"upgraded": 1}),
    "an older version: downgraded": ({"versions": ["1.10"]}, {"versions": ["1.9"]}, {"downgraded": 1}),
    "no version is neither newer nor older": ({}, {"versions": []}, {"new": 1, "gone": 1}),
    "a version is not newer than none": ({"versions": []}, {}, {"new": 1, "gone": 1}),
    "another compiler: recompiled": ({}, {"compiler": "gcc@13.2.0"}, {"recompiled": 1}),
    "no compiler in documents of one age: recompiled": ({}, {"compiler": "none"}, {"recompiled": 1}),
    "other variants: reconfigured": ({}, {"variants": ["+cuda"]}, {"reconfigured": 1}),
    "another target: new and gone": ({}, {"target": "x86_64_v4"}, {"new": 1, "gone": 1}),
    "another operating system: new and gone": ({}, {"os": "rhel8"}, {"new": 1, "gone": 1}),
    "another platform: new and gone": ({}, {"platform": "darwin"}, {"new": 1, "gone": 1}),
    "version and compiler: new and gone": ({}, {"versions": ["2"], "compiler": "gcc@13.2.0"}, {"new": 1, "gone": 1}),
    "size and tarball mean nothing": ({"size": "-"}, {"size": 5, "tarball": "https://x"}, {"rebuilt": 1}),
    ":= is =": ({"variants": ["p:=a,b"]}, {"variants": ["p=a,b"]}, {"rebuilt": 1}),
    "a renamed compiler is the same": ({"compiler": "clang@15"}, {"compiler": "llvm@15"}, {"rebuilt": 1}),
    "@= is @": ({"compiler": "gcc@=11.4.0"}, {}, {"rebuilt": 1}),
    "none matches an old compiler": ({"compiler": "gcc@=11.4.0"}, {"compiler": "none"}, {"rebuilt": 1}),
    "an old compiler matches none": ({"compiler": "none"}, {"compiler": "gcc@=11.4.0"}, {"rebuilt": 1}),
    "none matches in every step": (
        {"compiler": "gcc@=11.4.0"},
        {"compiler": "none", "versions": ["2.0"]},
        {"upgraded": 1},
    ),
    "a document without compilers: rebuilt": ({}, {"compiler": ...}, {"rebuilt": 1}),
    "compilers in documents that had none: rebuilt": ({"compiler": ...}, {}, {"rebuilt": 1}),
    "a document with empty compilers: rebuilt": ({}, {"compiler": ""}, {"rebuilt": 1}),
    "compilers in documents that had null: rebuilt": ({"compiler": None}, {}, {"rebuilt": 1}),
    "none is a value": ({}, {"compiler": "none"}, {"recompiled": 1}),
    "with another version: upgraded": ({"compiler": ...}, {"versions": ["2.0"]}, {"upgraded": 1}),
}


@pytest.mark.parametrize(("before", "after", "expected"), BECOMES.values(), ids=BECOMES.keys())
def test_what_becomes_what(before: Record, after: Record, expected: dict[str, int]) -> None:
    """One vanished and one new hash are paired by what is equal about them."""
    change = changed([record(1, **before)], [record(2, **after)])

    assert match_kinds(change) == expected
    assert (change.counts.added, change.counts.removed) == (1, 1)


FORMS: dict[str, Any] = {
    "the order of records": (records([1, 2]), records([2, 1])),
    "the order of stacks": ([record(1, stacks=["root", "e4s"])], [record(1, stacks=["e4s", "root"])]),
    "root": ([record(1, stacks=["e4s"])], [record(1)]),
    "the order of variants": ([record(1, variants=["+a", "~b"])], [record(1, variants=["~b", "+a"])]),
    "the size": ([record(1)], [record(1, size=77)]),
    "the tarball": ([record(1)], [record(1, tarball="x")]),
    "the spelling of compilers": ([record(1, compiler="gcc@=11.4.0")], [record(1)]),
    "a compiler that is not given": ([record(1)], [record(1, compiler="none")]),
    "a version of a compiler that is not given": ([record(1)], [record(1, compiler="gcc")]),
    "a version that is not given": ([record(1)], [record(1, versions=[])]),
    "variants that are not given": ([record(1)], [record(1, variants=[])]),
    "a system that is not given": ([record(1)], [record(1, os="", platform="", target="")]),
    "the spelling of versions": ([record(1)], [record(1, versions=["1_0"])]),
    "the git reference of a version": ([record(1)], [record(1, versions=["git.main=1.0"])]),
    "the order of the values of a variant": (
        [record(1, variants=["languages=c,c++"])],
        [record(1, variants=["languages:='c++,c'"])],
    ),
    "the length of checksums of patches": (
        [record(1, variants=["patches=0123456,89abcde"])],
        [record(1, variants=["patches:=89abcdef01,0123456789"])],
    ),
    "renamed compilers": ([record(1, compiler="oneapi@2024")], [record(1, compiler="intel-oneapi-compilers@=2024")]),
}


@pytest.mark.parametrize(("before", "after"), FORMS.values(), ids=FORMS.keys())
def test_format_is_no_change(before: list[Record], after: list[Record]) -> None:
    assert maybe_changed(before, after) is None


@pytest.mark.parametrize(
    ("other", "expected", "message"),
    [
        ({"versions": ["2.0"]}, {"upgraded": 1}, "version 1.0, now 2.0"),
        ({"versions": ["git.a=2.0"]}, {"upgraded": 1}, "version 1.0, now git.a=2.0"),
        ({"compiler": "gcc@13.2.0"}, {"recompiled": 1}, "compiler gcc@11.4.0, now gcc@13.2.0"),
        ({"compiler": "llvm"}, {"recompiled": 1}, "compiler gcc@11.4.0, now llvm"),
        ({"os": "rhel8"}, {"new": 1, "gone": 1}, "operating system ubuntu22.04, now rhel8"),
        ({"platform": "darwin"}, {"new": 1, "gone": 1}, "platform linux, now darwin"),
        ({"target": "zen4"}, {"new": 1, "gone": 1}, "target x86_64_v3, now zen4"),
        ({"variants": ["~shared", "build_system=cmake"]}, {"reconfigured": 1}, "variants +shared, now ~shared"),
        ({"variants": ["build_system=cmake"]}, {"reconfigured": 1}, "variants +shared removed"),
        ({"versions": []}, {"new": 1, "gone": 1}, "version 1.0, now not given"),
        ({"compiler": "none"}, {"recompiled": 1}, "compiler gcc@11.4.0, now none"),
        ({"compiler": ...}, {"recompiled": 1}, "compiler gcc@11.4.0, now none"),
        ({"compiler": "gcc"}, {"recompiled": 1}, "compiler gcc@11.4.0, now gcc"),
        ({"os": ""}, {"new": 1, "gone": 1}, "operating system ubuntu22.04, now not given"),
        ({"os": ...}, {"new": 1, "gone": 1}, "operating system ubuntu22.04, now not given"),
        ({"platform": ...}, {"new": 1, "gone": 1}, "platform linux, now not given"),
        ({"target": ""}, {"new": 1, "gone": 1}, "target x86_64_v3, now not given"),
        ({"variants": ...}, {"reconfigured": 1}, "variants build_system=cmake, +shared, now not given"),
        ({"versions": ["1.0", "1.1"]}, {"upgraded": 1}, "version 1.1 added"),
        ({"versions": ["2.0"], "stacks": ["ml", "root"]}, {"new": 1, "gone": 1}, "version 1.0, now 2.0"),
    ],
)
def test_a_hash_with_another_record_names_another_spec(other: Record, expected: dict[str, int], message: str) -> None:
    """The old spec went and the new one came, whatever else the document has, and the change is named."""
    change = changed([record(1), record(2)], [record(1, **other), record(2)])

    assert match_kinds(change) == expected
    assert change.removed_hashes.hashes == change.added_hashes.hashes == {spec_hash(1)}
    assert change.counts.adds_up
    assert (change.counts.before, change.counts.added, change.counts.removed, change.counts.after) == (2, 1, 1, 2)
    assert not change.restacked
    said = describe_reused(change.removed_hashes, change.added_hashes)
    assert said == f"hash {spec_hash(1)[:7]} now names another spec: {message}"


@pytest.mark.parametrize("name", ["versions", "compiler", "os", "platform", "target", "variants"])
def test_what_no_record_of_a_side_gives_is_one_remark(name: str) -> None:
    """Documents of another form lack a key in all records: nothing differs, and it is said once, whichever side it is."""
    whole, lacking = records([1, 2]), records([1, 2], **{name: [] if name == "versions" else ...})
    word = {"versions": "version", "os": "operating system"}.get(name, name)
    for before, after, said in (
        (whole, lacking, f"no spec gives its {word} any more; the 2 that stay count as unchanged"),
        (lacking, whole, f"no spec gave its {word} before; the 2 that stay count as unchanged"),
        (lacking, lacking, ""),
        (whole, whole, ""),
    ):
        old, new = (parsed(found) for found in (before, after))
        assert compare("zlib", old, new) is None
        assert describe_not_written(old, new) == said
    assert describe_not_written(None, parsed(lacking)) == ""


def test_what_is_kept_of_a_version_that_is_replaced_under_its_hashes() -> None:
    """A place that has the newer version already keeps it; another one is upgraded."""
    old = [record(1), record(2, stacks=["ml"]), record(3, versions=["2.0"])]
    new = [one | {"versions": ["2.0"]} for one in old]
    change = changed(old, new)

    assert {place.stack: place.verdict for place in change.places} == {"e4s": "retired", "ml": "upgraded"}
    assert change.facts["versions"] == Delta((), ("1.0",))
    message = "2 hashes now name another spec, first baaaaaa: version 1.0, now 2.0"
    assert describe_reused(change.removed_hashes, change.added_hashes) == message


def test_a_kept_hash_gains_and_loses_stacks() -> None:
    """The stacks of a kept hash are the one thing about it that can change: they are not part of what it names."""
    change = changed([record(1, stacks=["e4s", "ml", "root"])], [record(1, stacks=["ml", "hpc", "root"])])

    (kept,) = change.restacked
    assert (kept.gained, kept.lost) == (("hpc",), ("e4s",))
    assert (change.counts.added, change.counts.removed) == (0, 0)
    assert {Kind.STACK_ADDED, Kind.STACK_REMOVED, Kind.PLACE_LOST, Kind.PLACE_GAINED} <= change.kinds


STACKS: dict[str, Any] = {
    "a stack comes": ([record(1)], [record(1), record(2, stacks=["ml"])], Kind.STACK_ADDED),
    "a stack goes": ([record(1), record(2, stacks=["ml"])], [record(1)], Kind.STACK_REMOVED),
    "a kept hash comes into a stack that was there": (
        [record(1), record(2, stacks=["ml"])],
        [record(1, stacks=["e4s", "ml"]), record(2, stacks=["ml"])],
        Kind.STACK_ADDED,
    ),
    "a kept hash leaves a stack that stays": (
        [record(1, stacks=["e4s", "ml"]), record(2, stacks=["ml"])],
        [record(1), record(2, stacks=["ml"])],
        Kind.STACK_REMOVED,
    ),
}


@pytest.mark.parametrize(("before", "after", "kind"), STACKS.values(), ids=STACKS.keys())
def test_a_package_or_spec_comes_into_a_stack_or_leaves(before: list[Record], after: list[Record], kind: Kind) -> None:
    """The kinds of stacks hold if the package comes into a stack or leaves one, and also if one of its specs does."""
    assert changed(before, after).kinds & {Kind.STACK_ADDED, Kind.STACK_REMOVED} == {kind}


def test_unreferenced_is_told_when_it_begins() -> None:
    """A spec that no stack builds any more is news once; it stays among the facts."""
    two = [record(1, stacks=["root"]), record(2)]
    change = changed(two, [record(1, stacks=["root"]), record(2, stacks=["root"]), record(3, stacks=["root"])])

    assert change.unreferenced == tuple(sorted(spec_hash(n) for n in (1, 2, 3)))
    assert {spec.hash for spec in change.newly_unreferenced} == {spec_hash(2), spec_hash(3)}
    assert Kind.UNREFERENCED in change.kinds


def test_nothing_is_unreferenced_where_nothing_is_pruned() -> None:
    """In a release everything may be in root alone, and stays: that is a fact, and no news."""
    change = changed([], records([1], stacks=["root"]), is_pruned=False)

    assert change.unreferenced == (spec_hash(1),)
    assert change.newly_unreferenced == ()
    assert Kind.UNREFERENCED not in change.kinds
    for number in (2, 3):  # kept or rebuilt, and one more copy
        after = [record(1), *(record(one, stacks=["root"]) for one in (number, 4))]
        moved, copy = items_of(changed([record(1), record(2)], after, is_pruned=False))
        assert [one.stories[0].kind for one in (moved, copy)] == ["moved", "extra-copy"]
        assert (moved.counts.without_stack, copy.counts.without_stack) == (0, 0)


def test_the_form_of_a_kept_hash_never_shows() -> None:
    change = changed(
        [record(1, compiler="none", variants=[]), record(2, compiler="none", variants=[])],
        [record(1, compiler="gcc@9", variants=["+zz"], stacks=["e4s", "ml"]), record(3, compiler="none", variants=[])],
    )

    assert match_kinds(change) == {"rebuilt": 1}
    gone = change.specs_before.counts.keys() - change.specs_after.counts.keys()
    assert gone == {signature(compiler="gcc@9", variants=("+zz",))}
    assert change.facts["targets"] == change.facts["compilers"] == change.facts["variants"] == Delta()
    assert change.facts["stacks"] == Delta(("ml",), ())
    assert not change.kinds & {Kind.TARGET, Kind.COMPILER, Kind.VARIANT}


MOVED: Record = {"stacks": ["ml", "root"]}
UPGRADED: Record = {"versions": ["2.0"]}
RECOMPILED: Record = {"compiler": "gcc@13.2.0"}
RECONFIGURED: Record = {"variants": ["+cuda"]}


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        (UPGRADED, MOVED, "upgraded"),  # the only stack has another version instead
        (MOVED, RECOMPILED, "moved"),
        (UPGRADED, RECOMPILED, "upgraded"),
        (RECOMPILED, RECONFIGURED, "recompiled"),
    ],
)
def test_of_two_successors_the_higher_rung_takes_it(first: Record, second: Record, name: str) -> None:
    """Whichever of them a document names first, the other one is new."""
    for successors in ([record(2, **first), record(3, **second)], [record(2, **second), record(3, **first)]):
        assert match_kinds(changed([record(1)], successors)) == {name: 1, "new": 1}


def test_an_upgrade_starts_from_the_newest_that_vanished() -> None:
    change = changed([record(1, versions=["1.0"]), record(2, versions=["1.9"])], [record(3, versions=["1.10"])])

    (match,) = change.matches
    assert (match.before.versions, match.after.versions) == (("1.9",), ("1.10",))
    assert match_kinds(change) == {"upgraded": 1, "gone": 1}


NEW_OS: Record = {"os": "ubuntu24.04"}
NEW_TARGET: Record = {"target": "x86_64_v4"}
NEW_COMPILER: Record = {"compiler": "gcc@13.2.0"}


@pytest.mark.parametrize(
    ("near", "far"), [(NEW_TARGET, NEW_TARGET | NEW_OS), (NEW_OS, NEW_OS | NEW_TARGET), (NEW_OS, NEW_OS | NEW_COMPILER)]
)
def test_the_counterpart_of_a_spec_differs_least(near: Record, far: Record) -> None:
    """On another system or target, the spec of which most is equal; the other one is new."""
    change = changed([record(1)], [record(2, **far), record(3, **near)])

    (gone,) = change.gone
    assert gone.counterpart == parsed([record(3, **near)]).specs[spec_hash(3)]
    assert {new.counterpart is None for new in change.new} == {True, False}


JUDGED: dict[str, Any] = {
    "nothing before: gained": ([], [{}], "gained", {"gained": 1}),
    "nothing after: lost": ([{}], [{"stacks": ["ml"], "os": "x"}], "lost", {"lost": 1, "gained": 1}),
    "newer: upgraded": ([{}], [{"versions": ["2.0"], "os": "x"}], "upgraded", {"replaced": 1, "successor": 1}),
    "older: downgraded": ([{"versions": ["2.0"]}], [{"os": "x"}], "downgraded", {"replaced": 1, "successor": 1}),
    "an older version left: retired": ([{}, {"versions": ["0.9"]}], [{}], "retired", {"retired": 1}),
    "an older version came: extended": ([{}], [{}, {"versions": ["0.9"]}], "extended", {"extended": 1}),
    "a combination left: narrowed": ([{}, {"os": "x"}], [{}], "narrowed", {"dropped": 1}),
    "a combination came: widened": ([{}], [{}, {"os": "x"}], "widened", {"new_combination": 1}),
    "one of several: the same": ([{}, {}], [{}], None, {"surplus": 1}),
    "another copy: the same": ([{}], [{}, {}], None, {"extra_copy": 1}),
    "it had no stack: pruned": ([{}, {"stacks": ["root"]}], [{}], None, {"pruned": 1}),
    "it has no stack: unreferenced": ([{}], [{}, {"stacks": []}], None, {"unreferenced_new": 1}),
    "another spelling: the same": ([{}], [{}, {"versions": ["1-0"]}], None, {"extra_copy": 1}),
    "another reference of one number: neither newer nor older": (
        [{"versions": ["git.a=1.0"]}],
        [{"versions": ["git.b=1.0"]}],
        "retired",
        {"retired": 1, "extended": 1},
    ),
    "no version is left: retired": ([{}], [{"versions": []}], "retired", {"retired": 1, "new_combination": 1}),
    "a version after none: extended": ([{"versions": []}], [{}], "extended", {"dropped": 1, "extended": 1}),
}


@pytest.mark.parametrize(("before", "after", "verdict", "classes"), JUDGED.values(), ids=JUDGED.keys())
def test_verdicts(before: list[Record], after: list[Record], verdict: str | None, classes: dict[str, int]) -> None:
    """A place has the first verdict that holds, and a spec that was not paired is of the first class that does."""
    sides = ((0, before), (100, after))
    change = changed(*([record(first + n, **one) for n, one in enumerate(side)] for first, side in sides))

    judged = {place.verdict for place in change.places if place.stack == "e4s"}
    assert judged == ({verdict} if verdict else set())
    assert {name: n for name in SpecClass if (n := getattr(change.counts, name))} == classes


def test_an_upgrade_changes_only_variants_of_names_that_stay() -> None:
    """Another version has variants of other names; though other stacks have all of them, before and after."""
    others = [record(9, stacks=["ml"], variants=["api=v1", "api=v2", "+new"])]
    for came, kinds in ((["api=v2"], {Kind.UPGRADED, Kind.VARIANT}), (["api=v1", "+new"], {Kind.UPGRADED})):
        change = changed([record(1, variants=["api=v1"]), *others], [record(2, **UPGRADED, variants=came), *others])
        assert [place.kinds for place in change.places] == [kinds]
        assert (Kind.VARIANT in change.kinds) == (Kind.VARIANT in kinds)


def test_a_lost_place_is_of_a_changed_target_where_its_own_stack_gained_one() -> None:
    """Not if another stack did."""
    others = [record(9, stacks=["ml"])]
    for stack, targets in (("e4s", ["zen4"]), ("ml", [])):
        change = changed([record(1), *others], [record(2, target="zen4", stacks=[stack]), *others])
        (lost,) = items_of(change)[0].losses
        assert ([target for target, _ in lost.moved_to], Kind.TARGET in lost.kinds) == (targets, bool(targets))


def test_what_a_place_that_narrowed_lost() -> None:
    kept = [record(1), record(3, compiler="gcc@9")]
    change = changed([*kept, record(2, os="x")], kept)

    assert {Kind.NARROWED, Kind.OS} <= change.kinds
    assert Kind.COMPILER not in change.kinds


def test_facts_come_and_go() -> None:
    new: Record = {"versions": ["2.0"], "compiler": "llvm@15", "variants": ["+cuda"], "stacks": ["ml"]}
    new["platform"] = "darwin"
    change = changed([record(1), record(2, os="rhel8", target="aarch64")], [record(1), record(3, **new)])

    assert change.facts == {
        "versions": Delta(("2.0",), ()),
        "stacks": Delta(("ml",), ()),
        "compilers": Delta(("llvm@15",), ()),
        "oses": Delta((), ("rhel8",)),
        "platforms": Delta(("darwin",), ()),
        "targets": Delta((), ("aarch64",)),
        "variants": Delta(("+cuda",), ()),
    }


def part(before: list[Record] | None, after: list[Record] | None, **chosen: Any) -> PackageChange | None:
    """Compare whole documents, and pick what a selection chooses."""
    selection = structs.replace(Selection(), **{name: Globs(patterns) for name, patterns in chosen.items()})
    return part_of(changed(before, after), selection)


def test_a_pair_stays_a_pair_if_one_of_the_two_is_chosen() -> None:
    """A selection picks from what was paired before: half a pair is told as the pair, and counted as the half."""
    found = part([record(1), record(5)], [record(2, stacks=["ml"]), record(6)], stacks=["ml"])

    assert found is not None
    assert [match.kind for match in found.matches] == ["moved"]
    assert Kind.MOVED in found.kinds
    assert (found.counts.before, found.counts.after, found.counts.entered) == (0, 1, 1)
    assert found.counts.adds_up
    for old, new in (
        ("abc ac", "ab a"),
        ("ab c", "a bc"),
        ("bcd ade", "acde b"),
    ):  # as b sees it: the rest is not chosen
        sides = (
            [record(n, stacks=[*one]) for n, one in enumerate(each.split(), at)] for at, each in ((1, old), (4, new))
        )
        found = part(*sides, stacks=["b"])
        assert found is not None
        assert match_kinds(found) == {"rebuilt": 1}
    assert part([record(1), record(3, stacks=["ml"])], [record(2), record(3, stacks=["ml"])], stacks=["ml"]) is None
    assert part(None, records([4]), stacks=["ml"]) is None


def test_a_part_names_no_stacks_that_were_not_chosen() -> None:
    """Though specs of the chosen one are in others, too, or come from there."""
    before = [record(1, stacks=["e4s", "ml"]), record(2, stacks=["ml"])]
    found = part(
        before, [record(1, stacks=["e4s", "hpc"]), record(3, stacks=["e4s", "hep"], **UPGRADED)], stacks=["e4s"]
    )

    assert found is not None
    assert found.facts["stacks"] == Delta()
    assert found.before["stacks"] == found.after["stacks"] == {"e4s"}
    assert [one.stack for one in found.places] == [one.stack for one in found.stack_versions] == ["e4s"]


def test_a_part_has_the_facts_and_kinds_of_what_was_chosen() -> None:
    """The version that came with a chosen spec, and that a chosen spec is unreferenced."""
    before = [record(1, versions=["1.0"]), record(2, os="other", versions=["3.0"])]
    upgraded = part(before, [record(3, versions=["2.0"]), record(4, os="other", versions=["4.0"])], oses=["other"])
    left = part(before, [record(1, versions=["1.0"]), record(2, os="other", versions=["3.0"], stacks=["root"])])

    assert upgraded is not None
    assert upgraded.facts["versions"] == Delta(added=("4.0",), removed=("3.0",))
    assert left is not None
    assert Kind.UNREFERENCED in left.kinds


def test_a_part_lists_no_unreferenced_specs_that_were_not_chosen() -> None:
    """Of another operating system, whether it stayed or came."""
    kept, came = (record(n, os="other", stacks=["root"]) for n in (1, 2))
    found = part([kept, record(3)], [kept, came, record(4, versions=["2.0"])], oses=["!other"])
    other = part([kept, record(3)], [kept, came, record(4, versions=["2.0"])], oses=["other"])

    assert found is not None
    assert found.unreferenced == ()
    assert other is not None
    assert other.unreferenced == (spec_hash(1), spec_hash(2))


def test_counts_of_which_one_is_wrong_do_not_add_up() -> None:
    """Each number but that of unreferenced specs follows from others."""
    change = changed([record(1), record(2, os="x")], [record(3), record(4, os="y", stacks=["ml"])])
    names = {*SpecCounts.__struct_fields__} - {"unreferenced"}

    assert change.counts.adds_up
    for name in names:
        wrong = structs.replace(change.counts, **{name: getattr(change.counts, name) + 1})
        assert not wrong.adds_up, name


few = st.sampled_from
generated = st.lists(
    st.fixed_dictionaries(
        {
            "compiler": few(["none", "gcc", "gcc@11.4.0", "gcc@=11.4.0"]),
            "os": few(["a", "b", ""]),
            "target": few(["x", "y"]),
            "stacks": few([["root"], ["e4s"], ["e4s", "ml", "root"], []]),
            "variants": few([["+a"], ["~a"], ["v:=1,2"]]),
            "versions": few([["1.9"], ["1.10"], ["develop"], ["1.9", "1.10"], []]),
        }
    ),
    max_size=8,
)


def numbered(found: list[Record], start: int) -> list[Record]:
    """Give records hashes of which the two sides share some."""
    return [record(start + number, **values) for number, values in enumerate(found)]


@given(generated)
def test_nothing_against_itself_is_empty(found: list[Record]) -> None:
    one, other = numbered(found, 0), list(reversed(numbered(found, 0)))

    assert maybe_changed(one, other) is None


@given(generated, generated, st.integers(0, 4), st.sampled_from(["stacks", "targets", "oses", "compilers"]))
def test_every_part_adds_up(before: list[Record], after: list[Record], kept: int, name: str) -> None:
    """Whatever is chosen, its own counts prove each other and equal its lists, and every kind of it is on a line."""
    change = maybe_changed(numbered(before, 0), numbered(after, max(0, len(before) - kept)))
    pattern = {"stacks": "ml", "targets": "x", "oses": "a", "compilers": "gcc*"}[name]
    selection = structs.replace(Selection(), **{name: Globs([pattern])})
    found = change and part_of(change, selection)
    for one in filter(None, (change, found)):
        assert one.counts.adds_up
        assert (one.counts.added, one.counts.removed) == (len(one.added), len(one.removed))
        items = items_of(one, selection if one is found else Selection())
        assert frozenset().union(*(each.kinds for each in items)) == one.kinds
        assert sum(each.counts.vanished + each.counts.left for each in items) == one.counts.removed
        assert sum(each.counts.new + each.counts.entered for each in items) == one.counts.added
        assert sum(each.counts.kept for each in items) == len(one.restacked)


@pytest.mark.parametrize(
    "selection",
    [
        Selection(stacks=Globs(["ml"])),
        Selection(stacks=Globs(["!e4s"])),
        Selection(compilers=Globs(["gcc@11*"])),
        Selection(compilers=Globs(["none"])),
        Selection(oses=Globs(["a"])),
        Selection(targets=Globs(["x"])),
        Selection(versions=Versions(["@1.10:"])),
        Selection(stacks=Globs(["e4s"]), compilers=Globs(["gcc*"]), versions=Versions(["!develop"])),
    ],
    ids=["stack", "not-stack", "compiler", "no-compiler", "os", "target", "version", "several"],
)
def test_each_side_of_a_part_is_counted_by_itself(selection: Selection) -> None:
    chance = random.Random(1)
    crossings = 0
    for _ in range(200):
        change = maybe_changed(*some_pair(chance))
        if change is None:
            continue
        sides = (change.specs_before, change.specs_after)
        before, after = (sorted(h for h, s in side.items() if selection.chooses(s)) for side in sides)
        found = part_of(change, selection)
        if found is None:
            assert before == after
            continue
        counts = found.counts
        assert (counts.before, counts.after) == (len(before), len(after))
        assert counts.adds_up
        assert {spec.hash for spec in found.added} <= set(after)
        assert {spec.hash for spec in found.removed} <= set(before)
        items = items_of(found, selection)
        told = sum((one.counts for one in items), start=Counts())
        assert (told.new + told.entered, told.vanished + told.left) == (counts.added, counts.removed)
        crossings += counts.entered + counts.left
    if selection.oses.is_open and selection.targets.is_open:  # no pair crosses systems or targets
        assert crossings > 5


@given(generated, generated, st.integers(0, 4))
def test_reversing_swaps_what_came_and_went(before: list[Record], after: list[Record], kept: int) -> None:
    """Backwards, added is removed, up is down, and what was rebuilt still was."""
    old, new = numbered(before, 0), numbered(after, max(0, len(before) - kept))
    there, back = maybe_changed(old, new), maybe_changed(new, old)
    if there is None or back is None:
        assert there is back
        return

    assert (there.added, there.removed) == (back.removed, back.added)
    assert there.facts == {name: Delta(d.removed, d.added) for name, d in back.facts.items()}
    swapped = {"upgraded": "downgraded", "downgraded": "upgraded", "new": "gone", "gone": "new"}
    assert match_kinds(there) == {swapped.get(name, name): count for name, count in match_kinds(back).items()} | {}


@given(generated, generated, st.randoms())
def test_the_order_of_lists_never_matters(before: list[Record], after: list[Record], random: Any) -> None:
    """Documents, stacks and variants are sets, however they are written."""
    old, new = numbered(before, 0), numbered(after, 4)

    def shuffled(found: list[Record]) -> list[Record]:
        return random.sample(  # type: ignore[no-any-return]
            [r | {"stacks": r["stacks"][::-1], "variants": r["variants"][::-1]} for r in found], len(found)
        )

    assert maybe_changed(old, new) == maybe_changed(shuffled(old), shuffled(new))


def test_documents_may_be_given_as_they_are() -> None:
    """An empty document and none are different: only one of them is a package."""
    empty = parsed([])

    assert compare("zlib", empty, parsed(records([1]))).status is Status.CHANGED  # type: ignore[union-attr]
    assert compare("zlib", None, empty).status is Status.ADDED  # type: ignore[union-attr]
