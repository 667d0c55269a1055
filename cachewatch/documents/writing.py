"""Write a document as cache.spack.io's generator has since April 2025: byte for byte the same for the same specs."""

import json
from collections import Counter
from collections.abc import Collection

from msgspec import Struct

from cachewatch.core.spack_spellings import UNION_STACK

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


class Listed(Struct, frozen=True):
    """A binary in the catalogue: with the stacks that build it, and the bytes of its tarball where known."""

    binary: Binary
    stacks: tuple[str, ...]
    size: int | None = None


def write_document(package: str, tag: str, specs: Collection[Listed]) -> bytes:
    """Return the document of `package`; its specs are sorted by hash and all belong to the union stack."""
    records = [_record(spec) for spec in sorted(specs, key=lambda spec: spec.binary.hash)]
    text = _TEMPLATE.format(package=package, tag=tag, meta=json.dumps(_meta(specs)), details=json.dumps(records))
    return text.encode()


def _record(spec: Listed) -> dict[str, object]:
    binary = spec.binary
    return {
        "compiler": binary.compiler,
        "hash": binary.hash,
        "os": binary.os,
        "platform": binary.platform,
        "size": NO_SIZE if spec.size is None else spec.size,
        "stacks": sorted({*spec.stacks, UNION_STACK}),
        "target": binary.target,
        "variants": list(binary.variants),
        "versions": [binary.version],
    }


def _meta(specs: Collection[Listed]) -> dict[str, object]:
    by_stack = Counter(stack for spec in specs for stack in {*spec.stacks, UNION_STACK})
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
