"""Twice as much of what a stranger writes takes about twice the processor time, the least of several, and limited memory."""

import gc
import resource
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from conftest import Run
from helpers import Record, document, graph_spec, record, records, write

from cachewatch.config.schedules_and_quiet_times import as_datetime, parse_days, parse_when
from cachewatch.core.escaping_and_mentions import safe
from cachewatch.core.graphs_and_attribution import Cause, Dependency, Explanation, GraphNode, Nodes, What, attribute
from cachewatch.core.kinds_and_specs import Side
from cachewatch.documents import recognition_and_front_matter as limits
from cachewatch.documents.recognition_and_front_matter import read_tags_file
from cachewatch.documents.records_parsing_diagnostics import parse
from cachewatch.documents.spec_nodes_and_graphs import read_package_graph, read_tag_graph
from cachewatch.environments import read_lock, read_manifest
from cachewatch.errors import CachewatchError, DocumentError, UnreadableDocument
from cachewatch.extensions.buildcaches.indexes_and_published_tags import read_index
from cachewatch.extensions.causes.commands import report_lines, revisions_report
from cachewatch.extensions.causes.predecessors_and_causes import Walk

_MOST = 3.0
_ATTEMPTS = 6
_FLOOR = 0.02  # seconds; below that nothing can be compared

_HEAD = b'---\ntitle: "a"\nlayout: cache\ncategories: [package, develop]\nmeta: {}\nspec_details: '

Shape = Callable[[int], bytes]
States = tuple[list[Record], list[Record]]


def details(text: str) -> bytes:
    """Return a document with these details."""
    return _HEAD + text.encode() + b"\n---"


