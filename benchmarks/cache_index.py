"""Make a build cache of layout 3 with a large index, the same for the same seed; `python -m benchmarks.cache_index`.

Records are written one at a time, so that an index of a gigabyte fits. A record is as long as a real one:
about a kilobyte, with 4.9 dependencies.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_FLAGS = ("cflags", "cppflags", "cxxflags", "fflags", "ldflags", "ldlibs")
_TARGETS = ("x86_64_v3", "x86_64_v4", "neoverse_v1")
_SYSTEMS = ("ubuntu22.04", "amzn2")
_USES = (["build"], ["link"], ["build", "link"])
_COMPILERS = 4
_GENERATIONS = 6  # how often everything was built again


@dataclass(frozen=True, slots=True)
class _Recipe:
    """What all specs of one version of a package share."""

    name: str
    version: str
    recipe: str
    parameters: dict[str, Any]
    needs: tuple[tuple[str, list[str]], ...]  # other packages, and how they are used


@dataclass(frozen=True, slots=True)
class _Environment:
    """What specs that were built together share."""

    os: str
    target: str
    compiler: list[dict[str, Any]]  # the dependencies that come with it
    built: dict[str, str]  # hashes by package


def write_cache(folder: Path, *, specs: int, packages: int, seed: int = 1) -> Path:
    """Make a mirror of layout 3 whose index has so many specs, and return the path of the index."""
    unnamed = folder / "index.json"
    folder.mkdir(parents=True)
    with unnamed.open("wb") as file:
        file.writelines(piece.encode() for piece in _pieces(specs, packages, Random(seed)))
    return publish(folder, unnamed)


def publish(folder: Path, unnamed: Path) -> Path:
    """Make a mirror of layout 3 with this index, which is moved there, and return its path."""
    with unnamed.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    blob = folder / "blobs/sha256" / checksum[:2] / checksum
    blob.parent.mkdir(parents=True)
    unnamed.rename(blob)
    manifest = folder / "v3/manifests/index/index.manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps(_manifest(checksum, blob.stat().st_size)))
    return blob


def _manifest(checksum: str, length: int) -> dict[str, Any]:
    about = {
        "contentLength": length,
        "mediaType": "application/vnd.spack.db.v8+json",
        "compression": "none",
        "checksumAlgorithm": "sha256",
        "checksum": checksum,
    }
    return {"version": 3, "data": [about]}


def _pieces(specs: int, packages: int, random: Random) -> Iterator[str]:
    """Yield the text of the index: externals first, then binaries, each of which depends on earlier ones."""
    yield '{"database":{"version":"8","installs":{'
    libc = ("glibc", "2.35", _hash(random))
    compilers = [("gcc", f"{11 + number}.2.0", _hash(random)) for number in range(_COMPILERS)]
    yield ",".join(_external(*each) for each in (libc, *compilers))
    recipes = _recipes(packages, random)
    environments = _environments(libc[2], [spec_hash for *_, spec_hash in compilers], random)
    for recipe in random.choices(recipes, [random.lognormvariate(0, 1.1) for _ in recipes], k=specs):
        environment = random.choice(environments)
        spec_hash = _hash(random)
        yield "," + _record(spec_hash, recipe, environment, random.randrange(9))
        environment.built[recipe.name] = spec_hash
    yield "}}}"


def _recipes(packages: int, random: Random) -> list[_Recipe]:
    found: list[_Recipe] = []
    for number in range(packages):
        needs = random.sample(found, min(len(found), random.choice((2, 3, 3, 4))))
        uses = tuple((other.name, random.choice(_USES)) for other in needs)
        variant = random.choice(("shared", "mpi", "openmp", "python", "static", "pic", "doc", "cuda"))
        parameters = {"build_system": "cmake", variant: random.random() < 0.5} | {flag: [] for flag in _FLAGS}
        version = f"{random.randrange(1, 9)}.{random.randrange(20)}.{random.randrange(10)}"
        found.append(_Recipe(f"p{number}", version, _hash(random, 52) + "====", parameters, uses))
    return found


def _environments(libc: str, compilers: list[str], random: Random) -> list[_Environment]:
    shared = [
        [
            _edge("gcc", compiler, ["build"], ["c", "cxx"]),
            _edge("glibc", libc, ["link"], ["libc"]),
            _edge("gcc-runtime", _hash(random), ["link"], []),
        ]
        for compiler in compilers
    ]
    return [
        _Environment(system, target, random.choice(shared), {})
        for system in _SYSTEMS
        for target in _TARGETS
        for _ in range(_GENERATIONS)
    ]


def _record(spec_hash: str, recipe: _Recipe, environment: _Environment, dependents: int) -> str:
    own = [(name, environment.built[name], uses) for name, uses in recipe.needs if name in environment.built]
    node = {
        "name": recipe.name,
        "version": recipe.version,
        "arch": {"platform": "linux", "platform_os": environment.os, "target": environment.target},
        "namespace": "builtin",
        "parameters": recipe.parameters,
        "package_hash": recipe.recipe,
        "dependencies": [*environment.compiler, *(_edge(*need, []) for need in own)],
        "hash": spec_hash,
    }
    return _member(spec_hash, {"spec": node, "ref_count": dependents, "in_buildcache": True})


def _external(name: str, version: str, spec_hash: str) -> str:
    node = {
        "name": name,
        "version": version,
        "arch": {"platform": "linux", "platform_os": "ubuntu22.04", "target": "x86_64_v3"},
        "namespace": "builtin",
        "parameters": {"build_system": "autotools", "languages": ["c", "c++"]} | {flag: [] for flag in _FLAGS},
        "external": {"path": f"/opt/{version}", "module": None, "extra_attributes": {}},
        "package_hash": "a" * 52 + "====",
        "hash": spec_hash,
    }
    return _member(spec_hash, {"spec": node, "ref_count": 1, "in_buildcache": False})


def _member(key: str, value: dict[str, Any]) -> str:
    return f'"{key}":{json.dumps(value, separators=(",", ":"))}'


def _edge(name: str, spec_hash: str, types: list[str], virtuals: list[str]) -> dict[str, Any]:
    return {"name": name, "hash": spec_hash, "parameters": {"deptypes": types, "virtuals": virtuals}}


def _hash(random: Random, length: int = 32) -> str:
    bits = random.getrandbits(5 * length)
    return "".join(_LETTERS[bits >> 5 * place & 31] for place in range(length))


def main() -> None:
    """Make a build cache as the options say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cache_index", description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--specs", type=int, default=100_000)
    parser.add_argument("--packages", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    blob = write_cache(options.folder, specs=options.specs, packages=options.packages, seed=options.seed)
    print(f"{blob}: {blob.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
