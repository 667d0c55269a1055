"""Who is told what, and when: net differences, slots, holds, and nothing lost on the way."""

import json
import re
import shlex
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from conftest import Run
from helpers import catalogue, history, record, records
from sqlalchemy import update
from station import OPEN_CONFIG as CONFIG
from station import Site, begun, day
from upstream import git

from cachewatch.errors import UsageError
from cachewatch.git.service_clone import ServiceClone
from cachewatch.operators import alerts_summary_actions
from cachewatch.operators.status_problems_explanations import read_status
from cachewatch.service import digest_assembly_and_hold_times
from cachewatch.service.passes_and_leadership import clean_up, create_digests, poll
from cachewatch.store.schema import cursors

BASE = {"zlib": records(range(3)), "hdf5": records(range(10, 14))}
ONE = {**BASE, "change-one": records([100])}
TWO = {**ONE, "change-two": records([200])}
THREE = {**TWO, "change-three": records([300])}
STATES = [catalogue(state) for state in (BASE, ONE, TWO, BASE, TWO, THREE)]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Upstream adds change-one, then change-two, takes both back, and adds both again."""
    return Site(tmp_path, STATES, CONFIG)


def test_times_are_said_in_the_zone_of_the_configuration(tmp_path: Path) -> None:
    """04:00 UTC of 2 June is 18:00 of 1 June on Hawaii."""
    states = [catalogue({"zlib": records([n])}) for n in (1, 2)]
    site = begun(tmp_path, states, CONFIG.replace("version: 1", "version: 1\ntimezone: Pacific/Honolulu"))
    site.run(1, later=timedelta(days=1))
    (text,) = site.told()
    assert "\ndevelop, 31 May to 1 June 2025 (" in text
    assert "UTC" not in text


def test_the_period_of_a_digest_is_in_the_names_of_its_files(site: Site) -> None:
    """The first and the last day; one day with its time, since there may be more digests of that day."""
    site.run()
    for number in (1, 3):
        site.run(number, later=timedelta(days=2))

    stems = sorted(path.stem for path in (site.folder / "out" / "ml").iterdir())
    assert stems == ["2025-06-01..2025-06-02", "2025-06-02..2025-06-04"]
    assert digest_assembly_and_hold_times.period_of([], day(1, 7), is_urgent=False) == "2025-06-02T070000Z"
    assert digest_assembly_and_hold_times.period_of([], day(1, 7), is_urgent=True) == "2025-06-02T070000Z-urgent"


@pytest.mark.both_states
def test_a_new_revision_is_told_once(site: Site) -> None:
    site.run()
    site.run(1)
    site.run()
    (text,) = site.told()
    assert "change-one" in text
    assert "change-two" not in text
    assert (site.folder / "out" / "ml").exists()


@pytest.mark.slow
@pytest.mark.both_states
def test_a_schedule_makes_one_digest_of_all_that_was_missed(site: Site) -> None:
    site.configure(CONFIG + "    when: daily 07:30\n")
    site.run()
    site.run(1)
    assert site.told() == []  # not due yet
    site.run(2, at=day(9, hour=8))  # after a week without any run
    site.run()
    (text,) = site.told()
    assert "change-one" in text
    assert "change-two" in text
    (slot,) = [event for event in site.events() if event["event"] == "digest.queued"]
    assert slot["subscription"] == "ml"


@pytest.mark.parametrize(("before", "after", "digests"), [("weekly fri", "daily", 1), ("daily", "weekly fri", 0)])
def test_a_schedule_that_was_changed_counts_at_once(site: Site, before: str, after: str, digests: int) -> None:
    """Whether it is due earlier than it was, or later: seen on a Monday."""
    site.configure(CONFIG + f"    when: {before} 07:30\n")
    site.run()
    site.publish(1)
    site.configure(CONFIG + f"    when: {after} 07:30\n")
    site.run()
    site.run(at=day(1, hour=8))
    assert len(site.told()) == digests
    site.run(at=day(5, hour=8))
    assert len(site.told()) == 1


def test_a_clock_that_is_set_back_makes_no_second_digest(site: Site) -> None:
    site.configure(CONFIG + "    when: daily 07:30\n")
    site.run()
    site.run(1, at=day(1, hour=8))
    site.now -= timedelta(hours=1)
    site.run()
    site.run(later=timedelta(days=3))
    assert len(site.told()) == 1


@pytest.mark.slow
def test_urgent_kinds_are_told_at_once_and_again_in_their_place(site: Site) -> None:
    site.configure(CONFIG + "    when: weekly mon 07:30\n    urgent: {changes: [package-removed], channels: [desk]}\n")
    site.run(2)
    site.run(3, later=timedelta(hours=1))
    (urgent,) = site.digests()
    assert (urgent.subscription, urgent.stream) == ("ml", "urgent")
    assert "change-one" in urgent.rendered.text
    assert [each.channel for each in site.deliveries()] == ["desk"]
    site.run(later=timedelta(days=7))
    assert [stored.stream for stored in site.digests() if stored.subscription == "ml"] == ["urgent", "regular"]


@pytest.mark.slow
def test_a_held_digest_can_be_released_however_old_it_is(site: Site) -> None:
    """Digests of long ago are forgotten, but not what waits for an answer."""
    site.configure(CONFIG + "    limit: {hold_above: 1, hold_for: never}\n")
    site.run()
    site.run(2)
    site.run(later=timedelta(days=1000))
    (held,) = read_status(site.open()).held
    alerts_summary_actions.release(site.open(), held.key)
    site.run()
    (file,) = (site.folder / "out" / "ml").iterdir()
    assert "change-two" in file.read_text()


@pytest.mark.slow
def test_a_newer_held_digest_takes_the_place_of_the_older(site: Site) -> None:
    """Nobody is asked twice: the command in the notice is right for the newer one too. Its key stands in `status`."""
    site.configure(CONFIG + "    limit: {hold_above: 1}\n")
    site.run()
    keys = []
    for number in (2, 5):
        site.run(number, later=timedelta(hours=1))
        (held,) = read_status(site.open()).held
        keys.append(held.key)
    assert site.notices() == ["a large change in develop of public"]
    (notice,) = (site.folder / "desk").rglob("*.txt")
    assert "cachewatch deliveries release ml\n" in notice.read_text()
    with pytest.raises(UsageError, match=f"superseded; {keys[1][:12]} replaced it"):
        alerts_summary_actions.release(site.open(), keys[0])
    assert alerts_summary_actions.release(site.open(), "ml").key == keys[1]


@pytest.mark.slow
def test_a_held_digest_that_upstream_took_back_cannot_be_released(site: Site) -> None:
    """The branch was set back to the very revision that was told last, so there is nothing new to take its place."""
    site.configure(CONFIG + "    limit: {hold_above: 1}\n")
    site.run()
    site.run(2)
    site.run(0)
    assert {each.state for each in site.deliveries() if each.channel == "files"} == {"dropped"}
    assert read_status(site.open()).alerts == ()
    site.run(1)
    (text,) = site.told()
    assert "change-one" in text
    assert "change-two" not in text


def test_quiet_windows_hold_and_merge(site: Site) -> None:
    site.configure(CONFIG + "quiet: [{from: 2025-06-01, to: 2025-06-03}]\n")
    site.run()
    site.run(1, at=day(1))
    site.publish(2)
    site.run(at=day(2))
    assert site.told() == []
    assert read_status(site.open()).quiet_until == day(3, hour=0)
    site.run(at=day(3, hour=1))
    assert read_status(site.open()).quiet_until is None
    (text,) = site.told()
    assert "change-one" in text
    assert "change-two" in text


def test_a_schedule_that_was_just_kept_waits_for_its_next_time(site: Site) -> None:
    """A pass within the same minute finds nothing wrong with that."""
    site.configure(CONFIG + "    when: daily 07:30\n    if_empty: send\n")
    site.run()
    site.now = day(0, hour=7) + timedelta(minutes=30, seconds=20)
    for _ in range(2):
        site.run(later=timedelta(seconds=10))
    assert (len(site.told()), site.notices()) == (1, [])


@pytest.mark.slow_cases
@pytest.mark.parametrize(("if_empty", "weeks", "digests"), [("skip", 13, 0), ("send", 13, 13), ("monthly", 13, 4)])
def test_an_empty_digest_is_sent_only_where_wanted(site: Site, if_empty: str, weeks: int, digests: int) -> None:
    site.configure(CONFIG + f"    when: weekly mon 07:30\n    if_empty: {if_empty}\n")
    site.run()
    for _ in range(weeks):
        site.run(later=timedelta(weeks=1))
    assert len(site.told()) == digests


@pytest.mark.both_states
def test_a_failing_source_is_told_to_operators_once_and_never_to_readers(site: Site) -> None:
    site.run()
    hidden = site.upstream.rename(site.folder / "away.git")
    for _ in range(4):
        assert site.run(later=timedelta(hours=1)).failed_sources == 1
    assert site.notices() == ["the source public cannot be read"]
    hidden.rename(site.upstream)
    site.run(1, later=timedelta(hours=1))
    assert site.notices() == ["the source public cannot be read", "the source public can be read again"]
    assert len(site.told()) == 1
    assert {each.channel for each in site.deliveries() if each.channel == "files"} == {"files"}


def test_a_source_that_was_never_read_makes_no_digest(site: Site) -> None:
    away = "sources: {away: {git: {folder}/nowhere.git}, public: "
    site.configure(CONFIG.replace("sources: {public: ", away) + "    when: daily 07:30\n")
    for _ in range(3):
        site.run(later=timedelta(days=1))
    assert site.told() == []


def test_a_stale_source_is_said_in_digests(site: Site) -> None:
    site.configure(CONFIG.replace("400d", "4d"))
    site.run()
    assert site.notices() == []
    site.run(at=day(20))
    assert site.notices() == ["the source public has no news"]
    assert "It answers, but upstream may have stopped publishing." in site.told("(operators)")[-1]
    site.run(1)
    (text,) = site.told()
    assert "nothing new published since" in text
    assert "(19 days)" in text


@pytest.mark.slow
def test_who_asks_for_more_is_not_told_of_the_past(site: Site) -> None:
    site.configure(CONFIG + "    match: {packages: [zlib]}\n")
    site.run()
    site.run(1)
    site.configure(CONFIG)
    site.run(2)
    (text,) = site.told()
    assert "change-two" in text
    assert "change-one" not in text


@pytest.mark.both_states
def test_an_upstream_that_rewrote_its_history_is_compared_all_the_same(site: Site) -> None:
    site.run(1)
    site.publish(0)
    subprocess.run(["git", f"--git-dir={site.upstream}", "gc", "-q", "--prune=now"], check=True)
    site.run()
    (text,) = site.told()
    assert "change-one" in text
    assert "rewrote its history" in text
    assert site.notices() == ["notice about the source public"]


@pytest.mark.both_states
def test_another_address_is_not_called_a_rewritten_history(site: Site) -> None:
    """Operators learn what they changed themselves, and once."""
    site.run()
    history(site.folder / "other.git", catalogue({"zlib": records([7])}))
    site.configure(CONFIG.replace("upstream.git", "other.git"))
    site.run()
    site.run()
    (said,) = [text for path in (site.folder / "desk").rglob("*.txt") if "address" in (text := path.read_text())]
    # Lines are broken anywhere, also within a path.
    assert f"Theaddressofthesourcewaschanged;itwas{site.folder}/upstream.git." in "".join(said.split())
    assert "rewrote" not in said


@pytest.mark.slow
def test_what_was_told_last_is_kept_though_upstream_threw_it_away(site: Site) -> None:
    """The next digest begins there."""
    site.run()
    site.run(1)
    site.publish(0)
    context = site.open()
    assert poll(context, context.config.sources["public"])
    clean_up(context)
    # Upstream, and then the clone, throw away what nothing refers to, as git does sooner or later.
    for repository in (site.upstream, context.clone_folder("public")):
        git(repository, "reflog", "expire", "--expire=now", "--all")
        git(repository, "gc", "--quiet", "--prune=now")
    create_digests(context)
    assert ["change-one" in text for text in site.told()] == [True, True]
    assert "cannot be known" not in " ".join(site.told()[-1].split())


def test_what_no_digest_begins_at_any_more_is_let_go(site: Site) -> None:
    """Else the clone would keep each revision that anybody was ever told of."""
    context = site.open()
    clone = ServiceClone(context.clone_folder("public"), str(site.upstream))
    for number in range(3):
        site.run(number)
        clean_up(context)
        assert set(clone.pins()) == {site.commits[number]}


def test_what_cannot_be_known_is_said(site: Site) -> None:
    site.run(1)
    with site.open().database.write() as connection:
        connection.execute(update(cursors).values(revision="f" * 40))
    site.run(2)
    (text,) = site.told()
    assert "cannot be known" in " ".join(text.split())
    site.run()
    assert len(site.told()) == 1


def test_the_command_of_a_digest_shows_the_same(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is whole however long it is, and has every filter, so that it can be pasted, as readers have the repository."""
    monkeypatch.setattr("cachewatch.config.sources_and_channels._PUBLIC", re.compile(".*"))
    before = {"zlib": [record(1)]}
    after = {"zlib": [record(1), record(2, versions=["9.0"])], "hdf5": [record(3, versions=["1.14"]), record(4)]}
    wanted = 'tags: [develop], packages: ["/^zl.b$/", hdf5, "!xz*"], versions: ["@1.14:"], compilers: ["gcc@*"]'
    asked = f"match: {{{wanted}}}\n    changes: [default, +rebuilt, -compiler, -os]"
    site = begun(tmp_path, [catalogue(before), catalogue(after)], CONFIG.replace("changes: [all]", asked))
    site.run(1)

    (text,) = site.told()
    assert "changes default, +rebuilt, -compiler, -os" in " ".join(text.split())
    (command,) = json.loads(site.digests()[-1].rendered.json)["commands"]
    total = "2 packages have changes of these kinds (+2: 1 in new packages, 1 in upgrades)"
    assert total in " ".join(run(*shlex.split(command)[1:]).output_of(0).split())


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("zone", "night", "at"),
    [
        ("Europe/Berlin", "2025-10-26", "02:30"),  # twice in that night
        ("Europe/Berlin", "2026-03-29", "02:30"),  # and not at all
        ("Australia/Lord_Howe", "2026-04-05", "01:45"),  # twice, half an hour apart
        ("Africa/Cairo", "2026-04-24", "00:15"),  # skipped at midnight
    ],
)
def test_one_digest_a_day_whatever_the_clocks_do(site: Site, zone: str, night: str, at: str) -> None:
    """Looked at every half hour for three nights, in the second of which clocks are set."""
    schedule = f"    when: daily {at}\n    if_empty: send\n"
    site.configure(CONFIG.replace("state:", f"timezone: {zone}\nstate:", 1) + schedule)
    noon = datetime.fromisoformat(f"{night}T12:00").replace(tzinfo=ZoneInfo(zone))
    site.run(at=(noon - timedelta(days=2)).astimezone(UTC))
    context = site.open()
    for _ in range(3 * 24 * 2):
        site.now += timedelta(minutes=30)
        create_digests(context)
    made = [stored.created for stored in site.digests() if stored.subscription == "ml"]
    days = [created.astimezone(ZoneInfo(zone)).date() for created in made]
    assert [str(day) for day in days] == [str(noon.date() + timedelta(days=number)) for number in (-1, 0, 1)]
