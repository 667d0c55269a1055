"""What a subscription remembers: what went and is back, told once; snapshots; what is missing and suspicious."""

import re
from pathlib import Path

import pytest
from helpers import Packages, catalogue, lock, records, spec_hash
from readers import CONFIG, WAITING, Made, body, many, wait
from station import DAY, HOUR

from cachewatch.core.statement_kinds import Statement, StatementKind
from cachewatch.operators import alerts_summary_actions
from cachewatch.store import cursors_and_remembered as cursors

MANY: Packages = {f"package-{number}": records(range(10 * number, 10 * number + 4)) for number in range(8)}
ZLIB: Packages = {"zlib": records(range(900, 905))}
NEWER: Packages = {"zlib": records(range(910, 915), versions=["1.3.2"])}


def in_stack(count: int) -> dict[str, bytes]:
    """Return a catalogue with so many packages in a stack of its own too, which its list of tags declares."""
    stacks_of = {name: ["e4s", "ml"] if number < count else ["e4s"] for number, name in enumerate(MANY)}
    packages = {name: [record | {"stacks": stacks_of[name]} for record in found] for name, found in MANY.items()}
    stacks = "".join(f"\n  - {stack}" for stack in ("e4s", *(["ml"] if count else []), "root"))
    return catalogue(packages) | {"_data/tags.yaml": f"- name: develop\n  stacks:{stacks}\n".encode()}


def said(found: list[Statement]) -> list[tuple[str, str, int]]:
    """Return kind, name and number of packages of each statement."""
    return [(one.kind, one.name, len(one.packages)) for one in found]


def test_a_package_that_is_back(made: Made) -> None:
    """It is told once, and when it goes and comes again it is told anew."""
    gone = catalogue(MANY)
    states = catalogue(MANY | ZLIB), gone, catalogue(MANY | NEWER), gone, catalogue(MANY | NEWER)
    readers = made(*states)
    commits = readers.site.commits
    assert said(readers.go_on()) == [("package-removed", "zlib", 1)]
    assert readers.remembered() == [("package", "zlib", commits[0], 1)]
    found = readers.go_on(3 * DAY)
    assert said(found) == [("returned", "zlib", 1), ("upgraded", "zlib", 1)]
    back = found[0]
    assert (back.before, back.of_packages, back.exceptions) == (("2025-06-01", "2025-06-02"), 1, ("zlib",))
    assert readers.remembered() == []
    assert said(readers.go_on()) == [("package-removed", "zlib", 1)]
    found = readers.go_on()
    assert said(found) == [("returned", "zlib", 1)]
    assert found[0].exceptions == ()


@pytest.mark.slow
@pytest.mark.parametrize("lost", [150, 60], ids=["suspicious", "some"])
def test_much_that_goes_and_returns(made: Made, lost: int) -> None:
    """One statement, nothing is new, and the upgrades are told as what they are."""
    whole, rest = many(200), many(200 - lost, first=lost)
    back = whole | many(10, "1.1", salt=1)
    config = CONFIG.replace("channels: [files]}", "channels: [files], limit: {hold_above: 1000}}")
    readers = made(catalogue(whole), catalogue(rest), catalogue(rest), catalogue(back), config=config)
    readers.go_on()
    if readers.site.held():
        alerts_summary_actions.release(readers.site.open(), "ml")
    ((kind, name, last, missing),) = readers.remembered()
    assert (kind, name, last, missing) == ("package", "", readers.site.commits[0], lost)
    assert readers.go_on() == []
    found = readers.go_on()
    assert said(found) == [("returned", "", lost), *(("upgraded", f"p{number:03}", 1) for number in range(10))]
    assert (found[0].of_packages, len(found[0].exceptions)) == (lost, 10)
    assert readers.remembered() == []


@pytest.mark.slow
def test_several_losses_between_two_digests(made: Made) -> None:
    """They are told apart; what had changed before the loss, which no digest told, is told when it is back."""
    upgraded = many(4, "1.1", salt=1)
    last = many(17, first=3) | many(1, "1.1", first=3, salt=1), many(10, first=10), many(20) | upgraded
    states = [many(20), many(20) | upgraded, *last]
    config = CONFIG.replace("when: each revision", "when: daily 07:30")
    config = config.replace("changes: [all]", "changes: [all], limit: {hold_for: 1h}")
    readers = made(*map(catalogue, states), config=config)
    readers.go_on(3 * DAY, steps=3)
    commits = readers.site.commits
    assert set(readers.remembered()) == {("package", "", commits[1], 3), ("package", "", commits[2], 7)}
    found = readers.go_on()
    upgrades = [("upgraded", f"p{number:03}", 1) for number in range(4)]
    assert sorted(said(found)) == [("returned", "", 3), ("returned", "", 7), *upgrades]


