"""The records of `spec_details`: the quick way into types, and the patient one.

A document of a hundred specs has about ten signatures, and the generator writes equal ones
byte for byte alike. So the quick way cuts the text at the hashes and finds each signature by
what stands around its hash; only what was not seen yet is decoded, and checked, as JSON.
"""

import re
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


class Ends(dict[str, "tuple[Signature, Ends | None]"]):
    """What may follow the hash of a record that begins in one way.

    With each comes the signature, and the ends of the record behind; None is the last.
    """

    def __init__(self, beginning: str) -> None:
        super().__init__()
        self.beginning = beginning


class Known:
    """The signatures of documents that are read together, each one once."""

    def __init__(self) -> None:
        self.by_text: dict[tuple[str, str], Signature] = {}  # what stands before and behind the hash
        self._signatures: dict[Signature, Signature] = {}
        self._endings: dict[str, Ends] = {}

    def one(self, signature: Signature) -> Signature:
        """Return the one object that stands for `signature`."""
        return self._signatures.setdefault(signature, signature)

    def endings(self, beginning: str) -> Ends:
        """Return what is known of records that begin in this way."""
        found = self._endings.get(beginning)
        if found is None:
            found = self._endings[beginning] = Ends(beginning)
        return found


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
    """Cut `details` at its hashes; None if it is not of that form.

    What stands between two hashes is the rest of one record and the beginning of the next.
    The signature of a record is found by its beginning, then by what follows its hash.
    """
    beginning, *rest = details.split(_HASH_KEY)
    if not beginning.startswith("[{"):
        return None
    specs: dict[str, Signature] = {}
    ends: Ends | None = known.endings(beginning[2:])
    for text in rest:
        if ends is None:
            return None  # there is more behind the end
        spec_hash, end = text[:_HASH_LENGTH], text[_HASH_LENGTH:]
        found = ends.get(end)
        if found is None:
            found = _learn(ends, spec_hash, end, known)
            if found is None:
                return None
        specs[spec_hash], ends = found
    is_whole = ends is None and len(specs) == len(rest)
    return specs if is_whole and _are_hashes(specs) else None


def _learn(ends: Ends, spec_hash: str, end: str, known: Known) -> tuple[Signature, Ends | None] | None:
    """Note what an end means that was not seen yet; None if it is not of that form."""
    own, separator, beginning = end.rpartition("}, {")
    following = known.endings(beginning) if separator else None
    if end.endswith("}]"):
        own, following = end[:-2], None
    elif following is None:
        return None
    signature = known.by_text.get((ends.beginning, own))
    if signature is None:
        signature = _decode(f"{{{ends.beginning}{_HASH_KEY}{spec_hash}{own}}}", spec_hash)
        if signature is None:
            return None
        signature = known.by_text[ends.beginning, own] = known.one(signature)
    found = ends[end] = (signature, following)
    return found


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
        records = msgspec.convert(details or [], list[_AnyRecord], strict=False)
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
