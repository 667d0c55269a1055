"""Read `spec_details`, the JSON list of a document's specs: a fast parser and a tolerant one.

A document of a hundred specs has about ten signatures (a signature is a spec without its hash), and the generator
writes equal ones byte for byte alike. So the fast parser cuts the hash out of each record, counts how often each
remaining text occurs, and decodes and checks each distinct text once as JSON.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from cachewatch.core import versions_spellings_targets as spack
from cachewatch.core.model import CompilerForm, Signature, Specs
from cachewatch.errors import UnreadableDocument


class Records(Struct, frozen=True):
    """The decoded records of a document, with values in uniform spelling."""

    specs: Specs
    repeated: Mapping[str, int]  # hashes that are listed more than once, with their number of records
    unnamed: int = 0  # records without a hash
    odd: Sequence[str] = ()  # hashes that do not look like those of Spack
    compiler_form: CompilerForm = CompilerForm.NEW
    without_compiler: int = 0  # records in which the compiler is missing or empty


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    """A record as the generator has written it since 2025."""

    hash: str
    compiler: str | None
    os: str
    platform: str
    target: str
    size: str | int | float | None
    versions: tuple[str, ...]
    variants: msgspec.Raw  # lists of texts, with few distinct ones: each is decoded once
    stacks: msgspec.Raw
    tarball: str | None = None  # as it was written before


class _AnyRecord(msgspec.Struct):
    """A record in any form that the tolerant parser accepts."""

    hash: str | None = None
    versions: tuple[str, ...] = ()
    compiler: str | None = None
    os: str = ""
    platform: str = ""
    target: str = ""
    variants: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()


_decode_record = msgspec.json.Decoder(_Record).decode
_decode_list = msgspec.json.Decoder(tuple[str, ...]).decode
_LONGEST_KEPT = 2048  # bytes of a list, so that no document fills the memory with lists

_MOST_UNNAMED = 20_000  # records without a hash, each of which gets a long key
_HASH_LENGTH = 32
# Texts of a few hundred characters, and their signatures: some 20 MB.
_MANY = 20_000
_HASH_KEY = '"hash": "'
_OPENING, _BETWEEN, _CLOSING = "[{", "}, {", "}]"


class KnownRecords:
    """A cache of the signatures in documents that are read together; equal ones become one object."""

    def __init__(self) -> None:
        self.by_text: dict[str, Signature] = {}  # by the text of a record with an empty hash
        self.old: set[str] = set()  # texts that name a compiler as before Spack 1.0
        self.unnamed: set[str] = set()  # texts in which the compiler is empty
        self._signatures: dict[Signature, Signature] = {}

    def one(self, signature: Signature) -> Signature:
        """Return the object that stands for all signatures equal to `signature`."""
        return self._signatures.setdefault(signature, signature)

    def form_of(self, texts: Collection[str]) -> CompilerForm:
        """Return how the records with these texts name the compiler."""
        if self.unnamed and texts and self.unnamed.issuperset(texts):
            return CompilerForm.MISSING
        return CompilerForm.NEW if self.old.isdisjoint(texts) else CompilerForm.OLD

    def forget_many(self) -> None:
        """Clear this cache if it is large; call it only between documents."""
        if len(self.by_text) > _MANY:
            self.by_text.clear()
            self.old.clear()
            self.unnamed.clear()
            self._signatures.clear()


def read_records(details: str, known: KnownRecords) -> Records | None:
    """Read `spec_details` with the fast parser; None if the generator would have written it in another way."""
    try:
        return Records(Specs.of({}), {}) if details == "[]" else _cut(details, known)
    except msgspec.MsgspecError:
        return None
    except RecursionError as error:
        raise UnreadableDocument("is nested too deeply") from error


def _cut(details: str, known: KnownRecords) -> Records | None:
    """Cut `details` into records and their hashes; None if the generator would have written it in another way."""
    records = _split_records(details)
    if records is None:
        return None
    # `_are_hashes` checks that each is a hash, and not empty because its record has none.
    parts = [record.partition(_HASH_KEY) for record in records]
    hashes = [rest[:_HASH_LENGTH] for _, _, rest in parts]
    texts = [start + key + rest[_HASH_LENGTH:] for start, key, rest in parts]
    distinct = frozenset(hashes)
    if len(distinct) < len(hashes) or not _are_hashes(hashes):
        return None  # a hash is there twice, or is none
    copies = Counter(texts)
    counts: Counter[Signature] = Counter()
    for text, count in copies.items():
        signature = known.by_text.get(text) or _learn(text, known)
        if signature is None:
            return None
        counts[signature] += count
    specs = Specs(distinct, counts, zip(hashes, map(known.by_text.__getitem__, texts), strict=True))
    without_compiler = sum(copies[text] for text in known.unnamed.intersection(copies)) if known.unnamed else 0
    return Records(specs, {}, compiler_form=known.form_of(copies), without_compiler=without_compiler)


def _split_records(details: str) -> list[str] | None:
    """Cut `details` into the texts of its records; None if the generator would have written it otherwise.

    No regular expression is used, so that the time is linear for every input.
    """
    if not (details.startswith(_OPENING) and details.endswith(_CLOSING)):
        return None
    records = details.split(_BETWEEN)
    records[0] = records[0][len(_OPENING) :]
    records[-1] = records[-1][: -len(_CLOSING)]
    return records


def _learn(text: str, known: KnownRecords) -> Signature | None:
    """Decode `text`, a record without its hash, and cache its signature; None if its keys are not the usual ones."""
    record = _decode_record(f"{{{text}}}")
    # msgspec lets a repeated key win over the one before. All other keys are required here and
    # no others allowed, so one too many shows in their number.
    members = len(record.__struct_fields__) - (record.tarball is None)
    is_usual = text.count('":') == members and not record.hash
    if not is_usual or ("\\" in text and "\\u0000" in text):
        return None
    if spack.is_old_compiler(record.compiler):
        known.old.add(text)
    if not record.compiler:
        known.unnamed.add(text)
    variants, stacks = _variants(record.variants), _stacks(record.stacks)
    signature = known.by_text[text] = known.one(_signature(record, variants, stacks))
    return signature


def _spelled(spell: Callable[[tuple[str, ...]], tuple[str, ...]]) -> Callable[[msgspec.Raw], tuple[str, ...]]:
    """Return a function that decodes a JSON list and applies `spell`; it caches 4,096 short lists."""

    def spelled(written: bytes) -> tuple[str, ...]:
        return spell(_decode_list(written))

    kept = lru_cache(maxsize=4096)(spelled)

    def find(raw: msgspec.Raw) -> tuple[str, ...]:
        written = bytes(raw)
        return kept(written) if len(written) <= _LONGEST_KEPT else spelled(written)

    return find


_variants, _stacks = _spelled(spack.variants), _spelled(spack.stacks)


def _are_hashes(hashes: Collection[str]) -> bool:
    """Tell whether each text has 32 small letters and digits."""
    # The hashes are the one part of a record that was not decoded.
    together = "".join(hashes).encode()
    return together.isalnum() and len(together) == _HASH_LENGTH * len(hashes) and together.islower()


def records_of(details: Any, known: KnownRecords) -> Records:
    """Make records from decoded YAML or JSON. Raises UnreadableDocument, which names the wrong value."""
    try:
        records = msgspec.convert(details, list[_AnyRecord], strict=False)
    except msgspec.ValidationError as error:
        raise UnreadableDocument(f"spec_details: {error}") from error
    without_hash = sum(not record.hash for record in records)
    if without_hash > _MOST_UNNAMED:
        raise UnreadableDocument(f"has {without_hash:,} specs without a hash; the limit is {_MOST_UNNAMED:,}")
    specs: dict[str, Signature] = {}
    unnamed: list[Signature] = []
    counts = Counter(record.hash for record in records if record.hash)
    for record in records:
        signature = _signature(record, spack.variants(record.variants), spack.stacks(record.stacks))
        of_one = signature.compiler, signature.os, signature.platform, signature.target
        if any("\0" in text for text in (*of_one, *signature.versions, *signature.variants, *signature.stacks)):
            raise UnreadableDocument("holds a NUL character")
        if record.hash:
            specs.setdefault(record.hash, known.one(signature))
        else:
            unnamed.append(known.one(signature))
    for spec_hash in specs:
        if not (spec_hash.isascii() and spec_hash.isalnum()):
            raise UnreadableDocument(f"spec_details: {spec_hash[:40]!r} is not a hash")
    repeated = {spec_hash: count for spec_hash, count in counts.items() if count > 1}
    odd = [spec_hash for spec_hash in specs if not _are_hashes([spec_hash])]
    specs |= Specs.of({str(number): signature for number, signature in enumerate(unnamed)}).by_record()
    compilers = [record.compiler for record in records]
    is_old = any(map(spack.is_old_compiler, compilers))
    form = CompilerForm.OLD if is_old else CompilerForm.NEW if any(compilers) or not compilers else CompilerForm.MISSING
    without_compiler = sum(not compiler for compiler in compilers)
    return Records(Specs.of(specs), repeated, len(unnamed), odd, form, without_compiler)


def _signature(record: "_Record | _AnyRecord", variants: tuple[str, ...], stacks: tuple[str, ...]) -> Signature:
    return Signature(
        versions=record.versions,
        compiler=spack.compiler(record.compiler),
        os=record.os,
        platform=record.platform,
        target=record.target,
        variants=variants,
        stacks=stacks,
    )
