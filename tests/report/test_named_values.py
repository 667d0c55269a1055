"""Whatever came to a package or went from it is named, by brute force over edits of the documents of the demo."""

import copy
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import Run
from helpers import Packages, Record, demo_records, document, flat, record, records, spec_hash, write

from cachewatch.core.kinds_and_specs import FACTS
from cachewatch.documents.records_parsing_diagnostics import parse

VALUES: dict[str, list[Any]] = {
    "versions": [["0.1"], ["1.2.1"], ["99.0"], ["1.2.1", "2.0rc1"], ["develop"], ["git.main=3.1"]],
    "compiler": ["gcc@15.1.0", "gcc@11.4.0", "llvm@19.1.0"],
    "os": ["rhel8", "ubuntu22.04", "ubuntu24.04"],
    "platform": ["windows", "linux", "darwin"],
    "target": ["zen5", "aarch64", "x86_64_v3"],
    "variants": [["+new", "build_system=cmake"], ["languages=c,c++"], ["~virtualenv", "build_system=python_pip"]],
    "stacks": [["root"], ["tutorial", "root"], ["e4s", "root"], ["ml-linux-x86_64-cpu", "e4s", "radiuss", "root"]],
}


def edited(documents: Packages, random: Random) -> Packages:
    """Return the documents after a few edits of anything, with the same hashes and with others."""
    documents = copy.deepcopy(documents)
    for _ in range(random.randrange(1, 6)):
        records = documents[random.choice(sorted(documents))]
        some = random.sample(records, random.choice([1, min(4, len(records)), len(records)])) if records else []
        edit = random.random()
        if edit < 0.2:
            records[:] = [one for one in records if one not in some]
        elif edit < 0.35 and len(documents) > 1:
            documents.pop(random.choice(sorted(documents)))
        else:
            if edit > 0.8:
                some = copy.deepcopy(some)
                records += some
            if edit < 0.6 or edit > 0.8:
                for one in some:
                    one["hash"] = spec_hash(random.getrandbits(100))
        for name in random.sample(sorted(VALUES), random.choice([1, 1, 2, 3])):
            value = random.choice(VALUES[name])
            for one in some:
                if one[name] != "none":  # what is not given is not different
                    one[name] = value
    return documents


def one_sided(before: Packages, after: Packages) -> Iterator[tuple[str, str, str]]:
    """Yield each value that only one side of a package has."""
    for package in sorted(before.keys() | after.keys()):
        old, new = (
            parse(document(side[package], package=package), package).facts
            if package in side
            else dict.fromkeys(FACTS, ())
            for side in (before, after)
        )
        for name in FACTS:
            yield from ((package, name, value) for value in {*old[name]} ^ {*new[name]} if value not in ("", "none"))


def is_named(value: str, text: str) -> bool:
    """Tell whether a value stands in a text, as a word, or as a migration names a compiler: `gcc 11.4.0 -> 13.3.0`."""
    name, _, version = value.partition("@")
    of, new = re.escape(name), re.escape(version)
    words = [re.escape(value), rf"{of} {new} ->", rf"{of} \S+ -> {new}"]
    return any(re.search(rf"(?<![^\s(]){word}(?![^\s,;)])", text) for word in words)


def unnamed(run: Run, folder: Path, seed: int) -> list[tuple[str, str, str, str]]:
    """Return what neither the text nor the page of a comparison names, after random edits of one, two and five documents."""
    random = Random(seed)
    every = demo_records()
    before = {name: every[name] for name in random.sample(sorted(every), random.choice([1, 2, 5]))}
    after = edited(before, random)
    if random.random() < 0.5:
        before, after = after, before
    sides = write(folder / "before", flat(before)), write(folder / "after", flat(after))
    text = run("diff", *sides, "--all").output
    page = run("diff", *sides, "--format", "html").output
    page = html.unescape(re.sub(r"<[^>]*>", " ", page.partition("<main")[2])).replace("→", "->")
    shown = {"text": " ".join(text.split()), "page": " ".join(page.split())}
    sided = list(one_sided(before, after))
    return [(form, *value) for value in sided for form, said in shown.items() if not is_named(value[2], said)]


@pytest.mark.parametrize("seed", range(6))
def test_every_value_of_one_side_is_named(run: Run, tmp_path: Path, seed: int) -> None:
    """Each version, compiler, system, platform, target, variant and stack that only one side has stands in the report."""
    assert unnamed(run, tmp_path, seed) == []


