"""What readers who know nothing of cachewatch find in the first lines of a mail: the cause, and what to do in which order."""

import subprocess
from pathlib import Path
from typing import Any

from digests import NOW, called, digest_of, held, mail, mail_of, many, needs, read, returned, week
from helpers import catalogue, history, record, spec_hash
from msgspec.structs import replace

from cachewatch.core.advice.environment_coverage import Need, compare_coverage, cover
from cachewatch.core.advice.verbs_and_reasons import Action, Because, Known, Pinned, Verb
from cachewatch.core.advice.waits_and_reminders import OpenAction, Remembered
from cachewatch.core.filters_and_spec_patterns import Globs, Selection
from cachewatch.core.kinds_and_specs import Kind
from cachewatch.core.statement_kinds import Statement, StatementKind
from cachewatch.report.digests.body_and_table import lacked
from cachewatch.report.words_file import words


def test_it_is_said_that_no_cause_is_known(tmp_path: Path) -> None:
    """Of what was removed, of what has an older version, and of what was rebuilt."""
    before = {"gone": [record(1)], "older": [record(2, versions=["5.8.0"])], "again": [record(3)], "zlib": [record(4)]}
    after = {"older": [record(5, versions=["1.0.5"])], "again": [record(6)], "zlib": [record(4)]}
    _, body = mail(digest_of(week(tmp_path / "a", before, after), silenced=()))
    todo = body.partition("GONE")[0]
    assert todo.count("the catalogue does not say why.") == 2
    assert "again rebuilt; it is not known why." in body

    stack = many(50, 12, stacks=["radiuss", "root"]) | {"zlib": [record(4)]}
    for name, left in (("going", many(50, 12, stacks=["root"])), ("gone", {"curl": [record(7)]})):
        _, body = mail(digest_of(week(tmp_path / name, stack, left | {"zlib": [record(4)]}), silenced=()))
        assert "Stack radiuss was removed (the catalogue does not say why" in body

    pin = Pinned(tag="develop-2026-09-06", source="public", is_gone=True)
    _, body = mail(digest_of(week(tmp_path / "p", before, before | {"curl": [record(7)]}), pinned=(pin,)))
    assert "develop-2026-09-06, which you pinned, was removed without notice, as old snapshots are." in body
    pin = replace(pin, newest="develop-2026-08-30")
    _, body = mail(digest_of(week(tmp_path / "n", before, before | {"curl": [record(7)]}), pinned=(pin,)))
    assert "although it was the newest; the newest left is develop-2026-08-30." in body


def test_the_end_of_a_wait_names_its_cause(tmp_path: Path) -> None:
    """What was missing while publishing may have failed is back; what went in another way had another cause."""
    tag = week(tmp_path, {"zlib": [record(1)]}, {"zlib": [record(2, versions=["1.1"])]})
    back = returned("curl", "zlib", of=2, before=("2025-05-20", "2025-05-27"))
    tag = replace(tag, statements=(back, *tag.statements))
    waited = Known(since={("public", Verb.WAIT, "suspicious develop "): "2025-05-27"})
    assert "publishing had failed" not in mail(digest_of(tag))[1]
    body = mail(digest_of(tag, known=waited))[1]
    lock_file = "Re-concretize, too, if a lock file names zlib 1.0 from develop."
    assert body.startswith(f"The wait is over. {lock_file} What happened")
    assert "back, as they were on 20 May. It seems that publishing had failed." in body


def test_what_differs_about_what_is_back_comes_after_it(tmp_path: Path) -> None:
    """The compiler of the rest did not change, and lock files that name the old builds were told of with the loss."""
    old, new = ({f"p{n}": [record(n + by, compiler=f"gcc@{by}.1.0")] for n in range(6)} for by in (11, 21))
    tag = week(tmp_path, old, new)
    back = returned(*old, of=8, before=("2025-05-20", "2025-05-27"), name="e4s", exceptions=tuple(old))
    made, body = mail(digest_of(replace(tag, statements=(*tag.statements, back))))
    assert made.title == "6 of 8 packages are back in stack e4s; gcc 11.1.0 -> 21.1.0"
    back_in = "6 of 8 packages are back in stack e4s: p0, p1, p2, 3 more (missing there since 27 May)"
    assert f"What happened {back_in}, not as they were" in body
    differ = "6 packages, all of which are back and had 11.1.0 when they went missing."
    assert f"; 2 are still missing there. gcc 11.1.0 -> 21.1.0: {differ}" in body


