"""The records of `spec_details`: the quick way into types, and the patient one.

The quick way never builds the lists of a record. Their JSON is the key under which the
signature is found, and most records share theirs with others of the document, so that a
hundred specs cost a hundred lookups and a handful of decoded lists.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from cachewatch import spelling
from cachewatch.errors import UnreadableDocument
from cachewatch.model import Signature


@dataclass(frozen=True, slots=True)
class Records:
    """What `spec_details` holds, in one spelling."""

    specs: Mapping[str, Signature]
    repeated: Mapping[str, int]  # hashes that stand more than once, and how often
    has_old_compilers: bool


# gc=False: the collector would otherwise walk hundreds of thousands of them again and again.
class _Record(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A record as the generator writes it since 2025."""

    hash: str
    compiler: str | None
    os: str
    platform: str
    target: str
    size: str | int | float | None
    versions: msgspec.Raw
    variants: msgspec.Raw
    stacks: msgspec.Raw


class _RecordWithTarball(_Record, gc=False, forbid_unknown_fields=True):
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


_decode_records = msgspec.json.Decoder(list[_Record]).decode
_decode_records_with_tarball = msgspec.json.Decoder(list[_RecordWithTarball]).decode
_decode_texts = msgspec.json.Decoder(tuple[str, ...]).decode

Known = dict[tuple[object, ...], Signature]


def read_records(details: bytes, known: Known) -> Records | None:
    """Decode `spec_details` of the usual form, or return None if it has to be read patiently."""
    has_tarball = b'"tarball":' in details
    decode = _decode_records_with_tarball if has_tarball else _decode_records
    try:
        records = decode(details)
        # msgspec lets a repeated key win over the one before. All keys are required here
        # and no others allowed, so one too many shows in their number.
        fields = 10 if has_tarball else 9
        if details.count(b'":') != fields * len(records):
            return None
        return _collect((record.hash, _signature(record, known), record.compiler) for record in records)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    except RecursionError as error:
        raise UnreadableDocument("is nested too deeply") from error


def records_of(details: Any, known: Known) -> Records:
    """Make records of plain Python values, or say which value is not what it should be."""
    try:
        records = msgspec.convert(details or [], list[_AnyRecord], strict=False)
    except msgspec.ValidationError as error:
        raise UnreadableDocument(f"spec_details: {error}") from error
    return _collect((record.hash, _intern(record, known), record.compiler) for record in records)


def _collect(found: Iterable[tuple[str, Signature, str | None]]) -> Records:
    specs: dict[str, Signature] = {}
    repeats: list[str] = []
    compilers = set()
    for spec_hash, signature, compiler in found:
        if spec_hash in specs:
            repeats.append(spec_hash)
        else:
            specs[spec_hash] = signature
        compilers.add(compiler)
    _check_hashes(specs)
    repeated = {spec_hash: count + 1 for spec_hash, count in Counter(repeats).items()}
    return Records(specs, repeated, any(map(spelling.is_old_compiler, compilers)))


def _check_hashes(hashes: Mapping[str, Signature]) -> None:
    together = "".join(hashes)
    if "" in hashes or not (together.isascii() and (together.isalnum() or not together)):
        wrong = next(text for text in hashes if not (text.isascii() and text.isalnum()))
        raise UnreadableDocument(f"spec_details: {wrong[:40]!r} is not a hash")


def _signature(record: _Record, known: Known) -> Signature:
    key = (
        record.compiler,
        record.os,
        record.platform,
        record.target,
        bytes(record.versions),
        bytes(record.variants),
        bytes(record.stacks),
    )
    signature = known.get(key)
    if signature is None:
        plain = _AnyRecord(
            hash=record.hash,
            versions=_decode_texts(record.versions),
            compiler=record.compiler,
            os=record.os,
            platform=record.platform,
            target=record.target,
            variants=_decode_texts(record.variants),
            stacks=_decode_texts(record.stacks),
        )
        signature = known[key] = _intern(plain, known)
    return signature


def _intern(record: _AnyRecord, known: Known) -> Signature:
    signature = Signature(
        versions=record.versions,
        compiler=spelling.compiler(record.compiler),
        os=record.os,
        platform=record.platform,
        target=record.target,
        variants=spelling.variants(record.variants),
        stacks=spelling.stacks(record.stacks),
    )
    if any("\0" in text for text in _texts(signature)):
        raise UnreadableDocument("holds a NUL character")
    return known.setdefault(signature.sort_key, signature)


def _texts(signature: Signature) -> Iterable[str]:
    yield from (signature.compiler, signature.os, signature.platform, signature.target)
    yield from (*signature.versions, *signature.variants, *signature.stacks)
