"""What earlier digests asked for: it stays open until the tag, whatever a subscription selects, says that it is settled."""

import random
from pathlib import Path

import pytest
from helpers import Packages, Record, catalogue, lock, record, records, spec_hash
from readers import CONFIG, WAITING, Made, body, many, wait
from station import DAY

from cachewatch.core.advice.actions import machines_named
from cachewatch.core.advice.verbs_and_reasons import LASTING
from cachewatch.store import cursors_and_remembered as cursors

DARWIN = {"platform": "darwin", "os": "sequoia", "stacks": ["mac", "root"]}
ML = CONFIG.replace("changes: [all],", "match: {stacks: [ml]},")


def weeks(made: Made, config: str, *states: Packages) -> list[str]:
    """Return what the digest of each state but the first says; "" where there is none."""
    readers = made(*map(catalogue, states), config=config)
    said = []
    for _ in states[1:]:
        before = len(readers.site.told())
        readers.go_on()
        said.append(" | ".join(map(body, readers.site.told()[before:])))
    return said


def unbuilt(found: list[Record]) -> list[Record]:
    """Return the same builds, which no stack builds any more."""
    return [one | {"stacks": ["root"]} for one in found]


def in_ml(number: int, **values: object) -> list[Record]:
    return records([number], **{"stacks": ["ml", "root"], **values})


def test_what_no_stack_built_is_pruned_for_those_who_select_a_stack(made: Made) -> None:
    """Their selection has no builds without a stack, and nothing else happened to them."""
    one, two = in_ml(1), in_ml(2)
    rest = many(20) | {"other": in_ml(3)}
    states = [rest | {"one": one, "two": two}]
    states += [rest | {"one": unbuilt(one), "two": unbuilt(two)}, rest | {"two": unbuilt(two)}, rest | {"two": two}]
    states.append(states[-1] | {"one": in_ml(4, versions=["1.1"])})
    asked, pruned, back, last = weeks(made, ML, *states)
    assert "Copy one@1.0, two@1.0 to a mirror" in asked
    assert "one@1.0 for x86_64_v3 was pruned, as announced on 2 June" in pruned
    assert "Of the 2 packages named on 2 June, 1 is still there." in pruned
    assert "Still open since 2 June: copy two@1.0 if you need it" in pruned
    assert back.startswith(
        "To do If you required two, as an earlier mail asked: a version at least as new is built again, maybe by another stack"
    )
    assert "config remove packages:two:require" in back
    assert "copy" not in back
    assert "Still open since 3 June: if you use one for x86_64_v3: require one@1.0 before" in back
    assert last.startswith(
        "To do If you required one, as an earlier mail asked: a version at least as new is built again, maybe by another stack"
    )


def test_what_is_pruned_and_what_may_be_are_required_apart(made: Made) -> None:
    """Each version is for other machines."""
    old, new = in_ml(1), in_ml(2, versions=["2.0"], target="zen4")
    states = [many(20) | {"mpi": found} for found in (old + new, unbuilt(old + new), unbuilt(new))]
    _, pruned = weeks(made, CONFIG, *states)
    assert "mpi@1.0 for x86_64_v3 was pruned, as announced on 2 June" in pruned
    assert "named on 2 June" not in pruned
    add = "spack -e . config add \"packages:mpi:require:'@{}'\""
    assert f"mpi on x86_64_v3: {add.format('1.0')} # if you use mpi on zen4: {add.format('2.0')} #" in pruned


def test_what_may_be_pruned_is_named_for_its_own_machines(made: Made) -> None:
    """Others lost the package, too, but have equal builds or nothing."""
    equal, old, new = in_ml(1, stacks=["hep", "root"]) + in_ml(2), in_ml(3, target="power9le"), in_ml(4, target="m1")
    states = [many(20) | {"mpi": found} for found in (equal + old + new, equal[:1] + unbuilt(old))]
    (asked,) = weeks(made, CONFIG, *states)
    assert "Copy mpi@1.0 to a mirror of your own if you need it: no stack builds it for power9le any more" in asked
    assert "If you use mpi for m1: keep it" in asked
    assert "# if you use mpi on power9le: spack" in asked


@pytest.mark.parametrize("is_same", [True, False])
@pytest.mark.parametrize(
    ("left", "gone_is"), [([], "all stacks"), (in_ml(7, target="zen4", stacks=["hep", "root"]), "hep")]
)
def test_what_only_other_stacks_built_is_told_when_it_goes(
    made: Made, is_same: bool, left: list[Record], gone_is: str
) -> None:
    """Readers of a stack that lost it were told who else builds it; what others lose for other machines is not theirs."""
    ours = in_ml(1, stacks=["hep", "ml", "root"]) if is_same else in_ml(1) + in_ml(2, stacks=["hep", "root"])
    hep, mac = in_ml(1 if is_same else 2, stacks=["hep", "root"]), in_ml(8, target="m1", stacks=["mac", "root"])
    rest = many(20) | {"other": in_ml(3)}
    found = [ours + left + mac, hep + left + mac, hep + left, left, left, ours + left]
    states = [rest | ({"mpi": own} if own else {}) for own in found]
    states[4] = states[4] | {"one": in_ml(4)}
    lost, of_others, gone, other, back = weeks(made, ML, *states)
    assert (("the same binaries are in hep" if is_same else "hep builds an equal one") in lost, of_others) == (True, "")
    assert "To do If you use mpi" in gone
    assert "keep it where it is installed" in gone
    assert f"mpi 1.0 {gone_is}" in gone
    assert "mpi 1.0" not in other
    assert "mpi is back in ml" in back


