"""What a digest says is true for the machines and stacks that it names, and nothing that happened is left out."""

from pathlib import Path

from digests import called, digest_of, mail, many, read, returned, week
from helpers import Packages, catalogue, history, record, without
from msgspec.structs import replace

from cachewatch.core.filters_and_spec_patterns import Globs, Selection
from cachewatch.core.kinds_and_specs import Kind
from cachewatch.core.statement_kinds import Counts, Statement, StatementKind
from cachewatch.report.dates_and_totals import accounting
from cachewatch.report.digests.body_and_table import happened, routine
from cachewatch.report.digests.data_for_templates import view
from cachewatch.report.digests.todo import one_for_each
from cachewatch.report.words_file import words


def test_a_removed_stack_is_named_where_nothing_is_lost(tmp_path: Path) -> None:
    """Beside an upgrade, and to who asked for removed stacks or for that one alone; once, as routine if there is no room."""
    before = many(0, 6, stacks=["cuda", "e4s", "root"])
    states = [catalogue(before | {"zlib": [record(50)]})]
    states.append(catalogue(without(before, "cuda") | {"zlib": [record(51, versions=["1.1"])]}))
    repository = history(tmp_path / "r.git", *states)
    said = "Stack cuda was removed (the catalogue does not say why); 6 packages keep their binaries in e4s."

    digest = digest_of(read(repository), silenced=())
    _, body = mail(digest)
    assert f"What happened {said}" in body
    assert "zlib 1.0 -> 1.1" in body
    for selection in (Selection(kinds=Globs(["stack-lost", "stack-event"])), Selection(stacks=Globs(["cuda"]))):
        _, body = mail(digest_of(read(repository, selection=selection), silenced=()))
        assert "What happened Stack cuda was removed" in body
    told = happened(digest, words(), 1)
    assert told == [said]
    assert said not in routine(digest, words(), told)
    assert said in routine(digest, words(), [])
    both = before | many(0, 6, stacks=["cuda", "e4s", "ml"])
    for n, (first, named) in enumerate((({}, "e4s, ml"), (many(0, 1, stacks=["cuda", "ml"]), "e4s or ml"))):
        _, body = mail(digest_of(week(tmp_path / str(n), both | first, without(both | first, "cuda"))))
        assert f"6 packages keep their binaries in {named}." in body


def test_only_what_no_stack_builds_may_be_pruned(tmp_path: Path) -> None:
    """Of a removed stack and of one place: what another stack has stays, as the sum in the JSON says."""
    six = many(0, 6, stacks=["cuda", "e4s", "root"])
    alone = six | {"p000": [record(0, stacks=["cuda", "root"])]}
    pruned = "1 old build that may be pruned at any time; 5 builds kept, now in other stacks"
    for name, before, said in (("kept", six, "6 builds kept, now in other stacks"), ("unbuilt", alone, pruned)):
        tag = week(tmp_path / name, before, without(before, "cuda"))
        assert accounting((*tag.statements, *tag.rest)) == said


def test_a_stack_is_named_on_one_line(tmp_path: Path) -> None:
    """Also where its name does not fit behind what happened to the package, alone or after another one."""
    for name, others in (("alone", []), ("after", ["a"])):
        stacks = [*others, "ml-darwin-aarch64-mps", "root"]
        states = ({"py-ml-dtypes": [record(n, compiler=f"apple-clang@{n}.0.0", stacks=stacks)]} for n in (16, 17))
        text = mail(digest_of(week(tmp_path / name, *states)))[0].text
        assert "apple-clang@16.0.0 -> apple-clang@17.0.0" in text
        assert "ml-darwin-aarch64-mps" in text


SNAPSHOTS = ("develop-2026-11-15", "develop-2026-11-22")
LINUX = {"target": "aarch64"}
DARWIN = {"os": "sequoia", "platform": "darwin", "stacks": ["mps", "root"], "target": "aarch64"}


def test_a_command_to_install_says_for_which_system_its_target_is(tmp_path: Path) -> None:
    states = ({"zlib": [record(1, **DARWIN), record(n, versions=[v], **LINUX)]} for n, v in ((2, "1.0"), (3, "1.1")))
    _, body = mail(digest_of(week(tmp_path, *states)))
    assert "spack install --cache-only zlib@1.1 target=aarch64 # for Linux on aarch64" in body


def test_a_command_to_install_names_the_variants_of_an_upgrade_without_others(tmp_path: Path) -> None:
    """Of which older builds had other values; patches are no choice of users."""
    built = [
        [f"api={one}", flag, "+pic", f"patches={one}"] for one, flag in (("a", "~mpi"), ("b", "+mpi"), ("b", "~x"))
    ]
    before = [record(n, variants=own) for n, own in enumerate(built)]
    after = [*before[:2], record(9, variants=[*built[2], "+mpi"], versions=["1.1"])]
    _, body = mail(digest_of(week(tmp_path, {"zlib": before}, {"zlib": after})))
    assert "spack install --cache-only zlib@1.1+mpi api=b" in body


