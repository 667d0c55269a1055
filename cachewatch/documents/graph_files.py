"""The files that hold the dependency graph of a recorded build cache.

`graph.json` of a package says what documents do not say of its specs: one group for those that differ only in which
specs they depend on, and one line for each spec, so that git stores small deltas. `.graph.json` of a tag has the
specs that are no binaries: externals, and dependencies that only builds need.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from cachewatch.core.causes import NAME_LETTERS, GraphNode, Ingredients, Use, name_of, shared_names
from cachewatch.documents.frontmatter import MAX_BYTES
from cachewatch.errors import UnreadableDocument

# What a spec was made of, and the names of the specs it depends on.
MadeOf = tuple[Ingredients, tuple[str, ...]]

_Read = TypeVar("_Read")

_encode = msgspec.json.Encoder(order="deterministic").encode


class EncodedIngredients(NamedTuple):
    """What a spec was made of, encoded: all but which specs it depends on, and the names of those."""

    made_of: bytes
    dependencies: bytes


class _Group(Ingredients, frozen=True, gc=False):
    """Specs that were made of the same, each by its name with those of its dependencies in the order of their uses."""

    specs: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


_decode_groups = msgspec.json.Decoder(list[_Group]).decode
_decode_tag = msgspec.json.Decoder(dict[str, GraphNode]).decode


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
    return _encode(node)


def write_tag_graph(nodes: Mapping[str, bytes]) -> bytes:
    """Return the `.graph.json` of a tag with these encoded nodes, sorted by hash."""
    lines = [_encode(spec_hash) + b": " + nodes[spec_hash] for spec_hash in sorted(nodes)]
    return b"{\n" + b",\n".join(lines) + b"\n}\n"


def read_package_graph(content: bytes, path: str) -> Mapping[str, MadeOf]:
    """Read the `graph.json` of a package, by name or hash; raises UnreadableDocument where it is none."""
    return _read(content, path, _groups)


def read_tag_graph(content: bytes, path: str) -> Mapping[str, GraphNode]:
    """Read the `.graph.json` of a tag, by hash; raises UnreadableDocument where it is none."""
    return _read(content, path, _nodes)


def _read(content: bytes, path: str, read: Callable[[bytes], Iterable[tuple[str, _Read]]]) -> Mapping[str, _Read]:
    if len(content) > MAX_BYTES:
        raise UnreadableDocument(f"{path}: larger than {MAX_BYTES // 2**20} MiB, which no recorded graph is")
    try:
        return dict(read(content))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UnreadableDocument(f"{path}: is not a recorded graph ({error})") from error


def _groups(content: bytes) -> Iterator[tuple[str, MadeOf]]:
    for group in _decode_groups(content):
        ingredients = _interned(group)
        for name, below in group.specs.items():
            _check(name, ingredients, below)
            yield name, (ingredients, below)


def _nodes(content: bytes) -> Iterator[tuple[str, GraphNode]]:
    for spec_hash, node in _decode_tag(content).items():
        _check(spec_hash, node.ingredients, node.below)
        yield spec_hash, msgspec.structs.replace(node, ingredients=_interned(node.ingredients))


def _check(name: str, made_of: Ingredients, below: tuple[str, ...]) -> None:
    if len(below) != len(made_of.uses):
        raise ValueError(f"{name!a} has {len(below)} dependencies, and {len(made_of.uses)} uses")


def _interned(made_of: Ingredients) -> Ingredients:
    return Ingredients(
        recipe=sys.intern(made_of.recipe),
        namespace=sys.intern(made_of.namespace),
        external=made_of.external,
        flags=made_of.flags,
        spliced=made_of.spliced,
        uses=tuple([Use(sys.intern(use.name), use.types, use.virtuals) for use in made_of.uses]),
    )