@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize("system", [{"platform": "darwin", "os": "sequoia"}, {"os": "rhel8"}])
def test_what_another_system_loses_is_not_told_to_those_who_lost_the_package(
    made: Made, is_whole: bool, system: dict[str, str]
) -> None:
    """Though it is for the same target, and even if their whole stack was removed."""
    hep, mac = in_ml(2, stacks=["hep", "root"]), in_ml(8, stacks=["mac", "root"], **system)
    both, one = ({f"other{n}": in_ml(10 + n, stacks=own) for n in range(6)} for own in (["hep", "ml"], ["hep"]))
    later = one if is_whole else both
    states = [both | {"mpi": in_ml(1) + hep + mac}, *(later | {"mpi": own} for own in (hep + mac, hep))]
    lost, of_mac = weeks(made, ML, *states)
    assert ("equal" in lost, "Stack ml was removed" in lost, of_mac) == (True, is_whole, "")


def test_a_removed_package_that_is_back_in_part_lost_nothing_anew(made: Made) -> None:
    """What it still lacks stays open from its removal on, and its return says where."""
    both = in_ml(1) + in_ml(2, stacks=["mac", "root"], target="m1")
    states = [many(20) | own for own in ({"mpi": both}, {}, {"mpi": in_ml(3, versions=["1.1"])}, {"mpi": both})]
    removed, part, whole = weeks(made, CONFIG, *states)
    assert "It is gone from all stacks" in removed
    assert "mpi is back (missing since 2 June), in another version (1.0 -> 1.1); not back in mac. Still" in part
    assert "Still open since 2 June: if you use mpi for m1: require mpi@1.0 before you re-concretize" in part
    assert "GONE" not in part
    assert "GONE" not in whole


def test_older_versions_that_went_with_a_place_are_not_repeated_when_it_is_back(made: Made) -> None:
    two, kept = in_ml(4) + in_ml(5, versions=["0.9"]), many(20) | {"other": in_ml(6)}
    mac = in_ml(2, stacks=["mac", "root"], target="m1")
    _, back = weeks(made, CONFIG, *(kept | {"mpi": own + mac} for own in (two, [], in_ml(7))))
    assert "mpi is back in ml (x86_64_v3) (missing there since 2 June), not as it was on 1 June." in back
    assert "OLDER VERSIONS" not in back


def test_only_what_was_announced_is_told_as_pruned(made: Made) -> None:
    """A build of the same package for another target is not what readers were asked to copy."""
    ours, old = in_ml(1), records([2], stacks=["root"], target="zen4")
    both = ours + in_ml(3, target="zen4") + in_ml(4, target="aarch64")
    kept = both[1:]
    states = [both + old, unbuilt(ours) + kept + old, unbuilt(ours) + kept, kept, unbuilt(kept), unbuilt(kept[1:]), []]
    said = weeks(made, CONFIG, *(many(20) | {"one": found} for found in states))
    assert "Copy one@1.0 to a mirror" in said[0]
    assert "as announced" not in said[1]
    assert "since 2 June: copy one@1.0 if you need it" in said[1]
    assert "one@1.0 for x86_64_v3 was pruned, as announced on 2 June" in said[2]
    assert "Still open" not in said[2]
    assert said[3].count("config add") == 1
    assert "one@1.0 for aarch64 was pruned, as announced on 5 June" in said[5]
    for day, target in ((4, "x86_64_v3"), (6, "zen4")):
        assert f"since {day} June: if you use one for {target}: require one@1.0" in said[5]


def test_an_announced_prune_is_told_to_those_who_select_a_stack(made: Made) -> None:
    """It took old builds, which no stack had; lock files that name them miss them now."""
    old = {f"q{number:03}": in_ml(number) for number in range(10)}
    new = {name: in_ml(100 + number) for number, name in enumerate(old)}
    both = {name: unbuilt(old[name]) + new[name] for name in old}
    states = [many(10) | old, many(10, salt=1) | both, many(10, salt=1) | new]
    asked, gone = weeks(made, ML, *states)
    assert "lock files made against develop before 2 June: the builds that they name may be pruned at any" in asked
    assert "beside 10 old builds (the catalogue does not say why); these may be pruned at any time" in asked
    assert "The 10 old builds announced on 2 June were pruned." in gone
    assert "before 3 June, even if you did so lately: the old builds are gone, and Spack may have reused" in gone


