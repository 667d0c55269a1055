"""What reports count: packages on both sides, specs that two stacks share, hashes that others replaced."""

from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from digests import digest_of, mail, read, week
from helpers import catalogue, document, history, lock, record, records, write

from cachewatch.core.filters_and_spec_patterns import Globs, Selection

SHARED = {f"p{n}": [record(n, stacks=["gpu", "ml"]), record(10 + n, stacks=["e4s"])] for n in range(3)}
LEFT = {name: specs[1:] for name, specs in SHARED.items()}
ONE, OTHER, THIRD = ({f"p{n}": [record(n)]} for n in range(3))


def compared(run: Run, folder: Path, before: dict[str, Any], after: dict[str, Any], *options: str) -> str:
    """Return the report on two states."""
    repository = history(folder / "r.git", catalogue(before), catalogue(after))
    return run("diff", "HEAD~1", "HEAD", "--repo", repository, *options).output


@pytest.mark.parametrize(("before", "after", "sign"), [(SHARED, LEFT, "-"), (LEFT, SHARED, "+")])
def test_specs_of_two_stacks_count_once_and_belong_to_both(
    run: Run, tmp_path: Path, before: dict[str, Any], after: dict[str, Any], sign: str
) -> None:
    """Each stack is named with all of its packages, though only one of them counts the specs that they share."""
    said = compared(run, tmp_path, before, after)
    counted, shared = [block for block in said.split("\n\n") if "STACK" in block]
    assert f"3 packages, {sign}3" in counted
    assert "3 packages\n" in shared
    assert "3 more of its specs are counted in another statement" in shared


def test_a_renamed_stack_counts_what_it_has(run: Run, tmp_path: Path) -> None:
    """Not twice what its specs replaced; `in the whole tag` does not say that kept specs came or went."""
    before = {f"p{n}": [record(n, stacks=["gpu"])] for n in range(9)}
    after = {f"p{n}": [record(10 + n, versions=["2.0"], stacks=["ml"])] for n in range(9)}
    assert "9 more of its specs" in compared(run, tmp_path / "a", before, after)
    kept = {f"p{n}": [record(n, stacks=["ml"])] for n in range(9)}
    said = compared(run, tmp_path / "b", before, kept, "--package", "p1")
    assert "this is about 9 specs: added, removed and kept ones together" in " ".join(said.split())


def test_nothing_replaces_what_is_gone_with_a_stack(run: Run, tmp_path: Path) -> None:
    """Hashes that are gone are only said to be replaced where others came."""
    assert "HASHES GONE" not in compared(run, tmp_path, SHARED, LEFT, "--stack", "gpu")


NEWER, OLDER = record(1, versions=["1.2"]), record(2, versions=["1.1"])
SEVERAL = [{"zlib": [record(5, versions=["1.2.1"]), record(n, versions=["1.2.1", "1.2.2"][2 - n :])]} for n in (1, 2)]
BOTH = {"p0": [record(0, stacks=["e4s", "gpu"]), record(5, stacks=["gpu"])]}
GPU = [
    {f"p{n}": [record(n, stacks=[*own, "ml"]), record(10 + n, stacks=own), record(20 + n)] for n in range(3)}
    for own in (["gpu"], [])
]
TURNED = [
    {f"p{n}": [record(n + new, stacks=["gpu"]), *records(range(20 + 3 * n, 23 + 3 * n))] for n in range(6)}
    for new in (0, 9)
]
# Two states, options, and what is said of them.
SAID: dict[str, Any] = {
    "new packages are none that could change": (ONE, ONE | OTHER, "", "0 of 1 package changed, 1 more is new;"),
    "nor are removed ones": (
        ONE | OTHER,
        OTHER | THIRD,
        "",
        "0 of 1 package changed, 1 more is new, 1 more was removed;",
    ),
    "there is none that could": (ONE, OTHER, "", "1 package is new, 1 more was removed;"),
    "what is kept where a stack lost it may be pruned at any time": (
        *({"p": [record(1, stacks=own), record(2, stacks=["ml"])], "q": [record(3)]} for own in (["e4s"], [])),
        *("", "1 of these specs is left without a stack"),
    ),
    "all versions of a spec are named": (*SEVERAL, "", "zlib 1.2.2 -> 1.2.1, 1.2.2"),
    "only what no stack builds is counted where that was asked for": (
        *(*GPU, "--kind=unreferenced"),
        "STACK REMOVED gpu 3 packages, 3 specs kept",
    ),
    "hashes that are gone are of a selection, and their packages have this change": (
        *(*TURNED, "--stack gpu --kind turnover"),
        "HASHES GONE 100% of the earlier hashes that you selected 6 packages have changes of these kinds",
    ),
    "what was removed and what gave way to others share a row": (
        {"p": [NEWER, OLDER, *records((5, 6), versions=["1.1"])]},
        *({"p": [NEWER, record(3, versions=["1.2"])]}, ""),
        "p 1.1 removed, more builds of 1.2 +1 -3 from e4s on x86_64_v3 1 of 1 package changed; their specs: 4 -> 2 (+1: 1 in place of older versions; -3: 3 of older versions)",
    ),
    "and is kept": (*GPU, "--kind=unreferenced", "(3 kept with changed stacks)"),
} | {
    f"an older version gives way to one that was there {kind}": (
        *({"p": [NEWER, one]} for one in (OLDER, record(3, versions=["1.2"]))),
        *(kind, "p 1.1 removed, more builds of 1.2 +1 -1"),
    )
    for kind in ("", "--kind=upgraded")
}


