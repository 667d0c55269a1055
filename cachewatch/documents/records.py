"""Read `spec_details`, the JSON list of a document's specs, by a fast parser or a tolerant one; and write documents.

A document of a hundred specs has about ten signatures (all but the hash of a spec); equal ones are equal bytes. So the
fast parser cuts the hash out of each record (the JSON of one spec), and decodes and checks each remaining text once.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core import versions_spellings_targets as spack
from cachewatch.core.kinds_and_specs import CompilerForm, Signature, Specs
from cachewatch.errors import UnreadableDocument


class Records(Struct, frozen=True):
    """The specs of a document, with values in uniform spelling, and what is unusual about its records."""

    specs: Specs
    repeated: Mapping[str, int] = {}  # hashes that are listed more than once, with their number of records
    unlike: Set[str] = frozenset()  # those of them whose records differ
    unnamed: int = 0  # records without a hash
    odd: Sequence[str] = ()  # hashes that do not look like those of Spack
    compiler_form: CompilerForm = CompilerForm.NEW
    without_compiler: int = 0  # records in which the compiler is missing or empty
    without_stacks: int = 0  # records without the key `stacks`, where others have it


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    """A record as the generator has written it since 2025."""

    hash: str
    compiler: str | None
    os: str
    platform: str
    target: str
    size: str | int | float | None
    versions: tuple[str, ...]
    variants: tuple[str, ...]
    stacks: tuple[str, ...]
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
    stacks: tuple[str, ...] | None = None


_decode_record = msgspec.json.Decoder(_Record).decode
_MEMBERS = len(_Record.__struct_fields__)

_MOST_UNNAMED = 20_000  # records without a hash, each of which gets a long key
_HASH_LENGTH = 32
_MANY = 20_000  # texts of a few hundred characters, and their signatures: some 20 MB
_HASH_KEY = '"hash": "'
_OPENING, _BETWEEN, _CLOSING = "[{", "}, {", "}]"


class KnownRecords(Struct):
    """A cache of signatures for documents that are read together, so that equal signatures are one object."""

    # The signature, and the form in which the compiler is written, by the text of a record from which the hash was cut.
    by_text: dict[str, tuple[Signature, CompilerForm]] = {}
    _signatures: dict[Signature, Signature] = {}

    def one(self, signature: Signature) -> Signature:
        """Return the first object that was passed here and equals `signature`, perhaps itself."""
        return self._signatures.setdefault(signature, signature)

    def forget_many(self) -> None:
        """Clear this cache if it is large; call it only between documents."""
        if len(self.by_text) > _MANY:
            self.by_text.clear()
            self._signatures.clear()


def _form(compiler: str | None) -> CompilerForm:
    if not compiler:
        return CompilerForm.MISSING
    return CompilerForm.OLD if "@=" in compiler else CompilerForm.NEW


def _records(specs: Specs, forms: Counter[CompilerForm], **more: Any) -> Records:
    """Return Records for `specs`; `forms` counts how records write compilers; `more` are other fields."""
    form = CompilerForm.OLD if forms[CompilerForm.OLD] else CompilerForm.NEW
    without = forms[CompilerForm.MISSING]
    form = CompilerForm.MISSING if without and without == forms.total() else form
    return Records(specs, compiler_form=form, without_compiler=without, **more)


def read_records(details: str, known: KnownRecords) -> Records | None:
    """Parse `details`, the JSON of a document's specs, fast; None if it is not as the generator writes it."""
    if details == "[]":
        return Records(Specs.of({}))
    if not (details.startswith(_OPENING) and details.endswith(_CLOSING)):
        return None
    records = details[len(_OPENING) : -len(_CLOSING)].split(_BETWEEN)
    # `_are_hashes` checks that each is a hash, and not empty because its record has none.
    parts = [record.partition(_HASH_KEY) for record in records]
    hashes = [rest[:_HASH_LENGTH] for _, _, rest in parts]
    texts = [start + key + rest[_HASH_LENGTH:] for start, key, rest in parts]
    distinct = frozenset(hashes)
    if len(distinct) < len(hashes) or not _are_hashes(hashes):
        return None  # a hash is there twice, or is none
    counts: Counter[Signature] = Counter()
    forms: Counter[CompilerForm] = Counter()
    signatures: dict[str, Signature] = {}
    copies = Counter(texts)
    if not _learn([text for text in copies if text not in known.by_text], known):
        return None
    for text, count in copies.items():
        signature, form = known.by_text[text]
        signatures[text] = signature
        counts[signature] = counts.get(signature, 0) + count  # faster than += where most are new
        forms[form] += count
    return _records(Specs(distinct, counts, zip(hashes, map(signatures.__getitem__, texts), strict=True)), forms)