def told(run: Run, folder: Path, before: list[Record], after: list[Record], *options: str) -> str:
    """Return what a comparison of two documents says, without line breaks."""
    write(folder, {"before.md": document(before), "after.md": document(after)})
    return " ".join(run("diff", folder / "before.md", folder / "after.md", *options).output.split())


A, B, AB = (["a", "root"], ["b", "root"], ["a", "b", "root"])
_UNBUILT, _OLD = record(2, versions=["7.0"], stacks=["root"]), record(1, versions=["1.2.1"])
_NEWER = [record(number, versions=["2.0"], stacks=AB) for number in (5, 6)]
_THREE, _TWO = records(range(3), stacks=AB), records(range(5, 7), stacks=B)
NAMED: dict[str, tuple[list[Record], list[Record], str]] = {
    "a version that no stack has": ([record(1)], [record(1), _UNBUILT], "zlib 7.0 may be pruned at any time +1"),
    "and that goes": ([record(1), _UNBUILT], [record(1)], "zlib 7.0 removed -1"),
    "the older version that came in place of the newest, beside one that stays": (
        [_OLD, record(2, versions=["1.2.2"])],
        [_OLD, record(3, versions=["1.2.0"])],
        "zlib 1.2.2 -> 1.2.1 (1.2.1 was there), 1.2.0 added +1 -1",
    ),
    "builds that no stack has, where a stack has another of their version": (
        records([1, 2]),
        [record(1, stacks=["root"]), record(2)],
        "zlib some builds of 1.0 may be pruned at any time",
    ),
    "an older version that left one stack for another that had it": (
        [record(1, stacks=A), record(2, stacks=B), *_NEWER],
        [record(1, stacks=B), record(2, stacks=B), *_NEWER],
        "OLDER VERSIONS REMOVED 1 package, 1 spec kept zlib 1.0 removed, some now in b 1 spec kept from a on x86_64_v3",
    ),
    "builds that two stacks shared and now each have": (
        [record(1, stacks=AB)],
        [record(5, stacks=A), record(6, stacks=B)],
        "zlib 1.0 no longer shared with b +1 -1 MORE COPIES 1 package, +1 zlib 1.0 no longer shared +1 in b",
    ),
    "builds that two stacks share, in place of one that is left without a stack": (
        [record(1, stacks=AB)],
        [record(1, stacks=["root"]), record(5, stacks=AB)],
        "MORE COPIES 1 package, +1 zlib 1.0 +1 in a, b 1 of",
    ),
    "builds of one stack in place of which it shares those of another": (
        [record(1, stacks=A), record(6, stacks=B)],
        [record(1, stacks=AB)],
        "zlib 1.0 now shared with b 1 spec kept FEWER COPIES 1 package, -1 zlib 1.0 now shared -1 in b",
    ),
    "an older version that an upgraded stack lost and another one keeps": (
        [record(1, stacks=AB), record(2, versions=["1.1"], stacks=A)],
        [record(1, stacks=B), record(3, versions=["1.2"], stacks=A)],
        "zlib 1.1 -> 1.2, 1.0 removed +1 -1, 1 spec kept in a (1 of 2 stacks); not yet in b (1.0); shared specs stay in b",
    ),
    "only versions that went as replaced, though an upgraded stack had, and keeps, a newer one": (
        [record(1, versions=["1.2"], stacks=A), record(2, versions=["1.1"], stacks=AB)],
        [record(1, versions=["1.2"], stacks=A), record(3, versions=["1.3"], stacks=AB)],
        "zlib 1.1 -> 1.3 (1.2 stays in a) +1 -1 in 2 of 2 stacks",
    ),
    "a compiler that another spec keeps, and a stack more": (
        [record(1, variants=["~x"]), record(2, stacks=[*A, "e4s"])],
        [record(3, variants=["~x"], compiler="gcc@12.1.0", stacks=[*A, "e4s"]), record(2, stacks=[*A, "e4s"])],
        "zlib gcc@11.4.0 -> gcc@12.1.0 (gcc@11.4.0 stays) -1",
    ),
    "a variant replaced beside a compiler that only left": (
        [record(1, variants=["~x"]), record(2, variants=["~x"], compiler="gcc@12.1.0")],
        [record(3, variants=["+x"], compiler="gcc@12.1.0")],
        "zlib ~x -> +x +1 -2 in e4s",
    ),
    "what was there before in a stack that another one now has, too": (
        [record(1, versions=["1.1"], stacks=A), record(2, versions=["1.2"], stacks=B)],
        [
            record(3, versions=["1.2"], stacks=A),
            record(2, versions=["1.2"], stacks=B),
            record(4, versions=["1.3"], stacks=B),
        ],
        "zlib 1.1 -> 1.2, 1.2 -> 1.3 (1.2 stays in b) +2 -1 in 2 of 2 stacks; b to 1.3, a to 1.2",
    ),
    "an older version in place of most builds of the newest, which is no downgrade": (
        records([1, 2], versions=["2.0"]),
        [record(1, versions=["2.0"]), record(3)],
        "OLDER VERSIONS ADDED 1 package, +1 -1 zlib 1.0 added in place of builds of 2.0 +1 -1 in e4s on x86_64_v3",
    ),
    "an upgrade of one variant, where others keep the old version": (
        [record(1, variants=["api=a"]), record(2, variants=["api=b"])],
        [record(1, variants=["api=a"]), record(3, variants=["api=b"], versions=["2.0"])],
        "UPGRADED 1 package, +1 -1 zlib 1.0 -> 2.0 only with api=b (1.0 stays) +1 -1 in e4s",
    ),
    "an upgrade of one stack of two, while the other builds the shared old version anew": (
        [record(1, stacks=["a", "b"])],
        [record(2, stacks=["a"], versions=["2.0"]), record(3, stacks=["b"])],
        (
            "UPGRADED 1 package, +1 -1 zlib 1.0 -> 2.0 +1 -1 in a (1 of 2 stacks); not yet in b "
            "MORE COPIES 1 package, +1 zlib 1.0 no longer shared +1 in b"
        ),
    ),
    "builds of one variant get an older version": (
        [record(n, versions=["1.0"], variants=[f"api={v}"]) for n, v in ((1, "a"), (2, "b"))],
        [record(1, versions=["1.0"], variants=["api=a"]), record(3, versions=["0.9"], variants=["api=b"])],
        "zlib 0.9 added in place of builds of 1.0 with api=b +1 -1 in e4s on x86_64_v3",
    ),
    "most builds get an older version, a few a newer one": (
        records([1, 2, 3], versions=["1.0"]),
        [record(4, versions=["1.1"]), *records([5, 6], versions=["0.9"])],
        (
            "UPGRADED 1 package, +1 -1 zlib 1.0 -> 1.1 +1 -1 in e4s "
            "OLDER VERSIONS ADDED 1 package, +2 -2 zlib 0.9 added in place of builds of 1.0 +2 -2 in e4s on x86_64_v3"
        ),
    ),
    "a new variant in the stacks that build it, of builds that one more stack had": (
        [record(n, stacks=["a", "b"], variants=["~x"]) for n in (1, 2)]
        + [record(3, stacks=["a", "b", "c"], variants=["~y"])],
        [record(n, stacks=["a", "b"], variants=["~x", "+s"]) for n in (4, 5)]
        + [record(6, stacks=["a", "b"], variants=["~y", "+s"])],
        "zlib 1.0 now with +s +1 in a, b",
    ),
    "an upgrade of two variants of three": (
        [record(n, variants=[f"api={v}"]) for n, v in enumerate("abc")],
        [
            record(0, variants=["api=a"]),
            *(record(n, variants=[f"api={v}"], versions=["2.0"]) for n, v in ((3, "b"), (4, "c"))),
        ],
        "UPGRADED 1 package, +2 -2 zlib 1.0 -> 2.0 only with api=b, api=c (1.0 stays) +2 -2 in e4s",
    ),
    "a variant of one version that another version still has": (
        [
            record(n, variants=[f"api={v}"], versions=[version])
            for n, v, version in ((1, "a", "1.0"), (2, "b", "1.0"), (3, "b", "2.0"))
        ],
        [record(1, variants=["api=a"]), record(3, variants=["api=b"], versions=["2.0"])],
        "FEWER CONFIGURATIONS 1 package, -1 zlib 1.0 no longer with api=b anywhere -1 in e4s",
    ),
    "what no stack builds any more after a downgrade": (
        [record(1), record(2, versions=["2.0"])],
        [record(1), record(2, versions=["2.0"], stacks=["root"])],
        "zlib 2.0 -> 1.0 (1.0 was there) 1 spec kept in e4s; 1 of these specs is left without a stack: it may be",
    ),
    "the stack that has what a lost place has not": (
        [record(1, stacks=A), record(2, stacks=B)],
        [record(3, versions=["2.0"], stacks=B)],
        "2.0 is in b, 1.0 is gone",
    ),
    "binaries of which a few stay, as equal ones": (
        [record(1, stacks=AB), record(2, stacks=A)],
        [record(1, stacks=B)],
        "a (x86_64_v3) zlib 1.0 -1, 1 spec kept b builds an equal one",
    ),
    "what may be pruned, once": (
        [record(1, stacks=A), record(2, stacks=B, target="zen4")],
        [record(1, stacks=["root"]), record(2, stacks=B, target="zen4")],
        "1 spec kept no stack builds it any more: it may be pruned at any time 1 of 1",
    ),
    "places with shared specs, each with its own number, most first, and once in the total": (
        [*_THREE, *_TWO],
        [],
        "-5 (specs of several lines count once) b (x86_64_v3) zlib 1.0 -5 a (x86_64_v3) zlib 1.0 -3 1 of 1 package",
    ),
}


