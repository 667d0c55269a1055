"""What happened in each place, and of what class each spec is, against an oracle that reads the two documents alone."""

import json
import random
import re
from itertools import permutations
from pathlib import Path
from typing import Any

import oracle
import pytest
from conftest import Run
from digests import read
from helpers import Record, catalogue, history, parsed, record, two_folders
from pairs import some_pair

from cachewatch.core.comparison.package_changes import Pair, compare, compare_all
from cachewatch.core.filters_and_spec_patterns import Globs, Selection
from cachewatch.core.kinds_and_specs import NEW_CLASSES, VANISHED_CLASSES, PackageChange
from cachewatch.documents.records_parsing_diagnostics import parse
from cachewatch.report.json_and_safe_csv import package_json, places_json

# All pairs of the real documents of one package, both ways, but those without hashes.
WITHOUT_HASHES = ("cub", "aml")


def told(change: PackageChange | None) -> dict[str, Any]:
    """Return what the JSON says of places and classes."""
    if change is None:
        return {"places": {}, "classes": dict.fromkeys((*oracle.VANISHED, *oracle.NEW), 0)}
    package = package_json(change)
    found = json.loads(package.head + places_json(package, {}, None) + package.specs)
    places = {(p["stack"], p["target"]): (set(p["before"]), set(p["after"]), p["verdict"]) for p in found["places"]}
    return {"places": places, "classes": {name: found["specs"][name] for name in (*oracle.VANISHED, *oracle.NEW)}}


def adds_up(change: PackageChange | None) -> bool:
    """Tell whether classes add up to what is new and gone."""
    if change is None:
        return True
    counts = change.counts
    sums = [sum(getattr(counts, name) for name in names) for names in (VANISHED_CLASSES, NEW_CLASSES)]
    return counts.adds_up and sums == [counts.gone, counts.new]


def test_real_pairs(documents: Path) -> None:
    """Of every two documents of a package, both ways, the verdicts and classes are those of the oracle."""
    seen = 0
    for folder in sorted(documents.iterdir()):
        if not folder.is_dir() or folder.name in WITHOUT_HASHES:
            continue
        for before, after in permutations(sorted(folder.iterdir()), 2):
            sides = [parse(path.read_bytes(), path.name) for path in (before, after)]
            change = compare(folder.name, *sides)
            assert told(change) == oracle.told(oracle.read(before), oracle.read(after)), (before, after)
            assert adds_up(change)
            seen += 1
    assert seen == 24


def test_real_documents_that_appear_and_disappear(documents: Path) -> None:
    """A package that comes or goes gains or loses every place, and its specs are of that class."""
    for path in sorted(documents.glob("*/*.md")):
        if path.parent.name in WITHOUT_HASHES:
            continue
        document = parse(path.read_bytes(), path.name)
        assert told(compare("zlib", None, document)) == oracle.told([], oracle.read(path))
        assert told(compare("zlib", document, None)) == oracle.told(oracle.read(path), [])


@pytest.mark.slow_cases
@pytest.mark.parametrize("seed", range(10))
def test_random_pairs(seed: int) -> None:
    """Of five hundred random pairs a seed, both ways, the verdicts and classes are those of the oracle."""
    chance = random.Random(seed)
    there = [some_pair(chance) for _ in range(500)]
    pairs = there + [(after, before) for before, after in there]
    changes = compare_all(Pair(f"p{n}", parsed(before), parsed(after)) for n, (before, after) in enumerate(pairs))
    for (before, after), change in zip(pairs, changes, strict=True):
        assert told(change) == oracle.told(before, after), (before, after)
        assert adds_up(change)


@pytest.fixture
def many_kinds(run: Run, tmp_path: Path) -> tuple[Path, dict[str, set[str]]]:
    """A repository of sixty random packages and two others, and by kind those that its JSON names."""
    chance = random.Random(3)
    pairs = {f"package{n}x": some_pair(chance) for n in range(60)}
    pairs["replacedx"] = ([record(1)], [record(2, versions=["2.0"])])
    pairs["leftx"] = ([record(1, stacks=["ml", "e4s"])], [record(1, stacks=["e4s"])])
    before, after = ({name: pair[side] for name, pair in pairs.items()} for side in (0, 1))
    repository = history(tmp_path / "r.git", catalogue(before), catalogue(after))
    found = run("diff", "HEAD~1", "--repo", repository, "--format", "json").changeset()
    packages: dict[str, set[str]] = {}
    for package in found["packages"]:
        for kind in package["kinds"]:
            packages.setdefault(kind, set()).add(package["name"])
    assert len(packages) > 15
    return repository, packages


