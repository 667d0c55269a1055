"""Five kinds of weeks as mails: the cause and the right action are in the subject and the first lines."""

from pathlib import Path

import pytest
from conftest import Run
from digests import NOW, called, digest_of, held, mail, mail_of, many, needs, read, returned, unbuilt, week
from helpers import Record, catalogue, history, record, spec_hash, without
from msgspec.structs import replace

from cachewatch.core.advice.environment_coverage import Environment, compare_coverage, cover
from cachewatch.core.advice.verbs_and_reasons import Action, Alternative, Because, Known, Level, Pinned, Verb
from cachewatch.core.advice.waits_and_reminders import OpenAction, Remembered
from cachewatch.core.filters_and_spec_patterns import Globs, Selection
from cachewatch.core.statement_kinds import Statement, StatementKind
from cachewatch.report.digest_and_message_values import TagDigest
from cachewatch.report.digests.rendering_and_sizes import render_digest

BEFORE_2_JUNE = (
    "Nothing is urgent. Before the next install, re-concretize lock files made against develop before 2 June"
    " (builds of zlib in radiuss)."
)
E4S, RADIUSS, BOTH = (["e4s", "root"], ["radiuss", "root"], ["e4s", "radiuss", "root"])


def test_a_stack_is_removed_and_a_compiler_changes(tmp_path: Path) -> None:
    """Who uses the stack keeps what is installed; what is gone is named, what has equal builds is counted."""
    own = {"umpire": [record(900, stacks=RADIUSS)], "raja": [record(901, stacks=RADIUSS)]}
    old = many(0, 20) | {"hdf5": [record(700)], "cuda": [record(701)]}
    new = {name: [record(300 + n, compiler="gcc@13.3.0")] for n, name in enumerate(many(0, 20))}
    more = {name: [record(500 + n, stacks=RADIUSS)] for n, name in enumerate([*many(0, 12), "hdf5"])}
    shared = {name: [*found, *more.get(name, [])] for name, found in old.items()}
    tag = week(tmp_path, shared | own, new | {"hdf5": old["hdf5"], "cuda": old["cuda"]})
    rendered, body = mail(digest_of(tag, subscription="e4s"))

    assert rendered.title == "stack radiuss removed, 2 packages with it; gcc 11.4.0 -> 13.3.0"
    assert rendered.level == "alarm"
    assert body.startswith(
        "To do If you use radiuss: keep what is installed. 2 packages have no other build (raja, umpire). "
        "Re-concretize lock files made against develop before 2 June: builds that they name are gone. "
        "Spack then installs what is gone from a mirror that still has it, or builds it from source. What happened Stack radiuss was removed (the catalogue does not say why); 13 of its 15 packages have equal builds in e4s (12 with another compiler: gcc@13.3.0), 2 are gone. "
        "gcc 11.4.0 -> 13.3.0: 20 packages; cuda, hdf5 still on 11.4.0 in e4s."
    )
    assert "Commands In the folder of your environment: spack -e . concretize --force && spack" in body
    assert "GONE for x86_64_v3 raja 1.0 radiuss umpire 1.0 radiuss" in body
    assert "p000" not in body

    older = {"raja": [record(902, versions=["0.9"])]}
    tag = week(tmp_path / "older", shared | {"raja": own["raja"] + older["raja"]}, old | older)
    assert "1 package has no other build as new for x86_64_v3 (raja). " in mail(digest_of(tag))[1]
    other = {"raja": [record(903, target="zen4")]}
    tag = week(tmp_path / "other", shared | {"raja": own["raja"] + other["raja"]}, old | other)
    assert "(raja); you need not require it. " in mail(digest_of(tag))[1]


