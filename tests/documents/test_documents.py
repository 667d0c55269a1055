"""Documents of every layout, and of none."""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers import document, made_of, meta_of, parsed, record, records, spec_hash
from hypothesis import given
from hypothesis import strategies as st

from cachewatch.core.graphs_and_attribution import Dependency
from cachewatch.core.kinds_and_specs import CompilerForm, DiagnosticKind
from cachewatch.documents import spec_nodes_and_graphs
from cachewatch.documents.recognition_and_front_matter import (
    MAX_BYTES,
    Claim,
    claim_of,
    front_lines,
    load_yaml,
    read_yaml,
)
from cachewatch.documents.records_parsing_diagnostics import KnownRecords, parse, records_of
from cachewatch.documents.spec_nodes_and_graphs import encode_ingredients, read_package_graph, write_package_graph
from cachewatch.errors import DocumentError, NotComparableDocument, UnreadableDocument
from cachewatch.runtime.files_and_locks import demo_documents

SEEDS = demo_documents()


def details(text: str) -> bytes:
    return f'---\ntitle: "zlib"\ncategories: [package, develop]\nspec_details: {text}\n---'.encode()


@pytest.mark.parametrize("package", SEEDS)
def test_seeds_are_read_whole_and_agree_with_their_meta(package: str) -> None:
    data = SEEDS[package]
    found = parse(data, "specs.md")

    meta = json.loads(next(line for line in data.split(b"\n") if line.startswith(b"meta: "))[6:])
    assert (found.package, found.tag, len(found.specs)) == (package, "develop", meta["num_specs"])
    assert found.diagnostics == ()
    for details in (load_yaml("\n".join(front_lines(data)))["spec_details"], read_yaml(data).details):
        assert records_of(details, KnownRecords()).specs == found.specs


def test_every_real_document_is_read_or_not_comparable(documents: Path) -> None:
    """Layouts B0 to E are read without a fault; L0 to L2 name no hashes."""
    legacy = set()
    for file in sorted(documents.glob("*/*.md")):
        if file.name == "TRUTH.md":
            continue
        try:
            assert parse(file.read_bytes(), str(file)).diagnostics == (), file
        except NotComparableDocument:
            legacy.add(f"{file.parent.name}/{file.name[0]}")

    assert legacy == {"cub/1", "cub/2", "aml/1"}


texts = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=8)
generated = st.lists(
    st.fixed_dictionaries(
        {
            "compiler": st.sampled_from(["gcc@11.4.0", "gcc@=11.4.0", "none"]) | texts,
            "os": texts,
            "platform": texts,
            "target": texts,
            "size": st.sampled_from(["-", 12, 1.5]),
            "stacks": st.lists(texts | st.just("root"), max_size=3),
            "variants": st.lists(texts | st.sampled_from(["+a", "b:=c", "languages='c,c++'"]), max_size=3),
            "versions": st.lists(st.sampled_from(["1.10", "develop"]) | texts, max_size=2),
        }
    ),
    max_size=5,
).map(lambda found: [{**r, "hash": spec_hash(n)} for n, r in enumerate(found)])


