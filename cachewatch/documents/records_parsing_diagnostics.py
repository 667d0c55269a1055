"""Parse the bytes of a `specs.md` into a Document, check its `meta`, say what is wrong with it; and write documents.

Most documents are seven lines, two of which hold JSON. Others are read as YAML (recognition_and_front_matter.py), a hundred
times slower, with the same result (tests/documents/test_documents.py). The key `meta` of a document repeats the specs,
so it is checked against them and never compared.

`spec_details`, the JSON list of the specs, is read by a fast parser or a tolerant one. A document of a hundred specs
has about ten signatures (all but the hash of a spec); equal ones are equal bytes. So the fast parser cuts the hash out
of each record (the JSON of one spec), and decodes and checks each remaining text once.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from itertools import filterfalse
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core import versions_spellings_targets as spack
from cachewatch.core.changesets import Blob, Content, DocumentPair, Readers
from cachewatch.core.comparison.package_changes import Pair
from cachewatch.core.escaping_and_mentions import safe_name
from cachewatch.core.kinds_and_specs import (
    CompilerForm,
    Diagnostic,
    DiagnosticKind,
    Document,
    Facts,
    Signature,
    Specs,
    Unreadable,
    facts_of,
    known_hash,
)
from cachewatch.documents import recognition_and_front_matter as front_matter
from cachewatch.errors import DocumentError, NotComparableDocument, UnreadableDocument
from cachewatch.runtime.worker import Piece


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
    tarball: str | None = None  # only older records have it


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
    """Return Records for `specs`; `forms` counts records by how they write compilers; `more` are other fields."""
    form = CompilerForm.OLD if forms[CompilerForm.OLD] else CompilerForm.NEW
    without = forms[CompilerForm.MISSING]
    form = CompilerForm.MISSING if without and without == forms.total() else form
    return Records(specs, compiler_form=form, without_compiler=without, **more)


def read_records(details: str, known: KnownRecords) -> Records | None:
    """Return the records in `details` (JSON), using the cache `known`; None if the JSON has an unusual form."""
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
    """Return Records from `details`, decoded JSON or YAML. Raises UnreadableDocument, which names the wrong value."""
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
    """Return a document as cache.spack.io writes it, with `specs` sorted by hash and each also in the union stack."""
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
    """Yield a message for each value in `meta` (JSON, decoded or not; or None) that `records` or `facts` contradict."""
    if meta is None or records.repeated:
        return  # repeated hashes are reported by another message
    if isinstance(meta, str) and len(meta) > front_matter.MAX_PATIENT_BYTES:
        yield f"meta is larger than {front_matter.MAX_PATIENT_BYTES // 2**20} MiB; the specs are used"
        return
    try:
        read_meta = _read(meta)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        yield f"meta cannot be read ({error}); the specs are used"
        return
    listed = len(records.specs)
    if read_meta.num_specs is not None and read_meta.num_specs != listed:
        yield f"meta says {read_meta.num_specs} specs, there are {listed}; the specs are used"
    without = {"", spack.NO_COMPILER} if records.compiler_form is CompilerForm.MISSING else {""}
    compilers = None if read_meta.compilers is None else set(map(spack.compiler, read_meta.compilers))
    for name, values, found, ignored in (
        ("versions", read_meta.versions, facts["versions"], {""}),
        ("compilers", compilers, facts["compilers"], without),
        ("operating systems", read_meta.oss, facts["oses"], {""}),
        ("platforms", read_meta.platforms, facts["platforms"], {""}),
        ("targets", read_meta.targets, facts["targets"], {""}),
        ("stacks", read_meta.stacks, facts["stacks"], {"", spack.UNION_STACK}),
    ):
        if values is not None and (differing := (values ^ found) - ignored):
            more = f" and {len(differing) - 5} more" if len(differing) > 5 else ""
            yield f"meta and the specs name different {name} ({', '.join(sorted(differing)[:5])}{more}); the specs are used"


def _read(meta: Any) -> _Meta:
    if not isinstance(meta, str):
        return msgspec.convert(meta, _Meta, strict=False)
    try:
        return _decode_meta(meta)
    except msgspec.MsgspecError:
        # A version without quotes is the text that it was written as.
        return msgspec.convert(json.loads(meta, parse_float=str), _Meta, strict=False)


TOO_LARGE = f"larger than {front_matter.MAX_BYTES // 2**20} MiB, which no document is"


def parse(data: bytes, path: str, known: KnownRecords | None = None, *, package: str = "") -> Document:
    """Return the document in `data`, in any form since 2022; diagnostics call it `path`. Raises a DocumentError.

    `package` is the package that the path gives; "" means that the title of the document gives it. Documents that are
    parsed with the same cache `known` share equal signatures as one object.
    """
    try:
        return _parse(data, path, known or KnownRecords(), package)
    except DocumentError as error:
        raise type(error)(front_matter.brief(str(error))) from error


def _parse(data: bytes, path: str, known: KnownRecords, package: str) -> Document:
    if len(data) > front_matter.MAX_BYTES:
        raise UnreadableDocument(TOO_LARGE)
    front = front_matter.split(data)
    records = read_records(front.details, known) if front and isinstance(front.details, str) else None
    if front is None or records is None:
        front = front_matter.read_yaml(data)
        if front.details is None and front.is_legacy:
            raise NotComparableDocument("written in 2022, before documents named hashes")
        if front.details is None and not front.is_empty:
            raise UnreadableDocument("has no spec_details")
        records = records_of([] if front.details is None else front.details, known)
    facts = facts_of(records.specs.counts)
    front_matter.check(records.specs.counts, facts)
    return Document(
        package=package or front.title,
        tag=front.tag,
        specs=records.specs,
        facts=facts,
        compiler_form=records.compiler_form,
        has_hashes=not records.unnamed,
        diagnostics=tuple(_diagnostics(path, package, front, records, facts)),
    )


def _diagnostics(
    path: str, package: str, front: front_matter.FrontMatter, records: Records, facts: Facts
) -> Iterator[Diagnostic]:
    def note(message: str, *, is_loss: bool = False) -> Diagnostic:
        return Diagnostic(path, DiagnosticKind.INCONSISTENT, front_matter.brief(message), is_loss=is_loss)

    if package and front.title not in ("", package):
        yield note(f"its title is {safe_name(front.title)}; by its path it counts as the package {safe_name(package)}")
    for spec_hash, count in sorted(records.repeated.items()):
        yield note(f"hash {spec_hash} is listed {count} times; the first is used", is_loss=spec_hash in records.unlike)
    yield from map(note, _oddities(records))
    for message in disagreements(front.meta, records, facts):
        # That all specs were removed is believed only if `meta` of the document agrees.
        yield note(message, is_loss=not records.specs)


# Values of a spec, each with its function. A document may lack usual values in all its specs, but no expected ones.
_EXPECTED = {"a version": attrgetter("versions"), "a target": attrgetter("target")}
_USUAL = {"an operating system": attrgetter("os"), "a platform": attrgetter("platform")}


def _oddities(records: Records) -> Iterator[str]:
    if records.unnamed:
        yield "specs without a hash: binaries cannot be told apart, so records are compared, and rebuilt specs do not show"
    if records.odd:
        yield f"hashes that are not 32 small letters and digits: {len(records.odd):,}, first {records.odd[0][:7]}"
    if records.without_compiler and records.compiler_form is not CompilerForm.MISSING:
        yield f"specs without a compiler: {records.without_compiler:,}"
    if records.without_stacks:
        yield f"specs whose stacks are not given: {records.without_stacks:,}; they count as built by none"
    for what, value in (_EXPECTED | _USUAL).items():
        without = list(filterfalse(value, records.specs.counts))
        if without and (what in _EXPECTED or len(without) < len(records.specs.counts)):
            unnamed = [spec_hash for spec_hash, signature in records.specs.in_order() if not value(signature)]
            first = f", first {unnamed[0][:7]}" if known_hash(unnamed[0]) else ""
            yield f"specs without {what}: {len(unnamed):,}{first}"


Documents = Sequence[DocumentPair]
Read = tuple[DocumentPair, Content | None, Content | None]  # a pair of documents with the contents of both


def read(documents: Documents, readers: Readers) -> Iterator[Read]:
    """Yield each pair of `documents` with its contents before and after; None stands for a missing document."""
    if readers.before is readers.after:
        blobs = [blob for pair in documents for blob in (pair.before, pair.after) if blob]
        old_contents = new_contents = readers.before.read(blobs)
    else:
        old_contents = readers.before.read([pair.before for pair in documents if pair.before])
        new_contents = readers.after.read([pair.after for pair in documents if pair.after])
    for pair in documents:
        yield pair, next(old_contents) if pair.before else None, next(new_contents) if pair.after else None


def parse_side(
    blob: Blob | None, content: Content | None, known: KnownRecords, package: str = ""
) -> Document | Diagnostic | None:
    """Return the document of `package`, a diagnostic if it cannot be used, or None if `blob` or `content` is None."""
    if blob is None or content is None:
        return None
    if isinstance(content, str):
        return Diagnostic(blob.path, DiagnosticKind.UNREADABLE, content)
    try:
        return parse(content, blob.path, known, package=package or blob.package)
    except DocumentError as error:
        is_old = isinstance(error, NotComparableDocument)
        return Diagnostic(blob.path, DiagnosticKind.NOT_COMPARABLE if is_old else DiagnosticKind.UNREADABLE, str(error))


def about_pair(pair: Read) -> Piece:
    """Return the ids and the total size of the documents in `pair`; the worker's time limit depends on the size."""
    documents, *contents = pair
    names = tuple(blob.name if blob else "" for blob in (documents.before, documents.after))
    return Piece(names, sum(len(content) for content in contents if isinstance(content, bytes)))