def test_advice_on_a_renamed_stack_names_only_what_it_lost(tmp_path: Path) -> None:
    """What the stack moved is still there."""
    states = (
        {"raja": [record(n, versions=[version], stacks=[stack])]}
        | {p: [record(3, stacks=[stack])] for p in ("xz", "zlib")}
        for n, version, stack in ((1, "1.0", "mps"), (2, "0.9", "m4"))
    )
    split = ({f"p{n}": [record(n, stacks=[on[n % 2]])] for n in range(20)} for on in (["mps"] * 2, ["m4", "m5"]))
    tag = week(tmp_path / "split", *split)
    assert "Stack mps is now m4, m5" in mail(digest_of(tag))[1]
    tag = week(tmp_path, *states)
    asked = "This subscription does not select m4, as mps is called now: have its stacks changed."
    assert asked in mail(digest_of(tag, stacks=Globs(["mps"])))[1]
    body = mail(digest_of(tag, stacks=Globs(["m*"])))[1]
    assert asked not in body
    assert "Stack mps is now called m4 (2 packages)" in body
    assert "DOWNGRADED raja 1.0 -> 0.9 m4" in body
    todo = body.partition("What happened")[0]
    assert "raja" in todo
    assert "xz" not in todo


def test_publishing_failed(tmp_path: Path) -> None:
    """Nothing is said to be gone, and nothing offers an install."""
    tag = week(tmp_path, many(0, 10), many(0, 3))
    rendered, body = mail(digest_of(tag, subscription="all", silenced=()))

    assert rendered.title == "suspicious: 7 of 10 packages are missing from develop"
    assert (rendered.level, rendered.advice.partition(".")[0]) == ("alarm", "Wait")
    assert body == (
        "To do Wait. Publishing may have failed; install nothing new and keep your lock files. "
        "The operators have not confirmed it. What happened Missing since 2 June (the catalogue does not say why): p003, p004, p005, 4 more, in e4s."
    )
    confirmed = replace(digest_of(tag), known=Known(confirmed=frozenset({("public", "develop")})))
    rendered, body = mail(confirmed)
    assert rendered.title.startswith("missing, confirmed by the operators: 7 packages")
    assert body.startswith("To do Keep what is installed: p003")


def test_everything_is_back(tmp_path: Path) -> None:
    """One sentence with the days, no package is new, and what differs is the upgrade that it is."""
    tag = week(tmp_path, {"zlib": [record(1, versions=["1.3.1"])]}, {"zlib": [record(2, versions=["1.3.2"])]})
    names = tuple(sorted({*many(0, 149), "zlib"}))
    back = returned(*names, of=150, before=("2026-11-20", "2026-11-27"), exceptions=("zlib",))
    rendered, body = mail(digest_of(replace(tag, statements=(back, *tag.statements)), subscription="all", silenced=()))

    assert rendered.title == "150 of 150 packages are back; zlib 1.3.1 -> 1.3.2"
    assert rendered.level == "calm"
    assert body.startswith(
        "Nothing to do. What happened 150 of 150 packages that were missing since 27 November are back, "
        "as they were on 20 November except zlib. "
        "UPGRADED, no stack has the old version zlib 1.3.1 -> 1.3.2 e4s"
    )


@pytest.fixture
def snapshot(tmp_path: Path) -> TagDigest:
    """A new snapshot that lacks two packages, has an older and a newer one, and another compiler."""
    others = {"py-tensorflow": [record(100)], "hip": [record(101, stacks=["rocm", "root"])]}
    versions = {"rocblas": [record(102, versions=["6.4.0"])], "py-torch": [record(103, versions=["2.8.0"])]}
    old = many(0, 20) | others | versions
    new = {name: [record(200 + n, compiler="gcc@13.3.0")] for n, name in enumerate(many(0, 20))} | {
        "rocblas": [record(202, versions=["6.2.4"])],
        "py-torch": [record(203, versions=["2.9.0"])],
    }
    for n, records in enumerate([*old.values()][:6]):
        records.append(record(400 + n, stacks=["rocm", "root"]))
    return called(week(tmp_path, old, new), "develop-2026-09-27", "develop-2026-11-15")


