"""Held digests: readers get what no operator answers in time, marked as such; operators are asked once about each event."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from helpers import Packages, Record, catalogue, record, records
from readers import CONFIG as USUAL
from station import DAY, HOUR, Site, begun, day, notice

from cachewatch.operators import alerts_summary_actions
from cachewatch.operators.status_problems_explanations import HeldDigestStatus, read_status
from cachewatch.service import deciding_and_storing, digest_assembly_and_hold_times

BANNER = "not confirmed by the operators"
LOSS, LARGE = "a suspicious loss in develop of public", "a large change in develop of public"

WHOLE: Packages = {f"package-{number}": records(range(10 * number, 10 * number + 4)) for number in range(12)}
FEW: Packages = dict(list(WHOLE.items())[:2])


def few(count: int, **packages: list[Record]) -> dict[str, bytes]:
    """Return what is left of the catalogue, and so many new packages."""
    return catalogue(FEW | {f"new-{number}": [record(900 + number)] for number in range(count)} | packages)


# All is well, most is lost, more comes to what is left, and all is well again.
STATES = [catalogue(WHOLE), *(few(count) for count in range(6)), catalogue(WHOLE | {"last": [record(999)]})]
AGAIN = len(STATES) - 1

FORMS = '{key}.{ext}", formats: [txt, html, md, json]}'
CONFIG = USUAL.replace('{key}.txt", formats: [txt]}', FORMS, 1)


def limited(limit: str) -> str:
    return CONFIG.replace("files]}", f"files], limit: {{{limit}}}}}")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site that was told of everything; the next revision has lost most."""
    return begun(tmp_path, STATES, CONFIG)


def status_of(site: Site, subscription: str = "ml") -> HeldDigestStatus:
    (found,) = [each for each in read_status(site.open()).held if each.subscription == subscription]
    return found


def texts(site: Site, subscription: str = "ml") -> list[str]:
    """Return what readers of a subscription were told, each in one line."""
    return [" ".join(text.split()) for text in site.told(subscription)]


@pytest.mark.both_states
@pytest.mark.slow
def test_readers_get_after_a_day_what_nobody_answers(site: Site, run: Run) -> None:
    """In every form, and once: it is what they were told last."""
    site.run(1)
    begin = site.now
    assert status_of(site).goes_out_at == begin + DAY
    site.run(later=23 * HOUR)
    assert site.told() == []
    status = run("status", "--config", site.folder / "cachewatch.yaml").output
    assert "ml  once released: missing, confirmed" in status
    assert "sent 2025-06-02 05:00 UTC" in status
    site.run(later=HOUR)
    (stored,) = [stored for stored in site.digests() if stored.subscription == "ml"]
    for text in (stored.rendered.text, stored.rendered.html, stored.rendered.markdown, stored.rendered.json.decode()):
        assert BANNER in " ".join(text.split())
    assert "10 of 12 packages are missing" in stored.rendered.title
    assert site.held() == []
    assert len(list((site.folder / "out" / "ml").iterdir())) == 4
    assert site.notices() == [LOSS, "no digest is held for a loss in develop of public"]
    assert "A newer digest took the place of what was held:" in notice(site, site.notices()[1])
    site.run(3, later=HOUR)
    (_, later) = texts(site)
    assert BANNER not in later
    assert "new-1" in later
    assert "package-7" not in later


@pytest.mark.slow
def test_operators_read_what_a_loss_took(tmp_path: Path) -> None:
    """What happened to the whole tag, and which packages are gone; not once more that it is suspicious."""
    whole: Packages = {f"p{n:02}": [record(n, stacks=["ml"] if n > 1 else ["e4s"])] for n in range(12)}
    site = begun(tmp_path, [catalogue(whole), catalogue(dict(list(whole.items())[:2]))], CONFIG)
    site.run(1)
    loss = "Stack ml was removed (the catalogue does not say why); 10 packages are gone."
    assert f"held for ml. {loss} 10 packages gone: p02, p03, " in notice(site, LOSS)


@pytest.mark.slow
def test_never_is_never(site: Site, run: Run) -> None:
    site.configure(limited("hold_for: never"))
    site.run(1)
    site.run(later=10 * DAY)
    assert site.told() == []
    assert status_of(site).goes_out_at is None
    shown = run("status", "--config", site.folder / "cachewatch.yaml").output
    assert "not sent until it is released or dropped" in shown
    assert "Nothing is sent until somebody releases or drops it." in notice(site, LOSS)


