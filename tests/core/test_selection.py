"""Choosing by globs."""

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from helpers import Record, catalogue, history, parsed, record, signature, two_folders

import cachewatch
from cachewatch.config.settings_and_subscriptions import Match
from cachewatch.core.comparison.package_changes import compare, part_of
from cachewatch.core.comparison.package_items import items_of
from cachewatch.core.comparison.stacks_prunes_suspicion import Judgement
from cachewatch.core.filters_and_spec_patterns import DEFAULT, Globs, Selection, every_compiler
from cachewatch.core.kinds_and_specs import Kind, PackageChange
from cachewatch.core.statement_kinds import LOSSES, StatementKind
from cachewatch.core.statements import statements_of
from cachewatch.errors import UsageError
from cachewatch.service.streams_starts_silences import selection_of


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [
        ((), "e4s ml-cpu ml-rocm E4S"),
        (("e4s",), "e4s"),
        (("ml-*",), "ml-cpu ml-rocm"),
        (("ml-*", "e4s"), "e4s ml-cpu ml-rocm"),
        (("!ml-*",), "e4s E4S"),
        (("ml-*", "!*-rocm"), "ml-cpu"),
        (("!*-rocm", "ml-*"), "ml-cpu"),
        (("[em]*",), "e4s ml-cpu ml-rocm"),
        (("nothing",), ""),
        (("/^ml-(cpu|x)$/",), "ml-cpu"),
        (("/4/", "!/(?i)^e4/"), ""),
        (("/(4)s$/", "/ro/", "e4*"), "e4s ml-rocm"),
        (("/",), ""),
    ],
)
def test_globs(patterns: tuple[str, ...], chosen: str) -> None:
    """Patterns are alternatives, ! excludes and wins, and case matters."""
    globs = Globs(patterns)

    assert [name for name in ("e4s", "ml-cpu", "ml-rocm", "E4S") if globs(name)] == chosen.split()


def test_keys_must_all_agree() -> None:
    oses, compilers = Globs(["!rhel*"]), Globs(["gcc@*"])
    selection = Selection(stacks=Globs(["e4s"]), targets=Globs(["x86*"]), oses=oses, compilers=compilers)

    assert selection.chooses(signature(stacks=("e4s", "ml")))
    assert not selection.chooses(signature(target="aarch64"))
    assert not selection.chooses(signature(stacks=("ml",)))
    assert not selection.chooses(signature(os="rhel8"))
    assert not selection.chooses(signature(compiler="none"))


def test_a_part_of_a_version_of_a_compiler_is_enough() -> None:
    """As in `show %gcc@12`, but for an exact version."""
    for pattern, chosen in (("gcc@12", ["gcc@12", "gcc@12.3", "gcc@12.3.0"]), ("gcc@=12.3", ["gcc@12.3"])):
        found = Globs(every_compiler([pattern]))
        assert [each for each in ("gcc@1", "gcc@12", "gcc@12.3", "gcc@12.3.0", "gcc@120") if found(each)] == chosen


def test_versions_are_a_key() -> None:
    selection = selection_of(Match(versions=("@1.2:", "!@1.4"), stacks=("e4s",)), frozenset({Kind.REBUILT}))

    assert selection.chooses(signature(versions=("1.3",)))
    assert not selection.chooses(signature(versions=("1.4.1",)))
    assert not selection.chooses(signature(versions=("1.3",), stacks=("ml",)))
    assert not selection.takes_all_specs
    assert selection_of(Match(packages=("a",))).takes_all_specs
    assert selection.wants({Kind.REBUILT, Kind.OS})
    assert not selection.wants({Kind.OS})
    assert selection_of(Match()).wants({Kind.OS})
    upgrade = {Kind.UPGRADED, Kind.VERSION_ADDED}
    no_upgrades = selection_of(Match(), DEFAULT - {Kind.UPGRADED})
    assert (no_upgrades.wants(upgrade), no_upgrades.wants(upgrade, {Kind.UPGRADED})) == (True, False)
    assert selection_of(Match(), frozenset({Kind.VERSION_ADDED})).wants(upgrade, {Kind.UPGRADED})


def test_what_decides() -> None:
    """The pattern that decides is named: one that excludes, else the first that includes."""
    globs = Globs(["py-*", "/torch$/", "!py-test*"])

    deciding = [globs.deciding(name) for name in ("py-test-x", "py-torch", "torch", "zlib")]
    assert deciding == ["!py-test*", "py-*", "/torch$/", None]


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """Two catalogues that differ in two stacks, targets and compilers."""
    on_arm: dict[str, Any] = {"stacks": ["ml"], "target": "aarch64", "os": "rhel8"}
    state = [record(1, stacks=["e4s"]), record(2, **on_arm), record(3, stacks=["e4s", "ml"], compiler="none")]
    newer = record(12, versions=["2.0"], **on_arm)
    later = [record(11, stacks=["e4s"]), newer, record(3, stacks=["ml"], compiler="none")]
    return two_folders(tmp_path, {"zlib": state}, {"zlib": later})


