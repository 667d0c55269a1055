"""`python -m benchmarks.recording`: what recording a large build cache costs: memory, processor time, and room in the repository.

`--against CHECKOUT` measures another checkout of cachewatch in the same rounds, so that ratios can be compared on a busy machine.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cache_index import write_cache
from benchmarks.measuring import Command
from benchmarks.memory import peak_memory
from benchmarks.subject import CHECKOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one recording took."""

    seconds: float  # of the processor, git included
    megabytes: float  # at most, by cachewatch's own process
    tree: str
    packed: dict[str, float]  # megabytes in the repository, by the name of the file


def measure(checkout: Path, mirror: Path, repository: Path) -> Cost:
    """Record a mirror with a checkout of cachewatch into a new repository."""
    command = Command(
        name=str(checkout),
        arguments=[sys.executable, "-m", "cachewatch", "record", "-q", mirror, "--into", repository],
        folder=repository.parent,
        environment={"PYTHONPATH": str(checkout)},
    )
    before = spent()
    memory = peak_memory(command)
    tree = _git(repository, "rev-parse", "main^{tree}").strip()
    return Cost(
        seconds=spent() - before, megabytes=memory.largest_python * 2**20 / 1e6, tree=tree, packed=_packed(repository)
    )


def spent() -> float:
    """Return the seconds of the processor that all processes took that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _packed(repository: Path) -> dict[str, float]:
    """Return how many megabytes the files of each name take in the packs."""
    listed = [line.split("\t") for line in _git(repository, "ls-tree", "-r", "main").splitlines()]
    ids = "".join(f"{about.split()[2]}\n" for about, _ in listed)
    sizes = _git(repository, "cat-file", "--batch-check=%(objectsize:disk)", text=ids).split()
    found: dict[str, float] = {}
    for (_, path), size in zip(listed, sizes, strict=True):
        name = path.rpartition("/")[2]
        found[name] = found.get(name, 0.0) + int(size) / 1e6
    return found


def _git(repository: Path, *arguments: str, text: str = "") -> str:
    command = ["git", f"--git-dir={repository}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, input=text).stdout


def _rounds(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    blob = write_cache(folder / "mirror", specs=options.specs, packages=options.packages)
    size = blob.stat().st_size / 1e6
    yield f"{options.specs:,} specs of {options.packages:,} packages, an index of {size:,.0f} MB"
    for number in range(options.rounds):
        for place, checkout in enumerate((CHECKOUT, *options.against)):
            cost = measure(checkout.resolve(), folder / "mirror", folder / f"{number}-{place}.git")
            packed = ", ".join(f"{name} {megabytes:.1f} MB" for name, megabytes in sorted(cost.packed.items()))
            yield (
                f"{checkout}: {cost.seconds:.1f} s, {cost.megabytes:,.0f} MB of memory"
                f" ({cost.megabytes / size:.2f} times the index); packed: {packed}; tree {cost.tree[:10]}"
            )


def main() -> None:
    """Measure as the options say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recording", description=main.__doc__)
    parser.add_argument("--specs", type=int, default=100_000)
    parser.add_argument("--packages", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--against", type=Path, action="append", default=[], metavar="CHECKOUT")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cachewatch-recording-") as folder:
        for line in _rounds(options, Path(folder)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
