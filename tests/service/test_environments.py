"""Subscriptions that watch an environment, or stay with a snapshot: real caches, and small ones."""

import json
import os
import subprocess
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import ROOT, Run
from helpers import START, catalogue, history, lock, record, records, spec_hash
from station import OPEN_CONFIG, Site, begun
from truths import V3

from cachewatch.core.advice.environment_coverage import Environment
from cachewatch.core.advice.verbs_and_reasons import Verb
from cachewatch.core.advice.waits_and_reminders import OpenAction, Remembered
from cachewatch.environments import open_environment
from cachewatch.extensions.buildcaches.indexes_and_published_tags import Cache
from cachewatch.extensions.buildcaches.recording_and_suspicion import record as record_state
from cachewatch.operators.status_problems_explanations import read_status
from cachewatch.runtime.worker import Worker
from cachewatch.service import digest_assembly_and_hold_times

CONFIG = OPEN_CONFIG.replace("[txt]", "[txt, json, html, md]", 1)


def site_of(folder: Path, *states: dict[str, bytes], **match: object) -> Site:
    """Return a site with one subscription."""
    return Site(folder, states, f"{CONFIG}    match: {json.dumps(match)}\n")


def digest_of(site: Site) -> dict[str, Any]:
    """Return the JSON of the only digest, which is of the form that the schema says."""
    (stored,) = [stored for stored in site.digests() if stored.subscription == "ml"]
    data: dict[str, Any] = json.loads(stored.rendered.json)
    jsonschema.validate(data, json.loads((ROOT / "config/digest.schema.json").read_text()))
    return data


def told_after(site: Site, number: int) -> str:
    """Let the site see the first revision, and then another one; return what it says."""
    site.run()
    site.run(number, later=timedelta(days=number))
    (text,) = site.told()
    return text