@pytest.mark.parametrize(
    ("option", "pattern", "expected"),
    [
        ("--stack", "e4s", {"before": 2, "after": 1, "rebuilt": 1, "restacked": 1, "left": 1}),
        ("--stack", "ml", {"before": 2, "after": 2, "rebuilt": 0, "upgraded": 1, "restacked": 0}),
        ("--target", "aarch64", {"before": 1, "after": 1, "upgraded": 1}),
        ("--os", "!rhel8", {"before": 2, "after": 2, "rebuilt": 1, "upgraded": 0}),
        ("--compiler", "none", {"before": 1, "after": 1, "restacked": 1}),
    ],
)
def test_filters(run: Run, sides: tuple[Path, Path], option: str, pattern: str, expected: dict[str, int]) -> None:
    """Every filter narrows what is counted and told to what it chose, and it still adds up."""
    (package,) = run("diff", *sides, option, pattern, "--format", "json").changeset()["packages"]
    specs: dict[str, Any] = package["specs"] | {"restacked": len(package["specs"]["restacked"])}

    assert {name: specs[name] for name in expected} == expected
    assert specs["before"] + len(specs["added"]) - len(specs["removed"]) == specs["after"]
    if option == "--stack":
        assert all(entry["stack"] == pattern for entry in package["stack_versions"])


def test_kinds(run: Run, sides: tuple[Path, Path]) -> None:
    """Only lines of the chosen kinds are printed, and the totals are those of these lines, in every format for people."""
    result = run("diff", *sides, "--kind", "upgraded")
    total = "1 of 1 package has changes of these kinds (+1 -1: 1 in upgrades)"

    assert "UPGRADED  1 package, +1 -1\n  zlib" in result.output
    assert "REBUILT" not in result.output
    assert "MORE" not in result.output
    assert result.output.endswith(f"\n\n{total}\n")
    assert "REBUILT  1 spec of 1 package\n" in run("diff", *sides, "--kind", "rebuilt").output
    without = run("diff", *sides, "--kind", "!upgraded", "--exit-code")
    assert (without.exit_code, "UPGRADED" in without.output, "REBUILT" in without.output) == (1, False, True)
    assert run("diff", *sides, "--kind", "version-added", "--kind", "!upgraded", "-q").exit_code == 0
    for how in (["--stat"], ["--format", "markdown"], ["--format", "html"]):
        output = " ".join(run("diff", *sides, "--kind", "upgraded", *how).output.split())
        assert total in output
        assert " rebuilt" not in output.partition("<footer>")[0]
    assert json.loads(run("diff", *sides, "--kind", "os", "--format", "json").output)["changesets"][0]["packages"] == []


def test_an_upgrade_is_no_change_of_what_is_beside_it(run: Run, tmp_path: Path) -> None:
    """A configuration that changes in the same place is of another kind; the versions of a package go and come with it."""
    before = [record(1), record(2, versions=["0.9"]), record(4, variants=["+mpi"])]
    configured = record(5, versions=["0.9"], variants=["~shared"])
    after = [record(3, versions=["2.0"]), record(4, variants=["+mpi"]), configured]
    states = catalogue({"zlib": before, "gmp": [record(9)]}), catalogue({"zlib": after})
    repository = history(tmp_path / "r.git", *states)

    def said(*options: str) -> str:
        return run("diff", *options, "--repo", repository).output

    assert "BUILT" in said("HEAD~1", "HEAD")
    assert ("gmp" in said("HEAD~1", "HEAD", "--kind", "!gone"), "gmp" in said("HEAD~1", "HEAD")) == (False, True)
    assert "BUILT" not in said("HEAD~1", "HEAD", "--kind", "upgraded")
    assert "gmp  removed, had 1.0" in said("HEAD~1", "HEAD", "--kind", "version-removed")
    assert "gmp  1.0" in said("HEAD", "HEAD~1", "--kind", "version-added")
    assert "gmp" not in said("HEAD", "HEAD~1", "--kind", "compiler")
    for revisions, group in ((("HEAD~1", "HEAD"), "removed"), (("HEAD", "HEAD~1"), "added")):
        assert "gmp" not in said(*revisions, "--kind", f"!{group}", "--all")
        as_json = json.loads(said(*revisions, "--kind", f"!{group}", "--format", "json"))
        assert [one["name"] for one in as_json["changesets"][0]["packages"]] == ["zlib"]