def test_what_is_gone_for_some_machines_is_not_called_gone(tmp_path: Path) -> None:
    """It is named with these machines, apart from what is gone everywhere, which alone is to be required."""
    before = {"gpytorch": [record(1, **LINUX), record(6, versions=["0.9"], **DARWIN)]}  # users of mps never had 1.0
    before["gpytorch"].append(record(7, versions=["0.8"], **LINUX))
    before |= {"keras": [record(2, **LINUX), record(3, **DARWIN)], "zlib": [record(4), record(5, **DARWIN)]}
    after = {"keras": [record(2, **LINUX)], "zlib": [record(4), record(5, **DARWIN)]}
    digest = digest_of(week(tmp_path, before, after), silenced=())
    first, second = digest.assessment.due
    assert (first.names, first.machine, first.is_everywhere) == (("gpytorch",), "", True)
    assert (second.names, second.machine, second.is_everywhere) == (("keras",), "sequoia, aarch64", False)
    assert [one.spec for one in digest.assessment.required] == ["gpytorch@0.8,0.9,1.0"]
    todo = mail(digest)[1].partition("GONE")[0]
    assert "require gpytorch@0.8 or @0.9 or @1.0 (the version that you use) before" in todo
    leave = "# (of several versions, leave only the one that you use)"
    assert f"{leave} spack -e . config add \"packages:gpytorch:require:'@0.8,0.9,1.0'\"" in todo
    assert "gpytorch, keras" not in todo
    assert "for sequoia, aarch64" in todo


def test_what_is_older_in_some_stacks_is_required_there(tmp_path: Path) -> None:
    """Other stacks and targets have the newer version, or never had it; where all have the older one, none is named."""
    other, two = record(1, versions=["0.4"]), ((2, "0.6"), (3, "0.5"))
    states = ({"zlib": [other, record(n, versions=[version], **DARWIN)]} for n, version in two)
    _, body = mail(digest_of(week(tmp_path / "some", *states)))
    assert "If you use zlib for mps: keep it where it is installed, and require zlib@0.6 or newer" in body
    states = ({"zlib": [record(n, versions=[v]), record(n + 5, versions=[f"{v}.1"], **DARWIN)]} for n, v in two)
    _, body = mail(digest_of(week(tmp_path / "all", *states)))
    assert "If you use zlib: keep it where it is installed, and require zlib@0.6 or newer" in body
    other = record(1, versions=["0.6"], target="zen4")
    states = ({"zlib": [other, record(n, versions=[version])]} for n, version in two)
    _, body = mail(digest_of(week(tmp_path / "one", *states)))
    assert "If you use zlib for e4s (x86_64_v3): keep it" in body
    assert "Only an older version is built there" in body
    assert "DOWNGRADED zlib 0.6 -> 0.5 on x86_64_v3 e4s" in body


def test_a_new_tag_is_called_new(tmp_path: Path) -> None:
    """It lacks packages for machines that are named with their operating system."""
    old = {"gpytorch": [record(1, **LINUX)], "keras": [record(2, **LINUX), record(3, **DARWIN)]}
    new = {"keras": [record(2, **LINUX)]}
    rendered, body = mail(digest_of(called(week(tmp_path, old, new), "v0.23", "v0.24")))
    assert "Tag v0.24 is new. Against v0.23: 2 packages gone (1 only for sequoia, aarch64)" in body
    lacks = "you may move to v0.24, unless you need what it lacks: gpytorch, keras (1 only for sequoia, aarch64)."
    assert f"If you use v0.23: {lacks}" in body
    assert "1 only for sequoia" in rendered.title


def test_a_subject_without_room_for_a_machine_says_that_there_is_one(tmp_path: Path) -> None:
    old = {"gpytorch": [record(1, **LINUX), record(2, **DARWIN | {"target": "a" * 30})]}
    tag = week(tmp_path, old, {"gpytorch": [record(1, **LINUX)]})
    rendered, _ = mail(digest_of(called(tag, *SNAPSHOTS)))
    assert rendered.title == "develop-2026-11-22 is out: it lacks 1 package for some machines"


def test_a_loss_comes_before_a_new_snapshot_beside_which_it_has_no_room(tmp_path: Path) -> None:
    """News of a snapshot that lacks nothing can wait for the body."""
    zlib, curl = [record(1, versions=["1.3"], stacks=["hep"])], [record(2)]
    snapshot = called(week(tmp_path / "s", {"curl": curl}, {"curl": curl, "xz": [record(3)]}), *SNAPSHOTS)
    for stack, said in (
        ("e4s", "develop-2026-11-22 is out; zlib no longer in e4s"),
        ("e" * 40, "zlib no longer in ee"),
    ):
        states = ({"zlib": [*zlib, *some], "curl": curl} for some in ([record(4, stacks=[stack])], []))
        rendered, _ = mail(digest_of(snapshot, week(tmp_path / stack, *states), subscription="e4s"))
        assert rendered.title.startswith(said)


def test_a_subject_names_the_one_package_that_moved_to_another_target(tmp_path: Path) -> None:
    """Beside a count of built packages, "1 package gone" would be another one."""
    old, new = (
        [record(n, target=target, stacks=[f"ml-linux-{one}"]) for n, one in enumerate(("cpu", "cuda"), first)]
        for first, target in ((1, "x86_64_v3"), (3, "x86_64_v4"))
    )
    rendered, _ = mail(digest_of(week(tmp_path, {"py-gpytorch": old}, {"py-gpytorch": new}), subscription="all"))
    assert rendered.title == "py-gpytorch gone from 2 stacks on x86_64_v3"


def test_a_subject_names_the_target_of_a_lost_system(tmp_path: Path) -> None:
    """Another stack has the package for the same system on another target."""
    kept = [record(2, os="rhel8"), record(3, target="neoverse_v1", stacks=["arm", "root"])]
    rendered, _ = mail(digest_of(week(tmp_path, {"zlib": [record(1), *kept]}, {"zlib": kept})))
    assert rendered.title == "zlib gone for ubuntu22.04, x86_64_v3"


