"""Alerts: operators are notified once when one opens and once when it is resolved, and daily of what is still open."""

import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, records
from mailservers import free_port, post
from msgspec.structs import replace
from readers import CONFIG as USUAL
from station import HOUR, Site, begun, day, notice, running, wait_for

from cachewatch.errors import UsageError
from cachewatch.operators import alerts_summary_actions
from cachewatch.operators.status_problems_explanations import read_status
from cachewatch.service.alerts_and_silent_sources import Alert, open_now
from cachewatch.service.context_and_source_copies import WatchedClone
from cachewatch.store import health_and_alerts as alerts
from cachewatch.store.health_and_alerts import AlertKey, AlertKind

WHOLE = {f"package-{number}": records(range(10 * number, 10 * number + 4)) for number in range(12)}
COMMITS, LEFT = 6, dict(list(WHOLE.items())[:2])
# All is well, most of it is lost in both tags, one package comes with each revision, and all is well again.
STATES = [
    catalogue(WHOLE) | catalogue(WHOLE, tag="v1.0"),
    *(catalogue(LEFT | {f"new-{number}": records([900]) for number in range(count)}) for count in range(COMMITS)),
    catalogue(WHOLE | {"last": records([999])}),
]

CONFIG = USUAL.replace("stale_after", "tags: [develop], stale_after").replace("[desk]}", "[desk], after_failures: 1}")
FILES = 'files: {type: file, path: "{folder}/out/{subscription}/{key}.txt", formats: [txt]}'
SMTP = "mail: {type: email, from: c@example.org, smtp: {host: 127.0.0.1, port: {port}, security: none}}"
MAIL = CONFIG.replace(FILES, SMTP).replace("channels: [files]}", "to: [kim@example.org], channels: [mail]}")
LOSS = "a suspicious loss in develop of public"
SETTLED = "no digest is held for a loss in develop of public"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return begun(tmp_path, STATES, CONFIG)


def mail(site: Site, text: str = MAIL, port: int | None = None) -> None:
    """Configure a site that sends mail, to a server that is not there unless `port` says so."""
    site.configure(text.replace("{port}", str(port or free_port())))


def open_alerts(site: Site) -> list[tuple[str, str, str]]:
    return [(alert.kind, alert.name, alert.part) for alert in read_status(site.open()).alerts]


def test_a_source_is_silent_only_after_it_was_watched(tmp_path: Path) -> None:
    """However old its newest revision was when it was fetched first, it has `stale_after` to publish another one."""
    made = Site(tmp_path, STATES, f"timezone: Asia/Tokyo\n{CONFIG.replace('400d', '4d')}")
    made.run(later=timedelta(days=540))
    made.run(later=timedelta(days=3))
    assert made.notices() == []
    made.run(later=timedelta(days=2))
    assert made.notices() == ["the source public has no news"]
    (alert,) = read_status(made.open()).alerts
    assert alert.detail.startswith("Nothing new published since 2025-06-01 13:00 JST (545 days")
    made.run(1, later=HOUR)
    assert "the source public has news again" in made.notices()