@pytest.mark.slow
def test_a_stack_that_is_back(made: Made) -> None:
    readers = made(*map(in_stack, (8, 0, 6, 8)))
    assert said(readers.go_on()) == [("stack-removed", "ml", 8)]
    assert readers.remembered() == [("stack", "ml", readers.site.commits[0], 8)]
    found = readers.go_on()
    assert said(found) == [("returned", "ml", 6)]
    assert (found[0].of_packages, found[0].exceptions) == (8, ())
    assert said(readers.go_on()) == [("returned", "ml", 2)]
    assert readers.remembered() == []


@pytest.mark.slow
def test_a_place_that_is_back(made: Made) -> None:
    """A package that a stack builds again for a target is in no new place; another one is."""
    old, other = records([1], target="zen4"), records([2])
    whole = many(20) | {"one": old + other, "two": records([3])}
    lost = whole | {"one": other}
    back = whole | {"two": records([3, 4], target="zen4")[1:] + whole["two"]}
    readers = made(*map(catalogue, (whole, lost, back)))
    assert said(readers.go_on()) == [("place-lost", "e4s (zen4)", 1)]
    assert said(readers.go_on()) == [("returned", "e4s (zen4)", 1), ("place-gained", "", 1)]
    text = readers.site.told()[-1]
    assert "one is back in e4s (zen4) (missing there since 2 June), as it was on 1 June" in body(text)
    assert readers.site.digests()[-1].rendered.title.startswith("one is back in e4s (zen4)")


def test_what_is_back_with_another_hash_is_no_routine_rebuild(made: Made) -> None:
    """Its old build was reported as lost, and is not there to be rebuilt."""
    old, other = (records([n], stacks=[stack, "root"]) for n, stack in ((1, "ml"), (2, "e4s")))
    found = [old + other, other, records([3], stacks=["ml", "root"]) + other]
    states = [catalogue(many(20) | {"one": own, "two": records([n])}) for n, own in enumerate(found, 50)]
    readers = made(*states, config=CONFIG.replace("changes: [all], ", ""))
    readers.go_on()
    said = readers.mail()
    assert "one is back in ml (x86_64_v3)" in said
    assert "Routine 1 binary of two rebuilt; it is not known why." in said
    assert "before 3 June (builds of one in ml, two in e4s)." in said


def test_a_place_is_missing_since_the_revision_that_lost_it(made: Made) -> None:
    """Not since an earlier one, in which the package changed elsewhere."""
    old, other = records([1], stacks=["ml", "root"]), [records([n], versions=[f"1.{n}"]) for n in (2, 3)]
    states = [old + other[0], old + other[1], other[1], old + other[1]]
    config = CONFIG.replace("when: each revision", "when: daily 07:30")
    readers = made(*(catalogue(many(20) | {"one": found}) for found in states), config=config)
    readers.go_on(3 * DAY, steps=2)
    assert "one is back in ml (x86_64_v3) (missing there since 3 June), as it was on 2 June" in readers.mail()


@pytest.mark.slow
def test_a_machine_that_is_back(made: Made) -> None:
    """Stacks that build a package again for an operating system are named, beside the system that replaced it."""
    stacks = {"stacks": ["e4s", "ml"], "target": "zen4"}
    old, other = records([1], os="ubuntu24.04", **stacks), records([2], os="rhel9", **stacks)
    states = (many(20) | {"one": found} for found in (old, other, old + other))
    readers = made(*map(catalogue, states))
    places = ["e4s (ubuntu24.04, zen4)", "ml (ubuntu24.04, zen4)"]
    lost = [("machine-lost", place, 1) for place in places]
    assert said(readers.go_on()) == [*lost, ("widened", "", 1)]
    assert "one for ubuntu24.04, zen4: keep" in body(readers.site.told()[-1])
    assert said(readers.go_on()) == [("returned", place, 1) for place in places]
    text = readers.site.told()[-1]
    assert "one is back in e4s (ubuntu24.04, zen4) (missing there since 2 June), as it was on 1 June" in body(text)
    assert text.startswith("Nothing to do.")
    assert "Still open" not in text
    assert readers.remembered() == []


@pytest.mark.parametrize("count", [1, 20], ids=["one", "all"])
@pytest.mark.parametrize(
    ("pattern", "values"),
    [
        ("compilers: [gcc@11.4.0]", [{"compiler": "gcc@11.4.0"}, {"compiler": "gcc@12.3.0"}]),
        ("oses: [rhel8]", [{"os": "rhel8"}, {"os": "rhel9"}]),
        ("targets: [zen3]", [{"target": "zen3"}, {"target": "zen4"}]),
    ],
)
def test_builds_that_are_back_for_those_who_select_them(
    made: Made, pattern: str, values: list[dict[str, str]], count: int
) -> None:
    """Their stack had others meanwhile, which are not selected, of one package or of all."""
    here, other = (
        {name: [one | own for one in found] for name, found in many(count, salt=salt).items()}
        for salt, own in enumerate(values)
    )
    states = (catalogue(many(20, salt=9) | found) for found in (here, other, here))
    readers = made(*states, config=CONFIG.replace("[all]", f"[default], match: {{{pattern}}}"))
    readers.go_on()
    assert said(readers.go_on())[0] == ("returned", f"e4s ({values[0].get('target', 'x86_64_v3')})", count)
    assert re.search("as (it was|they were) on 1 June", body(readers.site.told()[-1]))


