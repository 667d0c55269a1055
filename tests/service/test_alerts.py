"""Alerts: operators are notified once when one opens and once when it is resolved, and daily of what is still open."""

from datetime import timedelta
from pathlib import Path

import pytest
from helpers import catalogue, records
from station import Site

from cachewatch.errors import StateError

CONFIG = """\
version: 1
state: {folder}/state
sources: {public: {git: "{folder}/upstream.git"}}
channels:
  files: {type: file, path: "{folder}/out/{subscription}/{key}.txt", formats: [txt]}
  desk: {type: file, path: "{folder}/desk/{subscription}/{key}.txt", formats: [txt]}
operators: {channels: [desk], after_failures: 1}
subscriptions:
  ml: {when: each revision, changes: [all], channels: [files]}
"""
HOUR = timedelta(hours=1)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    states = [
        catalogue({"zlib": records(range(4)), **({"cmake": records(range(10, 12))} if more else {})}) for more in (0, 1)
    ]
    made = Site(tmp_path, states)
    made.configure(CONFIG)
    return made


def logged(site: Site, prefix: str) -> list[str]:
    """Return the names of logged events that begin so."""
    return [event["event"] for event in site.events() if event["event"].startswith(prefix)]


def test_what_was_rolled_back_is_not_logged(site: Site) -> None:
    """The notice could not be stored, so nobody was notified; it is stored and logged when there is room again."""
    site.run()
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