@pytest.mark.parametrize("case", SAID)
def test_what_is_said_of_two_states(run: Run, tmp_path: Path, case: str) -> None:
    before, after, options, said = SAID[case]
    assert said in " ".join(compared(run, tmp_path, before, after, *options.split()).split())


def test_two_tags_are_both_named_where_numbers_are_asked_for(run: Run, tmp_path: Path) -> None:
    """The heading of --stat names what is compared. A place whose tag keeps one of two equal binaries has that one."""
    repository = history(tmp_path / "r.git", catalogue(ONE) | catalogue(ONE | OTHER, "v1") | catalogue(BOTH, "v2"))
    assert run("diff", "HEAD:develop", "HEAD:v1", "--stat", "--repo", repository).output.startswith("develop -> v1")
    assert "e4s builds an equal one" in run("diff", "HEAD:v2", "HEAD:v1", "--package=p0", "--repo", repository).output


def test_a_new_snapshot_is_compared_with_the_one_that_it_replaces(run: Run, tmp_path: Path) -> None:
    """The one before it in its series, though that is removed in the same range."""
    days = ("develop-2025-06-01", "develop-2025-06-08")
    states = (catalogue(ONE) | catalogue(own, day) for own, day in zip((ONE, ONE | OTHER), days, strict=True))
    repository = history(tmp_path / "r.git", *states)
    said = run("diff", "HEAD~1", "HEAD", "--tag", "develop-*", "--repo", repository).output
    assert said.startswith(f"{days[0]} -> new tag {days[1]}")
    assert "0 of 1 package changed, 1 more is new" in said


def test_a_log_names_what_is_built_in_another_way(run: Run, tmp_path: Path) -> None:
    """And what configurations came, with their stacks."""
    other = {"compiler": "gcc@12.3.0"}
    states = [record(1)], [record(2, **other)], [record(2, **other), record(3, **other, variants=["+cuda"])]
    repository = history(tmp_path / "r.git", *(catalogue({"zlib": own}) for own in states))
    said = run("log", "zlib", "--repo", repository).output
    assert "zlib (gcc@11.4.0 -> gcc@12.3.0 in e4s) built in another way" in said
    assert "zlib (1.0 now also with +cuda in e4s) in new configurations" in said


def test_a_log_names_the_stacks_of_an_upgrade(run: Run, tmp_path: Path) -> None:
    """Where other stacks still have the old version, a target alone would promise too much."""
    old = records(range(3), stacks=["e4s"], target="aarch64"), records(range(5, 8), stacks=["ml"], target="aarch64")
    new = records(range(10, 13), stacks=["e4s"], target="aarch64", versions=["9.9"])
    repository = history(tmp_path / "r.git", catalogue({"p": [*old[0], *old[1]]}), catalogue({"p": [*new, *old[1]]}))
    assert "9.9 in e4s (1 of 2 stacks)" in run("log", "--repo", repository).output