def test_a_package_that_is_back_elsewhere_is_not_back_for_those_who_select_a_stack(made: Made) -> None:
    """Its loss is not reported again; when the stack builds it again, it is back."""
    both = ZLIB | {"zlib": [*ZLIB["zlib"], *records([990], stacks=["ml"])]}
    states = (catalogue(MANY | found) for found in (both, {}, ZLIB, both))
    readers = made(*states, config=CONFIG.replace("[all]", "[default], match: {stacks: [ml]}"))
    assert said(readers.go_on()) == [("package-removed", "zlib", 1)]
    assert said(readers.go_on()) == []
    assert said(readers.go_on()) == [("returned", "zlib", 1)]


def test_lock_files_miss_what_another_target_of_a_returned_place_lost(made: Made) -> None:
    """The stack has the package again for one target, and an equal build of what it lost is elsewhere."""
    kept = records([9], target="zen3", stacks=["hep"])
    old, new = (records([n], target=target, stacks=["ml"]) for n, target in ((1, "zen3"), (2, "zen4")))
    readers = made(*(catalogue(many(20) | {"one": found + kept}) for found in (old, new, old)))
    readers.go_on()
    assert said(readers.go_on()) == [("returned", "ml (zen3)", 1), ("place-lost", "ml (zen4)", 1)]
    assert readers.site.told()[-1].startswith("Nothing is urgent. Before the next install, re-concretize lock")


def test_a_place_that_is_back_tells_nothing_of_other_places_again(made: Made) -> None:
    """What earlier digests said of them is not said again, and the place is as it was."""
    here = records([1], target="zen4", stacks=["ml", "hpc"])
    older, newer = records([2], stacks=["e4s"]), records([3], stacks=["e4s"], versions=["1.4"])
    lost, back = newer, newer + here
    states = [many(20) | {"one": found} for found in (here + older + newer, lost, back)]
    readers = made(*map(catalogue, states))
    places = ["hpc (zen4)", "ml (zen4)"]
    assert ("retired", "", 1) in said(readers.go_on())
    found = readers.go_on()
    assert said(found) == [("returned", place, 1) for place in places]
    assert [one.exceptions for one in found] == [(), ()]
    assert re.search("as (it was|they were) on 1 June", body(readers.site.told()[-1]))
    assert readers.site.told()[-1].startswith("Nothing")
    assert readers.remembered() == []


def test_a_place_is_as_it_was_where_other_stacks_share_its_specs(made: Made) -> None:
    """A stack that lost the shared specs changed nothing when they are there again, unless it kept only an older one."""
    shared, kept = records([1, 2], stacks=["cpu", "cuda"]), records([3], stacks=["cpu"])
    newer, older = records([4], stacks=["cpu", "cuda"], versions=["1.1"]), records([5], stacks=["cpu"])
    whole = many(20) | {"one": shared + kept, "two": newer + older}
    readers = made(*map(catalogue, (whole, whole | {"one": kept, "two": older}, whole)))
    assert said(readers.go_on()) == [("place-lost", "cuda (x86_64_v3)", 2), ("downgraded", "two", 1)]
    found = readers.go_on()
    assert said(found) == [("returned", "cuda (x86_64_v3)", 2), ("upgraded", "two", 1)]
    assert found[0].exceptions == ()
    assert re.search("as (it was|they were) on 1 June", body(readers.site.told()[-1]))


def test_a_place_is_as_it_was_though_another_changed(made: Made) -> None:
    """Of two places of the same specs, only the one that is back is said to be; what changes elsewhere is told."""
    here, other = records([1], target="zen4", stacks=["ml", "hpc"]), records([2], stacks=["e4s"])
    in_ml = records([1], target="zen4", stacks=["ml"])
    newer = records([3], stacks=["e4s"], versions=["1.4"])
    states = [many(20) | {"one": found} for found in (here + other, other, in_ml + newer, here + newer)]
    readers = made(*map(catalogue, states))
    readers.go_on()
    first, second = readers.go_on()
    assert said([first, second]) == [("returned", "ml (zen4)", 1), ("upgraded", "one", 1)]
    assert first.exceptions == ()
    (again,) = readers.go_on()
    assert (said([again]), again.exceptions) == ([("returned", "hpc (zen4)", 1)], ())


def test_a_stack_that_is_back_with_other_versions(made: Made) -> None:
    """What differs in it is told; what went elsewhere meanwhile was told before."""
    whole = {name: [one | {"stacks": ["e4s", "ml"]} for one in found] for name, found in MANY.items()}
    more = {"zlib": records([900], stacks=["e4s", "ml"]) + records([901], stacks=["e4s"], versions=["1.4"])}
    rest = MANY | {"zlib": records([900])}
    newer = {"zlib": records([900]) + records([902], stacks=["ml"], versions=["1.4"])}
    readers = made(*map(catalogue, (whole | more, rest, whole | newer)))
    assert said(readers.go_on()) == [("stack-removed", "ml", 9), ("downgraded", "zlib", 1)]
    found = readers.go_on()
    assert said(found) == [("returned", "ml", 9), ("upgraded", "zlib", 1)]
    assert found[0].exceptions == ("zlib",)


