"""A process keeps its lease for as long as it works, and notices when it lost it."""

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from helpers import catalogue, records
from msgspec.structs import replace
from station import Site, wait_for

from cachewatch.config.secrets import PostgresAddress
from cachewatch.errors import AnotherInstance, StateError
from cachewatch.extensions.shared_state import postgresql as leader_lease
from cachewatch.extensions.shared_state.postgresql import PostgresDatabase
from cachewatch.service import passes as leadership
from cachewatch.service.context import Context
from cachewatch.service.passes import Leadership, leading
from cachewatch.store.schema import utc_now

CONFIG = """\
version: 1
state: {folder}/state
sources: {public: {git: {folder}/upstream.git}}
operators: {channels: []}
"""
OTHER = "there/1/b"


@pytest.fixture
def context(tmp_path: Path, address: PostgresAddress, monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    """The context of a process, by the clock of the database, with a lease of two seconds."""
    monkeypatch.setattr(Site, "address", address)
    for module in (leader_lease, leadership):
        monkeypatch.setattr(module, "LASTING", timedelta(seconds=2))
    monkeypatch.setattr(leadership, "RENEWAL", timedelta(seconds=0.1))
    site = Site(tmp_path, [catalogue({"zlib": records([1])})])
    site.configure(CONFIG)
    opened = site.open()
    opened.database.close()
    with closing(PostgresDatabase(address)) as database:
        yield replace(opened, database=database, clock=utc_now)


@pytest.fixture
def other(context: Context, address: PostgresAddress) -> Iterator[PostgresDatabase]:
    with closing(PostgresDatabase(address)) as opened:
        yield opened


def takes_over(other: PostgresDatabase) -> bool:
    try:
        other.lead(OTHER)
    except AnotherInstance:
        return False
    return True


def test_a_pass_that_takes_longer_than_the_lease_keeps_it(context: Context, other: PostgresDatabase) -> None:
    with leading(context):
        end = time.monotonic() + 4
        while time.monotonic() < end:
            assert not takes_over(other)
            time.sleep(0.05)
    assert takes_over(other), "it was given back"


@pytest.mark.slow
def test_who_could_not_renew_the_lease_knows_that_it_is_over(context: Context, other: PostgresDatabase) -> None:
    """By its own clock, without asking; and works again if nobody took over."""
    began: list[str] = []
    found = Leadership(context, lambda: began.append("begun"))
    found.renew()
    assert found.is_ours
    wait_for(lambda: not found.is_ours, 10)
    found.renew()
    assert found.is_ours
    assert began == ["begun"]


@pytest.mark.slow
def test_who_was_overtaken_waits_and_begins_anew(context: Context, other: PostgresDatabase) -> None:
    began: list[str] = []
    found = Leadership(context, lambda: began.append("begun"))
    found.renew()
    wait_for(lambda: takes_over(other), 10)
    found.renew()
    assert (found.is_ours, found.other) == (False, OTHER)
    with pytest.raises(StateError, match="stores nothing more"), context.database.write():
        pass
    other.step_down(OTHER)
    found.renew()
    assert (found.is_ours, began) == (True, ["begun"] * 2)


def test_what_cannot_begin_does_not_lead(context: Context) -> None:
    """It tries again with the next renewal."""

    def fail() -> None:
        raise StateError("no room")

    found = Leadership(context, fail)
    with pytest.raises(StateError, match="no room"):
        found.renew()
    assert not found.is_ours


def test_who_ends_lets_another_begin_at_once(
    context: Context, other: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (leader_lease, leadership):
        monkeypatch.setattr(module, "LASTING", timedelta(hours=1))
    found = Leadership(context, lambda: None)
    found.renew()
    assert not takes_over(other)
    found.give_back()
    assert (found.is_ours, takes_over(other)) == (False, True)
