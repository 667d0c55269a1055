"""Check `meta`, which repeats the specs, against them. It is never compared itself."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from cachewatch.core import spack_spellings
from cachewatch.core.model import CompilerForm
from cachewatch.core.package_facts import Facts
from cachewatch.documents.limits import MAX_PATIENT_BYTES
from cachewatch.documents.records import Records


class _Meta(msgspec.Struct):
    num_specs: int | None = None
    versions: set[str] | None = None
    compilers: set[str | None] | None = None
    oss: set[str] | None = None
    platforms: set[str] | None = None
    targets: set[str] | None = None
    stacks: set[str] | None = None


_decode_meta = msgspec.json.Decoder(_Meta, strict=False).decode


def disagreements(meta: Any, records: Records, facts: Facts) -> Iterator[str]:
    """Say where `meta` (JSON or plain values, or None for none) does not repeat `records` and their `facts`."""
    if meta is None or records.repeated:
        return  # what is listed twice is a fault of its own
    if isinstance(meta, str) and len(meta) > MAX_PATIENT_BYTES:
        yield f"meta is larger than {MAX_PATIENT_BYTES // 2**20} MiB; the specs are used"
        return
    try:
        said = _read(meta)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        yield f"meta cannot be read ({error}); the specs are used"
        return
    listed = len(records.specs)
    if said.num_specs is not None and said.num_specs != listed:
        yield f"meta says {said.num_specs} specs, there are {listed}; the specs are used"
    for name, values, found in _pairs(said, records.compiler_form, facts):
        if values is not None and values != found:
            differing = ", ".join(sorted(values ^ found)[:5])
            yield f"meta and the specs name different {name} ({differing}); the specs are used"


def _read(meta: Any) -> _Meta:
    if not isinstance(meta, str):
        return msgspec.convert(meta, _Meta, strict=False)
    try:
        return _decode_meta(meta)
    except msgspec.MsgspecError:
        # A version without quotes is the text that it was written as.
        return msgspec.convert(json.loads(meta, parse_float=str), _Meta, strict=False)


def _pairs(said: _Meta, form: CompilerForm, facts: Facts) -> Iterator[tuple[str, set[str] | None, frozenset[str]]]:
    yield "versions", said.versions, facts["versions"]
    unnamed = {spack_spellings.NO_COMPILER} if form is CompilerForm.MISSING else set()
    compilers = None if said.compilers is None else set(map(spack_spellings.compiler, said.compilers)) - unnamed
    yield "compilers", compilers, facts["compilers"] - unnamed
    yield "operating systems", said.oss, facts["oses"]
    yield "platforms", said.platforms, facts["platforms"]
    yield "targets", said.targets, facts["targets"]
    yield "stacks", None if said.stacks is None else said.stacks - {spack_spellings.UNION_STACK}, facts["stacks"]
