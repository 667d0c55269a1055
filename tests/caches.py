"""Small build caches of the form that Spack writes, so that a test names only what matters to it."""

import gzip
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from helpers import spec_hash

from cachewatch.documents.records_parsing_diagnostics import Binary
from cachewatch.extensions.buildcaches.indexes_and_published_tags import CacheIndex

Installs = dict[str, dict[str, Any]]

GCC = "g" * 32
FLAGS = ("cflags", "cppflags", "cxxflags", "fflags", "ldflags", "ldlibs")


def node(name: str = "zlib", version: object = "1.0", **values: Any) -> dict[str, Any]:
    """Return a spec of form 5, compiled by gcc 12.2.0."""
    arch = {"platform": "linux", "platform_os": "debian12", "target": "x86_64_v3"}
    parameters = {"build_system": "cmake", "shared": True} | {flag: [] for flag in FLAGS}
    usual = {"name": name, "version": version, "arch": arch, "parameters": parameters}
    return usual | {"dependencies": [edge("gcc", GCC, "c", "cxx")]} | values


def edge(name: str, dependency: str, *virtuals: str) -> dict[str, Any]:
    return {"name": name, "hash": dependency, "parameters": {"deptypes": ["build"], "virtuals": list(virtuals)}}


def installs(*nodes: dict[str, Any], start: int = 0) -> Installs:
    """Return these nodes as records in the cache, and gcc as one that is not."""
    found: Installs = {GCC: {"spec": node("gcc", "12.2.0", dependencies=[]), "ref_count": 1, "in_buildcache": False}}
    for number, spec in enumerate(nodes, start):
        found[spec_hash(number)] = {"spec": spec, "ref_count": 0, "in_buildcache": True}
    return found


def many(count: int, name: str = "zlib", start: int = 0) -> Installs:
    """Return so many specs of one package that differ in their hashes."""
    return installs(*(node(name) for _ in range(count)), start=start)


def database(found: Mapping[str, Any], version: str = "8") -> bytes:
    return json.dumps({"database": {"version": version, "installs": found}}).encode()


def binaries(index: CacheIndex) -> list[Binary]:
    """Return what an index says is in the cache, by package."""
    return [binary for package in index.specs.packages for binary, _ in index.specs.read(package)]


def write_v3(
    folder: Path, index: bytes, *, view: str = "", compression: str = "none", said: Mapping[str, str] | None = None
) -> str:
    """Make a mirror of layout 3, or publish another index in it; return the checksum."""
    data = gzip.compress(index, mtime=0) if compression == "gzip" else index
    checksum = hashlib.sha256(data).hexdigest()
    sums = {"checksumAlgorithm": "sha256", "checksum": checksum, "compression": compression}
    blob = sums | {"contentLength": len(data), "mediaType": "application/vnd.spack.db.v8+json"} | dict(said or {})
    put(folder / "blobs/sha256" / checksum[:2] / checksum, data)
    manifest = json.dumps({"version": 3, "data": [blob]}).encode()
    put(folder / "v3/manifests/index" / view / "index.manifest.json", manifest)
    return checksum


def catalogued(bucket: Path, path: str, label: str, found: Installs) -> dict[str, str]:
    """Publish an index of layout 3 in a bucket, and return its entry in the list of a catalogue."""
    checksum = write_v3(bucket / path, database(found))
    return {"label": label, "url": f"s3://spack-binaries/{path}/blobs/sha256/{checksum[:2]}/{checksum}"}


def write_v2(folder: Path, index: bytes, *, has_hash: bool = True) -> None:
    """Make a mirror of layout 2, or publish another index in it."""
    put(folder / "build_cache/index.json", index)
    if has_hash:
        put(folder / "build_cache/index.json.hash", hashlib.sha256(index).hexdigest().encode())


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
