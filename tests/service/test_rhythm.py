"""A digest says where a source published nothing for longer than it usually does: its rhythm is learnt, not configured."""

import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import readers
from helpers import START, catalogue, commit, records
from station import Site

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
