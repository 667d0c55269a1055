"""Commits with dates that no calendar holds: they are compared like any other, and the date is named."""

from datetime import timedelta
from pathlib import Path

import pytest
import readers
from conftest import Run
from helpers import START, catalogue, commit, records
from station import Site, begun

from cachewatch.operators.status_problems_explanations import read_status

YEAR_10000 = 253402300800
BASE = {"zlib": records([1])}
CONFIG = readers.CONFIG.replace("version: 1", "version: 1\ntimezone: Pacific/Auckland").replace("400d", "4d")
CONFIG = CONFIG.replace('{key}.txt", formats: [txt]', '{key}.{ext}", formats: [txt, json]', 1)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return begun(tmp_path, [catalogue(BASE)], CONFIG)


def publish(site: Site, seconds: float, package: str) -> None:
    """Let upstream have a revision of this date."""
    commit(site.upstream, catalogue({package: records([len(package) + 10])}), seconds)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [YEAR_10000, 2**62])
def test_a_revision_of_the_year_10000_is_reported_and_its_date_is_named(site: Site, seconds: int) -> None:
    publish(site, seconds, "new-package")
    assert site.run(later=timedelta(hours=1)).failed_digests == 0
    publish(site, START.timestamp() + 86400, "next")
    assert site.run(later=timedelta(hours=1)).failed_digests == 0
    first, second = (" ".join(text.split()) for text in site.told())
    assert "new-package" in first
    assert "has an impossible date, which is shown as 30 December 9999" in first
    assert "next" in second
    assert site.notices() == []


def test_a_source_with_an_impossible_date_may_still_become_silent(site: Site) -> None:
    """How old its newest data is, is then counted from when it was first seen."""
    publish(site, YEAR_10000, "new-package")
    site.run(later=timedelta(hours=1))
    site.run(later=timedelta(days=5))
    assert [alert.kind for alert in read_status(site.open()).alerts] == ["source-stale"]


def test_a_diff_shows_the_nearest_date_that_there_is(site: Site, run: Run) -> None:
    publish(site, YEAR_10000, "new-package")
    done = run("diff", "main~1", "main", "--repo", site.upstream)
    assert done.exit_code in (0, 1)
    assert "30 Dec 9999" in done.output