def test_a_new_snapshot_lacks_something(snapshot: TagDigest) -> None:
    """Whoever pinned the older one stays, or moves without what is listed; it is no alarm."""
    pin = Pinned(tag="develop-2026-09-27", source="public", newest="develop-2026-11-15", newer=1)
    own = Statement(kind=StatementKind.TAG_ADDED, name=pin.tag)
    snapshot = replace(snapshot, statements=(own, *snapshot.statements))
    rendered, body = mail(digest_of(snapshot, subscription="releases", pinned=(pin,)))

    assert f"{pin.tag} is out" not in body
    assert rendered.title.startswith("develop-2026-11-15 is out: moving would lose 2 packages")
    assert rendered.level == "notice"
    assert body.startswith(
        "To do Stay on develop-2026-09-27, or move without what is listed. "
        "What happened develop-2026-11-15 against develop-2026-09-27: 2 packages gone (1 only for x86_64_v3), rocblas 6.4.0 -> 6.2.4 (older), "
        "py-torch 2.8.0 -> 2.9.0. gcc 11.4.0 -> 13.3.0: 20 packages"
    )
    assert "All hashes differ." in body
    assert "YOU WOULD LOSE" in body
    assert "py-tensorflow 1.0 all stacks" in body
    assert "hip 1.0 stack rocm removed (x86_64_v3)" in body
    assert "DOWNGRADED rocblas 6.4.0 -> 6.2.4 e4s" in body
    assert "py-torch 2.8.0 -> 2.9.0 e4s" in body
    assert "GONE" not in body
    assert "safe" not in body


def test_a_new_snapshot_lacks_nothing(snapshot: TagDigest) -> None:
    """Who uses an older one is to move; there is nothing else to do."""
    upgrades = tuple(one for one in snapshot.statements if one.kind is StatementKind.UPGRADED)
    whole = replace(snapshot, statements=upgrades)
    _, body = mail(digest_of(whole, silenced=()))
    assert body.startswith(
        "To do If you use an older snapshot than develop-2026-11-15, move to it and re-concretize: old ones are "
        "removed without notice. What happened develop-2026-11-15 against develop-2026-09-27: py-torch 2.8.0 -> 2.9.0. "
        "Commands In the folder of your environment: "
        "OLD_NAME= # of the mirror of your older snapshot: see spack mirror list "
        "# to move from an older snapshot to develop-2026-11-15: (set -e # stop at the first error "
        ': "${OLD_NAME:?}" '
        "spack -e . mirror add develop-2026-11-15 https://binaries.spack.io/develop-2026-11-15 "
        'spack -e . mirror remove "${OLD_NAME:?}" '
        "spack -e . concretize --force spack -e . install ) "
    )
    lock_files = Action(
        verb=Verb.LOOK, because=Because.TURNOVER, source="public", tag="develop", name="2025-05-25", since="2025-05-25"
    )
    told = OpenAction(
        source="public",
        verb="look",
        subject="lock-files develop",
        since="2025-05-25",
        last_repeated=NOW,
        task=lock_files,
    )
    _, body = mail(digest_of(whole, remembered=Remembered((told,)), silenced=()))
    assert "Commands In the folder of your environment, the block that is for you: " in body
    assert (
        "spack -e . install ) # if you use develop: # if the lock file was made against develop before 25 May: "
        "spack -e . concretize --force && spack -e . install " in body
    )


def test_an_environment_is_rebuilt(tmp_path: Path) -> None:
    """It is to be re-concretized; what has been due for weeks is still open, and what never was there is one number."""
    there = [(f"p{n:02}", n, "1.0") for n in range(33)]
    environment = needs(*there, ("py-torch", 50, "2.8.0"), ("local", 51, "0.1"))
    before = cover(environment, held(*there, ("py-torch", 60, "2.9.0")))
    rebuilt = [(name, number + 100, version) for name, number, version in there]
    change = compare_coverage(before, cover(environment, held(*rebuilt, ("py-torch", 60, "2.9.0"))))
    tag = replace(week(tmp_path, {"zlib": [record(1)]}, {"zlib": [record(2)]}), source="public")
    known = Known(since={("public", Verb.RECONCRETIZE, "py-torch"): "2026-09-28"}, met=frozenset({spec_hash(50)}))
    digest = digest_of(tag, subscription="envteam", environment=change, known=known, silenced=())
    rendered, body = mail(replace(digest, alternative=Alternative("develop-2026-09-06", 34, 35)))

    assert rendered.title == "nearly all rebuilt: re-concretize (33 of 35 have equal builds)"
    assert body == (
        "To do Re-concretize: 33 of your binaries are gone, equal builds are there. "
        "Or install from develop-2026-09-06, which has 34 of 35. "
        "What happened 1 binary of zlib rebuilt; it is not known why. "
        "Still open since 28 September: re-concretizing settles 1 more of your 35 binaries: py-torch 2.8.0 is gone, 2.9.0 is there. "
        "Commands In the folder of your environment: spack -e . concretize --force && spack -e . install "
        "Routine 1 binary is not in this cache."
    )
    assert digest.assessment.level is Level.CALM


