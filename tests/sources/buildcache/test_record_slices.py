"""Reading an index record by record: what is found is what reading it as a whole finds, with far less memory."""

import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from caches import binaries, database, edge, installs, many, node, write_v3
from conftest import Run
from helpers import spec_hash

from cachewatch.errors import SourceError
from cachewatch.extensions.buildcaches import index as index_module
from cachewatch.extensions.buildcaches import records as record_slices
from cachewatch.extensions.buildcaches.index import read_index
from cachewatch.extensions.buildcaches.records import NotSliced, RecordSlices

KEY = "z" * 32


def compact(found: dict[str, Any], version: object = "8") -> bytes:
    """Return an index without blanks, as Spack 1.0 writes it."""
    return json.dumps({"database": {"version": version, "installs": found}}, separators=(",", ":")).encode()


def answer(content: bytes) -> object:
    """Return all that reading an index finds, or the reason why it cannot be read."""
    try:
        index = read_index(content, "x", wants_graph=True)
    except SourceError as error:
        return str(error)
    specs = [spec for package in index.specs.packages for spec in index.specs.read(package)]
    return index.version, index.others, specs, index.diagnostics, index.other_nodes


def whole(content: bytes, monkeypatch: pytest.MonkeyPatch) -> object:
    """Return the same where the index is decoded as a whole."""
    with monkeypatch.context() as patch:
        patch.setattr(index_module, "RecordSlices", lambda _: (_ for _ in ()).throw(NotSliced))
        return answer(content)


FOUR = installs(
    node("hdf5", dependencies=[edge("zlib", spec_hash(1))]), node(), node("cmake", "3", external={}), node()
)
ODD: dict[str, Any] = {"annotations": {KEY: {"spec": 1}}}
TEXT = json.dumps(f'"{KEY}":{{"spec"')

ODD_INDEXES = {
    "a key in a record": compact(installs(node(**ODD), node())),
    "a key in a text": compact(installs(node(version=f'1"{KEY}":{{"spec"'), node())),
    "a record within a record": compact(FOUR).replace(
        b'"ref_count":0', b'"%s":{"spec":{}},"ref_count":0' % KEY.encode()
    ),
    "no comma": compact(FOUR).replace(b"true},", b"true} "),
    "two commas": compact(FOUR).replace(b"true},", b"true},,"),
    "a comma at the end": compact(FOUR).replace(b"}}}}", b"},}}}"),
    "a record that ends early": compact(FOUR).replace(b'"ref_count":0,', b'"ref_count":0},'),
    "a record that ends early and is wrong before": compact(FOUR).replace(
        b'"in_buildcache":true', b'"in_buildcache":3}'
    ),
    "a record that is wrong": compact(FOUR).replace(b'"in_buildcache":true', b'"in_buildcache":3'),
    "a node that is wrong": compact(installs(node(), node(version=[1]), node())),
    "an old node": compact(installs(node(), {"zlib": node()}, node())),
    "a record without a spec": compact(FOUR | {KEY: {"in_buildcache": True}}),
    "another order": compact({key: dict(reversed(record.items())) for key, record in FOUR.items()}),
    "a key that is no hash": compact(FOUR | {"KEY": FOUR[spec_hash(0)]}),
    "an escaped key": compact(FOUR).replace(spec_hash(2).encode(), b"\\u0061" + spec_hash(2)[1:].encode()),
    "a hash that stands twice": compact(FOUR).replace(
        spec_hash(1).encode() + b'":{"spec"', spec_hash(3).encode() + b'":{"spec"'
    ),
    "a second list": compact(FOUR)[:-2] + b',"installs":{}}}',
    "a second list after it": compact(FOUR)[:-2] + b',"installs":' + json.dumps(many(2)).encode() + b"}}",
    "a list before it": compact(FOUR).replace(b'"installs":', b'"installs":{"x":{}},"installs":', 1),
    "the list elsewhere": compact(FOUR).replace(b'{"version"', b'{"other":{"installs":1},"version"', 1),
    "no version": compact(FOUR).replace(b'"version":"8",', b"", 1),
    "the version at the end": json.dumps({"database": {"installs": FOUR, "version": "7"}}).encode(),
    "lines": json.dumps({"database": {"version": 8, "installs": FOUR}}, indent=1).encode(),
    "blanks at the end": compact(FOUR) + b" \n" * 500,
    "cut off": compact(FOUR)[:-400],
    "more at the end": compact(FOUR) + b"x",
    "other text": TEXT.encode(),
    "nothing": compact({}),
    "bytes that are no text": compact(FOUR).replace(b"hdf5", b"hdf\xff"),
    "a NUL": compact(installs(node(version="1\0"), node())),
}


