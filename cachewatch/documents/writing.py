"""Write a document as cache.spack.io's generator has since April 2025: byte for byte the same for the same specs."""

import json
from collections import Counter
from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import astuple

from cachewatch.core.spack import UNION_STACK

_TEMPLATE = """---
title: "{package}"
layout: cache
categories: [package, {tag}]
meta: {meta}
spec_details: {details}
---"""

# What stands where nobody knows the size.
NO_SIZE = "-"


class Binary(Struct, frozen=True):
    """One built spec, spelled as documents spell it."""

    package: str
    hash: str
    version: str
    compiler: str
    os: str
    platform: str
    target: str
    variants: tuple[str, ...]


class ListedSpec(Struct, frozen=True):
    """A binary in the catalogue: with the stacks that build it, and the bytes of its tarball where known."""

    binary: Binary
    stacks: tuple[str, ...]
    size: int | None = None


def write_document(package: str, tag: str, specs: Collection[ListedSpec]) -> bytes:
    """Return the document of `package`; its specs are sorted by hash and all belong to the union stack."""
    write = _DocumentWriter().write
    records = ", ".join(write(spec) for spec in sorted(specs, key=lambda spec: spec.binary.hash))
    text = _TEMPLATE.format(package=package, tag=tag, meta=json.dumps(_meta(specs)), details=f"[{records}]")
    return text.encode()


class _DocumentWriter:
    """Writes records; those of specs that differ only in their hash are encoded once."""

    def __init__(self) -> None:
        self._parts: dict[tuple[object, ...], tuple[str, str]] = {}

    def write(self, spec: ListedSpec) -> str:
        _, spec_hash, *rest = astuple(spec.binary)
        kind = (*rest, spec.size, spec.stacks)
        parts = self._parts.get(kind)
        if parts is None:
            parts = self._parts[kind] = _parts(spec)
        is_plain = spec_hash.isalnum() and spec_hash.isascii()
        return f'{parts[0]}"{spec_hash}"{parts[1]}' if is_plain else f"{parts[0]}{json.dumps(spec_hash)}{parts[1]}"


def _parts(spec: ListedSpec) -> tuple[str, str]:
    """Return what stands before and after the hash in the record of a spec."""
    binary = spec.binary
    after = {
        "os": binary.os,
        "platform": binary.platform,
        "size": NO_SIZE if spec.size is None else spec.size,
        "stacks": sorted({*spec.stacks, UNION_STACK}),
        "target": binary.target,
        "variants": list(binary.variants),
        "versions": [binary.version],
    }
    return f'{{"compiler": {json.dumps(binary.compiler)}, "hash": ', f", {json.dumps(after)[1:]}"


def _meta(specs: Collection[ListedSpec]) -> dict[str, object]:
    by_stack: Counter[str] = Counter()
    for stacks, count in Counter(spec.stacks for spec in specs).items():
        by_stack.update(dict.fromkeys({*stacks, UNION_STACK}, count))
    return {
        "compilers": sorted({spec.binary.compiler for spec in specs}),
        "num_specs": len(specs),
        "num_specs_by_stack": dict(sorted(by_stack.items())),
        "oss": sorted({spec.binary.os for spec in specs}),
        "platforms": sorted({spec.binary.platform for spec in specs}),
        "stacks": sorted(by_stack),
        "targets": sorted({spec.binary.target for spec in specs}),
        "versions": sorted({spec.binary.version for spec in specs}),
    }
