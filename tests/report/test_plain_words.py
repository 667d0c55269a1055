"""What `diff` says of simple edits is what happened, in words that nobody has to interpret."""

import copy
import json
import re
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from conftest import Run
from digests import NOW, digest_of, mail, many, read, returned, week
from helpers import Packages, Record, catalogue, demo_records, document, flat, history, record, write
from msgspec.structs import replace

from cachewatch.core.advice.waits_and_reminders import OpenAction, Remembered
from cachewatch.core.filters_and_spec_patterns import select
from cachewatch.report.digests.rendering_and_sizes import render_digest


def said(run: Run, folder: Path, before: Packages, after: Packages, *options: str) -> str:
    """Return what `diff` of two folders says, without line breaks."""
    folder = Path(mkdtemp(dir=folder))
    sides = write(folder / "before", flat(before)), write(folder / "after", flat(after))
    return " ".join(run("diff", *sides, *options).output.split())


def with_stacks(documents: Packages, names: dict[str, str]) -> Packages:
    """Return the same documents with stacks of other names, or without those whose new name is empty."""
    documents = copy.deepcopy(documents)
    for records in documents.values():
        for one in records:
            one["stacks"] = [found for stack in one["stacks"] if (found := names.get(stack, stack))]
    return documents


def packages_of(stacks: list[str], count: int, start: int = 0) -> Packages:
    """Return so many packages of one spec each, in some stacks."""
    return {f"p{n:02}": [record(n + start, stacks=[*stacks, "root"])] for n in range(count)}


def test_a_renamed_stack_lost_nothing(run: Run, tmp_path: Path) -> None:
    """It has another name, with the same hashes and with others; in a catalogue of few packages, too."""
    old, new = packages_of(["old"], 30), packages_of(["new"], 30)
    renamed = said(run, tmp_path, old, new)
    rebuilt = said(run, tmp_path, old, packages_of(["new"], 30, 100))
    few = said(run, tmp_path, demo_records(), with_stacks(demo_records(), {"ml-linux-x86_64-rocm": "rocm7"}))
    assert "STACK RENAMED old is now called new 30 packages, 30 specs kept" in renamed
    assert "STACK RENAMED old is now called new 30 packages, +30 -30" in rebuilt
    assert "STACK RENAMED ml-linux-x86_64-rocm is now called rocm7 4 packages, 49 specs kept" in few
    own, newly = ({"p00": [record(n, stacks=[s]), record(300)]} for n, s in ((0, "old"), (200, "new")))
    some = said(run, tmp_path, old | own, new | newly)
    assert "STACK RENAMED old is now called new 30 packages, +1 -1, 29 specs kept" in some
    told = " ".join((renamed, rebuilt, few, some))
    assert not [words for words in ("lost there", "new there", "equal") if words in told]


def test_what_a_renamed_stack_lost_is_named(run: Run, tmp_path: Path) -> None:
    """A package that the stack of the new name does not have, and one that the old one did not have."""
    old, new = packages_of(["old", "e4s"], 31), packages_of(["new", "e4s"], 31)
    old["p30"], new["p07"] = ([record(number, stacks=["e4s", "root"])] for number in (30, 7))
    told = said(run, tmp_path, old, new)
    assert "LOST PLACES 1 package, 1 spec kept new (x86_64_v3) p07 1.0 1 spec kept the same binaries are" in told
    assert "new there: p30" in told
    states = ((40, "old", "3"), (41, "new", "2"))
    before, after = (packages_of([name], 9) | {"xz": [record(n, versions=[v], stacks=[name])]} for n, name, v in states)
    for version in "32":  # what a filter leaves is told with the new name, too
        told = said(run, tmp_path, before, after, "--versions", f"@{version}")
        assert "STACK RENAMED old is now called new 1 package" in told
    for kind, names in (("downgraded", {"xz"}), ("place-lost", {*packages_of([], 9)}), ("upgraded", set[str]())):
        asked = [said(run, tmp_path, before, after, "--kind", kind, "--format", name) for name in ("json", "csv")]
        (found,) = json.loads(asked[0])["changesets"]
        assert {one["name"] for one in found["packages"]} == names
        assert {one for each in found["statements"] for one in each["packages"]} == names
        assert set(re.findall(r"develop,(\w+),", asked[1])) == names
        assert "stack-merged" not in asked[1]