def test_copies_that_went_with_a_stack_are_not_told_again(made: Made) -> None:
    """When it is back with fewer of them, only what went since the last digest is surplus, pruned or turned over."""
    copies = {name: records(range(1000 + 10 * n, 1008 + 10 * n), stacks=["ml"]) for n, name in enumerate(MANY)}
    whole, back = ({name: MANY[name] + found[:count] for name, found in copies.items()} for count in (8, 1))
    fewer = {"zlib": ZLIB["zlib"][1:]}
    readers = made(*map(catalogue, (whole | ZLIB, MANY | ZLIB, back | fewer)))
    assert said(readers.go_on()) == [("stack-removed", "ml", 8), ("turnover", "", 8)]
    found = readers.go_on()
    assert said(found) == [("returned", "ml", 8), ("surplus", "", 1)]
    assert (found[1].packages, found[1].counts.vanished) == (("zlib",), 1)
    assert not readers.made[0].tags[0].report.events


def test_an_environment_is_not_told_again_what_went_before_a_place_is_back(tmp_path: Path, made: Made) -> None:
    """Its binaries that went elsewhere were missing before, too."""
    here = records([1], stacks=["ml"])
    older, newer = records([2], stacks=["e4s"]), records([3], stacks=["e4s"], versions=["1.4"])
    states = [many(20) | {"one": found} for found in (here + older + newer, newer, newer + here)]
    ours = lock(tmp_path / "spack.lock", ("one", "1.3.1", spec_hash(1)), ("one", "1.3.1", spec_hash(2)))
    config = CONFIG.replace("[all]", f'[all], match: {{environment: "{ours}"}}')
    readers = made(*map(catalogue, states), config=config)
    readers.go_on()
    readers.go_on()
    change = readers.made[0].environment
    assert change is not None
    assert [one.need.hash for one in change.before.needs if one.is_met] == [spec_hash(1)]
    assert not change


def test_a_tag_that_is_back(made: Made) -> None:
    """Its packages went with it and are back with it."""
    develop = catalogue(MANY)
    back = develop | catalogue(ZLIB | {"new": records([990])}, tag="v1.0")
    readers = made(develop | catalogue(ZLIB, tag="v1.0"), develop, develop, back)
    assert said(readers.go_on()) == [("tag-removed", "v1.0", 1)]
    assert readers.remembered() == [("tag", "v1.0", readers.site.commits[0], 1)]
    readers.go_on()
    assert said(readers.go_on()) == [("returned", "v1.0", 1), ("package-added", "new", 1)]
    assert readers.remembered() == []


@pytest.mark.slow
def test_what_was_not_told_is_remembered_too(made: Made) -> None:
    """Whatever became of the digest: told, released, dropped, or of kinds that nobody asked for."""
    readers = made(catalogue(MANY | ZLIB), catalogue(MANY), catalogue(MANY | NEWER))
    other = "  {name}: {when: each revision, changes: [{changes}], channels: [files], limit: {hold_above: 1}}\n"
    more = [("released", "all"), ("dropped", "all"), ("upgrades", "upgraded")]
    text = "".join(other.replace("{name}", name).replace("{changes}", changes) for name, changes in more)
    readers.site.configure(CONFIG + text)
    readers.site.run()
    readers.go_on()
    alerts_summary_actions.release(readers.site.open(), "released")
    alerts_summary_actions.drop_digest(readers.site.open(), "dropped", "a test of theirs")
    for name in ("ml", "released", "dropped", "upgrades"):
        assert readers.remembered(name) == [("package", "zlib", readers.site.commits[0], 1)], name
    readers.go_on()
    kinds = {each.subscription: [one.kind for one in each.tags[0].statements] for each in readers.made}
    both = [StatementKind.RETURNED, StatementKind.UPGRADED]
    assert kinds == {"ml": both, "released": both, "dropped": both, "upgrades": [StatementKind.UPGRADED]}


EIGHT: Packages = {f"p{number:03}": records([number]) for number in range(8)}
HDF5: Packages = {"hdf5": records([500], versions=["1.14"])}
NEW: Packages = {"py-new": records([600])}
_DAYS = [f"develop-2026-{day}" for day in ("01-04", "01-11", "01-18", "01-25", "02-01", "02-08")]


def tags(*found: Packages | None) -> dict[str, bytes]:
    """Return a catalogue of snapshots, a week apart; None is one that is not there."""
    there = [catalogue(packages, tag) for packages, tag in zip(found, _DAYS, strict=False) if packages is not None]
    return {path: content for files in there for path, content in files.items()}


