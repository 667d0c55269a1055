"""The files that hold the dependency graph of a recorded build cache.

`graph.json` of a package says what documents do not say of its specs: one group for those that differ only in which
specs they depend on, and one line for each spec, so that git stores small deltas. `.graph.json` of a tag has the
specs that are no binaries: externals, and dependencies that only builds need.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from cachewatch.core.causes import NAME_LETTERS, Dependency, GraphNode, Ingredients, Use, name_of, shared_names
from cachewatch.documents.frontmatter import MAX_BYTES
from cachewatch.errors import UnreadableDocument

# What a spec was made of, and the names of the specs it depends on.
MadeOf = tuple[Ingredients, tuple[str, ...]]

_encode = msgspec.json.Encoder(order="deterministic").encode


class EncodedIngredients(NamedTuple):
    """What a spec was made of, encoded: all but which specs it depends on, and the names of those."""

    made_of: bytes
    dependencies: bytes


class _Group(Ingredients, frozen=True, gc=False):
    """Specs that were made of the same, each by its name with those of its dependencies in the order of their uses."""

    specs: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class _GraphRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Ingredients with the dependencies, in the file of a tag."""

    recipe: str = ""
    namespace: str = ""
    external: str = ""
    flags: tuple[str, ...] = ()
    spliced: str = ""
    dependencies: tuple[Dependency, ...] = ()


class _TagNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A spec in the file of a tag."""

    hash: str
    name: str
    version: str = ""
    compiler: str = ""
    os: str = ""
    target: str = ""
    variants: tuple[str, ...] = ()
    ingredients: _GraphRecord = _GraphRecord()


_decode_groups = msgspec.json.Decoder(list[_Group]).decode
_decode_tag = msgspec.json.Decoder(dict[str, _TagNode]).decode


def encode_ingredients(made_of: MadeOf, shared: frozenset[str] = frozenset()) -> EncodedIngredients:
    """Return what a spec was made of as `write_package_graph` takes it; specs of the index have `shared` names."""
    ingredients, below = made_of
    names = [spec_hash[:NAME_LETTERS] for spec_hash in below]
    if not shared.isdisjoint(names):
        names = [name_of(spec_hash, shared) for spec_hash in below]
    return EncodedIngredients(_encode(ingredients), _encode(names))


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


def encode_node(node: GraphNode) -> bytes:
    """Return a spec that is no binary as `write_tag_graph` takes it."""
    made_of = node.ingredients
    record = _GraphRecord(
        recipe=made_of.recipe,
        namespace=made_of.namespace,
        external=made_of.external,
        flags=made_of.flags,
        spliced=made_of.spliced,
        dependencies=tuple(node.dependencies),
    )
    found = _TagNode(
        hash=node.hash,
        name=node.name,
        version=node.version,
        compiler=node.compiler,
        os=node.os,
        target=node.target,
        variants=node.variants,
        ingredients=record,
    )
    return _encode(found)


def write_tag_graph(nodes: Mapping[str, bytes]) -> bytes:
    """Return the `.graph.json` of a tag with these encoded nodes, sorted by hash."""
    lines = [_encode(spec_hash) + b": " + nodes[spec_hash] for spec_hash in sorted(nodes)]
    return b"{\n" + b",\n".join(lines) + b"\n}\n"


def read_package_graph(content: bytes, path: str) -> Mapping[str, MadeOf]:
    """Read the `graph.json` of a package, by name or hash; raises UnreadableDocument where it is none."""
    _check(content, path)
    try:
        return dict(_read_groups(content))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UnreadableDocument(f"{path}: is not a recorded graph ({error})") from error


def _read_groups(content: bytes) -> Iterator[tuple[str, MadeOf]]:
    for group in _decode_groups(content):
        ingredients, count = _interned(group, group.uses), len(group.uses)
        for name, below in group.specs.items():
            if len(below) != count:
                raise ValueError(f"{name!a} has {len(below)} dependencies, and others like it {count}")
            yield name, (ingredients, below)


def _interned(made_of: Ingredients | _GraphRecord, uses: Iterable[Use]) -> Ingredients:
    return Ingredients(
        recipe=sys.intern(made_of.recipe),
        namespace=sys.intern(made_of.namespace),
        external=made_of.external,
        flags=made_of.flags,
        spliced=made_of.spliced,
        uses=tuple([Use(sys.intern(use.name), use.types, use.virtuals) for use in uses]),
    )


def read_tag_graph(content: bytes, path: str) -> Mapping[str, GraphNode]:
    """Read the `.graph.json` of a tag, by hash; raises UnreadableDocument where it is none."""
    _check(content, path)
    try:
        return {spec_hash: _node(node) for spec_hash, node in _decode_tag(content).items()}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableDocument(f"{path}: is not a recorded graph ({error})") from error


def _node(found: _TagNode) -> GraphNode:
    return GraphNode(
        hash=found.hash,
        name=found.name,
        version=found.version,
        compiler=found.compiler,
        os=found.os,
        target=found.target,
        variants=found.variants,
        ingredients=_interned(found.ingredients, [edge.use for edge in found.ingredients.dependencies]),
        below=tuple([edge.hash for edge in found.ingredients.dependencies]),
    )


def _check(content: bytes, path: str) -> None:
    if len(content) > MAX_BYTES:
        raise UnreadableDocument(f"{path}: larger than {MAX_BYTES // 2**20} MiB, which no recorded graph is")
