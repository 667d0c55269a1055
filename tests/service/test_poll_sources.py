"""Sources are polled side by side: what stops one poll stops no other, and no result is lost."""

from pathlib import Path

import pytest
from helpers import catalogue, records
from sqlite_files import opened
from station import Site

from cachewatch.errors import StateError
from cachewatch.service.watched import News, WatchedClone

CONFIG = """\
version: 1
state: {folder}/state
sources:
  good: {git: {folder}/upstream.git, stale_after: 4000d}
  bad: {git: {folder}/upstream.git, stale_after: 4000d}
channels: {files: {type: file, path: "{folder}/out/{subscription}/{key}.{ext}", formats: [txt]}}
operators: {channels: []}
subscriptions:
  ml: {channels: [files], changes: [all], match: {sources: [good]}}
  theirs: {channels: [files], changes: [all], match: {sources: [bad]}}
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Upstream adds a package after the first pass; both sources are that one."""
    base = {"zlib": records([1])}
    made = Site(tmp_path, [catalogue(base), catalogue(base | {"new": records([2])})])
    made.configure(CONFIG)
    assert made.run().failed_sources == 0
    made.publish(1)
    return made


def told(site: Site) -> list[str]:
    """Name the subscriptions whose digests arrived."""
    return sorted(path.parent.name for path in (site.folder / "out").glob("*/*"))


@pytest.mark.slow
@pytest.mark.only_sqlite
def test_a_result_that_cannot_be_stored_stops_no_other_poll(site: Site) -> None:
    """The pass ends with the error when all else is done; the next one goes on from there."""
    with opened(site.folder / "state" / "cachewatch.db") as connection:
        connection.execute(
            "CREATE TRIGGER jam BEFORE UPDATE ON sources WHEN new.name = 'bad' BEGIN SELECT raise(ABORT, 'jam'); END"
        )
    with pytest.raises(StateError, match="jam"):
        site.run()
    assert told(site) == ["ml"]
    with opened(site.folder / "state" / "cachewatch.db") as connection:
        connection.execute("DROP TRIGGER jam")
    assert site.run().failed_sources == 0
    assert told(site) == ["ml", "theirs"]


@pytest.mark.slow
def test_a_bug_met_in_one_source_stops_no_other(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as a failure of that source, and says what it was."""
    update = WatchedClone.update

    def fail(self: WatchedClone) -> News:
        if self._mirror.folder.name == "bad.git":
            raise ZeroDivisionError("a bug")
        return update(self)

    with monkeypatch.context() as context:
        context.setattr(WatchedClone, "update", fail)
        assert site.run().failed_sources == 1
    assert told(site) == ["ml"]
    (failed,) = [event for event in site.events() if event["event"] == "source.failed"]
    assert (failed["source"], "ZeroDivisionError('a bug')" in failed["error"]) == ("bad", True)
    assert site.run().failed_sources == 0
    assert told(site) == ["ml", "theirs"]
