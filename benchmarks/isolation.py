"""What it costs to read documents in a process of its own: passes with and without, in turn, on the same news.

    python -m benchmarks.isolation [--packages 1500] [--specs 100000] [--rounds 5]

Prints for each case the processor seconds, seconds and peak memory of `cachewatch once` without that process, and how
many times as much it takes with it.
"""

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.generate import Catalogue, Shape, generate
from benchmarks.measuring import Command
from benchmarks.memory import peak_memory
from benchmarks.subject import CHECKOUT

_CONFIG = """\
version: 1
state: {folder}/state
sources: {{upstream: {{git: {upstream}, stale_after: 4000d}}}}
channels:
  files: {{type: file, path: "{folder}/out-{{subscription}}-{{key}}.{{ext}}", formats: [json]}}
operators: {{channels: []}}
subscriptions: {{all: {{channels: [files], changes: [all], limit: {{hold_above: 10000000}}}}}}
"""
# Both load the same modules in the same order.
_PASS = """\
from cachewatch.runtime.worker import INLINE
from cachewatch.service import passes_and_leadership as passes
{changed}from cachewatch.__main__ import main
main()
"""
_CHANGED = """\
passes.Isolation = lambda worker, refused: INLINE
passes.Worker.start = lambda self: None
"""
_WAYS = {"inline": _PASS.format(changed=_CHANGED), "isolated": _PASS.format(changed="")}


class Case(NamedTuple):
    """What a pass has to tell."""

    name: str
    before: str
    after: str


class Cost(NamedTuple):
    """What a pass takes."""

    processor: float  # seconds, of all processes
    seconds: float
    megabytes: float  # at most, of all Python processes together


def main() -> None:
    """Measure, and print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=int, default=1500)
    parser.add_argument("--specs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cachewatch-bench-") as name:
        folder = Path(name)
        catalogue = generate(folder / "catalogue.git", Shape(packages=options.packages, specs=options.specs))
        for case in _cases(catalogue):
            found = _measure(folder / "case", catalogue.folder, case, options.rounds)
            print(_line(case, found), flush=True)


def _cases(catalogue: Catalogue) -> Iterator[Case]:
    _, newest = catalogue.small
    yield Case("nothing new", newest, newest)
    yield Case("a few packages", *catalogue.small)
    yield Case("all packages", *catalogue.far)


def _measure(folder: Path, repository: Path, case: Case, rounds: int) -> dict[str, list[Cost]]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    upstream = folder / "upstream.git"
    subprocess.run(["git", "clone", "-q", "--bare", "--shared", str(repository), str(upstream)], check=True)
    config = folder / "cachewatch.yaml"
    config.write_text(_CONFIG.format(folder=folder, upstream=upstream), "utf-8")
    config.chmod(0o600)
    newest = _git(upstream, "rev-parse", case.after)
    _git(upstream, "update-ref", "refs/heads/main", _git(upstream, "rev-parse", case.before))
    _once(folder, "isolated").run()
    _git(upstream, "update-ref", "refs/heads/main", newest)
    (folder / "state").rename(folder / "kept")
    found: dict[str, list[Cost]] = {way: [] for way in _WAYS}
    for number in range(rounds + 1):
        for way in _WAYS:
            cost = _cost(folder, way)
            if number:  # the first round warms up
                found[way].append(cost)
    return found


def _cost(folder: Path, way: str) -> Cost:
    _restore(folder)
    begun, used = time.perf_counter(), _used()
    _once(folder, way).run()
    processor, seconds = _used() - used, time.perf_counter() - begun
    _restore(folder)
    return Cost(processor, seconds, peak_memory(_once(folder, way)).pythons)


def _restore(folder: Path) -> None:
    shutil.rmtree(folder / "state", ignore_errors=True)
    shutil.copytree(folder / "kept", folder / "state", symlinks=True)


def _once(folder: Path, way: str) -> Command:
    arguments = [sys.executable, "-c", _WAYS[way], "once", "--config", str(folder / "cachewatch.yaml")]
    return Command(name=way, arguments=arguments, folder=CHECKOUT)


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", f"--git-dir={repository}", *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _line(case: Case, found: dict[str, list[Cost]]) -> str:
    parts = []
    for number, unit in enumerate(("CPU s", "s", "MB")):
        inline, isolated = ([cost[number] for cost in found[way]] for way in ("inline", "isolated"))
        ratio = median(b / a for a, b in zip(inline, isolated, strict=True))
        parts.append(f"{median(inline):7.2f} {unit} x {ratio:.2f}")
    return f"{case.name:30}" + "   ".join(parts)


if __name__ == "__main__":
    main()
