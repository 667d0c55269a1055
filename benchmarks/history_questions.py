"""Questions to a history index of upstream's size, each in a fresh process; history_index.py prints and writes it.

The index is synthetic: 1,500 revisions of 1,250 packages in a branch and 40 snapshots, 8.9 million events (a spec that
came or went). What is measured is the processor time of the whole process, beside that of an empty Python and
of `cachewatch --version`, in rounds that take turns. The least of all rounds is shown beside the median, because a
machine that is busy with something else makes processor time longer, and never shorter.
"""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from random import Random

from benchmarks.measuring import Figures
from cachewatch.extensions.history.schema_and_location import INDEXES, open_for_writing, unpack

REVISIONS, PACKAGES, SNAPSHOTS = 1_500, 1_250, 40
LIVE_SPECS, GROUP = 100_000, 8
REBUILT_SHARE = 0.0164  # of the live specs, in each revision
# Of the first package to the last: the largest has a thirtieth of everything.
WEIGHTS = [1 / (rank + 5) for rank in range(PACKAGES)]
START, DAY = 1_650_000_000, 86_400
STACKS = [
    f"{kind}-{machine}" for kind in ("e4s", "ml-linux", "radiuss", "hep", "tutorial", "data-vis") for machine in "abc"
]
PASS, VERSION = "python -c pass", "cachewatch --version"


