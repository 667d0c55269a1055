"""The figures of the service: each series says what its name says."""

from datetime import timedelta
from pathlib import Path

import pytest
from helpers import catalogue, records
from station import Site

from cachewatch.daemon.monitor import DaemonStatus, Sample, metrics
from cachewatch.store.health import AlertKind

CONFIG = """\
version: 1
state: {folder}/state
sources:
  public: {git: "{folder}/upstream.git", stale_after: 4000d}
  away: {git: "{folder}/nowhere.git", stale_after: 4000d}
channels:
  files: {type: file, path: "{folder}/out/{subscription}/{key}.txt", formats: [txt]}
operators: {channels: [files], after_failures: 1}
subscriptions:
  ml: {channels: [files], match: {sources: [public]}, changes: [all], when: each revision}
  nightly: {channels: [files], match: {sources: [public]}, changes: [all], when: daily 07:30}
"""
DAEMON = DaemonStatus(tick=7.0, job_failures={"polls": 2}, failing_jobs=1)


@pytest.fixture
def samples(tmp_path: Path) -> list[Sample]:
    """Return the figures after a revision was reported, and a source failed."""
    site = Site(tmp_path, [catalogue({"zlib": records([1])}), catalogue({"zlib": records([1, 2])})])
    site.configure(CONFIG)
    site.run()
    site.publish(1)
    site.run(later=timedelta(days=1))
    return metrics(site.open(), DAEMON)


def value(samples: list[Sample], name: str, **labels: str) -> float:
    (found,) = [value for each, of, value in samples if each == name and dict(of) == labels]
    return found


def test_what_the_figures_say(samples: list[Sample]) -> None:
    """One source was read and one failed; one digest was delivered, with two notices beside it."""
    assert {kind: value(samples, "cachewatch_open_alerts", kind=kind) for kind in AlertKind} == {
        kind: float(kind is AlertKind.SOURCE_FAILED) for kind in AlertKind
    }
    assert value(samples, "cachewatch_source_failures", source="away") == 2
    assert value(samples, "cachewatch_source_failures", source="public") == 0
    newest = value(samples, "cachewatch_source_revision_timestamp_seconds", source="public")
    last = value(samples, "cachewatch_source_last_success_timestamp_seconds", source="public")
    assert 0 < last - newest < timedelta(days=2).total_seconds()
    assert value(samples, "cachewatch_digests_total", subscription="ml", result="ready") == 1
    assert value(samples, "cachewatch_digests_total", subscription="ml", result="held") == 0
    assert value(samples, "cachewatch_poll_failures_total", source="away") == 2
    assert value(samples, "cachewatch_stream_late_seconds", subscription="nightly", stream="regular") == 0
    assert value(samples, "cachewatch_last_tick_timestamp_seconds") == 7
    assert value(samples, "cachewatch_job_failures_total", job="polls") == 2
    assert value(samples, "cachewatch_failing_jobs") == 1