def test_a_stack_of_a_small_tag_is_removed(run: Run, tmp_path: Path) -> None:
    """It is half of the packages at least; one document that leaves a stack is a lost place."""
    after = with_stacks(demo_records(), {"ml-linux-x86_64-rocm": ""})
    told = said(run, tmp_path, demo_records(), after)
    joined = said(run, tmp_path, after, demo_records())
    assert "STACK REMOVED ml-linux-x86_64-rocm 4 packages, 49 specs kept" in told
    assert "NEW STACK ml-linux-x86_64-rocm 4 packages, 49 specs kept" in joined
    assert "LOST PLACES" in said(run, tmp_path, *without("py-build", "ml-linux-x86_64-rocm"))


def without(package: str, stack: str) -> tuple[Packages, Packages]:
    """Return a document of the demo as it is, and without a stack."""
    before = {package: demo_records()[package]}
    return before, with_stacks(before, {stack: ""})


def test_what_no_stack_builds_is_said_to_go(run: Run, tmp_path: Path) -> None:
    """For which system, as other stacks build it for others; it says so for --kind unreferenced, too."""
    states = without("py-build", "e4s")
    line = (
        "e4s (ubuntu22.04, x86_64_v3) py-build 1.2.1, 1.2.2 8 specs kept "
        "no stack builds it any more: it may be pruned at any time"
    )
    digest = digest_of(read(history(tmp_path / "r.git", *map(catalogue, states))))
    text = " ".join(render_digest(digest).text.split())
    assert line in said(run, tmp_path, *states)
    assert line in said(run, tmp_path, *states, "--kind", "unreferenced")
    assert "no stack builds it for ubuntu22.04, x86_64_v3 any more" in text
    assert "for ubuntu22.04, x86_64_v3; may be pruned at any time py-build 1.2.1, 1.2.2 e4s" in text
    assert "e4s (ubuntu22.04)" not in text
    told = said(run, tmp_path, {"zlib": [record(1)]}, {"zlib": [record(2, stacks=["root"])]})
    rest = "no stack builds it for these machines any more; copies that no stack builds are still there"
    assert f"e4s (x86_64_v3) zlib 1.0 +1 -1 {rest}" in told


def test_every_lost_version_has_its_reason(run: Run, tmp_path: Path) -> None:
    """Two versions stay, but not in the same stacks; where they do, it is said once, also for several targets."""

    def digest(before: Packages, after: Packages) -> str:
        return mail(digest_of(week(Path(mkdtemp(dir=tmp_path)), before, after)))[1]

    told = said(run, tmp_path, *without("py-build", "ml-linux-x86_64-cuda"))
    both = [record(1, versions=["1.0"], stacks=["a", "b"]), record(2, versions=["1.1"], stacks=["a", "b"])]
    three = {"zlib": [*both, record(3, versions=["1.1"], stacks=["a", "c"])]}

    newer = "of 1.2.2: the same binaries are in ml-linux-x86_64-cpu or ml-linux-x86_64-rocm"
    assert f"{newer}; of 1.2.1: the same binaries are in ml-linux-x86_64-cpu" in told
    alike = said(run, tmp_path, {"zlib": both}, with_stacks({"zlib": both}, {"a": ""}))
    assert "a (x86_64_v3) zlib 1.0, 1.1 2 specs kept the same binaries are in b" in alike
    stays = "the same binaries are in"
    body = digest(three, with_stacks(three, {"a": ""}))
    assert f"zlib 1.0, 1.1 a; of 1.1: {stays} b or c; of 1.0: {stays} b" in body
    targets = (("sequoia", "neoverse_v2", "aarch64"), ("a", "neoverse_v2", "aarch64"), ("a", "x86_64_v4", "x86_64_v3"))
    old, new = (
        [record(10 * side + n, os=one[0], target=one[side], stacks=[f"s{n}"]) for n, one in enumerate(targets)]
        for side in (1, 2)
    )
    body = digest({"zlib": old}, {"zlib": new})
    assert "; s0, s1, s2 build an equal one for aarch64, x86_64_v3" in body