def test_kinds_as_data(run: Run, sides: tuple[Path, Path], tmp_path: Path) -> None:
    """Statements and events of other kinds are left out of JSON and of the API, too."""
    for kind in ("upgraded", "rebuilt"):
        as_json = run("diff", *sides, "--kind", kind, "--format", "json").output
        lines = map(json.loads, run("diff", *sides, "--kind", kind, "--format", "jsonl").output.splitlines())
        with cachewatch.open(sides[1]) as opened:
            (changeset,) = opened.diff(sides[0], sides[1], kinds=kind)
            told = [one.kind.value for one in changeset.summary().statements]
        found = [one["kind"] for one in json.loads(as_json)["changesets"][0]["statements"]]
        assert found == [one["kind"] for one in lines if one["type"] == "statement"] == told == [kind]
    rebuilt = [catalogue({"zlib": [record(n)]}) for n in (1, 2)]
    states = [*rebuilt, catalogue({"zlib": [record(2)]}, "v1")]
    repository = history(tmp_path / "r.git", states[0], states[1] | states[2])
    for kind, events in (("rebuilt", []), ("tag-added", ["tag-added"])):
        output = run("diff", "HEAD~1", "--repo", repository, "--kind", kind, "--format", "json").output
        found = [one["kind"] for each in json.loads(output)["changesets"] for one in each["events"]]
        assert found == events


@pytest.mark.parametrize("pattern", [r"/^(\w+\.?)*$/", "/(a*)*b/", "/(a|aa)+$/", "/(.*){20}!/", "/^(a+)+$/"])
def test_an_expression_never_goes_back(pattern: str) -> None:
    """Strangers choose the names: no expression takes longer than its name is long."""
    matches = Globs([pattern])
    started = time.process_time()
    matches("a" * 1_000 + "\u20ac!\ud800")

    assert time.process_time() - started < 5


@pytest.mark.parametrize("pattern", ["/(?=a)b/", r"/(a)\1/", "/(/", "/(a{1000}){1000}/"])
def test_an_expression_that_could_go_back_is_refused(pattern: str) -> None:
    """What RE2 does not know is a mistake of the command line or the configuration, and the sentence names it."""
    with pytest.raises(UsageError, match="is not a regular expression that RE2 knows"):
        Globs([pattern])


@pytest.mark.parametrize("key", ["compilers", "oses", "targets", "stacks"])
def test_a_selection_is_told_what_its_own_specs_show(key: str) -> None:
    """By brute force: losses, and changes of versions, are those of documents with only the selected specs."""
    field = {"compilers": "compiler", "oses": "os", "targets": "target", "stacks": "stacks"}[key]
    for seed in range(60):
        chance = random.Random(seed)
        pools = [chance.sample(values, chance.randint(1, len(values))) for values in _FEW.values()]

        def some(first: int, count: int) -> list[Record]:
            drawn = ({name: chance.choice(pool) for name, pool in zip(_FEW, pools, strict=True)} for _ in range(count))  # noqa: B023
            return [record(number, platform="linux", **values) for number, values in enumerate(drawn, first)]

        before = some(0, chance.randint(1, 5))
        kept = [one if chance.random() < 0.7 else one | {"stacks": chance.choice(pools[-1])} for one in before]
        after = [*(one for one in kept if chance.random() < 0.3), *some(10, chance.randrange(5))]
        named = [one["stacks"][0] if key == "stacks" else one[field] for one in (*before, *after)]
        wanted = chance.choice(named)
        own = (
            [
                one | ({"stacks": [wanted]} if key == "stacks" else {})
                for one in side
                if wanted in (one["stacks"] if key == "stacks" else [one[field]])
            ]
            for side in (before, after)
        )
        selection = selection_of(Match.model_validate({key: [wanted]}))
        whole = compare("zlib", parsed(before), parsed(after))
        part = whole and part_of(whole, selection)
        assert _fates(part, selection) == _fates(compare("zlib", *map(parsed, own)), Selection()), (seed, wanted)


_FEW: dict[str, list[Any]] = {
    "versions": [["1.0"], ["1.1"], ["1.2"]],
    "compiler": ["gcc@11.4.0", "gcc@13.2.0"],
    "os": ["rhel8", "rhel9"],
    "target": ["x86_64_v3", "zen4"],
    "variants": [["+a"], ["~a"]],
    "stacks": [["e4s"], ["ml"], ["e4s", "ml"], ["hep"]],
}


def _fates(change: PackageChange | None, selection: Selection) -> set[tuple[object, ...]]:
    """Return the losses and changes of versions that a report names, with the versions."""
    kinds = (*LOSSES, StatementKind.UPGRADED, StatementKind.DOWNGRADED, StatementKind.RETIRED, StatementKind.EXTENDED)
    told = statements_of(items_of(change, selection), Judgement()) if change else ()
    lines = (line for one in told if one.kind in kinds for line in one.lines)
    return {(line.story.kind, line.story.before, line.story.after) for line in lines}
