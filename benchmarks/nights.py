"""Make a repository of many nights, as a build cache publishes them; `python -m benchmarks.nights FOLDER`.

On most nights a tenth of the packages change, most of them a little. Now and then half of them are built anew, and a snapshot is tagged.
"""

import argparse
import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import IO

from benchmarks.churn import BETWEEN_VARIED, Package
from benchmarks.documents import document
from benchmarks.generate import packages_of, write_commit

_CHANGED, _TOUCHED = 0.1, 0.1
_REBUILDS_EVERY, _REBUILT = 40, 0.5
_SNAPSHOT_EVERY = 50


def generate(folder: Path, *, nights: int, packages: int, specs: int, seed: int) -> None:
    """Make the bare repository `folder`, packed as a server packs it."""
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", folder], check=True)
    git = ["git", f"--git-dir={folder}"]
    with subprocess.Popen(
        [*git, "-c", "core.compression=1", "fast-import", "--quiet", "--depth=0"], stdin=subprocess.PIPE
    ) as writer:
        assert writer.stdin is not None
        _write(writer.stdin, nights, packages_of(packages, specs, Random(seed)), seed)
    if writer.returncode:
        raise RuntimeError(f"git fast-import ended with {writer.returncode}")
    subprocess.run([*git, "repack", "-adfq", "--depth=50", "--window=10"], check=True)
    subprocess.run([*git, "commit-graph", "write", "--reachable"], check=True, stderr=subprocess.DEVNULL)


def _write(stream: IO[bytes], nights: int, packages: Sequence[Package], seed: int) -> None:
    random = Random(seed)
    rates = BETWEEN_VARIED.over(max(1, nights // _REBUILDS_EVERY))
    for night in range(nights):
        write_commit(stream, night, f"night {night}")
        changed: Sequence[Package] = packages
        if night % _REBUILDS_EVERY == 1:
            changed = random.sample(packages, round(len(packages) * _REBUILT))
            for package in changed:
                package.rebuild(rates, random)
        elif night:
            changed = random.sample(packages, max(1, round(len(packages) * _CHANGED)))
            for package in changed:
                (package.touch if random.random() < _TOUCHED else package.nudge)(random)
        _write_all(stream, "develop", changed, seed)
        if night % _SNAPSHOT_EVERY == _SNAPSHOT_EVERY // 2:
            _write_all(
                stream, f"develop-{2025 + night // 360}-{1 + night // 30 % 12:02}-{1 + night % 30:02}", packages, seed
            )


def _write_all(stream: IO[bytes], tag: str, packages: Sequence[Package], seed: int) -> None:
    for package in packages:
        content = document(package.name, tag, package.groups, seed)
        path = f"_cache/{tag}/{package.name}/specs.md".encode()
        stream.write(b"M 100644 inline %s\ndata %d\n%s\n" % (path, len(content), content))


def main() -> None:
    """Make a repository as the options say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nights", description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nights", type=int, default=400)
    parser.add_argument("--packages", type=int, default=1500)
    parser.add_argument("--specs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = vars(parser.parse_args())
    generate(options.pop("folder"), **options)


if __name__ == "__main__":
    main()