def test_what_is_to_be_done_is_one_block_of_commands(tmp_path: Path) -> None:
    """First what has no build left is required, also where nothing older is there; then all else is as one command does it."""
    here = (("cuda", 1, "12.8.0"), ("hdf5", 2, "1.14"), ("tau", 3, "2.5"))
    rendered, body = mail_of(tmp_path, needs(*here), held(*here), held(("cuda", 4, "11.0"), ("hdf5", 5, "1.14")))

    block = [
        "(set -e  # stop at the first error; leave out what is not for you",
        "spack -e . config add \"packages:cuda:require:'@12.8.0:'\"",
        "spack -e . config add \"packages:tau:require:'@2.5'\"",
        "# (Spack builds from source what none of your mirrors has)",
        "spack -e . concretize --force",
        "spack -e . install",
        ")",
    ]
    assert "\n    ".join(["of your environment:", *block]) in rendered.text
    assert "require cuda@12.8.0 or newer, tau@2.5 before you re-concretize" in body
    escaped = [line.replace("&", "&amp;").replace('"', "&#34;").replace("'", "&#39;") for line in block]
    assert all(line in rendered.html for line in escaped)


def test_a_copy_comes_after_re_concretizing(tmp_path: Path) -> None:
    """Also without an environment: what is copied is what is installed; a shell refuses what is for the reader to fill in."""
    rocm = many(0, 6, stacks=["rocm", "root"])
    new = {f"q{name}": found for name, found in many(100, 20).items()}
    old = {name: [one | {"hash": spec_hash(200 + n)} for one in found] for n, (name, found) in enumerate(new.items())}
    unbuilt = {name: [one | {"stacks": ["root"]} for one in found] for name, found in rocm.items()}
    rendered, body = mail(digest_of(week(tmp_path, rocm | old, unbuilt | new), silenced=()))
    who = "If you use, for x86_64_v3, one of p000, p001, p002, p003, p004, p005"
    what = "require it (version in the commands), re-concretize, install, and copy it from develop"
    assert f"{who}: {what}" in body
    block = [
        "OWN=  # folder or URL of a mirror of your own",
        "(set -e  # stop at the first error; leave out what is not for you",
        ': "${OWN:?}"  # remove this line with what needs it',
        "# only the lines of packages that you use on x86_64_v3:",
        *(f"spack -e . config add \"packages:p00{n}:require:'@1.0'\"" for n in range(6)),
        "# if the lock file was made against develop before 2 June:",
        "spack -e . concretize --force",
        "# in any case:",
        "spack -e . install",
        "# copy it; leave out the next line if you added it already:",
        'spack -e . mirror add --unsigned own "${OWN:?}"',
        "spack -e . buildcache push --update-index own",
        ")",
    ]
    assert "\n    ".join(["", *block]) in rendered.text


