"""The records of `spec_details`: the quick way into types, and the patient one.

A document of a hundred specs has about ten signatures, and the generator writes equal ones
byte for byte alike. So the quick way cuts each record at its hash and finds the signature by
the text that is left; only what was not seen yet is decoded, and checked, as JSON.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from cachewatch import spelling
from cachewatch.errors import UnreadableDocument
from cachewatch.model import Signature


class Records(Struct, frozen=True):
    """What `spec_details` holds, in one spelling."""

    specs: Mapping[str, Signature]
    repeated: Mapping[str, int]  # hashes that stand more than once, and how often
    has_old_compilers: bool


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    """A record as the generator writes it since 2025."""

    hash: str
    compiler: str | None
    os: str
    platform: str
    target: str
    size: str | int | float | None
    versions: tuple[str, ...]
    variants: tuple[str, ...]
    stacks: tuple[str, ...]


class _RecordWithTarball(_Record, forbid_unknown_fields=True):
    """A record as it was written before."""

    tarball: str


class _AnyRecord(msgspec.Struct):
    """A record as anybody may write it."""

    hash: str
    versions: tuple[str, ...] = ()
    compiler: str | None = None
    os: str = ""
    platform: str = ""
    target: str = ""
    variants: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()


_decode_record = msgspec.json.Decoder(_Record).decode
_decode_record_with_tarball = msgspec.json.Decoder(_RecordWithTarball).decode

_HASH_KEY = '"hash": "'
_HASH_LENGTH = 32
_OLD_COMPILER = re.compile(r'"compiler": "[^"]*@=')


class Known:
    """The signatures of documents that are read together, each one once."""

    def __init__(self) -> None:
        self.by_text: dict[str, Signature] = {}  # of a record, but for its hash
        self._signatures: dict[Signature, Signature] = {}

    def one(self, signature: Signature) -> Signature:
        """Return the one object that stands for `signature`."""
        return self._signatures.setdefault(signature, signature)


def read_records(details: str, known: Known) -> Records | None:
    """Read `spec_details` of the form that the generator writes, or return None: it takes patience."""
    try:
        found = {} if details == "[]" else _cut(details, known)
    except msgspec.MsgspecError:
        return None
    except RecursionError as error:
        raise UnreadableDocument("is nested too deeply") from error
    if found is None:
        return None
    return Records(found, {}, "@=" in details and _OLD_COMPILER.search(details) is not None)


def _cut(details: str, known: Known) -> dict[str, Signature] | None:
    """Cut `details` into records, and those at their hashes; None if it is not of that form."""
    if not (details.startswith("[{") and details.endswith("}]")):
        return None
    specs: dict[str, Signature] = {}
    by_text = known.by_text
    pieces = details[2:-2].split("}, {")
    for piece in pieces:
        start = piece.find(_HASH_KEY) + len(_HASH_KEY)
        end = start + _HASH_LENGTH
        spec_hash = piece[start:end]
        # No text holds a NUL, so none is taken for another.
        rest = f"{piece[:start]}\0{piece[end:]}"
        signature = by_text.get(rest)
        if signature is None:
            signature = _decode(f"{{{piece}}}", spec_hash)
            if signature is None:
                return None
            signature = by_text[rest] = known.one(signature)
        specs[spec_hash] = signature
    return specs if len(specs) == len(pieces) and _are_hashes(specs) else None


def _decode(text: str, spec_hash: str) -> Signature | None:
    """Decode one record as JSON; None unless it has this hash, and each of the usual members once."""
    record = (_decode_record_with_tarball if '"tarball":' in text else _decode_record)(text)
    # msgspec lets a repeated key win over the one before. All keys are required here and
    # no others allowed, so one too many shows in their number.
    is_usual = text.count('":') == len(record.__struct_fields__) and record.hash == spec_hash
    return _signature(record) if is_usual and "\\u0000" not in text else None


def _are_hashes(specs: Mapping[str, Signature]) -> bool:
    # The hashes are the one part of a record that was not decoded.
    together = "".join(specs).encode()
    return together.isalnum() and len(together) == _HASH_LENGTH * len(specs)


def records_of(details: Any, known: Known) -> Records:
    """Make records of plain Python values, or say which value is not what it should be."""
    try:
        records = msgspec.convert(details, list[_AnyRecord], strict=False)
    except msgspec.ValidationError as error:
        raise UnreadableDocument(f"spec_details: {error}") from error
    specs: dict[str, Signature] = {}
    counts = Counter(record.hash for record in records)
    for record in records:
        signature = _signature(record)
        if any("\0" in text for text in _texts(signature)):
            raise UnreadableDocument("holds a NUL character")
        specs.setdefault(record.hash, known.one(signature))
    for spec_hash in specs:
        if not (spec_hash.isascii() and spec_hash.isalnum()):
            raise UnreadableDocument(f"spec_details: {spec_hash[:40]!r} is not a hash")
    repeated = {spec_hash: count for spec_hash, count in counts.items() if count > 1}
    return Records(specs, repeated, any(spelling.is_old_compiler(record.compiler) for record in records))


def _signature(record: "_Record | _AnyRecord") -> Signature:
    return Signature(
        versions=record.versions,
        compiler=spelling.compiler(record.compiler),
        os=record.os,
        platform=record.platform,
        target=record.target,
        variants=spelling.variants(record.variants),
        stacks=spelling.stacks(record.stacks),
    )


def _texts(signature: Signature) -> Iterable[str]:
    yield from (signature.compiler, signature.os, signature.platform, signature.target)
    yield from (*signature.versions, *signature.variants, *signature.stacks)