@pytest.fixture(scope="module")
def real(buildcaches: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The history of a real cache, recorded state by state."""
    into = tmp_path_factory.mktemp("recorded") / "history.git"
    for number, state in enumerate(V3[:8]):
        cache = Cache(address=str(buildcaches / "v3" / state))
        record_state(cache, into, is_confirmed=True, now=START + timedelta(days=number))
    return into


def test_an_environment_that_ends_the_process_concerns_one_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody else has the digest; it is not read again until it changes."""
    path = lock(tmp_path / "spack.lock", ("zlib", "1.0", spec_hash(1)))
    other = f"  other: {{channels: [files], changes: [all], match: {{environment: {path}}}}}\n"
    site = begun(tmp_path, [catalogue({"zlib": records([n])}) for n in (1, 2, 3, 4, 5)], CONFIG + other)

    def end(path: Path, folders: object) -> Environment:
        os._exit(3)

    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(Worker, "may_fork", True)  # so that the process ends likewise
    monkeypatch.setattr(digest_assembly_and_hold_times, "open_environment", end)
    for number in (1, 2, 3):
        assert site.run(number, later=timedelta(days=1)).failed_digests == 1
        assert len(site.told()) == number
        assert site.told("other") == []
    (alert,) = [event for event in site.events() if event["event"] == "digest.failed"][2:]
    assert f"{path}: the process that read it ended with exit code 3" in alert["error"]

    monkeypatch.setattr(digest_assembly_and_hold_times, "open_environment", open_environment)
    lock(path, ("zlib", "1.0", spec_hash(4)))
    assert site.run(4, later=timedelta(days=1)).failed_digests == 0
    assert len(site.told("other")) == 1


@pytest.mark.parametrize("states", [(4, 5), (4, 6), (5, 7), (6, 7), (4, 8)])
def test_real_needs_add_up(real: Path, buildcaches: Path, tmp_path: Path, run: Run, states: tuple[int, int]) -> None:
    """What a digest says is what `coverage` says of both states, and the difference between them."""
    before, after = states
    path = buildcaches / "v3/env/4/spack.lock"
    site = real_site(tmp_path, real, path, before)
    site.run()
    site.run(after - 1)
    ask = ("coverage", str(path), "--repo", str(real), "--format=json", "--rev")
    counts = [json.loads(run(*ask, site.commits[n - 1]).output) for n in (before, after)]
    had, has = ({spec["hash"]: spec for spec in found["specs"]} for found in counts)
    there = {"kept", "going"}
    removed = {key for key in had if had[key]["class"] in there and has[key]["class"] not in there}

    environment = digest_of(site)["environment"]
    assert environment["binaries"] == len(has)
    assert environment["before"] == sum(counts[0]["counts"][one] for one in there)
    assert environment["after"] == sum(counts[1]["counts"][one] for one in there)
    assert sum(environment["now"].values()) == len(has)
    now = environment["now"]
    assert [now[one] for one in ("kept", "going")] == [counts[1]["counts"][one] for one in ("kept", "going")]
    listed = {row["hash"] for word in ("gone", "other", "equal") for row in environment[word]["rows"]}
    assert listed >= removed
    assert {has[key]["class"] for key in listed} <= {"gone", "other", "equal"}
    assert environment["removed"] == len(removed)
    assert environment["before"] - len(removed) + environment["came"] == environment["after"]


def real_site(folder: Path, real: Path, path: Path, first: int) -> Site:
    """Return a site that watches the recorded history with the lock file."""
    site = site_of(folder, catalogue({"zlib": records([1])}), environment=str(path))
    subprocess.run(["git", "clone", "-q", "--mirror", real, folder / "real.git"], check=True)
    site.upstream = (folder / "real.git").rename(folder / "cache.git")
    site.configure((folder / "cachewatch.yaml").read_text().replace("upstream.git", "cache.git"))
    site.commits = site._git("rev-list", "--reverse", "main").split()
    site.publish(first - 1)
    return site


OURS = [("zlib", "1.0", spec_hash(1)), ("hdf5", "1.0", spec_hash(10)), ("curl", "1.0", spec_hash(20))]
ALL = {"zlib": records([1]), "hdf5": records([10]), "curl": records([20]), "other": records([30])}
LESS = {"zlib": records([2]), "curl": records([20]), "other": records([31])}


def test_losses_come_first(tmp_path: Path) -> None:
    """Binaries that were removed are told by name, and packages of others are not told at all."""
    site = site_of(tmp_path, catalogue(ALL), catalogue(LESS), environment=str(lock(tmp_path / "spack.lock", *OURS)))
    text = told_after(site, 1)
    said = " ".join(text.split("----")[0].split())
    assert said.startswith(
        "To do Keep what is installed, and require hdf5@1.0 before you re-concretize, or Spack may choose "
        "another version: hdf5 1.0 is gone. The catalogue does not say why. Re-concretize: 1 of your binaries is gone (zlib), another build of "
        "the same version is there. What happened"
    )
    assert "other " not in said.replace("another ", "")
    assert digest_of(site)["title"] == "no build left of 1 of 3 binaries; hdf5 removed"


def test_a_version_that_a_manifest_names_has_to_be_changed(tmp_path: Path) -> None:
    """Concretizing again chooses the same version; a lock file needs nothing else."""
    manifest = tmp_path / "spack.yaml"
    manifest.write_text("spack: {specs: [zlib@1.0]}")
    newer = {"zlib": records([2], versions=["1.1"])}
    site = site_of(tmp_path, catalogue(ALL), catalogue(ALL | newer), environment=str(manifest))
    said = "Re-concretize: zlib 1.0 is gone, 1.1 is there; change the version of zlib in your spack.yaml first."
    assert said in " ".join(told_after(site, 1).split())


def test_variants_that_are_gone_are_named_until_they_are_back(tmp_path: Path) -> None:
    """No build of the version that the machine runs has them; then another build has."""
    file = lock(tmp_path / "spack.lock", OURS[0])
    file.write_text(file.read_text().replace('"version"', '"parameters": {"shared": true}, "version"'))
    other = records([2], variants=["build_system=cmake", "~shared"])
    ours = records([1]) + other
    states = [catalogue(ALL | {"zlib": found}) for found in (ours, other, other + records([3]), ours)]
    site = site_of(tmp_path, *states, environment=str(file))
    assert "zlib 1.0 with +shared is gone, it is there with variants ~shared." in " ".join(told_after(site, 1).split())
    site.run(2, later=timedelta(days=1))
    assert "1 of your binaries is gone (zlib), another build of the same" in " ".join(site.told()[-1].split())
    site.run(3, later=timedelta(days=1))
    assert "zlib 1.0 of your environment is there now." in " ".join(site.told()[-1].split())


def test_what_to_do_is_said_though_the_tag_has_nothing_to_tell(tmp_path: Path) -> None:
    """Of the packages that were asked for nothing changed, and binaries of the environment are lost."""
    path = str(lock(tmp_path / "spack.lock", *OURS))
    site = site_of(tmp_path, catalogue(ALL), catalogue(LESS), environment=path, packages=["curl"])
    assert "hdf5 1.0 is gone." in " ".join(told_after(site, 1).split())


def test_what_the_machines_cannot_use_is_no_news(tmp_path: Path) -> None:
    """Builds of the needed packages for other systems and processors come and go unsaid; one that runs there is told."""
    path = lock(tmp_path / "spack.lock", *OURS)
    elsewhere = [record(2, versions=["2.0"], target="neoverse_v1"), record(3, versions=["2.0"], os="rhel8")]
    stronger = [record(4, versions=["2.0"], target="x86_64_v4")]
    states = [ALL, ALL | {"zlib": [record(1), *elsewhere, *stronger]}]
    states.append(states[1] | {"zlib": [*states[1]["zlib"], record(5, versions=["3.0"], target="x86_64_v2")]})
    site = site_of(tmp_path, *map(catalogue, states), environment=str(path))
    site.run()
    for number, count in ((1, 0), (2, 1)):
        site.run(number, later=timedelta(days=1))
        assert len(site.told()) == count
    assert "3.0" in site.told()[0]
    assert all(word not in site.told()[0] for word in ("neoverse_v1", "rhel8", "x86_64_v4"))


@pytest.mark.slow
def test_everything_is_rebuilt_beside_the_old_binaries(tmp_path: Path) -> None:
    """Before a prune: every binary has a second copy; after it: all have another build."""
    both = {name: [record(n, stacks=["root"]), record(n + 1)] for name, n in (("zlib", 1), ("hdf5", 10), ("curl", 20))}
    pruned = {name: found[1:] for name, found in both.items()}
    path = lock(tmp_path / "spack.lock", *OURS)
    site = site_of(tmp_path, *map(catalogue, (ALL, both, pruned)), environment=str(path))
    site.run()
    for number in (1, 2):
        site.run(number, later=timedelta(days=1))
    titles = sorted(stored.title for stored in site.digests())
    assert titles == ["3 of 3 binaries may be pruned at any time: re-concretize", "all rebuilt: re-concretize"]
    assert site.told()[-1].startswith("To do          Re-concretize: 3 of your binaries are gone")


def test_a_binary_that_another_source_has_is_not_lost(tmp_path: Path) -> None:
    history(tmp_path / "other.git", catalogue(ALL))
    site = site_of(tmp_path, catalogue(ALL), catalogue(LESS), environment=str(lock(tmp_path / "spack.lock", *OURS)))
    path = tmp_path / "cachewatch.yaml"
    sources = f"400d}}, other: {{git: {tmp_path}/other.git, stale_after: 400d}}}}"
    path.write_text(path.read_text().replace("400d}}", sources))
    assert "is gone" not in told_after(site, 1)
    environment = digest_of(site)["environment"]
    assert (environment["before"], environment["after"], environment["removed"]) == (3, 3, 0)


@pytest.mark.slow_cases
@pytest.mark.parametrize("broken", [None, "{", '{"_meta": {"lockfile-version": 1}}'])
def test_a_broken_environment_is_told_to_operators(tmp_path: Path, run: Run, broken: str | None) -> None:
    """No crash, and nothing is lost: with the file back, the digest is made."""
    path = lock(tmp_path / "spack.lock", *OURS)
    site = site_of(tmp_path, catalogue(ALL), catalogue(LESS), environment=str(path))
    site.run()
    path.unlink() if broken is None else path.write_text(broken)
    assert site.run(1).failed_sources == 0
    assert site.told() == []
    assert site.notices() == ["digests cannot be created for ml/regular"]
    error = run("config", "check", "--config", str(tmp_path / "cachewatch.yaml")).error_of(2)
    assert "subscriptions.ml.match.environment" in error
    assert str(path) in error

    lock(path, *OURS)
    site.run(later=timedelta(hours=2))
    assert "hdf5 1.0 is gone." in " ".join(site.told()[0].split())
    assert site.notices()[-1] == "digests can be created again for ml/regular"
    assert read_status(site.open()).alerts == ()


def snapshots(**packages: dict[str, list[dict[str, object]]]) -> dict[str, bytes]:
    """Return the catalogue of several tags: develop_2025_06_01 is written with hyphens."""
    files = {tag: catalogue(content, tag=tag.replace("_", "-")) for tag, content in packages.items()}
    return {path: data for each in files.values() for path, data in each.items()}


def test_what_the_newest_snapshot_would_change(tmp_path: Path) -> None:
    """For an environment: what it would gain and lose."""
    ours = lock(tmp_path / "spack.lock", *OURS)
    first = snapshots(develop_2025_06_01=LESS)
    second = first | snapshots(develop_2025_06_08={"hdf5": records([10]), "zlib": records([1])})
    site = site_of(tmp_path, first, second, environment=str(ours), pinned="develop-2025-06-01")
    text = " ".join(told_after(site, 1).split())
    assert "Stay on develop-2025-06-01" in text
    (action,) = [one for one in digest_of(site)["actions"] if one["verb"] == "stay"]
    assert action["names"] == ["curl"]


def test_what_the_newest_snapshot_would_change_at_large(tmp_path: Path) -> None:
    """Without an environment: for everything that the subscription is about."""
    first = snapshots(develop_2025_06_01=ALL)
    newer = {"zlib": [record(2, versions=["2.0"])], "curl": records([20]), "other": records([30])}
    site = site_of(tmp_path, first, first | snapshots(develop_2025_06_08=newer), pinned="develop-2025-06-01")
    text = " ".join(told_after(site, 1).split())
    assert text.startswith("To do Stay on develop-2025-06-01, or move without what is listed.")
    assert "YOU WOULD LOSE hdf5 1.0 all stacks" in text
    assert "zlib 1.0 -> 2.0" in text
    digest_of(site)


def test_what_moving_to_a_new_snapshot_means(tmp_path: Path) -> None:
    """Of all its packages, in a digest of the service as in any other: what is the same, what is lost, and where."""
    first = snapshots(develop_2025_06_01=ALL)
    rest = {name: found for name, found in ALL.items() if name != "hdf5"}
    site = site_of(tmp_path, first, first | snapshots(develop_2025_06_08=rest), tags=["develop-*"])
    text = " ".join(told_after(site, 1).split())
    assert text.startswith(
        "To do If you use develop-2025-06-01: it may be removed without notice. "
        "Move to develop-2025-06-08; or stay, and copy what you use to a mirror of your own, if you need what the new one lacks: hdf5."
    )
    assert "develop-2025-06-08 against develop-2025-06-01: 1 package gone." in text


def test_what_is_gone_from_a_branch_may_be_in_a_snapshot(tmp_path: Path) -> None:
    """It is named, and added as a mirror before what is to be required; a filter does not hide it."""
    first = snapshots(develop_2025_06_01=ALL) | catalogue(ALL)
    second = snapshots(develop_2025_06_01=ALL) | catalogue(LESS)
    ours = str(lock(tmp_path / "spack.lock", *OURS))
    site = site_of(tmp_path, first, second, environment=ours, tags=["develop"])
    text = " ".join(told_after(site, 1).split())
    assert "hdf5 1.0 gone, still in develop-2025-06-01" in str(digest_of(site)["title"])
    still = "(develop as it was then, with a mirror of its own) still has hdf5@1.0, but may be removed"
    assert f"The snapshot develop-2025-06-01 {still}" in text
    skip = 'leave out the next line if you # added it already: spack -e . mirror add develop-2025-06-01 "${URL:?}"'
    there = f"# develop-2025-06-01 still has hdf5; {skip}"
    assert f"{there} spack -e . config add" in text

    (tmp_path / "all").mkdir()
    site = site_of(tmp_path / "all", first, second, tags=["develop"])
    assert f"The snapshot develop-2025-06-01 {still}" in " ".join(told_after(site, 1).split())


def test_stacks_mean_nothing_to_an_environment(tmp_path: Path) -> None:
    """A binary that left a stack is still there; nobody is asked to build it, and no subject calls it lost."""
    ours = lock(tmp_path / "spack.lock", ("zlib", "1.0", spec_hash(1)))
    before, after = (record(1, stacks=stacks) for stacks in (["e4s", "radiuss", "root"], ["e4s", "root"]))
    states = [catalogue({"zlib": [one]}) for one in (before, after)]
    text = told_after(site_of(tmp_path, *states, environment=str(ours)), 1)
    assert text.startswith("Nothing to do.")
    assert "is gone" not in text


def test_a_document_that_cannot_be_read_is_no_loss(tmp_path: Path) -> None:
    path = lock(tmp_path / "spack.lock", *OURS)
    broken = catalogue(LESS | {"hdf5": records([10])})
    name = next(name for name in broken if "/hdf5/" in name)
    site = site_of(tmp_path, catalogue(ALL), broken | {name: b"---\n- : [\n"}, environment=str(path))
    told_after(site, 1)
    environment = digest_of(site)["environment"]
    assert environment["gone"]["count"] == 0
    assert environment["equal"]["count"] == 1


@pytest.mark.slow
def test_only_what_an_environment_needs_can_hold_its_digest(tmp_path: Path) -> None:
    """A mass event elsewhere holds nothing up; one among the needed packages does."""
    base = {"zlib": records([1])}
    states = [base, base | {"other": records(range(100, 160))}, base | {"zlib": records(range(1, 80))}]
    match = {"environment": str(lock(tmp_path / "spack.lock", ("zlib", "1.0", spec_hash(1))))}
    limit = "limit: {hold_above: 50}"
    config = (
        f"{CONFIG}    match: {json.dumps(match)}\n    {limit}\n  all: {{channels: [files], changes: [all], {limit}}}\n"
    )
    site = begun(tmp_path, [catalogue(state) for state in states], config)
    held = []
    for number in (1, 2):
        site.run(number, later=timedelta(hours=12))
        held.append([each.subscription for each in read_status(site.open()).held])
    assert held == [["all"], ["all", "ml"]]


def test_a_pin_among_the_oldest_snapshots_comes_first(tmp_path: Path) -> None:
    """What may be deleted soon is to be mirrored, or left for the newest one; when it is gone, to move is new."""
    first = snapshots(develop_2025_06_01=ALL)
    second = first | snapshots(develop_2025_06_08=ALL)
    third = second | snapshots(develop_2025_06_15=LESS)
    fourth = {path: content for path, content in third.items() if "2025-06-01" not in path}
    site = site_of(tmp_path, first, second, third, fourth, tags=["develop-*"], pinned="develop-2025-06-01")
    site.run()
    for number in (1, 2, 3):
        site.run(number, later=timedelta(days=1))
    texts = [" ".join(text.split()) for text in site.told()]
    todo = "Move to develop-2025-06-08, re-concretize and install. Or stay on develop-2025-06-01, "
    assert texts[0].startswith(f"To do {todo}")
    assert "Do one of the two now" in texts[0]
    assert texts[1].startswith(
        "To do Your pin develop-2025-06-01 is among the oldest snapshots that are left, which are deleted first. "
        "Move to develop-2025-06-08, which has all packages of develop-2025-06-01, or to develop-2025-06-15, unless you need "
        "what the latter lacks: hdf5; then re-concretize and install. Or stay, and copy what you use of your pin to a mirror of your own, unless you have done so."
    )
    move, stay = texts[1].partition("# either move to develop-2025-06-08:")[2].split("# or stay on develop-2025-06-01")
    assert "mirror remove develop-2025-06-01 spack -e . concretize --force spack -e . install )" in move
    assert "mirror remove" not in stay
    assert texts[2].startswith(
        "To do If you have moved, have the pin of this subscription changed. "
        "If you have copied what you use of develop-2025-06-01, your copy still works: then move when you like. Otherwise move to "
        "develop-2025-06-08, which has all packages of develop-2025-06-01, or to develop-2025-06-15, unless you need what the latter lacks: hdf5; then re-concretize."
    )


def test_what_is_still_open_is_one_command(tmp_path: Path) -> None:
    """Binaries of several weeks for which one command is enough are in one line, with the first day; the oldest first."""
    states = [
        ALL,
        {"hdf5": records([11]), "zlib": records([1]), "curl": records([20])},
        {"hdf5": records([11]), "zlib": [record(2, versions=["2.0"])], "curl": records([20])},
        {"hdf5": records([11]), "zlib": [record(2, versions=["2.0"])]},
    ]
    ours = lock(tmp_path / "spack.lock", *OURS)
    site = site_of(tmp_path, *(catalogue(state) for state in states), environment=str(ours))
    site.run()
    for number in (1, 2, 3):
        site.run(number, later=timedelta(days=1))
    text = " ".join(site.told()[-1].split())
    todo = "require curl@1.0 before you re-concretize, or Spack may choose another version: curl 1.0 is gone."
    assert text.startswith(f"To do Keep what is installed, and {todo}")
    assert (
        "Still open since 2 June and later: re-concretizing settles 2 more of your 3 binaries: "
        "zlib 1.0 is gone, 2.0 is there; "
        "1 of your binaries is gone (hdf5), another build of the same version is there."
    ) in text
    assert text.count("since ") == 2  # the day, and that of the lock file
    assert "environment spack.lock (unchanged since 2 June; give cachewatch the new one when you have it)" in text


def test_another_lock_file_settles_what_was_asked_for_the_old_one() -> None:
    asked = [(Verb.BUILD, "old"), (Verb.BUILD, "new"), (Verb.LOOK, "old")]
    facts = [OpenAction(verb=v, subject=lock, since="", last_repeated=START, lock=lock) for v, lock in asked]
    assert [(one.verb, one.lock) for one in Remembered(tuple(facts)).of_lock("new").actions] == asked[1:]