def test_not_all_is_rebuilt_where_something_is_to_be_copied(tmp_path: Path) -> None:
    """What no stack builds is to be copied, so that the sentence about all binaries is about those that stacks build."""
    old, new = ({f"q{name}": found for name, found in many(first, 20).items()} for first in (100, 200))
    needs = (Need(package="hip", version="1.0"),)
    of: dict[str, Any] = {"source": "public", "tag": "develop", "names": ("hip",), "count": 1}
    task = Action(verb=Verb.LOOK, because=Because.GOING, needs=needs, **of)
    told = OpenAction(verb="look", subject="hip", since="2025-05-20", last_repeated=NOW, task=task)
    tag = week(tmp_path, old, new)
    _, body = mail(digest_of(tag, remembered=Remembered((told,))))
    assert "All of the binaries of 1 June that stacks build were rebuilt" in body
    assert "All of the binaries of 1 June were rebuilt" in mail(digest_of(tag))[1]

    # What is gone with a stack was not rebuilt, and whoever has that keeps it.
    rocm = many(0, 6, stacks=["rocm"])
    body = mail(digest_of(week(tmp_path / "removed", rocm | old, new)))[1]
    assert "All of the binaries of 1 June are gone (rebuilt 77%, replaced or removed 23%; the catalogue" in body
    assert "Re-concretize lock files made against develop before 2 June" in body
    # 52.5% and 12.5%
    kept = {f"k{name}": found for name, found in many(500, 14).items()}
    states = (many(0, 5, stacks=["rocm"]) | old | kept | {"x": [record(90)]}, new | kept | {"x": [record(91)]})
    body = mail(digest_of(week(tmp_path / "parts", *states)))[1]
    assert "65% of the binaries of 1 June are gone (rebuilt 53%, replaced or removed 12%; the catalogue" in body
    # 12.5% and 56.25%
    moved, now = ({f"m{name}": found for name, found in many(600, 9, os=os).items()} for os in ("sles15", "rhel9"))
    kept = {f"k{name}": found for name, found in many(500, 5).items()}
    body = mail(digest_of(week(tmp_path / "small", many(0, 2) | moved | kept, many(31, 2) | now | kept)))[1]
    assert "69% of the binaries of 1 June are gone (rebuilt 13%, replaced or removed 56%)" in body
    rocm |= {f"r{name}": found for name, found in many(300, 20, stacks=["ml"]).items()}
    moved = {f"q{name}": found for name, found in many(400, 20, os="ubuntu24.04").items()}
    moved |= {name: found for name, found in rocm.items() if name.startswith("r")}
    body = mail(digest_of(week(tmp_path / "moved", rocm | old, moved)))[1]
    assert "57% of the binaries of 1 June were replaced or removed." in body
    assert "lock files made against" not in body


def test_packages_of_a_stack_are_those_of_the_lock_file(tmp_path: Path) -> None:
    """Who is told of an environment selected no packages."""
    states = (
        many(0, 12, stacks=[*own, "e4s", "hep"]) | {"p011": [record(11, stacks=[*own, "root"])]}
        for own in (["rocm"], [])
    )
    tag = week(tmp_path, *states)
    tag = replace(tag, statements=tuple(replace(one, of=40) for one in tag.statements))
    environment = needs(("p011", 11, "1.0"))
    change = compare_coverage(*(cover(environment, held(("p011", 11, "1.0"))) for _ in range(2)))
    assert "of its 12 packages that you selected" in mail(digest_of(tag, silenced=()))[1]
    assert "of its 12 packages that your lock file names" in mail(digest_of(tag, environment=change, silenced=()))[1]


def test_what_is_only_built_in_an_older_version_is_built_from_source(tmp_path: Path) -> None:
    """A newer one will do, so that nobody has to wait for the end of a mistake."""
    tag = week(tmp_path, {"openmpi": [record(1, versions=["5.8.0"])]}, {"openmpi": [record(2, versions=["1.0.5"])]})
    _, body = mail(digest_of(tag))
    assert "If you use openmpi: keep it where it is installed, and require openmpi@5.8.0 or newer before you" in body
    assert "Do not wait for a correction: a corrected openmpi will satisfy the requirement, too." in body
    rebuilt = {
        name: [one | {"hash": spec_hash(400 + n)} for one in found]
        for n, (name, found) in enumerate(many(50, 20).items())
    }
    before = many(50, 20) | {"openmpi": [record(1, versions=["5.8.0"])]}
    tag = week(tmp_path / "all", before, rebuilt | {"openmpi": [record(2, versions=["1.0.5"])]})
    block = [
        "(set -e  # stop at the first error; leave out what is not for you",
        "# if you use openmpi:",
        "spack -e . config add \"packages:openmpi:require:'@5.8.0:'\"",
    ]
    assert "\n    ".join(["of your environment:", *block]) in mail(digest_of(tag))[0].text