def test_a_subject_without_room_for_a_loss_counts_it(tmp_path: Path) -> None:
    """Places that went are followed by a system that went."""
    old = {"py-ml-dtypes": [record(1)], "py-build": [record(2), record(3, os="rhel9")], "zlib": [record(4)]}
    new = old | {"py-ml-dtypes": [record(5, target="x86_64_v4")], "py-build": old["py-build"][1:]}
    rendered, _ = mail(digest_of(week(tmp_path, old, new), subscription="e4s"))
    assert rendered.title == "py-ml-dtypes gone from e4s on x86_64_v3; 1 more loss"


def test_older_lock_files_are_not_only_those_with_a_replaced_version(tmp_path: Path) -> None:
    """Not with a replaced version if other builds of it are gone, too."""
    before = [
        record(n, stacks=[stack], versions=[v]) for n, stack, v in ((1, "a", "1.0"), (2, "b", "1.1"), (3, "b", "0.9"))
    ]
    after = [record(n, stacks=[stack], versions=["1.1"]) for n, stack in ((4, "a"), (5, "b"))]
    _, body = mail(digest_of(week(tmp_path, {"zlib": before, "abc": [record(7)]}, {"zlib": after, "abc": [record(8)]})))
    assert (
        "re-concretize lock files made against develop before 2 June (builds of abc in e4s, zlib in a and b)." in body
    )


def test_one_machine_can_install_what_the_command_names(tmp_path: Path) -> None:
    """Packages that no machine has together are not in one command; those left out are counted."""
    one, two = {"os": "ubuntu24.04", "target": "x86_64_v3"}, {"os": "ubuntu22.04", "target": "x86_64_v3"}
    before = {"zlib": [record(1, **one)]}
    for name, other, command in (("two", two, "curl@1.0"), ("one", one, "curl@1.0 hdf5@1.0")):
        after = before | {"curl": [record(2, **one)], "hdf5": [record(3, **other)]}
        shown = view(digest_of(week(tmp_path / name, before, after)))
        assert shown["install"] == f"spack install --cache-only {command}"
        assert shown["install_more"] == (name == "two")


def test_lock_files_of_upgraded_stacks_are_outdated_for_everybody(tmp_path: Path) -> None:
    """Also for readers of all stacks, of which others stay with the old version; not while the stack keeps it itself."""
    other = record(1)
    states = [catalogue({"zlib": [other, record(n, versions=[v], **DARWIN)]}) for n, v in ((2, "1.0"), (3, "1.1"))]
    repository = history(tmp_path / "r.git", *states)
    for selection in (Selection(), Selection(stacks=Globs(["mps"]))):
        _, body = mail(digest_of(read(repository, selection=selection)))
        assert body.startswith("Nothing is urgent. Before the next install, re-concretize lock files made ")
    kept = [other, record(2, versions=["1.0"], **DARWIN)]
    added = {"zlib": [*kept, record(3, versions=["1.1"], **DARWIN)]}
    assert mail(digest_of(week(tmp_path / "b", {"zlib": kept}, added)))[1].startswith("Nothing to do.")
    newer = record(3, versions=["1.1"])
    beside = week(tmp_path / "c", {"zlib": [other, newer]}, {"zlib": [newer, record(4, versions=["1.2"])]})
    assert " (zlib 1.0). UPGRADED" in mail(digest_of(beside))[1]
    shared = [record(1, stacks=["cpu", "cuda"]), record(2, stacks=["cpu"], variants=["+mpi"])]
    moved = [record(1, stacks=["cuda"]), record(3, versions=["1.1"], stacks=["cpu"])]
    assert "(zlib 1.0 in cpu). UPGRADED" in mail(digest_of(week(tmp_path / "s", {"zlib": shared}, {"zlib": moved})))[1]
    before, after = (
        [record(n, versions=[v]) for n, v in own]
        for own in (((1, "1.0"), (2, "1.1"), (3, "1.1")), ((3, "1.1"), (4, "1.2")))
    )
    _, body = mail(digest_of(week(tmp_path / "d", {"zlib": before}, {"zlib": after})))
    assert "(builds of zlib). UPGRADED" in body


def test_old_versions_that_stay_in_other_stacks_are_told(tmp_path: Path) -> None:
    """The heading and the row say so, and a lock file that names one of them may have lost it."""
    old, new = (record(n, versions=[v], stacks=["cray"]) for n, v in ((1, "1.1"), (2, "1.3")))
    older, newest = (record(n, versions=[v]) for n, v in ((3, "1.2"), (4, "1.3")))
    others = [record(5, versions=["1.1"], stacks=["a", "b"]), record(6, versions=["1.3"], stacks=["a", "b"])]
    revisions = [*others, older, old], [*others, older, new], [*others, newest, new]
    states = [catalogue({"zlib": found}) for found in revisions]
    for n, row in enumerate(("1.1 -> 1.3 (1.1 stays in 2 other stacks) cray", "1.2 -> 1.3 e4s"), 1):
        repository = history(tmp_path / f"{n}.git", *states[n - 1 : n + 1])
        _, body = mail(digest_of(read(repository)))
        assert f"UPGRADED{', no stack has the old version' * (n == 2)} zlib {row}" in body
    _, body = mail(digest_of(read(history(tmp_path / "both.git", states[0], states[2]))))
    assert " (zlib 1.1 and zlib 1.2 in cray and e4s). UPGRADED" in body
    assert "1.1 -> 1.3, 1.2 -> 1.3 (1.1 stays in 2 other stacks)" in body


