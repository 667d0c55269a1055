"""Make a realistic repository of a catalogue, the same for the same seed; `python -m benchmarks.generate`.

Documents are written into `git fast-import` one at a time, so that 15,000 packages fit.
"""

import argparse
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import IO

from benchmarks.churn import BETWEEN_FAR, BETWEEN_VARIED, STACKS, Package
from benchmarks.documents import UNION_STACK, document, tags_file

_FIRST_DAY = datetime(2025, 5, 1, 4, tzinfo=UTC)
_NEWEST_TAG = date(2025, 4, 27)
_SMALL_PACKAGES = 12

Touch = Callable[[Package], None]


class Commit(StrEnum):
    """What one commit touches."""

    ALL = "all packages"
    SMALL = "a few packages"
    DATED = "a few packages of some dated tags"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large a repository is to be, and what it is made of at random."""

    packages: int
    specs: int
    commits: int = 12
    tags: int = 40
    seed: int = 1
    touched_tags: int = 4  # by the last commit
    is_varied: bool = False  # 2.5 specs a distinct record instead of ten, and many upgrades


@dataclass(frozen=True, slots=True)
class Catalogue:
    """A repository that was made, and its revisions from the oldest."""

    folder: Path
    shape: Shape
    commits: tuple[Commit, ...]

    @property
    def far(self) -> tuple[str, str]:
        """Two revisions between which every document of develop differs."""
        return self._name(0), self._name(self._last(Commit.ALL))

    @property
    def small(self) -> tuple[str, str]:
        """The last revision that touches a few packages of develop, and the one before."""
        last = self._last(Commit.SMALL)
        return self._name(last - 1), self._name(last)

    @property
    def neighbours(self) -> list[tuple[str, str]]:
        """Each revision that touches develop with the one before, from the oldest."""
        return [
            (self._name(place - 1), self._name(place))
            for place, commit in enumerate(self.commits)
            if place and commit is not Commit.DATED
        ]

    def _last(self, wanted: Commit) -> int:
        return max(place for place, commit in enumerate(self.commits) if commit is wanted)

    def _name(self, place: int) -> str:
        return f"main~{len(self.commits) - 1 - place}"


def generate(folder: Path, shape: Shape) -> Catalogue:
    """Make the bare repository `folder`, packed as a server packs it."""
    commits = _plan(shape.commits, has_tags=shape.tags > 0)
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", folder], check=True)
    git = ["git", f"--git-dir={folder}"]
    # Deltas and compression are left to the repack.
    with subprocess.Popen(
        [*git, "-c", "core.compression=1", "fast-import", "--quiet", "--depth=0"], stdin=subprocess.PIPE
    ) as writer:
        assert writer.stdin is not None
        _Writer(writer.stdin, shape).write(commits)
    if writer.returncode:
        raise RuntimeError(f"git fast-import ended with {writer.returncode}")
    subprocess.run([*git, "repack", "-adfq", "--depth=50", "--window=10"], check=True)
    subprocess.run([*git, "commit-graph", "write", "--reachable"], check=True, stderr=subprocess.DEVNULL)
    return Catalogue(folder, shape, commits)


def _plan(count: int, *, has_tags: bool) -> tuple[Commit, ...]:
    """Say what each commit touches; the first one makes all, and the last one is about dated tags."""
    develop = [Commit.ALL if place == 0 or place % 2 else Commit.SMALL for place in range(count - has_tags)]
    if Commit.SMALL not in develop:
        raise ValueError("a repository takes 4 commits at least")
    return (*develop, Commit.DATED) if has_tags else tuple(develop)


class _Writer:
    """Writes commits for `git fast-import`, and remembers the packages between them."""

    def __init__(self, stream: IO[bytes], shape: Shape) -> None:
        self._stream = stream
        self._shape = shape
        self._random = Random(shape.seed)
        self._packages = packages_of(shape.packages, shape.specs, self._random, is_varied=shape.is_varied)
        self._named = shape.packages
        self._tags = [f"develop-{_NEWEST_TAG - timedelta(weeks=week)}" for week in range(shape.tags)]

    def write(self, commits: tuple[Commit, ...]) -> None:
        """Write all commits."""
        rates = (BETWEEN_VARIED if self._shape.is_varied else BETWEEN_FAR).over(max(1, commits.count(Commit.ALL) - 1))
        for place, commit in enumerate(commits):
            write_commit(self._stream, place, commit)
            if place == 0:
                self._write_first()
            elif commit is Commit.ALL:
                self._come_and_go()
                self._change(self._packages, lambda package: package.rebuild(rates, self._random))
            elif commit is Commit.SMALL:
                self._change(self._few(), lambda package: package.touch(self._random))
            else:
                self._write_tags(self._tags[: self._shape.touched_tags], self._few(), edition=1)

    def _package(self, specs: int) -> Package:
        self._named += 1
        return _package(self._named, specs, self._random, is_varied=self._shape.is_varied)

    def _few(self) -> list[Package]:
        return self._random.sample(self._packages, min(_SMALL_PACKAGES, len(self._packages)))

    def _write_first(self) -> None:
        self._change(self._packages, lambda _: None)
        self._write_tags(self._tags, self._packages, edition=0)
        stacks = (*STACKS, UNION_STACK)
        self._write("_data/tags.yaml", tags_file((tag, stacks) for tag in ("develop", *self._tags)))

    def _come_and_go(self) -> None:
        """Remove some packages, and make as many new ones."""
        few = max(1, round(len(self._packages) * 0.002))
        for package in self._random.sample(self._packages, few):
            self._packages.remove(package)
            self._stream.write(f"D _cache/develop/{package.name}\n".encode())
        self._packages += [self._package(1 + self._random.randrange(20)) for _ in range(few)]

    def _change(self, packages: list[Package], touch: Touch) -> None:
        for package in packages:
            touch(package)
            content = document(package.name, "develop", package.groups, self._shape.seed)
            self._write(f"_cache/develop/{package.name}/specs.md", content)

    def _write_tags(self, tags: list[str], packages: list[Package], *, edition: int) -> None:
        for number, tag in enumerate(tags):
            for package in packages:
                content = document(package.name, tag, package.snapshot(number, edition), self._shape.seed)
                self._write(f"_cache/{tag}/{package.name}/specs.md", content)

    def _write(self, path: str, content: bytes) -> None:
        self._stream.write(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(content), content))


def write_commit(stream: IO[bytes], day: int, about: str) -> None:
    """Begin the commit of a day."""
    time = _FIRST_DAY + timedelta(days=day)
    message = f"Automated push with new spack cache data {time.date()}: {about}".encode()
    stream.write(b"commit refs/heads/main\n")
    stream.write(b"committer bench <bench@localhost> %d +0000\n" % int(time.timestamp()))
    stream.write(b"data %d\n%s\n" % (len(message), message))


def packages_of(packages: int, specs: int, random: Random, *, is_varied: bool = False) -> list[Package]:
    """Return so many packages that have so many specs together."""
    sizes = _sizes(packages, specs, random)
    return [_package(number, size, random, is_varied=is_varied) for number, size in enumerate(sizes, 1)]


def _package(number: int, specs: int, random: Random, *, is_varied: bool) -> Package:
    prefix = random.choice(("", "py-", "r-", "lib", "perl-"))
    return Package(f"{prefix}package-{number:05}", specs, random, is_varied=is_varied)


def _sizes(packages: int, specs: int, random: Random) -> Iterator[int]:
    """Yield how many specs each package has: most have few, and a few have very many."""
    drawn = [random.lognormvariate(0, 1.1) for _ in range(packages)]
    scale = specs / sum(drawn)
    yield from (max(1, round(size * scale)) for size in drawn)


def main() -> None:
    """Make a repository as the options say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generate", description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--packages", type=int, default=1500)
    parser.add_argument("--specs", type=int, default=100_000)
    parser.add_argument("--commits", type=int, default=12)
    parser.add_argument("--tags", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--varied", dest="is_varied", action="store_true", help="fewer specs that are alike")
    options = parser.parse_args()
    shape = Shape(**{name: value for name, value in vars(options).items() if name != "folder"})
    made = generate(options.folder, shape)
    print(f"{options.folder}: far {'..'.join(made.far)}, small {'..'.join(made.small)}")


if __name__ == "__main__":
    main()