def test_who_re_concretized_before_a_rebuild_is_asked_again(tmp_path: Path) -> None:
    """The lock file is the old one, so that nobody sees whether they did; not where nothing was asked for."""
    environment = needs(("hdf5", 1, "1.14"))
    old, new = ({f"q{name}": found for name, found in many(first, 20).items()} for first in (100, 200))
    tag = week(tmp_path, old, new)
    routine = replace(tag, statements=(), rest=tag.statements)
    for shown, number, is_asked in ((tag, 4, True), (routine, 4, True), (tag, 1, False)):
        cache = held(("hdf5", number, "1.14"))
        change = compare_coverage(cover(environment, cache), cover(environment, cache))
        known = Known(since={("public", Verb.RECONCRETIZE, "hdf5"): "2025-05-25"}, met=frozenset({spec_hash(1)}))
        made, body = mail(digest_of(shown, environment=change, known=known, silenced=()))
        assert (made.title == "everything rebuilt; still open: re-concretize") is (is_asked and shown is routine)
        assert ("Re-concretize, even if you did so before 2 June: old builds are gone." in body) is is_asked


def test_what_an_environment_required_ends_with_a_newer_version(tmp_path: Path) -> None:
    """Else re-concretizing, which is asked for, could not choose that."""
    environment = needs(("hdf5", 1, "1.14"))
    known = Known(since={("public", Verb.BUILD, "hdf5"): "2025-05-25"}, met=frozenset({spec_hash(1)}))
    for version, is_lifted in (("1.15", True), ("1.13", False)):
        pins, after = (Pinned(tag="develop-2025-05-25", source="public"),), held(("hdf5", 2, version))
        _, pinned = mail_of(tmp_path / f"{version} pinned", environment, {}, after, known=known, pinned=pins)
        _, body = mail_of(tmp_path / version, environment, {}, after, known=known)
        assert (
            "If you required hdf5, as an earlier mail asked: a version at least as new is built again, maybe by another stack"
            in body
        ) is is_lifted
        assert ("develop: If you required hdf5, as" in pinned) is is_lifted
        assert ("Your pin develop-2025-05-25 has not changed." in pinned) is is_lifted
        assert ("config remove packages:hdf5:require" in body) is is_lifted


def test_what_an_environment_lost_for_its_system_alone_names_that(tmp_path: Path) -> None:
    """Another system has the same version for its target."""
    environment, cache = needs(("hdf5", 1, "1.14")), held(("hdf5", 1, "1.14"))
    other = {"hdf5": {spec_hash(2): replace(cache["hdf5"][spec_hash(1)], os="ubuntu24.04")}}
    assert "hdf5 1.14 is gone for ubuntu22.04, x86_64_v3" in mail_of(tmp_path, environment, cache, other)[1]


def test_a_selection_of_what_was_rebuilt_is_counted(tmp_path: Path) -> None:
    """Of packages without changes it is not known whether the selected stacks have them."""
    old = many(0, 20, stacks=["ml", "root"]) | {"cray": [record(50, stacks=["cray", "root"])]}
    left = {name: [one | {"stacks": ["root"]} for one in found] for name, found in old.items()}
    rebuilt = {name: [one | {"hash": spec_hash(200 + n)} for one in old[name]] for n, name in enumerate(old)}
    new = {name: left[name] + rebuilt[name] for name in old}
    repository = history(tmp_path / "r.git", catalogue(old), catalogue(new))
    for selection, title, said in (
        (Selection(), "everything rebuilt", "Everything was rebuilt beside 21 old builds"),
        (Selection(stacks=Globs(["ml"])), "20 packages rebuilt", "20 packages were rebuilt beside 20 old builds"),
    ):
        rendered, body = mail(digest_of(read(repository, selection=selection), silenced=()))
        assert said in body
        assert rendered.title.startswith(title)