def test_each_lost_place_has_its_number(run: Run, tmp_path: Path) -> None:
    """Also those whose specs other places had, too; the total counts these once, and says so."""
    before = {"py-build": demo_records()["py-build"]}
    told = said(run, tmp_path, before, {"py-build": []})

    assert "LOST PLACES 1 package, -24 (specs of several lines count once)" in told
    for place, count in {
        "e4s (x86_64_v3) py-build 1.2.1, 1.2.2": 8,
        "e4s-neoverse_v1 (neoverse_v1) py-build 1.2.1": 3,
        "ml-linux-aarch64-cpu (aarch64) py-build 1.2.1, 1.2.2": 4,
        "ml-linux-aarch64-cuda (aarch64) py-build 1.2.1, 1.2.2": 4,
        "ml-linux-x86_64-cpu (x86_64_v3) py-build 1.2.1, 1.2.2": 6,
        "ml-linux-x86_64-cuda (x86_64_v3) py-build 1.2.1, 1.2.2": 3,
        "ml-linux-x86_64-rocm (x86_64_v3) py-build 1.2.1, 1.2.2": 5,
    }.items():
        assert f"{place} -{count}" in told
    after: Packages = {"zlib": [], "xz": [record(2, target="zen4", hash="z" * 32)]}
    two = said(run, tmp_path, {"zlib": [record(1)], "xz": [record(2)]}, after, "--all")
    assert "LOST PLACES 2 packages, -2 e4s (x86_64_v3) xz 1.0, now on zen4; zlib 1.0 -2" in two


def test_stacks_are_not_cut_within_their_names(run: Run, tmp_path: Path) -> None:
    """A long row of a mail ends behind a word; `--stat`, which names none, counts them."""
    stacks = [f"ml-linux-{machine}-rocm" for machine in ("aarch64", "neoverse", "x86_64", "zen4", "zen5")]
    before = {"zlib": [record(n, versions=["1.0"], stacks=[stack]) for n, stack in enumerate(stacks)]}
    after = {"zlib": [record(9, versions=["1.1"], stacks=stacks[:1]), *before["zlib"][1:]]}
    digest = digest_of(read(history(tmp_path / "r.git", *map(catalogue, (before, after)))))
    text = " ".join(render_digest(digest).text.split())

    assert "not yet in ml-linux-neoverse-rocm, ml-linux-x86_64-rocm, ..." in text
    stat = run("diff", "HEAD~1", "HEAD", "--stat", "--repo", tmp_path / "r.git").output
    assert "+1 -1 in upgrades; 1.0 -> 1.1 in 1 of 5 stacks" in stat
    back = run("diff", "HEAD", "HEAD~1", "--stat", "--repo", tmp_path / "r.git").output
    assert "+1 -1 in downgrades; 1.1 -> 1.0 in 1 of 5 stacks" in back


def test_what_is_back_in_another_way_is_not_unchanged(tmp_path: Path) -> None:
    """The only package that is back is none of those that did not change; the subject counts it once."""
    states = ({"zlib": [record(1)]}, {"zlib": [record(2, versions=["1.1"])]})
    tag = read(history(tmp_path / "r.git", *map(catalogue, states)))
    back = returned("zlib", of=1, before=("2026-11-20", "2026-11-27"), name="zlib", exceptions=("zlib",))
    stack = returned("bzip2", "curl", "xz", "llvm", of=9, before=("2026-11-20", "2026-11-27"), name="e4s")
    digest = render_digest(digest_of(replace(tag, statements=(back, stack, *tag.statements))))
    text = digest.text

    assert digest.title == "package zlib is back; 4 of 9 packages are back in stack e4s"
    assert "stack e4s: bzip2, curl, xz, llvm (missing" in " ".join(text.split())
    long = [returned("xz", of=9, name=n * 40, before=("2026-11-20", "2026-11-27")) for n in "ab"]
    first = replace(tag, statements=(*long, back))
    assert render_digest(digest_of(first)).title == "2 packages back"

    backs = [returned("xz", of=1, before=("2026-11-20", "2026-11-27"), name=f"e{n} (zen4)") for n in range(7)]
    text_of_many = render_digest(digest_of(replace(tag, statements=(*backs, *tag.statements)))).text
    assert "2 more changes are left out here." in text_of_many
    told = "package zlib is back (missing since 27 November), in another version (1.0 -> 1.1)."
    assert told in " ".join(text.split()).replace("Package", "package")


