"""A few faults of two hosts, the same ones each time; `make hosts` plays as many as it is asked to."""

from collections import Counter
from pathlib import Path

import pytest

from hosts.faults import play
from hosts.plan import OF_DATABASE, OF_HOSTS, Kind, plan
from hosts.service import LASTING

COUNT, SEED = 8, 1


@pytest.mark.slow
def test_readers_get_everything_once_whatever_happens_to_two_hosts_and_their_database(tmp_path: Path) -> None:
    """Each fault once on each host, and one of the database."""
    problems, figures = play(tmp_path, COUNT, SEED)
    assert not problems, "\n".join([*problems, str(figures)])
    assert figures.digests
    assert figures.takeovers > 1
    print(f"\n{figures}")


@pytest.mark.parametrize("seed", range(3))
def test_a_plan_has_every_fault_for_every_host(seed: int) -> None:
    found = Counter((fault.kind, fault.host) for fault in plan(40, seed))
    assert found == Counter(
        {
            **{(kind, host): 5 for kind in OF_HOSTS for host in (0, 1)},
            **dict.fromkeys(((kind, -1) for kind in OF_DATABASE), 4),
        }
    )


def test_another_seed_is_another_plan() -> None:
    assert plan(20, 1) == plan(20, 1) != plan(20, 2)


def test_whoever_is_paused_is_paused_until_its_session_ends() -> None:
    pauses = [fault.lasts for fault in plan(200, 1) if fault.kind is Kind.PAUSED]
    assert min(pauses) > LASTING.total_seconds() + 1