def test_nothing_is_equal_of_which_no_compiler_is_known(tmp_path: Path) -> None:
    """A lock file that names none may mean another compiler than the builds that are there."""
    (need,) = needs(("hdf5", 1, "1.14")).needs
    environment = Environment(name="ml", needs=(replace(need, compiler=""),))
    rendered, body = mail_of(tmp_path, environment, *(held(("hdf5", n, "1.14")) for n in (1, 4)))

    assert rendered.title == "all rebuilt: re-concretize"
    assert "1 of your binaries is gone (hdf5), another build of the same version is there" in body
    assert "equal" not in body


def test_the_last_build_of_a_binary_is_to_be_copied(tmp_path: Path) -> None:
    """Where its own hash is gone and the equal build is built by no stack any more, a lock file has to name that first."""
    known, cuda = Known(met=frozenset(map(spec_hash, (1, 2)))), ("cuda", 1, "12.8.0")
    rendered, body = mail_of(tmp_path / "own", needs(cuda), held(cuda), unbuilt(held(cuda)), known=known)
    assert rendered.title == "1 of 1 binary may be pruned at any time: copy it"
    reason = "cuda 12.8.0 may be pruned at any time, as no stack builds it any more, and nothing as new would be left. "
    assert body.startswith(f"To do Copy to a mirror of your own: {reason}")
    assert (
        "Commands In the folder of your environment: OWN= # folder or URL of a mirror of your own (set -e # stop at the first error; leave out what is not for you "
        ': "${OWN:?}" # remove this line with what needs it spack -e . install # copy it; leave out the next line if you added it already: '
        'spack -e . mirror add --unsigned own "${OWN:?}" '
        "spack -e . buildcache push --update-index own )" in body
    )
    equal = held(("hdf5", 3, "1.14"))
    rendered, body = mail_of(tmp_path / "equal", needs(("hdf5", 2, "1.14")), equal, unbuilt(equal), known=known)
    assert rendered.title == "hdf5 1.14: last build in develop may be pruned: re-concretize, copy"
    assert body.startswith(
        "To do First require hdf5@1.14; then re-concretize, install, and copy to a mirror of your own: another build of hdf5 1.14 is left in develop "
        "(that of your lock file is gone), but no stack builds it any more, so that it may be pruned at any time."
    )


def test_what_is_gone_since_earlier_is_required_before_re_concretizing(tmp_path: Path) -> None:
    """The first sentence says so, as the commands do, whether the rest is to be copied or only to be re-concretized."""
    environment = needs(("cuda", 1, "12.8.0"), ("hdf5", 2, "1.14"))
    own, other = held(("hdf5", 2, "1.14")), held(("hdf5", 4, "1.14"))
    known = Known(met=frozenset(map(spec_hash, (1, 2))), since={("public", Verb.BUILD, "cuda"): "2026-06-01"})
    for before, after, said in (
        (
            other,
            unbuilt(other),
            "First require cuda@12.8.0, hdf5@1.14; then re-concretize, install, and copy to a mirror",
        ),
        (own, other, "First require cuda@12.8.0; then re-concretize: 1 of your binaries is gone (hdf5)"),
    ):
        _, body = mail_of(tmp_path / f"{len(said)}", environment, before, after, known=known)
        assert body.startswith(f"To do {said}")
        assert "Still open since 1 June: keep what is installed, and require what is gone: cuda 12.8.0" in body


def test_an_old_build_of_an_upgrade_is_not_to_be_copied(tmp_path: Path) -> None:
    """The newer version is there, so that re-concretizing is enough."""
    old = held(("cuda", 1, "12.8.0"))
    beside = {"cuda": held(("cuda", 2, "12.9.0"))["cuda"] | unbuilt(old)["cuda"]}
    rendered, body = mail_of(tmp_path, needs(("cuda", 1, "12.8.0")), old, beside)

    assert rendered.title == "1 of 1 binary may be pruned at any time: re-concretize"
    assert body.startswith("To do Re-concretize: 1 of your binaries may be pruned at any time (cuda); other")
    assert "newer versions, are there" in body


