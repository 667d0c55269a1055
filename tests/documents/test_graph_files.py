"""The files of the dependency graph: groups of specs, and short names of dependencies."""

import json

import pytest
from graph_specs import made_of

from cachewatch.core.graphs_and_attribution import Dependency
from cachewatch.documents.spec_nodes_and_graphs import (
    MadeOf,
    encode_ingredients,
    read_package_graph,
    write_package_graph,
)
from cachewatch.errors import UnreadableDocument

ONE, TWO = "a" * 32, "b" * 32
GCC = Dependency("gcc", "g" * 12, ("build",), ("c", "cxx"))
ZLIB, OTHER_ZLIB = Dependency("zlib", "y" * 12, ("link",)), Dependency("zlib", "z" * 32, ("link",))
SPECS = {
    ONE: made_of((GCC, ZLIB), recipe="r", namespace="builtin", flags=("cflags=-O2",)),
    TWO: made_of((GCC, OTHER_ZLIB), recipe="r", namespace="builtin", flags=("cflags=-O2",)),
    "c" * 32: made_of(recipe="s", external="/usr", spliced="x"),
    "d" * 32: made_of(),
}


def written(specs: dict[str, MadeOf]) -> bytes:
    """Return the file of these specs."""
    return write_package_graph(
        {spec_hash: encode_ingredients(each, frozenset({"z" * 12})) for spec_hash, each in specs.items()}
    )


def test_what_was_written_is_read() -> None:
    """Specs have short names; what specs have in common is written once, and each spec has a line."""
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
    """With the name of the file; a spec must name as many dependencies as its group has."""
    with pytest.raises(UnreadableDocument, match=r"zlib/graph\.json: is not a recorded graph"):
        read_package_graph(content, "zlib/graph.json")