def test_a_stack_that_has_another_version_is_named_with_it(tmp_path: Path) -> None:
    """It never had the old version, and is not yet at the new one."""
    cray = record(1, versions=["1.1"], stacks=["cray"])
    states = ({"zlib": [cray, record(n, versions=[v])]} for n, v in ((2, "1.2"), (3, "1.3")))
    _, body = mail(digest_of(week(tmp_path, *states)))
    assert "UPGRADED, no stack has the old version zlib 1.2 -> 1.3 e4s (1 of 2 stacks); not yet in cray (1.1)" in body
    kept = [cray, record(2, versions=["1.2"], stacks=["hep"])]
    states = ({"zlib": [*kept, record(n, versions=[v])]} for n, v in ((3, "1.2"), (4, "1.3")))
    assert "not yet in cray (1.1), hep (1.2)" in mail(digest_of(week(tmp_path / "two", *states)))[1]


def test_an_older_version_that_left_one_stack_is_not_said_to_have_left_all(tmp_path: Path) -> None:
    """The stack is named, and so is that no stack builds the binary that is still there."""
    others = [record(2, versions=["1.1"]), record(3, versions=["1.0"], stacks=["cray"])]
    states = ({"zlib": [record(1, versions=["1.0"], stacks=stacks), *others]} for stacks in (["e4s", "root"], ["root"]))
    repository = history(tmp_path / "a.git", *map(catalogue, states))
    row = "OLDER VERSIONS REMOVED zlib 1.0 removed e4s on x86_64_v3; 1 of these specs is left without a stack: it may be pruned at any time"
    for stacks in ([], ["e4s"]):
        tag = read(repository, selection=Selection(stacks=Globs(stacks)))
        rendered, body = mail(digest_of(tag))
        assert "older zlib 1.0 of e4s removed" in rendered.title
        assert row in body
        told = "-1: 1 kept outside your selection" if stacks else "1 old build that may be pruned at any time"
        assert accounting((*tag.statements, *tag.rest)) == told
    states = ({"zlib": [*first, others[0]]} for first in ([record(1, versions=["1.0"])], []))
    assert "older zlib 1.0 removed" in mail(digest_of(week(tmp_path / "b", *states)))[0].title
    kept, old, new = record(1, versions=["1.1"]), record(2, versions=["1.0"]), record(3, versions=["1.2"])
    rendered, _ = mail(digest_of(week(tmp_path / "c", {"zlib": [kept, old]}, {"zlib": [kept, new]})))
    assert "zlib 1.1 -> 1.2 (1.1 stays, 1.0 removed)" in rendered.title
    for salt in (0, 9):  # kept and rebuilt builds without a stack are counted, also those of the version that stays
        versions, sides = ("1.0", "1.0", "1.1"), ((4, "e4s"), (4 + salt, "root"))
        left = [[record(n + m, versions=[v], stacks=[s]) for m, v in enumerate(versions)] for n, s in sides]
        rendered, body = mail(digest_of(week(tmp_path / str(salt), *({"zlib": [*others, *side]} for side in left))))
        assert "What happened No stack builds 3 builds of zlib any more; such builds may be pruned at any time." in body
        assert "2 of these specs are left without a stack: they may be pruned" in body
        assert "no stack builds 3 builds of zlib any more" in rendered.html
    # New ones that no stack builds are told apart: nothing ended, and no lock file names them.
    old = {"zlib": [record(1), record(2)], "hdf5": [record(3)]}
    fresh = [record(n, stacks=["root"]) for n in (4, 5)]
    ended = [record(1), record(2, stacks=["root"])]
    for found, subject, said in (
        (
            [*old["zlib"], *fresh[:1]],
            "1 new build of zlib belongs to no stack",
            "1 new build of zlib belongs to no stack;",
        ),
        ([*old["zlib"], *fresh], "2 new builds of zlib belong to no stack", "2 new builds of zlib belong to no stack;"),
        (
            [*ended, *fresh],
            "no stack builds 1 build of zlib any more",
            "any time. 2 new builds of zlib belong to no stack;",
        ),
    ):
        rendered, body = mail(digest_of(week(tmp_path / subject[:5], old, old | {"zlib": found}), silenced=()))
        assert rendered.title == subject
        assert f"{said} such builds may be pruned at any time. BUILDS" in body
        assert body.startswith("Nothing to do. What") != (found[1] == ended[1])


def test_stacks_on_different_lines_of_versions_are_both_upgraded(tmp_path: Path) -> None:
    """None of them is behind: the one of the older versions is named with its new one."""
    lines = [[("1.2.1", "lts"), ("2.0", "ml")], [("1.2.2", "lts"), ("2.1", "ml")]]
    lines_of = [
        [record(10 * n + m, versions=[v], stacks=[s]) for m, (v, s) in enumerate(each)] for n, each in enumerate(lines)
    ]
    states = ({"zlib": found} for found in lines_of)
    body = mail(digest_of(week(tmp_path, *states)))[1]
    assert "zlib 1.2.1 -> 1.2.2, 2.0 -> 2.1 2 of 2 stacks; ml to 2.1, lts to 1.2.2" in body
    assert "not yet" not in body