class Synthetic:
    """Rows of an index, made as a builder would leave them."""

    def __init__(self, path: Path, revisions: int = REVISIONS) -> None:
        self.revisions = revisions
        self.random = Random(1)
        self.connection = open_for_writing(path)
        self.ids = count(1)
        self.open: dict[int, list[tuple[int, int, int, bytes]]] = {}  # by package: id, build, stacks, hashes
        self.prefixes: list[tuple[bytes, int]] = []
        self.events = 0

    def make(self) -> None:
        """Write everything, in one transaction."""
        self.connection.execute("BEGIN")
        self._names()
        self._begin()
        for number in range(1, self.revisions):
            self._night(number)
            if number % max(1, self.revisions // SNAPSHOTS) == 0:
                self._snapshot(number)
        self.prefixes.sort()
        self.connection.executemany("INSERT OR IGNORE INTO spec VALUES (?, ?)", self.prefixes)
        for statement in INDEXES.split(";\n"):
            self.connection.execute(statement)
        self.connection.execute("UPDATE progress SET indexed = ?", (self.revisions - 1,))
        self.connection.execute("COMMIT")
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.connection.close()

    def _names(self) -> None:
        many = self.connection.executemany
        many(
            "INSERT INTO revision VALUES (?, ?, ?)", ((n, f"{n:040x}", START + DAY * n) for n in range(self.revisions))
        )
        many("INSERT INTO package VALUES (?, ?)", ((n, f"package-{n:04}") for n in range(PACKAGES)))
        tags = ["develop", *(f"develop-20{n // 12:02}-{n % 12 + 1:02}-01" for n in range(SNAPSHOTS))]
        many("INSERT INTO tag VALUES (?, ?)", enumerate(tags))
        builds = (
            (n, json.dumps([f"{n % 40 // 10}.{n % 10}"]), f"gcc@{11 + n % 3}", "ubuntu22.04", "linux",
             ("x86_64_v3", "aarch64")[n % 2], json.dumps([f"v={n // 40}"]))
            for n in range(800)
        )  # fmt: skip
        many("INSERT INTO build VALUES (?, ?, ?, ?, ?, ?, ?)", builds)
        for number in range(60):
            names = sorted({STACKS[number % len(STACKS)], STACKS[number * 7 % len(STACKS)]})[: 1 + number % 2]
            self.connection.execute(
                "INSERT OR IGNORE INTO stacks VALUES (?, ?)", (number, json.dumps([*names, f"s{number}"]))
            )
            many("INSERT INTO stack VALUES (?, ?)", ((number, name) for name in [*names, f"s{number}"]))

    def _begin(self) -> None:
        for package, weight in enumerate(WEIGHTS):
            groups = max(1, round(LIVE_SPECS / GROUP * weight / sum(WEIGHTS)))
            self.open[package] = [self._come(0, package, 0) for _ in range(groups)]
            self.connection.execute("INSERT INTO document VALUES (0, ?, NULL, 0, 0, 0)", (package,))

    def _come(
        self, tag: int, package: int, first: int, like: tuple[int, int, int, bytes] | None = None
    ) -> tuple[int, int, int, bytes]:
        number = next(self.ids)
        build = like[1] if like else self.random.randrange(800)
        stacks = like[2] if like else self.random.randrange(60)
        hashes = like[3] if like and tag else b"".join(sorted(self.random.randbytes(20) for _ in range(GROUP)))
        row = (number, tag, package, build, stacks, first, None, len(hashes) // 20, hashes)
        self.connection.execute("INSERT INTO interval VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        self.prefixes += [(hashes[at : at + 5], number) for at in range(0, len(hashes), 20)]
        self.events += len(hashes) // 20
        return number, build, stacks, hashes

    def _night(self, number: int) -> None:
        """Build some packages again, until enough specs came."""
        left = LIVE_SPECS * REBUILT_SHARE
        tallies: dict[int, int] = {}
        done: set[int] = set()
        while left > 0:
            (package,) = self.random.choices(range(PACKAGES), WEIGHTS)
            if package in done:
                continue
            done.add(package)
            groups = self.open[package]
            some = self.random.sample(range(len(groups)), min(len(groups), 20))
            for place in some:
                old = groups[place]
                self.connection.execute("UPDATE interval SET last = ? WHERE id = ?", (number, old[0]))
                groups[place] = self._come(0, package, number, old)
                tallies[old[2]] = tallies.get(old[2], 0) + GROUP
            specs = len(some) * GROUP
            self.events += specs
            left -= specs
            self.connection.execute(
                "INSERT OR IGNORE INTO step VALUES (0, ?, ?, ?, ?, ?, 0, 1)", (package, number, specs, specs, specs - 1)
            )
        rows = [(stacks, number, specs, specs, specs) for stacks, specs in tallies.items()]
        self.connection.executemany("INSERT INTO tally VALUES (0, ?, ?, ?, ?, ?)", rows)

    def _snapshot(self, number: int) -> None:
        tag = number // max(1, self.revisions // SNAPSHOTS)
        if tag > SNAPSHOTS:
            return
        for package, groups in self.open.items():
            for one in groups:
                self._come(tag, package, number, one)


def questions(path: Path) -> Mapping[str, Sequence[str]]:
    """Return the arguments of each question."""
    connection = sqlite3.connect(path)
    (revisions,) = connection.execute("SELECT count(*) FROM revision").fetchone()
    ((most,),) = connection.execute("SELECT max(id) FROM interval")
    sample = connection.execute("SELECT hashes FROM interval WHERE id % ? = 0 LIMIT 300", (max(1, most // 300),))
    hashes = [blob[:20] for (blob,) in sample]
    (gone,) = connection.execute(
        "SELECT hashes FROM interval WHERE last IS NOT NULL AND package = 0 LIMIT 1"
    ).fetchone()
    connection.close()
    lock = path.with_name("spack.lock")
    specs = {_text(each): {"name": "p", "version": "1", "hash": _text(each)} for each in hashes}
    lock.write_text(json.dumps({"_meta": {"lockfile-version": 6}, "roots": [], "concrete_specs": specs}))
    return {
        "when PACKAGE@VERSION": ["history", "when", "package-0100@1"],
        "when PACKAGE (the largest)": ["history", "when", "package-0000"],
        "blame HASH (alive)": ["history", "blame", _text(hashes[-1])[:9]],
        "blame HASH (gone, of the largest)": ["history", "blame", _text(gone[:20])[:9]],
        "log PACKAGE": ["log", "package-0600"],
        "log PACKAGE (the largest)": ["log", "package-0000"],
        "log": ["log"],
        "churn": ["history", "churn"],
        "churn of four weeks": ["history", "churn", "--since", f"HEAD~{min(28, revisions - 1)}"],
        "churn --by stack": ["history", "churn", "--by", "stack"],
        "best (300 hashes)": ["history", "best", str(lock)],
    }


def _text(packed: bytes) -> str:
    return unpack(packed)[0]


def size_of(path: Path) -> tuple[int, int]:
    """Return how many specs came or went in an index, and its bytes."""
    connection = sqlite3.connect(path)
    query = "SELECT sum(size) + sum(iif(last IS NULL, 0, size)) FROM interval"
    (events,) = connection.execute(query).fetchone()
    connection.close()
    return events, path.stat().st_size


def cpu_seconds(arguments: Sequence[str], environment: Mapping[str, str]) -> float:
    """Run a process to its end, and return the processor time that it took."""
    process = subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def measure(path: Path, rounds: int) -> dict[str, Figures]:
    """Return what each process took in all rounds, in seconds of the processor."""
    program = [sys.executable, "-m", "cachewatch"]
    commands = {
        PASS: [sys.executable, "-c", "pass"],
        VERSION: [*program, "--version"],
        **{name: [*program, *words] for name, words in questions(path).items()},
    }
    python_path = os.pathsep.join(map(os.path.abspath, sys.path))
    environment = {**os.environ, "CACHEWATCH_HISTORY": str(path), "PYTHONPATH": python_path}
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, arguments in commands.items():
            taken[name].append(cpu_seconds(arguments, environment))
    return {name: Figures(tuple(times)) for name, times in taken.items()}
