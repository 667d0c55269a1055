"""Packages that live: what a package of a build cache looks like, and how it changes from day to day."""

from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from benchmarks.documents import Signature

_UBUNTU22, _UBUNTU24 = "ubuntu22.04", "ubuntu24.04"
# (os, platform, target, compilers, stacks that are built there)
_PLACES = (
    (_UBUNTU22, "linux", "x86_64_v3", ("gcc@11.4.0", "gcc@12.3.0"), ("e4s", "build_systems", "radiuss", "tutorial")),
    (_UBUNTU22, "linux", "neoverse_v1", ("gcc@11.4.0",), ("e4s-neoverse_v1",)),
    (_UBUNTU22, "linux", "ppc64le", ("gcc@9.4.0",), ("e4s-power",)),
    (_UBUNTU22, "linux", "x86_64_v3", ("intel-oneapi-compilers@2025.1.0",), ("e4s-oneapi",)),
    (_UBUNTU24, "linux", "x86_64_v3", ("gcc@13.2.0",), ("e4s-rocm-external", "ml-linux-x86_64-rocm")),
    (_UBUNTU24, "linux", "x86_64_v3", ("gcc@13.2.0",), ("ml-linux-x86_64-cpu", "ml-linux-x86_64-cuda")),
    (_UBUNTU24, "linux", "aarch64", ("gcc@13.2.0",), ("ml-linux-aarch64-cpu", "ml-linux-aarch64-cuda")),
    ("sequoia", "darwin", "aarch64", ("apple-clang@16.0.0",), ("ml-darwin-aarch64-mps", "developer-tools-darwin")),
    ("amzn2", "linux", "x86_64_v4", ("gcc@12.3.0", "gcc@14.2.0"), ("aws-pcluster-x86_64_v4",)),
    ("amzn2", "linux", "neoverse_v1", ("gcc@12.3.0",), ("aws-pcluster-neoverse_v1",)),
    ("rhel8", "linux", "x86_64_v3", ("gcc@8.5.0", "gcc@13.2.0"), ("developer-tools-x86_64_v3-linux-gnu",)),
    ("windows10.0", "windows", "x86_64", ("msvc@19.39.33523",), ("windows-vis",)),
)
STACKS = tuple(sorted({stack for *_, stacks in _PLACES for stack in stacks}))
_SYSTEMS = ("autotools", "cmake", "generic", "makefile", "meson", "python_pip", "r")
_NAMES = ("cuda", "docs", "fortran", "hdf5", "ipo", "mpi", "openmp", "pic", "python", "rocm", "shared", "static", "x")


@dataclass(frozen=True, slots=True)
class Rates:
    """How many of all packages something happens to from one rebuild of all to the next."""

    upgraded: float
    recompiled: float
    reconfigured: float
    restacked: float
    unreferenced: float
    resized: float

    def over(self, commits: int) -> "Rates":
        """Return the rates for one of so many rebuilds that lie between two revisions."""
        names = self.__slots__
        return Rates(*(getattr(self, name) / commits for name in names))


BETWEEN_FAR = Rates(upgraded=0.05, recompiled=0.02, reconfigured=0.03, restacked=0.04, unreferenced=0.03, resized=0.3)
# Half of the specs of varied packages change their version.
BETWEEN_VARIED = replace(BETWEEN_FAR, upgraded=0.7)
# Of 130 specs of a real pair 27 were added, 21 removed and 7 changed; `touch` comes near to that.
_SMALL = Rates(upgraded=0.1, recompiled=0.02, reconfigured=0.05, restacked=0.4, unreferenced=0.05, resized=0.6)