def test_advice_names_the_branch_of_several_that_it_is_about(tmp_path: Path) -> None:
    """Another branch may still have what one lost; of what all lost, none is named."""
    two = {"zlib": [record(1), record(2, target="aarch64")], "hdf5": [record(3), record(4, target="aarch64")]}
    lacks_zlib, lacks_hdf5 = two | {"zlib": two["zlib"][:1]}, two | {"hdf5": two["hdf5"][:1]}

    def body(develop: Packages, release: Packages) -> str:
        after = catalogue(develop) | catalogue(release, "v1.0")
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}.git"
        repository = history(folder, catalogue(two) | catalogue(two, "v1.0"), after)
        tags = [read(repository, selection=Selection(tags=Globs([tag]))) for tag in ("develop", "v1.0")]
        return mail(digest_of(*tags, silenced=()))[1]

    said = body(lacks_zlib, lacks_hdf5)
    assert "If you use zlib for aarch64 in develop: keep it" in said
    assert "If you use hdf5 for aarch64 in v1.0: keep it" in said
    assert "If you use zlib for aarch64: keep it" in body(lacks_zlib, lacks_zlib)
    assert "If you use zlib for aarch64 in develop: keep it" in body(lacks_zlib, two | {"new": [record(9)]})


def test_a_subject_names_the_snapshot_of_several_tags_that_lost_something(tmp_path: Path) -> None:
    """Stacks whose lock files are outdated are named only if they are those of each tag."""
    arm, both = [record(2, target="aarch64")], [record(3, stacks=["a"]), record(4, stacks=["b"])]
    day = "develop-2025-05-25"
    for stacks, said in ((["a", "a"], "(builds of tau in a)"), (["a", "b"], "(builds of tau)")):
        rebuilt = [
            [one | {"hash": record(7)["hash"]} if one["stacks"] == [stack] else one for one in both] for stack in stacks
        ]
        before = {"zlib": [record(1), *arm], "tau": both}
        after = {"zlib": arm, "tau": rebuilt[0]}, {"zlib": before["zlib"], "tau": rebuilt[1], "new": [record(9)]}
        old = catalogue(before) | catalogue(before, day)
        repository = history(tmp_path / stacks[1], old, catalogue(after[1]) | catalogue(after[0], day))
        tags = [read(repository, selection=Selection(tags=Globs([tag]))) for tag in ("develop", day)]
        rendered, body = mail(digest_of(*tags, silenced=()))
        assert rendered.title == f"zlib gone from e4s on x86_64_v3 in {day}; new new 1.0"
        assert said in body


def test_sentences_name_the_tag_of_several_that_they_are_about(tmp_path: Path) -> None:
    """Also of what is routine, where the same packages were rebuilt, and of lists of more than the table explains."""
    gone, missing = {f"p{i}": [record(20 + i)] for i in range(3)}, {f"q{i}": [record(40 + i)] for i in range(5)}
    states = []
    for n in (0, 1):
        rebuilt = {"zlib": [record(60 + n)]}, {"zlib": [record(70 + n), record(80 + n, variants=["+mpi"])]}
        new = {f"r{i}": [record(50 + i)] for i in range(10 * n)}
        more = {} if n else gone, {} if n else missing
        develop, release = (rebuilt[i] | new | more[i] for i in (0, 1))
        states.append(catalogue(develop) | catalogue(release, "v1.0"))
    repository = history(tmp_path / "a.git", *states)
    tags = [read(repository, selection=Selection(tags=Globs([tag]))) for tag in ("develop", "v1.0")]
    body = mail(digest_of(*tags, silenced=()))[1]
    assert (
        "What happened v1.0: Missing since 2 June (the catalogue does not say why): q0, q1, q2, 2 more, in e4s." in body
    )
    assert "develop: p0, p1, p2 are gone: no stack builds them any more. New: r0 1.0" in body
    assert "Wait with v1.0: publishing may have failed. Install nothing new from it, and keep lock files made" in body
    assert body.endswith(
        "Routine develop: 1 binary of zlib rebuilt; it is not known why. "
        "v1.0: 2 binaries of zlib rebuilt; it is not known why."
    )

    alike = ({"tau": [record(n)]} for n in (1, 2))
    repository = history(tmp_path / "b.git", *(catalogue(each) | catalogue(each, "v1.0") for each in alike))
    branch, version = (read(repository, selection=Selection(tags=Globs([tag]))) for tag in ("develop", "v1.0"))
    since = replace(version.report, before=replace(version.report.before, tag="v0.9"))
    body = mail(digest_of(branch, replace(version, report=since), silenced=()))[1]
    assert body.count("1 binary of tau rebuilt") == 1


def test_what_lock_files_name_may_be_gone_though_nothing_is_missed(tmp_path: Path) -> None:
    """An older version that was removed alone, some builds of one that stays, and what no stack builds any more."""
    old, newer = record(1), record(2, versions=["1.1"])
    unbuilt = [record(1, stacks=[]), record(3, stacks=["ml"])]
    for name, before, after in (
        ("retired", [old, newer], [newer]),
        ("unbuilt", [old, record(3, stacks=["ml"])], unbuilt),
        ("fewer", [old, record(3, variants=["+mpi"])], [old, record(4, versions=["1.1"], variants=["+mpi"])]),
        ("surplus", [old, record(3)], [old]),
        ("extended", [newer, record(4, versions=["1.1"])], [old, newer]),
    ):
        rendered, body = mail(digest_of(week(tmp_path / name, {"zlib": before}, {"zlib": after}), silenced=()))
        assert " ".join(body.split()).startswith(rendered.advice)  # what an inbox shows beside the subject
        assert body.startswith("Nothing is urgent. Before the next install, re-concretize lock files made against"), (
            name
        )
        assert (" before 2 June (zlib 1.0 in e4s)." if name == "retired" else "(builds of zlib in e4s).") in body
        assert ("1 of these specs is left without a stack" in " ".join(body.split())) == (name == "unbuilt")
    tag = week(tmp_path / "narrowed", {"zlib": [old, record(3, variants=["+mpi"])]}, {"zlib": [old]})
    for silenced, said in (((), "Nothing is urgent. Before the next install"), (["zlib"], "Nothing to do.")):
        hidden = replace(tag, statements=(), rest=tag.statements, silenced=frozenset(silenced))
        assert mail(digest_of(hidden, silenced=()))[1].startswith(said)
    shared = many(0, 6, stacks=["cuda", "e4s", "root"])
    whole = {name: [*specs, record(50 + n, stacks=["cuda", "root"])] for n, (name, specs) in enumerate(shared.items())}
    body = mail(digest_of(week(tmp_path / "stack", whole, without(whole, "cuda")), silenced=()))[1]
    assert "6 of these specs are left without a stack" in " ".join(body.split())
    assert body.startswith(
        "Nothing is urgent. Before the next install, re-concretize lock files made against develop before 2 June (builds of"
    )