@pytest.mark.parametrize(("before", "after", "says"), NAMED.values(), ids=NAMED)
def test_what_changed_is_named(run: Run, tmp_path: Path, before: list[Record], after: list[Record], says: str) -> None:
    """Also where no place has something to say of it."""
    assert says in told(run, tmp_path, before, after)


def test_what_changed_beside_the_version_is_named(run: Run, tmp_path: Path) -> None:
    """By --all everything, by --kind what was asked for; in short, the compiler, and another value of a variant."""
    before = [record(1, variants=["~mpi"])]
    after = [record(2, versions=["1.3.0"], compiler="gcc@15.1.0", variants=["+mpi"])]
    short, *longer = (told(run, tmp_path, before, after, *o) for o in ((), ("--all",), ("--kind", "compiler")))

    assert "ALSO" not in short
    assert all("zlib 1.0 -> 1.3.0, now with gcc@15.1.0, +mpi +1 -1" in each for each in (short, *longer))
    assert "zlib compiler gcc@11.4.0 removed; variant ~mpi removed" in longer[0]
    assert "package zlib compiler gcc@11.4.0 removed 1 of 1" in longer[1]


def test_what_another_build_keeps_stays(run: Run, tmp_path: Path) -> None:
    """As of an upgrade whose old version stays, in the same places; what is nowhere else is not said to stay."""
    new = record(3, compiler="gcc@12.1.0")
    assert "gcc@11.4.0 -> gcc@12.1.0 (gcc@11.4.0 stays) +1 -1" in told(run, tmp_path, records([1, 2]), [record(1), new])
    assert "gcc@11.4.0 -> gcc@12.1.0 +1 -1" in told(run, tmp_path, records([1]), [new])
    shared, kept = record(1, stacks=["a", "b"]), record(2, stacks=["b"])
    said = told(run, tmp_path, [shared, kept], [new | {"stacks": ["a", "b"]}, kept])
    assert "gcc@11.4.0 -> gcc@12.1.0 (gcc@11.4.0 stays in b) +1 -1 in a, b" in said
    old = [record(1, stacks=["a"]), record(2, stacks=["a", "b"])]  # in a, which the second one leaves, none stays
    came = [record(number, compiler="gcc@12.1.0", stacks=["a"]) for number in (3, 4)]
    said = told(run, tmp_path, old, [record(2, stacks=["b"]), *came])
    assert "1 package, +2 -1, 1 spec kept zlib gcc@11.4.0 -> gcc@12.1.0 +2 -1, 1 spec kept in a 1 of 1" in said
    both = [record(n, stacks=["a", "b", "c"]) for n in range(9)]  # c keeps four of them
    came = [record(n, compiler="gcc@12.1.0", stacks=["a", "b"]) for n in range(20, 30)]
    said = told(run, tmp_path, both, [*(one | {"stacks": ["c"]} for one in both[:4]), *came])
    assert "zlib gcc@11.4.0 -> gcc@12.1.0 +10 -5, 4 specs kept in a, b" in said
    beside = record(5, compiler="gcc@12.1.0", stacks=["a"])
    said = told(run, tmp_path, [old[1], beside], [record(2, stacks=["b"]), beside])
    assert "zlib 1.0 no longer with gcc@11.4.0 1 spec kept in a 1 of" in said
    assert "zlib 1.0 no longer with +a anywhere -1 in e4s" in told(
        run, tmp_path, [record(1, variants=["+a"]), record(2)], [record(2)]
    )


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ({"platform": "windows"}, "for linux, {} for windows"),
        ({"os": "rhel8"}, "for ubuntu22.04, {} for rhel8"),
        ({"platform": "windows", "os": "win11"}, "for linux ubuntu22.04, {} for windows win11"),
        ({"os": "rhel8", "compiler": "gcc@12.1.0"}, "for ubuntu22.04 gcc@11.4.0, {} for rhel8 gcc@12.1.0"),
    ],
)
def test_another_system_is_no_copy(run: Run, tmp_path: Path, after: dict[str, str], says: str) -> None:
    """Specs for another system in the same stack are told together, whatever their hashes, if some are left for the old one."""
    old, new = [record(8)], [record(9, **after)]
    for numbers in (range(4), range(10, 14)):
        for others, fewer, more in ((old, "fewer", "now"), ([*old, *new], "fewer", "more")):
            said = told(run, tmp_path, [*records(range(4)), *others], [*records(numbers, **after), *others])
            assert f"BUILT IN ANOTHER WAY 1 package, +4 -4 zlib 1.0 {fewer} {says.format(more)} +4 -4 in e4s" in said
            assert "COPIES" not in said
    shared = [record(number, stacks=["a", "b"]) for number in range(4)]
    for other in (after, {"target": "zen4"}):  # in one of the stacks only, or beside copies that went
        said = told(run, tmp_path, shared, [*shared[2:], record(9, **other, stacks=["a"])])
        assert "FEWER COPIES 1 package, -2 zlib 1.0 -2 in a, b" in said