@pytest.mark.both_states
@pytest.mark.slow
def test_what_happens_again_is_held_anew(site: Site) -> None:
    site.run(1)
    site.run(AGAIN, later=20 * HOUR)
    site.run(2)
    begin = site.now
    assert status_of(site).goes_out_at == begin + DAY
    site.run(later=10 * HOUR)
    assert all("package-7" not in text for text in texts(site))


BOTH = catalogue(WHOLE) | catalogue(WHOLE, tag="v1.0")
FIRST, SECOND = catalogue(FEW) | catalogue(WHOLE, tag="v1.0"), catalogue(FEW) | catalogue(FEW, tag="v1.0")
LOST = {tag: f"a suspicious loss in {tag} of public" for tag in ("develop", "v1.0")}


def two_losses(tmp_path: Path, *more: dict[str, bytes], text: str = CONFIG) -> Site:
    """Return a site that holds a loss in develop since 10 hours, and one in v1.0 since now."""
    site = begun(tmp_path, [BOTH, FIRST, SECOND, *more], text)
    site.run(1)
    site.run(2, later=10 * HOUR)
    return site


@pytest.mark.both_states
@pytest.mark.slow
def test_the_first_hold_decides_when_readers_get_it(tmp_path: Path) -> None:
    """The newer event alone stays, until its own time; neither promise moves, and each change is told once."""
    site = two_losses(tmp_path)
    begin = site.now - 10 * HOUR
    assert (status_of(site).since, status_of(site).goes_out_at) == (begin, begin + DAY)
    assert site.notices() == list(LOST.values())
    assert "is sent at 2025-06-02 05:00 UTC" in notice(site, LOST["develop"])
    assert "is sent at 2025-06-02 15:00 UTC" in notice(site, LOST["v1.0"])
    site.run(later=14 * HOUR)
    (text,) = texts(site)
    assert BANNER in text
    assert "v1.0" not in text.partition("You receive")[0].replace("package", "")
    assert (status_of(site).since, status_of(site).goes_out_at) == (begin + 10 * HOUR, begin + 10 * HOUR + DAY)
    assert site.notices()[2:] == ["no digest is held for a loss in develop of public"]
    site.run(later=HOUR)
    assert len(site.told()) == 1
    site.run(later=9 * HOUR)
    _, second = texts(site)
    assert BANNER in second
    assert "v1.0" in second
    assert site.held() == []
    site.run(later=HOUR)
    assert len(site.told()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["release", "drop"])
def test_what_stays_held_is_answered_by_itself(tmp_path: Path, answer: str) -> None:
    site = two_losses(tmp_path, SECOND | few(1))
    site.run(later=14 * HOUR)
    if answer == "release":
        alerts_summary_actions.release(site.open(), "ml")
    else:
        alerts_summary_actions.drop_digest(site.open(), "ml", "a test of theirs")
    site.run(later=HOUR)
    assert len(site.told()) == (2 if answer == "release" else 1)
    site.run(3, later=HOUR)
    assert "new-0" in texts(site)[-1]
    assert "package-7" not in texts(site)[-1]


@pytest.mark.slow
def test_a_weekly_digest_goes_out_a_day_after_its_slot(site: Site) -> None:
    """With what there is by then."""
    site.configure(CONFIG.replace("each revision", "weekly mon 07:30"))
    site.run()
    site.run(1, at=day(1, hour=8))  # a Monday
    assert status_of(site).goes_out_at == day(2, hour=8)
    site.run(3)
    site.run(later=DAY)
    (text,) = texts(site)
    assert BANNER in text
    assert "new-1" in text
    site.run(4, later=5 * DAY)
    site.run(later=DAY)
    assert "new-2" in texts(site)[-1]


@pytest.mark.slow
def test_a_quiet_time_is_not_ended(site: Site) -> None:
    site.configure(CONFIG + "quiet: [{from: 2025-06-02, to: 2025-06-03}]\n")
    site.run(1)
    site.run(later=30 * HOUR)
    assert site.told() == []
    site.run(at=day(3, hour=1))
    assert BANNER in texts(site)[0]


@pytest.mark.slow
@pytest.mark.parametrize("changes", ["removed", "suspicious"])
def test_urgent_digests_are_held_for_an_hour(site: Site, changes: str) -> None:
    """Of a suspicious loss, whichever kinds are urgent."""
    urgent = f"urgent: {{changes: [{changes}], channels: [files]}}"
    site.configure(CONFIG.replace("files]}\n", f"files], {urgent}}}\n"))
    site.run()
    site.run(1)
    assert {each.stream for each in site.held()} == {"regular", "urgent"}
    assert site.told() == []
    for _ in range(4):
        assert site.told() == []
        site.run(later=HOUR / 4)
    (text,) = texts(site)
    assert BANNER in text
    assert [each.stream for each in site.held()] == ["regular"]