def about_content(read: tuple[Blob, Content | None]) -> Piece:
    """Return the id of the document `read`, which is a blob and its content, and the size (0 if unreadable)."""
    blob, content = read
    return Piece((blob.name,), len(content) if isinstance(content, bytes) else 0)


class Problems(msgspec.Struct):
    """What is wrong with documents: diagnostics by package, and the documents that could not be compared."""

    by_package: list[tuple[str, Diagnostic]] = []
    unreadable: list[Unreadable] = []
    half_read: set[str] = set()  # stacks of documents that cannot be read on the other side

    def note(self, package: str, before: Document | Diagnostic | None, after: Document | Diagnostic | None) -> None:
        """Record what is wrong with `before` and `after`, documents of `package`; what both have in common, once."""
        for one, other in ((before, after), (after, before)):
            if isinstance(one, Document) and isinstance(other, Diagnostic):
                self.half_read.update(one.facts["stacks"])
        bad = {name: side for name, side in (("before", before), ("after", after)) if isinstance(side, Diagnostic)}
        faults = [msgspec.structs.replace(side, side=name) for name, side in bad.items()]
        # A problem of two files is reported for both; that both are of 2022, once.
        is_alike = len(faults) == 2 and faults[0].message == faults[1].message
        if is_alike and (faults[0].path == faults[1].path or faults[0].kind is DiagnosticKind.NOT_COMPARABLE):
            faults = [msgspec.structs.replace(faults[1], side="both")]
        if not bad:
            old, new = (side.diagnostics if isinstance(side, Document) else () for side in (before, after))
            faults = [*new, *(diagnostic for diagnostic in old if diagnostic not in new)]
        self.by_package += ((package, diagnostic) for diagnostic in faults)
        # It must be compared later, unless its documents were and are in the old form without hashes.
        was_comparable = isinstance(before, Document)
        unread = {name for name, side in bad.items() if side.kind is DiagnosticKind.UNREADABLE}
        if unread or (bad and was_comparable):
            reason = (bad.get("after") or bad["before"]).message
            is_after = "after" in unread or ("after" in bad and was_comparable)
            problem = Unreadable(package=package, reason=reason, before="before" in unread, after=is_after)
            self.unreadable.append(problem)

    def remark(self, documents: DocumentPair, kind: DiagnosticKind, message: str) -> None:
        """Add a diagnostic on the later of `documents`, which is compared all the same; none if `message` is ""."""
        if message and documents.after is not None:
            diagnostic = Diagnostic(documents.after.path, kind, message, is_loss=False)
            self.by_package.append((documents.package, diagnostic))


def parse_pair(
    pair: DocumentPair, old_content: Content | None, new_content: Content | None, problems: Problems
) -> Pair | None:
    """Return both documents of `pair`, or None if they cannot be compared; record in `problems` what is wrong."""
    known = KnownRecords()
    before = parse_side(pair.before, old_content, known, pair.package)
    after = parse_side(pair.after, new_content, known, pair.package)
    problems.note(pair.package, before, after)
    if isinstance(before, Diagnostic) or isinstance(after, Diagnostic):
        return None
    return Pair(pair.package, before, after)