def test_what_may_be_pruned_is_to_be_copied_while_readers_wait(made: Made) -> None:
    """What else was asked for, and what becomes due meanwhile, is said when the wait is over."""
    one, two = in_ml(1), in_ml(2)
    rest, part = many(20, salt=1), many(6, first=14, salt=1)
    states = [many(20) | {"one": one, "two": two}]
    states += [rest | {"one": unbuilt(one), "two": two}, part | {"one": unbuilt(one), "two": two}]
    states += [part | {"one": unbuilt(one)}, rest | {"one": unbuilt(one)}]
    readers = made(*map(catalogue, states), config=WAITING)
    readers.go_on()
    asked = "Still open since 2 June: copy one@1.0 if you need it: it may be pruned at any time."
    text = wait(readers)
    assert "Wait. Publishing may have failed" in text
    assert "Of what earlier mails asked for in develop, do now only what is still open below" in text
    assert asked in text
    assert "lock files made" not in text
    text = readers.mail()
    assert text.startswith("To do Keep waiting")
    assert asked in text
    assert "two where" not in text
    text = readers.mail()
    assert text.startswith("To do The wait is over: do now what is still open below.")
    assert "re-concretize lock files made against develop before then" in text
    assert "since 4 June: if you use two" in text


def test_readers_whose_lock_file_changes_wait_all_the_same(made: Made, tmp_path: Path) -> None:
    """What was to be done about the binaries of the other lock file is forgotten, the wait is not."""
    needs = [(name, "1.0", spec_hash(1000 + number)) for number, name in enumerate(many(20))]
    file = lock(tmp_path / "spack.lock", *needs)
    config = WAITING.replace("changes: [all],", f"match: {{environment: {file}}},")
    part = many(6, first=14)
    states = [many(20), part, part | many(1, "1.1", first=14, salt=1), many(20) | many(1, "1.1", first=14, salt=1)]
    readers = made(*map(catalogue, states), config=config)
    assert "Wait. Publishing may have failed" in wait(readers)
    lock(file, *needs[:-1])
    assert readers.mail().startswith("To do Keep waiting: 14 packages are missing since 2 June")
    lock(file, *needs[:14])
    assert readers.mail().startswith("The wait is over.")
    with readers.site.open().database.read() as connection:
        assert not cursors.remembered_by(connection, "ml").actions


@pytest.mark.parametrize(
    ("number", "own"), [(1, " (with your copy as a mirror, Spack installs it from there)"), (2, "")]
)
def test_readers_have_no_copy_of_what_their_lock_file_lacks(made: Made, tmp_path: Path, number: int, own: str) -> None:
    """They were to re-concretize before they copied the last build, and the lock file is the same."""
    file = lock(tmp_path / "spack.lock", ("one", "1.0", spec_hash(number)))
    config = CONFIG.replace("changes: [all],", f"match: {{environment: {file}}},")
    both = in_ml(1) + in_ml(2)
    rest = many(20)
    states = [rest | {"one": both}, rest | {"one": in_ml(1)}, rest | {"one": unbuilt(in_ml(1))}, rest]
    said = weeks(made, config, *states)
    assert "copy to a mirror of your own" in said[1].lower()
    assert f"one 1.0 for x86_64_v3 was pruned, as announced on 3 June{own}." in said[2]


def test_a_migration_names_the_target_with_its_system_where_both_changed(made: Made) -> None:
    """It is advice for who moves there, and to keep what is gone for the others."""
    machines: tuple[Record, Record] = ({}, {"os": "rhel9", "target": "zen4"})
    sides = ({f"q{n}": in_ml(10 * side + n, **own) for n in range(6)} for side, own in enumerate(machines))
    states = [many(2) | found for found in sides]
    (said,) = weeks(made, CONFIG, *states)
    assert "keep them where they are installed. develop builds them for zen4 (rhel9) now" in said
    assert "Re-concretize only where you move to zen4 (rhel9)." in said


def test_what_was_to_be_copied_long_ago_is_told_when_it_is_pruned(made: Made) -> None:
    """It is not said for longer than a month, and remembered all the same."""
    one, rest = in_ml(1), many(20)
    newer = [rest | {"one": unbuilt(one)} | many(1, f"1.{number}", salt=number) for number in range(1, 4)]
    last = {name: found for name, found in newer[2].items() if name != "one"}
    states = [rest | {"one": one}, rest | {"one": unbuilt(one)}, *newer[:2], last]
    readers = made(*map(catalogue, states), config=CONFIG)
    said = [readers.mail(later * DAY) for later in (1, 20, 20, 20)]
    assert [("copy one" in text.lower()) for text in said] == [True, True, False, False]
    assert "one@1.0 for x86_64_v3 was pruned, as announced on 2 June" in said[3]


def test_nobody_is_asked_to_require_an_unknown_version(made: Made) -> None:
    """Of a package that is removed, the last builds had no stack: no place lost a version."""
    one, rest = {"one": unbuilt(in_ml(1))}, many(20)
    (text,) = weeks(made, CONFIG, rest | one, rest)
    assert text.startswith("To do If you use one: keep it where it is installed. develop has no such build any more")


def test_any_build_will_do_for_a_package_that_no_stack_built(made: Made) -> None:
    """Of one that was built, its own builds are missing, and no others."""
    one, two, rest = {"one": unbuilt(in_ml(1))}, {"two": in_ml(2)}, many(20)
    readers = made(
        *map(catalogue, [rest | one | two, rest, many(20, salt=1), rest | {"one": in_ml(3, versions=["0.9"])}])
    )
    readers.go_on()
    needs = [need for action in readers.made[0].assessment.due for need in action.needs]
    assert {(need.package, need.version, need.target) for need in needs} == {
        ("one", "", ""),
        ("two", "1.0", "x86_64_v3"),
    }
    assert "Still open since 2 June: if you use one: keep it" in readers.mail()
    assert "if you use one" not in readers.mail()