def test_a_path_keeps_its_letters(run: Run, tmp_path: Path) -> None:
    """Paths that the user typed are no names of strangers."""
    (content,) = catalogue(ONE).values()
    files = [write(tmp_path, {name: content}) / name for name in ("für.md", "nach.md")]
    assert f"{files[0]} -> {files[1]}" in " ".join(run("diff", *files).output.split())


def test_a_lock_file_is_no_document(run: Run, tmp_path: Path) -> None:
    """Beside documents, it is named with the commands that take it."""
    file = lock(tmp_path / "spack.lock", ("zlib", "1.3", "a"))
    assert "a lock file is no document; `cachewatch diff` compares it" in run("diff", file, tmp_path).error_of(2)


def test_a_package_whose_document_cannot_be_read_is_not_said_to_be_missing(run: Run, tmp_path: Path) -> None:
    """The folder may have it, and exit code 4 says that something could not be read."""
    write(tmp_path, {"p0.md": next(iter(catalogue(ONE).values())), "p1.md": b"---\ntitle: p1\n"})
    (tmp_path / "p2.md").symlink_to("nowhere")
    assert "unless it is in a document that could not be read" in run("show", "p2", "--repo", tmp_path).error_of(4)


@pytest.mark.parametrize(
    ("stack", "said"),
    [
        ("gpu", "NO LONGER BUILT zen4 5 packages, -5, in gpu 5 packages have equal builds for zen3 in 3 stacks p0"),
        ("hpc", "STACK REMOVED hpc 5 packages, -5 5 packages have equal builds for zen3 in other stacks p0"),
    ],
)
def test_equal_builds_for_another_target_name_it(run: Run, tmp_path: Path, stack: str, said: str) -> None:
    """The target that is gone has no builds; the stack that had them is no other one."""
    after = {f"p{n}": [record(n, stacks=["gpu", "ml", "e4s"], target="zen3")] for n in range(5)}
    before = {
        name: [*own, record(10 + n, stacks=[stack], target="zen4")] for n, (name, own) in enumerate(after.items())
    }
    assert said in " ".join(compared(run, tmp_path, before, after).split())


def test_a_removed_stack_lost_its_own_machines(tmp_path: Path) -> None:
    """What a migration took from other stacks is no part of it."""
    old, new = ({"os": f"ubuntu{year}.04"} for year in (24, 22))
    before = {f"p{n}": [record(n, stacks=["arm"], target="aarch64", **old)] for n in range(6)}
    after = {name: [record(10 + n, stacks=["arm"], target="aarch64", **new)] for n, name in enumerate(before)}
    hpc = {name: [*own, record(20 + n, stacks=["hpc"], **old)] for n, (name, own) in enumerate(before.items()) if n < 4}
    body = mail(digest_of(week(tmp_path, before | hpc, after)))[1]
    assert "4 packages have no other build for x86_64_v3 (p0" in body


def test_a_range_takes_no_second_name(run: Run, tmp_path: Path) -> None:
    """It has both."""
    said = run("diff", "HEAD~1..HEAD", "HEAD", "--repo", history(tmp_path / "r.git", catalogue(ONE), catalogue(OTHER)))

    assert (said.exit_code, "HEAD~1..HEAD is a range, which takes no AFTER" in said.error) == (2, True)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("read", "broken", "-3 3 packages have equal builds in e4s a document that cannot be read may still have it"),
        ("broken", "read", "NEW STACK gpu 3 packages, +3 a document that could not be read may have had it before"),
        ("read", "read", "NEW STACK gpu 3 packages, +3 p0, p1, p2"),
    ],
)
def test_an_unreadable_document_may_have_a_stack(run: Run, tmp_path: Path, before: str, after: str, said: str) -> None:
    """It counts on the side on which no other document has the stack, and on no other."""
    path = "_cache/develop/x/specs.md"
    plain = catalogue({"x": [record(90)]})[path]
    contents = {"read": {path: plain}, "broken": {path: plain[:80]}}
    gpu = {name: [*specs, record(20 + n, stacks=["gpu"])] for n, (name, specs) in enumerate(LEFT.items())}
    states = (LEFT, gpu) if after == "read" else (gpu, LEFT)
    sides = [catalogue(state) | contents[side] for state, side in zip(states, (before, after), strict=True)]
    found = run("diff", "HEAD~1", "HEAD", "--repo", history(tmp_path / "r.git", *sides)).output

    assert said in " ".join(found.split())