@pytest.mark.slow
def test_of_several_new_snapshots_the_newest_is_compared(made: Made) -> None:
    readers = made(tags(EIGHT), tags(EIGHT, EIGHT | HDF5, EIGHT | NEW))
    found = said(readers.go_on())
    names = ["develop-2026-01-11", "develop-2026-01-18"]
    assert found == [*(("tag-added", name, 0) for name in names), ("package-added", "py-new", 1)]
    (tag,) = readers.made[0].tags
    assert (tag.report.before.tag, tag.report.after.tag) == ("develop-2026-01-04", "develop-2026-01-18")
    assert "develop-2026-01-11 is out, too." in readers.site.told()[-1]


def test_a_new_snapshot_comes_as_the_one_before_is_back(made: Made) -> None:
    """It is compared with that as last reported, and brings nothing back."""
    develop = catalogue(EIGHT)
    readers = made(develop | tags(EIGHT), develop, develop | tags(EIGHT | HDF5, EIGHT | NEW))
    readers.go_on()
    readers.go_on()
    news = {tag.report.after.tag: said([*tag.statements]) for tag in readers.made[0].tags}
    returned = ("returned", "develop-2026-01-04", 8)
    assert news["develop-2026-01-04"] == [returned, ("package-added", "hdf5", 1)]
    assert news["develop-2026-01-11"] == [("tag-added", "develop-2026-01-11", 0), ("package-added", "py-new", 1)]


