"""A digest says where a source published nothing for longer than usual, which is learnt; impossible dates are named."""

import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import readers
from conftest import Run
from helpers import START, catalogue, commit, records
from station import Site, begun

from cachewatch.operators.status_problems_explanations import read_status

DAY, WEEK = timedelta(days=1), timedelta(weeks=1)
GAP = re.compile(r"The revision of \d+ \w+ 20\d\d was the first since \d+ \w+ 20\d\d\.")

CONFIG = readers.CONFIG.replace(", stale_after: 400d", "").replace("each revision", "weekly sun 07:30")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, [catalogue({"zlib": records(range(3))})], CONFIG)


def weekly_mails(site: Site, times: list[datetime]) -> list[str]:
    """Publish at these times, make a pass each Sunday, and return what readers were told, each in a line."""
    waiting, end = list(enumerate(times, 1)), times[-1] + WEEK
    site.now = START.replace(hour=7, minute=30)
    while site.now < end:
        while waiting and waiting[0][1] <= site.now:
            number, at = waiting.pop(0)
            commit(site.upstream, catalogue({"zlib": records(range(3 + number))}), at.timestamp())
        site.run()
        site.now += WEEK
    return [" ".join(text.split()) for text in site.told()]


@pytest.mark.slow
def test_a_month_without_news_is_a_gap_where_it_is_published_weekly(site: Site) -> None:
    """Mails say nothing of gaps before, nor of their age, though it is more than `stale_after` when they are made."""
    weeks = [START + number * WEEK - 2 * DAY for number in range(1, 10)]
    *mails, last = weekly_mails(site, [*weeks, weeks[-1] + 4 * WEEK])
    assert GAP.search(last)
    assert len(mails) >= 8
    assert not [text for text in mails if GAP.search(text) or "nothing new published" in text]


@pytest.mark.slow
@pytest.mark.nightly
def test_ten_days_without_news_are_a_gap_where_it_is_published_daily(site: Site) -> None:
    days = [START + number * DAY for number in range(1, 20)]
    mails = weekly_mails(site, [*days, days[-1] + 10 * DAY])
    assert GAP.search(mails[-1])
    assert not [text for text in mails[:-1] if GAP.search(text)]


YEAR_10000, BASE = 253402300800, {"zlib": records([1])}
FAR_CONFIG = readers.CONFIG.replace("version: 1", "version: 1\ntimezone: Pacific/Auckland").replace("400d", "4d")
FAR_CONFIG = FAR_CONFIG.replace('{key}.txt", formats: [txt]', '{key}.{ext}", formats: [txt, json]', 1)


@pytest.fixture
def far(tmp_path: Path) -> Site:
    return begun(tmp_path, [catalogue(BASE)], FAR_CONFIG)


def publish(site: Site, seconds: float, package: str) -> None:
    """Let upstream have a revision of this date."""
    commit(site.upstream, catalogue({package: records([len(package) + 10])}), seconds)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [YEAR_10000, 2**62])
def test_a_revision_of_the_year_10000_is_reported_and_its_date_is_named(far: Site, seconds: int) -> None:
    publish(far, seconds, "new-package")
    assert far.run(later=timedelta(hours=1)).failed_digests == 0
    publish(far, START.timestamp() + 86400, "next")
    assert far.run(later=timedelta(hours=1)).failed_digests == 0
    first, second = (" ".join(text.split()) for text in far.told())
    assert "new-package" in first
    assert "has an impossible date, which is shown as 30 December 9999" in first
    assert "next" in second
    assert far.notices() == []


def test_a_source_with_an_impossible_date_may_still_become_silent(far: Site) -> None:
    """How old its newest data is, is then counted from when it was first seen."""
    publish(far, YEAR_10000, "new-package")
    far.run(later=timedelta(hours=1))
    far.run(later=timedelta(days=5))
    assert [alert.kind for alert in read_status(far.open()).alerts] == ["source-stale"]


def test_a_diff_shows_the_nearest_date_that_there_is(far: Site, run: Run) -> None:
    publish(far, YEAR_10000, "new-package")
    done = run("diff", "main~1", "main", "--repo", far.upstream)
    assert done.exit_code in (0, 1)
    assert "30 Dec 9999" in done.output