@pytest.mark.parametrize("layout", ["broken", "twice"])
def test_a_stack_of_the_document_of_one_side_is_not_judged_by_what_went(run: Run, tmp_path: Path, layout: str) -> None:
    """Packages that stay show that a stack was removed or is new, packages of one side show nothing of it."""
    stacks = ["e4s", "gpu"]
    files = {f"p{n}.md": document(records(range(9 * n, 9 * n + 5), stacks=stacks), package=f"p{n}") for n in range(5)}
    whole, part = tmp_path / "whole", tmp_path / "part"
    one = files["p0.md"]
    write(whole, files)
    write(part, {"p0.md": one, "again.md": one} if layout == "twice" else {"p0.md": one[:-40]})
    gone, new = "PACKAGES REMOVED  4 packages, -20", "NEW PACKAGES  4 packages, +20"
    for before, after, said in ((whole, part, gone), (part, whole, new)):
        output = run("diff", before, after).output
        assert said in output
        assert "STACK" not in output
    assert run("diff", whole, part, "--fail-on", "stack-lost,stack-event").exit_code != 1


def test_packages_that_stay_show_that_a_stack_was_removed(run: Run, tmp_path: Path) -> None:
    """Though a document that cannot be read had it, too."""
    path = "_cache/develop/x/specs.md"
    both = {f"p{n}": records([n, n + 50], stacks=["e4s", "gpu"]) for n in range(5)}
    before = catalogue(both | {"x": [record(99, stacks=["gpu"])]})
    after = catalogue({f"p{n}": records([n, n + 50], stacks=["e4s"]) for n in range(5)} | {"x": [record(99)]})
    after[path] = after[path][:80]
    said = run("diff", "HEAD~1", "HEAD", "--repo", history(tmp_path / "r.git", before, after)).output

    assert "STACK REMOVED  gpu" in said


def test_what_a_filter_leaves_out_is_not_said_to_be_new(run: Run, tmp_path: Path) -> None:
    """The place may have had it before; nor is an upgrade of other versions told."""
    newer = record(2, versions=["2.0"])
    said = compared(run, tmp_path, {"zlib": [record(1), newer]}, {"zlib": [newer]}, "--versions", "1.0")

    assert "zlib 1.0; 2.0 is there (outside of the filter)" in said
    newest = record(3, versions=["2.1"])
    said = compared(
        run, tmp_path / "2", {"zlib": [record(1), newer]}, {"zlib": [record(4), newest]}, "--versions", "1.0"
    )
    assert "REBUILT  1 spec of zlib" in said
    assert "UPGRADED" not in said


def test_a_tag_of_a_name_that_is_not_allowed_is_named_where_it_differs(run: Run, tmp_path: Path) -> None:
    """It cannot be compared, which is no reason to say that all documents are the same."""
    odd = {name: catalogue(state, "d\u00e9velop") for name, state in (("old", ONE), ("new", OTHER))}
    plain = catalogue(ONE)
    for name, code in (("new", 4), ("old", 0)):
        repository = history(tmp_path / f"{name}.git", plain | odd["old"], plain | odd[name])
        said = run("diff", "HEAD~1", "HEAD", "--repo", repository)
        assert said.exit_code == code
        assert ("ignored 'd\u00e9velop': names may have only letters of ASCII" in said.error) == (code == 4)


def test_tables_count_unmatched_specs_by_another_name_than_the_kind_gone(run: Run, tmp_path: Path) -> None:
    """The kind is what has nothing left or an older version."""
    said = compared(run, tmp_path, {"p": [record(1), record(2)]}, {"p": [record(1)]}, "--format", "csv")

    assert "develop,p,unmatched-removed,,,,1," in said
    assert "develop,p,gone" not in said