class Package:
    """One package: its signatures, with the numbers of the builds that have each."""

    def __init__(self, name: str, specs: int, random: Random, *, is_varied: bool = False) -> None:
        """Make a package of so many specs; about ten of a large one are alike, of a varied one 2.5."""
        self.name = name
        self._last = 0
        wanted = min(15, max(1, round(specs**0.5 * random.uniform(0.8, 1.3))), specs)
        wanted = max(1, round(specs / 2.5)) if is_varied else wanted
        signatures = _signatures(wanted, random, is_varied=is_varied)
        weights = [random.expovariate(1) + 0.1 for _ in signatures]
        scale = (specs - len(signatures)) / sum(weights)
        self.groups = [(s, self._builds(1 + round(w * scale))) for s, w in zip(signatures, weights, strict=True)]

    def __len__(self) -> int:
        return sum(len(numbers) for _, numbers in self.groups)

    def rebuild(self, rates: Rates, random: Random) -> None:
        """Build everything anew, as when a compiler's recipe changes; a tenth of the packages only in part."""
        is_partial = random.random() < 0.1
        # What was unreferenced is pruned now, and what becomes unreferenced keeps its hash.
        self.groups = [group for group in self.groups if group[0].stacks] or self.groups
        self.groups = [
            (signature, numbers if is_partial and place and random.random() < 0.3 else self._builds(len(numbers)))
            for place, (signature, numbers) in enumerate(self.groups)
        ]
        self._evolve(rates, random)

    def touch(self, random: Random) -> None:
        """Build a few things anew, as on an ordinary day."""
        for place, (signature, numbers) in enumerate(self.groups):
            if place == 0 or random.random() < 0.4:
                fresh = self._builds(max(1, len(numbers) // 3))
                self.groups[place] = (signature, numbers[len(fresh) :] + fresh)
        self._evolve(_SMALL, random)

    def nudge(self, random: Random) -> None:
        """Build one spec in fifty anew, as on a night on which nothing happened; upstream has one event in a hundred records."""
        place = random.randrange(len(self.groups))
        signature, numbers = self.groups[place]
        fresh = self._builds(max(1, len(self) // 50))
        self.groups[place] = (signature, numbers[len(fresh) :] + fresh)

    def snapshot(self, tag_number: int, edition: int) -> list[tuple[Signature, list[int]]]:
        """Return the few builds of this package in a dated tag."""
        built = [signature for signature, _ in self.groups if signature.stacks] or [self.groups[0][0]]
        first = tag_number % len(built)
        chosen = (built[first:] + built[:first])[:4]
        return [(s, [-(1 + place + 10 * (tag_number + 1000 * edition))]) for place, s in enumerate(chosen)]

    def _builds(self, count: int) -> "array[int]":
        self._last += count
        return array("q", range(self._last - count, self._last))

    def _evolve(self, rates: Rates, random: Random) -> None:
        steps: tuple[tuple[float, Callable[[Random], None]], ...] = (
            (rates.upgraded, self._upgrade),
            (rates.recompiled, self._recompile),
            (rates.reconfigured, self._reconfigure),
            (rates.restacked, self._restack),
            (rates.unreferenced, self._leave_over),
            (rates.resized, self._resize),
        )
        for rate, step in steps:
            if random.random() < rate:
                step(random)
        self._merge()

    def _upgrade(self, random: Random) -> None:
        old = random.choice(self.groups)[0].version
        self._renew(lambda s: replace(s, version=_bumped(old)) if s.version == old else s)

    def _recompile(self, random: Random) -> None:
        old = random.choice(self.groups)[0].compiler
        new = {"none": "gcc@13.2.0", "gcc@13.2.0": "gcc@14.2.0"}.get(old, "gcc@13.2.0")
        self._renew(lambda s: replace(s, compiler=new) if s.compiler == old else s)

    def _reconfigure(self, random: Random) -> None:
        flipped = random.choice(_NAMES)
        self._renew(lambda s: replace(s, variants=_flipped(s.variants, flipped)))

    def _renew(self, change: Callable[[Signature], Signature]) -> None:
        """Change what a signature says, which makes other builds of it."""
        changed = [(change(signature), signature, numbers) for signature, numbers in self.groups]
        self.groups = [(new, numbers if new == old else self._builds(len(numbers))) for new, old, numbers in changed]

    def _restack(self, random: Random) -> None:
        place = random.randrange(len(self.groups))
        signature, numbers = self.groups[place]
        stacks = {*signature.stacks} ^ {random.choice(STACKS)}
        self.groups[place] = (replace(signature, stacks=tuple(sorted(stacks))), numbers)

    def _leave_over(self, random: Random) -> None:
        place = random.randrange(len(self.groups))
        signature, numbers = self.groups[place]
        self.groups[place] = (replace(signature, stacks=()), numbers)

    def _resize(self, random: Random) -> None:
        place = random.randrange(len(self.groups))
        signature, numbers = self.groups[place]
        if len(numbers) > 2 and random.random() < 0.5:
            self.groups[place] = (signature, numbers[: -1 - len(numbers) // 8])
        else:
            self.groups[place] = (signature, numbers + self._builds(1 + len(numbers) // 8))

    def _merge(self) -> None:
        merged: dict[Signature, array[int]] = {}
        for signature, numbers in self.groups:
            merged[signature] = merged[signature] + numbers if signature in merged else numbers
        self.groups = list(merged.items())


def _signatures(wanted: int, random: Random, *, is_varied: bool) -> list[Signature]:
    is_compiled = random.random() < 0.6
    system = random.choice(_SYSTEMS)
    names = _NAMES if is_varied else random.sample(_NAMES, random.randint(0, 5))
    first = f"{random.randint(0, 9)}.{random.randint(0, 20)}.{random.randint(0, 9)}"
    versions = [first, _bumped(first), _bumped(_bumped(first))][: random.choice((1, 1, 1, 2, 2, 3))]
    found: dict[Signature, None] = {}
    while len(found) < wanted:
        os, platform, target, compilers, stacks = random.choice(_PLACES)
        signs = [f"{random.choice('+~') if random.random() < 0.3 else '~'}{name}" for name in names]
        signature = Signature(
            compiler=random.choice(compilers) if is_compiled else "none",
            os=os,
            platform=platform,
            target=target,
            stacks=tuple(sorted(random.sample(stacks, random.randint(1, min(3, len(stacks)))))),
            variants=(f"build_system={system}", *sorted(signs)),
            version=random.choice(versions),
        )
        found[signature] = None
    return list(found)


def _bumped(version: str) -> str:
    major, minor, patch = version.split(".")
    return f"{major}.{int(minor) + 1}.{patch}"


def _flipped(variants: tuple[str, ...], name: str) -> tuple[str, ...]:
    opposite = {f"+{name}": f"~{name}", f"~{name}": f"+{name}"}
    changed = tuple(opposite.get(variant, variant) for variant in variants)
    return changed if changed != variants else (*variants, f"+{name}")
