"""Write documents, byte for byte as the generator of cache.spack.io has written them since April 2025."""

import json
from collections import Counter
from collections.abc import Collection
from typing import Any

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
    by_stack = Counter(stack for spec in specs for stack in {*spec.stacks, UNION_STACK})
    meta: dict[str, Any] = {
        f"{name}s": sorted({getattr(spec.binary, name) for spec in specs})
        for name in ("compiler", "os", "platform", "target", "version")
    }
    meta |= {"num_specs": len(specs), "num_specs_by_stack": by_stack, "stacks": sorted(by_stack)}
    details = json.dumps(records)
    return _TEMPLATE.format(package=package, tag=tag, meta=json.dumps(meta, sort_keys=True), details=details).encode()