@pytest.mark.only_sqlite
def test_operators_hear_of_a_part_of_a_source_that_is_skipped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once when it begins and once when it ends; the rest of the source is told meanwhile."""
    update = WatchedClone.update
    problem = "v1.0 is held back: it has no specs."
    monkeypatch.setattr(WatchedClone, "update", lambda self: replace(update(self), problem=problem))
    site.run()
    site.run(later=HOUR)
    monkeypatch.undo()
    site.run(later=HOUR)
    assert site.notices() == ["a part of the source public was skipped", "the source public is complete again"]
    assert problem in " ".join(site.told("(operators)")[0].split())
    said = [event["title"] for event in site.events() if event["event"] in ("alert.opened", "alert.resolved")]
    assert said == site.notices()


@pytest.mark.slow
def test_a_loss_that_is_held_for_long_is_one_notice_and_a_summary_a_day(site: Site) -> None:
    """However many revisions come meanwhile, each with a held digest in the place of the one before."""
    site.configure(CONFIG.replace("files]}", "files], limit: {hold_for: never}}"))
    site.now = day(0, hour=9)
    for number in range(1, COMMITS + 1):
        site.run(number, later=8 * HOUR)
    assert site.notices() == [LOSS, "1 alert is open", "1 alert is open"]
    assert open_alerts(site) == [("suspicious-loss", "public", "develop")]
    site.run(COMMITS + 1, later=2 * HOUR)
    assert site.notices()[3:] == [SETTLED]
    assert "last" in site.told()[-1]
    site.run(later=timedelta(days=3))
    assert len(site.notices()) == 4
    assert open_alerts(site) == []


@pytest.mark.slow_cases
@pytest.mark.parametrize(("answer", "became"), [("release", "released"), ("drop", "dropped")])
def test_one_loss_is_one_notice_for_all_who_hold_it(site: Site, run: Run, answer: str, became: str) -> None:
    urgent = "{changes: [removed, suspicious], channels: [files]}"
    site.configure(CONFIG + f"  hpc: {{when: each revision, channels: [files], urgent: {urgent}}}\n")
    site.run()
    for number in (1, 2):
        site.run(number, later=HOUR / 2)
    assert site.notices() == [LOSS]
    said = notice(site, LOSS)
    (opened,) = [event for event in site.events() if event["event"] == "alert.opened"]
    assert (opened["kind"], opened["name"], opened["part"]) == ("suspicious-loss", "public", "develop")
    assert "10 of 12 packages are missing" in said
    assert "held for hpc/regular, hpc/urgent, ml" in said
    assert re.search(
        r"is sent at 2025-\S+ \S+ UTC for hpc/urgent, at 2025-\S+ \S+ UTC for hpc/regular, ml, marked", said
    )
    assert "cachewatch preview hpc" in said
    (command,) = re.findall(rf"cachewatch (deliveries {answer} .*?) (?:cachewatch|---)", said)
    assert run(*shlex.split(command), "--config", site.file).exit_code == 0
    assert open_alerts(site) == []
    site.run(later=HOUR)
    assert site.notices() == [LOSS, SETTLED]
    assert f"The last digest that was held for it, of ml/regular, was {became}" in notice(site, SETTLED)
    with site.open().database.read() as connection:
        answered = "SELECT subscription, state FROM digests WHERE state IN ('released', 'dropped') ORDER BY 1"
        assert connection.exec_driver_sql(answered).fetchall() == [(name, became) for name in ("hpc", "hpc", "ml")]


def test_operators_are_notified_once_of_hashes_that_name_other_specs(tmp_path: Path) -> None:
    """Two subscriptions tell their readers what changed, with a line about the hashes; operators get one notice."""
    whole = {"zlib": records(range(3)), "hdf5": records(range(10, 14))}
    states = [catalogue(whole), catalogue(whole | {"zlib": records(range(3), versions=["2.0"])})]
    site = begun(tmp_path, states, CONFIG + "  hpc: {when: each revision, changes: [all], channels: [files]}\n")
    site.run(1, later=HOUR)
    site.run(later=HOUR)

    title = "published hashes of develop in public now name other specs"
    assert site.notices() == [title]
    (notice,) = (stored.rendered.text for stored in site.digests() if stored.rendered.title == title)
    line = "reused-hash: 3 hashes now name another spec, first aaaaaaa: version 1.0, now 2.0"
    assert "develop/zlib/specs.md: 3 hashes now name another spec" in " ".join(notice.split())
    for subscription in ("ml", "hpc"):
        (text,) = site.told(subscription)
        assert line in " ".join(text.split())
        assert "1 warning about documents:" in text
        assert "1.0 -> 2.0" in text


def test_a_held_digest_is_found_by_its_subscription(site: Site) -> None:
    both = "urgent: {changes: [removed, suspicious], channels: [files]}"
    site.configure(CONFIG.replace("files]}\n", f"files], {both}}}\n"))
    site.run()
    site.run(1, later=HOUR)
    with pytest.raises(UsageError, match="ml has 2 held digests; name one of them: ml/regular, ml/urgent"):
        alerts_summary_actions.release(site.open(), "ml")
    assert alerts_summary_actions.release(site.open(), "ml/urgent").stream == "urgent"
    assert alerts_summary_actions.release(site.open(), "ml").stream == "regular"
    with pytest.raises(UsageError, match="ml: no held digest has this subscription or key"):
        alerts_summary_actions.release(site.open(), "ml")


@pytest.mark.slow
def test_the_daily_summary_lists_what_is_open(site: Site) -> None:
    """At eight in the morning where the configuration says, with since when and the latest sentence."""
    site.configure(CONFIG.replace("version: 1", "version: 1\ntimezone: America/New_York"))
    site.upstream.rename(site.folder / "away.git")
    for hour in (20, 21, 22):
        site.run(at=day(0, hour=hour))
    for number in (1, 2, 3):
        for hour in (0, 4, 11, 12, 13, 20, 23):
            site.run(at=day(number, hour=hour))
    created = [stored.created for stored in site.digests() if stored.rendered.title == "1 alert is open"]
    assert created == [day(number, hour=12) for number in (1, 2, 3)]
    (text, *_) = [stored.rendered.text for stored in site.digests() if stored.rendered.title == "1 alert is open"]
    said = re.sub(r"\s+", " ", text)
    assert "the source public cannot be read: since 2025-06-01 16:00 EDT" in said
    assert "Written 2 June 2025 08:00 EDT by cachewatch" in said
    assert "away.git" not in said
    assert "cachewatch status" in said
    assert site.notices().count("the source public cannot be read") == 1


@pytest.mark.slow
def test_a_suppressed_address_is_an_alert_until_it_is_restored(tmp_path: Path, loopback: None) -> None:
    """Also if operators know already that a digest could not be delivered to it."""
    site = Site(tmp_path, [catalogue({"zlib": records(range(4 + number))}) for number in range(6)])
    with post(by_recipient={"kim@example.org": "550 5.1.1 no such user"}) as server:
        mail(site, port=server.port)
        for number in range(4):
            site.run(number, later=timedelta(days=2))
        titles = [title for title in site.notices() if "open" not in title]
        gone = ["a digest could not be delivered to kim@example.org", "kim@example.org receives no more digests"]
        assert titles == gone, "in the pass of the third refusal"
        site.run(4, later=timedelta(minutes=10))
        assert [title for title in site.notices() if "open" not in title] == titles
        said = notice(site, "kim@example.org receives no more digests")
        assert "550 5.1.1 no such user" in said
        assert "cachewatch deliveries restore mail kim@example.org" in said
        assert open_alerts(site) == [("address-suppressed", "mail", "kim@example.org")]
        server.by_recipient = {}
        alerts_summary_actions.restore(site.open(), "mail", "kim@example.org")
        assert open_alerts(site) == []
        site.run(5, later=HOUR)
    assert site.notices()[-1] == "kim@example.org receives digests again"
    assert server.received[-1].recipient == "kim@example.org"


def test_alerts_that_nothing_can_resolve_are_closed(site: Site) -> None:
    """Their source, channel or subscription is gone, or nothing is held or waits that they could be about."""
    keys = [
        *(AlertKey(kind, "public") for kind in (AlertKind.SOURCE_FAILED, AlertKind.SOURCE_INCOMPLETE)),
        *(AlertKey(kind, "public") for kind in (AlertKind.SOURCE_STALE, AlertKind.SOURCE_LATE)),
        AlertKey(AlertKind.DOCUMENTS_UNREADABLE, "public", "develop"),
        AlertKey(AlertKind.SUSPICIOUS_LOSS, "public", "develop"),
        AlertKey(AlertKind.LARGE_CHANGE, "public", "develop"),
        AlertKey(AlertKind.DIGEST_FAILED, "ml", "regular"),
        AlertKey(AlertKind.TEMPLATE_FAILED, "ml"),
        AlertKey(AlertKind.CHANNEL_DOWN, "unused"),
        AlertKey(AlertKind.CHANNEL_DOWN, "files"),
        AlertKey(AlertKind.DELIVERY_FAILED, "files", "/out/1.txt"),
        AlertKey(AlertKind.ADDRESS_SUPPRESSED, "mail", "kim@example.org"),
        AlertKey(AlertKind.WORK_FAILED, "public", "maintenance"),
    ]
    unused = '  unused: {type: file, path: "{folder}/x/{subscription}/{key}.txt", formats: [txt]}\n'
    text = CONFIG.replace("operators:", f"{unused}operators:")
    for name in ("public:", "files", "ml:"):
        text = text.replace(name, name.replace(name.strip(":"), f"other-{name.strip(':')}"))
    site.configure(text)
    with site.open().database.write() as connection:
        for key in keys:
            alerts.put_alert(connection, key, "something happened", "", site.now)
    site.run()
    assert open_alerts(site) == []
    assert site.notices().count("closed: something happened") > len(keys) / 2


def test_no_summaries_pile_up_for_a_channel_that_is_down(tmp_path: Path, loopback: None) -> None:
    """Where operators have another channel it goes there; else one is made when theirs works again."""
    site = Site(tmp_path, STATES)
    mail(site, MAIL.replace("channels: [desk]", "to: [ops@example.org], channels: [mail]"))
    site.run()
    open_now(site.open(), Alert(key=AlertKey(AlertKind.CHANNEL_DOWN, "mail"), title="the channel mail does not work"))
    for _ in range(4):
        site.run(later=timedelta(days=1))
    assert site.notices() == ["the channel mail does not work"]
    mail(site, MAIL.replace("channels: [desk]", "to: [ops@example.org], channels: [mail, desk]"))
    site.run()
    assert site.notices()[1:] == ["1 alert is open"]
    assert [each.channel for each in site.deliveries()] == ["mail", "desk"]


def test_the_daemon_summarizes_too(site: Site) -> None:
    site.configure(CONFIG.replace("400d", "30000d"))  # or that is another alert, sooner or later than the summary
    key = AlertKey(AlertKind.TEMPLATE_FAILED, "ml")
    with site.open().database.write() as connection:
        long_ago = datetime.now(UTC) - timedelta(days=3)
        alerts.put_alert(connection, key, "a template for ml is wrong", "line 2", long_ago)
        alerts.note_notified(connection, key, long_ago)
    with running(site, "daemon"):
        wait_for(lambda: "1 alert is open" in site.notices())
    assert site.notices().count("1 alert is open") == 1