def test_a_variant_that_one_side_does_not_name_is_not_given(run: Run, tmp_path: Path) -> None:
    """It is not known to have a default."""
    with_it, without_it = ({"zlib": [record(n, variants=some)]} for n, some in ((1, ["+a", "~b"]), (2, ["+a"])))

    assert "zlib ~b -> not given +1 -1" in said(run, tmp_path, with_it, without_it)
    assert "zlib not given -> ~b +1 -1" in said(run, tmp_path, without_it, with_it)
    joined = {"zlib": [record(1, variants=["+a", "~b"], stacks=["e4s", "new", "root"])]}
    told = said(run, tmp_path, without_it, joined)
    assert "zlib not given -> ~b -1" in told  # as many configurations as before
    assert "in new on" in told


def test_a_stack_that_changed_its_target_is_told_on_both_sides(run: Run, tmp_path: Path) -> None:
    """What was lost says where the package is now; --kind target asks for both, but not for what came to other stacks."""
    stays, here = [record(1, stacks=["hep"]), record(2, stacks=["hep"], target="zen4")], ["cpu", "cuda"]
    before, after = (
        {"zlib": [*stays, record(n, stacks=here[:1], target=t), record(n + 1, stacks=here, target=t), *more]}
        for n, t, more in ((3, "zen4", []), (5, "zen5", [record(7)]))
    )
    lost = "LOST PLACES 1 package, -2 (specs of several lines count once) cpu (zen4) zlib 1.0, now on zen5 -2 e4s,"

    for new, where, options in ((3, "; e4s on x86_64_v3", ()), (2, "", ("--kind", "target"))):
        told = said(run, tmp_path, before, after, *options)
        assert f"{lost} hep build an equal one cuda (zen4) zlib 1.0, now on zen5 -1" in told
        assert f"BUILT IN NEW PLACES 1 package, +{new} zlib 1.0 +{new} in cpu, cuda on zen5{where} " in told


def test_what_replaced_what_a_filter_selects_is_named(run: Run, tmp_path: Path) -> None:
    """The place has nothing of it any more, but it was upgraded, or has another compiler or system; digests advise by that."""
    before, keep = {"zlib": [record(1, os="rhel8")]}, "x86_64_v3: keep it where it is installed"
    others: dict[tuple[str, str, str], tuple[Record, str, str]] = {
        ("versions", "--versions", "1.0"): ({"versions": ["1.1"]}, "1.1 is there", f"{keep}. develop has no such"),
        ("versions", "--versions", "1"): ({"versions": ["0.9"]}, "0.9 is there", "require zlib@1.0 or newer"),
        ("compilers", "--compiler", "gcc@11*"): (
            {"compiler": "gcc@12"},
            "now with gcc@12",
            ", or re-concretize. develop has no such",
        ),
        ("oses", "--os", "rhel8"): ({"os": "rhel9"}, "now for rhel9", f"{keep}. develop has no such"),
        ("targets", "--target", "x86_64_v3"): ({"target": "zen4"}, "now for zen4", f"{keep}. develop has no such"),
    }
    for (key, *options), (values, says, advice) in others.items():
        after = {"zlib": [record(2, **({"os": "rhel8"} | values))]}
        assert f"zlib 1.0; {says} (outside of the filter) -1" in said(run, tmp_path, before, after, *options)
        selection = select(tags=["develop"], **{key: options[1:]})
        rendered, body = mail(digest_of(week(tmp_path / says, before, after, selection=selection)))
        assert rendered.title == f"zlib gone from e4s on x86_64_v3, {says}"
        assert body.index(advice) < body.index(f"e4s; {says} (outside of the filter)")
    gone = said(run, tmp_path, before | {"hdf5": [record(3)]}, {"zlib": [], "hdf5": []}, "--versions", "1.0")
    assert "outside" not in gone