def test_a_subject_does_not_count_a_binary_twice(tmp_path: Path) -> None:
    """One of which an equal build was there has a newer version now: as many as before are to be re-concretized."""
    environment = needs(("hdf5", 1, "1.14"), ("zlib", 2, "1.0"), ("tau", 3, "2.5"))
    before = held(("hdf5", 4, "1.14"), ("zlib", 5, "1.0"), ("tau", 6, "2.5"))
    tag = week(tmp_path, {"zlib": [record(5)]}, {"zlib": [record(7, versions=["1.1"])]})
    for met, share in (((1, 2, 3), "all 3"), ((1, 2), "2 of 3")):
        after = held(("hdf5", 4, "1.14"), ("zlib", 7, "1.1"), ("tau", 6, "2.5"))
        change = compare_coverage(cover(environment, before), cover(environment, after))
        known = Known(met=frozenset(map(spec_hash, met)))
        rendered, _ = mail(digest_of(tag, environment=change, known=known))
        assert rendered.title == f"re-concretize (still {share}): zlib 1.0 -> 1.1"


def test_of_what_is_suspicious_a_subject_counts_what_was_selected(tmp_path: Path) -> None:
    """Beside the number for the whole tag; the list below it has the same number."""
    selection = Selection(tags=Globs(["develop"]), packages=Globs(["p004", "p005"]))
    tag = week(tmp_path, many(0, 10), many(0, 3), selection=selection)
    rendered, _ = mail(digest_of(tag, subscription="e4s"))
    assert rendered.title == "suspicious: 7 of 10 packages are missing from develop, 2 of yours"


def test_the_cause_of_what_an_environment_misses_is_not_routine(tmp_path: Path) -> None:
    """What was rebuilt and pruned stands above the table, with counts of the cache apart from those of the lock file."""
    environment = needs(("hdf5", 1, "1.14"), ("zlib", 2, "1.0"), ("tau", 3, "2.5"))
    before = held(("hdf5", 4, "1.14"), ("zlib", 2, "1.0"), ("tau", 3, "2.5"))
    after = held(("hdf5", 4, "1.14"), ("zlib", 5, "1.0"), ("tau", 3, "2.5"))
    change = compare_coverage(cover(environment, before), cover(environment, after))
    old = {"zlib": [record(2), *(record(10 + n, stacks=["root"]) for n in range(4))], "tau": [record(3)]}
    tag = week(tmp_path, old, {"zlib": [record(5)], "tau": [record(3)]})
    known = Known(met=frozenset({spec_hash(1)}))
    rendered, body = mail(digest_of(tag, environment=change, known=known, silenced=()))

    assert rendered.title.startswith("1 more of 3 binaries (2 by now) replaced: re-concretize")
    happened = body.partition("What happened ")[2].partition("Still open")[0]
    assert "of the packages in your lock file" in happened
    assert "pruned" in happened
    assert "zlib rebuilt; it is not known why." in happened
    assert "2 of your binaries are gone (hdf5, zlib), equal builds are there" in body
    assert "Routine" not in body


def test_a_subject_names_the_part_of_a_package_that_changed(tmp_path: Path) -> None:
    """Stacks, or the target if all of its stacks changed and usual machines do not have it."""
    cases = (
        (["arm"], "5", "6", "1.6 for aarch64"),
        (["arm", "e4s"], "55", "66", "1.6"),
        (["arm", "e4s", "hep"], "555", "665", "1.6 for arm and e4s"),
        (["arm", "arm-mac"], "56", "66", "1.6 for arm"),
        (["arm", "arm-mac"], "55", "45", "1.4 for arm (older)"),
        (["arm", "e4s"], "55", "54", "1.4 (older)"),
        (["e4s", "hep"], "55", "45", "1.4 for e4s (older)"),
        ("abcd", "5555", "4445", "1.4 in 3 of 4 stacks (older)"),
        ([f"ml-linux-x86_64-{one * 9}" for one in "abc"], "555", "665", "1.6 in 2 of 3 stacks"),  # else it is too long
    )
    targets = {True: "aarch64", False: "x86_64_v3"}
    old, new = (
        {f"p{i}": [record(50 * i + 9 * n + int(v), versions=[f"1.{v}"], stacks=[one], target=targets["arm" in one])
                   for n, (one, v) in enumerate(zip(stacks, versions[state], strict=True))]
         for i, (stacks, *versions, _) in enumerate(cases)}
        for state in (0, 1)
    )  # fmt: skip
    tag = week(tmp_path, old, new)
    titles = {one.name: mail(digest_of(replace(tag, statements=(one,))))[0].title for one in tag.statements if one.name}
    assert titles == {f"p{n}": f"p{n} 1.5 -> {said}" for n, (*_, said) in enumerate(cases)}
    # Of several stacks, those that nobody asked for are neither counted nor told apart.
    for chosen, said in (("abc", "1.4 (older)"), ("abd", "1.4 for a and b (older)")):
        own = read(tmp_path / "r.git", selection=Selection(packages=Globs(["p7"]), stacks=Globs([*chosen])))
        assert mail(digest_of(own))[0].title == f"p7 1.5 -> {said}"