@pytest.mark.slow
def test_what_is_still_missing_is_said_for_three_snapshots(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    all_states = [EIGHT | HDF5, *[EIGHT] * 4, EIGHT | HDF5]
    states = [tags(*all_states[: count + 1]) for count in range(len(all_states))]
    monkeypatch.setattr("cachewatch.service.missing_and_returned._MOST_TIMES", 2)
    readers = made(*states)
    assert ("package-removed", "hdf5", 1) in said(readers.go_on())
    missing = []
    for _ in range(3):
        readers.go_on(7 * DAY)
        missing.append(readers.made[0].tags[-1].still_missing)
        assert ("Still missing from earlier snapshots: hdf5." in readers.site.told()[-1]) == bool(missing[-1])
    assert missing == [("hdf5",), ("hdf5",), ()]
    (back,) = (one for one in readers.go_on(7 * DAY) if one.kind is StatementKind.RETURNED)
    assert back.before == ("2026-01-04", "2025-06-02")  # the snapshot that had it, and the revision that lacked it


WEEKLY = CONFIG.replace("when: each revision", "when: monthly 20 07:30")
_TO_THE_20TH = 20 * DAY


@pytest.mark.slow
def test_much_that_went_in_one_of_several_revisions_is_suspicious(made: Made) -> None:
    """Whatever else happened between two digests."""
    states = [many(40), many(40) | many(2, "1.1", salt=1), many(15, first=25), many(15, first=25) | NEWER]
    readers = made(*map(catalogue, states), config=WEEKLY)
    kinds = {one.kind: one for one in readers.go_on(_TO_THE_20TH, steps=3)}
    assert StatementKind.PACKAGE_REMOVED not in kinds
    assert len(kinds[StatementKind.SUSPICIOUS].packages) == 25
    assert len(readers.site.held()) == 1


@pytest.mark.slow
def test_what_went_bit_by_bit_is_not_suspicious(made: Made) -> None:
    states = [many(40 - 6 * number, first=6 * number) for number in range(6)]
    readers = made(*map(catalogue, states), config=WEEKLY)
    kinds = {one.kind for one in readers.go_on(_TO_THE_20TH, steps=5)}
    assert kinds == {StatementKind.PACKAGE_REMOVED, StatementKind.TURNOVER}
    assert readers.site.held() == []
    assert len(readers.remembered()) == 5


@pytest.mark.nightly
@pytest.mark.slow
def test_what_is_missing_for_long_is_a_loss(made: Made) -> None:
    """Once, with the first digest more than fourteen days after it went."""
    lost = many(15, first=25)
    later = [lost | many(1, f"1.{number}", first=30, salt=number + 1) for number in range(17)]
    readers = made(*map(catalogue, [many(40), lost, *later]))
    readers.go_on()
    readers.site.now += 2 * DAY
    readers.site.run()
    (sent,) = readers.made[-1:]
    assert sent.unconfirmed == "a suspicious loss: 25 of 40 packages are missing"
    assert sent.remembered.confirmed == frozenset()
    readers.go_on(steps=13)
    assert [one.packages for one in readers.made[0].remembered.suspicions] == [tuple(sorted(many(25)))]
    found = readers.go_on(steps=2)
    (missing,) = [one for one in found if one.kind is StatementKind.PACKAGE_REMOVED]
    assert (missing.before, len(missing.packages)) == (("2025-06-01", "2025-06-02"), 25)
    assert "25 packages are missing since 2 June: p000, p001, " in " ".join(readers.site.told()[-1].split())
    assert StatementKind.PACKAGE_REMOVED not in {one.kind for one in readers.go_on()}


urgent = "urgent: {changes: [removed, stack-lost], channels: [files]}"
URGENT = CONFIG.replace("channels: [files]}", f"channels: [files], {urgent}}}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("states", "urgent"),
    [
        ([catalogue(MANY | ZLIB), catalogue(MANY | NEWER)], False),
        ([tags(EIGHT, EIGHT), tags(None, EIGHT, EIGHT)], False),
        ([catalogue(MANY | ZLIB), catalogue(MANY)], True),
        ([tags(EIGHT | HDF5), tags(EIGHT | HDF5, EIGHT)], False),
    ],
    ids=["upgrade", "old-snapshot", "gone", "new-snapshot-lacks"],
)
def test_what_is_urgent(made: Made, states: list[dict[str, bytes]], *, urgent: bool) -> None:
    """Only what is gone from a tag that changes."""
    readers = made(*states, config=URGENT.replace("when: each revision", "when: monthly 20 07:30"))
    readers.go_on()
    assert [digest.is_urgent for digest in readers.made] == [True] * urgent


def test_a_pin_that_is_gone_is_compared_with_where_to_move(made: Made) -> None:
    """That is not the newest snapshot, if that lacks something and another one does not; before, it was new."""
    newer = EIGHT | {"p000": records([900], versions=["1.1"])}
    old = catalogue(EIGHT, "develop-2025-12-28")
    states = [old, old | tags(EIGHT | HDF5), tags(EIGHT | HDF5, newer | HDF5), tags(None, newer | HDF5, newer)]
    config = CONFIG.replace("channels: [files]}", "channels: [files], match: {pinned: develop-2026-01-04}}")
    readers = made(*states, config=config)
    assert "develop-2026-01-04 against develop-2025-12-28: 1 new package." in readers.mail()
    text = readers.mail(steps=2)
    first, second, third = _DAYS[:3]
    assert f"Otherwise move to {second}, which has all packages of {first}, 1 of them in a newer version, or" in text
    assert f"or to {third}, unless you need what the latter lacks: hdf5; then re-concretize." in text
    assert f"against {first}: p000 1.0 -> 1.1" in text
    assert "GONE" not in text
    assert text.count(third) == 2


def test_a_pin_that_is_gone_with_nothing_better_than_the_newest(made: Made) -> None:
    """Readers are not told to move, and not to move, at once."""
    config = CONFIG.replace("channels: [files]}", "channels: [files], match: {pinned: develop-2026-01-04}}")
    readers = made(tags(EIGHT | HDF5), tags(None, EIGHT), config=config)
    text = readers.mail()
    assert text.startswith(
        "To do If you have moved, have the pin of this subscription changed. "
        "If you have copied what you use of develop-2026-01-04, your copy still works: then move when you like. Otherwise move to develop-2026-01-11, then re-concretize: develop-2026-01-04 is gone. "
        "Keep what is installed of hdf5: it is not there. What happened"
    )


@pytest.mark.slow
def test_a_pin_that_nobody_ever_saw_is_a_mistake(made: Made) -> None:
    """Operators are told once, readers never."""
    config = CONFIG.replace("channels: [files]}", "channels: [files], match: {pinned: develop-2025-13-40}}")
    readers = made(tags(EIGHT), tags(EIGHT, EIGHT), tags(EIGHT, EIGHT, EIGHT), config=config)
    for _ in range(2):
        readers.go_on()
        assert readers.made[0].pinned == ()
    assert readers.site.notices() == ["ml is pinned to develop-2025-13-40, which no source has ever had"]


@pytest.mark.slow
def test_what_readers_are_to_do_is_said_again_after_a_month(made: Made, tmp_path: Path) -> None:
    """With the day since when, until it is done: another lock file is none that still has to be."""
    file = tmp_path / "spack.lock"
    lock(file, ("hdf5", "1.14", spec_hash(500)), ("p000", "1.0", spec_hash(0)))
    config = CONFIG.replace("[all]", f"[all], match: {{environment: {file}}}")
    states = [catalogue(EIGHT | HDF5), *(catalogue(EIGHT | many(number, first=100)) for number in range(5))]
    readers = made(*states, config=config)
    readers.go_on()
    (action,) = readers.made[0].assessment.actions
    assert (action.verb, action.names, action.since) == ("build", ("hdf5",), "")
    assert (readers.go_on(10 * DAY), readers.made) == ([], [])
    assert readers.go_on(20 * DAY) == []
    (action,) = readers.made[0].assessment.actions
    assert (action.names, action.since) == (("hdf5",), "2025-06-02")
    assert (readers.go_on(10 * DAY), readers.made) == ([], [])
    lock(file, ("p000", "1.0", spec_hash(0)))
    assert (readers.go_on(30 * DAY), readers.made) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize("urgent", ["", "urgent: {changes: [gone], channels: [desk]}, "], ids=["regular", "urgent"])
def test_an_announced_wave_is_remembered_until_it_is_pruned(made: Made, urgent: str) -> None:
    """With the revision and the number of old builds; an urgent digest does not tell of the prune."""
    old, new = many(10), many(10, salt=1)
    both = {name: [*([one | {"stacks": ["root"]} for one in old[name]]), *new[name]] for name in old}
    states = map(catalogue, [old, both, both | ZLIB, new | ZLIB])
    config = CONFIG.replace("changes: [all],", f"changes: [all], {urgent}")
    readers = made(*states, config=config)
    readers.go_on()
    with readers.site.open().database.read() as connection:
        wave = cursors.remembered_by(connection, "ml").wave("public", "develop")
    assert wave is not None
    assert (wave.revision, wave.day, wave.count) == (readers.site.commits[1], "2025-06-02", 10)
    readers.go_on()
    assert "prune" in [one.kind for one in readers.go_on()]
    assert readers.made[0].remembered.wave("public", "develop") == wave
    with readers.site.open().database.read() as connection:
        assert cursors.remembered_by(connection, "ml").wave("public", "develop") is None


def test_an_older_snapshot_brings_nothing_back(made: Made) -> None:
    """What a branch lost is not back because a snapshot of the same name has had it all the time."""
    snapshot = catalogue(MANY | ZLIB, "develop-2025-06-01")
    newer = catalogue(MANY, "develop-2025-06-03")
    states = [catalogue(MANY | ZLIB) | snapshot, catalogue(MANY) | snapshot, catalogue(MANY) | snapshot | newer]
    readers = made(*states)
    assert said(readers.go_on()) == [("package-removed", "zlib", 1)]
    kinds = [kind for kind, _, _ in said(readers.go_on())]
    assert kinds == ["tag-added", "package-removed"]


def test_that_all_hashes_are_gone_is_told_where_rebuilds_are_hidden(made: Made) -> None:
    """Lock files miss them, whether somebody wants to know of rebuilds or not."""
    again = {name: records([1000 + 10 * n + m for m in range(4)]) for n, name in enumerate(MANY)}
    config = CONFIG.replace("changes: [all]", "changes: [upgraded]")
    readers = made(catalogue(MANY), catalogue(again), config=config)
    assert said(readers.go_on()) == [("turnover", "", 8)]


def test_a_snapshot_that_went_lost_nothing(made: Made) -> None:
    """Its packages went with it: no places lost them, and the table has none. If it was the newest, readers go back."""
    first, second = (catalogue(MANY, f"develop-2025-06-0{day}") for day in (1, 2))
    readers = made(first | second, second | catalogue(MANY, "develop-2025-06-03"), second)
    readers.go_on()
    (digest,) = readers.made
    assert not digest.assessment.losses
    assert "Gone" not in readers.site.told()[-1]
    text = readers.mail()
    assert "develop-2025-06-03: it was removed although it was the newest; then go back to develop-2025-06-02" in text
    assert "with 8 packages, although it was the newest snapshot." in text


def test_the_removed_snapshot_that_a_new_one_replaces_is_told_once(made: Made) -> None:
    """Nobody can stay on it; what the new one lacks is said."""
    first, second = (catalogue(MANY | ZLIB, f"develop-2025-06-0{day}") for day in (1, 2))
    readers = made(first | second, catalogue(MANY, "develop-2025-06-03"))
    removed = "it was removed, as old snapshots are; move to develop-2025-06-03"
    lacking = (
        f"develop-2025-06-02: {removed} and re-concretize. The new one lacks: zlib. If you use develop-2025-06-01: "
    )
    more = "(it lacks what is named above, and maybe more of this one)"
    assert f"To do If you use {lacking}{removed} {more} and re-concretize. What happened" in (text := readers.mail())
    assert "as old snapshots are. Tag develop-2025-06-01 was removed" in text


@pytest.mark.slow
@pytest.mark.parametrize(("lost", "is_over"), [(5, False), (14, True)])
def test_the_end_of_a_wait_is_said_to_those_who_wait(made: Made, lost: int, is_over: bool) -> None:
    """Nobody was to wait for the return of packages that went in the usual way."""
    states = [many(20), many(20 - lost, first=lost), many(20)]
    readers = made(*map(catalogue, states), config=WAITING)
    wait(readers)
    assert ("Wait. Publishing may have failed" in readers.site.told()[-1]) is is_over
    assert said(readers.go_on()) == [("returned", "", lost)]
    assert ("The wait is over." in readers.site.told()[-1]) is is_over


def test_a_wait_lasts_while_packages_are_missing(made: Made, tmp_path: Path) -> None:
    """Digests in between say so again, and offer neither what is new nor other builds of what is missing."""
    rest = many(6, first=14)
    newer = rest | many(1, "1.1", first=14, salt=1)
    needs = [(name, "1.0", spec_hash(1000 + number)) for number, name in enumerate(many(20))][10:]
    ours = lock(tmp_path / "spack.lock", *needs)
    match = f'limit: {{hold_for: 1h}}, match: {{environment: "{ours}"}}'
    config = WAITING + f"  env: {{when: each revision, channels: [files], {match}}}\n"
    states = [many(20), rest, newer, many(20) | many(1, "1.1", first=14, salt=1)]
    readers = made(*map(catalogue, states), config=config)
    wait(readers)
    readers.go_on(DAY)
    between = {name: body(readers.site.told(name)[-1]) for name in ("ml", "env")}
    for name, missing in (("ml", 14), ("env", 4)):
        assert between[name].startswith(f"To do Keep waiting: {missing} packages are missing since 2 June")
        assert "p014 1.0 -> 1.1" in between[name]
        assert not any(word in between[name].lower() for word in ("concretize", "spack install", "build from source"))
    assert {digest.assessment.level for digest in readers.made} == {"alarm"}
    assert readers.mail().startswith("The wait is over. What happened 14")
    text = body(readers.site.told("env")[-1])
    assert text.startswith("To do The wait is over: do now what is still open below.")
    assert "since 3 June: re-concretize for 1 of your 10 binaries: p014 1.0 is gone, 1.1 is there" in text


def test_the_second_revision_of_a_day_is_named_with_its_time(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lock files made against the first one are of the same day, and are meant, too."""
    monkeypatch.setattr("helpers.timedelta", lambda days: days * HOUR)
    upgraded = many(20, salt=1) | many(1, "1.1", salt=2)
    readers = made(*map(catalogue, (many(20), many(20, salt=1), upgraded)))
    assert "lock files made against develop before 1 June, 05:00 UTC: builds" in readers.mail(HOUR)
    assert "re-concretize lock files made against develop before 1 June, 06:00 UTC" in readers.mail(HOUR)


def test_a_wait_is_over_when_what_is_missing_is_a_loss(made: Made) -> None:
    """After two weeks nobody waits for it any longer."""
    rest = many(6, first=14)
    states = [many(20), rest, *[rest | many(1, "1.1", first=14, salt=1)] * 18]
    readers = made(*map(catalogue, states), config=WAITING)
    wait(readers)
    text = readers.mail(16 * DAY, steps=16)
    assert "The wait is over" in text
    assert "14 packages are missing since 2 June" in text


def test_what_was_asked_is_said_until_it_is_settled(made: Made) -> None:
    """What to require comes with every advice to re-concretize, and what was pruned as announced is named once."""
    rest = many(20)
    going = {name: records([n], stacks=["ml", "root"]) for n, name in ((3, "going"), (4, "too"))}
    first = rest | {"openmpi": records([1], versions=["5.8.0"]), "gone": records([2])} | going
    older = first | {"openmpi": records([5], versions=["1.0.5"])}
    del older["gone"]
    older |= {name: [one | {"stacks": ["root"]} for one in first[name]] for name in ("going", "too")}
    rebuilt = {name: older[name] for name in ("openmpi", "going", "too")} | many(20, salt=1)
    pruned = {name: found for name, found in rebuilt.items() if name != "going"}
    settled = pruned | {"openmpi": records([6], versions=["5.9.0"]), "gone": records([7])}
    states = [first, older, rebuilt, pruned, settled, settled | many(20)]
    readers = made(*map(catalogue, states))
    texts = [readers.mail() for _ in states[1:]]

    assert "If you use openmpi: keep it where it is installed, and require openmpi@5.8.0 or newer before" in texts[0]
    assert "Re-concretize lock files made against develop before 3 June: builds" in texts[1]
    assert "packages:gone:require:'@1.0'" in texts[1]
    assert "packages:openmpi:require:'@5.8.0:'" in texts[1]
    still = texts[1].partition("since 2 June: ")[2]
    keep = "keep it where it is installed, and require openmpi@5.8.0 or newer before you re-concretize"
    assert f"if you use openmpi: {keep}" in still
    assert "if you use gone: keep it where it is installed" in still
    assert "going@1.0 for x86_64_v3 was pruned, as announced on 2 June" in texts[2]
    block = texts[2].partition("of your environment: ")[2]
    assert '# only the lines of packages that you use on x86_64_v3: spack -e . config add "packages:going:' in block
    lock = (
        "# if the lock file was made against develop before 3 June, or names # going or gone or openmpi, and "
        "you have not installed that yet: # (Spack builds from source what none of your mirrors has) "
    )
    assert f"{lock}spack -e . concretize --force # in any case: spack -e . install " in block
    assert " Of the 2 packages named on 2 June, 1 is still there." in texts[2]
    assert not any("as announced on" in text for text in (*texts[:2], *texts[3:]))
    assert "copy too@1.0 if you need it" in texts[3]
    asked = "If you required gone, openmpi, as earlier mails asked"
    assert f"{asked}: versions at least as new are built again, maybe by another stack, so remove" in texts[3]
    remove = "spack -e . config remove"
    assert f"asked: {remove} packages:gone:require {remove} packages:openmpi:" in texts[3]
    assert "config remove" not in texts[4]
    assert not any(word in texts[4] for word in ("openmpi", "gone where"))