@pytest.mark.parametrize("config", [CONFIG, CONFIG.replace("changes: [all]", "changes: [gone]")])
def test_what_was_to_be_required_long_ago_is_taken_back(made: Made, config: str) -> None:
    """It stays open until then; and it is said where nothing else is reported."""
    one, two, rest = {"one": in_ml(1)}, {"two": in_ml(2)}, many(20)
    readers = made(*map(catalogue, [rest | one | two, rest | two, rest, rest | one]), config=config)
    _, open_still, back = (readers.mail(later * DAY) for later in (20, 30, 1))
    assert "since 2 June: if you use one: keep it" in open_still
    assert "If you required one, as an" in back
    assert "config remove packages:one:require" in back


def test_nothing_is_told_as_pruned_while_readers_wait(made: Made) -> None:
    """Publishing may have failed for what no stack built, too; a filter on stacks does not show that it is missing."""
    one, two, rest = in_ml(1), in_ml(2), {f"r{number:03}": in_ml(100 + number) for number in range(20)}
    part = {name: found for name, found in rest.items() if name > "r013"}
    before = rest | {"one": unbuilt(one), "two": unbuilt(two)}
    states = [rest | {"one": one, "two": two}, before, part | {"two": unbuilt(two)}, before]
    config = ML.replace("match:", "limit: {hold_for: 1h}, match:")
    readers = made(*map(catalogue, states), config=config)
    readers.go_on()
    text = wait(readers)
    assert "Wait. Publishing may have failed" in text
    assert "as announced" not in text
    assert "since 2 June: copy two@1.0 if you need it" in text
    assert "since 2 June: copy one@1.0, two@1.0 if you need them" in readers.mail()


def test_what_is_copied_is_installed_after_what_is_still_open(made: Made) -> None:
    """What earlier digests asked for comes first: what to require, then to re-concretize, each for whom it is."""
    one, rest = in_ml(1), many(20, salt=1)
    states = [many(20) | {"one": one, "two": in_ml(2)}, rest | {"one": one, "two": in_ml(2)}]
    states += [rest | {"one": one}, rest | {"one": unbuilt(one)}]
    *_, text, later = weeks(made, CONFIG, *states, states[-1] | {"p000": records([1], compiler="gcc@12.3.0")})
    assert "# if the lock file was made against develop before 5 June, or" in later
    assert "# if you use two: spack -e . config add \"packages:two:require:'@1.0'\" # if you use one on" in text
    assert "require:'@1.0'\" # if the lock file was made against develop before 2 June, or names" in text
    assert "names # two, and you have not installed that yet: # (Spack builds from source what none" in text
    last = "# in any case: spack -e . install # copy it; leave out the next line if you added it already: spack"
    assert text.index("concretize --force") < text.index(last)
    assert text.index("since 3 June: if you use two") < text.index("since 2 June: re-concretize lock files")


def test_what_is_open_keeps_its_whole_condition(made: Made) -> None:
    """Lock files that name a version or build that was replaced meanwhile are outdated, too."""
    old, new = many(20), many(20, salt=1)
    new |= {"p002": [*new["p002"], *records([950], stacks=["hep"])]}
    last = {name: found for name, found in new.items() if name != "p005"} | {"p002": new["p002"][:1]}
    zlib, newer = {"zlib": records([900])}, {"zlib": records([901], versions=["1.1"])}
    states = [old | zlib, new | zlib, new | newer, new | newer | {"p001": records([902], compiler="gcc@12.3.0")}]
    text = weeks(made, CONFIG, *states, last | newer)[-1]
    said = "re-concretize lock files made against develop before then; by now also lock files made later, if they name zlib 1.0"
    assert f"{said} from develop, and those made before 5 June with p001, p002." in text
    assert "What happened p002 is no longer in hep, but still built elsewhere." in text


def test_what_need_not_be_kept_any_longer_is_named_once(made: Made) -> None:
    """A part of a removed stack is back: the list of what is to be kept becomes shorter."""
    other = {f"s{n}": records([10 + n], target="aarch64") for n in range(4)}
    hep = {name: records([n], stacks=["hep", "root"]) for n, name in enumerate(other, 30)}
    steps = (hep, (), ("s0", "s1"), ("s0", "s1"))
    states = [
        many(20) | {name: found + hep[name] * (name in there) for name, found in other.items()} for there in steps
    ]
    _, back, later = weeks(made, CONFIG, *states[:3], states[3] | {"new": in_ml(40)})
    assert back.startswith("Nothing new to do, only what is still open.")
    asked = "if you use s2@1.0, s3@1.0 for x86_64_v3: keep them where they are installed"
    assert f"{asked} (s0, s1 are there again)." in back
    assert f"{asked}." in later


def test_what_is_required_is_what_a_snapshot_has(made: Made) -> None:
    """Where no snapshot has the version of before, an older one of a snapshot will do."""
    rest = many(20)
    first, *newer = (
        {"mpi": [one for n in range(21) for one in records([30 * k + n], versions=[v], stacks=[f"s{n}", "root"])]}
        for k, v in enumerate(("5.7", "5.8", "1.0"))
    )
    states = [catalogue(rest | one) | catalogue(rest | first, "develop-2025-06-01") for one in newer]
    readers = made(*states, config=CONFIG.replace("changes: [all],", "match: {tags: develop},"))
    text = readers.mail()
    assert "require mpi@5.7 or newer before you re-concretize" in text
    assert "snapshot develop-2025-06-01 (develop as it was then, with a mirror of its own) still has mpi@5.7" in text