@pytest.mark.parametrize("options", [[], ["--stack", "a"]])
def test_what_a_selected_system_has_newly_is_no_copy(run: Run, tmp_path: Path, options: list[str]) -> None:
    """The places had builds of the version, but none that is selected."""
    before = [record(1, stacks=A), record(2, stacks=B, os="rhel8")]
    after = [record(1, stacks=A), record(3, stacks=A, os="rhel8"), record(2, stacks=B, os="rhel8")]
    said = told(run, tmp_path, before, after, "--os", "rhel8", *options)
    assert "CONFIGURATIONS ADDED 1 package, +1 zlib 1.0 now also with rhel8 +1 in a 1 package" in said
    assert "COPIES" not in said


def test_a_place_that_got_another_compiler_is_widened_and_narrowed(run: Run, tmp_path: Path) -> None:
    """It lost one and gained one; a place that only gained one is not narrowed."""
    old, new = records([1]), [record(2, compiler="gcc@14.2.0")]
    for kind in ("widened", "narrowed"):
        said = told(run, tmp_path, old, new, "--kind", kind)
        assert "zlib gcc@11.4.0 -> gcc@14.2.0 +1 -1 in e4s 1 of 1 package has changes of these kinds" in said
    assert "Nothing of what was asked for." in told(run, tmp_path, old, [*old, *new], "--kind", "narrowed")


