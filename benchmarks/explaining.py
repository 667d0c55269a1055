"""`python -m benchmarks.explaining`: what it takes to explain a night in which everything was rebuilt.

A cache is recorded, then the same cache with other hashes, in which a few packages have another version or recipe.
"""

import argparse
import base64
import hashlib
import re
import sys
import tempfile
from pathlib import Path

from benchmarks.cache_index import publish, write_cache
from benchmarks.measuring import Command
from benchmarks.memory import peak_memory
from benchmarks.recording import measure, spent
from benchmarks.subject import CHECKOUT

_HASH = re.compile(rb'"([a-z2-7]{32})"')
_EXTERNAL = re.compile(rb'[{,]"([a-z2-7]{32})":\{"spec":\{"name":"(?:gcc|glibc)"')
_NEW_VERSIONS, _NEW_RECIPES = (b"p0", b"p7"), (b"p1", b"p20", b"p50")


def rebuild(index: bytes) -> bytes:
    """Return an index with another hash of everything but externals."""
    externals = set(_EXTERNAL.findall(index))

    def other(match: re.Match[bytes]) -> bytes:
        made = base64.b32encode(hashlib.sha1(match[1], usedforsecurity=False).digest()).lower()
        return match[0] if match[1] in externals else b'"%s"' % made

    index = _HASH.sub(other, index)
    for name in _NEW_VERSIONS:
        index = index.replace(b'"name":"%s","version":"' % name, b'"name":"%s","version":"9' % name)
    for name in _NEW_RECIPES:
        recipe = re.search(rb'"name":"%s","version".*?"package_hash":"([^"]*)"' % name, index)
        assert recipe is not None
        index = index.replace(recipe[1], recipe[1][::-1])
    return index


def _seconds(checkout: Path, repository: Path) -> str:
    command = Command(
        name=str(checkout),
        arguments=[sys.executable, "-m", "cachewatch", "why", "--between", "HEAD~1", "HEAD", "--repo", repository],
        folder=repository.parent,
        environment={"PYTHONPATH": str(checkout)},
    )
    before = spent()
    memory = peak_memory(command).largest_python * 2**20 / 1e6
    return f"{checkout}: {spent() - before:.1f} s, {memory:,.0f} MB of memory"


def main() -> None:
    """Measure as the options say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explaining", description=main.__doc__)
    parser.add_argument("--specs", type=int, default=100_000)
    parser.add_argument("--packages", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cachewatch-explaining-") as name:
        folder = Path(name)
        index = write_cache(folder / "before", specs=options.specs, packages=options.packages).read_bytes()
        (folder / "index.json").write_bytes(rebuild(index))
        publish(folder / "after", folder / "index.json")
        for mirror in ("before", "after"):
            measure(CHECKOUT, folder / mirror, folder / "catalogue.git")
        for _ in range(options.rounds):
            print(_seconds(CHECKOUT, folder / "catalogue.git"), flush=True)


if __name__ == "__main__":
    main()