@given(generated, st.booleans())
def test_quick_and_patient_reading_agree(found: list[dict[str, object]], is_ascii: bool) -> None:
    """Whatever a generator may write, JSON by msgspec and YAML by PyYAML mean the same specs."""
    data = f'---\ntitle: "x"\nspec_details: {json.dumps(found, ensure_ascii=is_ascii)}\n---'.encode()
    if any(ord(character) > 0xFFFF for character in data.decode()) or "\\ud" in data.decode():
        return  # beyond the 16 bits of \\u, PyYAML refuses what JSON writes as two escapes
    quick = parse(data, "")
    assert records_of(load_yaml("\n".join(front_lines(data)))["spec_details"], KnownRecords()).specs == quick.specs
    assert len(quick.specs) == len(found)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda d: d + b"\n", id="a newline at the end"),
        pytest.param(lambda d: d.replace(b"\n", b"\r\n"), id="CRLF"),
        pytest.param(lambda d: b"\xef\xbb\xbf" + d, id="a byte order mark"),
        pytest.param(lambda d: d.replace(b"layout: cache\n", b""), id="no layout"),
        pytest.param(lambda d: d.replace(b"layout: cache", b"layout: cache\nlicense: MIT"), id="an unknown key"),
        pytest.param(lambda d: d.replace(b'"size": "-"', b'"size": 123456'), id="a size"),
        pytest.param(lambda d: d.replace(b'"size": "-"', b'"size": "-", "new": {"a": [1]}'), id="an unknown member"),
        pytest.param(lambda d: d.replace(b'["1.0"]', b"[1.0]"), id="a version without quotes"),
        pytest.param(lambda d: d + b"\n\nA body that Jekyll would render.\n", id="a body"),
        pytest.param(lambda d: d.replace(b'title: "zlib"', b"title: 'zlib'"), id="other quotes"),
        pytest.param(lambda d: d.replace(b"[package, develop]", b"\n  - package\n  - develop"), id="an indented list"),
        pytest.param(lambda d: re.sub(b"\nmeta.*", b"", d), id="no meta"),
    ],
)
def test_form_means_nothing(change: object) -> None:
    plain = document(records(range(3)))
    changed = change(plain)  # type: ignore[operator]

    assert changed != plain
    assert parse(changed, "").specs == parse(plain, "").specs
    assert parse(changed, "").diagnostics == ()
    assert claim_of(changed) == Claim("zlib", "develop")


def _rewritten(**values: object) -> bytes:
    """Return a document of three specs with other texts for the values of some keys."""
    lines = document(records(range(3))).decode().split("\n")
    pairs = dict(line.split(": ", 1) for line in lines if ": " in line)
    for key, change in values.items():
        pairs[key] = change(pairs[key])  # type: ignore[operator]
    return "\n".join(["---", *(f"{key}: {value}" for key, value in pairs.items()), "---", ""]).encode()


def _indented(indent: int | str) -> object:
    return lambda text: json.dumps(json.loads(text), indent=indent)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(_rewritten(spec_details=lambda t: t.replace("}, {", "},\n{")[:-1] + "\n]"), id="a record a line"),
        pytest.param(_rewritten(spec_details=_indented(2), meta=_indented(2)), id="indented JSON"),
        pytest.param(_rewritten(spec_details=_indented("\t")), id="JSON indented with tabs"),
        pytest.param(_rewritten(meta=lambda t: t.replace(", ", ",\n", 1)), id="meta over two lines"),
        pytest.param(_rewritten(meta=lambda t: t.replace(", ", ",\n\n  ", 1)), id="meta with an empty line"),
        pytest.param(_rewritten(categories=lambda t: t.replace(", ", ",\n  ")), id="categories over two lines"),
        pytest.param(_rewritten(categories=lambda _: "\n- package\n- develop"), id="categories as a list"),
        pytest.param(_rewritten(title=lambda _: "\n  zlib"), id="a title on its own line"),
        pytest.param(_rewritten().replace(b"spec_details:", b'"spec_details":'), id="a key in quotes"),
        pytest.param(_rewritten().replace(b"meta:", b"'meta' :"), id="a blank before the colon"),
        pytest.param(_rewritten().replace(b"title:", b"# All\n# of zlib\ntitle:"), id="comments at the beginning"),
        pytest.param(_rewritten().replace(b"spec_details:", b"# All specs\nspec_details:"), id="a comment behind meta"),
        pytest.param(_rewritten(spec_details=lambda t: t + "\n#\n# End"), id="comments at the end"),
        pytest.param(_rewritten(spec_details=_indented(0)), id="JSON whose lines begin with members"),
    ],
)
def test_a_value_may_take_several_lines(data: bytes) -> None:
    """Whatever YAML reads is read: JSON that a formatter has broken into lines, too."""
    assert parse(data, "").specs == parse(document(records(range(3))), "").specs
    assert parse(data, "").diagnostics == ()
    assert claim_of(data) == Claim("zlib", "develop")


