"""Alerts: operators are notified once when one opens and once when it is resolved, and daily of what is still open."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, records
from station import Site, day

from cachewatch.errors import StateError, UsageError
from cachewatch.service import byhand
from cachewatch.service.reporting import read_status

WHOLE = {f"package-{number}": records(range(10 * number, 10 * number + 4)) for number in range(12)}
HOURS = 24
# All is well, most of it is lost in both tags, one package comes every hour, and all is well again.
STATES = [
    catalogue(WHOLE) | catalogue(WHOLE, tag="v1.0"),
    *(
        catalogue(dict(list(WHOLE.items())[:2]) | {f"new-{number}": records([900]) for number in range(hour)})
        for hour in range(HOURS)
    ),
    catalogue(WHOLE | {"last": records([999])}),
]

CONFIG = """\
version: 1
state: {folder}/state
sources: {public: {git: "{folder}/upstream.git", tags: [develop], stale_after: 400d}}
channels:
  files: {type: file, path: "{folder}/out/{subscription}/{key}.txt", formats: [txt]}
  desk: {type: file, path: "{folder}/desk/{subscription}/{key}.txt", formats: [txt]}
operators: {channels: [desk], after_failures: 1}
subscriptions:
  ml: {when: each revision, changes: [all], channels: [files]}
