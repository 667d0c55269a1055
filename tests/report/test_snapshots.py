"""What moving to another snapshot means, against two documents looked at one spec at a time."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from helpers import Record, parsed, record, records
from oracle import Specs, is_one_spec, specs_of, told
from pairs import some_pair

from cachewatch.core.coverage import Availability, Coverage, Environment, Need, Resolution, compare_coverage
from cachewatch.core.model import PackageCounts, Place
from cachewatch.core.package_changes import compare
from cachewatch.documents.parsing import parse
from cachewatch.report.environments import environment_verdict, move_data, move_headline, move_verdict
from cachewatch.report.values import Outcome, PackageOutcome, SnapshotMove, move_of, outcome_of

Packages = dict[str, list[Record]]
ORDER = ("lost", "downgraded", "upgraded", "gained")


def moved(before: Packages, after: Packages) -> SnapshotMove:
    """Compare two snapshots."""
    outcomes = []
    for package in sorted(before.keys() | after.keys()):
        old, new = (parsed(side[package], package=package) if package in side else None for side in (before, after))
        change = compare(package, old, new)
        if change is not None:
            outcomes.append(outcome_of(change))
    counts = PackageCounts(
        before=len(before), after=len(after), added=len(after.keys() - before), removed=len(before.keys() - after)
    )
    return move_of("develop-2026-11-08", "develop-2026-11-15", outcomes, counts)


def expected_of(before: list[Record], after: list[Record]) -> str:
    """Return the outcome of one package that both snapshots have, from its specs alone."""
    verdicts = {verdict[2] for verdict in told(before, after)["places"].values()}
    for word in ORDER:
        if word in verdicts:
            return word
    if verdicts:
        return "changed"
    old, new = specs_of(before), specs_of(after)
    return "same" if old.keys() == new.keys() == kept(old, new) else "rebuilt"


def kept(old: Specs, new: Specs) -> set[str]:
    """Return the hashes by which both sides name the same spec."""
    return {one for one in old.keys() & new.keys() if is_one_spec(old[one], new[one])}


@pytest.mark.parametrize("seed", range(20))
def test_random_snapshots(seed: int) -> None:
    """Each package has the outcome that its places have, all of them add up, and hashes are what they are."""
    random = Random(seed)
    pairs = {f"p{n:02}": some_pair(random) for n in range(random.choice((1, 5, 40)))}
    before = {name: pair[0] for name, pair in pairs.items() if random.random() < 0.9}
    after = {name: pair[1] for name, pair in pairs.items() if random.random() < 0.9}
    both = before.keys() & after.keys()
    expected = {name: expected_of(before[name], after[name]) for name in both}
    expected |= dict.fromkeys(before.keys() - after, "lost") | dict.fromkeys(after.keys() - before, "gained")

    move = moved(before, after)

    assert {o.package: o.outcome.value for o in move.packages} == {n: o for n, o in expected.items() if o != "same"}
    assert {o.value: count for o, count in move.counts.items() if count} == Counter(expected.values())
    hashes = [{(name, spec["hash"]) for name, found in side.items() for spec in found} for side in (before, after)]
    assert move.has_other_hashes_only == (bool(expected) and hashes[0].isdisjoint(hashes[1]))
    assert move.is_safe == ({"lost", "downgraded"}.isdisjoint(expected.values()))
    assert move_verdict(move).startswith("safe for you") == move.is_safe
    assert ("all hashes differ" in move_verdict(move)) == move.has_other_hashes_only
    assert [o.outcome for o in move.packages] == sorted((o.outcome for o in move.packages), key=list(Outcome).index)


def test_real_documents_as_snapshots(documents: Path) -> None:
    """One package at a time, both ways."""
    seen: Counter[Outcome] = Counter()
    for folder in sorted(path for path in documents.iterdir() if path.is_dir()):
        found = [path for path in sorted(folder.iterdir()) if "\nspec_details" in path.read_text()]
        sides = [(path, parse(path.read_bytes(), path.name)) for path in found]
        for one, before in sides:
            for other, after in sides:
                change = compare(folder.name, before, after)
                outcome = outcome_of(change) if change else None
                seen[outcome.outcome if outcome else Outcome.SAME] += 1
                if outcome is not None and outcome.outcome is Outcome.UPGRADED:
                    assert outcome.before != outcome.after, (one, other)
                assert outcome is None or outcome.keeps_hashes == bool(before.specs.hashes & after.specs.hashes)
    assert {Outcome.UPGRADED, Outcome.DOWNGRADED, Outcome.REBUILT, Outcome.SAME} <= seen.keys()


def test_one_of_each() -> None:
    """The table, the verdict and the line for a subject."""
    before = {
        "cuda": records([1]),
        "curl": [record(2), record(3, stacks=["ml", "root"])],
        "gcc": records([4], versions=["13"]),
        "hdf5": [record(5, versions=["1.14.5"]), record(6, versions=["1.14.5"], stacks=["ml", "root"])],
        "llvm": records([7]),
        "zlib": [record(8, versions=["1.2"]), record(9, versions=["1.3"])],
        "zstd": records([10]),
        "same": records([11]),
    }
    after = {
        "curl": [record(2)],
        "gcc": records([14], versions=["12"]),
        "hdf5": [record(15, versions=["1.14.6"]), record(16, versions=["1.14.6"], stacks=["ml", "root"])],
        "llvm": [record(7), record(17, stacks=["ml", "root"])],
        "zlib": [record(9, versions=["1.3"])],
        "zstd": records([20]),
        "same": records([11]),
        "new": records([21]),
    }
    move = moved(before, after)

    assert move.packages == (
        PackageOutcome(package="cuda", outcome=Outcome.LOST, is_whole=True, places=(E4S,), keeps_hashes=False),
        PackageOutcome(package="curl", outcome=Outcome.LOST, places=(ML,)),
        PackageOutcome(
            package="gcc", outcome=Outcome.DOWNGRADED, before="13", after="12", places=(E4S,), keeps_hashes=False
        ),
        PackageOutcome(
            package="hdf5",
            outcome=Outcome.UPGRADED,
            before="1.14.5",
            after="1.14.6",
            places=(E4S, ML),
            keeps_hashes=False,
        ),
        PackageOutcome(package="new", outcome=Outcome.GAINED, is_whole=True, places=(E4S,), keeps_hashes=False),
        PackageOutcome(package="llvm", outcome=Outcome.GAINED, places=(ML,)),
        PackageOutcome(package="zlib", outcome=Outcome.CHANGED, places=(E4S,)),
        PackageOutcome(package="zstd", outcome=Outcome.REBUILT, keeps_hashes=False),
    )
    assert move.same == 1
    assert move_verdict(move) == "you lose 2 (cuda; curl in ml); 1 downgraded (gcc)"
    assert move_headline(move) == (
        "develop-2026-11-15 against develop-2026-11-08: 2 packages lost, 1 downgraded, 1 upgraded, 2 gained"
    )
    data = move_data(move, 1, str)
    assert sum(data["counts"].values()) == 9
    assert data["packages"]["lost"]["count"] == 2
    assert (data["packages"]["lost"]["rows"][0]["package"], data["packages"]["lost"]["more"]) == ("cuda", 1)


E4S, ML = Place("e4s", "x86_64_v3"), Place("ml", "x86_64_v3")


def test_what_most_places_did_is_named() -> None:
    """Of several upgrades of one package; where only stacks of kept binaries differ, the package is the same."""
    stacks = ("a", "b", "c")
    before = {
        "hdf5": [record(n, versions=[v], stacks=[s]) for n, (s, v) in enumerate(zip(stacks, "911", strict=True))],
        "zlib": [record(10), record(11, stacks=["root"])],
    }
    after = {
        "hdf5": [record(20 + n, versions=["12"], stacks=[s]) for n, s in enumerate(stacks)],
        "zlib": records([10, 11]),
    }
    move = moved(before, after)

    assert [(o.package, o.outcome, o.before, o.after) for o in move.packages] == [("hdf5", Outcome.UPGRADED, "1", "12")]
    assert move.same == 1


def test_nothing_to_lose_is_not_nothing_changes() -> None:
    """Where everything was built anew, that is said; where nothing was, that too."""
    first, second = ({name: records([n + k]) for n, name in enumerate("abc")} for k in (0, 10))

    assert move_verdict(moved(first, first)) == "safe for you: nothing changes"
    assert move_verdict(moved(first, second)) == "safe for you, nothing is lost, but all hashes differ"
    assert move_headline(moved(first, second)).endswith(": all hashes differ, nothing else")
    some = first | {"c": second["c"]}
    assert move_verdict(moved(first, some)) == "safe for you, nothing is lost"
    gone = moved(first, {"a": second["a"]})
    assert move_verdict(gone) == "you lose 2 (b, c); all hashes differ"


def test_without_the_number_of_packages() -> None:
    """What is the same is not known then, and is not counted."""
    move = move_of("a", "b", [PackageOutcome(package="x", outcome=Outcome.SAME)])
    assert (move.packages, move.same) == ((), 0)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (["there"] * 3, ["there"] * 3, "safe for you: every binary that you have stays"),
        (["lost"], ["lost"], "safe for you: every binary that you have stays"),
        (["there"] * 3, ["lost", "there", "there"], "you lose 1 of 3 binaries"),
        (["there"] * 3, ["lost", "lost", "rebuilt"], "you lose 2 of 3 binaries; 1 more have another build"),
        (
            ["there", "there", "lost"],
            ["rebuilt", "usable", "lost"],
            "safe for you, nothing is lost, but all hashes differ: re-concretize",
        ),
        (
            ["there"] * 3,
            ["rebuilt", "there", "there"],
            "safe for you, nothing is lost, but 1 of 3 binaries have other hashes: re-concretize",
        ),
    ],
)
def test_the_verdict_for_an_environment(before: list[str], after: list[str], verdict: str) -> None:
    """By what it would need source builds for, and what it would have to concretize anew."""
    needs = tuple(Need(package="zlib", version=str(n), hash=str(n)) for n in range(len(before)))
    environment = Environment(name="x", needs=needs)
    sides = [
        Coverage(environment, tuple(Resolution(n, Availability(word)) for n, word in zip(needs, words, strict=True)))
        for words in (before, after)
    ]
    assert environment_verdict(compare_coverage(*sides)) == verdict