def test_a_subject_names_the_target_that_a_stack_no_longer_has(tmp_path: Path) -> None:
    """The stack is not without the package: it builds it for another target."""
    curl = [record(4, target="zen5", stacks=["cray"]), record(3)]
    cases = ((["e4s"], 1, "zlib gone from e4s on zen4"), (["e4s", "ml"], 1, "zlib gone from 2 stacks on zen4"))
    for stacks, n, said in (*cases, (["e4s"], 2, "curl, zlib gone from some machines of e4s")):
        zlib = ([record(number, target=target, stacks=stacks)] for number, target in ((1, "zen4"), (2, "zen5")))
        states = ({"zlib": one, "curl": curl[:n]} | many(20, 12) for one, n in zip(zlib, (n, 1), strict=True))
        assert said in mail(digest_of(week(tmp_path / f"{len(stacks)}{n}", *states)))[0].title
    stays = many(20, 12)
    for name, own, said in (("each", ["cray"], "1 stack each"), ("some", ["cray", "e4s"], "some stacks")):
        lost = {"curl": [record(4, stacks=own)], "zlib": [record(5, stacks=["ml"])]}
        left = {"curl": [record(6, stacks=["hep"], os="x")], "zlib": [record(7, stacks=["hep"], os="x")]}
        assert mail(digest_of(week(tmp_path / name, stays | lost, stays | left)))[0].title.startswith(
            f"curl, zlib gone from {said}"
        )


def test_a_fall_is_called_a_mistake_wherever_it_is_named(tmp_path: Path) -> None:
    """In the subject, the advice and the table; a smaller step back is only older: who means it seldom goes so far."""
    for version, said, advice in (
        ("1.0.5", "may be a mistake", ", which may be a mistake,"),
        ("5.7.0", "older", ", and the catalogue"),
    ):
        before, after = {"openmpi": [record(1, versions=["5.8.0"])]}, {"openmpi": [record(2, versions=[version])]}
        rendered, body = mail(digest_of(week(tmp_path / version, before, after)))
        assert f"Only an older version is built now{advice}" in body
        assert rendered.title == f"openmpi 5.8.0 -> {version} ({said})"
        assert body.count("may be a mistake") == (2 if said != "older" else 0)


def test_a_removed_snapshot_is_named_in_the_first_lines(tmp_path: Path) -> None:
    """Who still uses it is to move; the cause is the same as for readers who pinned it."""
    gone = Statement(kind=StatementKind.TAG_REMOVED, name="develop-2026-09-06", kinds=frozenset({Kind.TAG_REMOVED}))
    tag = week(tmp_path, {"zlib": [record(1)]}, {"zlib": [record(2)]})
    _, body = mail(digest_of(replace(tag, statements=(gone, *tag.statements))))
    removed = "develop-2026-09-06: it was removed, as old snapshots are; move to a newer one and re-concretize."
    assert f"(builds of zlib in e4s). If you use {removed}" in body
    assert "Tag develop-2026-09-06 was removed, with 0 packages, as old snapshots are." in body
    withdrawn = replace(gone, name="develop-2026-09-13", after=("develop-2026-08-30",))
    _, body = mail(digest_of(replace(tag, statements=(gone, withdrawn, *tag.statements))))
    both = "develop-2026-09-06, develop-2026-09-13: they were removed, also the newest; go back to develop-2026-08-30"
    assert f"(builds of zlib in e4s). If you use {both} and re-concretize." in body
    own = called(tag, "develop-2026-09-06", "develop-2026-09-06")
    body = mail(digest_of(replace(own, statements=(gone,)), tag))[1]
    assert "re-concretize lock files made against develop before 2 June" in body