"""
HOUR = timedelta(hours=1)
LOSS = "a suspicious loss in develop of public"
SETTLED = "no digest is held for a loss in develop of public"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path, STATES)
    made.configure(CONFIG)
    made.run()
    return made


def logged(site: Site, prefix: str) -> list[str]:
    """Return the names of logged events that begin so."""
    return [event["event"] for event in site.events() if event["event"].startswith(prefix)]


def notice(site: Site, title: str) -> str:
    """Return the text of the one notice of this title, in one line."""
    (text,) = [stored.letter.text for stored in site.digests() if stored.letter.title == title]
    return re.sub(r"\s+", " ", text)


def open_alerts(site: Site) -> list[tuple[str, str, str]]:
    """Return the kind, name and part of every open alert."""
    return [(alert.kind, alert.name, alert.part) for alert in read_status(site.open()).alerts]


def test_what_was_rolled_back_is_not_logged(site: Site) -> None:
    """The notice could not be stored, so nobody was notified; it is stored and logged when there is room again."""
    site.upstream.rename(site.folder / "away.git")
    with site.open().database.write() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER full BEFORE INSERT ON deliveries BEGIN SELECT raise(ABORT, 'no room'); END"
        )
    with pytest.raises(StateError, match="no room"):
        site.run(later=HOUR)
    assert logged(site, "alert") == []
    with site.open().database.write() as connection:
        connection.exec_driver_sql("DROP TRIGGER full")
    site.run(later=HOUR)
    assert logged(site, "alert") == ["alert.opened"]
    assert site.notices() == ["the source public cannot be read"]


def test_a_loss_that_is_held_for_long_is_one_notice_and_a_summary_a_day(site: Site) -> None:
    """However many revisions come meanwhile, each with a held digest in the place of the one before."""
    site.now = day(0, hour=9)
    for number in range(1, HOURS + 1):
        site.publish(number)
        site.run(later=2 * HOUR)
    assert site.notices() == [LOSS, "1 alert is open", "1 alert is open"]
    assert open_alerts(site) == [("suspicious-loss", "public", "develop")]
    site.publish(HOURS + 1)
    site.run(later=2 * HOUR)
    assert site.notices()[3:] == [SETTLED]
    assert "last" in site.told()[-1]
    site.run(later=timedelta(days=3))
    assert len(site.notices()) == 4
    assert open_alerts(site) == []


def test_one_loss_is_one_notice_for_all_who_hold_it(site: Site, run: Run) -> None:
    """It names each subscription, and its commands still answer when newer digests have taken the places of the first."""
    more = (
        "  hpc: {when: each revision, channels: [files], urgent: {changes: [removed, suspicious], channels: [files]}}\n"
    )
    site.configure(CONFIG + more)
    site.run()
    for number in (1, 2):
        site.publish(number)
        site.run(later=HOUR)
    assert site.notices() == [LOSS]
    said = notice(site, LOSS)
    assert "40 -> 0 specs" in said
    assert "held for hpc/regular, hpc/urgent, ml" in said
    assert "cachewatch preview hpc" in said
    (release,) = re.findall(r"cachewatch (deliveries release .*?) cachewatch", said)
    path = site.folder / "cachewatch.yaml"
    assert run(*release.split(), "--config", path).exit_code == 0
    assert open_alerts(site) == []
    site.run(later=HOUR)
    assert site.notices() == [LOSS, SETTLED]
    assert [stored.state for stored in site.digests() if stored.subscription != "(operators)"] == ["released"] * 3


def test_a_loss_stays_open_until_the_last_digest_is_answered(site: Site) -> None:
    site.configure(CONFIG + "  hpc: {when: each revision, channels: [files]}\n")
    site.run()
    site.publish(1)
    site.run(later=HOUR)
    byhand.release(site.open(), "ml")
    assert open_alerts(site) == [("suspicious-loss", "public", "develop")]
    assert "hpc" in read_status(site.open()).alerts[0].detail
    byhand.drop_digest(site.open(), "hpc", "upstream repaired it")
    assert open_alerts(site) == []
    site.run(later=HOUR)
    assert site.notices() == [LOSS, SETTLED]


def test_a_held_digest_is_found_by_its_subscription(site: Site) -> None:
    both = "urgent: {changes: [removed, suspicious], channels: [files]}"
    site.configure(CONFIG.replace("files]}\n", f"files], {both}}}\n"))
    site.run()
    site.publish(1)
    site.run(later=HOUR)
    with pytest.raises(UsageError, match="ml has 2 held digests; name one of them: ml/regular, ml/urgent"):
        byhand.release(site.open(), "ml")
    assert byhand.release(site.open(), "ml/urgent").track == "urgent"
    assert byhand.release(site.open(), "ml").track == "regular"
    with pytest.raises(UsageError, match="there is no digest ml"):
        byhand.release(site.open(), "ml")


def test_the_daily_summary_lists_what_is_open(site: Site) -> None:
    """At eight in the morning where the configuration says, with since when and the latest sentence."""
    site.configure(CONFIG.replace("version: 1", "version: 1\ntimezone: America/New_York"))
    site.upstream.rename(site.folder / "away.git")
    for hour in (20, 21, 22):
        site.now = day(0, hour=hour)
        site.run()
    for number in (1, 2, 3):
        for hour in range(24):
            site.now = day(number, hour=hour)
            site.run()
    created = [stored.created for stored in site.digests() if stored.letter.title == "1 alert is open"]
    assert created == [day(number, hour=12) for number in (1, 2, 3)]
    (text, *_) = [stored.letter.text for stored in site.digests() if stored.letter.title == "1 alert is open"]
    said = re.sub(r"\s+", " ", text)
    assert "the source public cannot be read: since 2025-06-01 20:00 UTC" in said
    assert "away.git" not in said
    assert "cachewatch status" in said
    assert site.notices().count("the source public cannot be read") == 1


def test_a_time_that_lies_ahead_is_not_believed(site: Site) -> None:
    """A clock that was a month ahead for one pass keeps no summary away for a month, nor does it send a second one."""
    hidden = site.upstream.rename(site.folder / "away.git")
    site.run(later=timedelta(days=30))
    site.now -= timedelta(days=30)
    for _ in range(24):
        site.run(later=2 * HOUR)
    assert sorted(site.notices()) == ["1 alert is open", "1 alert is open", "the source public cannot be read"]
    assert read_status(site.open()).alerts[0].since <= site.now
    hidden.rename(site.upstream)
    site.run(later=HOUR)
    assert "the source public can be read again" in site.notices()


def test_a_report_of_what_is_open_changes_its_sentence_alone(site: Site) -> None:
    site.upstream.rename(site.folder / "away.git")
    site.run(later=HOUR)
    first = read_status(site.open()).alerts[0].detail
    (site.folder / "upstream.git").write_text("no repository")
    site.run(later=HOUR)
    assert site.notices() == ["the source public cannot be read"]
    assert read_status(site.open()).alerts[0].detail != first