def test_a_removed_package_is_more_than_its_announced_builds(made: Made) -> None:
    """Of which the stack of one machine was left out before."""
    ours, arm = in_ml(1), in_ml(9, target="aarch64")
    states = [many(20) | {"one": ours + one} for one in (arm, unbuilt(arm))]
    asked, gone = weeks(made, CONFIG, *states, many(20))
    assert "Copy one@1.0 to a mirror of your own" in asked
    assert "require one@1.0 before you re-concretize. It is gone from all stacks of develop" in gone
    assert "announced" not in gone


def test_a_snapshot_that_has_only_some_of_the_gone_versions_is_named_with_these(made: Made) -> None:
    """The others are missing there, too."""
    rest, other = many(20), records([9], target="aarch64")
    snapshot = catalogue(rest | {"one": in_ml(1)}, "develop-2025-06-01")
    both = in_ml(1) + in_ml(2, versions=["0.9"])
    states = [catalogue(rest | {"one": found + other}) | snapshot for found in (both, [])]
    assert (
        "still has one@1.0, but may be"
        in made(*states, config=CONFIG.replace("changes: [all],", "match: {tags: develop},")).mail()
    )


def test_what_may_be_pruned_may_be_in_a_snapshot(made: Made) -> None:
    """The snapshot is named beside the copy; and that of what is gone for some machines, with its mirror."""
    rest, ours, other = many(20), in_ml(1), records([9], target="aarch64")
    snapshot = catalogue(rest | {"one": ours}, "develop-2025-06-01")
    states = [catalogue(rest | {"one": found + other}) | snapshot for found in (ours, unbuilt(ours), ours, [])]
    readers = made(*states, config=CONFIG.replace("changes: [all],", "match: {tags: develop},"))
    asked, _, gone = (readers.mail() for _ in states[1:])
    assert "any time. The snapshot develop-2025-06-01 has it, too, for now." in asked
    assert "still has one@1.0, but may be" in gone
    assert "added it already: spack -e . mirror add develop-2025-06-01" in gone


def test_an_older_version_in_one_stack_stays_advice_while_others_have_the_newer_one(made: Made) -> None:
    """It ends when that stack has the newer version again."""
    hep = records([1], versions=["5.8"], stacks=["hep", "root"])
    newer = ((2, "5.8"), (3, "1.0"), (3, "1.0"), (4, "5.8"))
    states = [many(20) | {"mpi": hep + in_ml(number, versions=[version])} for number, version in newer]
    states[2] |= {"other": in_ml(5)}
    asked, later, back = weeks(made, CONFIG, *states)
    assert "If you use mpi for ml: keep it where it is installed, and require mpi@5.8 or newer" in asked
    assert "open since 2 June: if you use mpi for ml: keep it where it is installed, and" in later
    assert "Still open" not in back


def test_who_pins_a_snapshot_need_not_wait_to_move(made: Made) -> None:
    """The move is apart from what is to be done for develop: it re-concretizes in any case."""
    config = WAITING.replace("channels: [files]}", "channels: [files], match: {pinned: develop-2025-05-01}}")
    first, second = catalogue(many(20), "develop-2025-05-01"), catalogue(many(20, salt=1), "develop-2025-05-08")
    rest, part = catalogue(many(20, salt=1)), catalogue(many(6, first=14, salt=1))
    last = catalogue({name: found for name, found in many(20, salt=1).items() if name != "p000"})
    states = [catalogue(many(20)) | first, *(develop | first | second for develop in (rest, part, rest, last))]
    readers = made(*states, config=config)
    readers.go_on()
    suspicious = wait(readers)
    assert "Install nothing new from it, and keep lock files made against it." in suspicious
    assert "asked for in develop; a mail will say when. What is still open below is about snapshots" in suspicious
    assert "since 2 June, your pin: move to develop-2025-05-08, re-concretize and install; or stay" in suspicious
    assert "if you use develop" not in suspicious
    text = readers.mail()
    for each in (suspicious, text):
        move = each.partition("# either move to develop-2025-05-08:")[2].partition("# or stay on")[0]
        assert "mirror remove develop-2025-05-01 spack -e . concretize --force spack -e . install )" in move
    assert "since 2 June, develop: re-concretize lock files made" in text
    assert "What happened develop: 14 of 14 packages that were missing" in text
    assert "# if you use develop: # if the lock file was made against develop before 2 June: spack -e . con" in text
    text = readers.mail()
    assert text.startswith("To do develop: If you use p000: keep it where it is installed")
    assert "Your pin develop-2025-05-01 has not changed." in text