def test_the_line_that_cannot_be_read_is_named_as_the_file_has_it() -> None:
    """Empty lines count, so that an editor finds the place."""
    with pytest.raises(UnreadableDocument, match="line 6, column 1"):
        parse(b'---\ntitle: "zlib"\n\nspec_details: [\n\n}\n---\n', "")


def test_block_yaml_is_read_too() -> None:
    """A document that somebody edited by hand need not be of the generator's form."""
    data = b"---\ntitle: zlib\nspec_details:\n  - hash: abc\n    versions: [1.10, 2]\n    compiler:\n---\n"

    (signature,) = parse(data, "").specs.values()
    assert (signature.versions, signature.compiler) == (("1.10", "2"), "none")


def test_missing_values_are_empty() -> None:
    (signature,) = parse(details('[{"hash": "abc"}]'), "").specs.values()

    assert (signature.compiler, signature.stacks, signature.versions) == ("none", (), ())
    assert parse(details("[]"), "").specs == {}
    assert parse(b'---\ntitle: "x"\nmeta: {"num_specs": 0}\n---', "").specs == {}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", "empty", id="nothing"),
        pytest.param(b"---\n---", "no spec_details", id="no keys"),
        pytest.param(b"hello", "does not begin with", id="prose"),
        pytest.param(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "Git LFS pointer", id="LFS"),
        pytest.param(document(records([1]))[:-40], "cut off", id="truncated"),
        pytest.param(b"---\n<<<<<<< HEAD\na: 1\n=======\nb: 2\n>>>>>>> x\n---", "merge conflict", id="merge markers"),
        pytest.param(details("[" * 30_000), "nested", id="30 kB of brackets"),
        # PyYAML's C composer dies of so many, and the process with it.
        pytest.param(b"---\ntitle: " + b"[" * 30_000 + b"\n---", "nested", id="30 kB of brackets as a title"),
        pytest.param(b"---\nextra:\n " + b"[" * 30_000 + b"\n---", "nested", id="30 kB of brackets as YAML"),
        pytest.param(b"---\na: &a [x]\nb: [*a]\n---", "anchors or aliases", id="an alias"),
        pytest.param(b"---\na: &a {x: 1}\nb:\n  <<: *a\n---", "anchors or aliases", id="a merge key"),
        pytest.param(b"---\na: !!python/object/apply:os.system [x]\n---", "YAML tag", id="a tag"),
        pytest.param(details('[{"hash": "a", "hash": "b"}]'), "stands twice", id="a key twice in a record"),
        pytest.param(b"---\nspec_details: []\nspec_details: []\n---", "stands twice", id="a key twice"),
        pytest.param(b"---\nextra: 1\nspec_details: []\nextra: 2\n---", "stands twice", id="an odd key twice"),
        pytest.param(details('[{"hash": "a", "size": NaN}]'), "NaN", id="NaN"),
        pytest.param(details('[{"hash": "a", "size": -Infinity}]'), "Infinity", id="infinity"),
        pytest.param(b"---\nspec_details:\n - {hash: a, size: .nan}\n---", "nan", id="NaN as YAML"),
        pytest.param(details('[{"hash": "a", "os": "\\ud800"}]'), "half a character", id="half a character"),
        pytest.param(details('[{"hash": "a", "os": "x\\u0000"}]'), "NUL", id="NUL"),
        pytest.param(b"---\nspec_details: [\xff]\n---", "UTF-8", id="not UTF-8"),
        pytest.param(document(records([1])).decode().encode("utf-16"), "UTF-8", id="UTF-16"),
        pytest.param(details('{"hash": "a"}'), "array", id="a mapping for a list"),
        pytest.param(details("null"), "array", id="null"),
        pytest.param(details(""), "array", id="nothing behind the key"),
        pytest.param(details("{}"), "array", id="an empty mapping"),
        pytest.param(details('["a"]'), "$[0]", id="a text for a record"),
        pytest.param(details('[{"hash": "../x"}]'), "not a hash", id="a path for a hash"),
        pytest.param(details('[{"hash": "a", "stacks": "e4s"}]'), "stacks", id="a text for a list"),
        pytest.param(details('[{"hash": "a",]'), "YAML", id="broken JSON"),
        pytest.param(b"---\n- a\n- b\n---", "not a mapping", id="a list for a mapping"),
        pytest.param(b" " * (MAX_BYTES + 1), "larger than 32 MiB", id="too large"),
    ],
)
def test_damage_is_named(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableDocument, match=reason.replace("$", r"\$").replace("[", r"\[")):
        parse(data, "specs.md")


