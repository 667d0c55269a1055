"""A host that takes over has clones of its own: it says what only the other one had."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from helpers import catalogue, records
from mailservers import free_port, post
from station import Site

from cachewatch.config.value_types_and_secrets import PostgresAddress
from cachewatch.errors import CachewatchError, DamagedRow, StateError
from cachewatch.service import deciding_and_storing
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.passes_and_leadership import create_digests, poll, run_pass
from cachewatch.store import health_and_alerts as alerts
from cachewatch.store.health_and_alerts import AlertKind

CONFIG = """\
version: 1
state: {folder}/HOST
sources: {public: {git: {folder}/upstream.git, stale_after: 4000d}}
channels: {box: {type: maildir, path: "{folder}/box", from: c@example.org}}
operators: {channels: []}
subscriptions: {ml: {to: [kim@example.org], channels: [box], changes: [all], when: each revision}}
"""
CHANGES = tuple(f"change-{number}" for number in range(3))
STATES = [catalogue({"zlib": records(range(3))} | {CHANGES[n]: records([100 + n]) for n in range(k)}) for k in range(4)]


@pytest.fixture
def site(tmp_path: Path, address: PostgresAddress, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(Site, "address", address)
    yield Site(tmp_path, STATES)
    while Site.opened:
        Site.opened.pop().close()


@contextmanager
def host(site: Site, name: str, config: str = CONFIG) -> Iterator[Context]:
    """Be one of the hosts."""
    site.configure(config.replace("HOST", name))
    context = site.open()
    with closing(context.database):
        yield context


def run(site: Site, name: str) -> None:
    """Let a host do a pass, an hour later."""
    site.now += timedelta(hours=1)
    with host(site, name) as context:
        run_pass(context)


@pytest.mark.slow_cases
@pytest.mark.parametrize("has_clone", [True, False])
def test_nothing_is_compared_before_this_host_has_what_the_other_one_fetched(site: Site, has_clone: bool) -> None:
    """And nobody is told that it cannot be; after its poll, the digest is made."""
    run(site, "one")
    if has_clone:
        run(site, "two")
    site.publish(1)
    with host(site, "one") as one:
        poll(one, one.config.sources["public"])
    with host(site, "two") as two:
        create_digests(two)
        assert opened(two) == []
        assert site.told() == []
        poll(two, two.config.sources["public"])
        create_digests(two)
    (text,) = site.told()
    assert CHANGES[0] in text


def test_what_upstream_forgot_is_said_once(site: Site) -> None:
    run(site, "one")
    run(site, "two")
    site.publish(1)
    run(site, "one")
    site.rewrite(2)
    run(site, "two")
    assert "What changed cannot be known" in site.told()[-1]
    count = len(site.told())
    run(site, "two")
    assert len(site.told()) == count


def test_a_database_that_goes_away_is_no_fault_of_the_digest(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is back when operators would be told, and the digest is made; a damaged row is another matter."""

    def fail(*_: object, **__: object) -> None:
        raise errors.pop()

    run(site, "one")
    site.publish(1)
    errors: list[CachewatchError] = [DamagedRow("damaged"), StateError("the server ended the connection")]
    with host(site, "one") as context:
        poll(context, context.config.sources["public"])
        with monkeypatch.context() as patched:
            patched.setattr(deciding_and_storing, "compose", fail)
            with pytest.raises(StateError, match="ended the connection"):
                create_digests(context)
            assert opened(context) == []
            create_digests(context)
            assert opened(context) == [AlertKind.DIGEST_FAILED]
        create_digests(context)
        assert opened(context) == []
    assert CHANGES[0] in site.told()[-1]


def opened(context: Context) -> list[AlertKind]:
    with context.database.read() as connection:
        return [alert.key.kind for alert in alerts.all_open(connection)]


@pytest.mark.usefixtures("loopback")
def test_what_waits_is_not_dropped_by_the_file_of_another_host(site: Site) -> None:
    """That file does not name its reader; what is made there goes where it says."""

    def work(name: str, reader: str, port: int) -> None:
        mail = f"{{type: email, from: c@example.org, smtp: {{host: 127.0.0.1, port: {port}, security: none}}}}"
        config = CONFIG.replace('{type: maildir, path: "{folder}/box", from: c@example.org}', mail)
        site.now += timedelta(hours=1)
        with host(site, name, config.replace("kim@example.org", reader)) as context:
            run_pass(context)

    work("one", "kim@example.org", free_port())
    site.publish(1)
    work("one", "kim@example.org", free_port())
    with post() as server:
        work("two", "lee@example.org", server.port)
        site.publish(2)
        work("two", "lee@example.org", server.port)
    assert [each.recipient for each in server.received] == ["kim@example.org", "lee@example.org"]