def test_what_another_place_lost_is_open_beside_what_is_open(made: Made) -> None:
    """It is replaced when the package is lost for more: for all systems of a target, or everywhere."""
    rest, old, new, mac = many(20), *(records([n], target=t) for n, t in enumerate(("zen2", "zen4", "m1"), 1))
    darwin = records([4], target="zen2", **DARWIN)
    kept = old + new + mac
    states = [rest | {"one": one} for one in (darwin + kept, kept, new + mac, mac)]
    of_system, first, second, *_, last = weeks(made, CONFIG, *states, rest | {"one": mac, "two": in_ml(9)}, rest)
    assert "If you use one for sequoia, zen2: keep it" in of_system
    assert "If you use one for zen2: keep it" in first
    assert "sequoia" not in first
    assert "If you use one for zen4: keep it" in second
    assert "Still open since 3 June: if you use one@1.0 for zen2: keep it" in second
    assert "If you use one, two: keep them where they are installed, and require one@1.0" in last
    assert "zen" not in last


@pytest.mark.parametrize("is_fall_first", [True, False])
def test_what_one_system_lost_is_open_beside_what_others_have_in_an_older_version(
    made: Made, is_fall_first: bool
) -> None:
    """They may have one target."""
    two, one = (in_ml(n, versions=[f"{n}.0"], target="aarch64") for n in (2, 1))
    mac, moved = ([record(9, **DARWIN | {"versions": ["2.0"], "target": "aarch64", "os": os})] for os in ("old", "new"))
    states = [two + mac, one + mac if is_fall_first else two + moved, one + moved, one + moved]
    said = weeks(
        made, CONFIG, *(many(20) | {"mpi": found} for found in states[:3]), many(20, salt=1) | {"mpi": states[3]}
    )
    assert "If you use mpi for old, aarch64: keep it where it is installed" in said[is_fall_first]
    assert "for ml: keep it where it is installed, and require mpi@2.0 or newer" in said[not is_fall_first]
    assert "if you use mpi for ml: keep it where it is installed, and require mpi@2.0" in said[2]
    assert "if you use mpi@2.0 for old, aarch64: keep it" in said[2]


def test_what_all_systems_lost_is_open_for_the_one_that_lacks_it_still(made: Made) -> None:
    ours, mac, new = *(records([n], target="zen2", **v) for n, v in ((1, {}), (2, DARWIN))), records([3], target="m1")
    found = (ours + mac + new, ours + new, new, mac + new)
    _, again, back = weeks(made, CONFIG, *(many(20) | {"one": one} for one in found))
    assert "If you use one for zen2: keep it" in again
    assert "Still open since 3 June: if you use one@1.0 for ubuntu22.04, zen2: keep it" in back


def test_what_stacks_have_in_an_older_version_is_required_for_each(made: Made) -> None:
    """A stack that has the version again is named, and the others stay open."""
    rest, mpi = many(20), [{"hep": "5.8", "ml": "5.9"}, {"hep": "1.0", "ml": "5.9"}, {"hep": "1.0", "ml": "1.0"}]
    mpi += [mpi[2], {"hep": "5.8", "ml": "1.0"}, {"hep": "0.9", "ml": "0.9"}]
    states = []
    for number, versions in enumerate(mpi):
        found = [("fft", "5.9"), *versions.items()]
        builds = [records([n], versions=[v], stacks=[on, "root"]) for n, (on, v) in enumerate(found, 10 * number)]
        states.append(rest | {"mpi": [each for one in builds for each in one]})
    states[3:] = [one | {"other": in_ml(99)} for one in states[3:]]
    asked, both, later, back, last = weeks(made, CONFIG, *states)
    assert "If you use mpi for hep: keep it where it is installed, and require mpi@5.8 or newer" in asked
    assert "If you use mpi for ml: keep it where it is installed, and require mpi@5.9 or newer" in both
    assert "Still open since 2 June: if you use mpi for hep: keep it" in both
    add = "spack -e . config add \"packages:mpi:require:'@{}:'\""
    assert f"# if you use mpi on ml: {add.format('5.9')} # if you use mpi on hep: {add.format('5.8')} #" in both
    assert "since 2 June: if you use mpi for hep" in later
    assert "since 3 June: if you use mpi for ml" in later
    assert back.startswith(
        "To do If you required mpi and use it for hep only, as an earlier mail asked: a version at least as new is built again, maybe by another stack"
    )
    assert "since 3 June: if you use mpi for ml" in back
    assert "for hep: keep" not in back
    assert "config remove packages:mpi:require" in back
    assert "use mpi for hep, ml: keep it" in last
    assert "Still open" not in last


def test_the_oldest_version_that_is_newer_than_all_is_required_of_stacks_that_fell_together(made: Made) -> None:
    """What one of them had before was older than what another one has now."""
    falls = {"hep": ("1.0", "0.9"), "ml": ("0.8", "0.7"), "hpc": ("1.1", "0.9")}
    states = [
        many(20)
        | {
            "mpi": [
                in_ml(10 * side + n, versions=[own[side]], stacks=[on])[0] for n, (on, own) in enumerate(falls.items())
            ]
        }
        for side in (0, 1)
    ]
    (said,) = weeks(made, CONFIG, *states)
    assert "If you use mpi: keep it where it is installed, and require mpi@1.0 or newer before" in said
    assert "packages:mpi:require:'@1.0:'" in said