def test_what_a_removed_stack_adds_is_rebuilt_for_others(run: Run, tmp_path: Path) -> None:
    before = {f"p{n}": [record(n, stacks=AB)] for n in range(5)}
    after = {f"p{n}": [record(10 + n, stacks=A)] for n in range(5)}
    for side, packages in (("old", before), ("new", after)):
        write(tmp_path / side, {f"{name}.md": document(found, package=name) for name, found in packages.items()})
    said = " ".join(run("diff", tmp_path / "old", tmp_path / "new").output.split())
    assert "STACK REMOVED b 5 packages, +5 -5" in said
    assert "5 of its specs were rebuilt for other stacks, which still build them" in said
    write(
        tmp_path / "none",
        {f"{name}.md": document([record(20 + n, stacks=[])], package=name) for n, name in enumerate(after)},
    )
    assert "rebuilt for" not in run("diff", tmp_path / "old", tmp_path / "none").output


def test_what_a_removed_package_had_is_counted_in_all(run: Run, tmp_path: Path) -> None:
    """Also the specs that are counted with a removed stack."""
    found = [*records([1, 2], stacks=A), record(3, stacks=B)]
    kept = document(records([9], stacks=A), package="other")
    write(tmp_path / "old", {"zlib.md": document(found), "abc.md": document(found, package="abc"), "other.md": kept})
    write(tmp_path / "new", {"other.md": kept})
    said = " ".join(run("diff", tmp_path / "old", tmp_path / "new").output.split())
    assert "STACK REMOVED b 2 packages, -2 2 packages are gone in no stack any more: all of them abc, zlib" in said
    assert "abc removed, had 1.0 -2 in a; 1 more of its specs is counted in another statement zlib removed" in said


