"""`history:`: the index follows each poll, and whatever happens to it happens to nothing else."""

from datetime import timedelta
from pathlib import Path

import pytest
from helpers import catalogue, records
from indexes import dump
from station import Site

from cachewatch.extensions.history.schema_and_location import NAME

DAY = timedelta(days=1)
CONFIG = """\
version: 1
state: {folder}/state
sources: {public: {git: {folder}/upstream.git, stale_after: 4000d}}
history: {sources: public}
channels:
  files: {type: file, path: "{folder}/out/{subscription}/{key}.{ext}", formats: [txt]}
subscriptions:
  ml: {channels: [files], changes: [all]}
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, [catalogue({"zlib": records(range(n, n + 3))}) for n in range(4)], CONFIG)


def _index(site: Site) -> Path:
    return site.folder / "state/sources/public.git" / NAME


@pytest.mark.slow
def test_a_damaged_index_keeps_no_digest_back_and_is_built_again(site: Site) -> None:
    site.run()
    whole = _index(site).read_bytes()
    # The header, and so the kind of file, is left.
    _index(site).write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    site.run(1, later=DAY)
    (line,) = [event for event in site.events() if event["event"] == "history.failed"]
    assert "malformed" in str(line["error"])
    assert len(site.told()) == 1
    site.run(later=DAY)
    assert dump(_index(site))["progress"] == [(1,)]
