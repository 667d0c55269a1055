"""Write documents, byte for byte as the generator of cache.spack.io has written them since April 2025."""

import json
from collections import Counter
from collections.abc import Collection

from msgspec import Struct

from cachewatch.core.versions_spellings_targets import UNION_STACK

_TEMPLATE = """---
title: "{package}"
layout: cache
categories: [package, {tag}]
meta: {meta}
spec_details: {details}
---"""


class Binary(Struct, frozen=True):
    """One built spec, with values spelled as in documents."""

    package: str
    hash: str
    version: str
    compiler: str
    os: str
    platform: str
    target: str
    variants: tuple[str, ...]


class ListedSpec(Struct, frozen=True):
    """A binary in the catalogue, with the stacks that build it."""

    binary: Binary
    stacks: tuple[str, ...]


def write_document(package: str, tag: str, specs: Collection[ListedSpec]) -> bytes:
    """Return the text of the document of `package`: specs are sorted by hash, and all get the union stack, too."""
    records = [
        {
            "compiler": binary.compiler,
            "hash": binary.hash,
            "os": binary.os,
            "platform": binary.platform,
            "size": "-",  # unknown
            "stacks": sorted({*spec.stacks, UNION_STACK}),
            "target": binary.target,
            "variants": binary.variants,
            "versions": [binary.version],
        }
        for spec in sorted(specs, key=lambda spec: spec.binary.hash)
        for binary in [spec.binary]
    ]
    by_stack: Counter[str] = Counter()
    for stacks, count in Counter(spec.stacks for spec in specs).items():
        by_stack.update(dict.fromkeys({*stacks, UNION_STACK}, count))
    meta = {
        "compilers": sorted({spec.binary.compiler for spec in specs}),
        "num_specs": len(specs),
        "num_specs_by_stack": dict(sorted(by_stack.items())),
        "oss": sorted({spec.binary.os for spec in specs}),
        "platforms": sorted({spec.binary.platform for spec in specs}),
        "stacks": sorted(by_stack),
        "targets": sorted({spec.binary.target for spec in specs}),
        "versions": sorted({spec.binary.version for spec in specs}),
    }
    values = {"package": package, "tag": tag, "meta": json.dumps(meta), "details": json.dumps(records)}
    return _TEMPLATE.format(**values).encode()