def test_a_reason_is_given_for_each_lost_version(run: Run, tmp_path: Path) -> None:
    """In JSON as in text: one binary stays in another stack, of the other an equal one."""
    old = record(2, versions=["0.9"], stacks=A)
    before = [record(1, stacks=AB), old, old | {"hash": spec_hash(3), "stacks": B}]
    after = [record(1, stacks=B), before[2]]
    told(run, tmp_path, before, after)
    output = run("diff", tmp_path / "before.md", tmp_path / "after.md", "--format", "json").output
    (place,) = json.loads(output)["changesets"][0]["packages"][0]["places"]
    reason = "of 1.0: the same binaries are in b; of 0.9: b builds an equal one"
    assert place["loss"]["reason"] == reason


def test_a_lost_system_is_a_loss(run: Run, tmp_path: Path) -> None:
    """Nothing is left for the old one, whatever the same stack builds for another."""
    target = told(run, tmp_path, [record(1)], [record(2, target="zen4")])
    system = told(run, tmp_path, [record(1)], [record(2, os="rhel8")])

    assert "LOST PLACES 1 package, -1 e4s (x86_64_v3) zlib 1.0, now on zen4 -1" in target
    assert "LOST MACHINES 1 package, -1 e4s (ubuntu22.04, x86_64_v3) zlib 1.0, now on rhel8 -1" in system
    assert "-1: 1 in lost machines)" in system
    both = told(run, tmp_path, [record(1)], [record(2, os="rhel8", target="zen4")])
    assert "e4s (x86_64_v3) zlib 1.0, now on zen4 (rhel8) -1" in both
    assert "zlib 1.0 +1 in e4s on zen4 (rhel8)" in both
    old, new = ([record(n, versions=[f"1.{n}"], target=target) for n in (1, 2)] for target in ("x86_64_v3", "zen4"))
    assert "zlib 1.1, 1.2; now 1.2 on zen4 -2" in told(run, tmp_path, old, new[1:])


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ([AB, A], [B, A], "STACKS CHANGED 1 package, {} zlib 1.0 some no longer in a {} 1 of 1"),
        ([A, A, B], [B, A, B], "STACKS CHANGED 1 package, {} zlib 1.0 some no longer in a, some now in b {} 1 of 1"),
        ([A, A], [B, A], "BUILT IN NEW PLACES 1 package, {} zlib 1.0, some no longer in a {} in b on x86_64_v3 1 of 1"),
        ([A, B], [B, B], "LOST PLACES 1 package, {} a (x86_64_v3) zlib 1.0, some now in b {}"),
    ],
)
def test_stacks_of_a_move(run: Run, tmp_path: Path, before: list[list[str]], after: list[list[str]], says: str) -> None:
    """Those that it left and joined, in one line; a stack with other specs of the version has fewer or more."""
    old = [record(position, stacks=stacks) for position, stacks in enumerate(before)]
    for number, count in ((0, "1 spec kept"), (5, "+1 -1")):
        new = [record(position or number, stacks=stacks) for position, stacks in enumerate(after)]

        assert says.format(count, count) in told(run, tmp_path, old, new)


def test_documents_without_hashes_are_compared_by_their_records(run: Run, tmp_path: Path) -> None:
    """Equal records are kept, nothing is rebuilt, and no output has a hash that no document names."""
    before = [*records(range(3)), record(3, versions=["2.0"])]
    after = [*records(range(10, 13)), record(13, versions=["3.0"])]
    bare = [
        [{name: value for name, value in one.items() if name != "hash"} for one in side] for side in (before, after)
    ]
    note = "inconsistent: specs without a hash: binaries cannot be told apart, so records are compared, and rebuilt specs do not show"
    partly = [before[0], *bare[0][1:]]

    for old, new in ((bare[0], bare[0]), (before, bare[0]), (bare[0], before), (partly, before)):
        assert "No differences in 1 package." in told(run, tmp_path, old, new)
    for old, new in (bare, (before, bare[1]), (bare[0], after)):
        assert "zlib 2.0 -> 3.0 +1 -1 in e4s 1 of 1 package changed" in told(run, tmp_path, old, new)
    done = run("diff", tmp_path / "before.md", tmp_path / "after.md", "--format", "json")
    (package,) = json.loads(done.output)["changesets"][0]["packages"]
    assert [spec["hash"] for side in ("added", "removed") for spec in package["specs"][side]] == [None, None]
    assert (done.exit_code, done.error) == (0, f"cachewatch: warning: {tmp_path / 'before.md'}: {note}\n")
    assert "Signature" not in run("diff", tmp_path / "before.md", tmp_path / "after.md", "--format", "csv").output
