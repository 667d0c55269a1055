"""What a pass over many tags for many subscriptions costs, each of which wants something else.

    python -m benchmarks.passes [--tags 40] [--subscriptions 200] [--packages 300] [--specs 15000] [--alike]

A few packages change in every tag, and every subscription has news. Prints the processor seconds of
`cachewatch once` without git's own share being taken off, its seconds, its peak memory without git, and how many
bytes of state a digest takes beyond its text.
"""

import argparse
import compileall
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from benchmarks.generate import Catalogue, Shape, generate
from benchmarks.measuring import Command
from benchmarks.memory import peak_memory
from benchmarks.subject import CHECKOUT
from cachewatch.store import digests_and_holds as digests
from cachewatch.store.transactions_and_sqlite import NAME, open_database

_CONFIG = {
    "version": 1,
    "channels": {"drop": {"type": "sendmail", "from": "cachewatch@example.org", "command": ["true"]}},
    "operators": {"channels": []},
}
# Each of them chooses some of every package, so that every subscription has news of most tags.
_WAYS = (
    lambda number: {"packages": [f"!package-{number:05}"]},
    lambda number: {"packages": [f"!package-{number:05}"], "targets": ["x86_64*", "aarch64"]},
    lambda number: {"packages": [f"!package-{number:05}"], "stacks": ["e4s*", "ml-*", "aws-*"]},
    lambda number: {"packages": ["py-*", "r-*", "lib*", f"!package-{number:05}"]},
)


class Load(NamedTuple):
    """How much a pass has to do."""

    tags: int
    subscriptions: int
    is_alike: bool  # whether all subscriptions ask the same


class Cost(NamedTuple):
    """What a pass takes."""

    processor: float  # seconds, of all processes
    seconds: float
    megabytes: float  # at most, of all Python processes together
    digests: int
    beyond_text: float  # bytes of state a digest, beyond the text of its mail
    load: Load


def main() -> None:
    """Measure one pass, and print a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tags", type=int, default=40)
    parser.add_argument("--subscriptions", type=int, default=200)
    parser.add_argument("--packages", type=int, default=300)
    parser.add_argument("--specs", type=int, default=15_000)
    parser.add_argument("--alike", action="store_true", help="all subscriptions ask the same")
    options = parser.parse_args()
    load = Load(options.tags, options.subscriptions, options.alike)
    with tempfile.TemporaryDirectory(prefix="cachewatch-bench-") as name:
        print(line(cost_of(Path(name), load, packages=options.packages, specs=options.specs)))


def cost_of(folder: Path, load: Load, *, packages: int, specs: int) -> Cost:
    """Make a catalogue in `folder` whose last commit touches every tag, and measure the pass over it."""
    compileall.compile_dir(CHECKOUT / "cachewatch", quiet=1)  # as pip does
    shape = Shape(packages=packages, specs=specs, commits=5, tags=load.tags, touched_tags=load.tags)
    return measure(folder / "site", generate(folder / "catalogue.git", shape), load)


def measure(folder: Path, catalogue: Catalogue, load: Load) -> Cost:
    """Return what the pass over the last commit of `catalogue` costs, which touches every tag."""
    folder.mkdir()
    upstream = folder / "upstream.git"
    subprocess.run(["git", "clone", "-q", "--bare", "--shared", str(catalogue.folder), str(upstream)], check=True)
    config = folder / "cachewatch.yaml"
    config.write_text(json.dumps(_configuration(folder, load)), "utf-8")
    config.chmod(0o600)
    newest = _git(upstream, "rev-parse", "main")
    _git(upstream, "update-ref", "refs/heads/main", f"{newest}~1")
    _once(folder).run()
    _git(upstream, "update-ref", "refs/heads/main", newest)
    _copy(folder / "state", folder / "kept")
    begun, used = time.perf_counter(), _used()
    _once(folder).run()
    processor, seconds = _used() - used, time.perf_counter() - begun
    digests, beyond = _stored(folder / "state")
    _copy(folder / "kept", folder / "state")
    return Cost(processor, seconds, peak_memory(_once(folder)).pythons, digests, beyond, load)


def line(cost: Cost) -> str:
    """Return a cost as a person reads it."""
    return (
        f"{cost.processor:.1f} CPU s   {cost.seconds:.1f} s   {cost.megabytes:.0f} MB"
        f"   {cost.digests} digests   {cost.beyond_text / 1000:.1f} kB each beyond their text"
    )


def _configuration(folder: Path, load: Load) -> dict[str, object]:
    return {
        **_CONFIG,
        "state": f"{folder}/state",
        "sources": {"upstream": {"git": f"{folder}/upstream.git", "tags": ["develop-*"], "stale_after": "4000d"}},
        "subscriptions": {
            f"s{number}": {
                "to": [f"reader{number}@example.org"],
                "channels": ["drop"],
                "changes": ["all"],
                "limit": {"hold_above": 10_000_000},
                **({} if load.is_alike else {"match": _WAYS[number % len(_WAYS)](number)}),
            }
            for number in range(1, load.subscriptions + 1)
        },
    }


def _stored(state: Path) -> tuple[int, float]:
    """Return how many digests there are, and the bytes of state that each takes beyond the text of its mail."""
    with closing(sqlite3.connect(state / NAME)) as connection:
        keys = [key for (key,) in connection.execute("SELECT key FROM digests")]
        (size,) = connection.execute(
            "SELECT sum(pgsize) FROM dbstat WHERE name IN ('digests', 'deliveries', 'bodies')"
        ).fetchone()
    with closing(open_database(state)) as database, database.read() as connection:
        records = [digests.get(connection, key) for key in keys]
    text = sum(len(record.rendered.text.encode()) for record in records if record)
    return len(keys), (size - text) / max(1, len(keys))


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["rm", "-rf", str(target)], check=True)
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def _once(folder: Path) -> Command:
    arguments = [sys.executable, "-m", "cachewatch", "once", "--config", str(folder / "cachewatch.yaml")]
    return Command(name="once", arguments=arguments, folder=CHECKOUT)


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", f"--git-dir={repository}", *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