def test_lock_files_of_an_upgrade_that_nobody_asked_for_are_outdated(tmp_path: Path) -> None:
    """Not reported itself, it is named beside what is reported."""
    before, after = {"zlib": [record(1)], "curl": [record(2)]}, {"zlib": [record(3, versions=["1.1"])]}
    tag = week(tmp_path, before, after, selection=Selection(kinds=Globs(["gone"])))
    body = mail(digest_of(tag, silenced=()))[1]
    assert "also re-concretize lock files made against develop before 2 June (builds of zlib in e4s)." in body


def test_lock_files_of_an_upgrade_that_left_old_builds_are_outdated(tmp_path: Path) -> None:
    """No stack builds these any more, while another stack keeps its own."""
    kept = record(2, stacks=["b"])
    before, after = [record(1, stacks=["a"]), kept], [record(1, stacks=[]), record(3, versions=["1.1"], stacks=["a"])]
    body = mail(digest_of(week(tmp_path, {"zlib": before}, {"zlib": [*after, kept]}), silenced=()))[1]
    assert "re-concretize lock files made against develop before 2 June (builds of zlib in a)." in body


def test_a_removed_stack_and_a_removed_package_are_counted_once(tmp_path: Path) -> None:
    """A removed package is not one more with its stack; lock files of what has other builds are outdated, not those of what no stack builds."""
    kept = {"zlib": [record(1)], "curl": [record(2, versions=["1.1"])]}
    for name, more, said in (("one", {}, ""), ("two", {"xz": [record(7, stacks=["rocm"])]}, ", 1 package with it")):
        both = {"curl": [*kept["curl"], record(3, stacks=["rocm"])], "mpi": [record(4, stacks=["rocm"]), record(5)]}
        going = {"fft": [record(6, stacks=["rocm"])]} if more else {}
        unbuilt = {"fft": [record(6, stacks=[])]} if more else {}
        tag = week(tmp_path / name, kept | both | more | going, kept | unbuilt)
        rendered, body = mail(digest_of(tag, subscription="all"))
        assert rendered.title.startswith(f"stack rocm removed{said}; ")
        assert "(builds of curl in rocm). What happened" in body


def test_harmless_losses_of_two_stacks_have_reasons_of_their_own(tmp_path: Path) -> None:
    """One stack's builds are kept elsewhere, the other's are gone but equal ones exist, with another compiler."""
    before = [record(1, stacks=["cpu", "cuda"]), record(2, stacks=["rocm"], compiler="gcc@14.2.0")]
    after = {"zlib": [record(1, stacks=["cpu"])], "curl": [record(n, stacks=["cuda", "rocm"]) for n in (3, 4)]}
    _, body = mail(digest_of(week(tmp_path, after | {"zlib": before}, after)))
    assert "zlib 1.0 cuda; the same binaries are in cpu" in body
    assert "zlib 1.0 rocm; cpu builds it with another compiler, gcc@11.4.0" in body


def test_a_subject_names_a_removed_stack_of_which_nothing_is_missed(tmp_path: Path) -> None:
    """Before what was only built in another way."""
    kept = many(1, 6, stacks=["e4s"])
    both = {name: [*found, record(30 + n, stacks=["rocm"])] for n, (name, found) in enumerate(kept.items())}
    zlib, other = ({"zlib": [record(9, compiler=compiler)]} for compiler in ("gcc@13.3.0", "gcc@14.2.0"))
    rest = many(100, 10)
    rendered, _ = mail(digest_of(week(tmp_path, rest | both | zlib, rest | kept | other), subscription="all"))
    assert rendered.title == "stack rocm removed; zlib built in another way"


def test_what_was_pruned_is_one_sentence(tmp_path: Path) -> None:
    """Also where a subscription selects kinds of change that only some of it has."""
    tag = week(tmp_path, {"zlib": [record(1)]}, {"zlib": [record(1)]})
    some, more = (
        Statement(
            kind=StatementKind.PRUNED, packages=(name,), counts=Counts(vanished=n), kinds=frozenset({Kind.SPEC_REMOVED})
        )
        for name, n in (("curl", 2), ("zlib", 3))
    )
    _, body = mail(digest_of(replace(tag, statements=(some,), rest=(more,))))
    assert "Routine 5 binaries that no stack built were pruned." in body


def test_an_older_version_that_went_with_a_kept_one_is_named(tmp_path: Path) -> None:
    """Nothing says that all binaries stay."""
    old, kept = record(1, versions=["0.9"], stacks=["a"]), {"curl": [record(n, stacks=["a", "b"]) for n in (7, 8)]}
    before, after = ({"zlib": [*more, record(2, stacks=[stack])]} for more, stack in (([old], "a"), ([], "b")))
    rendered, body = mail(digest_of(week(tmp_path, kept | before, kept | after), subscription="all"))
    assert rendered.title == "zlib no longer in a, still built elsewhere"
    assert "zlib 0.9, 1.0 a; of 1.0: the same binaries are in b; of 0.9: 1.0 is in b, 0.9 is gone" in body