def test_what_a_branch_has_is_no_part_of_a_new_snapshot(tmp_path: Path) -> None:
    """The subject does not join them by a colon; a snapshot that lacks something is compared with the removed ones."""
    old, new = ({"zlib": [record(n, versions=[v])]} for n, v in ((1, "1.0"), (2, "1.1")))
    snapshot = called(week(tmp_path / "s", old, old), "develop-2026-09-13", "develop-2026-09-20")
    added = Statement(kind=StatementKind.TAG_ADDED, name="develop-2026-09-20", kinds=frozenset({Kind.TAG_ADDED}))
    rendered, _ = mail(digest_of(replace(snapshot, statements=(added,)), week(tmp_path / "b", old, new)))
    assert rendered.title == "develop-2026-09-20 is out; zlib 1.0 -> 1.1"


def test_readers_of_a_removed_snapshot_move_to_the_newest_or_to_one_that_has_more(tmp_path: Path) -> None:
    gone = Statement(kind=StatementKind.TAG_REMOVED, name="develop-2026-09-06", kinds=frozenset({Kind.TAG_REMOVED}))
    tag = week(tmp_path, {"zlib": [record(1)], "hip": [record(2)]}, {"zlib": [record(3)]})
    snapshot = called(tag, "develop-2026-09-13", "develop-2026-09-20")
    _, body = mail(digest_of(replace(snapshot, statements=(gone, *tag.statements))))
    fuller = "develop-2026-09-13, if you need what the new one lacks"
    assert f"move to develop-2026-09-20 (or to {fuller}) and re-concretize." in body
    assert "# to move from an older snapshot to develop-2026-09-20 (or put # develop-2026-09-13 in its place):" in body
    base = replace(gone, name="develop-2026-09-13")
    _, body = mail(digest_of(replace(snapshot, statements=(gone, base, *tag.statements))))
    assert "to develop-2026-09-20 (it lacks what is named above, and maybe more of this one) and re-concretize." in body


def test_who_moves_to_a_new_snapshot_re_concretizes_in_any_case(tmp_path: Path) -> None:
    """Builds that it has only in another version are no reason of their own."""
    before, after = [record(1), record(2, stacks=["hep"])], [record(3, versions=["1.1"], stacks=["hep"])]
    tag = week(tmp_path, {"zlib": before}, {"zlib": after})
    sides = ((tag.report.before, "develop-2026-09-13"), (tag.report.after, "develop-2026-09-20"))
    old, new = (replace(side, tag=name) for side, name in sides)
    report = replace(tag.report, before=old, after=new)
    _, body = mail(digest_of(replace(tag, report=report)))
    assert "IN OTHER BUILDS ONLY for x86_64_v3 zlib 1.0 e4s; 1.1 is in hep, 1.0 is gone" in body
    assert body.startswith("To do If you use an older snapshot than develop-2026-09-20, move to it and re-concretize")
    assert body.count("concretize --force") == 1


def test_a_block_that_is_not_filled_in_runs_nothing(tmp_path: Path) -> None:
    """A shell refuses a blank, and with it all commands of the block that follow."""
    package = {"hip": [record(1, stacks=["rocm", "root"])], "zlib": [record(2)]}
    unbuilt = package | {"hip": [record(1, stacks=["root"])]}
    rendered, _ = mail(digest_of(week(tmp_path, package, unbuilt)))
    block = rendered.text.partition("of your environment:\n")[2].partition("\nBUILT")[0]
    (tmp_path / "spack").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "spack").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    for own, ran in (("OWN=", 0), ("OWN=/tmp/own", 4)):
        command = ["bash", "-c", block.replace("OWN=", own, 1)]
        said = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
        assert said.stdout.count("ran") == ran, said.stderr


