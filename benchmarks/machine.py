"""Where and with what it was measured, and what start-up goes into."""

import os
import platform
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from benchmarks.measuring import Command
from benchmarks.subject import CHECKOUT, Peers

_OURS = ("click", "deepdiff", "gitpython", "jinja2", "msgspec", "pyyaml")
_THEIRS = ("csv-diff", "deepdiff", "git-history", "python-frontmatter", "sqlite-utils", "PyYAML")


def describe(peers: Peers | None) -> Iterator[tuple[str, str]]:
    """Yield what a reader has to know to judge the figures."""
    yield "cachewatch", _revision()
    yield "machine", f"{_processor()}, {os.cpu_count()} processors, {_gigabytes():.0f} GB, {platform.platform()}"
    yield "Python", f"{platform.python_implementation()} {platform.python_version()}"
    yield "git", _output("git", "--version").removeprefix("git version ")
    yield "libraries", ", ".join(f"{name} {version(name)}" for name in _OURS)
    if peers:
        installed = peers.versions()
        yield "peers", ", ".join(f"{name} {installed[name]}" for name in _THEIRS if name in installed)


class Bystanders:
    """Watches how much of the machine is busy with something else."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._others = _busy_seconds() - sum(os.times()[:4])

    def describe(self) -> tuple[str, str]:
        """Say how many processors were busy with something else since the beginning, on average."""
        others = _busy_seconds() - sum(os.times()[:4]) - self._others
        busy = max(0.0, others / (time.monotonic() - self._start))
        return "bystanders", f"{busy:.1f} of {os.cpu_count()} processors were busy with something else during the run"


def _busy_seconds() -> float:
    """Return the seconds that all processors together have worked for anybody since the machine began."""
    user, nice, system, _idle, _waiting, *interrupts = Path("/proc/stat").read_text().split("\n")[0].split()[1:9]
    return sum(map(int, (user, nice, system, *interrupts))) / os.sysconf("SC_CLK_TCK")


def import_times(command: Command) -> list[tuple[str, float]]:
    """Run a Python with `-X importtime` and return the ms that each package takes by itself, largest first."""
    total: Counter[str] = Counter()
    for line in command.run().decode().splitlines():
        if line.startswith("import time:") and "[us]" not in line:
            own, _, name = line.removeprefix("import time:").split("|")
            total[name.strip().partition(".")[0]] += int(own)
    return [(name, microseconds / 1000) for name, microseconds in total.most_common()]


def _revision() -> str:
    git = ("git", "-C", str(CHECKOUT))
    try:
        commit = _output(*git, "rev-parse", "--short=10", "HEAD")
        is_changed = bool(_output(*git, "status", "--porcelain", "--", "cachewatch", "templates", "config"))
    except subprocess.CalledProcessError:
        return version("cachewatch")
    return f"{version('cachewatch')}, {commit}{' with uncommitted changes' if is_changed else ''}"


def _processor() -> str:
    with Path("/proc/cpuinfo").open() as lines:
        return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _gigabytes() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
