"""Killed at every system call, starved of disk space, failed by the disk: nothing is lost, nothing is invented.

Figures of a run are printed with `-s`; docs/evidence.md has those of the last one that was written down.
"""

import json
import os
import random
import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from crash.points import POINTS
from crash.world import Case, Post, World, Zygote, recover

pytestmark = pytest.mark.crash

# What changes something outside of this process, waits for it, or lets go of it.
_KILLED: tuple[str, ...] = ("write", "pwrite64", "fsync", "fdatasync", "rename", "renameat", "unlink", "ftruncate")
_KILLED += ("mkdir", "link", "openat", "close", "sendto", "recvfrom", "connect")
_FULL = ("write", "pwrite64", "ftruncate", "mkdir", "openat")
_BROKEN = ("fsync", "fdatasync", "rename", "renameat")
# Of the many calls of these names, those that matter: what makes a file, and what lets go of one or of a connection.
_ONLY = {"openat": re.compile("O_CREAT"), "close": re.compile(r"<socket:|<TCP|/case-\d+/(?!state/sources/.*git/)")}
# A pipe is never out of space.
_PIPE = re.compile(r"\d+<pipe:")
# All of it takes some minutes: `make crash`. Otherwise a sample, as evenly spread as can be.
_IS_WHOLE = os.environ.get("CACHEWATCH_CRASH") == "all"
_STRIDE = 1 if _IS_WHOLE else 8
_RANDOM_KILLS = 400 if _IS_WHOLE else 40
_IN_A_ROW = 3
# Where the mutants are killed: around the transaction, and around the first delivery.
_TEETH: tuple[str, ...] = (
    "before announcing._store",
    "after announcing._store",
    "before delivering._settle",
    "after delivering._attempt",
)
_TEETH += ("after delivering._settle", "after announcing.pack", "before digests.add", "after Context.pin")