def _learn(texts: Sequence[str], known: KnownRecords) -> bool:
    """Decode `texts`, records without their hashes, into the cache `known`; return False if one has an unusual form."""
    try:
        records = [_decode_record(f"{{{text}}}") for text in texts]
    except msgspec.MsgspecError:
        return False
    except RecursionError as error:
        raise UnreadableDocument("is nested too deeply") from error
    for text, record in zip(texts, records, strict=True):
        # msgspec lets a repeated key win over the one before. All other keys are required here and
        # no others allowed, so one too many shows in their number.
        members = _MEMBERS - (record.tarball is None)
        if text.count('":') != members or record.hash or ("\\" in text and "\\u0000" in text):
            return False
        known.by_text[text] = known.one(_signature(record)), _form(record.compiler)
    return True


def _are_hashes(hashes: Collection[str]) -> bool:
    """Tell whether each of `hashes` is 32 small letters and digits."""
    # The hashes are the one part of a record that was not decoded.
    together = "".join(hashes).encode()
    return together.isalnum() and len(together) == _HASH_LENGTH * len(hashes) and together.islower()


def records_of(details: Any, known: KnownRecords) -> Records:
    """Make Records from `details`, decoded JSON or YAML. Raises UnreadableDocument, which names the wrong value."""
    try:
        records = msgspec.convert(details, list[_AnyRecord], strict=False)
    except msgspec.ValidationError as error:
        raise UnreadableDocument(f"spec_details: {error}") from error
    without_hash = sum(not record.hash for record in records)
    if without_hash > _MOST_UNNAMED:
        raise UnreadableDocument(f"has {without_hash:,} specs without a hash; the limit is {_MOST_UNNAMED:,}")
    specs: dict[str, Signature] = {}
    unnamed: list[Signature] = []
    unlike: set[str] = set()
    counts = Counter(record.hash for record in records if record.hash)
    for record in records:
        signature = _signature(record)
        of_one = signature.compiler, signature.os, signature.platform, signature.target
        if any("\0" in text for text in (*of_one, *signature.versions, *signature.variants, *signature.stacks)):
            raise UnreadableDocument("holds a NUL character")
        if record.hash:
            if specs.setdefault(record.hash, known.one(signature)) != signature:
                unlike.add(record.hash)
        else:
            unnamed.append(known.one(signature))
    for spec_hash in specs:
        if not (spec_hash.isascii() and spec_hash.isalnum()):
            raise UnreadableDocument(f"spec_details: {spec_hash[:40]!r} is not a hash")
    repeated = {spec_hash: count for spec_hash, count in counts.items() if count > 1}
    odd = [spec_hash for spec_hash in specs if not _are_hashes([spec_hash])]
    specs |= Specs.of({str(number): signature for number, signature in enumerate(unnamed)}).by_record()
    forms = Counter(_form(record.compiler) for record in records)
    lacking = sum(record.stacks is None for record in records)
    found = _records(Specs.of(specs), forms, repeated=repeated, unlike=unlike, unnamed=len(unnamed), odd=odd)
    return replace(found, without_stacks=lacking) if lacking < len(records) else found


def _signature(record: "_Record | _AnyRecord") -> Signature:
    compiler, variants = spack.compiler(record.compiler), spack.variants(record.variants)
    stacks = spack.stacks(record.stacks or ())
    return Signature(record.versions, compiler, record.os, record.platform, record.target, variants, stacks)


_TEMPLATE = """---
title: "{package}"
layout: cache
categories: [package, {tag}]
meta: {meta}
spec_details: {details}
---"""


class Binary(Struct, frozen=True):
    """One built spec, with values spelled as in documents, and the stacks that build it."""

    package: str
    hash: str
    version: str
    compiler: str
    os: str
    platform: str
    target: str
    variants: tuple[str, ...]
    stacks: tuple[str, ...] = ()


def write_document(package: str, tag: str, specs: Collection[Binary]) -> bytes:
    """Return a document as cache.spack.io writes it: specs sorted by hash, and each also in the union stack."""
    records = [
        {
            "compiler": spec.compiler,
            "hash": spec.hash,
            "os": spec.os,
            "platform": spec.platform,
            "size": "-",  # unknown
            "stacks": sorted({*spec.stacks, spack.UNION_STACK}),
            "target": spec.target,
            "variants": spec.variants,
            "versions": [spec.version],
        }
        for spec in sorted(specs, key=lambda spec: spec.hash)
    ]
    by_stack = Counter(stack for spec in specs for stack in {*spec.stacks, spack.UNION_STACK})
    meta: dict[str, Any] = {
        f"{name}s": sorted({getattr(spec, name) for spec in specs})
        for name in ("compiler", "os", "platform", "target", "version")
    }
    meta |= {"num_specs": len(specs), "num_specs_by_stack": by_stack, "stacks": sorted(by_stack)}
    details = json.dumps(records)
    return _TEMPLATE.format(package=package, tag=tag, meta=json.dumps(meta, sort_keys=True), details=details).encode()
