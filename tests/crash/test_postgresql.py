"""Killed at every system call, with a state in PostgreSQL: what it asks the server, and what it says to the world, too.

The server goes on; what becomes of a state when it dies itself is in daemon/test_standby.py and hosts/.
"""

import os

import pytest

from crash.faults import KILLED, calls
from crash.figures import crash, log
from crash.world import World, recover

pytestmark = pytest.mark.crash

# A case takes longer than one in SQLite, so that but some of those that are chosen there are tried.
_EACH = {"all": 1, "third": 8}.get(os.environ.get("CACHEWATCH_CRASH", ""), 4)


def test_a_run_that_nobody_disturbs_tells_everything_once(shared_world: World) -> None:
    case = shared_world.case()
    zygote = shared_world.zygotes[0]
    assert zygote.run(case) == 0, log(case)
    recover(zygote, case)
    assert list(case.problems()) == []
    assert [len(shared_world.post.taken[reader]) for reader in case.readers] == [2, 2]


def test_killed_at_every_system_call(shared_world: World) -> None:
    faults = [(call, number, "signal=SIGKILL") for call, number in calls(shared_world, KILLED)[::_EACH]]
    found = crash(shared_world, faults, "killed, with a state in PostgreSQL")
    assert not found.problems, found.explained
    # Answers come in more or fewer pieces.
    assert found.ended > 0.8 * len(faults), "a kill that ends nothing tests nothing"
