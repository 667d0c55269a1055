"""The peak memory of a process and all that it starts, read from /proc."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import Command

_EVERY_SECONDS = 0.004


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
            for pid in _family(process.pid):
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


def _family(pid: int) -> Iterator[int]:
    """Yield `pid` and all that descend from it."""
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                for child in (task / "children").read_text().split():
                    yield from _family(int(child))


def _field(pid: int, file: str, name: str) -> float:
    for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise KeyError(name)
