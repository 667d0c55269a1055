"""Which faults are injected where, and how: every system call of a pass that matters, and every named place."""

import os
import re
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from crash.points import POINTS
from crash.world import Case, World, Zygote

# What changes something outside of this process, waits for it, or lets go of it.
KILLED: tuple[str, ...] = ("write", "pwrite64", "fsync", "fdatasync", "rename", "renameat", "unlink", "ftruncate")
KILLED += ("mkdir", "link", "openat", "close", "sendto", "recvfrom", "connect")
FULL = ("write", "pwrite64", "ftruncate", "mkdir", "openat")
BROKEN = ("fsync", "fdatasync", "rename", "renameat")
# Of the many calls of these names, those that matter: what makes a file, and what lets go of one or of a connection.
_ONLY = {"openat": re.compile("O_CREAT"), "close": re.compile(r"<socket:|<TCP|/case-\d+/(?!state/sources/.*git/)")}
# A pipe is never out of space.
_PIPE = re.compile(r"\d+<pipe:")
# All of it takes a quarter of an hour: `make crash`. Otherwise a sample, as evenly spread as can be.
_SAMPLES = {"all": (1, 400), "third": (3, 140)}
STRIDE, RANDOM_KILLS = _SAMPLES.get(os.environ.get("CACHEWATCH_CRASH", ""), (24, 12))

Fault = tuple[str, int, str]  # system call, its number, what is done to it

Place = TypeVar("Place")
Found = TypeVar("Found")


def everywhere(world: World, places: list[Place], one: Callable[[Zygote, Place], Found]) -> list[Found]:
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


def places(world: World) -> list[tuple[str, int]]:
    """List every passing of a named place that an undisturbed pass makes."""
    case = world.case()
    assert world.zygotes[0].run(case, count=str(case.folder / "places")) == 0, (case.folder / "log").read_text("utf-8")
    passed = Counter((case.folder / "places").read_text("utf-8").splitlines())
    assert set(passed) == set(POINTS), set(POINTS) - set(passed)
    case.remove()
    return [(name, number) for name, count in sorted(passed.items()) for number in range(1, count + 1)]


def calls(world: World, names: tuple[str, ...], case: Case | None = None, **request: Any) -> list[tuple[str, int]]:
    """List every call of these names that an undisturbed pass makes, or another command in `case`."""
    case = case or world.case()
    trace = case.folder / "trace"
    world.zygotes[0].run(case, inject=["-y", "-o", str(trace), "-e", f"trace={','.join(names)}"], **request)
    found, passed = [], Counter[str]()
    for name, rest in re.findall(r"^(\w+)\((.*)", trace.read_text("utf-8", "replace"), re.MULTILINE):
        passed[name] += 1
        if (name not in _ONLY or _ONLY[name].search(rest)) and not (names == FULL and _PIPE.match(rest)):
            found.append((name, passed[name]))
    case.remove()
    assert len(passed) >= 3, passed
    return sorted(found)[::STRIDE]


def injection(fault: Fault) -> list[str]:
    """Return what strace is told of a fault."""
    call, number, action = fault
    return ["-o", os.devnull, "-e", f"trace={call}", "-e", f"inject={call}:{action}:when={number}"]
