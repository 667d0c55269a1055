"""Whether the service does its work: what `status --check` and /readyz find wrong, and what they find right."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from prometheus_client.parser import text_string_to_metric_families
from station import CONFIG, HOUR, Site, growing, judged

from cachewatch.daemon.monitor_server import SERIES, DaemonStatus, figures
from cachewatch.operators.status_problems_explanations import ProblemList, read_status
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.passes_and_leadership import create_digests, poll
from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store import health_and_alerts as health
from cachewatch.store.health_and_alerts import Counter

DAEMON = DaemonStatus(tick=1.0, job_failures={"digests": 2}, failing_jobs=0, is_leader=True)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Upstream adds a package; nothing was fetched yet."""
    return Site(tmp_path, growing(2), CONFIG)


@contextmanager
def opened(site: Site) -> Iterator[Context]:
    context = site.open()
    with closing(context.database):
        yield context


@contextmanager
def polled(site: Site) -> Iterator[Context]:
    """Publish a revision, and poll it."""
    site.publish(1)
    with opened(site) as context:
        assert poll(context, context.config.sources["public"])
        yield context


def problems(site: Site) -> list[str]:
    return [found.what for found in judged(site).problems]


def test_a_service_that_works_has_no_problems(site: Site) -> None:
    site.run()
    site.run(1)
    assert judged(site) == ProblemList(problems=(), warnings=())


def test_a_source_that_is_not_polled(site: Site) -> None:
    (found,) = judged(site).problems
    assert (found.what, found.detail) == ("the source public was never polled", "")
    site.run()
    assert [source.error for source in read_status(site.open()).sources] == [""]
    site.now += 3 * HOUR
    assert problems(site) == []
    site.now += timedelta(minutes=1)
    assert problems(site) == ["the source public was polled 3 hours ago, but should be polled every 60 minutes"]


@pytest.mark.slow
def test_a_channel_that_does_not_work(site: Site) -> None:
    site.run()
    site.publish(1)
    (site.folder / "out").write_text("a file where a folder should be")
    site.run()
    (found,) = judged(site).problems
    assert found.what == "the channel files does not work; next attempt in 60 minutes"
    assert found.detail
    (site.folder / "out").unlink()
    site.run(later=HOUR)
    assert problems(site) == []


@pytest.mark.slow
def test_a_delivery_that_nobody_tries(site: Site) -> None:
    """An hour after it was due; where nothing is polled that often, after that interval."""
    site.run()
    with polled(site) as context:
        create_digests(context)
    site.now += HOUR
    assert problems(site) == []
    site.now += timedelta(minutes=1)
    assert problems(site) == ["a delivery through files was due 61 minutes ago, but has no result"]
    site.configure(CONFIG.replace("stale_after: 4000d", "stale_after: 4000d, poll: {every: 1d}"))
    assert problems(site) == []
    site.now += timedelta(days=1)
    assert problems(site) == ["a delivery through files was due 25 hours ago, but has no result"]


def test_a_digest_that_is_late(site: Site) -> None:
    site.configure(CONFIG.replace("changes: [all]", "changes: [all], when: daily 12:00"))
    site.run()
    late = "the digest of ml was due 61 minutes ago"
    site.now = site.now.replace(hour=13, minute=0)
    assert not any("digest" in found for found in problems(site))
    site.now += timedelta(minutes=1)
    assert late in problems(site)
    with site.file.open("a") as file:
        file.write(f"quiet: [{{days: {site.now:%a}}}]\n".lower())
    assert late not in problems(site)
    site.now = (site.now + timedelta(days=1)).replace(hour=1, minute=0)
    assert not any("digest" in found for found in problems(site))
    site.now += timedelta(minutes=1)
    assert late in problems(site)


@pytest.mark.only_sqlite  # hosts that share a state wait for their own clone
def test_a_digest_that_cannot_be_made(site: Site) -> None:
    site.run()
    with polled(site) as context:
        shutil.rmtree(site.folder / "state" / "sources")
        create_digests(context)
    assert problems(site) == ["digests cannot be created for ml/regular"]


@pytest.mark.slow
def test_what_failed_for_good_is_a_warning(site: Site) -> None:
    site.run()
    with polled(site) as context:
        create_digests(context)
        with context.database.write() as connection:
            (delivery,) = deliveries.find(connection)
            deliveries.settle(connection, delivery, deliveries.DeliveryState.DEAD, now=site.now, said="550 no")
    found = judged(site)
    assert found.is_ready
    assert [each.what for each in found.warnings] == ["1 delivery through files failed for good"]


@pytest.mark.slow
def test_operators_hear_of_what_is_late_while_the_service_runs(site: Site) -> None:
    """The alerts, the metrics and the daily summary say what `status` says; what is late since nothing ran is no alert."""
    site.configure(CONFIG.replace("operators: {channels: []}", "operators: {channels: [files]}"))
    site.run()
    site.now += 4 * HOUR
    with opened(site) as context:
        create_digests(context)
        assert site.notices() == []
        assert [each.kind for each in judged(site).problems] == ["source-late"]
        site.now += HOUR
        create_digests(context)
        create_digests(context)
        (late,) = judged(site).problems
        assert site.notices() == ["the source public is not polled"]
        assert [alert.detail for alert in read_status(context).alerts] == [late.what]
        assert measured(site)['cachewatch_open_alerts{kind="source-late"}'] == 1
        assert poll(context, context.config.sources["public"])
        create_digests(context)
    assert read_status(site.open()).alerts == ()
    assert len(site.notices()) == 2


