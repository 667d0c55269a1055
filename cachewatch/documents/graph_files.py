"""The files that hold the dependency graph of a recorded build cache; one record a line, so that git stores small deltas.

`graph.json` of a package says what documents do not say of its specs. `.graph.json` of a tag has the
specs that are no binaries: externals, and dependencies that only builds need.
"""

import sys
from collections.abc import Mapping

import msgspec

from cachewatch.core.graph import Dependency, GraphNode, Ingredients
from cachewatch.documents.limits import MAX_BYTES
from cachewatch.errors import UnreadableDocument

# Dependencies by how they are written.
Edges = dict[bytes, Dependency]

encode_record = msgspec.json.Encoder(order="deterministic").encode


class _Record(msgspec.Struct, frozen=True, gc=False):
    """Ingredients whose dependencies are not decoded."""

    recipe: str = ""
    namespace: str = ""
    external: str = ""
    flags: tuple[str, ...] = ()
    spliced: str = ""
    dependencies: tuple[msgspec.Raw, ...] = ()


_decode_package = msgspec.json.Decoder(dict[str, _Record]).decode
_decode_dependency = msgspec.json.Decoder(Dependency).decode
_decode_tag = msgspec.json.Decoder(dict[str, GraphNode]).decode


def write_graph(records: Mapping[str, bytes]) -> bytes:
    """Return a file of these encoded records, sorted by hash."""
    lines = [encode_record(spec_hash) + b": " + records[spec_hash] for spec_hash in sorted(records)]
    return b"{\n" + b",\n".join(lines) + b"\n}\n"


def read_package_graph(content: bytes, path: str, known: Edges | None = None) -> Mapping[str, Ingredients]:
    """Read the `graph.json` of a package, by hash; raises UnreadableDocument where it is none.

    Many specs have the same dependencies: those that are `known` are not decoded and kept again.
    """
    _check(content, path)
    edges: Edges = {} if known is None else known
    try:
        return {spec_hash: _ingredients(record, edges) for spec_hash, record in _decode_package(content).items()}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableDocument(f"{path}: is not a recorded graph ({error})") from error


def _ingredients(record: _Record, known: Edges) -> Ingredients:
    return Ingredients(
        recipe=sys.intern(record.recipe),
        namespace=sys.intern(record.namespace),
        external=record.external,
        flags=record.flags,
        spliced=record.spliced,
        dependencies=tuple([_dependency(bytes(raw), known) for raw in record.dependencies]),
    )


def _dependency(raw: bytes, known: Edges) -> Dependency:
    found = known.get(raw)
    if found is None:
        found = known[raw] = _decode_dependency(raw)
    return found


def read_tag_graph(content: bytes, path: str) -> Mapping[str, GraphNode]:
    """Read the `.graph.json` of a tag, by hash; raises UnreadableDocument where it is none."""
    _check(content, path)
    try:
        return _decode_tag(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableDocument(f"{path}: is not a recorded graph ({error})") from error


def _check(content: bytes, path: str) -> None:
    if len(content) > MAX_BYTES:
        raise UnreadableDocument(f"{path}: larger than {MAX_BYTES // 2**20} MiB, which no recorded graph is")
