"""The crash tests run apart and take minutes; that a named place was renamed shows here, in a second."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from crash.points import POINTS
from helpers import catalogue, records
from station import Site

from cachewatch.service.passes import run_pass
from cachewatch.service.recover import resume

CONFIG = """\
version: 1
state: {folder}/state
sources: {public: {git: {folder}/upstream.git, stale_after: 400d}}
channels:
  files: {type: file, path: "{folder}/out/{subscription}/{period}.{ext}", formats: [txt]}
subscriptions:
  ml:
    channels: [files]
    changes: [all]
"""


def test_a_pass_goes_through_every_place_where_it_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, [catalogue({"zlib": records([1])}), catalogue({"zlib": records([2])})])
    site.configure(CONFIG)
    site.run()
    site.publish(1)

    passed: set[str] = set()
    for point, (holder, name, _) in POINTS.items():
        monkeypatch.setattr(holder, name, _noting(getattr(holder, name), point, passed))
    context = site.open()
    with closing(context.database):
        resume(context)
        run_pass(context)

    assert sorted(POINTS.keys() - passed) == []


def _noting(function: Any, point: str, passed: set[str]) -> Any:
    def wrapper(*arguments: Any, **options: Any) -> Any:
        passed.add(point)
        return function(*arguments, **options)

    return wrapper
