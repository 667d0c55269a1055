"""Reading a version by its difference says what reading the whole document says, of whatever form it is."""

from collections.abc import Callable
from itertools import pairwise, product

import pytest
from helpers import document, record, records

from cachewatch.core.model import CompilerForm, Signature
from cachewatch.documents.parsing import parse
from cachewatch.documents.records import Known
from cachewatch.errors import DocumentError
from cachewatch.history_db.record_differences import DocumentReader

USUAL = document(records(range(3)))
OTHER = document([*records(range(1, 3)), record(3, versions=["2.0"]), record(1, target="zen4") | {"hash": "z" * 32}])
VARIANTS: dict[str, bytes] = {
    "usual": USUAL,
    "other": OTHER,
    "empty": document([]),
    "one spec": document([record(9)]),
    "restacked": document(records(range(3), stacks=["ml", "root"])),
    "old compilers": document(records(range(3), compiler="gcc@=11.4.0")),
    "in another order": document(list(reversed(records(range(3))))),
    "of other sizes": document(records(range(3), size=7)),
    "windows": USUAL.replace(b"\n", b"\r\n"),
    "a byte order mark": b"\xef\xbb\xbf" + USUAL,
    "spaces after the records": USUAL.replace(b"}]\n", b"}]  \n"),
    "spaces between records": USUAL.replace(b"}, {", b"},  {"),
    "other characters between records": USUAL.replace(b"}, {", b"}; {"),
    "a value with a brace": document([record(1, variants=["x={a}"]), *records(range(2, 4))]),
    "a value with the text between records": document([record(1, variants=["x=}, {y"]), *records(range(2, 4))]),
    "a value that is not ASCII": document([record(1)]).replace(b"+shared", "+größe".encode()),
    "an escaped value": document([record(1, variants=["+gr\u00f6\u00dfe"])]),
    "an escaped NUL": document([record(1, variants=["a\0b"])]),
    "a hash of other letters": document([record(hash="A1890" + "b" * 27), *records(range(2))]),
    "a hash of no letters": document([record(hash="-" * 32), *records(range(2))]),
    "a short hash": document([record(hash="abc"), *records(range(2))]),
    "no hash": USUAL.replace(b'"hash": ', b'"name": '),
    "the hash of another record": document([record(1), record(1, target="zen4")]),
    "the same record twice": document([record(1), record(1)]),
    "one record too few members": USUAL.replace(b'"os": "ubuntu22.04", ', b"", 1),
    "one record with a member twice": USUAL.replace(b'"os": "u', b'"os": "x", "os": "u', 1),
    "a tarball": document(records(range(3), tarball="x")),
    "cut off": USUAL[:-9],
    "no end": USUAL.removesuffix(b"\n---"),
    "no meta": b"\n".join(line for line in USUAL.split(b"\n") if not line.startswith(b"meta")),
    "a meta that is no mapping": b"\n".join(
        b"meta: [1]" if line.startswith(b"meta") else line for line in USUAL.split(b"\n")
    ),
    "two meta": USUAL.replace(b"\nspec_details", b"\nmeta: {}\nspec_details"),
    "meta behind": USUAL.replace(b"\n---", b"\nmeta: {}\n---").replace(b"\nmeta: {}", b"\nmeta: {}", 1),
    "a meta that is not UTF-8": USUAL.replace(b"meta: {", b'meta: {"\xff": 1, '),
    "a conflict": USUAL.replace(b"\nmeta", b"\n<<<<<<< ours\nmeta"),
    "a conflict behind": USUAL.replace(b"\n---", b"\n>>>>>>> theirs\n---"),
    "details twice": USUAL.replace(b"\nmeta", b"\nspec_details: [{}]\nmeta"),
    "another key": USUAL.replace(b"\nmeta", b"\nauthor: me\nmeta"),
    "another title": USUAL.replace(b'title: "zlib"', b"title: zlib"),
    "a title that takes YAML": USUAL.replace(b'title: "zlib"', b'title: "zl\\x69b"'),
    "something behind": USUAL + b"\nspec_details: [{}]\n",
    "nothing": b"",
    "a pointer": b"version https://git-lfs.github.com/spec/v1\n",
    "too many that are unlike": document([record(n, versions=[str(n)]) for n in range(5001)], meta={}),
    "a value that is too long": document([record(1, target="x" * 1100)]),
    "a compiler that gets too long a name": document([record(1, compiler="intel@" + "1" * 1010)]),
    "too many variants": document([record(1, variants=[f"v{n}" for n in range(1001)])]),
    "too many stacks": document([record(n, stacks=[f"s{n}-{m}" for m in range(30)]) for n in range(40)]),
}


def _whole(data: bytes) -> tuple[dict[str, Signature], CompilerForm] | str:
    try:
        found = parse(data, "p")
    except DocumentError as error:
        return f"{type(error).__name__}: {error}"
    return dict(found.specs), found.compiler_form


def _by_difference(reader: DocumentReader, data: bytes) -> tuple[dict[str, Signature], CompilerForm] | str:
    before = dict(reader.specs)
    try:
        found = reader.read(data, "p")
    except DocumentError as error:
        assert reader.specs == before
        return f"{type(error).__name__}: {error}"
    # The difference leads from one to the other.
    after = {h: s for h, s in before.items() if h not in found.went} | dict(found.came)
    assert all(before[h] == old for h, (old, _) in found.changed.items())
    assert after | {h: new for h, (_, new) in found.changed.items()} == reader.specs
    assert {h: before[h] for h in found.went} == found.went
    return dict(reader.specs), reader.compiler_form


@pytest.mark.parametrize("name", VARIANTS)
def test_a_version_is_read_as_a_whole_document_would_be(name: str) -> None:
    """After a usual version, after another one, and as the first; and what follows is not misled by it."""
    expected = _whole(VARIANTS[name])
    readers: list[Callable[[], DocumentReader]] = [
        lambda: DocumentReader(Known()),
        lambda: DocumentReader(Known(), dict(parse(OTHER, "p").specs)),
    ]
    for make, before in product(readers, ([], [USUAL], [OTHER], [USUAL, OTHER])):
        reader = make()
        for data in before:
            reader.read(data, "p")
        assert _by_difference(reader, VARIANTS[name]) == expected
        assert _by_difference(reader, USUAL) == _whole(USUAL)


def test_one_reader_reads_one_after_the_other() -> None:
    quick = [name for name in VARIANTS if name != "too many that are unlike"]
    for known in (Known(), None):
        reader = DocumentReader(known or Known())
        for earlier, later in pairwise([*quick, *reversed(quick)]):
            assert _by_difference(reader, VARIANTS[later]) == _whole(VARIANTS[later]), (earlier, later)


def test_a_removal_is_a_difference() -> None:
    reader = DocumentReader(Known())
    reader.read(USUAL, "p")
    found = reader.remove()
    assert (found.went, reader.specs) == (_whole(USUAL)[0], {})
    assert reader.read(OTHER, "p").came == _whole(OTHER)[0]