def test_another_compiler_and_another_variant_at_once_are_one_row(run: Run, tmp_path: Path) -> None:
    """Whatever other configurations the stack keeps, and whichever stacks share the specs; the nearest are paired."""
    stays = record(9, stacks=["cpu"], compiler="gcc@13", variants=["~mpi", "+x"])
    both = ["cpu", "rocm"]
    before = [record(n, stacks=both, compiler="gcc@13", variants=["~mpi", x]) for n, x in ((1, "~x"), (2, "+x"))]
    after = [record(n, stacks=both, compiler="gcc@14", variants=["+mpi", x]) for n, x in ((3, "+x"), (4, "~x"))]

    told = said(run, tmp_path, {"zlib": [*before, stays]}, {"zlib": [*after, stays]})
    assert "zlib gcc@13, ~mpi -> gcc@14, +mpi (gcc@13, ~mpi stay in cpu) +2 -2 in cpu, rocm" in told
    told = said(run, tmp_path, {"zlib": [*before, stays]}, {"zlib": [*after, stays]}, "--stack", "rocm")
    assert "zlib gcc@13, ~mpi -> gcc@14, +mpi +2 -2 in rocm" in told


def test_a_stack_that_was_downgraded_is_not_yet_without_an_upgrade(run: Run, tmp_path: Path) -> None:
    """It had the version."""
    ml, hep = (
        [record(n, stacks=[s], versions=[v]) for n, v in ((m, "1.1"), (m + 1, "1.2"))]
        for m, s in ((1, "ml"), (3, "hep"))
    )
    told = said(run, tmp_path, {"zlib": [*ml, hep[0]]}, {"zlib": [ml[0], *hep]})
    assert "UPGRADED 1 package, +1 zlib 1.1 -> 1.2 (1.1 stays) +1 in hep" in told
    assert "zlib 1.2 -> 1.1 (1.1 was there) -1 in ml" in told
    assert "not yet" not in told
    fell = record(5, stacks=["hep"], versions=["1.0"])
    assert "not yet in hep (1.0)" in said(run, tmp_path, {"zlib": [ml[0], hep[0]]}, {"zlib": [ml[1], fell]})


def test_what_is_new_in_a_selection_is_no_up_or_downgrade(run: Run, tmp_path: Path) -> None:
    """The place had another version, but with another compiler: who selects this one had nothing there."""
    before, option = {"zlib": [record(1, compiler="gcc@12")]}, ("--compiler", "gcc@13")
    for number, version in enumerate(("1.1", "0.9"), 2):
        after = {"zlib": [record(number, compiler="gcc@13", versions=[version])]}
        told = said(run, tmp_path, before, after, *option)
        was = f"new version {version}; 1.0 was there (outside of the filter)"
        assert f"BUILT IN NEW PLACES 1 package, +1 zlib {was} +1 in e4s on x86_64_v3" in told
        tag = week(tmp_path / version, before, after, selection=select(compilers=["gcc@13"]))
        assert "Nothing to do" in mail(digest_of(tag))[1]
    again = said(run, tmp_path, before, {"zlib": [record(2, compiler="gcc@13")]}, *option)
    assert "BUILT IN ANOTHER WAY 1 package, +1 zlib gcc@12 -> gcc@13 +1 in e4s" in again


