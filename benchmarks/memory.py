"""The peak memory of a process and all that it starts, read from /proc."""

import ctypes
import platform
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import Command

_EVERY_SECONDS = 0.004
# The system call that tells whether two processes have one memory, and which of its comparisons that is.
_KCMP = {"x86_64": 312, "aarch64": 272}.get(platform.machine())
_KCMP_VM = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Peaks in MB. Shared pages count once, but for `largest_python`, which counts all that it maps."""

    tree: float
    pythons: float
    git: float
    largest_python: float


def peak_memory(command: Command) -> Memory:
    """Run `command` and watch its whole tree of processes."""
    tree = pythons = git = 0.0
    largest: dict[int, float] = {}
    with command.start(stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            now_python = now_git = 0.0
            for parent, pid in _family(0, process.pid):
                if parent and _is_one_memory(parent, pid):
                    continue
                with suppress(OSError, ValueError, KeyError):
                    is_python = Path(f"/proc/{pid}/exe").readlink().name.startswith("python")
                    size = _field(pid, "smaps_rollup", "Pss")
                    if is_python:
                        now_python += size
                        largest[pid] = max(largest.get(pid, 0.0), _field(pid, "status", "VmHWM"))
                    else:
                        now_git += size
            tree, pythons, git = max(tree, now_python + now_git), max(pythons, now_python), max(git, now_git)
            time.sleep(_EVERY_SECONDS)
    if process.returncode:
        raise RuntimeError(f"{command.name} ended with {process.returncode}")
    return Memory(tree=tree, pythons=pythons, git=git, largest_python=max(largest.values(), default=0.0))


def _family(parent: int, pid: int) -> Iterator[tuple[int, int]]:
    """Yield `pid` and all that descend from it, each with its parent."""
    yield parent, pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                for child in (task / "children").read_text().split():
                    yield from _family(pid, int(child))


def _is_one_memory(parent: int, pid: int) -> bool:
    """Tell whether a process still has its parent's memory: between vfork and exec, all of it would count twice."""
    return _KCMP is not None and ctypes.CDLL(None).syscall(_KCMP, parent, pid, _KCMP_VM, 0, 0) == 0


def _field(pid: int, file: str, name: str) -> float:
    for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise KeyError(name)
