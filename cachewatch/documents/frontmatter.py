"""The front matter of a document: split it into its lines without YAML, check limits, and write it.

The limits are far above any real document and low enough to compare one in seconds (docs/limits.md lists them).
A document above a limit is unreadable, with the reason; all others are compared. `write_document` writes documents
byte for byte as the generator of cache.spack.io has written them since April 2025.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

from cachewatch.core.model import Facts, Signature
from cachewatch.core.spack import UNION_STACK
from cachewatch.errors import UnreadableDocument

# The largest real document has 333 kB. Beyond this something else was committed.
MAX_BYTES = 32 * 2**20
# A document in another form than the generator's takes up to 200 times its size in memory while it is read.
MAX_PATIENT_BYTES = 2**20
MAX_EVENTS = 100_000  # of YAML: each mapping, list and value is one or two

MAX_UNLIKE = 5_000  # signatures: real documents have tens
MAX_STACKS = 1_000
MAX_IN_RECORD = 1_000  # variants, or versions, of one spec
MAX_PLACES = 20_000  # versions times stacks, of all signatures: real documents have hundreds
MAX_VALUE = 1024  # characters
MAX_VARIANT = 4096  # one variant may list the checksums of dozens of patches
MAX_MESSAGE = 300


def check(signatures: Mapping[Signature, int], facts: Facts) -> None:
    """Raise UnreadableDocument, which names the limit, if the specs of a document exceed a limit."""
    for problem in _problems(signatures, facts):
        raise UnreadableDocument(problem)


def brief(message: str) -> str:
    """Return the message, cut to 300 characters."""
    return message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 3] + "..."


def _problems(signatures: Mapping[Signature, int], facts: Facts) -> Iterator[str]:
    if len(signatures) > MAX_UNLIKE:
        yield f"has {len(signatures):,} specs that differ in more than their hash; the limit is {MAX_UNLIKE:,}"
    if len(signatures) * len(facts["versions"]) * len(facts["stacks"]) > MAX_PLACES:
        places = sum(len(signature.versions) * len(signature.stacks) for signature in signatures)
        if places > MAX_PLACES:
            yield f"has {places:,} versions in stacks; the limit is {MAX_PLACES:,}"
    if len(facts["stacks"]) > MAX_STACKS:
        yield f"names {len(facts['stacks']):,} stacks; the limit is {MAX_STACKS:,}"
    for name, values in facts.items():
        most = MAX_VARIANT if name == "variants" else MAX_VALUE
        longest = max(map(len, values), default=0)
        if longest > most:
            yield f"names one of its {name} with {longest:,} characters; the limit is {most:,}"
    lists = {"variants": [s.variants for s in signatures], "versions": [s.versions for s in signatures]}
    for kind, found in lists.items():
        longest = max(map(len, found), default=0)
        if longest > MAX_IN_RECORD:
            yield f"has a spec of {longest:,} {kind}; the limit is {MAX_IN_RECORD:,}"


_BOM = b"\xef\xbb\xbf"
_LFS_POINTER = b"version https://git-lfs"
_PLAIN_TITLE = re.compile(r'"([^"\\]*)"|([^"\'&*!|>{\[%@`#,:][^#:]*)')
_PLAIN_CATEGORIES = re.compile(r"\[([A-Za-z0-9._+@ ,-]*)\]")
_MARKERS = ("<<<<<<<", ">>>>>>>")
_USUAL_KEYS = {"title", "layout", "categories", "meta", "spec_details"}


class NotPlain(Exception):
    """The front matter does not have one `key: value` in each line, so it has to be read as YAML."""


class FrontMatter(Struct, frozen=True):
    """The values of a document's front matter that are used.

    `details` and `meta` are JSON text if the front matter was split by lines, and Python values (with all scalars as
    text) if it was read as YAML.
    """

    title: str
    tag: str
    details: Any
    meta: Any
    is_legacy: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether `meta` of the document states that it has no specs."""
        if isinstance(self.meta, str):
            return re.search(r'"num_specs": *0\b', self.meta) is not None
        return isinstance(self.meta, dict) and self.meta.get("num_specs") == "0"