def test_a_million_digits_are_text() -> None:
    """A number that no machine holds is refused nowhere and converted nowhere."""
    digits, version = "1" * 1_000_000, "1" * 1_000
    (signature,) = parse(details(f'[{{"hash": "a", "size": {digits}, "versions": [{version}]}}]'), "").specs.values()

    assert signature.versions == (version,)


def test_a_delimiter_inside_of_text_ends_nothing() -> None:
    """Only a line of its own ends the front matter."""
    assert len(parsed([record(1, variants=["a=---", "b=\\n---\\n"])]).specs) == 1


def test_a_hash_twice_is_a_diagnostic() -> None:
    """A repeated hash is named, the first is used, and it counts as a loss."""
    found = parsed([record(1, os="first"), record(1, os="second"), record(2)])

    (diagnostic, *rest) = found.diagnostics
    assert diagnostic.kind is DiagnosticKind.INCONSISTENT
    assert diagnostic.is_loss
    assert spec_hash(1) in diagnostic.message
    assert rest == []
    assert found.specs[spec_hash(1)].os == "first"
    (alike,) = parsed([record(1), record(1)]).diagnostics
    assert ("listed 2 times" in alike.message, alike.is_loss) == (True, False)


def test_meta_of_a_wrong_type_is_a_warning() -> None:
    """A meta that is no mapping says nothing, and costs nothing."""
    data = document(records([1])).replace(b"meta: {", b'meta: [], "x": {')
    (diagnostic,) = parse(b'---\ntitle: "x"\nmeta: {"num_specs": []}\nspec_details: []\n---', "").diagnostics

    assert "meta cannot be read" in diagnostic.message
    with pytest.raises(DocumentError):
        parse(data, "")


def test_surplus_meta_of_old_compilers_agrees() -> None:
    """The spelling of compilers is no disagreement."""
    assert parsed([record(1, compiler="gcc@=11.4.0")]).diagnostics == ()
    assert parsed([record(1, compiler="gcc@=11.4.0")]).compiler_form is CompilerForm.OLD


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_parser(data: bytes) -> None:
    for text in (data, b"---\n" + data + b"\n---", b"---\nspec_details: " + data + b"\n---"):
        with suppress(DocumentError):
            assert parse(text, "specs.md").specs is not None


@pytest.mark.parametrize(
    "meta",
    [
        '{"num_specs": 1, "num_specs": 9}',
        '{"num_specs": NaN}',
        '{"versions": ["\\ud800"]}',
        "{" * 3000,
        '{"versions": [1.0]}',
    ],
)
def test_both_ways_judge_meta_alike(meta: str) -> None:
    """Whatever meta holds, it costs no specs, and the same is said of it however the rest is written."""
    quick = document(records([1])).replace(json.dumps(meta_of(records([1]))).encode(), meta.encode())
    patient = quick.replace(b"layout: cache", b"foo: bar")

    assert parse(quick, "").diagnostics == parse(patient, "").diagnostics
    assert parse(quick, "").specs == parse(patient, "").specs


def test_an_empty_list_is_not_believed_against_meta() -> None:
    """That all specs are gone is said by the document itself, or it is a loss."""
    (diagnostic,) = parsed([], meta=meta_of(records([1]))).diagnostics[:1]

    assert diagnostic.is_loss