def test_a_newer_version_that_was_there_at_the_last_digest_is_gone_too(tmp_path: Path) -> None:
    """Earlier mails named it; who never had it is told of their own version alone."""
    environment, left = needs(("cuda", 1, "12.8.0")), held(("cuda", 4, "11.0"))
    known = Known(met=frozenset({spec_hash(1)}))
    for number, version, gone in ((1, "12.8.0", "12.8.0 is"), (3, "12.9.0", "12.8.0 and 12.9.0 are")):
        _, body = mail_of(tmp_path / version, environment, held(("cuda", number, version)), left, known=known)
        assert f"cuda {gone} gone, only 11.0 is there, which may be a mistake" in body


def test_a_binary_that_is_gone_is_to_be_built(tmp_path: Path) -> None:
    """It comes before everything else, with the older version if there is one."""
    there = (("cuda", 1, "12.8.0"), ("hdf5", 2, "1.14"))
    rendered, body = mail_of(tmp_path, needs(*there), held(*there), held(("cuda", 3, "11.0"), ("hdf5", 4, "1.14")))

    assert rendered.title == "no build left of 1 of 2 binaries: 1 has an equal or other build"
    assert rendered.level == "alarm"
    assert body.startswith(
        "To do Keep what is installed, and require cuda@12.8.0 or newer before you re-concretize, or Spack may "
        "choose another version: cuda 12.8.0 is gone, only 11.0 is there, which may be a mistake. The catalogue does not "
        "say why. Do not wait for a correction: a corrected cuda will satisfy the requirement, too. Re-concretize: 1 of your "
        "binaries is gone (hdf5), an equal build is there. What happened 1 binary of zlib rebuilt; it is not known why. "
        "Commands In the folder of your environment: (set -e # stop at the first error; leave out what is not for you "
        "spack -e . config add \"packages:cuda:require:'@12.8.0:'\" # (Spack builds from source what none of your mirrors has) "
        "spack -e . concretize --force spack -e . install )"
    )


@pytest.mark.parametrize(
    ("after", "section", "todo"),
    [
        (
            [record(2, stacks=E4S)],
            "LOST, BUT STILL BUILT ELSEWHERE zlib 1.0 radiuss; e4s builds an equal one",
            BEFORE_2_JUNE,
        ),
        (
            [record(2, stacks=RADIUSS, target="x86_64_v2"), record(3, versions=["2"], stacks=RADIUSS, target="a64fx")],
            "LOST, BUT STILL BUILT ELSEWHERE zlib 1.0 radiuss (x86_64_v3); radiuss builds an equal one for x86_64_v2",
            BEFORE_2_JUNE,
        ),
        (
            [record(2, stacks=E4S), record(3, stacks=RADIUSS, target="zen4")],
            "LOST, BUT STILL BUILT ELSEWHERE zlib 1.0 radiuss (x86_64_v3); e4s builds an equal one",
            BEFORE_2_JUNE,
        ),
        (
            [record(1, stacks=E4S)],
            "LOST, BUT STILL BUILT ELSEWHERE zlib 1.0 radiuss; the same binaries are in e4s",
            "Nothing to do.",
        ),
        (
            [record(1, stacks=["root"]), record(2, stacks=E4S, target="zen4")],
            "BUILT BY NO STACK ANY MORE for x86_64_v3; may be pruned at any time zlib 1.0 radiuss",
            "To do Copy zlib@1.0 to a mirror of your own if you need it: no stack builds it for x86_64_v3 any more, so that it may be pruned at any time.",
        ),
        (
            [record(2, stacks=E4S, target="zen4")],
            "GONE for x86_64_v3 zlib 1.0 radiuss",
            "To do If you use zlib@1.0 for x86_64_v3: keep it where it is installed. develop has nothing as new any more",
        ),
        (
            [record(2, stacks=E4S, target="m1")],
            "GONE for sequoia, m1 zlib 1.0 radiuss",
            "To do If you use zlib for sequoia, m1: keep it where it is installed. develop has no such build any more",
        ),
        (
            [record(2, stacks=E4S, target="x86_64_v2", os="rhel9", versions=["1.1"])],
            "GONE for ubuntu22.04, x86_64_v3 zlib 1.0 radiuss",
            "To do If you use zlib@1.0 for ubuntu22.04, x86_64_v3: keep it where it is installed. develop has nothing as new",
        ),
        (
            [record(2, stacks=E4S, versions=["0.9"])],
            "GONE for x86_64_v3 zlib 1.0 radiuss; only 0.9 is in e4s",
            "To do If you use zlib@1.0 for x86_64_v3: keep it where it is installed. develop has nothing as new any more",
        ),
        (
            [record(2, stacks=E4S, versions=["1.1"])],
            "IN OTHER BUILDS ONLY for x86_64_v3 zlib 1.0 radiuss; 1.1 is in e4s, 1.0 is gone",
            "To do Re-concretize if you use zlib: other builds or newer versions are there.",
        ),
    ],
)
def test_what_a_stack_lost_may_be_in_the_cache(tmp_path: Path, after: list[Record], section: str, todo: str) -> None:
    """Each class has its section, with the reason, and its own advice; what nobody misses asks for nothing."""
    other = {"curl": [record(7, stacks=BOTH)]}
    two = [record(9, stacks=E4S, versions=["0.5"])]
    mac = {"platform": "darwin", "os": "sequoia", "target": "m1"} if "sequoia" in section else {}
    tag = week(tmp_path, {"zlib": [record(1, stacks=RADIUSS, **mac), *two], **other}, {"zlib": [*after, *two], **other})
    rendered, body = mail(digest_of(tag, silenced=()))

    assert body.startswith(todo)
    assert section in body
    if todo.startswith("Nothing"):
        assert rendered.level == "calm"
        assert not any(colour in rendered.html.partition("</style>")[2] for colour in ("#82071e", "#cf222e", "#ffebe9"))
        assert '<section class="bad">' not in rendered.page