def test_surplus_copies_are_of_a_package(run: Run, tmp_path: Path) -> None:
    """The log names it; a digest counts them once, also if a place that lost an older version had some of them."""
    before, after = {"zlib": records(range(3))}, {"zlib": records(range(1))}
    said = run("log", "--repo", history(tmp_path / "r.git", catalogue(before), catalogue(after))).output

    assert "2 surplus copies of zlib" in said
    versions = records(range(3)) + [record(n, versions=["1.1"], stacks=["ml"]) for n in (4, 5)]
    before = {"zlib": [*versions, record(6, stacks=["ml"])]}
    after = {"zlib": [versions[0], versions[3]]}
    tag = week(tmp_path / "s", before, after, selection=Selection(kinds=Globs(["retired"])))
    assert "Routine 3 surplus copies of zlib went. 3 packages hidden by" in mail(digest_of(tag))[1]


def test_a_gate_says_that_only_the_selected_versions_are_lost(run: Run, tmp_path: Path) -> None:
    """Another version, outside of the filter, may be there."""
    states = ({"p": [record(1, versions=["1.1"]), record(2)]}, {"p": [record(2)]})
    repository = history(tmp_path / "r.git", *map(catalogue, states))
    gate = ("diff", "HEAD~1", "HEAD", "--repo", repository, "--fail-on", "lost", "-q", "--versions")

    assert "p in e4s (x86_64_v3): 1.1 is gone, 1.0 is there (of the selected versions)\n" in run(*gate, "1.1").error


def test_a_table_has_one_row_for_a_spec_that_left_the_selected_stack(run: Run, tmp_path: Path) -> None:
    """The document keeps it: it is no removed spec, and none that was added for the stack that it joined."""
    states = {"p": [record(1, stacks=["e4s", "gpu"])]}, {"p": [record(1, stacks=["e4s", "ml"])]}
    for stack in ("gpu", "ml"):
        said = compared(run, tmp_path / stack, *states, "--stack", stack, "--format", "csv")
        assert "develop,p,restacked,,gpu,ml," in said
        assert "develop,p,spec-" not in said


@pytest.mark.parametrize(
    ("key", "own", "other"),
    [("target", "x86_64_v3", "aarch64"), ("os", "u22", "u24"), ("compiler", "gcc@12.1.0", "gcc@13.1.0")],
)
def test_stacks_of_an_upgrade_within_a_selection(run: Run, tmp_path: Path, key: str, own: str, other: str) -> None:
    """A stack without such builds is no part of the sum, and is not behind; a digest says the same."""
    others = [record(8, versions=["1.0"], stacks=["cray"], **{key: other})]
    values = (
        (first + n, version, stack) for first, version in ((1, "1.1"), (4, "1.2")) for n, stack in enumerate("ab")
    )
    specs = [record(n, versions=[version], stacks=[stack], **{key: own}) for n, version, stack in values]
    before, after = ({"p": [*others, *each]} for each in (specs[:2], specs[2:]))
    said = " ".join(compared(run, tmp_path, before, after, f"--{key}", own).split())
    assert "p 1.1 -> 1.2 +2 -2 in 2 of 2 stacks" in said
    assert "not yet" not in said
    patterns = {name: Globs([own] if key == name else []) for name in ("target", "os", "compiler")}
    selection = Selection(targets=patterns["target"], oses=patterns["os"], compilers=patterns["compiler"])
    assert "p 1.1 -> 1.2 2 of 2 stacks" in mail(digest_of(read(tmp_path / "r.git", selection=selection)))[1]
    kept = [record(n, versions=["1.1"], stacks=["b", "d"][:n], **{key: value}) for n, value in ((1, own), (2, other))]
    said = " ".join(compared(run, tmp_path / "kept", before, {"p": [*kept, *after["p"][1:]]}, f"--{key}", own).split())
    assert "p 1.1 -> 1.2 (1.1 stays in b) +2" in said
    after = {"p": [record(9, **others[0] | {"versions": ["1.1"]}), before["p"][1], after["p"][2]]}
    said = " ".join(compared(run, tmp_path / "behind", before, after, f"--{key}", own).split())
    assert "p 1.1 -> 1.2 (1.1 stays in 1 other selected stack) +1 -1 in b (1 of 2 stacks); not yet in a" in said
    said = " ".join(compared(run, tmp_path / "outside", before, after, "--stack", "b").split())
    assert "p 1.1 -> 1.2 (1.1 stays in 2 stacks outside of the filter) +1 -1 in b" in said