def split(data: bytes) -> FrontMatter:
    """Split the front matter of `data` by lines.

    Raises NotPlain if it has to be read as YAML, and UnreadableDocument if that would fail as well.
    """
    values: dict[str, str] = {}
    for line in front_lines(data):
        if not line or line.isspace():
            continue
        end = line.find(":")
        key = line[:end]
        if key not in _USUAL_KEYS or not (line.startswith(" ", end + 1) or len(line) == end + 1):
            raise NotPlain
        if key in values:
            raise UnreadableDocument(f"the key {key!r} stands twice")
        values[key] = line[end + 2 :].strip(" ")  # one line is nearly all of the document: it is copied once
    return FrontMatter(
        title=_title(values.get("title", "")),
        tag=_tag(values.get("categories", "[]")),
        details=_json(values.get("spec_details"), "["),
        meta=_json(values.get("meta"), "{"),
    )


def front_lines(data: bytes) -> list[str]:
    """Return the lines between the two `---`, without line ends; raise UnreadableDocument if there are none."""
    if data.startswith(_LFS_POINTER):
        raise UnreadableDocument("a Git LFS pointer, not the document; fetch the content with git lfs")
    try:
        text = data.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableDocument("is not UTF-8") from error
    lines, start = [], 0
    # `str.split` looks at each character, `find` is faster on the one line that is nearly all of the text.
    while (end := text.find("\n", start)) >= 0:
        lines.append(text[start:end])
        start = end + 1
    lines.append(text[start:])
    if lines[0].endswith("\r"):
        lines = [line.removesuffix("\r") for line in lines]
    if any(line.startswith(_MARKERS) for line in lines):
        raise UnreadableDocument("holds the markers of an unresolved merge conflict")
    if not text or text.isspace():
        raise UnreadableDocument("is empty")
    if lines[0].rstrip() != "---":
        raise UnreadableDocument("does not begin with the line --- that opens a document")
    for number, line in enumerate(lines[1:], 1):
        if line.startswith("---") and line.rstrip() == "---":
            return lines[1:number]
    raise UnreadableDocument("ends before the line --- that closes it; it was cut off")


def _title(value: str) -> str:
    match = _PLAIN_TITLE.fullmatch(value)
    if value and match is None:
        raise NotPlain
    return (match[1] if match and match[1] is not None else value).strip()


def _tag(value: str) -> str:
    match = _PLAIN_CATEGORIES.fullmatch(value)
    if match is None:
        raise NotPlain
    return match[1].split(",")[1].strip() if "," in match[1] else ""


def _json(value: str | None, opening: str) -> str | None:
    if value is not None and not value.startswith(opening):
        raise NotPlain
    return value


_TEMPLATE = """---
title: "{package}"
layout: cache
categories: [package, {tag}]
meta: {meta}
spec_details: {details}
---"""

# The text of an unknown size.
NO_SIZE = "-"


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
    """Return the text of the document of `package`; its specs are sorted by hash, and all get the union stack as well."""
    known: dict[tuple[object, ...], tuple[str, str]] = {}  # of specs that differ only in their hash
    records = []
    for spec in sorted(specs, key=lambda spec: spec.binary.hash):
        _, spec_hash, *rest = astuple(spec.binary)
        kind = (*rest, spec.stacks)
        if kind not in known:
            known[kind] = _parts(spec)
        before, after = known[kind]
        records.append(f"{before}{json.dumps(spec_hash)}{after}")
    text = _TEMPLATE.format(package=package, tag=tag, meta=json.dumps(_meta(specs)), details=f"[{', '.join(records)}]")
    return text.encode()


def _parts(spec: ListedSpec) -> tuple[str, str]:
    """Return the text before and after the hash in the record of a spec."""
    binary = spec.binary
    after = {
        "os": binary.os,
        "platform": binary.platform,
        "size": NO_SIZE,
        "stacks": sorted({*spec.stacks, UNION_STACK}),
        "target": binary.target,
        "variants": list(binary.variants),
        "versions": [binary.version],
    }
    return f'{{"compiler": {json.dumps(binary.compiler)}, "hash": ', f", {json.dumps(after)[1:]}"


def _meta(specs: Collection[ListedSpec]) -> dict[str, object]:
    by_stack: Counter[str] = Counter()
    for stacks, count in Counter(spec.stacks for spec in specs).items():
        by_stack.update(dict.fromkeys({*stacks, UNION_STACK}, count))
    return {
        "compilers": sorted({spec.binary.compiler for spec in specs}),
        "num_specs": len(specs),
        "num_specs_by_stack": dict(sorted(by_stack.items())),
        "oss": sorted({spec.binary.os for spec in specs}),
        "platforms": sorted({spec.binary.platform for spec in specs}),
        "stacks": sorted(by_stack),
        "targets": sorted({spec.binary.target for spec in specs}),
        "versions": sorted({spec.binary.version for spec in specs}),
    }
