"""The files that hold the dependency graph of a recorded build cache; one record a line, so that git stores small deltas.

`graph.json` of a package says what documents do not say of its specs. `.graph.json` of a tag has the
specs that are no binaries: externals, and dependencies that only builds need.
"""

from collections.abc import Mapping

import msgspec

from cachewatch.core.graph import GraphNode, Ingredients
from cachewatch.documents.limits import MAX_BYTES
from cachewatch.errors import UnreadableDocument

encode_record = msgspec.json.Encoder(order="deterministic").encode

_decode_package = msgspec.json.Decoder(dict[str, Ingredients]).decode
_decode_tag = msgspec.json.Decoder(dict[str, GraphNode]).decode


def write_graph(records: Mapping[str, bytes]) -> bytes:
    """Return a file of these encoded records, sorted by hash."""
    lines = [encode_record(spec_hash) + b": " + records[spec_hash] for spec_hash in sorted(records)]
    return b"{\n" + b",\n".join(lines) + b"\n}\n"


def read_package_graph(content: bytes, path: str) -> Mapping[str, Ingredients]:
    """Read the `graph.json` of a package, by hash; raises UnreadableDocument where it is none."""
    _check(content, path)
    try:
        return _decode_package(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableDocument(f"{path}: is not a recorded graph ({error})") from error


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
