"""Measure how the history index is built; history_index.py prints and writes it.

All times but the elapsed ones are of the processor, and ratios are taken between measurements that alternate, since the
machine may have other work.
"""

import os
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from benchmarks.measuring import Figures
from benchmarks.subject import Peers
from cachewatch.extensions.history.versions_and_intervals import find_versions, first_parents
from cachewatch.git.git_processes import Git
from cachewatch.git.local_repository import Repository

_HASH = b'"hash": "'


@dataclass(frozen=True, slots=True, kw_only=True)
class Building:
    """What a build costs, in one process and in two."""

    revisions: int
    documents: int
    versions: int
    records: int  # of all versions
    events: int  # specs that came or went
    bytes: int
    processor: Figures  # seconds with one process
    elapsed: Figures  # with one
    elapsed_of_two: Figures


@dataclass(frozen=True, slots=True)
class Peer:
    """What git-history takes for the versions of one document of average size."""

    versions: int
    seconds: Figures  # of the processor, for each version


def _blobs(repository: Repository) -> Mapping[tuple[str, str], list[str | None]]:
    """Return the object ids of all versions of each document, by tag and package; None where it was removed."""
    commits = [moment.commit for moment in first_parents(repository)]
    found = find_versions(repository, commits).items()
    return {key: [version.blob for version in versions] for key, versions in found}


def measure_building(repository: Path, folder: Path, rounds: int) -> Building:
    """Build with one process and with two, in turns."""
    paths = {jobs: folder / f"{jobs}.db" for jobs in (1, 2)}
    used: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for _ in range(rounds):
        for jobs, path in paths.items():
            for file in folder.glob(f"{path.name}*"):
                file.unlink()
            build: list[str | Path] = ["history", "build", "--repo", repository, "--db", path, f"--jobs={jobs}"]
            used[jobs].append(_run(build))
    with closing(sqlite3.connect(paths[1])) as index:
        revisions, documents, came, went = (
            index.execute(query).fetchone()[0] or 0
            for query in (
                "SELECT count(*) FROM revision",
                "SELECT count(*) FROM document",
                "SELECT sum(size) FROM interval",
                "SELECT sum(size) FROM interval WHERE last IS NOT NULL",
            )
        )
    with closing(Repository(repository)) as opened:
        found = _blobs(opened)
        blobs = [blob for of_document in found.values() for blob in of_document if blob]
        records = sum(content.count(_HASH) for content in opened.objects().stream(blobs, kind="blob"))
    return Building(
        revisions=revisions,
        documents=documents,
        versions=sum(map(len, found.values())),
        records=records,
        events=came + went,
        bytes=paths[1].stat().st_size,
        processor=Figures(tuple(processor for processor, _ in used[1])),
        elapsed=Figures(tuple(elapsed for _, elapsed in used[1])),
        elapsed_of_two=Figures(tuple(elapsed for _, elapsed in used[2])),
    )


def _run(
    arguments: Sequence[str | Path],
    program: Sequence[str | Path] = (sys.executable, "-m", "cachewatch"),
    folder: Path | None = None,
) -> tuple[float, float]:
    """Return the seconds of the processor, and those elapsed, that a process and its children take."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = (
        {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))} if folder is None else None
    )
    subprocess.run(
        [*program, *arguments],
        check=True,
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - begun


def measure_peer(repository: Path, peers: Peers, folder: Path, rounds: int) -> Peer:
    """Let git-history tell the history of one document, as benchmarks/history.py does.

    Its versions are about as large as the average of all versions that a build reads, so that one costs what a build costs on average.
    """
    tree = folder / "documents of git-history"
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", repository, tree], check=True)
    with closing(Repository(repository)) as opened:
        versions = _blobs(opened)
        found = {key: [blob for blob in blobs if blob] for key, blobs in versions.items()}
        asked = sorted({blob for blobs in found.values() for blob in blobs})
        printed = Git(git_dir=opened.git_dir).ask(["cat-file", "--batch-check", "--buffer"], asked).output.decode()
        sizes = {fields[0]: int(fields[2]) for line in printed.splitlines() if len(fields := line.split()) == 3}
    usual = mean(sizes[blob] for blobs in found.values() for blob in blobs)
    several = [one for one, blobs in found.items() if one[0] == "develop" and len(blobs) > 1]
    one = min(several, key=lambda each: (abs(mean(sizes[blob] for blob in found[each]) - usual), each[1]))
    path = f"_cache/{one[0]}/{one[1]}/specs.md"
    subprocess.run(["git", "-C", tree, "checkout", "--quiet", "main", "--", path], check=True)
    command = peers.history(tree, [path], folder / "peer")
    seconds = [_run(command.arguments, (), tree)[0] / len(versions[one]) for _ in range(rounds)]
    return Peer(len(versions[one]), Figures(tuple(seconds)))