def test_status_check(site: Site, run: Run) -> None:
    config = ("--config", site.file)
    assert run("status", "--check", *config).exit_code == 5
    assert run("once", *config).exit_code == 0
    done = run("status", "--check", *config)
    assert (done.exit_code, done.output) == (0, "no problems\n")
    shutil.rmtree(site.upstream)
    run("once", *config)
    done = run("status", "--check", *config)
    assert (done.exit_code, done.output) == (0, "no problems; public failed once\n")
    for _ in range(2):
        run("once", *config)
    assert run("status", "--check", *config).output_of(1).startswith("problem: the source public cannot be read: ")
    done = run("status", "--check", "--format", "json", *config)
    assert (done.exit_code, json.loads(done.output)["problems"][0]["what"]) == (1, "the source public cannot be read")
    assert run("status", *config).exit_code == 0


def parsed(text: str) -> Mapping[str, float]:
    """Read the metrics as Prometheus does; the labels of a sample are in the order of SERIES."""
    families = [each for each in text_string_to_metric_families(text) if not each.name.startswith("process_")]
    counters = {family.name for family in families if family.type == "counter"}
    assert [f"{family.name}_total" if family.name in counters else family.name for family in families] == list(SERIES)
    assert all(family.type in ("counter", "gauge") and family.documentation for family in families)
    found = [(named(sample), sample.value) for family in families for sample in family.samples]
    assert len(found) == len(dict(found))
    return dict(found)


def named(sample: Any) -> str:
    assert sample.labels.keys() == set(SERIES[sample.name][1:])
    labels = ",".join(f'{name}="{sample.labels[name]}"' for name in SERIES[sample.name][1:])
    return f"{sample.name}{{{labels}}}" if labels else sample.name


def measured(site: Site) -> Mapping[str, float]:
    with opened(site) as context:
        return parsed(figures(context, DAEMON).text)


def test_counters_are_there_before_anything_happened(site: Site) -> None:
    """So that the first failure is an increase."""
    found = measured(site)
    for name in (
        'cachewatch_poll_failures_total{source="public"}',
        'cachewatch_deliveries_total{channel="files",result="dead"}',
        'cachewatch_digests_total{subscription="ml",result="held"}',
        'cachewatch_outbox_rows{channel="files",state="dead"}',
        'cachewatch_open_alerts{kind="channel-down"}',
        'cachewatch_source_last_poll_timestamp_seconds{source="public"}',
    ):
        assert found[name] == 0, name
    assert found['cachewatch_job_failures_total{job="digests"}'] == 2
    assert found["cachewatch_ready"] == 0


def test_figures_see_what_is_wrong(site: Site) -> None:
    site.configure(CONFIG.replace("changes: [all]", "changes: [all], when: daily 12:00"))
    site.run()
    assert measured(site)["cachewatch_ready"] == 1
    site.publish(1)
    (site.folder / "out").write_text("a file where a folder should be")
    site.run(later=timedelta(days=1))
    shutil.rmtree(site.upstream)
    for _ in range(3):
        site.run()
    site.now += timedelta(days=1)
    found = measured(site)
    assert found['cachewatch_poll_failures_total{source="public"}'] == 3
    assert found['cachewatch_source_failures{source="public"}'] == 3
    assert found['cachewatch_source_last_poll_timestamp_seconds{source="public"}'] == site.now.timestamp() - 86400
    assert found['cachewatch_source_poll_interval_seconds{source="public"}'] == 3600
    assert found['cachewatch_outbox_rows{channel="files",state="queued"}'] == 1
    assert found['cachewatch_outbox_overdue_seconds{channel="files"}'] == pytest.approx(23 * 3600)
    assert found['cachewatch_channel_failures{channel="files"}'] >= 1
    assert found['cachewatch_open_alerts{kind="channel-down"}'] == 1
    assert found['cachewatch_open_alerts{kind="source-failed"}'] == 1
    assert found['cachewatch_stream_late_seconds{subscription="ml",stream="regular"}'] > 0
    assert found["cachewatch_problems"] >= 3
    site.now -= timedelta(hours=23, minutes=30)
    assert measured(site)['cachewatch_channel_blocked{channel="files"}'] == 1


def test_counters_of_another_version_are_left_out(site: Site) -> None:
    """A name or a label that this one does not know would break all others."""
    with opened(site) as context:
        with context.database.write() as connection:
            health.count(connection, Counter.of("moons_total", phase="full"))
            health.count(connection, Counter.of("poll_failures_total", source="public", reason="moon"))
        found = parsed(figures(context, DAEMON).text)
    assert [value for name, value in found.items() if "poll_failures" in name] == [0]