def test_a_stack_goes_from_a_branch_and_from_a_new_snapshot(tmp_path: Path, snapshot: TagDigest) -> None:
    """What to do differs: in the branch its builds are left to be copied, in the snapshot they are gone."""
    old = {f"p{n}": [record(n, stacks=["rocm", "root"]), record(50 + n, target="zen4")] for n in range(6)}
    develop = week(tmp_path / "b", old, without(old, "rocm"))
    _, body = mail(digest_of(snapshot, develop, silenced=()))

    assert (
        "If you use develop-2026-09-27: it may be removed without notice. Move to develop-2026-11-15; or stay, and copy what you use to a mirror of your own, if you need what the new one lacks: py-tensorflow, "
        "rocblas newer than 6.2.4, or hip for x86_64_v3, which went with stack rocm." in body
    )
    who = "If you use, for x86_64_v3, one of p0, p1, p2, p3, p4, p5: require it (version in the commands)"
    assert f"{who}, install, and copy it from develop to a mirror of your own now" in body


def test_what_is_no_longer_built_is_named_in_what_to_do(tmp_path: Path) -> None:
    """The compiler, and the packages."""
    old = {f"p{n}": [record(n), record(50 + n, compiler="llvm@15.0.0")] for n in range(6)}
    _, body = mail(digest_of(week(tmp_path, old, {name: found[:1] for name, found in old.items()})))
    assert "Re-concretize if you use llvm 15.0.0: p0, p1, p2, 3 more." in body


def test_a_filter_of_stacks_does_not_widen_what_is_only_built_in_an_older_version(tmp_path: Path) -> None:
    """Another stack, which nobody asked for, keeps the newer version."""
    kept = record(1, versions=["1.3"], stacks=RADIUSS)
    states = ({"hip": [record(n, versions=[v]), kept]} for n, v in ((2, "1.3"), (3, "1.2")))
    _, body = mail(digest_of(week(tmp_path, *states, selection=Selection(stacks=Globs(["e4s"])))))
    assert body.startswith("To do If you use hip for e4s: keep it where it is installed")