def test_a_migration_names_what_else_changed_with_it(run: Run, tmp_path: Path) -> None:
    """Other values of a part of its packages: in diff, for a gate and in digests, as in the JSON."""
    new: dict[int, Record] = {
        0: {"compiler": "gcc@13.3.0"},
        1: {"compiler": "gcc@13.3.0"},
        2: {"variants": ["~shared", "+gpu"]},
    }
    before = {f"p{n}": [record(n), record(n + 10)] for n in range(7)}
    after = {f"p{n}": [record(n + m, os="ubuntu24.04", **new.get(n, {})) for m in (100, 110)] for n in range(7)}
    told = said(run, tmp_path, before, after)
    part = said(run, tmp_path, before, after, "--kind", "compiler", "--all")
    sides = write(tmp_path / "before", flat(before)), write(tmp_path / "after", flat(after))
    failed = run("diff", *sides, "--fail-on", "compiler", "--fail-on", "os")
    found = json.loads(run("diff", *sides, "--format", "json").output)["changesets"][0]
    _, body = mail(digest_of(read(history(tmp_path / "r.git", catalogue(before), catalogue(after)))))

    compilers, variants = "gcc 11.4.0 -> 13.3.0 for 4 {} of p0, p1", "+shared -> +gpu ~shared for 2 {} of p2"
    both, gone = f"{compilers}; {variants}", "packages are gone for ubuntu22.04, x86_64_v3"
    title = "MIGRATED ubuntu22.04 -> ubuntu24.04"
    assert f"{title} 7 packages, +14 -14, in e4s {both} 7 {gone} HASHES".replace("{}", "specs") in told
    assert f"{title} 2 packages, +4 -4, in e4s {compilers} 2 {gone} p0, p1 2 of".replace("{}", "specs") in part
    assert f"ubuntu24.04: 7 packages; {both}; 7 {gone}.".replace("{}", "binaries") in body
    assert body.startswith(
        "To do If you use p0, p1, p2, 4 more for ubuntu22.04, x86_64_v3: keep them where they are installed. develop builds "
        "them for ubuntu24.04 now, and the catalogue does not say why. Re-concretize only where you move to ubuntu24.04. What"
    )
    move, install = "# if you move to ubuntu24.04", "spack -e . concretize --force && spack -e . install GONE"
    assert f"of your environment: {move}: {install}" in body
    # Builds of other machines went, too.
    before, after = (
        packages | {"zen": [record(n, target="zen4", stacks=["zen"])]} for n, packages in ((8, before), (9, after))
    )
    digest = digest_of(read(history(tmp_path / "s.git", catalogue(before), catalogue(after))))
    _, body = mail(digest)
    lock_files = "lock files made against develop before 2 June"
    assert (
        f"move to ubuntu24.04. On other machines, re-concretize {lock_files}: builds that they name are gone. What"
        in body
    )
    day = "was made for another machine, against develop before 2 June"
    assert f"{move}, or the lock file {day}: {install}" in body.replace("another # machine", "another machine")
    tasks = [replace(one, since="2025-06-01") for one in digest.assessment.due]
    same: Any = {"verb": "look", "since": "2025-06-01", "last_repeated": NOW}
    told_before = tuple(OpenAction(source="public", subject=one.subjects[0], task=one, **same) for one in tasks)
    _, later = mail(digest_of(week(tmp_path / "later", many(50, 3), many(60, 3)), remembered=Remembered(told_before)))
    assert "keep them where they are installed; re-concretize only where you move to ubuntu24.04" in later
    assert "on other machines, re-concretize lock files made against develop before then" in later
    lines = (f"compiler: {compilers.format('specs')}", "os: migrated ubuntu22.04 -> ubuntu24.04")
    assert failed.error.splitlines() == [f"cachewatch: --fail-on {line}" for line in lines]
    events = [(event["kind"], event["packages"], event["specs"]) for event in found["events"]]
    assert events == [("os", 7, 14), ("compiler", 2, 4), ("variant", 1, 2)]
    assert found["statements"][0]["effects"] == [
        {"kind": "migration", "packages": ["p0", "p1"], "from": ["gcc@11.4.0"], "to": ["gcc@13.3.0"], "specs": 4},
        {"kind": "migration", "packages": ["p2"], "from": ["+shared"], "to": ["+gpu", "~shared"], "specs": 2},
    ]


def test_totals_of_stacks_say_that_they_share_specs(run: Run, tmp_path: Path) -> None:
    """The numbers of several stacks add up to more than there is."""
    note = "Specs that several stacks share are counted in each of them."
    (tmp_path / "zlib.md").write_bytes(document([record(1, stacks=["a", "b"]), record(2, stacks=["a"])]))

    assert note in run("show", tmp_path / "zlib.md").output.splitlines()
    assert note in run("stacks", "--repo", tmp_path).output.splitlines()
    matching = "Only specs that match are counted; those that several stacks share, in each of them."
    assert matching in run("show", "zlib stack=b", "--repo", tmp_path).output.splitlines()
    assert note not in run("stacks", "--repo", tmp_path, "--format", "csv").output
    (tmp_path / "zlib.md").write_bytes(document([record(1, stacks=["a"])]))
    assert note not in run("show", tmp_path / "zlib.md").output