def test_blocks_of_which_one_is_run_are_said_to_be_a_choice(tmp_path: Path) -> None:
    """Who is pinned moves or stays; the mirror of their own is added once."""
    tag = week(tmp_path, {"zlib": [record(1)]}, {"zlib": [record(2, versions=["1.1"])]})
    pin = Pinned(tag="develop-2026-09-06", source="public", newest="develop-2026-09-27", statements=tag.statements)
    rendered, body = mail(digest_of(tag, pinned=(pin,)))
    assert "Commands In the folder of your environment, the block that is for you: " in body
    either, choice, stay = rendered.text.partition(
        "    # or stay on develop-2026-09-06, and copy what you use of it:\n"
    )
    assert choice
    assert "    # either move to develop-2026-09-27:\n    (set -e" in either
    assert (
        "    # copy it; leave out the next line if you added it already:\n    spack -e . mirror add --unsigned own"
        in stay
    )
    assert "of your environment:" not in rendered.text
    assert "# if you use develop:" not in body
    pin = Pinned(tag="develop-2026-09-06", source="public")
    _, body = mail(digest_of(week(tmp_path / "all", many(0, 20), many(100, 20)), pinned=(pin,)))
    assert "of your environment: # if you use develop: spack -e . concretize --force" in body


def test_what_no_stack_builds_is_named_whole(tmp_path: Path) -> None:
    """By the names readers know whether they are concerned; a new snapshot that lacks it names the stack and the count."""
    names = [f"q{n}" for n in range(11)]
    before = many(100, 5) | {name: [record(n, stacks=["rocm", "root"])] for n, name in enumerate(names)}
    after = many(100, 5) | {name: [record(n, stacks=["root"])] for n, name in enumerate(names)}
    _, body = mail(digest_of(week(tmp_path / "branch", before, after)))
    assert f"If you use, for x86_64_v3, one of {', '.join(sorted(names))}: require it (version in the commands)" in body
    kept = {name: [record(50 + n, target="aarch64")] for n, name in enumerate(names)}
    older = {name: [*before[name], *kept[name]] for name in names} | {"mpi": [record(91, versions=["5.0"])]}
    tag = week(tmp_path / "new", before | older | {"hip": [record(90)]}, many(100, 5) | kept | {"mpi": [record(92)]})
    said = "hip, mpi newer than 1.0, or 11 packages that went with stack rocm for x86_64_v3"
    assert lacked(tag.statements, words()) == said


def test_a_subject_without_news_says_what_ends_or_is_open(tmp_path: Path) -> None:
    """Of a narrow subscription, it does not say that there are no changes."""
    zlib = {"zlib": [record(1)]}, {"zlib": [record(2, versions=["1.1"])]}
    tag = week(tmp_path / "a", *zlib, selection=Selection(kinds=Globs(["downgraded"])))
    of: dict[str, Any] = {
        "source": "public",
        "tag": "develop",
        "names": ("hip",),
        "needs": (Need(package="hip", version="1.0"),),
    }
    none, titles = "nothing that you asked for", []
    for because in (Because.GOING, Because.GONE):
        task = Action(verb=Verb.LOOK, because=because, count=1, **of)
        told = OpenAction(verb="look", subject="hip", since="2025-05-20", last_repeated=NOW, task=task)
        titles.append(mail(digest_of(tag, remembered=Remembered((told,)), silenced=()))[0].title)
    known = Known(since={("public", Verb.BUILD, "hdf5"): "2025-05-25"})
    titles += [mail(digest_of(tag, known=one, silenced=()))[0].title for one in (known, Known())]
    assert titles == [
        f"{none}; still open: copy what may be pruned",
        f"{none}; still open: keep what is installed",
        "hdf5: no longer to be required",
        none,
    ]
