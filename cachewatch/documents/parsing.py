"""Bytes of a `specs.md` in, a Document out.

Most documents are seven lines, two of which hold JSON: those take the quick way
(records.py). Whatever is not of that form is read as YAML (yamltext.py), a hundred times
slower. Both ways give one answer; `tests/documents/test_documents.py` holds them to it.
"""

from collections.abc import Iterator

from cachewatch.core.model import Diagnostic, DiagnosticKind, Document, known_hash
from cachewatch.core.package_facts import Facts, facts_of
from cachewatch.documents.frontmatter import FrontMatter, NotPlain, split
from cachewatch.documents.limits import MAX_BYTES, brief, check
from cachewatch.documents.meta_checks import disagreements
from cachewatch.documents.records import Known, Records, read_records, records_of
from cachewatch.documents.yamltext import read_yaml
from cachewatch.errors import DocumentError, NotComparableDocument, UnreadableDocument

TOO_LARGE = f"larger than {MAX_BYTES // 2**20} MiB, which no document is"


def identify(data: bytes) -> tuple[str, str]:
    """Return the package and the tag that a document says it is of; empty where it says none."""
    try:
        front = split(data)
    except NotPlain:
        front = _read_yaml(data)
    return front.title, front.tag


def parse(data: bytes, path: str, known: Known | None = None) -> Document:
    """Read one document of any layout since 2022, or raise a DocumentError with the reason.

    `path` is only named in faults. `known` may be shared by documents that are read
    together, so that equal signatures are one object.
    """
    try:
        return _parse(data, path, known or Known())
    except DocumentError as error:
        raise type(error)(brief(str(error))) from error


def _parse(data: bytes, path: str, known: Known) -> Document:
    if len(data) > MAX_BYTES:
        raise UnreadableDocument(TOO_LARGE)
    front, records = _read_quickly(data, known) or _read_patiently(data, known)
    facts = facts_of(records.specs.counts)
    check(records.specs.counts, facts)
    return Document(
        package=front.title,
        tag=front.tag,
        specs=records.specs,
        facts=facts,
        compiler_form=records.compiler_form,
        has_hashes=not records.unnamed,
        diagnostics=tuple(_diagnostics(path, front, records, facts)),
    )


def _read_quickly(data: bytes, known: Known) -> tuple[FrontMatter, Records] | None:
    try:
        front = split(data)
    except NotPlain:
        return None
    records = read_records(front.details, known) if isinstance(front.details, str) else None
    return None if records is None else (front, records)


def _read_patiently(data: bytes, known: Known) -> tuple[FrontMatter, Records]:
    front = _read_yaml(data)
    if front.details is None:
        _refuse_without_specs(front)
    return front, records_of([] if front.details is None else front.details, known)


def _read_yaml(data: bytes) -> FrontMatter:
    return read_yaml(data)


def _refuse_without_specs(front: FrontMatter) -> None:
    if front.is_legacy:
        raise NotComparableDocument("written in 2022, before documents named hashes")
    if not front.is_empty:
        raise UnreadableDocument("has no spec_details")


def _diagnostics(path: str, front: FrontMatter, records: Records, facts: Facts) -> list[Diagnostic]:
    diagnostics = [
        Diagnostic(path, DiagnosticKind.INCONSISTENT, f"hash {spec_hash} is listed {count} times; the first is used")
        for spec_hash, count in sorted(records.repeated.items())
    ]
    diagnostics += [
        Diagnostic(path, DiagnosticKind.INCONSISTENT, brief(message), is_loss=False) for message in _oddities(records)
    ]
    diagnostics += [
        # That all specs are gone is believed only of a document that says so itself.
        Diagnostic(path, DiagnosticKind.INCONSISTENT, brief(message), is_loss=not records.specs)
        for message in disagreements(front.meta, records, facts)
    ]
    return diagnostics


def _oddities(records: Records) -> Iterator[str]:
    """Say what is unusual about the records, which are compared as they are."""
    if records.unnamed:
        yield "specs without a hash: binaries cannot be told apart, so records are compared"
    if records.odd:
        yield f"hashes that are not 32 small letters and digits: {len(records.odd):,}, first {records.odd[0][:7]}"
    if () in [signature.versions for signature in records.specs.counts]:
        unnamed = [spec_hash for spec_hash, signature in records.specs.in_order() if not signature.versions]
        first = f", first {unnamed[0][:7]}" if known_hash(unnamed[0]) else ""
        yield f"specs without a version: {len(unnamed):,}{first}"
