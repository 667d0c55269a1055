"""Killed at every system call, starved of disk space, failed by the disk: nothing is lost, nothing is invented.

With a state in PostgreSQL, the server goes on; what becomes of a state when it dies is in daemon/test_standby.py and hosts/.
Figures of a run are printed with `-s`; docs/dev/figures.md has those of the last one that was written down.
"""

import os
import random

import pytest

from crash.faults import BROKEN, FULL, KILLED, RANDOM_KILLS, calls, everywhere, places
from crash.figures import crash, log, report
from crash.points import POINTS
from crash.world import Case, World, Zygote, recover

pytestmark = pytest.mark.crash

_IN_A_ROW = 3
# A case in PostgreSQL takes longer, so that only some of those that are chosen in SQLite are tried.
_EACH = {"all": 1, "third": 8}.get(os.environ.get("CACHEWATCH_CRASH", ""), 4)
# Where the mutants are killed: around the transaction, and around the first delivery.
_TEETH: tuple[str, ...] = (
    "before deciding_and_storing.store",
    "after deciding_and_storing.store",
    "before sending_and_channel_faults._settle",
    "after sending_and_channel_faults._attempt",
)
_TEETH += (
    "after sending_and_channel_faults._settle",
    "after deciding_and_storing.pack_messages",
    "before digests_and_holds.add",
    "after Context.pin",
)


@pytest.fixture(scope="session")
def any_world(request: pytest.FixtureRequest) -> World:
    """A world whose states are in either database."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, World)
    return found


in_both = pytest.mark.parametrize("any_world", ["world", "shared_world"], indirect=True)


@in_both
def test_a_run_that_nobody_disturbs_tells_everything_once(any_world: World) -> None:
    case = any_world.case()
    zygote = any_world.zygotes[0]
    assert zygote.run(case) == 0, log(case)
    recover(zygote, case)
    assert list(case.problems()) == []
    assert [len(any_world.post.taken[reader]) for reader in case.readers] == [2, 2]


@in_both
def test_killed_at_every_system_call(any_world: World) -> None:
    is_shared = any_world.server is not None
    chosen = calls(any_world, KILLED)[:: _EACH if is_shared else 1]
    faults = [(call, number, "signal=SIGKILL") for call, number in chosen]
    found = crash(any_world, faults, "killed, with a state in PostgreSQL" if is_shared else "killed")
    assert not found.problems, found.explained
    # A pass may make a call fewer than the one that was counted: answers of servers come in more or fewer pieces.
    assert found.ended > (0.8 if is_shared else 0.9) * len(faults), "a kill that ends nothing tests nothing"


@pytest.mark.parametrize(
    ("failing", "error", "title"), [(FULL, "ENOSPC", "out of space"), (BROKEN, "EIO", "input/output errors")]
)
def test_the_disk_is_full_or_fails(world: World, failing: tuple[str, ...], error: str, title: str) -> None:
    """At every write no space is left; at every flush and rename the disk fails."""
    found = crash(world, [(call, number, f"error={error}") for call, number in calls(world, failing)], title)
    assert not found.problems, found.explained


def test_killed_at_random_places(world: World) -> None:
    dice = random.Random(2026)
    known = places(world)

    def one(zygote: Zygote, row: list[tuple[str, int]]) -> tuple[Case, int]:
        """Kill pass after pass, each with more to tell, before the world may recover."""
        case, ended = world.case(), 0
        for hour, place in enumerate(row):
            case.publish(hour + 1)
            ended += zygote.run(case, hours=hour, kill=place) != 0
        recover(zygote, case, hours=_IN_A_ROW)
        return case, ended

    done: list[tuple[Case, int]] = []
    while sum(ended for _, ended in done) < RANDOM_KILLS:
        rows = [[dice.choice(known) for _ in range(_IN_A_ROW)] for _ in range(20)]
        done += everywhere(world, rows, one)
    found = report("killed at random places", world, done)
    assert not found.problems, found.explained


@pytest.mark.parametrize("mutant", ["cursor first", "send first", "random id"])
def test_the_test_has_teeth(world: World, mutant: str) -> None:
    # The first delivery goes into the Maildir, the fifth to the mail server.
    places = [(name, number) for name in _TEETH for number in (1, 5)]
    assert set(_TEETH) <= POINTS.keys()

    def one(zygote: Zygote, place: tuple[str, int]) -> bool:
        case = world.case()
        zygote.run(case, kill=place, mutant=mutant)
        recover(zygote, case, mutant=mutant)
        found = bool(list(case.problems()))
        case.remove()
        return found

    found = sum(everywhere(world, places, one))
    print(f"\nmutant {mutant!r}: {found} of {len(places)} crashes broke a promise")
    assert found