Fault = tuple[str, int, str]  # system call, its number, what is done to it


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world with a process for each core, and one more, because they also wait for the disk."""
    if shutil.which("strace") is None:
        message = "strace is not installed, which injects the faults"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with Post() as post:
        zygotes = [Zygote() for _ in range((os.cpu_count() or 1) + 1)]
        built = World(tmp_path_factory.mktemp("world"), zygotes, post)
        built.build()
        yield built
        for zygote in zygotes:
            zygote.close()


def test_a_run_that_nobody_disturbs_tells_everything_once(world: World) -> None:
    case = world.case()
    zygote = world.zygotes[0]
    assert zygote.run(case) == 0, _log(case)
    recover(zygote, case)
    assert list(case.problems()) == []
    assert [len(world.post.taken[reader]) for reader in case.readers] == [2, 2]


def test_killed_at_every_system_call(world: World) -> None:
    faults = [(call, number, "signal=SIGKILL") for call, number in _calls(world, _KILLED)]
    _crash(world, faults, "killed")


def test_no_space_left_at_every_write(world: World) -> None:
    faults = [(call, number, "error=ENOSPC") for call, number in _calls(world, _FULL, without=_PIPE)]
    _crash(world, faults, "out of space")


def test_the_disk_fails_at_every_flush_and_rename(world: World) -> None:
    faults = [(call, number, "error=EIO") for call, number in _calls(world, _BROKEN)]
    _crash(world, faults, "input/output errors")


def test_killed_at_random_places(world: World) -> None:
    dice = random.Random(2026)
    places = _places(world)

    def one(zygote: Zygote, row: list[tuple[str, int]]) -> tuple[Case, int]:
        """Kill pass after pass before the world may recover."""
        case = world.case()
        ended = sum(zygote.run(case, hours=hour, kill=place) != 0 for hour, place in enumerate(row))
        recover(zygote, case, hours=_IN_A_ROW)
        return case, ended

    done: list[tuple[Case, int]] = []
    while sum(ended for _, ended in done) < _RANDOM_KILLS:
        rows = [[dice.choice(places) for _ in range(_IN_A_ROW)] for _ in range(20)]
        done += _everywhere(world, rows, one)
    _report("killed at random places", world, done)


@pytest.mark.parametrize("mutant", ["cursor first", "send first", "random id"])
def test_the_test_has_teeth(world: World, mutant: str) -> None:
    # The first delivery goes into the Maildir, the fifth to the mail server.
    places = [(name, number) for name in _TEETH for number in (1, 5)]

    def one(zygote: Zygote, place: tuple[str, int]) -> bool:
        case = world.case()
        zygote.run(case, kill=place, mutant=mutant)
        recover(zygote, case, mutant=mutant)
        found = bool(list(case.problems()))
        shutil.rmtree(case.folder)
        return found

    found = sum(_everywhere(world, places, one))
    print(f"\nmutant {mutant!r}: {found} of {len(places)} crashes broke a promise")
    assert found


def _places(world: World) -> list[tuple[str, int]]:
    """List every passing of a named place that an undisturbed pass makes."""
    case = world.case()
    world.zygotes[0].run(case, count=str(case.folder / "places"))
    passed = Counter((case.folder / "places").read_text("utf-8").splitlines())
    assert set(passed) == set(POINTS), set(POINTS) - set(passed)
    shutil.rmtree(case.folder)
    return [(name, number) for name, count in sorted(passed.items()) for number in range(1, count + 1)]


def _calls(world: World, names: tuple[str, ...], without: re.Pattern[str] | None = None) -> list[tuple[str, int]]:
    """List every call of these names that an undisturbed pass makes."""
    case = world.case()
    trace = case.folder / "trace"
    world.zygotes[0].run(case, inject=["-y", "-o", str(trace), "-e", f"trace={','.join(names)}"])
    calls, passed = [], Counter[str]()
    for name, rest in re.findall(r"^(\w+)\((.*)", trace.read_text("utf-8", "replace"), re.MULTILINE):
        passed[name] += 1
        if (name not in _ONLY or _ONLY[name].search(rest)) and not (without and without.match(rest)):
            calls.append((name, passed[name]))
    shutil.rmtree(case.folder)
    assert len(passed) >= 3, passed
    return sorted(calls)[::_STRIDE]


def _crash(world: World, faults: list[Fault], what: str) -> None:
    def one(zygote: Zygote, fault: Fault) -> tuple[Case, int]:
        call, number, action = fault
        case = world.case()
        inject = ["-o", os.devnull, "-e", f"trace={call}", "-e", f"inject={call}:{action}:when={number}"]
        status = zygote.run(case, inject=inject)
        recover(zygote, case)
        return case, int(status != 0)

    _report(what, world, _everywhere(world, faults, one))


Place = TypeVar("Place")
Found = TypeVar("Found")


def _everywhere(world: World, places: list[Place], one: Callable[[Zygote, Place], Found]) -> list[Found]:
    """Do `one` for each of these places, with all processes at once."""
    idle, lock = list(world.zygotes), threading.Lock()

    def with_one(place: Place) -> Found:
        with lock:
            zygote = idle.pop()
        try:
            return one(zygote, place)
        finally:
            with lock:
                idle.append(zygote)

    with ThreadPoolExecutor(len(world.zygotes)) as pool:
        return list(pool.map(with_one, places))


def _report(what: str, world: World, done: list[tuple[Case, int]]) -> None:
    problems = {case.number: found for case, _ in done if (found := list(case.problems()))}
    copies = [world.post.taken[reader] for case, _ in done for reader in case.readers]
    duplicates = sum(len(taken) - len(set(taken)) for taken in copies)
    ended = sum(count for _, count in done)
    print(
        f"\n{what}: {len(done)} cases, {ended} passes ended by it, {duplicates} second copies, {len(problems)} problems"
    )
    logs = {case.number: _log(case)[-2000:] for case, _ in done if case.number in problems}
    for case, _ in done:
        shutil.rmtree(case.folder)
    assert not problems, json.dumps([problems, dict(list(logs.items())[:3])], indent=1)


def _log(case: Case) -> str:
    return Path(case.folder / "log").read_text("utf-8", "replace")