def test_what_is_gone_with_a_stack_is_gone_for_its_machines(run: Run, tmp_path: Path) -> None:
    """Where the tag keeps it for others; what it has nowhere any more is gone."""
    linux = {f"p{n}": [record(n)] for n in range(3)}
    mac = {"os": "sequoia", "platform": "darwin", "stacks": ["mps"], "target": "aarch64"}
    before = {f"p{n}": [*linux.get(f"p{n}", []), record(10 + n, **mac)] for n in range(3)}
    said = compared(run, tmp_path / "all", before, linux)
    assert "STACK REMOVED  mps  3 packages, -3\n  3 packages are gone for sequoia, aarch64\n" in said
    said = compared(run, tmp_path / "some", before | {"q": [record(20, **mac)]}, linux)
    assert "4 packages are gone (3 only for sequoia, aarch64)" in said
    shared = {f"p{n}": records([n], stacks=["big", "small"][: 1 + n]) for n in range(2)}
    before = shared | {"q": [record(2, stacks=["big"]), record(3, stacks=["small"])]}
    said = compared(run, tmp_path / "removed", before, {"z": [record(4)]}, "--all")
    assert "STACK REMOVED  small" in said
    assert "only for" not in said


def test_changed_values_are_those_of_their_stacks_and_machines(run: Run, tmp_path: Path) -> None:
    """Other stacks lost only the same specs, and other machines keep the old system."""
    before, after = (
        {f"p{n}": [record(n), record(first + n, os=system, target="aarch64", stacks=["cpu"])] for n in range(5)}
        for first, system in ((10, "ubuntu22.04"), (20, "rhel9"))
    )
    assert "5 packages are gone for ubuntu22.04, aarch64\n" in compared(run, tmp_path / "os", before, after)
    more = [{"os": one, "target": "neoverse_v1", "stacks": ["cpu"]} for one in ("ubuntu22.04", "rhel9")]
    old, new = (
        {f"p{n}": [*side[f"p{n}"], record(50 + n, **own)] for n in range(5)}
        for side, own in zip((before, after), more, strict=True)
    )
    said = compared(run, tmp_path / "targets", old, new)
    assert "5 packages are gone for ubuntu22.04 on aarch64, neoverse_v1\n" in said
    after = {f"p{n}": [record(10 + n, target="zen4", stacks=["cpu"]), record(20 + n, stacks=["ml"])] for n in range(5)}
    before = {
        name: [*own, record(n, stacks=["cpu", "gpu"][: 1 + n % 2])] for n, (name, own) in enumerate(after.items())
    }
    said = compared(run, tmp_path / "target", before, after)
    assert "BUILT  x86_64_v3  5 packages, -5, in cpu, some specs shared with gpu\n  5 packages have equal" in said


def test_a_prune_names_the_older_versions_that_it_took(run: Run, tmp_path: Path) -> None:
    """Of copies, the builds that readers use are still there."""
    after = {f"p{n}": [record(n)] for n in range(6)}
    before = {f"p{n}": [record(n), record(6 + n, versions=[f"{n and 1}.0"])] for n in range(6)}
    repository = history(tmp_path / "r.git", catalogue(before), catalogue(after))
    said = "6 binaries were pruned; older versions are gone: p0 0.0 from e4s."
    assert said in mail(digest_of(read(repository)))[1]
    found = run("diff", "HEAD~1", "--repo", repository, "--fail-on", "retired")
    assert "PRUNED  6 packages, -6\n  copies of builds that stay; older versions: p0 0.0 from e4s\n" in found.output
    assert "--fail-on retired: p0 in e4s (x86_64_v3)\n" in found.error