def test_a_filter_of_stacks_names_no_package_of_others(tmp_path: Path) -> None:
    """What still has the old compiler has it in a stack that nobody asked for."""
    old = many(0, 20) | {"hdf5": [record(700, stacks=BOTH)]}
    hdf5 = [record(701, compiler="gcc@13.3.0"), record(700, stacks=RADIUSS)]
    new = many(300, 20, compiler="gcc@13.3.0") | {"hdf5": hdf5}
    for name in list(new)[:12]:
        number = int(name[1:])
        stays = record(1000 + number, stacks=["hep"])
        old[name] += [stays, record(900 + number, stacks=RADIUSS)]
        new[name] += [stays, record(950 + number, stacks=RADIUSS, compiler="gcc@13.3.0")]
    repository = history(tmp_path / "r.git", catalogue(old), catalogue(new))
    tags = Globs(["develop"])
    selections = {stack: Selection(tags=tags, stacks=Globs([stack])) for stack in ("e4s", "radiuss", "*")}
    said = {stack: mail(digest_of(read(repository, selection=one)))[1] for stack, one in selections.items()}
    assert "-> 13.3.0: 21 packages in e4s, radiuss; hdf5 still on 11.4.0" in said["*"]
    assert "-> 13.3.0: 12 packages; hdf5 still on 11.4.0 in radiuss" in said["radiuss"]
    assert "still on" not in said["e4s"]


def test_an_install_names_a_target_that_usual_machines_do_not_run(tmp_path: Path) -> None:
    """Beside packages that these run, it is only counted: no machine installs both."""
    arm = {"target": "neoverse_v1"}
    old, new = {"zlib": [record(2, **arm)]}, {"zlib": [record(4, versions=["2.0"], **arm)]}
    text = mail(digest_of(week(tmp_path / "a", old, new)))[1]
    assert "spack install --cache-only zlib@2.0 target=neoverse_v1" in text
    old, new = old | {"curl": [record(1)]}, new | {"curl": [record(3, versions=["2.0"])]}
    body = mail(digest_of(week(tmp_path / "b", old, new)))[1]
    assert "for example: spack install --cache-only curl@2.0" in body
    assert "zlib@2.0" not in body


def test_builds_of_no_stack_are_no_upgrade(tmp_path: Path) -> None:
    """One that no stack built made room for one of a newer version that no stack builds."""
    other = {"curl": [record(7)]}
    before, after = ({"zlib": [record(n, versions=[v], stacks=["root"])], **other} for n, v in ((1, "1.0"), (2, "2.0")))
    assert mail(digest_of(week(tmp_path, before, after)))[0].title == "1 binary pruned"


def test_a_loss_that_nobody_misses_is_in_no_subject_with_other_news(tmp_path: Path) -> None:
    """It is named where nothing else happened."""
    before = {"curl": [record(2)], "zlib": [record(1, stacks=BOTH)]}
    alone = {"curl": [record(2)], "zlib": [record(1, stacks=E4S)]}
    beside = {"curl": [record(3, versions=["1.1"])], "zlib": [record(1, stacks=E4S)]}
    weeks = (week(tmp_path / name, before, after) for name, after in (("alone", alone), ("beside", beside)))
    titles = [render_digest(digest_of(one)).title for one in weeks]

    assert titles == ["zlib no longer in radiuss, the same binaries stay", "curl 1.0 -> 1.1"]


def test_a_loss_that_nobody_misses_is_not_red_on_a_terminal(run: Run, tmp_path: Path) -> None:
    """Neither its heading nor its line."""
    week(tmp_path, {"zlib": [record(1, stacks=BOTH)]}, {"zlib": [record(1, stacks=E4S)]})
    colours = run("diff", "HEAD~1", "HEAD", "--repo", tmp_path / "r.git", "--color", "always").output

    assert "LOST PLACES" in colours
    assert "the same binaries are in e4s" in colours
    assert "\x1b[31m" not in colours


def test_the_stack_of_a_recorded_cache_is_called_one(tmp_path: Path) -> None:
    """It is named `cache`: nothing is said to be missing in the cache."""
    cache = ["cache", "root"]
    before = {name: [record(n, stacks=cache), record(n + 5, target="zen4")] for n, name in enumerate(("curl", "zlib"))}
    after = {"curl": [record(9, stacks=cache, versions=["2.0"]), *before["curl"][1:]], "zlib": before["zlib"][1:]}
    rendered, body = mail(digest_of(week(tmp_path, before, after)))

    assert rendered.title == "zlib gone from stack cache; curl 1.0 -> 2.0"
    assert "zlib 1.0 stack cache" in body
    assert "curl 1.0 -> 2.0 stack cache (1 of 2 stacks)" in body
    assert "in cache" not in body
