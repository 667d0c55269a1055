"""A process leads for as long as it works, and notices when it does not any more."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from helpers import catalogue, records
from msgspec.structs import replace
from postgres import Server
from station import CONFIG, Site

from cachewatch.config.value_types_and_secrets import PostgresAddress
from cachewatch.errors import AnotherInstance, StateError
from cachewatch.extensions.shared_state import postgresql
from cachewatch.extensions.shared_state.postgresql import PostgresDatabase
from cachewatch.operators.status_problems_explanations import read_status
from cachewatch.service import passes_and_leadership
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.passes_and_leadership import Leadership, leading

OTHER = "there/1/b"


@pytest.fixture
def context(tmp_path: Path, address: PostgresAddress, monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    """The context of a process, whose session ends when it says nothing for a second."""
    monkeypatch.setattr(Site, "address", address)
    monkeypatch.setattr(postgresql, "_LEADERS_PAUSE", "1s")
    monkeypatch.setattr(postgresql, "_LEADERS_PATIENCE", "50ms")
    monkeypatch.setattr(passes_and_leadership, "HEARTBEAT", timedelta(seconds=0.1))
    site = Site(tmp_path, [catalogue({"zlib": records([1])})], CONFIG)
    opened = site.open()
    opened.database.close()
    with closing(PostgresDatabase(address)) as database:
        yield replace(opened, database=database)


@pytest.fixture
def other(context: Context, address: PostgresAddress) -> Iterator[PostgresDatabase]:
    with closing(PostgresDatabase(address)) as opened:
        yield opened


def takes_over(other: PostgresDatabase) -> bool:
    try:
        return other.lead(OTHER)
    except AnotherInstance:
        return False


def test_a_pass_that_takes_long_goes_on_to_lead(context: Context, other: PostgresDatabase) -> None:
    with leading(context):
        end = time.monotonic() + 3
        while time.monotonic() < end:
            assert not takes_over(other)
            time.sleep(0.05)
    context.database.close()
    assert takes_over(other)


def test_who_was_overtaken_waits_and_begins_anew(context: Context, other: PostgresDatabase, postgres: Server) -> None:
    began: list[str] = []
    found = Leadership(context, lambda: began.append("begun"))
    found.look()
    found.look()
    assert (found.is_ours, began) == (True, ["begun"])
    assert read_status(context).leader == context.owner
    postgres.cut_off(context.owner)
    assert takes_over(other)
    found.look()
    assert (found.is_ours, found.other) == (False, OTHER)
    other.close()
    found.look()
    assert (found.is_ours, began) == (True, ["begun"] * 2)


def test_a_job_stores_nothing_from_before_another(context: Context, other: PostgresDatabase, postgres: Server) -> None:
    """A poll, for example, that took long: its revision is older than what the other one told of."""
    found = Leadership(context, lambda: None)

    def overtaken() -> None:
        postgres.cut_off(context.owner)
        assert takes_over(other)
        other.close()
        with ThreadPoolExecutor(1) as lead:
            lead.submit(found.look).result()
        assert found.is_ours
        with pytest.raises(StateError, match="stores nothing"), context.database.write():
            pass
        done.append("refused")

    done: list[str] = []
    found.do(overtaken)
    assert done == [], "the other one may be at work"
    found.look()
    found.do(overtaken)
    assert done == ["refused"]


def test_what_cannot_begin_does_not_work(context: Context) -> None:
    """It tries again with the next heartbeat."""
    errors = [StateError("no room")]

    def fail() -> None:
        if errors:
            raise errors.pop()

    found = Leadership(context, fail)
    with pytest.raises(StateError, match="no room"):
        found.look()
    assert not found.is_ours
    found.look()
    assert found.is_ours