# What no generator writes; n is about the number of bytes.
TEXTS: dict[str, Shape] = {
    "hashes": lambda n: details("[" + '{"hash": "%s"' % ("a" * 32) * (n // 44) + "}x"),
    "hashes in records": lambda n: details("[{" + '"hash": "%s"}, {' % ("a" * 32) * (n // 48) + "}]"),
    "compilers": lambda n: details("[" + '{"compiler": "gcc", ' * (n // 20) + "}]"),
    "compilers in records": lambda n: details('[{"hash": "%s", ' % ("a" * 32) + '"compiler": ' * (n // 12) + "}]"),
    "opened braces": lambda n: details("[" + "{" * n + "]"),
    "opened brackets": lambda n: details("[" * n),
    "pairs of braces": lambda n: details("[" + "{}, " * (n // 4) + "{}]"),
    "short records": lambda n: details("[" + "{ab}, " * (n // 6) + "{ab}]"),
    "different records": lambda n: details("[" + ", ".join(f"{{{i}}}" for i in range(n // 8)) + "]"),
    "quotes": lambda n: details('["' + '\\"' * (n // 2) + '"]'),
    "a list": lambda n: details("[" + "a," * (n // 2) + "a]"),
    "lists": lambda n: details("[" + "[]," * (n // 3) + "[]]"),
    "mappings": lambda n: details("[" + "{}," * (n // 3) + "{}]"),
    "keys": lambda n: details("[{" + ", ".join(f'"{i}": 1' for i in range(n // 11)) + "}]"),
    "repeated keys": lambda n: details("[{" + ", ".join(f'"{i}": 1' for i in range(n // 11)) + ', "0": 1}]'),
    "repeated last key": lambda n: details(
        "[{" + ", ".join(f'"{i}": 1' for i in range(n // 11)) + ', "9": 1, "9": 1}]'
    ),
    "lines": lambda n: b"---\n" + b"a\n" * (n // 2) + b"---",
    "lines of keys": lambda n: b"---\n" + b"".join(b"a%d: 1\n" % i for i in range(n // 10)) + b"---",
    "keys of YAML": lambda n: b"---\na:\n" + b"".join(b"  a%d: 1\n" % i for i in range(n // 12)) + b"  a9: 1\n---",
    "list of YAML": lambda n: b"---\na:\n" + b" - a\n" * (n // 5) + b"---",
    "no front matter": lambda n: b"-" * n,
    "meta": lambda n: _HEAD.replace(b"{}", b'{"versions": [' + b'"a", ' * (n // 5) + b'"b"]}') + b"[]\n---",
}


def names(prefix: str, n: int) -> list[str]:
    """Return n names."""
    return [f"{prefix}{i}" for i in range(n)]


def each(n: int, first: int = 0, **values: str) -> list[Record]:
    """Return n records; in their values, % is the number of the record."""
    lists = ("stacks", "versions", "variants")
    found = []
    for i in range(n):
        own = {name: value.replace("%", str(i)) for name, value in values.items()}
        found.append(record(first + i, **{name: [value] if name in lists else value for name, value in own.items()}))
    return found


# Two states of a package; n is the number of specs or of values.
STATES: dict[str, Callable[[int], States]] = {
    "rebuilt": lambda n: (records(range(n)), records(range(n, 2 * n))),
    "versions up": lambda n: (each(n, versions="1.%"), each(n, n, versions="2.%")),
    "versions up in stacks": lambda n: (each(n, stacks="s%", versions="1.%"), each(n, n, stacks="s%", versions="2.%")),
    "versions lost": lambda n: (each(n, versions="1.%", target="t"), records([n])),
    "versions gained": lambda n: (records([n]), each(n, versions="1.%", target="t")),
    "versions retired": lambda n: ([*each(n, versions="1.%"), record(n, versions=["9"])], [record(n, versions=["9"])]),
    "package gone": lambda n: (each(n, versions="1.%"), []),
    "compilers": lambda n: (each(n, compiler="gcc@1.%"), each(n, n, compiler="gcc@2.%")),
    "systems": lambda n: (each(n, os="a%"), each(n, n, os="b%")),
    "targets": lambda n: (each(n, target="a%"), each(n, n, target="b%")),
    "stacks": lambda n: (each(n, stacks="a%"), each(n, n, stacks="b%")),
    "stacks of one": lambda n: ([record(1, stacks=names("a", n))], [record(2, stacks=names("b", n))]),
    "variants": lambda n: (each(n, variants="+a%"), each(n, n, variants="+b%")),
    "variants of one": lambda n: ([record(1, variants=names("+a", n))], [record(2, variants=names("+b", n))]),
    "variants narrowed": lambda n: (each(2 * n, variants="+a%"), each(n, variants="+a%")),
    "kept elsewhere": lambda n: (each(n, stacks="a%"), each(n, stacks="b%")),
    "unreferenced": lambda n: (records(range(n)), records(range(n), stacks=["root"])),
    "long names": lambda n: ([record(1, versions=["1" * n])], [record(2, versions=["2" * n], variants=["+" * n])]),
    "wide tables": lambda n: (each(n, stacks="a%" + "a" * 100), each(n, n, target="t%" + "t" * 100)),
}
_INDEX = b'{"database": {"version": "7", "installs": {'
_COMPILED = '"dependencies": [{"name": "gcc", "hash": "%", "parameters": {"deptypes": [], "virtuals": ["c"]}}]'
_NODE = '"name": "a", "version": "1", "arch": {"platform": "l", "platform_os": "o", "target": "t"}, "compiler": {}'


def _records(n: int, text: str) -> bytes:
    """Return about n bytes of these records; in each, % is its number."""
    return ",".join(text.replace("%", f"{i:032}") for i in range(n // len(text))).encode()


# What an index may hold; n is about the number of bytes.
INDEXES: dict[str, Shape] = {
    "records": lambda n: _records(n, f'"%": {{"spec": {{{_NODE}}}, "in_buildcache": true}}'),
    "records without blanks": lambda n: _records(n, f'"%":{{"spec":{{{_NODE}}},"in_buildcache":true}}'),
    "compilers": lambda n: _records(n, f'"%": {{"spec": {{{_NODE}, {_COMPILED}}}, "in_buildcache": true}}'),
    "records in a record": lambda n: _one_record(b'"annotations": {%s}' % _records(n, '"%": {"spec": {}}')),
    "others": lambda n: _records(n, '"%": {"spec": {}}'),
    "one hash": lambda n: _records(n, '"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": {"spec": {}}'),
    "escaped hashes": lambda n: _records(n, '"\\u0061%": {"spec": {}}'),
    "escapes": lambda n: b'"a": {"spec": "' + b"\\u0061" * (n // 6) + b'"}',
    "keys in a text": lambda n: b'"a": {"spec": "' + b'\\"aaaaaaaaaaaaaaaa\\"  ' * (n // 22) + b'"}',
    "blanks": lambda n: b'"aaaaaaaaaaaaaaaa"' + b" " * n + b": {}",
    "opened brackets": lambda n: b'"a": ' + b"[" * n,
    "parameters": lambda n: _one_record(b'"parameters": {%s}' % _records(n, '"%": true')),
    "dependencies": lambda n: _one_record(b'"dependencies": [%s]' % _records(n, '{"name": "%", "hash": "%"}')),
    "propagated variants": lambda n: _one_record(_propagated(n)),
}


def _propagated(n: int) -> bytes:
    """Return as many variants, each of which goes on to dependencies."""
    return b'"parameters": {%s}, "propagate": [%s]' % (_records(n // 2, '"%": true'), _records(n // 2, '"%"'))


def _one_record(more: bytes) -> bytes:
    return b'"aaaaaaaaaaaaaaaa": {"spec": {%s, %s}, "in_buildcache": true}' % (_NODE.encode(), more)


# What a recorded graph may hold, of a package or of a tag; n is about the number of bytes.
GRAPHS: dict[str, Shape] = {
    "specs": lambda n: b"{%s}" % _records(n, '"%": {"hash": "%", "name": "a", "recipe": "%"}'),
    "one spec again": lambda n: b'{"a": {}%s}' % (b', "a": {}' * (n // 9)),
    "dependencies": lambda n: _one_graph_node(_records(n, '{"name": "a", "hash": "%"}')),
    "equal dependencies": lambda n: _one_graph_node(
        b'{"name": "a", "hash": "b"}, ' * (n // 28) + b'{"name": "a", "hash": "b"}'
    ),
    "unknown keys": lambda n: b'{"a": {"hash": "a", "name": "a", %s}}' % _records(n, '"%": 1'),
    "flags": lambda n: b'{"a": {"hash": "a", "name": "a", "flags": [%s]}}' % _records(n, '"%"'),
    "opened brackets": lambda n: b'{"a": ' + b"[" * n,
    "opened braces": lambda n: b'{"a": ' * (n // 6),
    "escapes": lambda n: b'{"' + b"\\u0061" * (n // 6) + b'": {"hash": "a", "name": "a"}}',
    "blanks": lambda n: b'{"a": {' + b" " * n + b"}}",
    "no end": lambda n: b'{"a' + b"a" * n,
    "groups": lambda n: b"[%s]" % _records(n, '{"recipe": "%", "specs": {"%": []}}'),
    "specs of a group": lambda n: b'[{"specs": {%s}}]' % _records(n, '"%": []'),
    "a spec of many dependencies": lambda n: _one_group(n // 40, 1),
    "specs of many dependencies": lambda n: _one_group(50, n // 2_000),
    "specs of too many dependencies": lambda n: b'[{"specs": {%s}}]' % _records(n, '"%": ["%", "%"]'),
}


def _one_group(dependencies: int, specs: int) -> bytes:
    """Return a graph of specs with so many dependencies each."""
    used = b",".join([b'{"name": "a"}'] * dependencies)
    made = (b'"%032d": [%s]' % (i, b",".join(b'"%032d"' % (i + n) for n in range(dependencies))) for i in range(specs))
    return b'[{"dependencies": [%s], "specs": {%s}}]' % (used, b",".join(made))


def _one_graph_node(dependencies: bytes) -> bytes:
    """Return a graph of one spec, as either file has it."""
    made_of = b'"dependencies": [%s]' % dependencies
    return b'{"a": {"hash": "a", "name": "a", %s, "ingredients": {%s}}}' % (made_of, made_of)


def _graph(below: Callable[[int], Sequence[int]], n: int, side: str, version: Callable[[int], str]) -> Nodes:
    """Return a graph of n packages, each of which depends on those `below` it."""
    specs = []
    for i in range(n):
        edges = sorted(Dependency(f"p{each}", f"{side}{each}") for each in below(i) if each < n)
        specs.append(graph_spec(f"p{i}", f"{side}{i}", edges, version=version(i)))
    return Nodes({spec.hash: spec for spec in specs})


# On what the spec of a number depends.
WALKS: dict[str, Callable[[int], Sequence[int]]] = {
    "a chain": lambda i: [i + 1],
    "two ways at each step": lambda i: [i + 1, i + 2],
    "a star": lambda i: range(1, 100_000) if i == 0 else [],
    "a tree": lambda i: [2 * i + 1, 2 * i + 2],
    "a ring": lambda i: [i + 1, 0],
    "rings": lambda i: [i + 1, max(0, i - 1)],
}


def _nested_matrices(n: int) -> bytes:
    """Return two matrices of long words, inside another one."""
    words = ", ".join(["a" * (n // 120)] * 30)
    row = f"    - [{{matrix: [[{words}], [{words}]]}}]\n"
    return f"spack:\n  specs:\n  - matrix:\n{row}{row}".encode()


# What an environment may hold, as a lock file or as a manifest.
LOCKS: dict[str, Shape] = {
    "nodes": lambda n: b'{"_meta": {}, "roots": [], "concrete_specs": {%s}}' % _records(n, f'"%": {{{_NODE}}}'),
    "roots": lambda n: (
        b'{"_meta": {}, "roots": [%s], "concrete_specs": {}}' % _records(n, '{"hash": "%", "spec": "a"}')
    ),
    "propagated variants": lambda n: (
        b'{"_meta": {"lockfile-version": 6}, "roots": [], "concrete_specs": {"a": {%s, %s}}}'
        % (_NODE.encode(), _propagated(n))
    ),
    "specs": lambda n: b"spack:\n  specs:\n" + b"  - hdf5@1.2\n" * (n // 13),
    "variants": lambda n: b"spack:\n  specs:\n  - hdf5" + b"+a" * (n // 2),
    "definitions": lambda n: b"spack:\n  definitions:\n" + b"  - a: [$a, $a]\n" * (n // 16) + b"  specs: [$a]\n",
    "matrices in matrices": _nested_matrices,
    "matrix": lambda n: b"spack:\n  specs:\n  - matrix:\n" + b"    - [a, b]\n" * (n // 13),
    "opened brackets": lambda n: b"[" * n,
    "aliases": lambda n: b"a: &a [a, a]\n" + b"b: &b [*a, *a]\n" * (n // 16),
}


FORMATS = ("json", "jsonl", "csv", "text", "markdown", "html", "stat", "show")
TIMED = ("json", "html", "show")  # the others are made of the same


@pytest.mark.slow_cases
@pytest.mark.parametrize("shape", TEXTS)
def test_parsing(shape: str) -> None:
    texts = [TEXTS[shape](n * 50_000) for n in (1, 2, 4)]
    large = TEXTS[shape](1_500_000)

    assert grows_like_its_size([lambda text=text: _parse(text) for text in texts])  # type: ignore[misc]
    assert _peak(lambda: _parse(large)) < 30 * len(large)


@pytest.mark.slow_cases
@pytest.mark.parametrize("shape", ["a list", "lists", "mappings", "keys", "lines of keys", "list of YAML", "quotes"])
def test_memory_of_patience(shape: str) -> None:
    """What is read patiently takes no more than the limits allow, however it is written."""
    text = TEXTS[shape](limits.MAX_PATIENT_BYTES - 1_000)

    assert _peak(lambda: _parse(text)) < 100 * 2**20


def test_tags_file() -> None:
    """The stacks of the tags are read as carefully."""
    files = ["".join(f"a{i}: 1\n" for i in range(n)).encode() + b"a9: 1\na9: 1\n" for n in (8_000, 16_000, 32_000)]

    assert grows_like_its_size([lambda data=data: read_tags_file(data) for data in files])  # type: ignore[misc]
    assert read_tags_file(b"- {name: a, stacks: [b]}\n" * 200_000) == {}


@pytest.mark.slow_cases
@pytest.mark.parametrize("shape", STATES)
def test_comparing_and_telling(shape: str, run: Run, tmp_path: Path) -> None:
    sizes = (200, 400, 800)
    for n in sizes:
        for name, state in zip("ba", STATES[shape](n), strict=True):
            (tmp_path / f"{name}{n}.md").write_bytes(document(state, meta={}))

    for form in TIMED:
        jobs = [lambda n=n, form=form: _tell(run, tmp_path, n, form) for n in sizes]
        assert grows_like_its_size(jobs), form


@pytest.mark.slow_cases
@pytest.mark.parametrize("form", ["json", "text", "html"])
def test_many_packages(form: str, run: Run, tmp_path: Path) -> None:
    sizes = (250, 500, 1_000)
    for n in sizes:
        for folder, first in (("b", 0), ("a", n)):
            for number in range(n):
                content = document([record(first + number, versions=[f"1.{first + number}"])], package=f"p{number}")
                write(tmp_path / f"{folder}{n}", {f"p{number}/specs.md": content})

    jobs = [lambda n=n: run("diff", tmp_path / f"b{n}", tmp_path / f"a{n}", "--format", form) for n in sizes]
    assert grows_like_its_size(jobs)


@pytest.mark.slow_cases
@pytest.mark.parametrize("shape", INDEXES)
def test_index(shape: str) -> None:
    """The index of a build cache is read in time that grows as it does, and in memory that does."""
    indices = [_INDEX + INDEXES[shape](n * 200_000) + b"}}}" for n in (1, 2, 4)]

    assert grows_like_its_size([lambda data=data: _refusing(read_index, data) for data in indices])  # type: ignore[misc]
    assert _peak(lambda: _refusing(read_index, indices[-1])) < 30 * len(indices[-1])


@pytest.mark.slow_cases
@pytest.mark.parametrize("shape", GRAPHS)
@pytest.mark.parametrize("read", [read_package_graph, read_tag_graph])
def test_recorded_graph(read: Callable[[bytes, str], object], shape: str) -> None:
    files = [GRAPHS[shape](n * 200_000) for n in (1, 2, 4)]

    assert grows_like_its_size([lambda data=data: _refusing(read, data) for data in files])  # type: ignore[misc]
    assert _peak(lambda: _refusing(read, files[-1])) < 30 * len(files[-1])


@pytest.mark.slow_cases
@pytest.mark.parametrize("shape", WALKS)
@pytest.mark.parametrize("changed", ["one", "some"])
def test_walk(shape: str, changed: str) -> None:
    """Causes are found in time that grows as both graphs do, however many ways lead to them."""

    def explain(n: int) -> Callable[[], object]:
        every = n - 1 if changed == "one" else n // 20
        before = _graph(WALKS[shape], n, "a", lambda _: "1")
        after = _graph(WALKS[shape], n, "b", lambda i: "2" if i % every == every - 1 else "1")
        return lambda: [(walk := Walk(before, after)).paths("p0", "a0", "b0"), walk.causes("p1", "a1", "b1")]

    assert grows_like_its_size([explain(n) for n in (2_000, 4_000, 8_000)])


@pytest.mark.slow_cases
def test_causes_of_all_specs_of_a_chain() -> None:
    """The causes of each spec of a chain in which every spec changed are found and counted in time that grows as it does."""

    def explain(n: int) -> Callable[[], object]:
        before, after = (_graph(WALKS["a chain"], n, side, (side * n).__getitem__) for side in "ab")

        def job() -> object:
            walk = Walk(before, after)
            return attribute({f"b{i}": walk.causes(f"p{i}", f"a{i}", f"b{i}") for i in range(n)})

        return job

    assert grows_like_its_size([explain(n) for n in (1_500, 3_000, 6_000)])


def test_a_night_is_told() -> None:
    """What is said of a night grows as the number of rebuilt specs does."""
    side = Side(name="x", tag="develop")
    cause = Cause(package="zlib", what=What.VERSION, before="1", after="2")
    gone = GraphNode(hash="b", name="a")
    nodes = (GraphNode(hash=f"a{i}", name="a") for i in range(32_000))
    found = [Explanation(spec=node, predecessor=gone, causes=(cause,)) for node in nodes]

    def tell(n: int) -> Callable[[], object]:
        return lambda: [*report_lines(revisions_report(side, side, found[:n]))]

    assert grows_like_its_size([tell(n) for n in (8_000, 16_000, 32_000)])


@pytest.mark.slow_cases
@pytest.mark.parametrize("shape", LOCKS)
@pytest.mark.parametrize("read", [read_lock, read_manifest])
def test_environment(read: Callable[[bytes, str], object], shape: str) -> None:
    """A lock file and a manifest are read as carefully."""
    files = [LOCKS[shape](n * 50_000) for n in (1, 2, 4)]

    assert grows_like_its_size([lambda data=data: _refusing(read, data) for data in files])  # type: ignore[misc]
    assert _peak(lambda: _refusing(read, files[0])) < 30 * len(files[0]) + 100 * 2**20


@pytest.mark.slow_cases
@pytest.mark.parametrize("shape", ["1", " ", "-", "T", "a", "2025-01-01", "mon ", "mon-fri ", "07:30 ", ", ", ".."])
def test_dates_and_schedules(shape: str) -> None:
    """What people write of time is read or refused in time that grows as it does."""
    for read in (partial(as_datetime, now=datetime(2026, 11, 22, tzinfo=UTC)), parse_when, parse_days):
        texts = [shape * (n * 20_000) for n in (1, 2, 4)]
        assert grows_like_its_size([lambda text=text, read=read: _refusing(read, text) for text in texts])  # type: ignore[misc]


@pytest.mark.slow_cases
@pytest.mark.parametrize("form", FORMATS)
def test_output_grows_like_input(form: str, run: Run, tmp_path: Path) -> None:
    """Wide names and many of them widen no other line."""
    sizes = []
    for n in (200, 400):
        for name, state in zip("ba", STATES["wide tables"](n), strict=True):
            (tmp_path / f"{name}{n}.md").write_bytes(document(state, meta={}))
        sizes.append(len(_tell(run, tmp_path, n, form)))

    assert sizes[1] < _MOST * sizes[0]
    assert sizes[1] < 20 * (tmp_path / "a400.md").stat().st_size


def test_names() -> None:
    """A long name is made harmless in time that grows as it does."""
    texts = ["\u202e\x1b" * n for n in (50_000, 100_000, 200_000)]

    assert grows_like_its_size([lambda text=text: safe(text) for text in texts])  # type: ignore[misc]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (each(limits.MAX_UNLIKE + 1, versions="1.%"), "5,001 specs that differ in more than their hash"),
        ([record(1, stacks=names("s", limits.MAX_STACKS + 1))], "1,001 stacks"),
        ([record(1, stacks=names("s", 200), versions=names("1.", 101))], "20,200 versions in stacks"),
        ([record(1, variants=names("+v", limits.MAX_IN_RECORD + 1))], "a spec of 1,001 variants"),
        ([record(1, versions=names("1.", limits.MAX_IN_RECORD + 1))], "a spec of 1,001 versions"),
        ([record(1, versions=["1" * 1025])], "one of its versions with 1,025 characters; the limit is 1,024"),
        ([record(1, target="t" * 1025)], "one of its targets with 1,025 characters"),
        ([record(1, variants=["v" * 4097])], "one of its variants with 4,097 characters; the limit is 4,096"),
    ],
)
def test_limits(found: list[Record], said: str) -> None:
    """A document above a limit is unreadable, and the sentence says which."""
    with pytest.raises(UnreadableDocument, match=said):
        parse(document(found, meta={}), "specs.md")


def test_a_document_at_the_limits() -> None:
    found = each(limits.MAX_UNLIKE - 1, versions="1.%")
    found.append(record(9_999, stacks=names("s", limits.MAX_STACKS - 1), variants=["v" * limits.MAX_VARIANT]))

    assert len(parse(document(found, meta={}), "specs.md").specs) == limits.MAX_UNLIKE


def test_patience_has_limits() -> None:
    """What is not written as usual may be no larger than any real document, and the sentence says so."""
    with pytest.raises(UnreadableDocument, match="the limit is 1 MiB"):
        parse(TEXTS["a list"](limits.MAX_PATIENT_BYTES), "specs.md")
    with pytest.raises(UnreadableDocument, match="more than 100,000 values in YAML"):
        parse(TEXTS["a list"](400_000), "specs.md")


def test_messages_have_limits() -> None:
    """What is said of a document is short, whatever stands in it."""
    with pytest.raises(UnreadableDocument) as refused:
        parse(b"---\na: !" + b"x" * 10_000 + b" b\n---", "specs.md")
    diagnostics = parse(document(records([1]), meta={"versions": ["v" * 5_000]}), "specs.md").diagnostics

    assert len(str(refused.value)) == limits.MAX_MESSAGE
    assert [len(diagnostic.message) for diagnostic in diagnostics] == [limits.MAX_MESSAGE]


def test_one_document_stops_no_other(run: Run, tmp_path: Path) -> None:
    """A document above a limit is warned of by name, and the rest is compared."""
    for state, number in (("before", 1), ("after", 2)):
        for package, found in (("good", [record(number)]), ("bad", [record(number, target="t" * 2_000)])):
            write(tmp_path / state, {f"{package}/specs.md": document(found, package=package)})
    told = run("diff", tmp_path / "before", tmp_path / "after")

    assert told.exit_code == 4
    assert "REBUILT  1 spec" in told.output
    assert "2,000 characters; the limit is 1,024" in told.error


def _refusing(read: Callable[..., object], data: bytes | str) -> None:
    with suppress(CachewatchError, ValueError):
        read(data, "x") if isinstance(data, bytes) else read(data)


def _parse(text: bytes) -> None:
    with suppress(DocumentError):
        parse(text, "specs.md")


def _tell(run: Run, folder: Path, n: int, form: str) -> str:
    files = (folder / f"b{n}.md", folder / f"a{n}.md")
    how = ("--stat",) if form == "stat" else ("--all", "--format", form)
    told = run("show", files[0]) if form == "show" else run("diff", *files, *how)
    assert told.exit_code == 0, told.error
    return told.output


def grows_like_its_size(jobs: Sequence[Callable[[], object]]) -> bool:
    """Tell whether `jobs`, each twice the one before, take on average less than three times as long from one to the next."""
    jobs[0]()  # what is loaded and remembered once is not counted
    least = [float("inf")] * len(jobs)
    for _ in range(_ATTEMPTS):
        for number, job in enumerate(jobs):
            least[number] = min(least[number], max(_FLOOR, _seconds(job)))
        if least[-1] < least[0] * _MOST ** (len(jobs) - 1):
            return True
    return False


def _seconds(job: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    started = _spent()
    try:
        job()
    finally:
        gc.enable()
    return _spent() - started


def _spent() -> float:
    """Return the seconds of processor time of this process, and of those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _peak(job: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        job()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