def test_a_loss_is_judged_on_the_whole_tag(tmp_path: Path) -> None:
    """Whoever selects something of it waits, whatever they select, until it is as usual again; nobody else does."""
    kept = WHOLE["package-0"]
    some = [record(900, stacks=["ml"]), record(901, stacks=["e4s"])]
    before = catalogue(WHOLE | {"some": some, "zlib": [record(950)]})
    after = catalogue({"package-0": kept, "some": some[1:], "zlib": [record(951, versions=["1.1"])]})
    site = Site(tmp_path, [before, after, before | catalogue({"last": [record(999)]})])
    names = {"one": "{packages: [package-7]}", "upgrades": "{packages: [zlib]}", "kept": "{packages: [package-0]}"}
    selections = {"ml": "{}", "stack": "{stacks: [ml]}"} | names
    line = "  {}: {{when: each revision, changes: [default], channels: [files], match: {}}}\n"
    more = "".join(line.format(name, match) for name, match in selections.items())
    site.configure(CONFIG.partition("  ml: ")[0] + more)
    site.run()
    site.run(1)
    assert {each.subscription for each in site.held()} == {"ml", "one", "upgrades", "stack"}
    assert site.notices() == [LOSS]
    assert [site.told(name) for name in selections] == [[]] * 5
    site.run(2)
    assert site.held() == []
    assert [len(site.told(name)) for name in selections] == [1, 0, 0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("later", [HOUR, 5 * DAY])
def test_what_comes_back_is_no_news(site: Site, later: timedelta) -> None:
    """Also to those who hear of no other losses, be it before operators had to answer or long after."""
    line = "  {}: {{when: each revision, changes: [added], channels: [files], match: {}}}\n"
    more = line.format("all", "{}") + line.format("one", "{packages: [package-7]}")
    site.configure(CONFIG + more)
    site.run()
    site.run(1)
    assert {each.subscription for each in site.held()} == {"ml", "all", "one"}
    site.run(later=later)
    site.run(AGAIN)
    assert len(site.told("one")) == (later > DAY)  # that much is missing
    (text,) = [text for text in texts(site, "all") if BANNER not in text]
    assert "NEW last" in text
    assert "package-7" not in text


@pytest.mark.slow
def test_an_answer_that_comes_while_a_digest_is_made_counts(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest that would have gone out without it is left; readers get what was released, and once."""
    site.run(1)
    site.now += DAY
    real = digest_assembly_and_hold_times.pack_messages

    def answer(*arguments: Any) -> object:
        monkeypatch.setattr(deciding_and_storing, "pack_messages", real)
        alerts_summary_actions.release(site.open(), "ml")
        return real(*arguments)

    monkeypatch.setattr(deciding_and_storing, "pack_messages", answer)
    site.run()
    site.run(later=HOUR)
    (text,) = texts(site)
    assert BANNER not in text


def test_a_subscription_with_another_name_waits_no_longer(site: Site) -> None:
    site.run(1)
    begin = site.now
    site.now += 20 * HOUR
    site.configure(CONFIG.replace("  ml: {", "  hpc: {renamed_from: ml, "))
    site.run()
    assert status_of(site, "hpc").goes_out_at == begin + DAY


def test_a_large_change_is_one_notice_for_all_who_hold_it(tmp_path: Path) -> None:
    """It says what happened, for whom it is held, and when they get it."""
    gone = {"zlib": records(range(4)), "hdf5": records(range(10, 40)), "kept": records([50])}
    site = Site(tmp_path, [catalogue(gone), catalogue({"zlib": records(range(4)), "kept": records([50])}), STATES[0]])
    limit = "files], limit: {hold_above: 1}}\n"
    more = "  hpc: {when: each revision, changes: [all], channels: [files], limit: {hold_above: 2, hold_for: never}}\n"
    zone = "version: 1\ntimezone: Europe/Berlin"
    site.configure(CONFIG.replace("version: 1", zone).replace("files]}\n", limit) + more)
    site.run()
    site.run(1)
    assert site.notices() == [LARGE]
    said = notice(site, LARGE)
    assert "held for hpc, ml" in said
    assert "1 package gone: hdf5" in said
    assert (
        "What nobody drops is sent at 2025-06-02 07:00 CEST for ml, marked as not confirmed by the operators." in said
    )
    assert "Nothing is sent for hpc until somebody releases or drops it." in said
    assert "cachewatch deliveries release hpc ml" in said
    alerts_summary_actions.release(site.open(), "ml")
    assert [alert.name for alert in read_status(site.open()).alerts] == ["public"]
    alerts_summary_actions.release(site.open(), "hpc")
    assert read_status(site.open()).alerts == ()