def test_a_requirement_lasts_until_as_new_a_version_is_there(made: Made) -> None:
    """Not only until the package becomes older still, goes, or is back in an older version."""
    states = [many(20) | {"mpi": in_ml(n, versions=v)} for n, v in enumerate((["1.13"], ["1.12"], ["1.11"]), 1)]
    states += [many(20), *(many(20) | {"mpi": in_ml(n, versions=v)} for n, v in ((5, ["1.10"]), (6, ["1.13"])))]
    older, oldest, gone, back, settled = weeks(made, CONFIG, *states)
    for said in (older, oldest, back):
        assert "If you use mpi: keep it where it is installed, and require mpi@1.13 or newer before" in said
        assert said.count("config add") == 1
    assert "require mpi@1.11 or @1.13 (the version that you use)" in gone
    assert "Still open" not in gone + back
    assert (
        "If you required mpi, as an earlier mail asked: a version at least as new is built again, maybe by another stack"
        in settled
    )


def test_a_requirement_ends_though_a_machine_lacked_the_package_before(made: Made) -> None:
    """It lasts for that machine alone."""
    states = [many(20) | {"mpi": found} for found in (in_ml(1) + in_ml(2, target="neoverse_v1"), in_ml(1))]
    asked, removed, back = weeks(made, CONFIG, *states, many(20), states[1])
    assert "If you use mpi for neoverse_v1: keep it where it is installed. develop has no such build" in asked
    assert "require mpi@1.0 before you re-concretize" in removed
    assert back.startswith(
        "To do If you required mpi and use it for x86_64_v3 only, as an earlier mail asked: a version"
    )
    assert "Still open since 3 June: if you use mpi for neoverse_v1: require mpi@1.0 before" in back
    assert "keep it" not in back


def test_a_requirement_lasts_for_those_who_still_lack_the_package(made: Made) -> None:
    """For a machine or a stack, whose builds run on another system; what others have again is named."""
    own = [records([n], versions=[v], os="rhel8", stacks=["hep", "root"]) for n, v in ((1, "5.8"), (2, "1.0"))]
    ml = [in_ml(n, versions=[v]) for n, v in ((3, "5.8"), (4, "1.0"))]
    arm, fft = in_ml(5, target="neoverse_v1"), in_ml(6, versions=["1.1"])
    fft = [{"fft": arm + in_ml(7)}, {}, {"fft": fft}, {"fft": arm + fft}]
    mpi = [{"mpi": found} for found in (own[0] + ml[0], own[1] + ml[1], ml[0], ml[0])]
    _, back, later = weeks(made, CONFIG, *(many(20) | one | two for one, two in zip(fft, mpi, strict=True)))
    assert (
        "If you required fft and use it for x86_64_v3 only, mpi and use it for ml only, as earlier mails asked: versions"
        in back
    )
    assert "if you use mpi for hep: keep it where it is installed, and require mpi@5.8 or newer" in back
    assert "if you use fft for neoverse_v1: require fft@1.0 before" in back
    assert machines_named([("", "zen4"), ("rhel8", "zen4"), ("rhel8", "zen3")]) == "zen4 and rhel8 (zen3)"
    assert "If you use mpi for rhel8, x86_64_v3: keep it where it is installed. develop has no such build" in back
    assert (
        "If you required fft, as an earlier mail asked: a version at least as new is built again, maybe by another stack"
        in later
    )
    assert "fft is back in ml (neoverse_v1) (missing there since 2 June), as it was on 1 June." in later


def test_a_requirement_of_a_stack_lasts_when_it_loses_the_package(made: Made) -> None:
    """Then other stacks count, while they have it for its machine."""
    hep = [records([n], versions=[v], stacks=["hep", "root"]) for n, v in ((1, "1.13"), (2, "1.12"))]
    states = [many(20) | {"mpi": found} for found in (hep[0] + in_ml(9), hep[1] + in_ml(9), in_ml(9))]
    older, lost, back = weeks(made, CONFIG, *states, many(20) | {"mpi": in_ml(8, versions=["1.13"])})
    assert "If you use mpi for hep: keep it where it is installed, and require mpi@1.13 or newer" in older
    assert "Still open since 2 June: if you use mpi for hep: keep it where it is installed, and" in lost
    assert "To do If you use mpi@1.12 for x86_64_v3: keep it where it is installed. develop has nothing as new" in lost
    assert "If you required mpi" not in lost
    assert (
        "If you required mpi, as an earlier mail asked: a version at least as new is built again, maybe by another stack"
        in back
    )


def test_what_an_urgent_mail_asked_for_is_open_in_all_digests(made: Made) -> None:
    """The first mail that can, takes it back, and no other one; none is urgent for that alone."""
    one, two, rest = {"one": in_ml(1)}, {"two": in_ml(2)}, many(20)
    config = CONFIG.replace("changes: [all]", "changes: [returned], urgent: {changes: [removed], channels: [files]}")
    asked, both, back = weeks(made, config, rest | one | two, rest | two, rest | one, rest | one | two)
    assert "require one@1.0 before" in asked
    regular, urgent = sorted(both.split(" | "))  # of the same time
    assert (
        "If you required one, as an earlier mail asked: a version at least as new is built again, maybe by another stack"
        in urgent
    )
    assert "require two@1.0 before" in urgent
    assert "required one" not in regular
    assert "Still open since 3 June: if you use two: keep it" in regular
    assert back.startswith(
        "To do If you required two, as an earlier mail asked: a version at least as new is built again, maybe by another stack"
    )