@pytest.mark.slow_cases
@pytest.mark.parametrize("form", ["text", "markdown", "csv", "html", "stat"])
def test_every_format_finds_packages_by_kind(run: Run, many_kinds: tuple[Path, dict[str, set[str]]], form: str) -> None:
    """Kinds have one source: JSON, text, Markdown, page and table name the same packages for each kind."""
    repository, packages = many_kinds
    how = ("--stat",) if form == "stat" else ("--format", form)
    for kind, expected in sorted(packages.items()):
        output = run("diff", "HEAD~1", "--repo", repository, "--all", *how, "--kind", kind).output
        output = re.sub(r"_cache/\S+", "", output)  # warnings name the documents of all packages
        assert set(re.findall(r"\b(?:package\d+|replaced|left)x\b", output)) == expected, kind


def test_a_digest_finds_a_package_by_any_of_its_kinds(many_kinds: tuple[Path, dict[str, set[str]]]) -> None:
    repository, packages = many_kinds
    for kind, expected in sorted(packages.items()):
        tag = read(repository, selection=Selection(kinds=Globs([kind])))
        found = {line.package for one in tag.statements for line in one.lines if kind in line.kinds}
        assert found == expected, kind


WORDS: dict[str, Any] = {
    "what left a place did not widen it": (
        [{}, {}, {}],
        [{}, {"variants": ["build_system=cmake", "~shared"]}],
        ("--kind", "widened"),
        "ANOTHER WAY 1 package, +1 -1 zlib +shared -> ~shared (+shared stays) +1 -1 in e4s 1 of 2 packages has",
    ),
    "a kind of the facts": ([{}], [{"versions": ["2.0"]}], ("--kind", "version-added"), "1.0 -> 2.0"),
    "paired, then selected": ([{}], [{"versions": ["2.0"]}], ("--versions", "@2:"), "1.0 -> 2.0"),
    "new places with the chosen version": (
        [{}],
        [{}, *({"versions": [version], "target": "zen4"} for version in ("1.1", "2.0"))],
        ("--versions", "2.0"),
        "zlib new version 2.0 +1 in e4s on zen4",
    ),
    "moved is not gone": ([{}], [{"stacks": ["ml"]}], ("--stack", "ml"), "zlib 1.0 +1 in ml"),
    "the old version stays": ([{}, {}], [{}, {"versions": ["9.9"]}], (), "1.0 -> 9.9 (1.0 stays) +1 -1"),
    "several versions came": (
        [{}],
        [{}, *({"versions": [version]} for version in ("1.3.0", "1.4.0", "1.5.0"))],
        (),
        "1.0 -> 1.5.0 (1.0 stays), 1.3.0, 1.4.0 added +3",
    ),
    "several versions went": (
        [{"versions": ["0.8"]}, {"versions": ["0.9"]}, {}],
        [{}, {"versions": ["1.1"]}, {"versions": ["1.2"]}],
        (),
        "1.0 -> 1.2 (1.0 stays), 0.8, 0.9 removed, 1.1 added +2 -2",
    ),
    "more versions than a line holds": (
        [{}],
        [{"versions": [f"2.{number}"]} for number in range(20)],
        (),
        "1.0 -> 2.19, 2.13, 2.14, 2.15, 2.16, 2.17, 2.18 and 13 more added +20 -1",
    ),
    "all of them": (
        [{}],
        [{"versions": [f"2.{number}"]} for number in range(20)],
        ("--all",),
        f"1.0 -> 2.19, {', '.join(f'2.{number}' for number in range(19))} added",
    ),
    "no version is left": ([{}, {"versions": []}], [{"versions": []}] * 2, (), "1.0 removed, no version is left -1"),
    "specs without a version are gone": (
        [{}, {"versions": []}],
        [{}],
        ("--all",),
        "FEWER CONFIGURATIONS 1 package, -1 zlib (no version) in fewer configurations -1",
    ),
    "specs without a version came": (
        [{}],
        [{}, {"versions": []}],
        ("--all",),
        "CONFIGURATIONS ADDED 1 package, +1 zlib (no version) in more configurations +1",
    ),
    "one of two copies without a version is gone": (
        [{"versions": []}, {"versions": []}],
        [{"versions": []}],
        ("--all",),
        "FEWER COPIES 1 package, -1 zlib (no version) -1",
    ),
    "the old version stays in one stack": (
        [{"stacks": ["e4s", "ml"]}],
        [{"stacks": ["e4s"]}, {"stacks": ["e4s", "ml"], "versions": ["2.0"]}],
        (),
        "1.0 -> 2.0 (1.0 stays in e4s)",
    ),
    "an older version came to two stacks, of which one keeps the newest": (
        [{"versions": ["2.0"], "stacks": ["e4s", "ml"]}, {"versions": ["2.0"], "stacks": ["ml"]}],
        [{"stacks": ["e4s", "ml"]}, {"versions": ["2.0"], "stacks": ["ml"]}],
        ("--kind", "extended", "--fail-on", "extended"),
        (
            "in e4s; 1.0 added in place of builds of 2.0 in ml 1 of 2 packages has changes of these kinds (+1 -1: 1 in downgrades) cachewatch:"
            " --fail-on extended: zlib in ml (x86_64_v3)"
        ),
    ),
    "older versions came in place of different ones": (
        [{"versions": ["2.0"]}, {"versions": ["2.0"]}, {"versions": ["1.5"]}, {"versions": ["1.5"]}],
        [{"versions": ["2.0"]}, {"versions": ["1.5"]}, {}, {}],
        (),
        (
            "zlib 1.0 added in place of builds of 2.0 +1 -1 in e4s on x86_64_v3"
            " zlib 1.0 added in place of builds of 1.5 +1 -1 in e4s on x86_64_v3"
        ),
    ),
    "a target keeps what another one had before it fell": (
        [{"versions": ["2.0"]}, *({"versions": ["1.5"], "target": target} for target in ("zen4", "aarch64"))],
        [{}, {"target": "zen4"}, {"versions": ["1.5"], "target": "aarch64"}],
        (),
        "zlib 1.5 -> 1.0, 2.0 -> 1.0 on x86_64_v3, zen4 +2 -2 in e4s",
    ),
    "a configuration came": ([{}], [{}, {"os": "rhel8"}], (), "1.0 now also with rhel8"),
    "a configuration came, and the only other one is gone": (
        [{}],
        [{"os": "rhel8", "compiler": "gcc@12.1.0"}],
        ("--kind", "widened"),
        "1.0 now with gcc@12.1.0, rhel8",
    ),
    "a version came with the compiler of another stack": (
        [{}, {"stacks": ["ml"], "compiler": "gcc@12.1.0"}],
        [{"versions": ["2.0"], "compiler": "gcc@12.1.0"}, {"stacks": ["ml"], "compiler": "gcc@12.1.0"}],
        ("--kind", "compiler"),
        "zlib 1.0 -> 2.0, now with gcc@12.1.0 +1 -1",
    ),
    "a version came with another value of a variant": (
        [{"variants": ["api=v1"]}, {"stacks": ["ml"], "variants": ["api=v1", "api=v2"]}],
        [{"versions": ["2.0"], "variants": ["api=v2", "+new"]}, {"stacks": ["ml"], "variants": ["api=v1", "api=v2"]}],
        ("--kind", "variant"),
        "zlib 1.0 -> 2.0, now with api=v2 +1 -1",
    ),
    "a variant went with the old version": (
        [{"variants": ["api=v1"], "stacks": ["e4s", "ml"]}, {"variants": ["api=v2"]}],
        [{"versions": ["2.0"], "variants": ["api=v1", "+new"], "stacks": ["e4s", "ml"]}],
        (),
        "zlib 1.0 -> 2.0 (no longer with api=v2 in e4s) +1 -2",
    ),
    "a gate names the places of a variant": (
        [{"variants": ["api=v1"], "stacks": ["e4s", "ml"]}, {"variants": ["api=v2"]}],
        [{"versions": ["2.0"], "variants": ["api=v1"], "stacks": ["e4s", "ml"]}],
        ("-q", "--fail-on", "variant"),
        "--fail-on variant: zlib in e4s (x86_64_v3)",
    ),
    "another stack keeps both versions": (
        [{}, {"versions": ["1.1"]}, {"stacks": ["ml"]}, {"stacks": ["ml"], "versions": ["1.1"]}],
        [{"versions": ["2.0"]}, {"stacks": ["ml"]}, {"stacks": ["ml"], "versions": ["1.1"]}],
        (),
        "zlib 1.1 -> 2.0 (1.1 stays in 1 other stack), 1.0 removed (1.0 stays in 1 other stack) +1 -2",
    ),
    "a new version in a new place": (
        [{}],
        [{}, {"target": "zen4", "versions": ["2.0"]}],
        (),
        "zlib new version 2.0 +1 in e4s on zen4",
    ),
    "an upgrade of specs that another stack lost": (
        [{"stacks": ["e4s", "ml"]}, {}],
        [{"versions": ["2.0"]}, {"versions": ["2.0"]}],
        ("--kind", "upgraded"),
        "/after UPGRADED 1 package, +2 -1 zlib 1.0 -> 2.0 +2 -1 in e4s 1 of 2 packages has changes of these kinds",
    ),
    "a version between those that were there in a new place": (
        [{}, {"versions": ["2.0"]}],
        [{}, {"versions": ["2.0"]}, {"target": "zen4", "versions": ["1.5"]}],
        (),
        "zlib 1.5 +1 in e4s on zen4",
    ),
    "a build with the chosen compiler took the place of another": (
        [{}],
        [{"compiler": "gcc@15.1.0"}],
        ("--compiler", "gcc@15.1.0"),
        "BUILT IN ANOTHER WAY 1 package, +1 zlib gcc@11.4.0 -> gcc@15.1.0",
    ),
    "another version and another target keep the old compiler": (
        [{}, {"versions": ["0.9"]}, {"stacks": ["ml"]}, {"stacks": ["ml"], "target": "zen4"}],
        [
            {"compiler": "gcc@15.1.0"},
            {"versions": ["0.9"]},
            {"stacks": ["ml"], "variants": ["build_system=cmake", "+new"]},
            {"stacks": ["ml"], "target": "zen4"},
        ],
        (),
        "+shared -> +new (+shared stays) +1 -1 in ml zlib gcc@11.4.0 -> gcc@15.1.0 (gcc@11.4.0 stays for 0.9)",
    ),
    "a spec without a target": ([{}], [{}, {"target": ""}], (), "PLACES 1 package, +1 zlib 1.0 +1 in e4s on no target"),
    "the target is not named any more": ([{}], [{"target": ""}], (), "zlib 1.0 -1 BUILT"),
    "a place went to another target, for which others of the stack came": (
        [{}, {"stacks": ["ml"]}],
        [{"target": "zen4"}, {"stacks": ["ml"]}],
        ("--kind", "target"),
        "LOST PLACES 1 package, -1 e4s (x86_64_v3) zlib 1.0, now on zen4 -1 ml builds an equal one BUILT IN NEW PLACES",
    ),
    "a place went, and another stack has another target": (
        [{}, {"stacks": ["ml"]}],
        [{"stacks": ["ml"]}, {"stacks": ["ml"], "target": "zen4"}],
        ("--kind", "target"),
        "/after BUILT IN NEW PLACES 1 package, +1 zlib 1.0 +1 in ml on zen4",
    ),
    "an older build is left for another target": (
        [{"target": "zen4"}],
        [{"versions": ["0.9"]}, {"versions": ["0.9"], "target": "x86_64", "stacks": ["ml"]}],
        (),
        "zlib 1.0; now 0.9 on x86_64_v3 -1 only 0.9 for x86_64_v3 is in e4s",
    ),
    "a newer one is": (
        [{"target": "zen4"}],
        [{"versions": ["1.1"], "target": "x86_64_v3"}],
        (),
        "zlib 1.0; now 1.1 on x86_64_v3 -1 1.1 for x86_64_v3 is in e4s, 1.0 is gone",
    ),
    "a machine is lost": ([{}, {"os": "rhel8"}], [{}], (), "e4s (rhel8, x86_64_v3) zlib 1.0 -1"),
    "a machine is lost with an upgrade": (
        [{}, {"stacks": ["ml"]}],
        [{"os": "rhel8", "versions": ["2.0"]}, {"stacks": ["ml"]}],
        ("--kind", "os"),
        "zlib 1.0; now 2.0 on rhel8 -1 ml builds an equal one UPGRADED 1 package, +1 zlib 1.0 -> 2.0, now with rhel8",
    ),
    "one of macOS is": ([{}, {"platform": "darwin", "os": "x", "target": "m1"}], [{}], (), "e4s (x, m1) zlib 1.0 -1"),
    "a package without specs": (None, [], (), "NEW PACKAGES 1 package zlib without specs"),
}


@pytest.mark.parametrize(("before", "after", "options", "line"), WORDS.values(), ids=WORDS.keys())
def test_the_words_follow_what_is_there(  # noqa: PLR0917
    run: Run, tmp_path: Path, before: list[Record] | None, after: list[Record], options: tuple[str, ...], line: str
) -> None:
    """A line says what happened: what replaced what, what stays, and which configuration came or went."""
    state = {"other": [record(50)]}
    old = state if before is None else {**state, "zlib": [record(n, **values) for n, values in enumerate(before)]}
    new = {**state, "zlib": [record(100 + n, **values) for n, values in enumerate(after)]}

    found = run("diff", *two_folders(tmp_path, old, new), *options)
    assert line in " ".join(f"{found.output} {found.error}".split())