def test_a_row_names_all_that_its_places_lost(tmp_path: Path) -> None:
    """Each stack with its machine, and each version with what is left of it; a system that replaced another is named."""
    mac = {"platform": "darwin", "os": "sequoia", "target": "m1", "stacks": ["mac"]}
    old = [
        record(n, versions=[version], stacks=[stack])
        for n, version, stack in ((1, "0.9", "a"), (2, "1.0", "a"), (3, "0.9", "b"))
    ]
    keep = {"curl": [record(9, stacks=["a", "b"]), record(8, **mac)]}
    moved = record(5, **mac | {"os": "tahoe"})
    before, after = {"zlib": [*old, record(4, **mac)]} | keep, {"zlib": [old[2], moved]} | keep
    _, body = mail(digest_of(week(tmp_path, before, after)))
    assert (
        "GONE zlib 0.9, 1.0 a (x86_64_v3), mac (sequoia, m1); of 1.0: only 0.9 is in b; of 0.9: b builds an equal one"
        in body
    )
    assert "If you use zlib@1.0 for" in body
    assert "lock files made against develop before 2 June (builds of zlib in a)" in body


def test_what_moved_to_a_new_stack_and_what_is_new_there_have_their_own_versions(tmp_path: Path) -> None:
    """Both are of one package and place."""
    kept = {"curl": [record(9, stacks=["old", "new"])]}
    before, more = {"zlib": [record(1, stacks=["old"])]}, record(2, versions=["1.1"], stacks=["new"])
    body = mail(digest_of(week(tmp_path, kept | before, kept | {"zlib": [record(1, stacks=["new"]), more]})))[1]
    assert "BUILT IN NEW PLACES zlib new version 1.1 new on x86_64_v3 LOST" in body


def test_a_version_that_nobody_asked_for_is_not_offered(tmp_path: Path) -> None:
    """The package is listed for a downgrade in another stack."""
    before, after = (
        {"zlib": [record(n, versions=[a], stacks=["a"]), record(n + 1, versions=[b], stacks=["b"])]}
        for n, a, b in ((1, "1.1", "1.0"), (3, "1.2", "0.9"))
    )
    for kinds, is_offered in ((["downgraded"], False), (["*"], True)):
        tag = week(tmp_path / kinds[0].strip("*"), before, after, selection=Selection(kinds=Globs(kinds)))
        body = mail(digest_of(tag, silenced=()))[1]
        assert "DOWNGRADED zlib" in body
        assert ("spack install" in body and "zlib@1.2" in body) is is_offered


def test_lock_files_of_what_equal_builds_replaced_are_outdated(tmp_path: Path) -> None:
    """Nothing is missed, but a lock file names the hash that is gone: of a place, a machine, and a stack."""
    cray = record(2, stacks=["cray"])
    few = (
        ". Before the next install, re-concretize lock files made against develop before 2 June (builds of zlib in e4s)"
    )
    for name, before, after, older in (
        ("place", {"zlib": [record(1), cray]}, {"zlib": [cray]}, few),
        ("machine", {"zlib": [record(1), record(3, os="rhel8"), cray | {"os": "rhel8"}]}, None, few),
        (
            "stack",
            many(1, 6, stacks=["rocm", "root"]),
            many(31, 6, stacks=["cray"]),
            ". Before the next install, re-concretize lock files made against develop before 2 June",
        ),
    ):
        last = after or {"zlib": [before["zlib"][0], before["zlib"][2]]}
        both = before if name != "stack" else {key: [*found, *last[key]] for key, found in before.items()}
        body = mail(digest_of(week(tmp_path / name, many(100, 10) | both, many(100, 10) | last), silenced=()))[1]
        assert body.startswith(f"Nothing is urgent{older}"), name


def test_machines_and_stacks_are_named_in_advice(tmp_path: Path) -> None:
    """Targets of a system once, and three of many; stacks likewise."""
    rest, rhel = many(100, 5), {"os": "rhel8"}
    two, four = ("neoverse_v1", "zen4"), ("x86_64_v3", "x86_64_v4", "zen3", "zen4")
    many_words = "for ubuntu22.04 (x86_64_v3, x86_64_v4, zen3) and 1 more"
    for targets, said in ((two, "for neoverse_v1 and ubuntu22.04 (zen4)"), (four, many_words)):
        kept = [record(20 + n, target=name, **rhel) for n, name in enumerate(targets) if name != "neoverse_v1"]
        lost = [record(n, target=target) for n, target in enumerate(targets)]
        states = (rest | {"zlib": found} for found in (kept + lost, kept))
        assert f"If you use zlib {said}: keep it" in mail(digest_of(week(tmp_path / f"{len(targets)}", *states)))[1]
    old, new = (
        [record(10 * place + n, versions=[version], stacks=[f"s{n}"]) for n in range(5)]
        for place, version in ((1, "2.0"), (2, "1.9"))
    )
    other = record(9, versions=["2.0"], stacks=["s5"])
    body = mail(digest_of(week(tmp_path / "stacks", rest | {"zlib": [*old, other]}, rest | {"zlib": [*new, other]})))[1]
    assert "If you use zlib for s0, s1, s2 and 2 more: keep it" in body