def test_specs_without_versions_or_targets_and_odd_hashes_are_named_once() -> None:
    """They are compared as they are, so nothing is missing from a comparison."""
    odd = [record(4, hash="abc", target=...), record(5, hash="A" * 32)]
    found = parsed([record(1), record(2, versions=[]), record(3, versions=...), *odd], meta={"targets": ["x86_64_v3"]})

    assert [(each.kind, each.message, each.is_loss) for each in found.diagnostics] == [
        (DiagnosticKind.INCONSISTENT, "hashes that are not 32 small letters and digits: 2, first abc", False),
        (DiagnosticKind.INCONSISTENT, "specs without a version: 2, first caaaaaa", False),
        (DiagnosticKind.INCONSISTENT, "specs without a target: 1, first abc", False),
    ]


@pytest.mark.parametrize("empty", ["", ...])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("os", "specs without an operating system: 1, first baaaaaa"),
        ("platform", "specs without a platform: 1, first baaaaaa"),
        ("compiler", "specs without a compiler: 1"),
    ],
)
def test_what_one_spec_does_not_give_is_named(name: str, said: str, empty: Any) -> None:
    """Others give it, so it was lost; a document in which no spec gives it may be of another form."""
    one, all_of_them = (parsed([record(1, **{name: empty}), record(2, **other)]) for other in ({}, {name: empty}))
    assert said in [each.message for each in one.diagnostics]
    assert not any("without" in each.message for each in all_of_them.diagnostics)


def test_that_one_spec_does_not_give_its_stacks_is_named() -> None:
    """It counts as built by none; so do those with an empty list, which say it themselves."""
    one, other, every = (
        parsed([record(1, stacks=of_first), record(2, stacks=of_second)], meta={}).diagnostics
        for of_first, of_second in ((..., ["e4s"]), ([], ["e4s"]), (..., ...))
    )
    assert "specs whose stacks are not given: 1; they count as built by none" in [each.message for each in one]
    assert not any("given" in each.message for each in (*other, *every))


ONE, TWO = "a" * 32, "b" * 32
GCC = Dependency("gcc", "g" * 12, ("build",), ("c", "cxx"))
ZLIB, OTHER_ZLIB = Dependency("zlib", "y" * 12, ("link",)), Dependency("zlib", "z" * 32, ("link",))
SPECS = {
    ONE: made_of((GCC, ZLIB), recipe="r", namespace="builtin", flags=("cflags=-O2",)),
    TWO: made_of((GCC, OTHER_ZLIB), recipe="r", namespace="builtin", flags=("cflags=-O2",)),
    "c" * 32: made_of(recipe="s", external="/usr", spliced="x"),
    "d" * 32: made_of(),
}


def written(specs: dict[str, spec_nodes_and_graphs.MadeOf]) -> bytes:
    return write_package_graph({each: encode_ingredients(one, frozenset({"z" * 12})) for each, one in specs.items()})


def test_what_was_written_is_read() -> None:
    content = written(SPECS)

    assert read_package_graph(content, "x") == {spec_hash[:12]: each for spec_hash, each in SPECS.items()}
    assert (content.count(b"builtin"), content.count(b'"zlib"')) == (1, 1)
    assert b'\n"aaaaaaaaaaaa":["gggggggggggg","yyyyyyyyyyyy"],\n' in content
    assert written(dict(reversed(SPECS.items()))) == content
    assert len(json.loads(content)) == 3


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[",
        b"[3]",
        b'[{"specs":{"a":[]}}] x',
        b'[{"specs":{"a":["b"]}}]',
        b'[{"dependencies":[{"name":"zlib"}],"specs":{"a":[]}}]',
        b'[{"dependencies":[{"types":[]}],"specs":{"a":["b"]}}]',
        b'{"a":{"dependencies":[]}}',
    ],
)
def test_what_is_no_graph_is_refused(content: bytes) -> None:
    with pytest.raises(UnreadableDocument, match=r"zlib/graph\.json: is not a recorded graph"):
        read_package_graph(content, "zlib/graph.json")
