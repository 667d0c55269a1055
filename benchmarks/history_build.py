"""Measure how the history index is built; `python -m benchmarks.history_build [REPOSITORY]`.

Without a repository, one of 400 nights and 1,500 packages is made first, which takes longer than all the rest. All times are
of the processor, and ratios are taken between measurements that alternate, since the machine may have other work.
"""

import argparse
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks import nights
from cachewatch.documents.parsing import parse
from cachewatch.documents.records import Known
from cachewatch.git.document_versions import DocumentVersions, find_versions, first_parents
from cachewatch.git.repository import Repository
from cachewatch.history_db.record_differences import DocumentReader

_DOCUMENTS = 200
_ROUNDS = 3
_FEW = 0.1
_HASH = b'"hash": "'


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history_build", description=main.__doc__)
    parser.add_argument("repository", type=Path, nargs="?")
    parser.add_argument("--git-history", type=Path, metavar="PROGRAM", help="also measure this peer, on one document")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cachewatch-bench-") as folder:
        repository = options.repository or Path(folder, "nights.git")
        if options.repository is None:
            nights.generate(repository, nights=400, packages=1500, specs=100_000, seed=1)
        _reading(repository)
        seconds = _building(repository, Path(folder))
        if options.git_history:
            _peer(repository, options.git_history, Path(folder), seconds)


def _reading(folder: Path) -> None:
    """Compare reading the difference of neighbouring versions with reading each of them."""
    with closing(Repository(folder)) as repository:
        chains = [chain for contents in _sample(repository) for chain in _quiet(contents)]
    times = {"whole": 0.0, "difference": 0.0}
    for _ in range(_ROUNDS):
        for chain in chains:
            for name, prepared in (("whole", _parser(chain)), ("difference", _reader(chain))):
                begun = time.process_time()
                for content in chain[1:]:
                    prepared(content)
                times[name] += time.process_time() - begun
    records = _ROUNDS * sum(content.count(_HASH) for chain in chains for content in chain[1:])
    each = {name: seconds / records * 1e6 for name, seconds in times.items()}
    ratio = each["whole"] / each["difference"]
    print(
        f"reading {records:,} records of neighbouring versions with few changes, {each['whole']:.2f} us each as whole"
    )
    print(f"  documents, {each['difference']:.2f} us each by their differences: {ratio:.1f} times as fast (2)")


def _quiet(contents: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Yield runs of versions of which few specs are new; upstream has one event in a hundred records."""
    chain, before = [contents[0]], _hashes(contents[0])
    for content in contents[1:]:
        hashes = _hashes(content)
        if len(hashes - before) > _FEW * len(hashes):
            yield chain
            chain = []
        chain.append(content)
        before = hashes
    yield chain


def _hashes(content: bytes) -> set[bytes]:
    return {part[:32] for part in content.split(_HASH)[1:]}


def _sample(repository: Repository) -> Iterator[list[bytes]]:
    """Yield the contents of the versions of documents of develop."""
    commits = [moment.commit for moment in first_parents(repository)]
    found = [one for one in find_versions(repository, commits) if one.tag == "develop"]
    for one in found[:: max(1, len(found) // _DOCUMENTS)]:
        yield list(repository.objects().stream(_blobs(one), kind="blob"))


def _blobs(one: DocumentVersions) -> list[str]:
    return [version.blob for version in one.versions if version.blob]


def _parser(chain: Sequence[bytes]) -> Callable[[bytes], object]:
    """Return what reads whole documents, and knows the signatures of the first version."""
    known = Known()
    parse(chain[0], "specs.md", known)
    return lambda content: parse(content, "specs.md", known)


def _reader(chain: Sequence[bytes]) -> Callable[[bytes], object]:
    """Return what reads differences, and has read the first version."""
    reader = DocumentReader(Known())
    reader.read(chain[0], "specs.md")
    return lambda content: reader.read(content, "specs.md")


def _building(repository: Path, folder: Path) -> float:
    """Build with one process and with two; return the seconds of one for each version."""
    paths = {jobs: folder / f"{jobs}.db" for jobs in (1, 2)}
    used = {
        jobs: _run(["history", "build", "--repo", repository, "--db", path, f"--jobs={jobs}"])
        for jobs, path in paths.items()
    }
    with closing(sqlite3.connect(paths[1])) as index:
        revisions, documents, specs, ended = (
            index.execute(query).fetchone()[0] or 0
            for query in (
                "SELECT count(*) FROM revision",
                "SELECT count(*) FROM document",
                "SELECT sum(size) FROM interval",
                "SELECT sum(size) FROM interval WHERE last IS NOT NULL",
            )
        )
    size, versions = paths[1].stat().st_size, _versions(repository)
    print(f"building {revisions:,} revisions, {documents:,} documents, {versions:,} versions: ", end="")
    print(", ".join(f"{seconds:.0f} s of the processor with {jobs} processes" for jobs, (seconds, _) in used.items()))
    # With as many idle processors as processes.
    print(
        f"  elapsed: {used[1][1]:.0f} s with one, {used[2][1]:.0f} s with two: {used[1][1] / used[2][1]:.2f} times as fast (1.6)"
    )
    print(f"  {size / 1e6:.0f} MB for {specs + ended:,} spec events: {size / (specs + ended):.1f} bytes each (50)")
    return used[1][0] / versions


def _versions(folder: Path) -> int:
    with closing(Repository(folder)) as repository:
        commits = [moment.commit for moment in first_parents(repository)]
        return sum(len(one.versions) for one in find_versions(repository, commits))


def _run(
    arguments: Sequence[str | Path], program: Sequence[str | Path] = (sys.executable, "-m", "cachewatch")
) -> tuple[float, float]:
    """Return the seconds of the processor, and those elapsed, that a process and its children take."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([*program, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - begun


def _peer(repository: Path, program: Path, folder: Path, ours: float) -> None:
    """Let git-history tell the history of one document of usual size."""
    tree = folder / "tree"
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", repository, tree], check=True)
    with closing(Repository(repository)) as opened:
        commits = [moment.commit for moment in first_parents(opened)]
        found = [one for one in find_versions(opened, commits) if one.tag == "develop"]
    one = sorted(found, key=lambda each: (len(each.versions), each.package))[len(found) // 2]
    path = f"_cache/{one.tag}/{one.package}/specs.md"
    subprocess.run(["git", "-C", tree, "checkout", "--quiet", "main", "--", path], check=True)
    code = "import json; front = content.decode().split('spec_details: ')[1].split('\\n')[0]; return json.loads(front)"
    os.chdir(tree)
    seconds, _ = _run(
        ["file", folder / "peer.db", path, "--id", "hash", "--convert", code.replace("; ", "\n")], [program]
    )
    theirs = seconds / len(one.versions)
    print(
        f"git-history, {path}: {theirs * 1e3:.1f} ms a version against {ours * 1e3:.2f} ms: {theirs / ours:.0f} times (300)"
    )


if __name__ == "__main__":
    main()