def test_a_requirement_of_a_stack_lasts_when_it_is_renamed_and_the_package_goes(made: Made) -> None:
    """It is about the new name, and about that stack alone when the package is back as it was before it went."""
    ml, rest, states = in_ml(1, versions=["1.13"]), many(20), []
    for number, version, stack in ((2, "1.13", "hep"), (3, "1.12", "hep"), (3, "1.12", "hep7")):
        own = {"stacks": [stack, "root"]}
        rest |= {f"h{n}": records([10 + n], **own) for n in range(5)}
        states.append(rest | {"mpi": ml + records([number], **own, versions=[version])})
    _, renamed, removed, back = weeks(made, CONFIG, *states, rest, states[2])
    for said in (renamed, back):
        assert "if you use mpi for hep7: keep it where it is installed, and require mpi@1.13 or newer" in said
    assert "are there again" not in renamed
    assert "require mpi@1.12 or @1.13 (the version that you use) before" in removed
    assert (
        "If you required mpi and use it for x86_64_v3 only, as an earlier mail asked: a version at least as new is built again, maybe by another stack"
        in back
    )


def test_a_selected_version_that_is_back_is_no_downgrade_to_keep_from(made: Made) -> None:
    old, new = (in_ml(number, versions=[version]) for number, version in ((1, "1.2.1"), (3, "1.3.0")))
    rest = many(20) | {"other": in_ml(9)}
    config = CONFIG.replace("changes: [all],", 'match: {versions: "@1.2.1"},')
    _, back = weeks(
        made, config, *(rest | {"py-build": [*found, *in_ml(2, versions=["1.2.2"])]} for found in (old, new, old))
    )
    assert back.startswith("Nothing to do.")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_what_was_asked_for_lasts_until_it_is_taken_back(made: Made, seed: int) -> None:
    """In random histories of two packages in three stacks, which lose, regain, up- and downgrade them."""
    chance, targets = random.Random(seed), {"hep": "x86_64_v3", "ml": "x86_64_v3", "arm": "aarch64"}
    cells: list[dict[tuple[str, str], tuple[str, int] | None]] = [
        {(name, stack): (chance.choice("123"), 0) for name in ("one", "two") for stack in targets}
    ]
    for day in range(1, 7):
        fresh = [None, None, *((version, day) for version in "123")]
        cells.append({key: chance.choice(fresh) if chance.random() < 0.35 else cell for key, cell in cells[-1].items()})
    states = []
    for state in cells:
        state_packages: Packages = many(20)
        for place, ((name, stack), cell) in enumerate(state.items()):
            values = {"versions": [cell[0]] if cell else [], "target": targets[stack], "stacks": [stack, "root"]}
            found = records([100 * cell[1] + place], **values) if cell else []
            state_packages[name] = [*state_packages.get(name, ()), *found]
        states.append({name: found for name, found in state_packages.items() if found})
    readers, asked, days = made(*map(catalogue, states), config=CONFIG), set[str](), set[tuple[str, str]]()
    for number, state in enumerate(cells[1:], 2):
        readers.go_on()
        for digest in readers.made:
            own = digest.assessment
            lifted = {name for name, places in own.lifted if not places}
            required = {one.package for one in (*own.required, *own.to_copy)}
            assert lifted.isdisjoint(required)
            assert asked <= required | {name for name, _ in own.lifted}
            days |= {(f"2025-06-{number:02}", name) for one in own.due for name in one.names}
            lasting = [one for one in own.still_open if one.because in LASTING]
            assert {(one.since, name) for one in lasting for name in one.names} <= days
            for one in (each for each in own.required if each.machine in targets):
                has = state[one.package, one.machine]
                assert has is None or has[0] < one.spec.partition("@")[2]
            asked = required


def test_what_is_asked_again_is_asked_once(made: Made) -> None:
    """The rest of a requirement stays open, first beside that of all, then for the machine that it was for."""
    arm, ours, rest = in_ml(1, target="aarch64"), in_ml(2), many(20)
    found = [ours + arm, ours + unbuilt(arm), ours, None, in_ml(3, versions=["0.9"]), ours]
    asked, pruned, removed, older, back = weeks(made, CONFIG, *(rest | ({"one": own} if own else {}) for own in found))
    assert "Copy one" in asked
    assert "one@1.0 for aarch64 was pruned, as announced on 2 June" in pruned
    assert "If you use one: keep it where it is installed, and require one@1.0 before" in removed
    assert "If you use one: keep it where it is installed, and require one@1.0 or newer before" in older
    for said in (removed, older):
        assert "Still open" not in said
    assert (
        "If you required one and use it for ml only, as an earlier mail asked: a version at least as new is built again, maybe by another stack"
        in back
    )
    assert "if you use one for aarch64: keep it where it is installed, and require one@1.0 or newer" in back


def test_that_there_is_something_else_to_use_is_asked_for_once(made: Made) -> None:
    """Nobody sees whether readers re-concretized. Where they have to wait first, they are asked when they need not."""
    had = records([1], stacks=["hep", "root"])
    old, new = (many(20) | {"one": in_ml(2, versions=["1.1"]) + found} for found in (had, []))
    asked, later = weeks(made, CONFIG, old, new, new | {"two": in_ml(3)})
    assert asked.startswith("To do Re-concretize if you use one: other builds or newer versions are there.")
    assert "e-concretize if" not in later
