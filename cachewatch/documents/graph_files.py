"""The files that hold the dependency graph of a recorded build cache.

`graph.json` of a package says what documents do not say of its specs: one group for those that differ only in which
specs they depend on, and one line for each spec, so that git stores small deltas. `.graph.json` of a tag has the
specs that are no binaries: externals, and dependencies that only builds need.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from cachewatch.core.graph import NAME_LETTERS, Dependency, GraphNode, Ingredients, name_of, shared_names
from cachewatch.documents.limits import MAX_BYTES
from cachewatch.errors import UnreadableDocument

# How a dependency is used: its package, types and virtuals.
_Use = tuple[str, tuple[str, ...], tuple[str, ...]]
# Dependencies by how they are used, and by the name of the spec.
Edges = dict[_Use, dict[str, Dependency]]

encode_record = msgspec.json.Encoder(order="deterministic").encode


class EncodedIngredients(NamedTuple):
    """What a spec was made of, encoded: all but which specs it depends on, and the names of those."""

    made_of: bytes
    dependencies: bytes


class _Used(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A dependency without the spec."""

    name: str
    types: tuple[str, ...] = ()
    virtuals: tuple[str, ...] = ()


class _MadeOf(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Ingredients whose dependencies name no specs."""

    recipe: str = ""
    namespace: str = ""
    external: str = ""
    flags: tuple[str, ...] = ()
    spliced: str = ""
    dependencies: tuple[_Used, ...] = ()


class _Group(_MadeOf, frozen=True, gc=False):
    """Specs that were made of the same, each by its name with those of its dependencies in their order."""

    specs: dict[str, tuple[str, ...]] = {}


class _Edge(msgspec.Struct, frozen=True, gc=False):
    """A dependency as the first graph files wrote it, with the whole hash."""

    name: str
    hash: str
    types: tuple[str, ...] = ()
    virtuals: tuple[str, ...] = ()


class _Record(_MadeOf, frozen=True, gc=False):
    """A spec in the first graph files, which had no groups."""

    dependencies: tuple[_Edge, ...] = ()  # type: ignore[assignment]


_decode_groups = msgspec.json.Decoder(list[_Group]).decode
_decode_records = msgspec.json.Decoder(dict[str, _Record]).decode
_decode_tag = msgspec.json.Decoder(dict[str, GraphNode]).decode


def encode_ingredients(ingredients: Ingredients, shared: frozenset[str] = frozenset()) -> EncodedIngredients:
    """Return what a spec was made of as `write_package_graph` takes it; specs of the index have `shared` names."""
    made_of = _MadeOf(
        ingredients.recipe,
        ingredients.namespace,
        ingredients.external,
        ingredients.flags,
        ingredients.spliced,
        tuple([_Used(edge.name, edge.types, edge.virtuals) for edge in ingredients.dependencies]),
    )
    names = [edge.hash[:NAME_LETTERS] for edge in ingredients.dependencies]
    if not shared.isdisjoint(names):
        names = [name_of(edge.hash, shared) for edge in ingredients.dependencies]
    return EncodedIngredients(encode_record(made_of), encode_record(names))


def write_package_graph(specs: Mapping[str, EncodedIngredients]) -> bytes:
    """Return the `graph.json` of a package with these specs by hash; groups and specs are sorted."""
    shared = shared_names(specs)
    groups: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for spec_hash in sorted(specs):
        made_of, dependencies = specs[spec_hash]
        groups[made_of].append(b'"%s":%s' % (name_of(spec_hash, shared).encode(), dependencies))
    return b"[\n" + b",\n".join(_group(made_of, groups[made_of]) for made_of in sorted(groups)) + b"\n]\n"


def _group(made_of: bytes, specs: list[bytes]) -> bytes:
    start = made_of[:-1] + (b"," if len(made_of) > len(b"{}") else b"")
    return start + b'"specs":{\n' + b",\n".join(specs) + b"\n}}"


def write_tag_graph(nodes: Mapping[str, bytes]) -> bytes:
    """Return the `.graph.json` of a tag with these encoded nodes, sorted by hash."""
    lines = [encode_record(spec_hash) + b": " + nodes[spec_hash] for spec_hash in sorted(nodes)]
    return b"{\n" + b",\n".join(lines) + b"\n}\n"


def read_package_graph(content: bytes, path: str, known: Edges | None = None) -> Mapping[str, Ingredients]:
    """Read the `graph.json` of a package, by name or hash; raises UnreadableDocument where it is none.

    Many specs have the same dependencies: those that are `known` are not made and kept again.
    """
    _check(content, path)
    read = _read_groups if content[:1] == b"[" else _read_records
    try:
        return dict(read(content, {} if known is None else known))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UnreadableDocument(f"{path}: is not a recorded graph ({error})") from error


def _read_groups(content: bytes, known: Edges) -> Iterator[tuple[str, Ingredients]]:
    for group in _decode_groups(content):
        uses = [(sys.intern(used.name), used.types, used.virtuals) for used in group.dependencies]
        edges = [(use, known.setdefault(use, {})) for use in uses]
        for name, dependencies in group.specs.items():
            pairs = zip(edges, dependencies, strict=True)
            yield name, _ingredients(group, tuple([_dependency(use, each, have) for (use, have), each in pairs]))


def _read_records(content: bytes, known: Edges) -> Iterator[tuple[str, Ingredients]]:
    """Read a file of the first form: each spec by its hash, with all that it is made of."""
    for spec_hash, record in _decode_records(content).items():
        uses = [
            ((sys.intern(edge.name), edge.types, edge.virtuals), name_of(edge.hash)) for edge in record.dependencies
        ]
        found = [_dependency(use, name, known.setdefault(use, {})) for use, name in uses]
        yield spec_hash, _ingredients(record, tuple(found))


def _dependency(use: _Use, name: str, known: dict[str, Dependency]) -> Dependency:
    found = known.get(name)
    if found is None:
        found = known[name] = Dependency(use[0], name, *use[1:])
    return found


def _ingredients(made_of: _MadeOf, dependencies: tuple[Dependency, ...]) -> Ingredients:
    return Ingredients(
        recipe=sys.intern(made_of.recipe),
        namespace=sys.intern(made_of.namespace),
        external=made_of.external,
        flags=made_of.flags,
        spliced=made_of.spliced,
        dependencies=dependencies,
    )


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