@pytest.mark.parametrize("kind", ODD_INDEXES)
def test_what_is_found_is_what_reading_as_a_whole_finds(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the index is written, and wherever it is damaged."""
    content = ODD_INDEXES[kind]

    assert answer(content) == whole(content, monkeypatch)


@pytest.mark.parametrize("seed", range(30))
def test_damaged_anywhere(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte less, more or another, anywhere."""
    chosen, content = random.Random(seed), bytearray(compact(FOUR))
    for _ in range(40):
        place = chosen.randrange(len(content))
        damaged = bytes(content[:place] + chosen.choice([b"", b"}", b'"', b",", b"{", b"x"]) + content[place + 1 :])
        assert answer(damaged) == whole(damaged, monkeypatch), damaged


@pytest.mark.parametrize("content", [compact(FOUR), database(FOUR)], ids=["compact", "blanks"])
def test_records_are_cut_out_of_what_spack_writes(content: bytes) -> None:
    """Each is found by its hash."""
    records = RecordSlices(content)

    assert {key: json.loads(bytes(record)) for key, record in records.items()} == FOUR
    assert json.loads(bytes(records.find(spec_hash(2)) or b"")) == FOUR[spec_hash(2)]
    assert (len(records), records.find(KEY), records.version) == (5, None, "8")


def test_reading_takes_a_fraction_of_the_size() -> None:
    """The records are in a temporary file, and not in memory."""
    content = compact(installs(*(node(f"p{number % 300}", annotations={"a": "b" * 300}) for number in range(6000))))
    read_index(compact(FOUR), "x", wants_graph=True)
    tracemalloc.start()
    index = read_index(content, "x", wants_graph=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert len(index.specs) == 6000
    assert peak < 0.35 * len(content)


def test_no_room_for_the_temporary_file(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence that says where there is none."""
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **options: Path("/dev/full").open("r+b", **options))  # noqa: SIM115
    write_v3(tmp_path / "mirror", compact(FOUR))
    found = run("record", tmp_path / "mirror", "--into", tmp_path / "catalogue.git")

    assert (found.exit_code, "Traceback" in found.error) == (3, False)
    assert "No space left on device, so the index cannot be read; TMPDIR names another" in found.error


def test_a_node_that_is_read_has_its_dependencies_in_any_form() -> None:
    """Lists and mappings, with the uses beside the hash or below `parameters`."""
    forms: list[Any] = [
        [edge("zlib", KEY, "libz")],
        [{"name": "zlib", "hash": KEY, "type": ["build"], "virtuals": ["libz"]}],
        {"zlib": {"hash": KEY, "type": ["build"], "virtuals": ["libz"]}},
        [
            {"name": "zlib", "hash": KEY, "parameters": None, "deptypes": ["build"], "virtuals": ["libz"]},
            3,
            {"name": 1},
        ],
    ]
    found = [
        read_index(
            compact({spec_hash(0): {"spec": node(dependencies=form), "in_buildcache": True}}), "x", wants_graph=True
        )
        for form in forms
    ]
    graphs = {spec.ingredients for index in found for spec in index.specs.read("zlib")}

    assert [len(binaries(index)) for index in found] == [1, 1, 1, 1]
    assert len(graphs) == 1


@pytest.mark.parametrize("is_sliced", [True, False])
def test_names_that_hashes_share(is_sliced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve letters name a spec, but where two hashes of the index have them; many such are found in a mapping."""
    keys = ["a" * 31 + letter for letter in "xyz"]
    content = compact({key: FOUR[spec_hash(1)] for key in (*keys, KEY, spec_hash(1))})
    records = RecordSlices(content)

    assert records.shared == {"a" * 12}
    assert [records.find(key) is not None for key in (*keys, "a" * 32)] == [True, True, True, False]
    if not is_sliced:
        monkeypatch.setattr(record_slices, "_MOST_ALIKE", 2)
        with pytest.raises(NotSliced):
            RecordSlices(content)
    zlib = installs(*(node("hdf5", dependencies=[edge("zlib", key)]) for key in (*keys, KEY)))
    index = read_index(compact(zlib | {key: FOUR[spec_hash(1)] for key in (*keys, KEY)}), "x", wants_graph=True)
    found = [spec.ingredients for spec in index.specs.read("hdf5")]
    assert [json.loads(each.dependencies) for each in found if each] == [[key] for key in keys] + [["z" * 12]]