def test_a_version_that_stays_is_not_said_to_be_removed(tmp_path: Path) -> None:
    """Some of its builds went, from a place that has others or from another place."""
    specs = ((v, s) for v in ("0.3", "0.4") for s in "ab")
    both = [record(n, versions=[v], stacks=[s]) for n, (v, s) in enumerate(specs)]
    new = [record(10, versions=["0.5"], stacks=["a"]), record(11, versions=["0.5"], stacks=["b"])]
    body = mail(digest_of(week(tmp_path, {"zlib": both}, {"zlib": [*both[1:3], *new]})))[1]
    assert "zlib 0.4 -> 0.5 (0.3 stays in b, 0.4 stays in a) 2 of 2 stacks" in body


def test_versions_that_were_and_stay_are_no_upgrade_in_a_digest(tmp_path: Path) -> None:
    """One of several specs changes its version, both of which its stacks had: nothing is to be done."""
    for stacks in (["e4s", "root"], ["e4s", "ml", "root"]):
        for old, new in (("1.0", "1.1"), ("1.1", "1.0")):
            kept = [record(n, versions=[version], stacks=stacks) for n, version in ((1, old), (2, new))]
            before, after = ({"zlib": [*kept, record(n, versions=[v], stacks=stacks)]} for n, v in ((3, old), (4, new)))
            _, body = mail(digest_of(week(tmp_path / f"{len(stacks)}-{old}", before, after), silenced=()))
            assert f"BUILT IN ANOTHER WAY zlib {old} -> {new} ({old} stays)" in body
            assert body.startswith("Nothing is urgent. Before the next install, re-concretize lock files")
            assert not any(word in body for word in ("UPGRADED", "DOWNGRADED", "no stack has", "keep it"))


def test_a_package_that_is_listed_is_not_counted_as_unlisted(tmp_path: Path) -> None:
    """Nor one that is back, not as it was; changes of its own, of kinds that were not asked for, are said to be that."""
    old, new = (
        [record(n, versions=["1.0"]), record(n + 1, compiler="gcc@12.3.0", versions=[version])]
        for n, version in ((1, "1.1"), (5, "1.0"))
    )
    new[0]["variants"] = ["+cuda"]
    both = {"bzip2": [record(8)]}, {"bzip2": [record(9, variants=["+cuda"])]}
    asked = Selection(kinds=Globs(["downgraded"]))
    for others, said in (({}, {}), False), (both, True):
        name = "others" if said else "alone"
        states = (catalogue({"zlib": found} | other) for found, other in zip((old, new), others, strict=True))
        tag = read(history(tmp_path / name, *states), selection=asked)
        _, body = mail(digest_of(tag, silenced=()))
        assert "DOWNGRADED zlib" in body
        assert ("bzip2 changed in ways that this digest does not list." in body) is said
        assert "zlib also changed in ways that this digest does not list." in body
        back = returned("bzip2", of=1, before=("2026-11-20", "2026-11-27"), name="bzip2", exceptions=("bzip2",))
        _, body = mail(digest_of(replace(tag, statements=(*tag.statements, back)), silenced=()))
        assert "other package changed" not in body
    newest, kept, narrow = record(1, versions=["1.1"]), record(2), record(3, variants=["+cuda"])
    need, keep = "But if you need zlib 1.0 with +cuda", "keep it where it is installed. "
    curl, none = Packages(curl=[record(5)]), Packages()
    for newer, kind, says, lost in (
        ([newest], "downgraded", "DOWNGRADED zlib", none),
        ([], "package-added", f"(builds of zlib in e4s). {need} (no longer built), {keep}", none),
        ([], "gone", f"(builds of zlib in e4s). {need} (no longer built), {keep}", curl),
    ):
        sides = {"zlib": [*newer, kept, narrow]} | lost, {"zlib": [kept], "ninja": [record(4)]}
        tag = week(tmp_path / kind, *sides, selection=Selection(kinds=Globs([kind])))
        _, body = mail(digest_of(tag, silenced=()))
        assert says in body
        assert "Routine In fewer configurations: zlib (1.0 no longer with +cuda anywhere)." in body
    two = [
        record(2, stacks=["e4s", "ml"]),
        *(record(n, variants=["+cuda"], stacks=[s]) for n, s in ((3, "e4s"), (4, "ml"))),
    ]
    tag = week(
        tmp_path / "here",
        {"zlib": two},
        {"zlib": two[:2], "ninja": [record(5)]},
        selection=Selection(kinds=Globs(["package-added"])),
    )
    assert f"{need} in ml (other stacks or targets still have it), {keep}" in mail(digest_of(tag, silenced=()))[1]


def test_versions_of_a_package_share_a_spec() -> None:
    assert one_for_each(["tau@2.5", "hip@1.0", "tau@2.4,2.5"]) == ["tau@2.4,2.5", "hip@1.0"]


def test_of_several_sources_each_is_named(tmp_path: Path) -> None:
    """Their tags have the same names; what is new is installed from one of them."""
    zlib, other = {"zlib": [record(1)]}, {"ninja": [record(2)]}
    gone, new = week(tmp_path / "a", zlib | other, other), week(tmp_path / "b", other, other | {"new": [record(3)]})
    digest = digest_of(gone, replace(new, source="two"))
    body = mail(replace(digest, spans=(*digest.spans, replace(digest.spans[0], source="two"))))[1]
    assert "It is gone from all stacks of develop of public" in body
    assert "GONE, in develop of public zlib 1.0 all stacks NEW, in develop of two new 1.0 e4s" in body
    assert "spack install --cache-only new@1.0 # in develop of two" in body
